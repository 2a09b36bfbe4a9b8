//! Members of a group as processes that are killed, paused and started again, over a real broker; the judge reads their
//! event logs.
//!
//! | module | who suffers what |
//! |---|---|
//! | `kills`, `riders`, `terms` | the `keyway` command: SIGKILL at random, with a rider, and 8 s after SIGTERM |
//! | `points` | `member` (the engine in a process of its own) kills itself at each labelled point |
//! | `paused` | a member stands still for longer than its session, and goes on |
//! | `rounds` | all of it, drawn by seed, while records are fed |
//! | `exactly_once` | a `pipeline` of three members with an output for each record, under all of it (a small form, and a long one by command) |
//! | `causal` | `keyway run --causal`, three members over chains of records, killed and moved |
//! | `nodes` | two members, while one of three nodes dies or stands still (long: by command only) |
//!
//! | variable | effect |
//! |---|---|
//! | `KEYWAY_FAULT_ROUNDS` | rounds, and kills of `kills`; 3 by default, 1 of `causal` and `exactly_once` |
//! | `KEYWAY_FAULT_RECORDS` | records of a round of `exactly_once`; 2,000 by default, 200,000 in the long form |
//! | `KEYWAY_FAULT_SEED` | the seed of a run that is to be repeated; printed by each |

mod causal;
mod crew;
mod exactly_once;
mod kills;
mod nodes;
mod paused;
mod pipeline;
mod points;
mod riders;
mod rounds;
mod terms;
