//! Nodes as plain processes, from the broker's jars on Maven Central.
//!
//! ```text
//!   test process --pipe: start|kill|pause|resume--> supervisor (sh) --child--> java kafka.Kafka
//! ```
//! The supervisor is the broker's parent, so it never signals a stranger; the end of the pipe means that the test
//! process is gone or has dropped the cluster: it kills the broker and removes its directory.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::thread;

use super::settings::{self, CLIENTS, CONTROLLERS};
use super::{Config, Nodes, ports, tail, unique};
use crate::java;

/// Formatting needs one; it names nothing.
const CLUSTER_ID: &str = "5L6g3nShT-eMCtK--X86sw";
const JVM: [&str; 4] = [
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
];

const SUPERVISOR: &str = r#"
directory=$1; shift
broker=
while read -r order; do
    case $order in
        start) "$@" </dev/null >>"$directory/log" 2>&1 & broker=$! ;;
        kill) kill -KILL $broker; wait $broker; broker= ;;
        pause) kill -STOP $broker ;;
        resume) kill -CONT $broker ;;
    esac
    echo "$order"
done 2>/dev/null
[ -z "$broker" ] || { kill -KILL $broker; wait $broker; } 2>/dev/null
rm -rf "$directory"
"#;

pub(super) struct Processes {
    nodes: Vec<Node>,
}

impl Processes {
    pub(super) fn start(config: &Config<'_>) -> (String, Box<dyn Nodes>) {
        let jars = java::built(&java::BROKER);
        let client_ports = ports::free(config.nodes);
        let controller_ports = ports::free(config.nodes);
        let voters = settings::voters(
            controller_ports
                .iter()
                .map(|port| format!("127.0.0.1:{port}")),
        );
        let properties = |node: usize| {
            let mut properties = settings::common(config);
            let (client, controller) = (client_ports[node - 1], controller_ports[node - 1]);
            let address = format!("{CLIENTS}://127.0.0.1:{client}");
            let own = [
                ("node.id", node.to_string()),
                ("controller.quorum.voters", voters.clone()),
                (
                    "listeners",
                    format!("{address},{CONTROLLERS}://127.0.0.1:{controller}"),
                ),
                ("advertised.listeners", address),
                (
                    "listener.security.protocol.map",
                    format!("{CLIENTS}:PLAINTEXT,{CONTROLLERS}:PLAINTEXT"),
                ),
            ];
            properties.extend(own.map(|(name, value)| (name.to_owned(), value)));
            properties
        };
        let nodes = thread::scope(|scope| {
            let (jars, properties) = (&jars, &properties);
            let start = |node| scope.spawn(move || Node::start(jars, properties(node)));
            let starting: Vec<_> = (1..=config.nodes).map(start).collect();
            starting
                .into_iter()
                .map(|node| node.join().expect("the reason stands above"))
                .collect()
        });
        let bootstrap: Vec<String> = client_ports
            .iter()
            .map(|port| format!("127.0.0.1:{port}"))
            .collect();
        (bootstrap.join(","), Box::new(Processes { nodes }))
    }
}

impl Nodes for Processes {
    fn kill(&self, node: usize) {
        self.nodes[node - 1].order("kill");
    }

    fn start(&self, node: usize) {
        self.nodes[node - 1].order("start");
    }

    fn pause(&self, node: usize) {
        self.nodes[node - 1].order("pause");
    }

    fn resume(&self, node: usize) {
        self.nodes[node - 1].order("resume");
    }

    fn log(&self, node: usize) -> String {
        self.nodes[node - 1].log()
    }
}

/// One broker and its supervisor.
struct Node {
    directory: PathBuf,
    supervisor: Child,
    /// `None` once dropped.
    pipes: Mutex<Option<(ChildStdin, BufReader<ChildStdout>)>>,
}

impl Node {
    fn start(jars: &Path, mut properties: BTreeMap<String, String>) -> Node {
        let directory = std::env::temp_dir().join(unique("keyway-kafka"));
        fs::create_dir_all(&directory).expect("the directory for temporary files can be written");
        properties.insert(
            "log.dirs".to_owned(),
            directory.join("data").display().to_string(),
        );
        let lines: Vec<String> = properties
            .iter()
            .map(|(name, value)| format!("{name}={value}\n"))
            .collect();
        let server = directory.join("server.properties");
        fs::write(&server, lines.concat()).expect("a directory of ours can be written");

        // First the supervisor, so that the directory goes whatever happens.
        let mut shell = Command::new("sh");
        shell.args(["-c", SUPERVISOR, "supervisor"]).arg(&directory);
        let broker = kafka(jars, "kafka.Kafka", &[server.as_os_str()]);
        shell.arg(broker.get_program()).args(broker.get_args());
        shell
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut supervisor = shell.spawn().expect("a shell is there");
        let pipes = supervisor
            .stdin
            .take()
            .zip(supervisor.stdout.take().map(BufReader::new));
        let node = Node {
            directory,
            supervisor,
            pipes: Mutex::new(pipes),
        };

        let arguments = [
            "format".as_ref(),
            "-t".as_ref(),
            CLUSTER_ID.as_ref(),
            "-c".as_ref(),
            server.as_os_str(),
        ];
        let format = kafka(jars, "kafka.tools.StorageTool", &arguments)
            .stdin(Stdio::null())
            .output();
        let format = format.expect("java ran before");
        let said = [format.stdout, format.stderr].concat();
        assert!(
            format.status.success(),
            "the storage was not formatted:\n{}",
            String::from_utf8_lossy(&said)
        );
        node.order("start");
        node
    }

    /// Gives the supervisor an order and waits until it was carried out.
    fn order(&self, order: &str) {
        let mut pipes = self.pipes.lock().expect("nobody panics while holding it");
        let (to, from) = pipes.as_mut().expect("only a drop takes them");
        writeln!(to, "{order}").expect("the supervisor reads until we are gone");
        let mut answer = String::new();
        from.read_line(&mut answer)
            .expect("the supervisor answers each order");
        assert_eq!(answer.trim(), order, "the supervisor ended\n{}", self.log());
    }

    fn log(&self) -> String {
        tail(&fs::read_to_string(self.directory.join("log")).unwrap_or_default())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Ok(mut pipes) = self.pipes.lock() {
            pipes.take();
        }
        // It ends by itself once the pipe is closed; there is nothing to do about a failure here.
        let _ = self.supervisor.wait();
    }
}

/// A main class of the broker's jars.
fn kafka(built: &Path, class: &str, arguments: &[&std::ffi::OsStr]) -> Command {
    let mut command = Command::new(java::program("java"));
    command
        .args(JVM)
        .arg(format!(
            "-Dlog4j2.configurationFile={}",
            java::BROKER.directory().join("log4j2.xml").display()
        ))
        .arg("-cp")
        .arg(built.join("libs").join("*"))
        .arg(class)
        .args(arguments);
    command
}
