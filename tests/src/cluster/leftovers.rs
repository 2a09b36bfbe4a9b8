//! Removes containers when this process is gone, however it went.
//!
//! Values in a `static` are never dropped, and a killed process drops nothing. So one small process of ours reads
//! names from a pipe; the pipe's end says that we are gone, and what was named is removed. A name is handed over
//! *before* the thing exists, so there is no moment in which it could be forgotten.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;

/// Containers first: a network in use can't be removed. Failures mean that the thing is gone already.
const SCRIPT: &str = r#"
containers= networks=
while read -r kind name; do
    case $kind in
        container) containers="$containers $name" ;;
        network) networks="$networks $name" ;;
    esac
done
[ -z "$containers" ] || docker rm --force --volumes $containers
[ -z "$networks" ] || docker network rm $networks
"#;

/// A container to be removed at the end of this process, or when it fails to be removed before.
pub(super) fn container(name: &str) {
    note("container", name);
}

/// A network to be removed after the containers.
pub(super) fn network(name: &str) {
    note("network", name);
}

fn note(kind: &str, name: &str) {
    static UNDERTAKER: Mutex<Option<(Child, ChildStdin)>> = Mutex::new(None);
    let mut undertaker = UNDERTAKER.lock().expect("nobody panics while holding it");
    let (_, pipe) = undertaker.get_or_insert_with(spawn);
    writeln!(pipe, "{kind} {name}").expect("it reads until we are gone");
}

fn spawn() -> (Child, ChildStdin) {
    let mut shell = Command::new("sh");
    // A process group of its own: an interrupt from the terminal ends us and not it.
    shell
        .args(["-c", SCRIPT])
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = shell.spawn().expect("a shell is there");
    let pipe = child.stdin.take().expect("stdin is piped");
    (child, pipe)
}
