//! The broker properties that every node of ours has, whichever way it runs.

use std::collections::BTreeMap;

use super::Config;

/// Listener names: clients and brokers, and the controllers among themselves.
pub(super) const CLIENTS: &str = "PLAINTEXT";
pub(super) const CONTROLLERS: &str = "CONTROLLER";

/// What is the same on all nodes; the addresses are the way's own.
///
/// Few internal partitions and no rebalance delay, since tests start many groups; short minimal timeouts, since they
/// wait for members to expire. With three nodes everything internal has three replicas, and a dead broker is noticed
/// within six seconds.
pub(super) fn common(config: &Config<'_>) -> BTreeMap<String, String> {
    let replicas = config.nodes.to_string();
    // A killed node that comes back waits until its former life has expired, alone or not.
    let noticed = if config.nodes == 1 { "3000" } else { "6000" };
    let mut properties: BTreeMap<String, String> = [
        ("process.roles", "broker,controller"),
        ("controller.listener.names", CONTROLLERS),
        ("inter.broker.listener.name", CLIENTS),
        ("default.replication.factor", &replicas),
        ("offsets.topic.replication.factor", &replicas),
        ("offsets.topic.num.partitions", "4"),
        ("transaction.state.log.replication.factor", &replicas),
        ("transaction.state.log.min.isr", "1"),
        ("transaction.state.log.num.partitions", "4"),
        (
            "share.coordinator.state.topic.replication.factor",
            &replicas,
        ),
        ("share.coordinator.state.topic.min.isr", "1"),
        ("group.initial.rebalance.delay.ms", "0"),
        ("group.min.session.timeout.ms", "1000"),
        ("group.consumer.min.session.timeout.ms", "1000"),
        ("group.consumer.min.heartbeat.interval.ms", "100"),
        ("group.consumer.session.timeout.ms", "6000"),
        ("group.consumer.heartbeat.interval.ms", "300"),
        ("log.cleaner.backoff.ms", "500"),
        ("broker.session.timeout.ms", noticed),
        ("broker.heartbeat.interval.ms", "500"),
        ("log.retention.check.interval.ms", "1000"),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect();
    properties.extend(
        config
            .properties
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned())),
    );
    properties
}

/// `1@host:port,2@host:port,...`
pub(super) fn voters(addresses: impl IntoIterator<Item = String>) -> String {
    let voters: Vec<String> = (1..)
        .zip(addresses)
        .map(|(id, address): (usize, _)| format!("{id}@{address}"))
        .collect();
    voters.join(",")
}
