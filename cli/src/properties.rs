//! librdkafka's properties, from a file, from `-X` and from options: the later of these wins.

use std::fs;
use std::path::{Path, PathBuf};

use keyway::ClientConfig;

use crate::refusal::Refusal;
use crate::units;

pub(crate) const BROKERS: &str = "bootstrap.servers";
pub(crate) const GROUP: &str = "group.id";

/// The options of every command that speaks to a cluster.
#[derive(Debug, clap::Args)]
pub(crate) struct Properties {
    /// Read librdkafka's properties from a file, property=value a line; -X goes first
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Set a property of librdkafka, may be repeated
    #[arg(short = 'X', value_name = "PROPERTY=VALUE", value_parser = units::property)]
    pub(crate) properties: Vec<(String, String)>,
}

impl Properties {
    /// Sets them, over what is set already.
    pub(crate) fn set(&self, client: &mut ClientConfig) -> Result<(), Refusal> {
        if let Some(path) = &self.config {
            for (name, value) in read(path)? {
                client.set(name, value);
            }
        }
        for (name, value) in &self.properties {
            client.set(name, value);
        }
        Ok(())
    }
}

/// What no command can do without, whether an option or a property says it.
pub(crate) fn check_named(client: &ClientConfig) -> Result<(), Refusal> {
    for (property, option) in [(BROKERS, "--brokers"), (GROUP, "--group")] {
        if client.get(property).is_none_or(str::is_empty) {
            return Err(Refusal::BadInput(format!("{option} is missing")));
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<(String, String)>, Refusal> {
    let shown = path.display();
    let text = fs::read_to_string(path)
        .map_err(|error| Refusal::BadInput(format!("{shown} can't be read: {error}")))?;
    pairs(&text).map_err(|fault| Refusal::BadInput(format!("{shown}, {fault}")))
}

/// Properties a line each; lines that begin with `#` or `!` are comments.
fn pairs(text: &str) -> Result<Vec<(String, String)>, String> {
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
        assert_eq!(
            pairs(text).unwrap(),
            [
                ("a.b".to_owned(), "c d".to_owned()),
                ("sasl.password".to_owned(), "p=q".to_owned())
            ]
        );
        assert_eq!(
            pairs("a=b\nnonsense\n").unwrap_err(),
            "line 2: not of the form property=value"
        );
    }
}
