//! Keyway beside Java's Parallel Consumer, in one group, over the same broker.

mod alone;
