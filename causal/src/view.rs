//! A header's value that was found right, read where it is.
//!
//! ```text
//!     01 | topics | ( topic id:16 | partitions | ( partition | i64 position ) * partitions ) * topics
//! ```
//!
//! The one idea: the value is checked once, whole, and the walks after that rely on it, so that whoever refuses a record
//! and whoever merges or compares its causes read the same bytes with the same eyes. Nothing is copied, and nothing is sized
//! by a number in the bytes.

use crate::channel::{Channel, Position};
use crate::cursor::Cursor;
use crate::error::{CausesError, Part};
use crate::topic::TopicId;
use crate::varint;

/// The version byte.
pub(crate) const VERSION: u8 = 1;

/// Bytes of a topic id.
pub(crate) const TOPIC_BYTES: usize = 16;

/// Bytes of a position.
pub(crate) const POSITION_BYTES: usize = size_of::<i64>();

/// The first number that is no position, as it looks unsigned: 2^63 - 1, and above it all that are negative.
const NO_POSITION: u64 = i64::MAX.unsigned_abs();

/// A valid value of the header [`parsley.causes`](crate::HEADER), borrowed. Equal sets have equal values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CausesView<'a> {
    bytes: &'a [u8],
    /// All behind the number of topics.
    groups: &'a [u8],
    /// Whether the pairs of each topic are equally long, as they are where its partitions are all below 128 or all above.
    is_even: bool,
}

impl<'a> CausesView<'a> {
    /// Checks a header's value.
    ///
    /// # Errors
    /// When it is anything but the one spelling of a set of causes.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, CausesError> {
        let mut cursor = Cursor::new(bytes);
        let [version] = cursor.array(Part::Version)?;
        if version != VERSION {
            return Err(CausesError::Version { version });
        }
        let topics = cursor.varint::<31>(Part::TopicCount)?;
        let groups = cursor.rest;
        let mut is_even = true;
        let mut last = [0; TOPIC_BYTES];
        // Ends with the bytes at the latest, whatever they announce.
        for _ in 0..topics {
            last = next_topic(&mut cursor, &last)?;
            let (first, last) = check_pairs(&mut cursor)?;
            is_even &= varint::len(first.into()) == varint::len(last.into());
        }
        match cursor.rest.len() {
            0 => Ok(Self {
                bytes,
                groups,
                is_even,
            }),
            bytes => Err(CausesError::Trailing {
                offset: cursor.at(),
                bytes,
            }),
        }
    }

    /// The value.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether there are no causes.
    pub const fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The topics with their entries, ascending.
    pub const fn topics(&self) -> Topics<'a> {
        Topics {
            rest: self.groups,
            is_even: self.is_even,
        }
    }

    /// All entries, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (Channel, Position)> + use<'a> {
        self.topics().flat_map(|group| {
            let topic = group.topic();
            let entries = group.entries();
            entries.map(move |(partition, position)| (Channel::valid(topic, partition), position))
        })
    }
}

/// The entries of one topic in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicCauses<'a> {
    topic: TopicId,
    count: usize,
    pairs: &'a [u8],
}

impl<'a> TopicCauses<'a> {
    /// The topic.
    pub const fn topic(&self) -> TopicId {
        self.topic
    }

    /// How many partitions it names: one at least.
    #[allow(clippy::len_without_is_empty)]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Its partitions, ascending, and the position in each.
    pub const fn entries(&self) -> Entries<'a> {
        Entries { rest: self.pairs }
    }
}

/// See [`CausesView::topics`].
#[derive(Clone, Debug)]
pub struct Topics<'a> {
    rest: &'a [u8],
    is_even: bool,
}

impl<'a> Iterator for Topics<'a> {
    type Item = TopicCauses<'a>;

    #[inline]
    fn next(&mut self) -> Option<TopicCauses<'a>> {
        let (&topic, rest) = self.rest.split_first_chunk()?;
        let (count, rest) = varint::read::<31>(rest).ok()?;
        let count = usize::try_from(count).ok()?;
        let mut entries = Entries { rest };
        entries.next()?;
        let bytes = if self.is_even {
            count * (rest.len() - entries.rest.len())
        } else {
            for _ in 1..count {
                entries.next()?;
            }
            rest.len() - entries.rest.len()
        };
        let (pairs, rest) = rest.split_at_checked(bytes)?;
        self.rest = rest;
        Some(TopicCauses {
            topic: TopicId::valid(topic),
            count,
            pairs,
        })
    }
}

/// See [`TopicCauses::entries`].
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    rest: &'a [u8],
}

impl Iterator for Entries<'_> {
    type Item = (u32, Position);

    #[inline]
    fn next(&mut self) -> Option<(u32, Position)> {
        let (partition, rest) = varint::read::<31>(self.rest).ok()?;
        let (&position, rest) = rest.split_first_chunk()?;
        self.rest = rest;
        // Both were in their ranges when the value was checked.
        Some((
            partition as u32,
            Position::valid(i64::from_be_bytes(position)),
        ))
    }
}

/// The next topic id, which has to be above `last`.
fn next_topic(
    cursor: &mut Cursor<'_>,
    last: &[u8; TOPIC_BYTES],
) -> Result<[u8; TOPIC_BYTES], CausesError> {
    let offset = cursor.at();
    let topic = cursor.array(Part::TopicId)?;
    if topic > *last {
        Ok(topic)
    } else if topic == [0; TOPIC_BYTES] {
        Err(CausesError::TopicZero { offset })
    } else {
        Err(CausesError::TopicOrder { offset })
    }
}

/// Passes over the partitions of a topic with their positions; the first and the last partition.
fn check_pairs(cursor: &mut Cursor<'_>) -> Result<(u32, u32), CausesError> {
    let offset = cursor.at();
    let count = cursor.varint::<31>(Part::PartitionCount)?;
    if count == 0 {
        return Err(CausesError::PartitionCountZero { offset });
    }
    // No partition can be above 2^31 - 1, so that the one after it is a number.
    let (mut first, mut least) = (None, 0);
    for _ in 0..count {
        let partition = cursor.varint::<31>(Part::Partition)? as u32;
        let position: [u8; POSITION_BYTES] = cursor.array(Part::Position)?;
        if partition < least || u64::from_be_bytes(position) >= NO_POSITION {
            let position = i64::from_be_bytes(position);
            return Err(wrong_pair(cursor.at(), partition, least, position));
        }
        first.get_or_insert(partition);
        least = partition + 1;
    }
    Ok((first.unwrap_or_default(), least - 1))
}

/// What is wrong with the pair that ends before `end`.
#[cold]
fn wrong_pair(end: usize, partition: u32, least: u32, position: i64) -> CausesError {
    let offset = end - POSITION_BYTES;
    if partition < least {
        let offset = offset - varint::len(partition.into());
        CausesError::PartitionOrder { offset, partition }
    } else if position < 0 {
        CausesError::PositionNegative { offset, position }
    } else {
        CausesError::PositionReserved { offset }
    }
}
