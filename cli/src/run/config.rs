//! librdkafka's properties, from a file, from `-X` and from options: the later of these wins.

use std::fs;
use std::path::Path;

use keyway::{ClientConfig, StartAt};

use super::Refusal;
use super::args::{Args, MOCK, Start};
use super::generate::{self, MockWorld};
use crate::units;

/// Bytes fetched are read from librdkafka's statistics, which are off unless asked for.
const STATISTICS_INTERVAL: (&str, &str) = ("statistics.interval.ms", "1000");

const BROKERS: &str = "bootstrap.servers";
const GROUP: &str = "group.id";
const START: &str = "auto.offset.reset";

/// The client's configuration.
pub(super) fn client(args: &Args, mock: Option<&MockWorld>) -> Result<ClientConfig, Refusal> {
    let mut client = ClientConfig::new();
    client.set(STATISTICS_INTERVAL.0, STATISTICS_INTERVAL.1);
    if let Some(path) = &args.config {
        for (name, value) in read(path)? {
            client.set(name, value);
        }
    }
    for (name, value) in &args.properties {
        client.set(name, value);
    }
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
    for (property, option) in [(BROKERS, "--brokers"), (GROUP, "--group")] {
        if client.get(property).is_none_or(str::is_empty) {
            return Err(Refusal::BadInput(format!("{option} is missing")));
        }
    }
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

fn read(path: &Path) -> Result<Vec<(String, String)>, Refusal> {
    let shown = path.display();
    let text = fs::read_to_string(path)
        .map_err(|error| Refusal::BadInput(format!("{shown} can't be read: {error}")))?;
    properties(&text).map_err(|fault| Refusal::BadInput(format!("{shown}, {fault}")))
}

/// Properties a line each; lines that begin with `#` or `!` are comments.
fn properties(text: &str) -> Result<Vec<(String, String)>, String> {
    text.lines()
        .map(str::trim)
        .zip(1..)
        .filter(|(line, _)| !line.is_empty() && !line.starts_with(['#', '!']))
        .map(|(line, number)| {
            units::property(line).map_err(|fault| format!("line {number}: {fault}"))
        })
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_properties_has_comments_and_blank_lines() {
        let text = "# all\n\n a.b = c d \n!x\nsasl.password=p=q\r\n";
        let pairs = properties(text).unwrap();
        assert_eq!(
            pairs,
            [
                ("a.b".to_owned(), "c d".to_owned()),
                ("sasl.password".to_owned(), "p=q".to_owned())
            ]
        );
        assert_eq!(
            properties("a=b\nnonsense\n").unwrap_err(),
            "line 2: not of the form property=value"
        );
    }
}
