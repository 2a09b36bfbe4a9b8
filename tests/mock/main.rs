//! The whole engine over the broker inside the process: what is about librdkafka, threads and time together.
//!
//! What the state machine alone can show is shown by the simulator, what a handler's author needs by
//! `keyway::testing::TestEngine`. Here errors are injected by request, brokers taken away, answers delayed.
//! A test waits for conditions; the few fixed lengths of time are inputs (an outage so long, a handler so slow).

mod back_pressure;
mod batches;
mod circuit;
mod commits;
mod configuration;
mod dead_letters;
mod embedding;
mod ends;
mod handlers;
mod health;
mod idle;
mod limits;
mod ordering;
mod outages;
mod outputs;
mod pauses;
mod records;
mod restore;
mod revoke;
mod riders;
mod takeover;
mod transactions;
mod world;
