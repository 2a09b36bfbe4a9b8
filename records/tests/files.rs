//! Files of record blocks: whole, torn off, damaged.

#![allow(clippy::unwrap_used)]

mod common;

use std::io::{self, Read};

use common::{header, seal};
use keyway_records::{DecodeError, ReadError, Record, RecordReader, append_record};

/// A file of two records, and where the second begins.
fn file() -> (Vec<u8>, usize) {
    let mut file = Vec::new();
    let first = Record {
        key: Some(b"first"),
        value: Some(b"1"),
        timestamp: 1,
        headers: Vec::new(),
    };
    append_record(&first, &mut file).unwrap();
    let second = file.len();
    let headers = vec![header("trace", b"\x01"), header("trace", b"\x02")];
    let last = Record {
        key: Some(b"last"),
        headers,
        ..first
    };
    append_record(&last, &mut file).unwrap();
    (file, second)
}

/// The keys, and how the reading ended.
fn read(file: impl Read) -> (Vec<Vec<u8>>, Option<ReadError>) {
    let mut blocks = RecordReader::new(file);
    let mut keys = Vec::new();
    loop {
        match blocks.read() {
            Ok(Some(record)) => keys.push(record.key.unwrap().to_vec()),
            Ok(None) => return (keys, None),
            Err(error) => {
                assert!(blocks.read().unwrap().is_none(), "nothing after an error");
                return (keys, Some(error));
            }
        }
    }
}

#[test]
fn a_file_is_read_in_order_to_its_end() {
    let (keys, error) = read(&file().0[..]);
    assert_eq!(keys, [&b"first"[..], b"last"]);
    assert!(error.is_none());
    let (keys, error) = read(&b""[..]);
    assert!(keys.is_empty() && error.is_none());
}

#[test]
fn a_last_block_is_torn_wherever_the_file_ends_in_it() {
    let (file, second) = file();
    for end in second + 1..file.len() {
        let (keys, error) = read(&file[..end]);
        assert_eq!(keys, [b"first"]);
        let Some(ReadError::Torn {
            offset,
            present,
            needed,
        }) = error
        else {
            panic!("{end}: {error:?}");
        };
        assert_eq!((offset, present), (second as u64, (end - second) as u64));
        assert!(present < needed && needed <= (file.len() - second) as u64);
    }
}

#[test]
fn a_file_that_was_cut_where_it_says_takes_more() {
    let (whole, _) = file();
    let mut torn = whole[..whole.len() - 1].to_vec();
    let mut blocks = RecordReader::new(&torn[..]);
    while let Ok(Some(_)) = blocks.read() {}
    let good = blocks.offset() as usize;
    torn.truncate(good);
    torn.extend_from_slice(&whole);
    let (keys, error) = read(&torn[..]);
    assert_eq!(keys, [&b"first"[..], b"first", b"last"]);
    assert!(error.is_none());
}

#[test]
fn a_damaged_block_is_not_a_torn_one() {
    let (file, second) = file();
    for (at, name) in [
        (0, "bad_crc"),
        (4, "unknown_attrs"),
        (5, "bad_crc"),
        (30, "bad_crc"),
    ] {
        let mut damaged = file.clone();
        damaged[second + at] ^= 0x04;
        let (keys, error) = read(&damaged[..]);
        assert_eq!(keys, [b"first"]);
        let Some(ReadError::Corrupt { offset, fault }) = error else {
            panic!("{at}: {error:?}");
        };
        assert_eq!((offset, fault.name()), (second as u64, name));
    }
    let mut damaged = file;
    damaged[25] ^= 1;
    assert!(
        matches!(read(&damaged[..]), (keys, Some(ReadError::Corrupt { offset: 0, .. })) if keys.is_empty())
    );
}

/// Without `check_beginning` these are taken for torn, and cut away.
#[test]
fn what_no_block_begins_with_is_not_torn() {
    let (file, second) = file();
    let mut damaged = file.clone();
    damaged[second + 4] |= 0x80;
    for end in second + 5..file.len() {
        let (_, error) = read(&damaged[..end]);
        assert!(
            matches!(
                error,
                Some(ReadError::Corrupt {
                    fault: DecodeError::UnknownAttrs { .. },
                    ..
                })
            ),
            "{end}: {error:?}"
        );
    }
    let mut damaged = file.clone();
    damaged[second + 5] = 0x02;
    let (_, error) = read(&damaged[..file.len() - 1]);
    assert!(
        matches!(
            error,
            Some(ReadError::Corrupt {
                fault: DecodeError::LengthOfNull { .. },
                ..
            })
        ),
        "{error:?}"
    );
}

/// Without the limit the block counts as torn, and is cut away.
#[test]
fn a_length_over_the_limit_is_damage() {
    let (mut file, _) = file();
    file[14..18].copy_from_slice(&(1_u32 << 31).to_be_bytes());
    let claimed = 22 + (1 << 31) + 1;
    assert!(matches!(
        read(&file[..]),
        (_, Some(ReadError::TooLong { offset: 0, bytes, limit })) if (bytes, limit) == (claimed, 1 << 31)
    ));
    let mut blocks = RecordReader::new(&file[..]).with_max_block_bytes(claimed);
    assert!(
        matches!(blocks.read(), Err(ReadError::Torn { offset: 0, needed, .. }) if needed == claimed)
    );
}

#[test]
fn an_input_that_fails_is_no_end() {
    struct Fails;
    impl Read for Fails {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("unplugged"))
        }
    }
    let (file, second) = file();
    let (keys, error) = read(file[..second + 10].chain(Fails));
    assert_eq!(keys, [b"first"]);
    assert!(
        matches!(error, Some(ReadError::Io { offset, .. }) if offset == second as u64),
        "{error:?}"
    );
}

/// Right by its checksum, and refused for what it says.
#[test]
fn a_block_of_another_writer_is_named() {
    let (mut file, second) = file();
    file[5] = 0x07;
    seal(&mut file[..second]);
    let (_, error) = read(&file[..]);
    assert!(
        matches!(
            error,
            Some(ReadError::Corrupt {
                fault: DecodeError::UnknownPresence { .. },
                ..
            })
        ),
        "{error:?}"
    );
}
