//! `keyway metadata encode`.

use clap::ValueEnum;
use keyway_offsets::{DEFAULT_CAP_CHARS, HoleMap, Limits, OffsetRange, ThresholdRatio};
use keyway_rider::{CommitMap, Offer};
use serde::{Deserialize, Serialize};

use super::offset;
use crate::codec::{Refusal, True};
use crate::units;

/// The position of a log without a record: one below its first offset.
const BEFORE_FIRST: i64 = -1;

/// Make the metadata string of a hole map, with a rider beside it
///
/// Answers {"ok":true,"text":..,"chars":..,"encoding":..,
/// "rung":"map|rider_and_map|marker_and_map|rider_only|marker_only|none","blocked":..,"inner_chars":..}, or
/// {"ok":false,"error":"bad_input","detail":..} with exit code 2.
///
/// "rung" says what the text carries: "none" when there is nothing to say, or no room for it. The rider gives way to
/// the map, and leaves a marker where there is room for one. "blocked" says that
/// the map is over the threshold, so that records above the highest complete one wait. "inner_chars" is the length
/// of the map's text, also when it was left out.
///
/// A request of --lines has the same names: {"committed":100,"highest":109,"incomplete":[[100,100],[103,104]]}.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Take a JSON object a line on stdin, answer a line each, exit with 0
    #[arg(
        long,
        conflicts_with_all = [
            "committed", "highest", "incomplete", "rider_hex", "limit", "threshold", "format",
        ]
    )]
    pub(crate) lines: bool,

    /// The committed offset
    #[arg(
        long,
        value_name = "N",
        required_unless_present = "lines",
        allow_negative_numbers = true
    )]
    committed: Option<i64>,

    /// The highest offset that the map speaks about
    #[arg(
        long,
        value_name = "H",
        required_unless_present = "lines",
        allow_negative_numbers = true
    )]
    highest: Option<i64>,

    /// The incomplete offsets, ascending; "" for none
    #[arg(
        long,
        value_name = "100,103-104",
        required_unless_present = "lines",
        allow_hyphen_values = true
    )]
    incomplete: Option<String>,

    /// The rider, at least one byte
    #[arg(long, value_name = "HEX")]
    rider_hex: Option<String>,

    /// Characters that the broker takes beside an offset [default: 4096]
    #[arg(long, value_name = "CHARS")]
    limit: Option<usize>,

    /// Share of the limit over which the partition waits, 0 to 1 [default: 0.75]
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    threshold: Option<f64>,

    /// The form of the text
    #[arg(long, value_enum)]
    format: Option<Format>,
}

impl Args {
    pub(crate) fn request(self) -> Result<Request, Refusal> {
        let missing = |name: &str| Refusal::bad_input(format!("{name} is missing"));
        let incomplete = self.incomplete.ok_or_else(|| missing("incomplete"))?;
        Ok(Request {
            committed: self.committed.ok_or_else(|| missing("committed"))?,
            highest: self.highest.ok_or_else(|| missing("highest"))?,
            incomplete: ranges(&incomplete)?,
            limit: self.limit,
            threshold: self.threshold,
            format: self.format,
            rider_hex: self.rider_hex,
        })
    }
}

/// Whose form the text has.
#[derive(Clone, Copy, Debug, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    /// That of Java's Parallel Consumer
    Java,
}

/// The map that is to be written.
#[derive(Debug, Deserialize)]
pub(crate) struct Request {
    committed: i64,
    highest: i64,
    /// First and last offset of each hole.
    incomplete: Vec<(i64, i64)>,
    limit: Option<usize>,
    threshold: Option<f64>,
    #[allow(dead_code, reason = "there is one form; any other name is refused")]
    format: Option<Format>,
    rider_hex: Option<String>,
}

/// The text and what became of the map in it.
#[derive(Debug, Serialize)]
pub(crate) struct Answer {
    ok: True,
    text: String,
    chars: usize,
    encoding: &'static str,
    rung: &'static str,
    blocked: bool,
    inner_chars: usize,
}

pub(crate) fn encode(request: Request) -> Result<Answer, Refusal> {
    let limits = limits(&request)?;
    let map = map(&request)?;
    let offer = match &request.rider_hex {
        None => Offer::Nothing,
        Some(digits) => Offer::Rider(
            units::rider(digits)
                .map_err(|fault| Refusal::bad_input(format!("rider_hex: {fault}")))?,
        ),
    };
    let commit = CommitMap::new(&map, &limits).with(&offer);
    Ok(Answer {
        ok: True,
        // Base64 is ASCII, so that bytes are what the broker counts.
        chars: commit.text.len(),
        text: commit.text,
        encoding: commit.encoding.name(),
        rung: commit.rung.name(),
        blocked: commit.blocked,
        inner_chars: commit.inner_chars,
    })
}

fn limits(request: &Request) -> Result<Limits, Refusal> {
    let ratio = match request.threshold {
        None => ThresholdRatio::default(),
        Some(share) => ThresholdRatio::new(share)
            .map_err(|error| Refusal::bad_input(format!("threshold: {error}")))?,
    };
    Ok(Limits::new(
        request.limit.unwrap_or(DEFAULT_CAP_CHARS),
        ratio,
    ))
}

fn map(request: &Request) -> Result<HoleMap, Refusal> {
    let base = offset("committed", request.committed)?;
    if request.highest < BEFORE_FIRST {
        return Err(Refusal::bad_input(format!(
            "highest is below {BEFORE_FIRST}: {}",
            request.highest
        )));
    }
    let holes = request
        .incomplete
        .iter()
        .map(|&(first, last)| {
            Ok(OffsetRange {
                first: offset("incomplete", first)?,
                last: offset("incomplete", last)?,
            })
        })
        .collect::<Result<Vec<_>, Refusal>>()?;
    HoleMap::new(base, request.highest, holes).map_err(Refusal::bad_input)
}

/// Reads `100,103-104`.
fn ranges(text: &str) -> Result<Vec<(i64, i64)>, Refusal> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    text.split(',')
        .map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some((number(first)?, number(last)?))
        })
        .collect::<Option<_>>()
        .ok_or_else(|| {
            Refusal::bad_input(format!(
                "incomplete is not a list of offsets and ranges like 100,103-104: {text}"
            ))
        })
}

fn number(text: &str) -> Option<i64> {
    let digits = text.trim();
    digits
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| digits.parse().ok())?
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn offsets_and_ranges_are_read() {
        for (text, expected) in [
            ("", vec![]),
            ("100", vec![(100, 100)]),
            ("100,103-104", vec![(100, 100), (103, 104)]),
            (" 1 , 3 - 5 ", vec![(1, 1), (3, 5)]),
            ("9223372036854775807", vec![(i64::MAX, i64::MAX)]),
        ] {
            assert_eq!(ranges(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            ",",
            "1,",
            "a",
            "1-",
            "-1",
            "1--2",
            "1-2-3",
            "+1",
            "1.0",
            "9223372036854775808",
        ] {
            assert!(ranges(text).is_err(), "{text}");
        }
    }
}
