//! Processor time of a member that has nothing to do.

use std::time::Duration;

use keyway_tests::cluster::Cluster;

use crate::{PATIENCE, backlog, member};

/// Over which the processor's time is counted: one tick of the kernel is a five-hundredth of it.
const WINDOW: Duration = Duration::from_secs(5);

/// Known pain 25. With a poll that never waits it fails with a share of 1.
#[test]
fn an_idle_member_takes_less_than_a_hundredth_of_a_core() {
    let cluster = Cluster::start();
    let topic = backlog::topic(cluster, 12, 100);
    let mut member = member(cluster, &topic, &[]);
    member.until("all of it", PATIENCE, |status| {
        status["completed"] == 1_200 && status["uncommitted"] == 0
    });
    let share = member.share_of_a_core(WINDOW);
    println!("idle on 12 partitions: {:.2} % of a core", share * 100.0);
    assert!(share < 0.01, "{share}");
    member.stop();
}
