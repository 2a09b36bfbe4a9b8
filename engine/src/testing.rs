//! Tools for tests.

pub use crate::kafka::{MockBroker, MockError, MockFault, MockRequest};
