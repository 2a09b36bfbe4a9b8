//! Nodes as containers, through testcontainers.
//!
//! Each node has a host port of its own, chosen before it starts and bound to loopback only, so its advertised address
//! holds across restarts. (The module's own start script asks for the mapped port after the start; a port that the
//! engine picks is another one after a restart.) With three nodes they find each other by name in a network of theirs.

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use testcontainers_modules::kafka::apache::{KAFKA_PORT, Kafka};
use testcontainers_modules::testcontainers::core::{IntoContainerPort as _, WaitFor};
use testcontainers_modules::testcontainers::runners::SyncRunner as _;
use testcontainers_modules::testcontainers::{Container, ContainerRequest, ImageExt as _};

use super::settings::{self, CLIENTS, CONTROLLERS};
use super::{Config, KAFKA_VERSION, Nodes, PATIENCE, leftovers, ports, tail, unique};
use crate::wait;

/// A first start may have to pull the image.
const STARTUP: Duration = Duration::from_secs(300);

/// Inside a container: for clients on the host, for the other nodes, for the controllers.
const BETWEEN_NODES: &str = "BROKER";
const BROKER_PORT: u16 = 9093;
const CONTROLLER_PORT: u16 = 9094;

pub(super) struct Containers {
    names: Vec<String>,
    running: Vec<Container<Kafka>>,
}

impl Containers {
    /// Starts all nodes at once, since no node of three is up before a second one is.
    pub(super) fn start(config: &Config<'_>) -> (String, Box<dyn Nodes>) {
        let names: Vec<String> = (1..=config.nodes)
            .map(|node| unique(&format!("keyway-kafka{node}")))
            .collect();
        let host_ports = ports::free(config.nodes);
        let network = (config.nodes > 1).then(|| unique("keyway-kafka"));
        network
            .iter()
            .for_each(|network| leftovers::network(network));
        let requests: Vec<ContainerRequest<Kafka>> = (1..=config.nodes)
            .zip(&host_ports)
            .map(|(node, &port)| request(config, &names, node, port, network.as_deref()))
            .collect();
        let running = thread::scope(|scope| {
            let start = |(name, request): (&String, ContainerRequest<Kafka>)| {
                leftovers::container(name);
                let name = name.clone();
                scope.spawn(move || {
                    request.start().unwrap_or_else(|error| {
                        panic!("no container {name}: {error}\n{}", logs(&name))
                    })
                })
            };
            let starting: Vec<_> = names.iter().zip(requests).map(start).collect();
            starting
                .into_iter()
                .map(|node| node.join().expect("the reason stands above"))
                .collect()
        });
        let bootstrap: Vec<String> = host_ports
            .iter()
            .map(|port| format!("127.0.0.1:{port}"))
            .collect();
        (bootstrap.join(","), Box::new(Containers { names, running }))
    }

    fn docker(&self, action: &str, node: usize) {
        self.try_docker(action, node)
            .unwrap_or_else(|error| panic!("docker {action}: {error}"));
    }

    fn try_docker(&self, action: &str, node: usize) -> Result<(), String> {
        let output = Command::new("docker")
            .arg(action)
            .arg(&self.names[node - 1])
            .stdin(Stdio::null())
            .output();
        let output = output.expect("docker ran before");
        let said = || String::from_utf8_lossy(&output.stderr).into_owned();
        output.status.success().then_some(()).ok_or_else(said)
    }
}

impl Drop for Containers {
    /// Dropping a container removes it, and the last one their network. On threads of their own, since testcontainers
    /// waits for it in a runtime, which a test may be in already.
    fn drop(&mut self) {
        thread::scope(|scope| {
            for container in self.running.drain(..) {
                scope.spawn(move || drop(container));
            }
        });
    }
}

impl Nodes for Containers {
    fn kill(&self, node: usize) {
        self.docker("kill", node);
    }

    fn start(&self, node: usize) {
        self.docker("start", node);
    }

    fn pause(&self, node: usize) {
        // The kernel's freezer gives up ("unable to freeze") while a thread of the node is inside a long system call.
        let mut last = String::new();
        wait::try_until(PATIENCE, || {
            self.try_docker("pause", node)
                .map_err(|error| last = error)
                .ok()
        })
        .unwrap_or_else(|| panic!("docker pause: {last}"));
    }

    fn resume(&self, node: usize) {
        self.docker("unpause", node);
    }

    fn log(&self, node: usize) -> String {
        logs(&self.names[node - 1])
    }
}

fn request(
    config: &Config<'_>,
    names: &[String],
    node: usize,
    host_port: u16,
    network: Option<&str>,
) -> ContainerRequest<Kafka> {
    let client_port = KAFKA_PORT.as_u16();
    // Alone, a node has no name that it could resolve.
    let host = |name: &String| {
        if config.nodes == 1 {
            "localhost".to_owned()
        } else {
            name.clone()
        }
    };
    let own_host = host(&names[node - 1]);
    let mut properties = settings::common(config);
    let own = [
        ("inter.broker.listener.name", BETWEEN_NODES.to_owned()),
        ("node.id", node.to_string()),
        (
            "controller.quorum.voters",
            settings::voters(
                names
                    .iter()
                    .map(|n| format!("{}:{CONTROLLER_PORT}", host(n))),
            ),
        ),
        (
            "listeners",
            format!(
                "{CLIENTS}://0.0.0.0:{client_port},{BETWEEN_NODES}://0.0.0.0:{BROKER_PORT},\
                 {CONTROLLERS}://0.0.0.0:{CONTROLLER_PORT}"
            ),
        ),
        (
            "advertised.listeners",
            format!("{CLIENTS}://127.0.0.1:{host_port},{BETWEEN_NODES}://{own_host}:{BROKER_PORT}"),
        ),
    ];
    properties.extend(own.map(|(name, value)| (name.to_owned(), value)));

    let mut request = Kafka::default()
        .with_jvm_image()
        .with_tag(KAFKA_VERSION)
        .with_container_name(&names[node - 1])
        .with_mapped_port(host_port, client_port.tcp())
        .with_host_config_modifier(|host| {
            let ports = host
                .port_bindings
                .iter_mut()
                .flat_map(|ports| ports.values_mut());
            ports
                .flatten()
                .flatten()
                .for_each(|binding| binding.host_ip = Some("127.0.0.1".to_owned()));
        })
        // The addresses are known, so the node need not wait for the module's script.
        .with_cmd(["-c", "exec /etc/kafka/docker/run"])
        .with_ready_conditions(vec![WaitFor::message_on_stdout("Kafka Server started")])
        .with_startup_timeout(STARTUP)
        .with_env_var("KAFKA_BROKER_ID", node.to_string())
        .with_env_var("KAFKA_HEAP_OPTS", HEAP);
    for (name, value) in properties {
        request = request.with_env_var(variable(&name), value);
    }
    match network {
        Some(network) => request.with_network(network),
        None => request,
    }
}

/// Small, and quick to start.
const HEAP: &str = "-Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1";

/// The image's name for a broker property.
fn variable(property: &str) -> String {
    let escaped = property
        .replace('_', "__")
        .replace('-', "___")
        .replace('.', "_");
    format!("KAFKA_{}", escaped.to_uppercase())
}

fn logs(name: &str) -> String {
    let output = Command::new("docker")
        .args(["logs", "--tail", "40", name])
        .stdin(Stdio::null())
        .output();
    output
        .map(|output| tail(&String::from_utf8_lossy(&output.stdout)))
        .unwrap_or_default()
}
