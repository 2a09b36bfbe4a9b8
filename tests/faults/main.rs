//! The `keyway` command, killed in the middle of its work and started again, over a real broker; the judge reads its
//! event log.
//!
//! | variable | effect |
//! |---|---|
//! | `KEYWAY_FAULT_ROUNDS` | kills; 3 by default, with 12,500 records for each, 150,000 at most. The long run: 12 |
//! | `KEYWAY_FAULT_SEED` | the seed of a run that is to be repeated; printed by each |

mod kills;
mod riders;
