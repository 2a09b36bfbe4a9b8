//! Values of options: durations, counts, properties, riders.

use std::time::Duration;

use keyway::{Exhausted, Rate, Retry};
use keyway_offsets::{Offset, OffsetRange};
use keyway_rider::RiderBytes;

/// Suffixes of a duration and their length in nanoseconds, longer suffixes before their own endings.
const UNITS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60 * 1_000_000_000),
    ("h", 3_600 * 1_000_000_000),
];

const DURATION_EXPECTED: &str =
    "a number with one of the units ns, us, ms, s, m, h, like 2ms or 1.5s";

/// Longer waits are slips of the pen.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3_600);

/// Reads `2ms`, `50us`, `1.5s`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let (digits, nanos) = UNITS
        .iter()
        .find_map(|&(unit, nanos)| Some((text.strip_suffix(unit)?, nanos)))
        .ok_or(DURATION_EXPECTED)?;
    if !digits
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.')
    {
        return Err(DURATION_EXPECTED.to_owned());
    }
    let number: f64 = digits.parse().map_err(|_| DURATION_EXPECTED)?;
    Duration::try_from_secs_f64(number * Duration::from_nanos(nanos).as_secs_f64())
        .ok()
        .filter(|&duration| duration <= LONGEST)
        .ok_or_else(|| "more than a year".to_owned())
}

/// A duration that bounds a request: long enough for an answer, and no slip of the pen.
pub(crate) fn timeout(text: &str) -> Result<Duration, String> {
    const SHORTEST: Duration = Duration::from_millis(100);
    const LONGEST: Duration = Duration::from_secs(3_600);
    match duration(text)? {
        timeout if (SHORTEST..=LONGEST).contains(&timeout) => Ok(timeout),
        _ => Err("between 100ms and 1h".to_owned()),
    }
}

/// A number of at least one.
pub(crate) fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("at least 1".to_owned()),
        Ok(count) => Ok(count),
        Err(error) => Err(format!("{error}")),
    }
}

/// Reads `57` or `57-60`, both ends included.
pub(crate) fn offsets(text: &str) -> Result<OffsetRange, String> {
    let offset = |text: &str| {
        let number = text.parse().ok().and_then(Offset::new);
        number.ok_or_else(|| format!("no offset: {text:?}; expected N or N-M"))
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (offset(first)?, offset(last)?);
    OffsetRange::new(first, last).ok_or_else(|| format!("{last} comes before {first}"))
}

/// Reads a rider from hexadecimal digits.
pub(crate) fn rider(digits: &str) -> Result<RiderBytes, String> {
    let bytes = hex::decode(digits).map_err(|fault| fault.to_string())?;
    RiderBytes::new(bytes).map_err(|fault| fault.to_string())
}

/// One record, by its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordName {
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
}

/// Reads `orders-3@57`.
pub(crate) fn record(text: &str) -> Result<RecordName, String> {
    const EXPECTED: &str = "a record as TOPIC-PARTITION@OFFSET, like orders-3@57";
    let (place, offset) = text.rsplit_once('@').ok_or(EXPECTED)?;
    let (topic, partition) = place.rsplit_once('-').ok_or(EXPECTED)?;
    let partition = partition.parse().ok().filter(|partition| *partition >= 0);
    let offset = offset.parse().ok().filter(|offset| *offset >= 0);
    match (partition, offset) {
        (Some(partition), Some(offset)) if !topic.is_empty() => Ok(RecordName {
            topic: topic.to_owned(),
            partition,
            offset,
        }),
        _ => Err(EXPECTED.to_owned()),
    }
}

/// How failed attempts are made again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retries {
    pub(crate) policy: Retry,
    /// Most attempts; 0 for no limit.
    pub(crate) attempts: u32,
}

/// Reads `1s,2,1m,10`: the first delay, the factor, the longest delay, the most attempts.
pub(crate) fn retry(text: &str) -> Result<Retries, String> {
    let parts: Vec<&str> = text.split(',').collect();
    let &[initial, factor, longest, attempts] = parts.as_slice() else {
        return Err("not of the form INITIAL,FACTOR,MAX,ATTEMPTS, like 1s,2,1m,10".to_owned());
    };
    let factor: f64 = factor.parse().map_err(|_| format!("no factor: {factor}"))?;
    let attempts: u32 = attempts
        .parse()
        .map_err(|_| format!("no number of attempts: {attempts}"))?;
    let (initial, longest) = (duration(initial)?, duration(longest)?);
    if !factor.is_finite() || factor < 1.0 {
        return Err(format!("the factor is below 1: {factor}"));
    }
    if longest < initial {
        return Err("the longest delay is shorter than the first".to_owned());
    }
    let retry = Retry::exponential(initial).factor(factor).up_to(longest);
    let policy = match attempts {
        0 => retry,
        most => retry.attempts(most, Exhausted::Hold),
    };
    Ok(Retries { policy, attempts })
}

/// Reads `500/s`.
pub(crate) fn rate(text: &str) -> Result<Rate, String> {
    const EXPECTED: &str = "a number of records a second, like 500/s";
    let records = text.strip_suffix("/s").ok_or(EXPECTED)?;
    let records = records.parse().map_err(|_| EXPECTED)?;
    Ok(Rate::per_second(records))
}

/// Reads `property=value`; the value may hold more equals signs.
pub(crate) fn property(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("not of the form property=value".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        for (text, nanos) in [
            ("50us", 50_000),
            ("2ms", 2_000_000),
            ("1.5s", 1_500_000_000),
            ("0s", 0),
            ("3m", 180_000_000_000),
            ("1h", 3_600_000_000_000),
            ("7ns", 7),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
        for text in [
            "", "1", "s", "-1s", "1x", "1 s", "infs", "NaNs", "1e3s", "1..2s", "99999h",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rates_are_by_the_second() {
        assert_eq!(rate("500/s"), Ok(Rate::per_second(500)));
        for text in ["500", "/s", "0.5/s", "-1/s", "500/m", "5 00/s"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn offsets_are_one_or_a_range() {
        let range = |first, last| OffsetRange::new(Offset::new(first)?, Offset::new(last)?);
        assert_eq!(offsets("57").ok(), range(57, 57));
        assert_eq!(offsets("0-60").ok(), range(0, 60));
        assert!(range(0, 60).is_some());
        for text in [
            "",
            "-",
            "-1",
            "5-",
            "5-4",
            "5-6-7",
            "x",
            "99999999999999999999",
        ] {
            assert!(offsets(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_property_keeps_the_equals_signs_of_its_value() {
        let pair = |name: &str, value: &str| Ok((name.to_owned(), value.to_owned()));
        assert_eq!(property("a=b=c"), pair("a", "b=c"));
        assert_eq!(property("a="), pair("a", ""));
        assert!(property("a").is_err());
        assert!(property("=a").is_err());
    }
}
