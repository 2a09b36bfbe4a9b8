//! A record and its story as one value: a record block whose headers are the story and whose value is the record's own
//! block. So there is one format, under one checksum, with one decoder.

use keyway_records::{Header as BlockHeader, Record as Block, decode_record, encode_record};

use super::letter::story;
use crate::record::{Header, Record};

/// Kafka's word for no timestamp.
const NO_TIMESTAMP: i64 = -1;

/// Behind the number of headers that are in the letter and not in the envelope.
const LEFT_OUT: &str =
    " headers are left out of the envelope, since no block holds them: they are the letter's own";

/// The envelope of a record; `written_at` is milliseconds since 1970.
pub(super) fn seal(record: &Record, told: &[(&'static str, String)], written_at: i64) -> Vec<u8> {
    let headers = block_headers(record);
    let mut story: Vec<_> = told
        .iter()
        .map(|(name, value)| BlockHeader {
            name,
            value: Some(value.as_bytes()),
        })
        .collect();
    let mut block = Block {
        key: record.key(),
        value: record.value(),
        timestamp: record.timestamp().unwrap_or(NO_TIMESTAMP),
        headers: headers.clone().unwrap_or_default(),
    };
    let count = record.headers().into_iter().flatten().count();
    let left_out = format!("{count}{LEFT_OUT}");
    let own = encode_record(&block).ok().filter(|_| headers.is_some());
    let own = own.unwrap_or_else(|| {
        story.push(BlockHeader {
            name: story::HEADERS_UNREADABLE,
            value: Some(left_out.as_bytes()),
        });
        block.headers.clear();
        // Without headers nothing is over what a block can say: librdkafka's lengths are smaller than a block's.
        encode_record(&block).unwrap_or_default()
    });
    let envelope = Block {
        key: None,
        value: Some(&own),
        timestamp: written_at,
        headers: story,
    };
    encode_record(&envelope).unwrap_or_default()
}

/// `None` when a name is no text. What can't be read at all is told by the story already.
fn block_headers(record: &Record) -> Option<Vec<BlockHeader<'_>>> {
    let headers = record.headers().into_iter().flatten();
    headers
        .map(|header| {
            Some(BlockHeader {
                name: header.name()?,
                value: header.value(),
            })
        })
        .collect()
}

/// What was in an envelope.
pub(super) struct Unsealed<'l> {
    pub(super) key: Option<&'l [u8]>,
    pub(super) value: Option<&'l [u8]>,
    pub(super) headers: Vec<Header<'l>>,
    pub(super) story: Vec<Header<'l>>,
}

/// Opens a letter that is an envelope; `None` when it is none.
pub(super) fn unseal(letter: &Record) -> Option<Unsealed<'_>> {
    let envelope = decode_record(letter.value()?).ok()?;
    let tells = |name: &str| envelope.headers.iter().any(|header| header.name == name);
    let left_out = envelope.headers.iter().find_map(|header| {
        let text = std::str::from_utf8(header.value?).ok()?;
        let is_it = header.name == story::HEADERS_UNREADABLE;
        let count = is_it.then(|| text.strip_suffix(LEFT_OUT))??;
        count.parse::<usize>().ok()
    });
    let own = decode_record(envelope.value?).ok()?;
    let letters: Vec<Header<'_>> = letter.headers().ok()?.collect();
    let headers = match left_out {
        Some(count) if count == letters.len() => letters.clone(),
        _ => own.headers.iter().map(header).collect(),
    };
    // A record whose value was an envelope, and that died again with its story in headers, is no envelope itself.
    let is_its = tells(story::TOPIC) && own.key == letter.key() && headers == letters;
    is_its.then(|| Unsealed {
        key: own.key,
        value: own.value,
        headers,
        story: envelope.headers.iter().map(header).collect(),
    })
}

fn header<'l>(header: &BlockHeader<'l>) -> Header<'l> {
    Header::new(header.name.as_bytes(), header.value)
}
