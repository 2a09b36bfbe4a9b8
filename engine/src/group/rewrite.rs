//! A new commit in place of one that was looked at.
//!
//! ```text
//!   read again, compare --> [ state? --> commit ] for each request --> read back, compare
//!        | differs              | live
//!        v                      v
//!     nothing written        no further request
//! ```

use std::collections::HashMap;
use std::ops::Range;

use super::{Commit, Group, GroupError, Liveness};
use crate::kafka::{CommitOffset, ErrorCode, TopicPartition};

/// Partitions in one request.
const WRITTEN_AT_ONCE: usize = 500;

/// Characters in one request: what a coordinator stores of a request is one batch of its log, which is refused above
/// 1 MiB.
const CHARS_AT_ONCE: usize = 256 * 1024;

/// What a stranger is told by the coordinator of a group with members.
const NOT_A_MEMBER: &str = "UNKNOWN_MEMBER_ID";

/// A new commit for a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewrite {
    /// Where.
    pub partition: TopicPartition,
    /// The commit as it was read.
    pub seen: Commit,
    /// The new offset.
    pub offset: i64,
    /// The leader epoch beside it. One that is older than the records below the offset makes the next member take the
    /// log for one that was cut off: where the offset goes up, it is the one of the [log's end](Group::log_ends).
    pub leader_epoch: Option<i32>,
    /// The new text.
    pub metadata: String,
}

impl Rewrite {
    /// A new text beside an offset that stays.
    pub fn text(partition: TopicPartition, seen: Commit, metadata: String) -> Self {
        Self {
            offset: seen.offset,
            leader_epoch: seen.leader_epoch,
            partition,
            seen,
            metadata,
        }
    }
}

/// Why a partition has not got its new commit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotRewritten {
    /// The coordinator stored something else, or nothing.
    #[error("the coordinator answered {0}, and the new commit is not there")]
    Refused(ErrorCode),
    /// A member has joined since the question, and the coordinator takes commits of members only.
    #[error(
        "a member has joined meanwhile, the old commit is still there: stop all members, and begin anew"
    )]
    Joined,
    /// Nobody knows: the request may still be stored.
    #[error(
        "no answer in time: the new commit may still be stored. Inspect the group before anything else"
    )]
    Open,
    /// It was acknowledged, and another commit is there.
    #[error("somebody has committed over it: stop whoever commits for the group, and begin anew")]
    Overwritten,
    /// An earlier request did not go through.
    #[error("not tried, since {0}")]
    NotTried(String),
}

/// How a request ended, before it is known what is stored.
type Sent = Result<(), NotRewritten>;

impl Group {
    /// Replaces commits, if the group stands still and each commit is still the one that was seen. Afterwards
    /// each is read back. One result for each change, in order. For a group that was opened to
    /// [wait for transactions](super::OpenTransactions::WaitFor): the end of one would replace the new commit.
    ///
    /// # Errors
    /// When nothing was written: the group is live or may be, a commit has moved, or there was no answer.
    pub fn rewrite(
        &self,
        changes: &[Rewrite],
    ) -> Result<Vec<Result<(), NotRewritten>>, GroupError> {
        if changes.is_empty() {
            return Ok(Vec::new());
        }
        self.ensure_stopped()?;
        self.check_unmoved(changes)?;
        let mut sent: Vec<Sent> = Vec::with_capacity(changes.len());
        let mut stopped_by = None;
        for request in requests(changes) {
            let changes = &changes[request];
            if let Some(reason) = &stopped_by {
                let not_tried = NotRewritten::NotTried(String::clone(reason));
                sent.extend(changes.iter().map(|_| Err(not_tried.clone())));
                continue;
            }
            // The last thing before the request.
            match self.ensure_stopped() {
                Err(error) if sent.is_empty() => return Err(error),
                Err(error) => {
                    let reason = error.to_string();
                    let not_tried = NotRewritten::NotTried(reason.clone());
                    sent.extend(changes.iter().map(|_| Err(not_tried.clone())));
                    stopped_by = Some(reason);
                }
                Ok(()) => {
                    let outcome = self.send(changes);
                    if let Err(error) = &outcome {
                        stopped_by = Some(error.to_string());
                    }
                    sent.extend(changes.iter().map(|_| outcome.clone()));
                }
            }
        }
        Ok(self.verify(changes, sent))
    }

    fn send(&self, changes: &[Rewrite]) -> Sent {
        let offsets: Vec<CommitOffset<'_>> = changes
            .iter()
            .map(|change| CommitOffset {
                tp: change.partition.clone(),
                offset: change.offset,
                leader_epoch: change.leader_epoch,
                metadata: &change.metadata,
            })
            .collect();
        match self.outsider.commit(&offsets, self.timeout) {
            Ok(Some(Ok(()))) => Ok(()),
            Ok(Some(Err(code))) if code.name == NOT_A_MEMBER => Err(NotRewritten::Joined),
            Ok(Some(Err(code))) => Err(NotRewritten::Refused(code)),
            Ok(None) => Err(NotRewritten::Open),
            Err(error) => Err(NotRewritten::NotTried(error.to_string())),
        }
    }

    /// Asks whether the group stands still.
    ///
    /// # Errors
    /// When it does not, when that can't be told, or when there is no answer.
    pub fn ensure_stopped(&self) -> Result<(), GroupError> {
        let state = self.state()?;
        let group = self.id().to_owned();
        match state.liveness() {
            Liveness::Stopped => Ok(()),
            Liveness::Live => Err(GroupError::Live {
                group,
                members: state.members,
            }),
            Liveness::Absent | Liveness::Unclear => Err(GroupError::Unclear {
                group,
                state: state.name,
            }),
        }
    }

    fn check_unmoved(&self, changes: &[Rewrite]) -> Result<(), GroupError> {
        let partitions: Vec<_> = changes
            .iter()
            .map(|change| change.partition.clone())
            .collect();
        for ((partition, now), change) in self.commits_of(&partitions)?.into_iter().zip(changes) {
            match now {
                Ok(now) if now.as_ref() == Some(&change.seen) => {}
                Ok(_) => return Err(GroupError::Moved { partition }),
                Err(error) => return Err(GroupError::Unreadable { partition, error }),
            }
        }
        Ok(())
    }

    /// What is stored decides, not the answers: librdkafka gives one partition's error to others.
    fn verify(&self, changes: &[Rewrite], sent: Vec<Sent>) -> Vec<Result<(), NotRewritten>> {
        let partitions: Vec<_> = changes
            .iter()
            .map(|change| change.partition.clone())
            .collect();
        let read = self.commits_of(&partitions);
        let mut stored: HashMap<_, _> = read
            .unwrap_or_default()
            .into_iter()
            .filter_map(|(partition, commit)| Some((partition, commit.ok()??)))
            .collect();
        if self
            .state()
            .is_ok_and(|state| state.liveness() == Liveness::Live)
        {
            tracing::warn!(
                group = self.id(),
                "a member has joined while commits were rewritten: it may have read the old ones, and what it commits replaces the new ones"
            );
        }
        let judge = |(change, sent): (&Rewrite, Sent)| {
            match (stored.remove(&change.partition), sent) {
                (Some(stored), _) if is_stored(change, &stored) => Ok(()),
                (Some(_), Ok(())) => Err(NotRewritten::Overwritten),
                // Acknowledged, and it could not be read back.
                (None, Ok(())) => Err(NotRewritten::Open),
                (_, Err(error)) => Err(error),
            }
        };
        changes.iter().zip(sent).map(judge).collect()
    }
}

fn is_stored(change: &Rewrite, stored: &Commit) -> bool {
    stored.metadata == change.metadata.as_bytes()
        && (stored.offset, stored.leader_epoch) == (change.offset, change.leader_epoch)
}

/// Cuts the changes into requests of bounded size.
fn requests(changes: &[Rewrite]) -> Vec<Range<usize>> {
    let mut requests: Vec<Range<usize>> = Vec::new();
    let mut chars = 0;
    for (at, change) in changes.iter().enumerate() {
        match requests.last_mut() {
            Some(last)
                if last.len() < WRITTEN_AT_ONCE
                    && chars + change.metadata.len() <= CHARS_AT_ONCE =>
            {
                last.end = at + 1;
                chars += change.metadata.len();
            }
            _ => {
                requests.push(at..at + 1);
                chars = change.metadata.len();
            }
        }
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(count: usize, chars: usize) -> Vec<Rewrite> {
        let seen = Commit {
            offset: 0,
            leader_epoch: None,
            metadata: Vec::new(),
        };
        let change = |partition| {
            let partition = TopicPartition::new("t", partition as i32);
            Rewrite::text(partition, seen.clone(), "x".repeat(chars))
        };
        (0..count).map(change).collect()
    }

    #[test]
    fn requests_are_bounded_in_partitions_and_characters() {
        assert!(requests(&[]).is_empty());
        assert_eq!(
            requests(&changes(1_001, 0)),
            [0..500, 500..1_000, 1_000..1_001]
        );
        assert_eq!(requests(&changes(130, 4_096)), [0..64, 64..128, 128..130]);
        assert_eq!(requests(&changes(2, 1 << 20)), [0..1, 1..2]);
    }
}
