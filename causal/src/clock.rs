//! Causes for programs that produce and consume without the engine.

use std::fmt;

use crate::causes::Causes;
use crate::channel::{Channel, Position};
use crate::error::CausesError;
use crate::header::{HEADER, ReservedHeader, check_names, find_causes};

/// What a program has seen, for programs that use a Kafka client by itself: each record received goes in, each record sent
/// carries what comes out. What is inside is nobody's to read or to change.
///
/// ```
/// use keyway_causal::{CausalClock, Channel, HEADER, Position, TopicId};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut clock = CausalClock::default();
///
/// // A record of partition 3 came at offset 41. The client knows the topic's id from the cluster's metadata.
/// let orders: TopicId = "5b6f1c1b0e0f4c6f9d8a7b6c5d4e3f2a".parse()?;
/// let channel = Channel::new(orders, 3).ok_or("no such partition")?;
/// let position = Position::new(41).ok_or("no such offset")?;
/// let received: [(&str, Option<&[u8]>); 1] = [("trace", Some(b"17"))];
/// clock.observe(channel, position, received)?;
///
/// // Whoever gets this one waits for that one first, if it reads that topic at all.
/// let mut headers: Vec<(String, Vec<u8>)> = vec![("trace".into(), b"18".to_vec())];
/// clock.stamp_onto(&mut headers)?;
/// assert_eq!(headers[1].0, HEADER);
/// assert_eq!(headers[1].1, clock.stamp());
/// # Ok(())
/// # }
/// ```
///
/// Observe a record when it is received, before anything that it leads to is sent, and only at the position at which it was
/// received: no receiver can wait for another one, the end of the log for instance. A record sent is not observed: it counts
/// once somebody receives it. Two clocks of one program know nothing of each other; [`absorb`](Self::absorb) tells one what
/// the other knows.
///
/// A clock forgets with its process. Whoever resumes from committed offsets keeps the last stamp with them, and
/// [`resume`](Self::resume)s from that.
#[derive(Clone, Default)]
pub struct CausalClock {
    frontier: Causes,
}

impl CausalClock {
    /// A clock that has seen nothing.
    pub const fn new() -> Self {
        Self {
            frontier: Causes::new(),
        }
    }

    /// A clock that has seen what an earlier one had when it made this stamp.
    ///
    /// # Errors
    /// When it is no stamp.
    pub fn resume(stamp: &[u8]) -> Result<Self, CausesError> {
        let frontier = Causes::decode(stamp)?;
        Ok(Self { frontier })
    }

    /// Takes in a record that was received on `channel` at `position`, and what its headers, names and values, say.
    ///
    /// # Errors
    /// When they carry causes that can't be read. The clock stays as it is; stop there, since what is sent after this record
    /// would leave causes of it out.
    pub fn observe<'a, I, N>(
        &mut self,
        channel: Channel,
        position: Position,
        headers: I,
    ) -> Result<(), CausesError>
    where
        I: IntoIterator<Item = (N, Option<&'a [u8]>)>,
        N: AsRef<[u8]>,
    {
        if let Some(causes) = find_causes(headers)? {
            self.frontier.merge_header(&causes);
        }
        self.frontier.merge(channel, position);
        Ok(())
    }

    /// Takes in all that another clock has seen.
    pub fn absorb(&mut self, other: &Self) {
        self.frontier.merge_all(&other.frontier);
    }

    /// The value of the header [`HEADER`] for a record that is sent now. Never empty: with nothing seen it says that there
    /// are no causes.
    pub fn stamp(&self) -> Vec<u8> {
        self.frontier.encode()
    }

    /// Bytes of [`stamp`](Self::stamp): part of what the broker's `max.message.bytes` limits.
    pub fn stamp_len(&self) -> usize {
        self.frontier.encoded_len()
    }

    /// Adds the header to those of a record that is sent now.
    ///
    /// # Errors
    /// When one of them has a name that is reserved, a stamp of before for instance. Nothing is added or replaced then: two
    /// would make the record unreadable, and the one that is there says less, or comes from somewhere else.
    pub fn stamp_onto<N, V>(&self, headers: &mut Vec<(N, V)>) -> Result<(), ReservedHeader>
    where
        N: AsRef<[u8]> + From<&'static str>,
        V: From<Vec<u8>>,
    {
        check_names(headers.iter().map(|(name, _)| name))?;
        headers.push((N::from(HEADER), V::from(self.stamp())));
        Ok(())
    }
}

impl fmt::Debug for CausalClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CausalClock({} channels)", self.frontier.len())
    }
}
