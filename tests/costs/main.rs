//! What an engine costs: memory and processor time. Each is measured in a process of its own
//! (`examples/member.rs`) on a real broker, and judged against the bound that was configured or as a ratio, since the
//! machine is whatever it is.

mod backlog;
mod fetching;
mod idle;
mod partitions;
mod poison;

use std::time::Duration;

use keyway_tests::cluster::Cluster;
use keyway_tests::member_process::MemberProcess;

const MIB: u64 = 1 << 20;

/// The bound for anything that takes seconds when all is well, on a machine with much else to do.
const PATIENCE: Duration = Duration::from_secs(240);

/// A member of a group of its own over a topic.
fn member(cluster: &Cluster, topic: &str, more: &[String]) -> MemberProcess {
    let arguments = [
        format!("brokers={}", cluster.bootstrap()),
        format!("group={}", cluster.unique("group")),
        format!("topic={topic}"),
    ];
    MemberProcess::start(&[&arguments[..], more].concat())
}
