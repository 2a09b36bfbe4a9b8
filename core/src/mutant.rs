//! Switches that break one rule each, to see that the simulator notices.
//!
//! Without the feature `mutants`, which only the test build of the simulator turns on, [`mutated`] is the
//! constant `false` and nothing of this is left.

/// One rule that can be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A late result counts under the assignment that has come since.
    LateResultCounts,
    /// Records of an older assignment are accepted.
    OldRecordsAccepted,
    /// What found no room is not given back.
    RestForgotten,
    /// A stored commit covers what completed up to its answer, not up to its snapshot.
    VersionAtAnswer,
    /// A commit without an answer counts as stored.
    AmbiguousIsStored,
    /// One acknowledged commit is enough after one without an answer.
    AmbiguousNeedsOne,
    /// A lane is reopened with the failure, before the rest of it has come back.
    ReopenedTooEarly,
    /// What came back is merged in the wrong order.
    MergedBackwards,
    /// A failed record does not go in front of what waits.
    FailedGoesLast,
    /// The lowest incomplete record is held by the hole map's back-pressure too.
    MapHoldsLowest,
    /// Below the threshold records start however far ahead they are.
    NoHorizon,
    /// Lanes that waited for the map are not looked at again.
    BehindMapForgotten,
    /// The base is read later than the map.
    BaseFromLater,
    /// What finishes during a revoke does not count.
    RevokeDropsCompletions,
    /// A cap that the broker taught is ignored.
    LearnedCapIgnored,
    /// A retry runs at once.
    RetryNotDue,
    /// A lane that still runs from an older assignment does not block the new one.
    StaleLaneIgnored,
    /// A paused partition is never resumed.
    NeverResumed,
    /// What a restored map says is complete runs again.
    RestoredMapIgnored,
    /// A gap in the log is not worth a commit.
    GapNotCommitted,
    /// A batch that failed as a whole is not split.
    BatchNotSplit,
    /// The gate's word is not kept.
    HeldRuns,
    /// A plan is made while another is under way.
    TwoPlans,
    /// A refused commit is not made again.
    RefusalForgotten,
    /// What an ended assignment had buffered is still counted.
    RevokedStillCounted,
    /// What is ready runs though its user has paused the partition.
    PauseIgnored,
    /// A record starts before its time though the pace says so.
    PaceIgnored,
    /// A worker that is retired gets more.
    RetiredGetsMore,
    /// An open circuit holds nothing.
    CircuitIgnored,
    /// What fails while a circuit is not closed counts like any failure.
    NothingForgiven,
    /// A record's update does not reach the state of its partition.
    UpdateForgotten,
    /// A record is complete with the order to send its outputs.
    OutputsNotAwaited,
    /// Outputs are sent though a record before theirs runs again.
    OutputsBeforeEarlierOnes,
    /// Outputs that could not be sent are forgotten.
    FailedSendForgotten,
    /// A record is complete with the order to write its dead letter.
    LetterNotAwaited,
    /// A dead letter that could not be written is not tried again.
    FailedLetterForgotten,
    /// A transaction that was aborted counts as committed.
    AbortIsStored,
    /// A transaction covers more than its map has room for.
    CoverWithoutRoom,
    /// Outputs stay staged though a record before theirs runs again.
    LaterOutputsStay,
    /// A causal commit leaves out what has to wait.
    SplitCut,
    /// The rest of a causal commit that was stored in part is not sent at once.
    TornCutStays,
    /// A cause counts as settled as soon as its own offset is complete, whatever is below it.
    GateByMembership,
    /// A cause in the record's own partition holds nothing.
    OwnChannelIgnored,
    /// A cause counts as settled with its start.
    GateOnStarted,
    /// A cause in a partition of another member holds nothing.
    ForeignIgnored,
    /// A gated channel of which nothing is known holds nothing.
    UnknownIsSettled,
    /// A record is not held, and takes a worker that waits.
    HeldTakesWorker,
    /// What is staged or running is left out of a stamp: it goes by the highest offset below which all is complete.
    StampByWatermark,
    /// A stamp covers what has finished, not what runs.
    StampWithoutRunning,
    /// The header of a record counts when it starts, not when it arrives.
    NoMergeOnReceipt,
    /// The header of a record that is complete already does not count.
    SkippedNotMerged,
    /// A shard leaves out the highest complete offset of its own partition.
    OwnHighestLeftOut,
    /// What the last owner's shard said is not written on.
    NoCustody,
    /// What was learned goes into no shard.
    LearnedNotWritten,
    /// Shards of other partitions are not read.
    OtherShardsIgnored,
    /// A shard that is missing counts as empty.
    LostIsEmpty,
    /// Merging takes the position that came last.
    MergeTakesLatest,
    /// What stays is not restored anew when a partition left without its commit.
    NoDemotion,
    /// A header that can't be read counts as none.
    UndecodableIsNone,
    /// Another partition's memory is used up for held records, and none is kept for its lowest.
    NoReservedPlace,
}

impl Mutant {
    /// All of them.
    #[cfg(feature = "mutants")]
    pub const ALL: &'static [Mutant] = &[
        Mutant::LateResultCounts,
        Mutant::OldRecordsAccepted,
        Mutant::RestForgotten,
        Mutant::VersionAtAnswer,
        Mutant::AmbiguousIsStored,
        Mutant::AmbiguousNeedsOne,
        Mutant::ReopenedTooEarly,
        Mutant::MergedBackwards,
        Mutant::FailedGoesLast,
        Mutant::MapHoldsLowest,
        Mutant::NoHorizon,
        Mutant::BehindMapForgotten,
        Mutant::BaseFromLater,
        Mutant::RevokeDropsCompletions,
        Mutant::LearnedCapIgnored,
        Mutant::RetryNotDue,
        Mutant::StaleLaneIgnored,
        Mutant::NeverResumed,
        Mutant::RestoredMapIgnored,
        Mutant::GapNotCommitted,
        Mutant::BatchNotSplit,
        Mutant::HeldRuns,
        Mutant::TwoPlans,
        Mutant::RefusalForgotten,
        Mutant::RevokedStillCounted,
        Mutant::PauseIgnored,
        Mutant::PaceIgnored,
        Mutant::RetiredGetsMore,
        Mutant::CircuitIgnored,
        Mutant::NothingForgiven,
        Mutant::UpdateForgotten,
        Mutant::OutputsNotAwaited,
        Mutant::OutputsBeforeEarlierOnes,
        Mutant::FailedSendForgotten,
        Mutant::LetterNotAwaited,
        Mutant::FailedLetterForgotten,
        Mutant::AbortIsStored,
        Mutant::CoverWithoutRoom,
        Mutant::LaterOutputsStay,
    ];

    /// Those of the causal layer, which only a member with causal delivery shows.
    #[cfg(feature = "mutants")]
    pub const CAUSAL: &'static [Mutant] = &[
        Mutant::SplitCut,
        Mutant::TornCutStays,
        Mutant::GateByMembership,
        Mutant::OwnChannelIgnored,
        Mutant::GateOnStarted,
        Mutant::ForeignIgnored,
        Mutant::UnknownIsSettled,
        Mutant::HeldTakesWorker,
        Mutant::StampByWatermark,
        Mutant::StampWithoutRunning,
        Mutant::NoMergeOnReceipt,
        Mutant::SkippedNotMerged,
        Mutant::OwnHighestLeftOut,
        Mutant::NoCustody,
        Mutant::LearnedNotWritten,
        Mutant::OtherShardsIgnored,
        Mutant::LostIsEmpty,
        Mutant::MergeTakesLatest,
        Mutant::NoDemotion,
        Mutant::UndecodableIsNone,
        Mutant::NoReservedPlace,
    ];
}

#[cfg(feature = "mutants")]
mod switch {
    use std::cell::Cell;

    use super::Mutant;

    thread_local! {
        static ACTIVE: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    /// Breaks this rule, and no other, in every core of this thread.
    pub fn mutate(mutant: Option<Mutant>) {
        ACTIVE.set(mutant);
    }

    /// Whether this rule is broken.
    pub fn mutated(mutant: Mutant) -> bool {
        ACTIVE.get() == Some(mutant)
    }
}

#[cfg(feature = "mutants")]
pub use switch::{mutate, mutated};

/// Whether this rule is broken.
#[cfg(not(feature = "mutants"))]
pub const fn mutated(_: Mutant) -> bool {
    false
}
