//! Causal delivery on a real broker: what waits for what, what the sent headers name, and where a member stops.
//!
//! Questions lie in one topic and answers in another, each with two partitions: the question that is waited for in
//! partition 1, what waits for it in partition 0.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use keyway::causality::{
    CausalClock, Causes, CausesView, Channel, HEADER, Position, StampError, TopicId,
};
use keyway::{Causal, CausalStatus, CommitMode, Outcome, Output, Record, Status, StopReason};
use keyway_tests::checker::held;
use keyway_tests::cluster::{Cluster, Received, Record as Written};
use keyway_tests::command;
use keyway_tests::event_log::Kind;
use keyway_tests::wait;
use keyway_tests::world::{MemberBuilder, World};
use serde_json::{Value, json};

use crate::SOON;
use crate::group::{group, partitions};

/// Where the question is for which others wait.
const ASKED: i32 = 1;
/// Where these are.
const ANSWERED: i32 = 0;

/// A channel that no member consumes, and how far a sender had read it.
const FAR: i64 = 4_711;

/// A world over questions, with its answers, and a topic for what is sent.
struct Forum {
    world: World<'static>,
    answers: String,
    out: String,
    questions: TopicId,
}

impl Forum {
    fn new() -> Self {
        let world = World::new(2);
        let answers = format!("{}.answers", world.topic);
        let out = format!("{}.out", world.topic);
        world.cluster.create_topic(&answers, 2, &[]);
        world.cluster.create_topic(&out, 1, &[]);
        let questions = world.cluster.topic_id(&world.topic);
        Self {
            world,
            answers,
            out,
            questions,
        }
    }

    /// Produces a question without causes; its place.
    fn ask(&self, partition: i32) -> (Channel, Position) {
        let placed = self
            .world
            .cluster
            .produce(&self.world.topic, [(Some(partition), Some("q"), "?")]);
        at(self.questions, partition, placed[0].offset)
    }

    /// Produces an answer of this key with what the clock has seen.
    fn answer(&self, key: &str, clock: &CausalClock) {
        let record = Written::from((Some(ANSWERED), Some(key), "!"));
        let record = record.header(HEADER, Some(&clock.stamp()));
        self.world.cluster.produce(&self.answers, [record]);
    }

    /// A causal member over both topics.
    fn member(&self, name: &str) -> MemberBuilder {
        self.member_as(name, Causal::default())
    }

    fn member_as(&self, name: &str, causal: Causal) -> MemberBuilder {
        self.world
            .member(name)
            .topics(&[&self.world.topic, &self.answers])
            .with(|builder| builder.causal(causal))
    }

    /// A causal member that copies each record.
    fn copying(&self, name: &str) -> MemberBuilder {
        self.copying_as(name, Causal::default())
    }

    fn copying_as(&self, name: &str, causal: Causal) -> MemberBuilder {
        let to = self.out.clone();
        self.member_as(name, causal).with(|builder| {
            builder.handler(move |record: &Record| {
                Output::copy_of(record, to.as_str()).map(|copy| vec![copy])
            })
        })
    }

    fn outputs(&self) -> Vec<Received> {
        self.world.cluster.read(&self.out)
    }

    #[track_caller]
    fn until_outputs(&self, outputs: usize) -> Vec<Received> {
        wait::until("what was sent", SOON, || {
            let found = self.outputs();
            (found.len() >= outputs).then_some(found)
        })
    }

    /// Where events of this kind and topic are in the log, in order.
    fn moments(&self, kind: Kind, topic: &str, place: (i32, i64)) -> Vec<usize> {
        self.world.seen(|seen| {
            let events = seen.events().iter().enumerate();
            let of = events.filter(|(_, event)| {
                let offset = event.offset.map(|offset| offset.get());
                event.kind == kind
                    && event.topic == topic
                    && (event.partition, offset) == (place.0, Some(place.1))
            });
            of.map(|(moment, _)| moment).collect()
        })
    }

    #[track_caller]
    fn until_done(&self, topic: &str, place: (i32, i64)) -> usize {
        wait::until("a record that is done", SOON, || {
            self.moments(Kind::Done, topic, place).first().copied()
        })
    }

    /// The shards that `keyway group inspect` shows, by topic and partition.
    fn shards(&self) -> BTreeMap<(String, i64), Value> {
        let shown = group(&self.world, "inspect", &[]);
        let of = |partition: &Value| {
            let topic = partition["topic"].as_str().expect("a name").to_owned();
            let number = partition["partition"].as_i64().expect("a number");
            ((topic, number), partition["causal_shard"].clone())
        };
        partitions(&shown).iter().map(of).collect()
    }
}

fn at(topic: TopicId, partition: i32, offset: i64) -> (Channel, Position) {
    let partition = u32::try_from(partition).expect("a partition");
    let channel = Channel::new(topic, partition).expect("a partition");
    (channel, Position::new(offset).expect("an offset"))
}

/// A clock that has seen these, and a record of a topic that nobody here consumes.
fn clock_of(seen: &[(Channel, Position)]) -> CausalClock {
    let mut clock = CausalClock::new();
    for &(channel, position) in seen {
        let none: [(&str, Option<&[u8]>); 0] = [];
        clock
            .observe(channel, position, none)
            .expect("no header is no fault");
    }
    clock
}

/// The causes of an output, which names them once.
#[track_caller]
fn causes(output: &Received) -> Causes {
    let mut stamps = output.headers.iter().filter(|(name, _)| name == HEADER);
    let (Some((_, Some(stamp))), None) = (stamps.next(), stamps.next()) else {
        panic!("not exactly one stamp: {:?}", output.headers)
    };
    CausesView::parse(stamp).expect("a stamp").into()
}

fn causal(status: &Status) -> &CausalStatus {
    status.causal.as_ref().expect("causal delivery")
}

/// Whether so many records wait. Until the first status of a running engine there is nothing to be seen.
fn holds(status: &Status, records: usize) -> bool {
    let causal = status.causal.as_ref();
    causal.is_some_and(|causal| causal.held == records)
}

#[test]
fn an_answer_that_came_first_waits_for_its_question_and_nobody_else_does() {
    let forum = Forum::new();
    let world = &forum.world;
    world.hold(|partition, _| partition == ASKED);
    // The offset that the question will have: the answer is there before it.
    forum.answer("a", &clock_of(&[at(forum.questions, ASKED, 0)]));
    forum.answer("other", &CausalClock::new());
    let member = forum.member("first").start();
    forum.until_done(&forum.answers, (ANSWERED, 1));
    forum.ask(ASKED);
    world.until("the question runs", |seen| seen.starts(ASKED, 0) == 1);
    member.until("the answer waits", |status| holds(status, 1));
    let status = member.status();
    let head = &causal(&status).heads[0];
    let blocker = &head.blockers[0];
    assert_eq!(
        (
            head.partition.topic.as_ref(),
            head.partition.partition,
            head.offset
        ),
        (forum.answers.as_str(), ANSWERED, 0)
    );
    assert_eq!(
        (
            blocker.partition.topic.as_ref(),
            blocker.partition.partition
        ),
        (world.topic.as_str(), ASKED)
    );
    assert_eq!(
        (blocker.needed, blocker.settled, blocker.whose),
        (0, -1, "local")
    );

    world.release();
    let answered = forum.until_done(&forum.answers, (ANSWERED, 0));
    let asked = forum.until_done(&world.topic, (ASKED, 0));
    let started = forum.moments(Kind::Start, &forum.answers, (ANSWERED, 0))[0];
    assert!(asked < started && started < answered);
    member.until("nothing waits", |status| holds(status, 0));
    assert_eq!(causal(&member.status()).held_total, 1);
    member.end();
}

#[test]
fn an_answer_waits_for_a_question_of_another_member_until_that_is_committed() {
    let forum = Forum::new();
    let world = &forum.world;
    world.hold(|partition, _| partition == ASKED);
    let one = forum.member("one").start();
    one.until_assigned(4);
    let two = forum.member("two").start();
    one.until_assigned(2);
    two.until_assigned(2);
    let question = forum.ask(ASKED);
    world.until("the question runs", |seen| seen.starts(ASKED, 0) == 1);
    forum.answer("a", &clock_of(&[question]));
    // Range: who has partition 0 of one topic has it of the other, too.
    let answering =
        world.seen(|seen| held(seen.events(), "one").contains(&(forum.answers.clone(), ANSWERED)));
    let (answering, asking) = match answering {
        true => (&one, &two),
        false => (&two, &one),
    };
    answering.until("the answer waits", |status| holds(status, 1));
    assert_eq!(causal(&asking.status()).held, 0);
    let status = answering.status();
    let blocker = &causal(&status).heads[0].blockers[0];
    assert_eq!(
        (blocker.needed, blocker.settled, blocker.whose),
        (0, -1, "foreign")
    );

    world.release();
    forum.until_done(&forum.answers, (ANSWERED, 0));
    let started = forum.moments(Kind::Start, &forum.answers, (ANSWERED, 0))[0];
    let committed = forum.moments(Kind::Committed, &world.topic, (ASKED, 1));
    assert!(
        committed[0] < started,
        "{committed:?} and then the start, {started}"
    );
    one.end();
    two.end();
}

#[test]
fn what_is_sent_names_its_causes_once_and_after_a_restart_and_a_move_no_less() {
    let forum = Forum::new();
    let world = &forum.world;
    // A third topic, which really is there; the group does not consume it.
    let far = at(world.cluster.topic_id(&forum.out), 0, FAR);
    let question = forum.ask(ASKED);
    let first = forum.copying("first").start();
    forum.until_outputs(1);
    forum.answer("a", &clock_of(&[question, far]));
    let outputs = forum.until_outputs(2);
    let answer = at(world.cluster.topic_id(&forum.answers), ANSWERED, 0);
    let named = causes(&outputs[1]);
    assert_eq!(causes(&outputs[0]), [question].into_iter().collect());
    assert_eq!(named, [question, far, answer].into_iter().collect());
    first.end();
    let shards = forum.shards();
    let learned = json!([{"id": far.0.topic().to_string(), "partitions": [[0, FAR]]}]);
    let carriers: Vec<_> = shards
        .values()
        .filter(|shard| shard["topics"] == learned)
        .collect();
    assert_eq!(carriers.len(), 1, "one place is enough: {shards:#?}");
    let asked = &shards[&(world.topic.clone(), ASKED.into())];
    assert_eq!(
        (&asked["topic_id"], &asked["highest_complete"]),
        (&json!(forum.questions.to_string()), &json!(0))
    );
    assert!(shards.values().all(|shard| shard["lossy"] == false));

    // A restart: this record says nothing of any cause.
    let second = forum.copying("second").start();
    second.until_assigned(4);
    let next = forum.ask(ANSWERED);
    let outputs = forum.until_outputs(3);
    let expected: Causes = [question, far, answer, next].into_iter().collect();
    assert_eq!(causes(&outputs[2]), expected);

    // Another member takes everything over, from one that dies.
    second.kill();
    let third = forum.copying("third").start();
    third.until_assigned(4);
    let last = forum.ask(ANSWERED);
    let outputs = wait::until("an output of the last question", SOON, || {
        let outputs = forum.outputs();
        let of_it = |output: &&Received| causes(output).covers(last.0, last.1);
        let found: Vec<_> = outputs.iter().filter(of_it).cloned().collect();
        (!found.is_empty()).then_some(found)
    });
    let expected: Causes = [question, far, answer, last].into_iter().collect();
    assert_eq!(causes(&outputs[0]), expected);
    third.end();
}

#[test]
fn a_commit_without_a_shard_stops_a_member_that_sends_until_the_loss_is_accepted() {
    let forum = Forum::new();
    let world = &forum.world;
    forum.ask(ASKED);
    let plain = world
        .member("plain")
        .topics(&[&world.topic, &forum.answers])
        .start();
    plain.until_assigned(4);
    plain.until_completed(1);
    plain.end();

    // Who sends nothing goes on.
    let quiet = forum.member("quiet").start();
    forum.ask(ASKED);
    quiet.until_completed(1);
    quiet.end();
    // Its commits carry shards, but the loss is written there.
    let shards = forum.shards();
    assert!(
        shards.values().all(|shard| shard["lossy"] == true),
        "{shards:#?}"
    );

    forum.ask(ASKED);
    let refused = forum.copying("refused").start();
    let reason = refused.join_failed();
    assert!(
        matches!(
            reason,
            StopReason::SendingRefused(StampError::FrontierLost { .. })
        ),
        "{reason:?}"
    );
    assert_eq!(forum.outputs().len(), 0);
    let accepting = Causal::default().accept_lost_frontier();
    let accepted = forum.copying_as("accepted", accepting).start();
    let sent = forum.until_outputs(1);
    assert_eq!(
        causes(&sent[0]),
        [at(forum.questions, ASKED, 2)].into_iter().collect()
    );
    accepted.end();
    let shards = forum.shards();
    assert!(
        shards.values().all(|shard| shard["lossy"] == false),
        "{shards:#?}"
    );
    forum.ask(ASKED);
    let healed = forum.copying("healed").start();
    forum.until_outputs(2);
    healed.end();
}

#[test]
fn a_reserved_header_of_the_application_fails_the_attempt() {
    let forum = Forum::new();
    let world = &forum.world;
    forum.ask(ASKED);
    let to = forum.out.clone();
    let member = forum
        .member("first")
        .with(|builder| {
            builder.handler(move |record: &Record| {
                let output = Output::to(to.as_str()).value("!");
                Outcome::Send(vec![match record.attempt() {
                    1 => output.header(HEADER, CausalClock::new().stamp()),
                    2 => output.header("parsley.other", "x"),
                    _ => output,
                }])
            })
        })
        .start();
    forum.until_done(&world.topic, (ASKED, 0));
    let failed = world.seen(|seen| seen.count(Kind::Failed, "first"));
    assert_eq!(failed, 2);
    let sent = forum.until_outputs(1);
    assert_eq!(sent.len(), 1);
    causes(&sent[0]);
    member.end();
}

#[test]
fn what_is_sent_in_a_transaction_is_stamped_too() {
    let forum = Forum::new();
    let far = at(forum.world.cluster.topic_id(&forum.out), 0, FAR);
    let question = forum.ask(ASKED);
    forum.answer("a", &clock_of(&[question, far]));
    let transactional = |name| {
        forum.copying(name).with(|builder| {
            builder.commit_mode(CommitMode::Transactional(Duration::from_millis(100)))
        })
    };
    let first = transactional("first").start();
    let outputs = forum.until_outputs(2);
    let answer = at(forum.world.cluster.topic_id(&forum.answers), ANSWERED, 0);
    assert!(causes(&outputs[0]).covers(question.0, question.1));
    assert_eq!(
        causes(&outputs[1]),
        [question, far, answer].into_iter().collect()
    );
    first.end();
    let second = transactional("second").start();
    forum.ask(ANSWERED);
    let outputs = forum.until_outputs(3);
    assert!(causes(&outputs[2]).covers(far.0, far.1));
    second.end();
}

#[test]
fn records_that_were_deleted_unread_stop_the_member() {
    let forum = Forum::new();
    let world = &forum.world;
    for _ in 0..4 {
        forum.ask(ASKED);
    }
    world.hold(|_, offset| offset == 2);
    let first = forum.member("first").start();
    world.until("all but the third", |seen| seen.finished() == 2);
    wait::until("a commit", SOON, || {
        let committed = world.committed();
        committed.iter().any(|part| part.offset == 2).then_some(())
    });
    first.kill();
    world.release();
    world.cluster.delete_records(&world.topic, ASKED, 3);
    let second = forum.member("second").start();
    let reason = second.join_failed();
    assert_eq!(
        reason,
        StopReason::PositionsDiscardedUnread {
            partition: keyway::TopicPartition::new(&*world.topic, ASKED),
            committed: 2,
            log_start: 3,
        }
    );
    assert_eq!(world.seen(|seen| seen.started_by("second")), []);
}

/// Its two timelines differ in one line, and it ends with an error where the causal one shows an effect before its cause.
#[test]
fn the_forum_example_shows_answers_behind_their_questions_where_a_plain_timeline_does_not() {
    let cluster = Cluster::start();
    let output = Command::new(command::forum())
        .args(["--brokers", cluster.bootstrap()])
        .output()
        .expect("it was built a moment ago");
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complained}");
    println!("{said}");
    let line = |delivery: &str| {
        let line = said.lines().find(|line| line.starts_with(delivery));
        line.unwrap_or_else(|| panic!("{said}")).to_owned()
    };
    let (plain, causal) = (line("plain: "), line("causal: "));
    assert!(!plain.contains(" 0 of them before"), "{said}");
    assert!(causal.contains(" 0 of them before"), "{said}");
    assert!(!causal.contains("; 0 were held"), "{said}");
}
