//! How long partitions stood still in the hands of a member while there was something to do.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use keyway_tests::cluster::Produced;
use keyway_tests::event_log::{Event, Kind};

/// What was fed so far, by when.
pub(crate) struct Feed {
    /// Wall clock, nanoseconds since 1970, when the records were there.
    pub(crate) ns: u64,
    pub(crate) placed: Vec<Produced>,
}

/// A stretch of time in which a member had a partition, there were records to do, and none was begun or finished.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Silence {
    pub(crate) length: Duration,
    pub(crate) member: String,
    pub(crate) partition: i32,
    /// How many records waited.
    pub(crate) open: usize,
}

#[derive(Default)]
struct Partition {
    fed: usize,
    finished: BTreeSet<i64>,
    /// Who has it, and since when nothing has happened in it while there was something to do.
    held: Option<(String, u64)>,
}

impl Partition {
    fn open(&self) -> usize {
        self.fed.saturating_sub(self.finished.len())
    }
}

/// The longest silence of all.
pub(crate) fn longest(events: &[Event], feeds: &[Feed]) -> Silence {
    let mut partitions: BTreeMap<i32, Partition> = BTreeMap::new();
    let mut feeds = feeds.iter().peekable();
    let mut longest = Silence::default();
    for event in events {
        while let Some(feed) = feeds.next_if(|feed| feed.ns <= event.ns) {
            for record in &feed.placed {
                let partition = partitions.entry(record.partition).or_default();
                // Whoever has waited for records is silent from now on only.
                if let (0, Some((_, since))) = (partition.open(), &mut partition.held) {
                    *since = feed.ns;
                }
                partition.fed += 1;
            }
        }
        if event.kind == Kind::Killed {
            let of_member = |partition: &&mut Partition| matches!(&partition.held, Some((member, _)) if *member == event.member);
            for partition in partitions.values_mut().filter(of_member) {
                partition.held = None;
            }
            continue;
        }
        let partition = partitions.entry(event.partition).or_default();
        let ends_it = matches!(
            event.kind,
            Kind::Start | Kind::Done | Kind::Revoked | Kind::Lost
        );
        if let (true, Some((member, since))) = (ends_it && partition.open() > 0, &partition.held) {
            let length = Duration::from_nanos(event.ns.saturating_sub(*since));
            if *member == event.member && length > longest.length {
                longest = Silence {
                    length,
                    member: member.clone(),
                    partition: event.partition,
                    open: partition.open(),
                };
            }
        }
        match event.kind {
            Kind::Assigned => partition.held = Some((event.member.clone(), event.ns)),
            Kind::Revoked | Kind::Lost => {
                partition
                    .held
                    .take_if(|(member, _)| *member == event.member);
            }
            Kind::Start | Kind::Done => {
                if let (Kind::Done, Some(offset)) = (event.kind, event.offset) {
                    partition.finished.insert(offset.get());
                }
                if let Some((member, since)) = &mut partition.held {
                    if *member == event.member {
                        *since = event.ns;
                    }
                }
            }
            _ => {}
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use keyway_offsets::Offset;
    use keyway_tests::cluster::Produced;
    use keyway_tests::event_log::{Event, Kind};

    use super::{Feed, longest};

    fn event(ns: u64, kind: Kind, member: &str, offset: i64) -> Event {
        Event {
            ns,
            kind,
            member: member.to_owned(),
            topic: "t".to_owned(),
            partition: 0,
            offset: Offset::new(offset),
            key: None,
            attempt: 1,
            metadata: String::new(),
        }
    }

    fn fed(ns: u64, offset: i64) -> Feed {
        let partition = 0;
        let placed = vec![Produced { partition, offset }];
        Feed { ns, placed }
    }

    #[test]
    fn who_has_a_partition_and_begins_nothing_of_it_is_silent() {
        let events = [
            event(5, Kind::Assigned, "a", -1),
            event(100, Kind::Revoked, "a", -1),
            event(500, Kind::Assigned, "b", -1),
            event(510, Kind::Start, "b", 0),
            event(520, Kind::Done, "b", 0),
            event(900, Kind::Revoked, "b", -1),
        ];
        let silence = longest(&events, &[fed(0, 0)]);
        assert_eq!(
            (silence.length, silence.member.as_str(), silence.open),
            (Duration::from_nanos(95), "a", 1)
        );
    }

    #[test]
    fn who_has_nothing_to_do_is_not() {
        let events = [
            event(5, Kind::Assigned, "a", -1),
            event(910, Kind::Start, "a", 0),
            event(920, Kind::Done, "a", 0),
            event(2_000, Kind::Revoked, "a", -1),
        ];
        let silence = longest(&events, &[fed(900, 0)]);
        assert_eq!(silence.length, Duration::from_nanos(10));
    }
}
