//! The shard: the part of a group's frontier that rides beside a partition's committed offset.
//!
//! ```text
//!     CA 05 01 | own topic:16 | baseline | highest + 1 | topics | topic * topics         0 in place of highest + 1: none
//!
//!     01: the version, or 81 where something that belongs here was lost
//!     topic = topic id:16 | form | [narrow] | partitions | base | positions
//!     form    bits 0 to 5: wide; 0x40: the partitions are a bitmap; 0x80: two widths, and `narrow` is there
//! ```
//!
//! `partitions` and `positions` are those of the modules beside this one; `base` is the lowest position, and what is not a
//! byte or a topic id is a number of seven bits a byte, the lowest first.
//!
//! The one idea: 765 bytes are all that a rider is sure of, and in them the header's grammar, with nine bytes an entry, holds
//! 77. Partitions of a topic are neighbours, and their positions near each other, so what they have in common is said once.
//! Which of two forms is taken follows from the content alone: the shorter one. A content has one shard, and what is read
//! is written back to the byte, or refused.

mod bits;
mod partitions;
mod positions;

use keyway_offsets::Offset;

use self::partitions::Partitions;
use self::positions::{Packed, Widths};
use crate::causes::Causes;
use crate::channel::Position;
use crate::cursor::Cursor;
use crate::error::{Part, ShardError};
use crate::topic::TopicId;
use crate::varint;
use crate::view::TOPIC_BYTES;

/// What a shard begins with: no text and no JSON does.
const MAGIC: [u8; 2] = [0xca, 0x05];

/// The version byte behind it.
const VERSION: u8 = 1;

/// A bit of the version byte: something that belongs here was lost.
const LOSSY: u8 = 0x80;

/// The bits of the form that are the wide width.
const WIDE: u8 = 0x3f;

/// The partitions are a bitmap.
const BITMAP: u8 = 0x40;

/// There are two widths.
const TWO_WIDTHS: u8 = 0x80;

/// What rides beside a partition's hole map in a causal group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shard {
    /// The id of the partition's own topic, which says whether the shard belongs to this life of it.
    pub topic: TopicId,
    /// The group's first position in the partition: what lies below was never the group's to process.
    pub baseline: Offset,
    /// The highest position of the partition that was complete; `None` when none was.
    pub highest_complete: Option<Position>,
    /// What was learned of channels that the group does not consume.
    pub learned: Causes,
    /// Something that belongs here was lost, and nobody has accepted that yet: a commit of this partition, or of another
    /// one of the group, carried no shard.
    pub is_lossy: bool,
}

impl Shard {
    /// Whether a rider begins as a shard of this version does.
    pub fn is_shard(rider: &[u8]) -> bool {
        rider
            .strip_prefix(&MAGIC)
            .and_then(|rest| rest.first())
            .is_some_and(|version| version & !LOSSY == VERSION)
    }

    /// The rider of this shard. Equal shards have equal riders.
    pub fn encode(&self) -> Vec<u8> {
        let mut rider = Vec::with_capacity(self.encoded_len());
        rider.extend_from_slice(&MAGIC);
        rider.push(VERSION | if self.is_lossy { LOSSY } else { 0 });
        rider.extend_from_slice(&self.topic.bytes());
        for number in self.numbers() {
            varint::write(number, &mut rider);
        }
        for (topic, entries) in self.learned.topics() {
            TopicPlan::of(topic, entries).write(&mut rider);
        }
        rider
    }

    /// Bytes of the rider.
    pub fn encoded_len(&self) -> usize {
        let topics = self.learned.topics();
        MAGIC.len()
            + size_of_val(&VERSION)
            + TOPIC_BYTES
            + self.numbers().map(varint::len).iter().sum::<usize>()
            + topics
                .map(|(topic, entries)| TopicPlan::of(topic, entries).len())
                .sum::<usize>()
    }

    /// Reads a rider.
    ///
    /// # Errors
    /// When it is anything but the one rider of a shard. What is allocated is bounded by its bytes: at most eight entries for each.
    pub fn decode(rider: &[u8]) -> Result<Self, ShardError> {
        let mut cursor = Cursor::new(rider);
        cursor.rest = rider.strip_prefix(&MAGIC).ok_or(ShardError::NotAShard)?;
        let [version] = cursor.array(Part::Version)?;
        if version & !LOSSY != VERSION {
            return Err(ShardError::Version { version });
        }
        let topic = topic_id(&mut cursor)?;
        let offset = cursor.at();
        let baseline = cursor.varint::<63>(Part::Baseline)?;
        // Both always are: the number has 63 bits.
        let baseline = i64::try_from(baseline).ok().and_then(Offset::new);
        let baseline = baseline.ok_or(ShardError::BadNumber {
            offset,
            part: Part::Baseline,
        })?;
        let highest = cursor.varint::<63>(Part::HighestComplete)?;
        let highest = i64::try_from(highest).ok().and_then(Offset::new);
        let topics = cursor.varint::<31>(Part::TopicCount)?;
        let mut learned = Causes::new();
        let mut last = None;
        for _ in 0..topics {
            let offset = cursor.at();
            let topic = topic_id(&mut cursor)?;
            if last.is_some_and(|last| last >= topic) {
                return Err(ShardError::NotCanonical { offset });
            }
            last = Some(topic);
            learned.push_topic(topic, entries(&mut cursor)?);
        }
        if !cursor.rest.is_empty() {
            return Err(ShardError::Trailing {
                offset: cursor.at(),
                bytes: cursor.rest.len(),
            });
        }
        let shard = Self {
            topic,
            baseline,
            highest_complete: highest.and_then(Position::before),
            learned,
            is_lossy: version & LOSSY != 0,
        };
        shard.check_spelling(rider)?;
        Ok(shard)
    }

    /// Baseline, highest complete position, and the number of topics.
    fn numbers(&self) -> [u64; 3] {
        let highest = self.highest_complete.map_or(0, |highest| {
            // A position is at most 2^63 - 2.
            highest.next().get().unsigned_abs()
        });
        [
            self.baseline.get().unsigned_abs(),
            highest,
            self.learned.topics().len() as u64,
        ]
    }

    /// Whether `rider`, which was read, is what is written.
    fn check_spelling(&self, rider: &[u8]) -> Result<(), ShardError> {
        let written = self.encode();
        if written == rider {
            return Ok(());
        }
        let differs = written
            .iter()
            .zip(rider)
            .position(|(one, other)| one != other);
        let offset = differs.unwrap_or(written.len().min(rider.len()));
        Err(ShardError::NotCanonical { offset })
    }
}

fn topic_id(cursor: &mut Cursor<'_>) -> Result<TopicId, ShardError> {
    let offset = cursor.at();
    TopicId::new(cursor.array(Part::TopicId)?).ok_or(ShardError::TopicZero { offset })
}

/// The entries of a topic, read.
fn entries(cursor: &mut Cursor<'_>) -> Result<Vec<(u32, Position)>, ShardError> {
    let [form] = cursor.array(Part::Form)?;
    let narrow = if form & TWO_WIDTHS != 0 {
        let [narrow] = cursor.array(Part::Form)?;
        Some(narrow.into())
    } else {
        None
    };
    let wide = (form & WIDE).into();
    let runs = partitions::read(cursor, form & BITMAP != 0)?;
    let base = cursor.varint::<63>(Part::Base)?;
    let is_single = matches!(*runs, [(first, last)] if first == last);
    let partitions = runs.into_iter().flat_map(|(first, last)| first..=last);
    positions::read(cursor, partitions, is_single, base, Widths { wide, narrow })
}

/// How the entries of a topic are written.
struct TopicPlan<'a> {
    topic: TopicId,
    entries: &'a [(u32, Position)],
    partitions: Partitions,
    packed: Packed,
}

impl<'a> TopicPlan<'a> {
    fn of(topic: TopicId, entries: &'a [(u32, Position)]) -> Self {
        Self {
            topic,
            entries,
            partitions: Partitions::of(entries),
            packed: Packed::of(entries),
        }
    }

    /// Form, and the narrow width where there are two.
    fn form(&self) -> (u8, Option<u8>) {
        let Widths { wide, narrow } = self.packed.widths;
        let bitmap = if self.partitions.is_bitmap { BITMAP } else { 0 };
        let two = if narrow.is_some() { TWO_WIDTHS } else { 0 };
        // No width is above 63.
        (wide as u8 | bitmap | two, narrow.map(|narrow| narrow as u8))
    }

    fn len(&self) -> usize {
        let (form, narrow) = self.form();
        TOPIC_BYTES
            + size_of_val(&form)
            + narrow.map_or(0, |narrow| size_of_val(&narrow))
            + self.partitions.len
            + varint::len(self.packed.base)
            + self.packed.len
    }

    fn write(&self, to: &mut Vec<u8>) {
        let (form, narrow) = self.form();
        to.extend_from_slice(&self.topic.bytes());
        to.push(form);
        to.extend(narrow);
        self.partitions.write(to);
        varint::write(self.packed.base, to);
        self.packed.write(self.entries, to);
    }
}
