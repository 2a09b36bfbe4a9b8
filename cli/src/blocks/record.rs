//! `keyway record`.

use std::process::ExitCode;

use keyway_records::{Record, decode_record, encode_record};
use serde::{Deserialize, Serialize};

use super::{Block, BlockArgs, Made, Pair, borrowed, named, pair, pairs};
use crate::codec::{self, Refusal, True};

/// Both answer with one JSON object on stdout.
///
/// With --lines they take one JSON object a line on stdin and answer one a line, in order.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Decode(DecodeArgs),
    Encode(EncodeArgs),
}

pub(crate) fn execute(command: Command) -> ExitCode {
    match command {
        Command::Decode(DecodeArgs { block }) => {
            codec::answer(block.lines, || block.request(), decode)
        }
        Command::Encode(args) => codec::answer(args.lines, || args.request(), encode),
    }
}

/// Say which record a record block holds
///
/// Answers {"ok":true,"key":"<hex>"|null,"value":"<hex>"|null,"timestamp":..,"headers":[["name","<hex>"|null],..]}, or
/// {"ok":false,"error":..,"detail":..} with exit code 2 when it is no record block.
///
/// A request of --lines is {"hex":"a035e2930000ffffffffffffffff0000000000000000"}.
#[derive(Debug, clap::Args)]
pub(crate) struct DecodeArgs {
    #[command(flatten)]
    block: BlockArgs,
}

#[derive(Debug, Serialize)]
struct Decoded {
    ok: True,
    key: Option<String>,
    value: Option<String>,
    timestamp: i64,
    headers: Vec<Pair>,
}

fn decode(block: Block) -> Result<Decoded, Refusal> {
    let block = block.bytes()?;
    let record = decode_record(&block)?;
    Ok(Decoded {
        ok: True,
        key: record.key.map(hex::encode),
        value: record.value.map(hex::encode),
        timestamp: record.timestamp,
        headers: pairs(&record.headers),
    })
}

/// Make the record block of a record
///
/// Answers {"ok":true,"hex":..}, or {"ok":false,"error":..,"detail":..} with exit code 2.
///
/// A request of --lines is
/// {"key":"<hex>"|null,"value":"<hex>"|null,"timestamp":..,"headers":[["name","<hex>"|null],..]}.
#[derive(Debug, clap::Args)]
pub(crate) struct EncodeArgs {
    /// Take a JSON object a line on stdin, answer a line each, exit with 0
    #[arg(long, conflicts_with_all = ["key_hex", "value_hex", "timestamp", "headers"])]
    lines: bool,

    /// The key; without it the key is null
    #[arg(long, value_name = "HEX")]
    key_hex: Option<String>,

    /// The value; without it the value is null
    #[arg(long, value_name = "HEX")]
    value_hex: Option<String>,

    /// Milliseconds since 1970; -1 for none
    #[arg(
        long,
        value_name = "MS",
        required_unless_present = "lines",
        allow_negative_numbers = true
    )]
    timestamp: Option<i64>,

    /// A header, with a null value where there is no equals sign; repeat it for more, in their order
    #[arg(long = "header", value_name = "NAME[=HEX]", value_parser = pair)]
    headers: Vec<Pair>,
}

impl EncodeArgs {
    fn request(self) -> Result<EncodeRequest, Refusal> {
        Ok(EncodeRequest {
            key: self.key_hex,
            value: self.value_hex,
            timestamp: self
                .timestamp
                .ok_or_else(|| Refusal::bad_input("timestamp is missing"))?,
            headers: self.headers,
        })
    }
}

#[derive(Debug, Deserialize)]
struct EncodeRequest {
    // Without this a missing field would count as null.
    #[serde(deserialize_with = "Option::deserialize")]
    key: Option<String>,
    #[serde(deserialize_with = "Option::deserialize")]
    value: Option<String>,
    timestamp: i64,
    headers: Vec<Pair>,
}

fn encode(request: EncodeRequest) -> Result<Made, Refusal> {
    let bytes = |name, digits: Option<String>| {
        let digits = digits.as_deref();
        digits.map(|digits| codec::bytes(name, digits)).transpose()
    };
    let key = bytes("key", request.key)?;
    let value = bytes("value", request.value)?;
    let headers = named(request.headers)?;
    let record = Record {
        key: key.as_deref(),
        value: value.as_deref(),
        timestamp: request.timestamp,
        headers: borrowed(&headers),
    };
    let block = encode_record(&record)?;
    Ok(block.into())
}
