//! What stands in the headers of a request: all of a record but its value.

use std::fmt::Write;

use hyper::HeaderMap;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};
use keyway::Record;

const TOPIC: HeaderName = HeaderName::from_static("keyway-topic");
const PARTITION: HeaderName = HeaderName::from_static("keyway-partition");
const OFFSET: HeaderName = HeaderName::from_static("keyway-offset");
const TIMESTAMP: HeaderName = HeaderName::from_static("keyway-timestamp");
const ATTEMPT: HeaderName = HeaderName::from_static("keyway-attempt");
/// Not there for a null key.
const KEY: HeaderName = HeaderName::from_static("keyway-key");
/// There, with the word `true`, for a null value.
const NULL_VALUE: HeaderName = HeaderName::from_static("keyway-null-value");
/// One for each header of the record, in their order: `name=value`, or `name` for a null value.
const HEADER: HeaderName = HeaderName::from_static("keyway-header");
/// The same for each attempt, on each member.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

const BYTES: HeaderValue = HeaderValue::from_static("application/octet-stream");
const US: HeaderValue = HeaderValue::from_static(concat!("keyway/", env!("CARGO_PKG_VERSION")));

pub(super) fn of(record: &Record) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, BYTES);
    headers.insert(USER_AGENT, US);
    headers.insert(IDEMPOTENCY_KEY, text(&record.id().to_string())?);
    headers.insert(TOPIC, text(record.topic())?);
    headers.insert(PARTITION, record.partition().into());
    headers.insert(OFFSET, record.offset().into());
    if let Some(timestamp) = record.timestamp() {
        headers.insert(TIMESTAMP, timestamp.into());
    }
    headers.insert(ATTEMPT, record.attempt().into());
    if let Some(key) = record.key() {
        headers.insert(KEY, text(&escaped(key))?);
    }
    if record.value().is_none() {
        headers.insert(NULL_VALUE, HeaderValue::from_static("true"));
    }
    for header in record.headers().map_err(|error| error.to_string())? {
        let mut pair = escaped(header.name_bytes());
        if let Some(value) = header.value() {
            pair.push('=');
            pair.push_str(&escaped(value));
        }
        headers
            .try_append(HEADER, text(&pair)?)
            .map_err(|error| error.to_string())?;
    }
    Ok(headers)
}

fn text(text: &str) -> Result<HeaderValue, String> {
    text.parse().map_err(|error| format!("{error}: {text:?}"))
}

/// Bytes as a header may have them: what is no visible ASCII character, and the percent sign, the comma and the equals sign,
/// is a percent sign and two hexadecimal digits.
fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'%' | b',' | b'=' => _ = write!(text, "%{byte:02X}"),
            b'!'..=b'~' => text.push(char::from(byte)),
            _ => _ = write!(text, "%{byte:02X}"),
        }
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::mpsc::channel;

    use keyway::testing::{TestEngine, TestRecord};
    use keyway::{ClientConfig, Keyway};

    use super::*;

    #[test]
    fn all_of_a_record_but_its_value_is_in_the_headers() {
        let (sender, headers) = channel();
        let builder = Keyway::builder(ClientConfig::new())
            .group("g")
            .topics(["t"])
            .handler(move |record: &Record| sender.send(of(record).unwrap()).unwrap());
        let mut engine = TestEngine::new(builder).unwrap();
        let record = TestRecord::new("t", 3)
            .key(b"k\xff")
            .timestamp(7)
            .header("B", "1=2")
            .null_header("a")
            .header("B", "");
        engine.assign("t", 3).feed_record(record).run();
        let headers = headers.try_recv().unwrap();
        for (name, value) in [
            ("idempotency-key", "t/3/0"),
            ("keyway-topic", "t"),
            ("keyway-partition", "3"),
            ("keyway-offset", "0"),
            ("keyway-timestamp", "7"),
            ("keyway-attempt", "1"),
            ("keyway-key", "k%FF"),
            ("keyway-null-value", "true"),
        ] {
            assert_eq!(headers[name], value, "{name}");
        }
        let list: Vec<_> = headers.get_all("keyway-header").iter().collect();
        assert_eq!(list, ["B=1%3D2", "a", "B="]);
    }

    #[test]
    fn bytes_that_no_header_has_are_percent_encoded() {
        assert_eq!(escaped(b"ann-7/{\"a\":[1]}"), "ann-7/{\"a\":[1]}");
        assert_eq!(escaped(b"a b%,=\r\n\x00\x7f"), "a%20b%25%2C%3D%0D%0A%00%7F");
        assert_eq!(escaped("\u{e9}".as_bytes()), "%C3%A9");
        assert_eq!(escaped(b"\xff"), "%FF");
        assert_eq!(escaped(b""), "");
        let all: Vec<u8> = (0..=u8::MAX).collect();
        assert!(text(&escaped(&all)).is_ok());
    }
}
