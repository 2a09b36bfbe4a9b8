//! What the engine is configured with: librdkafka's properties, topics, and where to start.

use keyway::{ClientConfig, StartAt};

use super::args::{Args, MOCK, Start};
use super::generate::{self, MockWorld};
use crate::properties::{self, BROKERS, GROUP};
use crate::refusal::Refusal;

/// Bytes fetched are read from librdkafka's statistics, which are off unless asked for.
const STATISTICS_INTERVAL: (&str, &str) = ("statistics.interval.ms", "1000");

const START: &str = "auto.offset.reset";

/// The client's configuration.
pub(super) fn client(args: &Args, mock: Option<&MockWorld>) -> Result<ClientConfig, Refusal> {
    let mut client = ClientConfig::new();
    client.set(STATISTICS_INTERVAL.0, STATISTICS_INTERVAL.1);
    args.properties.set(&mut client)?;
    match (mock, &args.brokers) {
        (Some(mock), _) => drop(client.set(BROKERS, mock.bootstrap())),
        (None, Some(brokers)) => drop(client.set(BROKERS, brokers)),
        (None, None) => {}
    }
    if let Some(group) = &args.group {
        client.set(GROUP, group);
    } else if mock.is_some() && client.get(GROUP).is_none() {
        client.set(GROUP, generate::GROUP);
    }
    properties::check_named(&client)?;
    Ok(client)
}

/// The topics to consume.
pub(super) fn topics(args: &Args, mock: Option<&MockWorld>) -> Result<Vec<String>, Refusal> {
    match mock {
        Some(mock) => Ok(mock.topics().to_vec()),
        None if args.topics.is_empty() => Err(Refusal::BadInput("--topic is missing".to_owned())),
        None => Ok(args.topics.clone()),
    }
}

/// Whether the broker is to be one inside the process.
pub(super) fn wants_mock(args: &Args) -> bool {
    args.brokers.as_deref() == Some(MOCK)
}

/// Where to start, when it is an option that says so and not a property, which the engine reads itself.
pub(super) fn start(args: &Args, client: &ClientConfig) -> Option<StartAt> {
    match args.start {
        Some(Start::Earliest) => Some(StartAt::Earliest),
        Some(Start::Latest) => Some(StartAt::Latest),
        None if client.get(START).is_none_or(|value| value == "error") => Some(StartAt::Earliest),
        None => None,
    }
}
