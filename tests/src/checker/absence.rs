//! A process that stood still for longer than its session (SIGSTOP, SIGCONT): for the others it is dead from the stop
//! on, and it finds out when it goes on. What its handlers do in that moment can't be helped, so it is not judged; a
//! commit would be a broken promise. One commit may have been on its way when it stopped, whose answer it reads when it
//! goes on: that counts as made before, so that whoever started again what it covers convicts it.

use std::collections::BTreeSet;

use super::Place;
use crate::event_log::{Event, EventLog, Kind};

/// The process's log as the judge may read it: the member that stood still was killed, and another one took its place,
/// without what it ran of partitions that it had lost and not noticed. `from` is when it stood still, wall clock,
/// nanoseconds since 1970.
///
/// # Errors
/// When it committed one of these, or let one go as if it had had it.
pub fn set_apart(log: EventLog, from: u64) -> Result<EventLog, String> {
    let (before, after): (Vec<Event>, Vec<Event>) =
        log.events.into_iter().partition(|event| event.ns < from);
    let member = match before.last() {
        Some(last) if last.kind != Kind::Killed => last.member.clone(),
        _ => return Err("nobody stood still".to_owned()),
    };
    let mut stale = held(&before, &member);
    let (mut events, mut answered, mut running) = (before, BTreeSet::new(), BTreeSet::new());
    let stopped_at = events.len();
    let mut killed = events[events.len() - 1].clone();
    (killed.ns, killed.kind, killed.offset) = (from, Kind::Killed, None);
    events.push(killed);
    for mut event in after {
        if event.member != member {
            events.push(event);
            continue;
        }
        event.member.push_str(" after its absence");
        let place = (event.topic.clone(), event.partition);
        match event.kind {
            Kind::Lost => drop(stale.remove(&place)),
            Kind::Start if stale.contains(&place) => continue,
            Kind::Start => drop(running.insert((place, event.offset))),
            // What ends now and began before it noticed has no effect.
            Kind::Done | Kind::Failed if !running.remove(&(place.clone(), event.offset)) => {
                continue;
            }
            Kind::Committed if stale.contains(&place) && answered.insert(place.clone()) => {
                (event.member, event.ns) = (member.clone(), from);
                events.insert(stopped_at, event);
                continue;
            }
            Kind::Committed | Kind::Revoked if stale.contains(&place) => {
                return Err(format!("{event:?} of a partition that was lost meanwhile"));
            }
            _ => {}
        }
        events.push(event);
    }
    Ok(EventLog { events })
}

/// The partitions that a member has at the end of these events.
pub fn held(events: &[Event], member: &str) -> BTreeSet<Place> {
    let mut held = BTreeSet::new();
    for event in events.iter().filter(|event| event.member == member) {
        let place = (event.topic.clone(), event.partition);
        match event.kind {
            Kind::Assigned => drop(held.insert(place)),
            Kind::Revoked | Kind::Lost => drop(held.remove(&place)),
            Kind::Killed => held.clear(),
            _ => {}
        }
    }
    held
}

#[cfg(test)]
mod tests {
    use super::set_apart;
    use crate::event_log::{EventLog, Kind};

    fn log(lines: &[(u64, &str, i64)]) -> EventLog {
        let line = |(ns, event, offset): &(u64, &str, i64)| {
            format!(
                "{{\"ns\":{ns},\"event\":\"{event}\",\"member\":\"m\",\"topic\":\"t\",\"partition\":0,\"offset\":{offset}}}\n"
            )
        };
        EventLog::parse(&lines.iter().map(line).collect::<String>()).expect("lines of the contract")
    }

    /// When it stood still.
    const ABSENCE: u64 = 10;

    #[test]
    fn what_ran_before_it_noticed_is_left_out_and_what_ran_later_is_another_members() {
        let log = log(&[
            (1, "assigned", 0),
            (2, "start", 0),
            (101, "done", 0),
            (102, "start", 1),
            (103, "lost", 0),
            (104, "done", 1),
            (104, "assigned", 0),
            (105, "start", 7),
            (106, "done", 7),
        ]);
        let apart = set_apart(log, ABSENCE).expect("nothing was committed");
        let kinds: Vec<(u64, Kind)> = apart.events.iter().map(|e| (e.ns, e.kind)).collect();
        assert_eq!(
            kinds,
            [
                (1, Kind::Assigned),
                (2, Kind::Start),
                (10, Kind::Killed),
                (103, Kind::Lost),
                (104, Kind::Assigned),
                (105, Kind::Start),
                (106, Kind::Done)
            ]
        );
        assert_eq!(apart.events[2].member, "m");
        assert_ne!(apart.events[5].member, "m");
    }

    #[test]
    fn the_answer_to_a_commit_of_before_is_put_there_and_a_second_one_is_an_error() {
        let under_way = log(&[(1, "assigned", 0), (101, "committed", 1), (102, "lost", 0)]);
        let apart = set_apart(under_way, ABSENCE).expect("it was sent before");
        let kinds: Vec<Kind> = apart.events.iter().map(|event| event.kind).collect();
        let before = [Kind::Assigned, Kind::Committed, Kind::Killed, Kind::Lost];
        assert_eq!(kinds, before);
        let stale = log(&[
            (1, "assigned", 0),
            (101, "committed", 1),
            (102, "committed", 2),
        ]);
        assert!(set_apart(stale, ABSENCE).is_err());
        let own = log(&[
            (1, "assigned", 0),
            (101, "lost", 0),
            (102, "assigned", 0),
            (103, "committed", 1),
        ]);
        assert!(set_apart(own, ABSENCE).is_ok());
    }
}
