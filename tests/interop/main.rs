//! Keyway beside Java's Parallel Consumer, in one group, over the same broker: what one leaves open the other finishes,
//! and nothing else.

mod alone;
mod carried;
mod relay;
mod riders;
