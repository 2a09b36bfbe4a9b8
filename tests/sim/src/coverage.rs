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
    Failed: "an attempt failed",
    Panicked: "an attempt panicked",
    Skipped: "a record was skipped",
    StopAsked: "a handler asked for a stop",
    RetryRan: "a second attempt ran",
    PassedOver: "a record was passed over after its last attempt",
    GivenUp: "a handler gave a record up",
    OutputsAsked: "a handler had outputs",
    OutputsAcknowledged: "outputs were acknowledged",
    OutputsFailed: "outputs could not be sent",
    OutputsAmbiguous: "outputs were sent, and their writer did not hear of it",
    OutputsBehind: "outputs waited for those of a record before theirs",
    OutputsHeldBack: "outputs were not sent because a record before theirs runs again",
    OutputsLate: "outputs were answered after their assignment had ended",
    DeadLetterAsked: "a handler wanted a dead letter",
    LetterWritten: "a dead letter was acknowledged",
    LetterFailed: "a dead letter could not be written",
    LetterAmbiguous: "a dead letter was written, and its writer did not hear of it",
    LetterTriedAgain: "a dead letter was tried again",
    LetterLate: "a dead letter was answered after its assignment had ended",
    LaneClosed: "a record went back because its lane was closed",
    LeaseOver: "a record went back because its assignment had ended",
    TakenBack: "records were taken back from a busy worker",
    BatchRan: "a batch of several records ran",
    BatchSameLane: "a batch held several records of one lane",
    BatchFailedWhole: "a batch failed as a whole",
    BatchSplitToOne: "a record that failed in a batch ran alone",
    Paused: "a partition was paused",
    GivenBack: "records found no room and were given back",
    PausedByUser: "a partition was paused by its user",
    Resumed: "a partition was resumed",
    Resized: "a route got another number of calls at once",
    Retired: "a worker was retired",
    RetiredLate: "a worker that ran a record was one too many",
    CircuitOpened: "a circuit opened",
    CircuitClosed: "a circuit closed",
    Forgiven: "a failure was forgiven",
    PacedLane: "a lane waited for the pace",
    PacedPartition: "a partition waited for the pace",
    PacedMember: "everything waited for the pace",
    BuffersFull: "the buffers were full",
    Held: "the gate held a record",
    Released: "a held record was released",
    MapBlocked: "a partition waited for its map to shrink",
    MapStripped: "a map did not fit and was left out",
    RiderCommitted: "a state rode beside a map",
    RiderShed: "a state had no room beside a map",
    RiderUnchanged: "a supplier said what it had said before",
    RiderRestored: "a state was restored",
    WindowFull: "a map reached the widest window",
    CapLearned: "a smaller cap was learned from the broker",
    TransactionCommitted: "a transaction with outputs was committed",
    TransactionAborted: "a transaction was aborted",
    TransactionFoundCommitted: "a transaction turned out to be committed",
    TransactionFoundAborted: "a transaction turned out to be aborted",
    TransactionLate: "a transaction was answered after an assignment in it had ended",
    OutputsRefused: "outputs of a transaction were refused",
    LetterRefused: "a dead letter of a transaction was refused",
    CoveredInPart: "a transaction covered a part of what was staged",
    CommitStored: "a commit was stored",
    CommitPartial: "a commit was stored in part",
    CommitRepeat: "a commit was refused for a passing reason",
    CommitDenied: "a commit was denied",
    CommitTooLarge: "a text was too large for the broker",
    CommitSuperseded: "a commit came under an older generation",
    CommitMemberLost: "a commit came from a member thrown out",
    AnswerLostStored: "a stored commit's answer was lost",
    AnswerLostNever: "a request was lost",
    LandedLate: "a commit without an answer landed late",
    LandedBehindNewer: "a late commit landed behind a newer one",
    FirstPosition: "a partition began without a commit",
    StartLatest: "a group began at the end of a log",
    RestoredHoles: "a map with holes was restored",
    RestoredLogStart: "a partition was restored above its committed offset",
    SkippedComplete: "a record was passed over because the map says that it is complete",
    RevokedClean: "a revoke ended with everything committed",
    RevokeOutlived: "a handler outlived the revoke wait",
    StaleLane: "a lane waited for an attempt of an ended assignment",
    LateResult: "a result came after its assignment had ended",
    OldRecords: "records of an ended assignment arrived",
    ReassignedSame: "a partition came back to the member that had it",
    Moved: "a partition moved to another member",
    Kicked: "a member was thrown out",
    Crashed: "a member crashed",
    CrashedDirty: "a member crashed with uncommitted work",
    Repeated: "a finished record ran again after a crash or a loss",
    Drained: "a member drained",
    Stopped: "a member stopped",
    LimitReached: "a member reached its limit of starts",
    Marker: "a position without a record was passed",
    CompactedHole: "an incomplete record was compacted away",
    RetainedIncomplete: "retention passed an incomplete offset",
    DeepQueue: "a worker held several records",
    SlowHandler: "an attempt took longer than a millisecond",
}

/// How often each event occurred.
#[derive(Clone, Debug)]
pub struct Coverage([u64; Event::ALL.len()]);

impl Default for Coverage {
    fn default() -> Self {
        Self([0; Event::ALL.len()])
    }
}

impl Coverage {
    pub(crate) fn note(&mut self, event: Event) {
        self.0[event as usize] += 1;
    }

    /// How often `event` occurred.
    pub fn count(&self, event: Event) -> u64 {
        self.0[event as usize]
    }

    /// Takes in the counts of another run.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.0.iter_mut().zip(other.0) {
            *count += more;
        }
    }

    /// Every event with its count.
    pub fn counts(&self) -> impl Iterator<Item = (Event, u64)> + '_ {
        Event::ALL.iter().map(|event| (*event, self.count(*event)))
    }
}
