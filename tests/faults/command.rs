//! The `keyway` command as a process.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use keyway_tests::wait;

/// The command of this workspace, built with the profile of this test.
pub(crate) fn keyway() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        // target/<profile>/deps/faults-..
        let test = env::current_exe().expect("the system knows what runs");
        let profile = test
            .ancestors()
            .nth(2)
            .expect("a test lies in its profile's directory");
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo
            .args(["build", "--quiet", "-p", "keyway-cli", "--bin", "keyway"])
            .args(profile.ends_with("release").then_some("--release"))
            .arg("--target-dir")
            .arg(
                profile
                    .parent()
                    .expect("a profile's directory lies in the target's"),
            )
            .current_dir(env!("CARGO_MANIFEST_DIR"));
        let built = cargo.status().expect("cargo runs this test");
        assert!(built.success(), "the command was not built: {cargo:?}");
        profile.join("keyway")
    })
}

/// A running command; killed when dropped.
pub(crate) struct Running {
    child: Child,
}

impl Running {
    pub(crate) fn start(arguments: &[&str]) -> Running {
        let child = Command::new(keyway())
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("it was built a moment ago");
        Running { child }
    }

    /// Its end, if that has come.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("it is our child")
    }

    /// Kills it with SIGKILL and waits until it is gone.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it is our child");
        self.child.wait().expect("it is our child");
    }

    /// Waits for its end.
    pub(crate) fn join(mut self, at_most: Duration) -> ExitStatus {
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
