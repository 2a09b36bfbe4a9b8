//! What occurred in a run. A suite that never meets what it is about proves nothing, so the counts are asserted.

macro_rules! events {
    ($($name:ident: $text:literal,)*) => {
        /// Something that a suite has to have met.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Event { $(#[doc = $text] $name,)* }

        impl Event {
            /// All of them.
            pub const ALL: &'static [Event] = &[$(Event::$name,)*];

            /// In words.
            pub const fn text(self) -> &'static str {
                match self { $(Event::$name => $text,)* }
            }
        }
    };
}

events! {
    Held: "a record was held",
    Freed: "a held record was let through",
    ForeignRead: "another member's progress was read for a held record",
    ForeignFreed: "another member's progress let a record through",
    OwnChannelHeld: "a record was held for one of its own partition",
    LocalAbove: "a record started whose cause was complete here and not committed",
    Overlapped: "two records without a causal path between them ran at once",
    Sent: "an output was stamped and written",
    SentToGated: "an output went to a topic that the group consumes",
    SentBesideSibling: "an output was sent while another record ran",
    SendFailed: "an output could not be sent",
    SendAmbiguous: "an output was written, and its writer did not hear of it",
    SendRefused: "an output was refused, since what the group knew was lost",
    LossAccepted: "an operator accepted that what was known is lost",
    ShardLost: "a commit was replaced by one without a shard",
    MapStripped: "a commit went without its map",
    PartialStore: "the broker stored a part of a plan",
    Refused: "the broker refused a whole plan for now",
    Superseded: "a plan came with an older generation",
    AnswerLost: "a commit had no answer",
    LandedLate: "a commit landed late, behind a newer one",
    Crashed: "a member crashed",
    CrashedDirty: "a member crashed with something complete and not committed",
    Kicked: "a member lost its partitions",
    RevokedClean: "a partition left with its last commit",
    RevokedDirty: "a partition left without its last commit",
    Demoted: "partitions that stay were restored anew",
    Moved: "a partition came to another member",
    SkippedComplete: "a record that was complete by the map arrived",
    Malformed: "a record with a header that can't be read arrived",
    MalformedAccepted: "such a record was accepted by name",
    Compacted: "a record was compacted away",
    PositionReported: "a position was reported beyond the last record",
    NoRoom: "records found no room",
    Failed: "an attempt failed",
    PoisonFailed: "an attempt at the record failed that always fails",
    BesidePoison: "a record got done beside one that always fails",
    StartedLatest: "a group began at the end of a log that held records",
}

/// How often each event occurred.
#[derive(Clone, Debug)]
pub struct Coverage(Vec<u64>);

impl Default for Coverage {
    fn default() -> Self {
        Self(vec![0; Event::ALL.len()])
    }
}

impl Coverage {
    pub(crate) fn note(&mut self, event: Event) {
        self.0[event as usize] += 1;
    }

    pub(crate) fn note_many(&mut self, event: Event, times: u64) {
        self.0[event as usize] += times;
    }

    /// How often it occurred.
    pub fn count(&self, event: Event) -> u64 {
        self.0[event as usize]
    }

    /// Takes the counts of another run in.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.0.iter_mut().zip(&other.0) {
            *count += more;
        }
    }

    /// Each event with its count.
    pub fn counts(&self) -> impl Iterator<Item = (Event, u64)> + '_ {
        Event::ALL.iter().map(|event| (*event, self.count(*event)))
    }
}
