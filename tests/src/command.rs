//! The `keyway` command as a process.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;

use crate::wait;

/// A signal takes effect at once, on a machine that is not stuck.
const PATIENCE: Duration = Duration::from_secs(30);

/// The command of this workspace, built with the profile of this test.
pub fn keyway() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| built(&["--bin", "keyway"], "keyway"))
}

/// The example `member` of this crate, built likewise.
pub(crate) fn member() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| built(&["--example", "member"], "examples/member"))
}

/// The program `enrichment` among the examples, built likewise.
pub fn enrichment() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| built(&["--example", "enrichment"], "examples/enrichment"))
}

/// The program `forum` among the examples, built likewise.
pub fn forum() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| built(&["--example", "forum"], "examples/forum"))
}

/// Builds `what` and answers where it lies. For the whole workspace, as its tests are built: for one package alone cargo
/// would build what it depends on once more, with fewer features.
fn built(what: &[&str], place: &str) -> PathBuf {
    // target/<profile>/deps/<test>-..
    let test = env::current_exe().expect("the system knows what runs");
    let profile = test
        .ancestors()
        .nth(2)
        .expect("a test lies in its profile's directory");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["build", "--quiet", "--workspace"])
        .args(what)
        .args(profile.ends_with("release").then_some("--release"))
        .arg("--target-dir")
        .arg(
            profile
                .parent()
                .expect("a profile's directory lies in the target's"),
        )
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    // What cargo says of this package would have build scripts run again that look at it, and half the tree with them.
    for (name, _) in env::vars_os() {
        let of_package = ["CARGO_MANIFEST_", "CARGO_PKG_"];
        if of_package
            .iter()
            .any(|prefix| name.to_string_lossy().starts_with(prefix))
        {
            cargo.env_remove(name);
        }
    }
    let status = cargo.status().expect("cargo runs this test");
    assert!(status.success(), "not built: {cargo:?}");
    profile.join(place)
}

/// How a command ended that answers with JSON.
#[derive(Debug)]
pub struct Answered {
    /// The exit code.
    pub code: i32,
    /// What it wrote to stdout.
    pub json: Value,
    /// What it wrote to stderr.
    pub said: String,
}

/// Runs the command to its end.
///
/// # Panics
/// When it is killed by a signal, or does not answer with JSON.
pub fn answer(arguments: &[&str]) -> Answered {
    let output = output(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let code = output.status.code();
    Answered {
        code: code.unwrap_or_else(|| panic!("{arguments:?}: {}\n{said}", output.status)),
        json: serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {output:?}")),
        said,
    }
}

fn output(arguments: &[&str]) -> Output {
    Command::new(keyway())
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("it was built a moment ago")
}

/// Sends a process of ours a signal, as `kill -NAME` does.
pub(crate) fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill")
        .args([format!("-{name}"), child.id().to_string()])
        .status()
        .expect("every system has kill");
    assert!(sent.success(), "{name} was not sent: {sent}");
}

/// Stops a process of ours as SIGSTOP does, and waits until it stands still.
pub(crate) fn pause(child: &Child) {
    signal(child, "STOP");
    wait::until("a process that stands still", PATIENCE, || {
        let pid = child.id().to_string();
        let state = Command::new("ps")
            .args(["-o", "stat=", "-p", &pid])
            .output();
        let state = state.expect("every system has ps").stdout;
        state.starts_with(b"T").then_some(())
    });
}

/// A running command; killed when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
}

impl Running {
    /// Starts it; what it answers is dropped.
    pub fn start(arguments: &[&str]) -> Running {
        Running::program(keyway(), arguments)
    }

    /// Starts another program of ours; what it answers is dropped.
    pub fn program(path: &Path, arguments: &[&str]) -> Running {
        let child = Command::new(path)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Running { child }
    }

    /// Sends it a signal, as `kill -NAME` does.
    pub fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// Stops it as SIGSTOP does, and waits until it stands still.
    pub fn pause(&self) {
        pause(&self.child);
    }

    /// Ends a pause.
    pub fn resume(&self) {
        self.signal("CONT");
    }

    /// Its end, if that has come.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("it is our child")
    }

    /// Kills it with SIGKILL and waits until it is gone.
    pub fn kill(mut self) {
        self.child.kill().expect("it is our child");
        self.child.wait().expect("it is our child");
    }

    /// Waits for its end.
    pub fn join(mut self, at_most: Duration) -> ExitStatus {
        wait::until("the end of the command", at_most, || self.ended())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails when it has ended, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
