//! The Java side: projects of `tests/java`, built by Maven once and then used by every test process.
//!
//! A project is built into Cargo's target directory, next to a stamp that holds the files it was built from. While the
//! stamp says the same as the sources nothing is done; one process builds and the others wait for it.

mod lock;

use std::env;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A Maven project under `tests/java`.
#[derive(Debug)]
pub struct Project {
    name: &'static str,
    /// What is asked of Maven.
    goals: &'static [&'static str],
    /// The files that the result depends on.
    sources: &'static [&'static str],
}

/// The jars of an Apache Kafka broker.
pub const BROKER: Project = Project {
    name: "broker",
    goals: &["dependency:copy-dependencies"],
    sources: &["pom.xml"],
};

/// Java's Parallel Consumer behind a small command line.
pub const INTEROP: Project = Project {
    name: "interop",
    goals: &["compile", "dependency:copy-dependencies"],
    sources: &[
        "pom.xml",
        "src/main/java/keyway/interop/PeerConsumer.java",
        "src/main/java/keyway/interop/PeerProducer.java",
    ],
};

impl Project {
    /// Where its sources are.
    pub fn directory(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("java")
            .join(self.name)
    }
}

/// Whether a JDK and Maven are there; otherwise which one is not.
pub fn available() -> Result<(), String> {
    let runs = |name: &str, flag: &str| {
        let output = Command::new(program(name))
            .arg(flag)
            .stdin(Stdio::null())
            .output();
        match output {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => Err(format!(
                "`{name} {flag}`: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            )),
            Err(error) => Err(format!("`{name}` does not run: {error}")),
        }
    };
    runs("java", "-version")?;
    runs("javac", "-version").map_err(|why| format!("a JDK is needed, not only a JRE: {why}"))?;
    runs("mvn", "-version")
}

/// A program of the JDK that `JAVA_HOME` names, otherwise the one on the path; `mvn` always from the path.
pub fn program(name: &str) -> PathBuf {
    env::var_os("JAVA_HOME")
        .map(|home| PathBuf::from(home).join("bin").join(name))
        .filter(|program| program.is_file())
        .unwrap_or_else(|| name.into())
}

/// The directory with what Maven made of the project: `libs/` with the jars, `classes/` with its own.
///
/// # Panics
/// When it can't be built, with what Maven said.
pub fn built(project: &Project) -> PathBuf {
    let out = target_directory().join("keyway-java").join(project.name);
    fs::create_dir_all(&out)
        .unwrap_or_else(|error| panic!("{} can't be made: {error}", out.display()));
    // Over all projects, since Maven's own cache is not made for several writers.
    let _one_at_a_time = lock::exclusive(&out.with_file_name("lock"));
    let wanted = sources(project);
    let stamp = out.join("stamp");
    if fs::read_to_string(&stamp).is_ok_and(|stamp| stamp == wanted) {
        return out;
    }
    if let Err(missing) = available() {
        panic!("tests/java/{} can't be built: {missing}", project.name);
    }
    maven(project, &out);
    fs::write(&stamp, wanted)
        .unwrap_or_else(|error| panic!("{} can't be written: {error}", stamp.display()));
    out
}

/// A program of `INTEROP`, built if need be, under a JVM with these flags. It ends when its input is closed, so none
/// outlives whoever started it.
pub fn interop(class: &str, flags: &[&str]) -> Command {
    let built = built(&INTEROP);
    let class_path = env::join_paths([built.join("classes"), built.join("libs").join("*")]);
    let mut command = Command::new(program("java"));
    command
        .args(flags)
        .arg("-cp")
        .arg(class_path.expect("a path without a colon"))
        .arg(format!("keyway.interop.{class}"))
        .process_group(0)
        .stdin(Stdio::piped());
    command
}

fn maven(project: &Project, out: &Path) {
    let mut maven = Command::new(program("mvn"));
    maven
        .args(["-q", "-B", "-f"])
        .arg(project.directory().join("pom.xml"))
        .args(project.goals);
    maven.arg(format!("-Dbuilt={}", out.display()));
    maven.arg(format!("-DoutputDirectory={}", out.join("libs").display()));
    let output = maven
        .stdin(Stdio::null())
        .output()
        .expect("Maven ran a moment ago");
    let said = [output.stdout, output.stderr].concat();
    assert!(
        output.status.success(),
        "Maven failed on tests/java/{}:\n{}",
        project.name,
        String::from_utf8_lossy(&said)
    );
}

fn sources(project: &Project) -> String {
    let read = |name: &&str| {
        let file = project.directory().join(name);
        fs::read_to_string(&file)
            .unwrap_or_else(|error| panic!("{} can't be read: {error}", file.display()))
    };
    project.sources.iter().map(read).collect()
}

/// Cargo's target directory: the one above this program that Cargo has marked.
fn target_directory() -> PathBuf {
    let program = env::current_exe().expect("the system knows what runs");
    let marked = |directory: &&Path| directory.join("CACHEDIR.TAG").is_file();
    program
        .ancestors()
        .skip(1)
        .find(marked)
        .map_or_else(|| env::temp_dir().join("keyway"), Path::to_path_buf)
}
