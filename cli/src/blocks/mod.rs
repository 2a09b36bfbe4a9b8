//! `keyway headers` and `keyway record`: the header block and the record block as JSON, and back.

pub(crate) mod headers;
pub(crate) mod record;

use keyway_records::{DecodeError, EncodeError, Header};
use serde::{Deserialize, Serialize};

use crate::codec::{self, Named, Pair, Refusal, True};

// What a decoder takes. No doc comment: it would be the help of the command.
#[derive(Debug, clap::Args)]
pub(crate) struct BlockArgs {
    /// Take a JSON object a line on stdin, answer a line each, exit with 0
    #[arg(long, conflicts_with = "hex")]
    lines: bool,

    /// The block
    #[arg(required_unless_present = "lines")]
    hex: Option<String>,
}

/// A block that is to be read.
#[derive(Debug, Deserialize)]
struct Block {
    hex: String,
}

impl Block {
    /// The block that an option names.
    fn named(hex: Option<String>) -> Result<Self, Refusal> {
        let hex = hex.ok_or_else(|| Refusal::bad_input("hex is missing"))?;
        Ok(Self { hex })
    }

    fn bytes(&self) -> Result<Vec<u8>, Refusal> {
        codec::bytes("hex", &self.hex)
    }
}

/// A block that was made.
#[derive(Debug, Serialize)]
struct Made {
    ok: True,
    hex: String,
}

impl From<Vec<u8>> for Made {
    fn from(block: Vec<u8>) -> Self {
        Self {
            ok: True,
            hex: hex::encode(block),
        }
    }
}

impl From<DecodeError> for Refusal {
    fn from(fault: DecodeError) -> Self {
        Self::new(fault.name(), fault)
    }
}

impl From<EncodeError> for Refusal {
    fn from(fault: EncodeError) -> Self {
        Self::new(fault.name(), fault)
    }
}

/// Reads `name=HEX`; without an equals sign the value is null.
fn pair(text: &str) -> Result<Pair, String> {
    // Digits have no equals sign, names may.
    Ok(match text.rsplit_once('=') {
        Some((name, digits)) => (name.to_owned(), Some(digits.to_owned())),
        None => (text.to_owned(), None),
    })
}

fn borrowed(headers: &[Named]) -> Vec<Header<'_>> {
    let headers = headers.iter();
    headers
        .map(|(name, value)| Header {
            name,
            value: value.as_deref(),
        })
        .collect()
}

fn pairs(headers: &[Header<'_>]) -> Vec<Pair> {
    let pair = |header: &Header<'_>| (header.name.to_owned(), header.value.map(hex::encode));
    headers.iter().map(pair).collect()
}
