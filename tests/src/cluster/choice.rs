//! Which way a cluster comes to be, and what is missing where a way is not possible.

use std::env;
use std::fmt;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use crate::java;

/// Names a running cluster: `host:port,host:port`.
pub(super) const BROKERS: &str = "KEYWAY_BROKERS";
/// Forces one way: `env`, `docker` or `process`.
const FORCED: &str = "KEYWAY_CLUSTER";

/// How a cluster comes to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// `KEYWAY_BROKERS` names it.
    Named,
    /// testcontainers on a Docker engine.
    Docker,
    /// Plain processes, from the broker's jars on Maven Central.
    Process,
}

impl Way {
    /// Whether this way is open on this machine; otherwise what is missing.
    pub fn possible(self) -> Result<(), String> {
        match self {
            Way::Named => named_brokers()
                .map(drop)
                .ok_or_else(|| format!("{BROKERS} is not set")),
            Way::Docker => docker_answers(),
            Way::Process => java::available(),
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Way::Named => "env",
            Way::Docker => "docker",
            Way::Process => "process",
        })
    }
}

/// The cluster that the environment names, unless another way is forced.
pub(super) fn named_brokers() -> Option<String> {
    let brokers = env::var(BROKERS).ok().filter(|brokers| !brokers.is_empty());
    match forced() {
        Some(Way::Named) => {
            Some(brokers.unwrap_or_else(|| panic!("{FORCED}=env, but {BROKERS} is not set")))
        }
        Some(_) => None,
        None => brokers,
    }
}

/// The way for a cluster of the test's own.
pub(super) fn for_own_cluster() -> Way {
    match forced() {
        Some(Way::Named) => panic!(
            "this test needs a cluster with settings of its own, which {FORCED}=env rules out"
        ),
        Some(way) => way,
        None => {
            let refused = |way: Way| way.possible().map(|()| way);
            refused(Way::Docker).or_else(|no_docker| {
                refused(Way::Process).map_err(|no_process| {
                    format!(
                        "no Kafka cluster to test against. Any one of these is enough:\n  \
                     {BROKERS}=host:port of a running one: not set, or not enough for this test\n  \
                     a Docker engine: {no_docker}\n  a JDK and Maven: {no_process}"
                    )
                })
            })
        }
        .unwrap_or_else(|nothing| panic!("{nothing}")),
    }
}

fn forced() -> Option<Way> {
    match env::var(FORCED).ok()?.as_str() {
        "" => None,
        "env" => Some(Way::Named),
        "docker" => Some(Way::Docker),
        "process" => Some(Way::Process),
        other => panic!("{FORCED}={other}: it is env, docker or process"),
    }
}

fn docker_answers() -> Result<(), String> {
    let mut version = Command::new("docker");
    version
        .args(["version", "--format", "{{.Server.Version}}"])
        .stdin(Stdio::null());
    match version.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!(
            "`docker version`: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )),
        Err(error) => Err(format!("`docker` does not run: {error}")),
    }
}

/// Says once a process which way was taken. Written past libtest's capture, so that it is seen without `--nocapture`.
pub(super) fn announce(way: Way) {
    static SAID: Mutex<Vec<Way>> = Mutex::new(Vec::new());
    let mut said = SAID.lock().expect("nobody panics while holding it");
    if !said.contains(&way) {
        said.push(way);
        let how = match way {
            Way::Named => format!("the cluster that {BROKERS} names"),
            Way::Docker => "testcontainers on the Docker engine".to_owned(),
            Way::Process => "broker processes from the jars on Maven Central".to_owned(),
        };
        // A closed stderr is no reason to fail a test.
        let _ = writeln!(
            std::io::stderr(),
            "keyway-tests: Kafka by way of `{way}`: {how}"
        );
    }
}
