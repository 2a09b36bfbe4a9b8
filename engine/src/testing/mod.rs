//! Tools for the tests of applications: the engine without a broker, and a broker without a machine.
//!
//! - [`TestEngine`] is the real state machine, the real commit texts and the real calls of handlers, over a log in
//!   memory and a clock that moves when the test says so. No thread, no socket, no sleep: a test of a retry
//!   policy that spans an hour takes a millisecond, and takes the same course every time.
//! - [`MockBroker`] is librdkafka's broker inside the process, for tests of the whole, with the whole's timing.
//!
//! # Testing a handler
//!
//! ```
//! use keyway::testing::TestEngine;
//! use keyway::{Builder, ClientConfig, Keyway, Outcome, Record};
//!
//! // The application. What makes the builder is its own function, so that a test runs what production runs.
//! fn charge(record: &Record) -> Result<Outcome, std::str::Utf8Error> {
//!     let order = std::str::from_utf8(record.value().unwrap_or_default())?;
//!     Ok(match order {
//!         "test order" => Outcome::Skip,
//!         "declined" if record.attempt() < 3 => Outcome::Retry { after: None },
//!         _ => Outcome::Done,
//!     })
//! }
//!
//! fn billing(client: ClientConfig) -> Builder {
//!     Keyway::builder(client).group("billing").topics(["orders"]).handler(charge)
//! }
//!
//! // Its test.
//! use std::time::Duration;
//!
//! let mut engine = TestEngine::new(billing(ClientConfig::new()))?;
//! engine.feed("orders", 0, "ann", "declined");
//! engine.feed("orders", 0, "ann", "book");
//! engine.feed("orders", 0, "bob", "test order");
//! engine.run();
//! assert_eq!(engine.order_of("ann"), [0], "the book waits behind the order that was declined");
//! engine.advance(Duration::from_secs(5));
//! assert_eq!(engine.order_of("ann"), [0, 0, 0, 1]);
//! assert_eq!(engine.committed("orders", 0).map(|commit| commit.offset), Some(3));
//! # Ok::<(), keyway::BuildError>(())
//! ```
//!
//! # What is sent?
//!
//! ```
//! # use keyway::testing::TestEngine;
//! # use keyway::{ClientConfig, Keyway, Output, Record};
//! let mut engine = TestEngine::new(
//!     Keyway::builder(ClientConfig::new())
//!         .group("g")
//!         .topics(["orders"])
//!         .handler(|record: &Record| Output::to("invoices").key(record.key().unwrap_or_default()).value("due")),
//! )?;
//! engine.feed("orders", 0, "ann", "book").run();
//! assert_eq!(engine.outputs()[0].topic, "invoices");
//! # Ok::<(), keyway::BuildError>(())
//! ```
//!
//! # Where do bad records go?
//!
//! ```
//! # use keyway::testing::TestEngine;
//! # use keyway::{ClientConfig, DeadLetters, Exhausted, Keyway, Record, Retry, decode};
//! # use std::time::Duration;
//! let mut engine = TestEngine::new(
//!     Keyway::builder(ClientConfig::new())
//!         .group("g")
//!         .topics(["t"])
//!         .handler(decode::value(decode::Utf8, |_: &Record, order: String| match order.as_str() {
//!             "unpaid" => Err("not paid"),
//!             _ => Ok(()),
//!         }))
//!         .retry(Retry::every(Duration::from_secs(60)).attempts(3, Exhausted::DeadLetter))
//!         .dead_letters(DeadLetters::headers("t.dead")),
//! )?;
//! engine.feed("t", 0, "ann", "unpaid").feed("t", 0, "bob", b"\xff");
//! engine.run();
//! assert_eq!(engine.dead_letters().len(), 1, "what can't be decoded is not tried again");
//! engine.advance(Duration::from_secs(120));
//! let letter = &engine.dead_letters()[1];
//! assert_eq!(letter.header("keyway.dlq.error"), Some("not paid"));
//! assert_eq!(letter.header("keyway.dlq.attempts"), Some("3"));
//! # Ok::<(), keyway::BuildError>(())
//! ```
//!
//! # What would a crash repeat?
//!
//! ```
//! # use keyway::testing::TestEngine;
//! # use keyway::{ClientConfig, Keyway, Outcome, Record};
//! # use std::time::Duration;
//! let mut engine = TestEngine::new(
//!     Keyway::builder(ClientConfig::new()).group("g").topics(["t"]).handler(|record: &Record| {
//!         match record.key() {
//!             Some(b"poison") => Outcome::Failed("the dependency is down".into()),
//!             _ => Outcome::Done,
//!         }
//!     }),
//! )?;
//! engine.feed_all("t", 0, [("poison", "a"), ("good", "b"), ("good", "c")]);
//! engine.advance(Duration::from_millis(1500));
//! let commit = engine.committed("t", 0).expect("a commit each second");
//! assert_eq!(commit.offset, 0, "the lowest incomplete record");
//! assert_eq!(commit.map.hole_count(), 1, "the two good ones are known to be complete");
//!
//! let before = engine.attempts().len();
//! engine.crash().run();
//! let again: Vec<_> = engine.attempts()[before..].iter().map(|attempt| attempt.id.offset).collect();
//! assert_eq!(again, [0]);
//! # Ok::<(), keyway::BuildError>(())
//! ```

#[cfg(test)]
mod assignment_tests;
#[cfg(test)]
mod causal_tests;
#[cfg(test)]
mod circuit_tests;
#[cfg(test)]
mod end_tests;
mod engine;
#[cfg(test)]
mod failure_tests;
mod journal;
#[cfg(test)]
mod letter_tests;
mod letters;
mod life;
#[cfg(test)]
mod limit_tests;
mod log;
#[cfg(test)]
mod output_tests;
mod outputs;
#[cfg(test)]
mod rider_tests;
#[cfg(test)]
mod running_tests;
#[cfg(test)]
mod transaction_tests;
#[cfg(test)]
mod world;

pub use self::engine::TestEngine;
pub use self::journal::{Attempt, AttemptOutcome};
pub use self::letters::TestLetter;
pub use self::life::topic_id;
pub use self::log::{Commit, TestRecord};
pub use self::outputs::TestOutput;
pub use crate::kafka::{MockBroker, MockError, MockFault, MockRequest};
