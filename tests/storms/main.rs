//! Rebalance storms over a real broker: members come and go every half a second to three, by a drain, a stop and a crash
//! in turn, while records are fed. All are seen, each key keeps its order, nobody is silent, and only crashes repeat
//! anything.
//!
//! | variable | effect |
//! |---|---|
//! | `KEYWAY_STORM=full` | twelve members, 80 partitions, 500,000 records and 120 toggles, in place of a small storm |
//! | `KEYWAY_STORM_SEED` | the seed of a storm that is to be repeated; printed by each |

use keyway_tests::world::Protocol;

mod silence;
mod storm;

use storm::{Identity, storm};

#[test]
fn eager() {
    storm(Protocol::Range, Identity::Dynamic);
}

#[test]
fn cooperative() {
    storm(Protocol::Cooperative, Identity::Dynamic);
}

#[test]
fn consumer_protocol() {
    storm(Protocol::Consumer, Identity::Dynamic);
}

#[test]
fn static_membership() {
    storm(Protocol::Range, Identity::Static);
}
