//! One partition's completion state, from its restored map to the map of the next commit.
//!
//! The one idea: below the highest offset that was received, an offset is incomplete exactly when it was
//! received and has not been completed. What the log skipped (markers, compaction, aborted records) never
//! comes, so receiving a later offset completes it. One bit an offset then says it all.
//!
//! ```text
//!      start         base                next               end
//!        |             |                   |                 |
//!        x x x x x x x o x x o o x x o x o | x x o x o x x x | o o o ..
//!                      '-- received or ----'-- still to come '-- not known
//!                          skipped             (restored map)
//! ```
//!
//! What the log skips above the highest offset that was completed is complete too, but not spoken about: a map
//! that reached up to it would have to list everything that waits below.
//!
//! `base` may lie beyond `next`: once its last hole is complete a restored map is complete to its end,
//! though the log has not delivered that far yet.

use crate::bitmap::Bitmap;
use crate::hole_map::HoleMap;
use crate::offset::{Offset, OffsetRange};

/// Incomplete offsets take an entry for every chunk, so a map that was made up, with a hole from here to
/// the end of the number line, must not be followed there.
const RESTORED_OFFSETS: u64 = 1 << 34;

/// What a received offset is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Received {
    /// Incomplete and seen for the first time: to be handled.
    Fresh,
    /// Complete by the restored map, or below the offset that the tracker started from: to be dropped.
    AlreadyComplete,
    /// Received before in this epoch, or passed over by a later one: a refetch after a seek.
    Repeated,
}

/// Which offsets of one partition are complete, within one epoch.
#[derive(Clone, Debug)]
pub struct Tracker {
    /// Where this epoch began reading.
    start: u64,
    /// The lowest incomplete position.
    base: u64,
    /// One past the highest position received.
    next: u64,
    /// One past the highest position that was completed or restored as complete, never below `base`.
    complete_end: u64,
    bits: Bitmap,
    running: u64,
    version: u64,
}

impl Tracker {
    /// The state of a partition that is read from `base` on, with nothing known above.
    pub fn new(base: Offset) -> Self {
        Self::restore(&HoleMap::caught_up(base))
    }

    /// The state that a committed map describes.
    ///
    /// A map far wider than any window is taken as far as 2^34 offsets; what lies above counts as
    /// incomplete then, which repeats work and loses none.
    pub fn restore(map: &HoleMap) -> Self {
        let start = map.base().position();
        let mut bits = Bitmap::new(start);
        let mut complete_end = start;
        let holes = map.holes();
        for (index, hole) in holes.iter().enumerate() {
            if hole.last.position() - start >= RESTORED_OFFSETS {
                break;
            }
            let from = hole.last.position() + 1;
            let to = holes
                .get(index + 1)
                .map_or(map.end(), |next| next.first.position());
            if bits.set_range(from, to) > 0 {
                complete_end = to;
            }
        }
        Self {
            start,
            base: start,
            next: start,
            complete_end,
            bits,
            running: 0,
            version: 0,
        }
    }

    /// Takes note that the log delivered `offset`. What lies between the highest offset received so far
    /// and this one does not exist, and is complete from now on.
    pub fn receive(&mut self, offset: Offset) -> Received {
        let at = offset.position();
        if at < self.start {
            return Received::AlreadyComplete;
        }
        if at < self.next {
            return Received::Repeated;
        }
        self.skip_to(at);
        self.next = at + 1;
        if self.bits.is_complete(at) {
            return Received::AlreadyComplete;
        }
        self.running += 1;
        Received::Fresh
    }

    /// Completes an offset that was received; whether it was incomplete until now.
    pub fn complete(&mut self, offset: Offset) -> bool {
        let at = offset.position();
        if at >= self.next || !self.bits.set(at) {
            return false;
        }
        self.running -= 1;
        self.completed_to(at + 1);
        true
    }

    /// Makes offsets incomplete again that were completed, also where the base has passed them: what they stood for
    /// did not come about. Others are passed over. Costs as much as a snapshot.
    pub fn reopen(&mut self, offsets: impl IntoIterator<Item = Offset>) {
        let is_ours = |at: &u64| (self.start..self.next).contains(at) && self.bits.is_complete(*at);
        let offsets = offsets.into_iter().map(Offset::position);
        let mut reopened: Vec<u64> = offsets.filter(is_ours).collect();
        reopened.sort_unstable();
        reopened.dedup();
        let Some(&lowest) = reopened.first() else {
            return;
        };
        self.running += reopened.len() as u64;
        let end = self.next.max(self.complete_end);
        let mut holes = self.bits.holes(self.base, end);
        holes.extend(reopened.into_iter().map(|at| OffsetRange {
            first: Offset::from_position(at),
            last: Offset::from_position(at),
        }));
        holes.sort_unstable_by_key(|hole| hole.first);
        // The bits below the base are forgotten, so that they are made anew.
        self.base = self.base.min(lowest);
        self.bits = Bitmap::new(self.base);
        let mut complete_end = self.base;
        let mut at = self.base;
        let ends = holes.iter().map(|hole| (hole.first, hole.last.next()));
        let ends = ends.map(|(first, next)| (first.position(), next.position()));
        for (hole, next) in ends.chain([(end, end)]) {
            if self.bits.set_range(at, hole) > 0 && at < self.complete_end {
                complete_end = hole.min(self.complete_end);
            }
            at = next;
        }
        self.complete_end = complete_end;
        self.version += 1;
    }

    /// Completes everything below `offset` that was not received: the end of the partition was reached
    /// there, or the log starts there now.
    pub fn complete_below(&mut self, offset: Offset) {
        self.skip_to(offset.position());
    }

    /// The offset that a commit carries: the lowest incomplete one, or one past the highest seen.
    pub fn base(&self) -> Offset {
        Offset::from_position(self.base)
    }

    /// One past the highest offset received; where reading began before any was.
    pub fn next(&self) -> Offset {
        Offset::from_position(self.next)
    }

    /// The highest offset that was completed, or is by the restored map; one below the base when there is
    /// none above it. What the log skips above it does not count.
    pub fn highest_complete(&self) -> i64 {
        // As in `HoleMap::highest`: -1 when the base is 0 and nothing is complete.
        self.complete_end.wrapping_sub(1) as i64
    }

    /// How many offsets the map of a commit spans.
    pub fn span(&self) -> u64 {
        self.complete_end - self.base
    }

    /// How many received offsets are not complete.
    pub fn incomplete_received(&self) -> u64 {
        self.running
    }

    /// Whether `offset` is complete, by the restored map or since.
    pub fn is_complete(&self, offset: Offset) -> bool {
        self.bits.is_complete(offset.position())
    }

    /// Whether nothing is incomplete: neither a received offset nor a hole of the restored map.
    pub fn is_caught_up(&self) -> bool {
        self.running == 0 && self.base == self.complete_end
    }

    /// The map that a commit made now carries.
    pub fn snapshot(&self) -> HoleMap {
        let holes = self.bits.holes(self.base, self.complete_end);
        HoleMap::from_sorted(self.base(), self.complete_end, holes)
    }

    /// A number that changes whenever [`Tracker::snapshot`] would: equal versions of one tracker mean
    /// equal maps.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Completes the positions from `next` up to `to`, which the log does not hold.
    fn skip_to(&mut self, to: u64) {
        if to <= self.next {
            return;
        }
        let from = self.next.max(self.base);
        // Where a restored map left holes the log has nothing any more.
        let newly_below = self.bits.set_range(from, to.min(self.complete_end));
        self.bits.set_range(from.max(self.complete_end), to);
        self.next = to;
        if self.raise_base() || newly_below > 0 {
            self.version += 1;
        }
    }

    /// Something below `end` has become complete, the position before `end` is.
    fn completed_to(&mut self, end: u64) {
        self.complete_end = self.complete_end.max(end);
        self.raise_base();
        self.version += 1;
    }

    /// Raises the base over what is complete; whether it was.
    fn raise_base(&mut self) -> bool {
        let is_complete = self.bits.is_complete(self.base);
        if is_complete {
            self.base = self.bits.first_incomplete(self.base);
            self.bits.trim(self.base);
            self.complete_end = self.complete_end.max(self.base);
        }
        is_complete
    }
}
