//! `keyway record`.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use keyway_records::{ReadError, Record, RecordReader, decode_record, encode_record};
use serde::{Deserialize, Serialize};

use super::{Block, Made, borrowed, pair, pairs};
use crate::codec::{self, Pair, Refusal, True, named};

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
        Command::Decode(DecodeArgs {
            file: Some(path), ..
        }) => codec::all(Blocks::of(&path)),
        Command::Decode(DecodeArgs { lines, hex, .. }) => {
            codec::answer(lines, || Block::named(hex), decode)
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
///
/// With --file it answers a line for each block of a file, as keyway run --record writes them, and one with "ok":false and
/// exit code 2 where the file is damaged or ends within a block; its detail says where.
#[derive(Debug, clap::Args)]
pub(crate) struct DecodeArgs {
    /// Take a JSON object a line on stdin, answer a line each, exit with 0
    #[arg(long, conflicts_with = "hex")]
    lines: bool,

    /// Read the blocks that stand one behind the other in this file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["hex", "lines"])]
    file: Option<PathBuf>,

    /// The block
    #[arg(required_unless_present_any = ["lines", "file"])]
    hex: Option<String>,
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
    Ok(decode_record(&block)?.into())
}

impl From<Record<'_>> for Decoded {
    fn from(record: Record<'_>) -> Self {
        Self {
            ok: True,
            key: record.key.map(hex::encode),
            value: record.value.map(hex::encode),
            timestamp: record.timestamp,
            headers: pairs(&record.headers),
        }
    }
}

/// The blocks of a file, in order; a refusal is the last.
enum Blocks {
    Open(RecordReader<BufReader<File>>),
    Closed(Option<Refusal>),
}

impl Blocks {
    fn of(path: &Path) -> Self {
        match File::open(path) {
            Ok(file) => Self::Open(RecordReader::new(BufReader::new(file))),
            Err(error) => Self::Closed(Some(Refusal::bad_input(format!(
                "{}: {error}",
                path.display()
            )))),
        }
    }
}

impl Iterator for Blocks {
    type Item = Result<Decoded, Refusal>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Closed(refusal) => refusal.take().map(Err),
            // Gives nothing more after an error.
            Self::Open(blocks) => match blocks.read() {
                Ok(record) => Some(Ok(record?.into())),
                Err(fault) => Some(Err(fault.into())),
            },
        }
    }
}

impl From<ReadError> for Refusal {
    fn from(fault: ReadError) -> Self {
        let name = match &fault {
            ReadError::Torn { .. } => "torn",
            ReadError::TooLong { .. } => "too_long",
            ReadError::Corrupt { fault, .. } => fault.name(),
            _ => "unreadable",
        };
        Self::new(name, fault)
    }
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
