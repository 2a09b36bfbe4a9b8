//! `--record FILE`: each record as a record block, behind those that the file has already.
//!
//! The one idea: the file has one writer, which knows how long it is, so that what a write leaves of a block when it fails is
//! cut off again. What a kill leaves nobody can cut, and a file with such an end is not appended to.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use keyway::Record;
use keyway_records::{Header, ReadError, Record as Block, RecordReader, append_record};
use rustix::fs::{FlockOperation, flock};

use super::events::Fault;

/// A block's word for no timestamp.
const NO_TIMESTAMP: i64 = -1;

/// Bytes read at once from a file that there is already.
const READ_BYTES: usize = 1024 * 1024;

/// Why a file is not appended to.
#[derive(Debug)]
pub(super) enum NoTape {
    Io(io::Error),
    /// A pipe, or a device.
    NoFile,
    /// Another process has it.
    Taken,
    /// It is no file of blocks, or its end is torn.
    Damaged(ReadError),
}

impl NoTape {
    pub(super) fn of(&self, path: &Path) -> String {
        let path = path.display();
        match self {
            Self::Io(error) => format!("{path} can't be written: {error}"),
            Self::NoFile => format!("{path} is no regular file"),
            Self::Taken => format!("{path} is written to by another process"),
            Self::Damaged(ReadError::Torn { offset, .. }) => format!(
                "{path} ends within a block, at byte {offset}: what was written last was cut off by a kill. \
                 Read it up to there, or cut it (truncate -s {offset} {path})"
            ),
            Self::Damaged(error) => format!("{path} is no file of record blocks: {error}"),
        }
    }
}

/// Appends records to a file.
pub(super) struct Tape {
    path: PathBuf,
    state: Mutex<State>,
    fault: Fault,
}

struct State {
    file: File,
    block: Vec<u8>,
    /// Length of the file.
    bytes: u64,
    recorded: u64,
    /// Of these, records with headers that no block holds.
    without_headers: u64,
    /// Records that ran and are not in the file.
    missed: u64,
}

impl Tape {
    /// Opens the file for appending, and reads what is in it; it is made when it is not there.
    pub(super) fn open(path: &Path) -> Result<Self, NoTape> {
        let mut options = OpenOptions::new();
        let file = options
            .create(true)
            .read(true)
            .append(true)
            .open(path)
            .map_err(NoTape::Io)?;
        if !file.metadata().map_err(NoTape::Io)?.is_file() {
            return Err(NoTape::NoFile);
        }
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(NoTape::Taken),
            Err(error) => return Err(NoTape::Io(error.into())),
        }
        let mut blocks = RecordReader::new(BufReader::with_capacity(READ_BYTES, &file));
        while blocks.read().map_err(NoTape::Damaged)?.is_some() {}
        let bytes = blocks.offset();
        Ok(Self {
            path: path.to_owned(),
            state: Mutex::new(State {
                file,
                block: Vec::new(),
                bytes,
                recorded: 0,
                without_headers: 0,
                missed: 0,
            }),
            fault: Fault::default(),
        })
    }

    /// Where a failure of the file shows.
    pub(super) fn fault(&self) -> Fault {
        Arc::clone(&self.fault)
    }

    /// Appends a record when its first attempt begins.
    pub(super) fn started(&self, record: &Record) {
        if record.attempt() > 1 {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Behind a write that has failed there may be a hole.
        if state.missed > 0 {
            state.missed += 1;
        } else if let Err(error) = state.append(record) {
            state.missed = 1;
            let cut = match state.file.set_len(state.bytes) {
                Ok(()) => String::new(),
                Err(error) => format!("; its end could not be cut off ({error})"),
            };
            let _ = self.fault.set(format!(
                "{} can't be written: {error}; it is whole up to byte {}{cut}",
                self.path.display(),
                state.bytes
            ));
        }
    }

    /// What there is to say at the end, besides the fault.
    pub(super) fn report(&self) -> Vec<String> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.path.display();
        let mut lines = Vec::new();
        if state.missed > 0 {
            let (recorded, missed) = (state.recorded, state.missed);
            lines.push(format!(
                "{path}: {recorded} of the records that ran are in it, {missed} are not"
            ));
        }
        if state.without_headers > 0 {
            let count = state.without_headers;
            lines.push(format!(
                "{path}: {count} records are in it without some of their headers, which no block holds: their names are \
                 not UTF-8, or they break the protocol"
            ));
        }
        lines
    }
}

impl State {
    fn append(&mut self, record: &Record) -> io::Result<()> {
        let (headers, are_all) = headers(record);
        let mut block = Block {
            key: record.key(),
            value: record.value(),
            timestamp: record.timestamp().unwrap_or(NO_TIMESTAMP),
            headers,
        };
        self.block.clear();
        let mut is_whole = are_all;
        if append_record(&block, &mut self.block).is_err() {
            // More headers than a block counts: its other lengths are wider than those of librdkafka.
            is_whole = false;
            block.headers.clear();
            self.block.clear();
            append_record(&block, &mut self.block).map_err(io::Error::other)?;
        }
        self.file.write_all(&self.block)?;
        self.bytes += self.block.len() as u64;
        self.recorded += 1;
        self.without_headers += u64::from(!is_whole);
        Ok(())
    }
}

/// The headers that a block holds, and whether these are all.
fn headers(record: &Record) -> (Vec<Header<'_>>, bool) {
    let Ok(headers) = record.headers() else {
        return (Vec::new(), false);
    };
    let mut are_all = true;
    let held = headers.filter_map(|header| {
        let name = header.name();
        are_all &= name.is_some();
        Some(Header {
            name: name?,
            value: header.value(),
        })
    });
    (held.collect(), are_all)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use keyway::testing::{TestEngine, TestRecord};
    use keyway::{ClientConfig, Keyway};

    use super::*;

    /// What no block holds is left out and said, and nothing else.
    #[test]
    fn headers_keep_order_duplicates_and_nulls_and_names_that_are_no_text_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records");
        let tape = Arc::new(Tape::open(&path).unwrap());
        let recorder = Arc::clone(&tape);
        let builder = Keyway::builder(ClientConfig::new())
            .group("g")
            .topics(["t"])
            .handler(move |record: &Record| recorder.started(record));
        let mut engine = TestEngine::new(builder).unwrap();
        let record = TestRecord::new("t", 0)
            .value("v")
            .header("a", "1")
            .header(b"\xff", "2")
            .null_header("a");
        engine.assign("t", 0).feed_record(record).run();
        let file = std::fs::read(&path).unwrap();
        let mut blocks = RecordReader::new(&file[..]);
        let record = blocks.read().unwrap().unwrap();
        let headers: Vec<_> = record
            .headers
            .iter()
            .map(|it| (it.name, it.value))
            .collect();
        assert_eq!(headers, [("a", Some(b"1".as_slice())), ("a", None)]);
        assert_eq!((record.key, record.value), (None, Some(b"v".as_slice())));
        assert_eq!(blocks.read().unwrap(), None);
        let report = tape.report();
        assert!(
            report[0].contains("1 records are in it without"),
            "{report:?}"
        );
    }
}
