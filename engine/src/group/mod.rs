//! A consumer group seen by somebody who is not its member: what it has committed, whether it runs, and a new commit
//! for one that stands still.
//!
//! ```no_run
//! use std::time::Duration;
//! use keyway::group::{Group, Liveness, OpenTransactions};
//!
//! # fn main() -> Result<(), keyway::group::GroupError> {
//! let mut client = keyway::ClientConfig::new();
//! client.set("bootstrap.servers", "localhost:9092").set("group.id", "orders");
//! let group = Group::open(&client, Duration::from_secs(10), OpenTransactions::LookPast)?;
//! if group.state()?.liveness() == Liveness::Stopped {
//!     for (partition, commit) in group.commits()? {
//!         println!("{partition}: {:?}", commit.map(|commit| commit.offset));
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`Group::rewrite`] asks whether there are members before it writes, and again before each request, so that it can say
//! what to do. What holds against a member that joins in between is the coordinator: Apache Kafka 4.1.1 refuses a plain
//! commit of a stranger as soon as the group has members, under either protocol.

mod reading;
mod rewrite;

use std::fmt::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use crate::ClientConfig;
use crate::kafka::{self, ClientError, ConfigError, Outsider, TopicPartition};

pub use rewrite::{NotRewritten, Rewrite};

/// Partitions in one question: an answer with 4,096 characters for each is some megabytes.
const ASKED_AT_ONCE: usize = 1_000;

/// The wait before a question is repeated.
const ASKED_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// A group, from outside. Every call is bounded; dropping it waits for nothing.
#[derive(Debug)]
pub struct Group {
    outsider: Outsider,
    /// The bound of one request.
    timeout: Duration,
    transactions: OpenTransactions,
}

/// How commits are read that a transaction is about to replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenTransactions {
    /// The answer waits for their end, within the bound. For whoever goes on from what is read.
    WaitFor,
    /// The answer is what was committed before. For whoever only looks.
    LookPast,
}

/// What a group has committed for a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The committed offset.
    pub offset: i64,
    /// The leader epoch that was committed with it, if any was.
    pub leader_epoch: Option<i32>,
    /// The text beside it: any bytes, since any program may have written it.
    pub metadata: Vec<u8>,
}

/// Where a log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// One past the last offset, records of open transactions included.
    pub offset: i64,
    /// The leader's epoch, if the broker says it.
    pub leader_epoch: Option<i32>,
}

/// One partition's answer to a question.
pub type PerPartition<T> = Vec<(TopicPartition, Result<T, ClientError>)>;

/// What a group's coordinator says of it, whichever its protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupState {
    /// `stable`, `empty`, `preparing_rebalance`, `completing_rebalance`, `dead`, or `unknown` for those that
    /// librdkafka has no name for.
    pub name: String,
    /// Members. One that crashed counts until its session is over.
    pub members: usize,
}

/// Whether somebody is at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Liveness {
    /// It has members.
    Live,
    /// It has none.
    Stopped,
    /// The coordinator knows no such group among those of consumers. If there are commits all the same, it is a group
    /// of another kind, which may well be live.
    Absent,
    /// A state without members that is none of those at rest.
    Unclear,
}

impl GroupState {
    fn of(described: &kafka::Description) -> Self {
        let mut name = String::new();
        for letter in described.state.chars() {
            if letter.is_ascii_uppercase() && !name.is_empty() {
                name.push('_');
            }
            name.push(letter.to_ascii_lowercase());
        }
        Self {
            name,
            members: described.members,
        }
    }

    /// Whether somebody is at work.
    pub fn liveness(&self) -> Liveness {
        match (self.members, self.name.as_str()) {
            (1.., _) => Liveness::Live,
            (0, "empty") => Liveness::Stopped,
            (0, "dead") => Liveness::Absent,
            (0, _) => Liveness::Unclear,
        }
    }
}

/// Why there is no answer, or nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// A property that can't be used, or is missing.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// librdkafka does not make a client of these properties.
    #[error("the Kafka client can't be made: {0}")]
    Client(ClientError),
    /// Nobody answered in time: mostly the address is wrong, brokers are down, or a transaction is open.
    #[error(
        "no answer about {about} within {within:?}: {detail}. See that the brokers are right and can be reached, or allow more time"
    )]
    NoAnswer {
        /// What was asked for.
        about: &'static str,
        /// The bound.
        within: Duration,
        /// What is known of the reason.
        detail: String,
    },
    /// The answer was no: mostly a right that is missing.
    #[error("{about} can't be had: {error}")]
    Refused {
        /// What was asked for.
        about: &'static str,
        /// The answer.
        error: ClientError,
    },
    /// Members are at work, whose next commit would replace what is written here.
    #[error(
        "group {group} is live, with {members} member(s): stop all of them first. One that crashed counts until its session is over"
    )]
    Live {
        /// The group.
        group: String,
        /// How many.
        members: usize,
    },
    /// Nobody can tell whether there are members.
    #[error(
        "whether group {group} has members can't be told, its state is `{state}`: only a group of consumers that is `empty` is rewritten. Stop all members; if that was done, see whether this is the group's name and whether it belongs to consumers"
    )]
    Unclear {
        /// The group.
        group: String,
        /// [`GroupState::name`].
        state: String,
    },
    /// The commit is not the one that was looked at: somebody is at work after all.
    #[error(
        "the commit of {partition} has changed since it was read, nothing was written: stop whoever commits for the group, and begin anew"
    )]
    Moved {
        /// Where.
        partition: TopicPartition,
    },
    /// What is committed can't be read, so it can't be compared.
    #[error("the commit of {partition} can't be read, nothing was written: {error}")]
    Unreadable {
        /// Where.
        partition: TopicPartition,
        /// Why.
        error: ClientError,
    },
}

impl GroupError {
    /// A short name of the cause, as the command answers it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Config(_) | Self::Client(_) => "bad_config",
            Self::NoAnswer { .. } => "no_answer",
            Self::Refused { .. } => "refused",
            Self::Live { .. } => "group_live",
            Self::Unclear { .. } => "group_state_unclear",
            Self::Moved { .. } => "commit_moved",
            Self::Unreadable { .. } => "commit_unreadable",
        }
    }
}

impl Group {
    /// A client beside the group that `group.id` names. Nothing is asked yet. `timeout` is the bound of each request.
    ///
    /// # Errors
    /// When the properties can't be used.
    pub fn open(
        client: &ClientConfig,
        timeout: Duration,
        transactions: OpenTransactions,
    ) -> Result<Self, GroupError> {
        let stable = transactions == OpenTransactions::WaitFor;
        Ok(Self {
            outsider: Outsider::open(client, stable)?.map_err(GroupError::Client)?,
            timeout,
            transactions,
        })
    }

    /// The group's name.
    pub fn id(&self) -> &str {
        self.outsider.group_id()
    }

    /// Whether the group runs, as its coordinator says.
    ///
    /// # Errors
    /// When there is no answer, or no right to it.
    pub fn state(&self) -> Result<GroupState, GroupError> {
        let described = self.ask("the group's state", |left| self.outsider.describe(left))?;
        Ok(GroupState::of(&described))
    }

    /// The commits of the group in all topics that this client may see, by topic and partition; partitions without
    /// one are left out.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn commits(&self) -> Result<PerPartition<Commit>, GroupError> {
        let partitions = self.ask("the cluster's topics", |left| {
            self.outsider.partitions(left)
        })?;
        let answers = self.commits_of(&partitions)?;
        let found = |(partition, answer): (_, Result<Option<Commit>, _>)| {
            answer
                .transpose()
                .map(|commit: Result<Commit, ClientError>| (partition, commit))
        };
        Ok(answers.into_iter().filter_map(found).collect())
    }

    fn commits_of(
        &self,
        partitions: &[TopicPartition],
    ) -> Result<PerPartition<Option<Commit>>, GroupError> {
        let mut all = Vec::with_capacity(partitions.len());
        for some in partitions.chunks(ASKED_AT_ONCE) {
            let about = match self.transactions {
                OpenTransactions::WaitFor => {
                    "the group's commits and the end of transactions that change them"
                }
                OpenTransactions::LookPast => "the group's commits",
            };
            let answers = self.ask(about, |left| self.outsider.committed(some, left))?;
            all.extend(answers.into_iter().map(|(partition, answer)| {
                let commit = answer.map(|committed| {
                    committed.offset.map(|offset| Commit {
                        offset,
                        leader_epoch: committed.leader_epoch,
                        metadata: committed.metadata,
                    })
                });
                (partition, commit)
            }));
        }
        Ok(all)
    }

    /// The end of each partition's log.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn log_ends(
        &self,
        partitions: &[TopicPartition],
    ) -> Result<PerPartition<LogEnd>, GroupError> {
        let mut all = Vec::with_capacity(partitions.len());
        for some in partitions.chunks(ASKED_AT_ONCE) {
            let ends = self.ask("the ends of the logs", |left| {
                self.outsider.log_ends(some, left)
            })?;
            all.extend(ends.into_iter().map(|(partition, end)| {
                let end = end.map(|(offset, leader_epoch)| LogEnd {
                    offset,
                    leader_epoch,
                });
                (partition, end)
            }));
        }
        Ok(all)
    }

    /// Asks until there is an answer, or the time is over: a coordinator that moves or loads says so at once, and
    /// librdkafka passes that on.
    fn ask<T>(
        &self,
        about: &'static str,
        question: impl Fn(Duration) -> Result<T, ClientError>,
    ) -> Result<T, GroupError> {
        let deadline = Instant::now() + self.timeout;
        let mut left = self.timeout;
        loop {
            let error = match question(left) {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            left = deadline.saturating_duration_since(Instant::now());
            if !error.is_transient() || left <= ASKED_AGAIN_AFTER {
                return Err(self.failed(about, error));
            }
            thread::sleep(ASKED_AGAIN_AFTER);
            left -= ASKED_AGAIN_AFTER;
        }
    }

    fn failed(&self, about: &'static str, error: ClientError) -> GroupError {
        if !error.is_transient() {
            return GroupError::Refused { about, error };
        }
        let mut detail = error.to_string();
        if let Some(trouble) = self.outsider.last_trouble() {
            // A string takes whatever is written to it.
            let _ = write!(detail, "; {trouble}");
        }
        GroupError::NoAnswer {
            about,
            within: self.timeout,
            detail,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(name: &str, members: usize) -> GroupState {
        GroupState::of(&kafka::Description {
            state: name.to_owned(),
            members,
        })
    }

    #[test]
    fn only_an_empty_group_without_members_is_stopped() {
        for (name, members, liveness) in [
            ("Empty", 0, Liveness::Stopped),
            ("Empty", 1, Liveness::Live),
            ("Stable", 2, Liveness::Live),
            ("Unknown", 1, Liveness::Live),
            ("Stable", 0, Liveness::Unclear),
            ("PreparingRebalance", 0, Liveness::Unclear),
            ("Unknown", 0, Liveness::Unclear),
            ("Dead", 0, Liveness::Absent),
        ] {
            assert_eq!(state(name, members).liveness(), liveness, "{name}");
        }
        assert_eq!(state("PreparingRebalance", 0).name, "preparing_rebalance");
    }
}
