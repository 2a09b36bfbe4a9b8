//! The simulated broker: logs, committed offsets with their texts, and the group's generation.
//!
//! It keeps what a real coordinator promises and no more: it refuses another generation, stores any offset of
//! the current one, counts characters, and may apply a request whose answer nobody gets.

use keyway_offsets::Offset;

/// What stands at an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Record,
    /// A transaction's marker: an offset without a record.
    Marker,
    /// A record that compaction took away.
    Gone,
}

/// One offset of a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    pub(crate) key: Option<usize>,
    pub(crate) bytes: u32,
    pub(crate) leader_epoch: i32,
    /// The gate holds it.
    pub(crate) held: bool,
    /// Fails every batch that holds another record.
    pub(crate) poison: bool,
}

/// One partition's log.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) first: i64,
    pub(crate) entries: Vec<Entry>,
    /// Below, retention has deleted.
    pub(crate) start: i64,
    pub(crate) leader_epoch: i32,
}

impl Log {
    pub(crate) fn end(&self) -> i64 {
        self.first + self.entries.len() as i64
    }

    pub(crate) fn get(&self, offset: i64) -> Option<&Entry> {
        let index = usize::try_from(offset - self.first).ok()?;
        self.entries.get(index)
    }

    /// Whether a record can be read at `offset`.
    pub(crate) fn holds_record(&self, offset: i64) -> bool {
        offset >= self.start
            && self
                .get(offset)
                .is_some_and(|entry| entry.kind == Kind::Record)
    }
}

/// What the group has committed for a partition.
#[derive(Clone, Debug)]
pub(crate) struct Committed {
    pub(crate) offset: Offset,
    pub(crate) text: String,
    pub(crate) leader_epoch: Option<i32>,
}

/// One cluster with one group.
#[derive(Debug)]
pub(crate) struct Broker {
    pub(crate) logs: Vec<Log>,
    pub(crate) committed: Vec<Option<Committed>>,
    /// Times that a commit of the partition was stored.
    pub(crate) stores: Vec<u64>,
    /// The member to whom the group has given the partition.
    pub(crate) owner: Vec<Option<usize>>,
    pub(crate) generation: u64,
}

impl Broker {
    pub(crate) fn new(partitions: usize, first_offset: i64) -> Self {
        Self {
            logs: (0..partitions)
                .map(|_| Log {
                    first: first_offset,
                    entries: Vec::new(),
                    start: first_offset,
                    leader_epoch: 0,
                })
                .collect(),
            committed: vec![None; partitions],
            stores: vec![0; partitions],
            owner: vec![None; partitions],
            generation: 0,
        }
    }
}
