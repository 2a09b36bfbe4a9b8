//! `keyway run` against the broker inside its process.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use common::{Event, Run, answer, assert_keys_in_order, count, keyway, output, signal};
use keyway_offsets::{DEFAULT_MAX_WINDOW, HoleMap, Offset};
use keyway_rider::{Rider, read};
use serde_json::json;

type Place = (String, i64, i64);

fn map_of(base: i64, text: &str) -> HoleMap {
    let metadata = read(
        Offset::new(base).unwrap(),
        text.as_bytes(),
        DEFAULT_MAX_WINDOW,
    );
    metadata.map.unwrap().map
}

/// Each committed line covers nothing but records that were done before it, and offsets never go down.
fn assert_commits_truthful(events: &[Event]) {
    let mut done: BTreeMap<(String, i64), BTreeSet<i64>> = BTreeMap::new();
    let mut bases: BTreeMap<(String, i64), i64> = BTreeMap::new();
    for event in events {
        if event.is("done") {
            let (topic, partition, offset) = event.place();
            done.entry((topic, partition)).or_default().insert(offset);
        } else if event.is("committed") {
            let (topic, partition, base) = event.place();
            let partition = (topic, partition);
            let text = event.0["metadata"].as_str().unwrap();
            let map = map_of(base, text);
            let done = done.entry(partition.clone()).or_default();
            for offset in
                (0..=map.highest()).filter(|&offset| map.is_complete(Offset::new(offset).unwrap()))
            {
                assert!(
                    done.contains(&offset),
                    "{partition:?}: {offset} was committed before it was done"
                );
            }
            let before = bases.insert(partition, base).unwrap_or(0);
            assert!(before <= base);
        }
    }
}

fn places(events: &[Event], kind: &str) -> Vec<Place> {
    events
        .iter()
        .filter(|event| event.is(kind))
        .map(Event::place)
        .collect()
}

/// Partition and offset of the last commits.
fn last_commits(events: &[Event]) -> BTreeMap<(String, i64), (i64, String)> {
    let committed = events.iter().filter(|event| event.is("committed"));
    committed
        .map(|event| {
            (
                event.partition(),
                (
                    event.place().2,
                    event.0["metadata"].as_str().unwrap().to_owned(),
                ),
            )
        })
        .collect()
}

// Idleness of 2 s: a broker and a client on a machine that does much else may be silent for tenths of one in the middle.

#[test]
fn until_idle_every_record_runs_once_in_order_and_is_committed() {
    let run =
        Run::start("--handler sleep:2ms --concurrency 50 --generate 2000,100,40 --until-idle 2s");
    let (summary, events) = run.success();
    assert_eq!(summary["records"], 2000);
    assert_eq!(summary["failed"], 0);
    assert!(
        (2..=50).contains(&summary["max_running"].as_u64().unwrap()),
        "{summary}"
    );
    assert_eq!(summary["fetched_bytes"], summary["processed_bytes"]);
    assert!(summary["commits"].as_u64().unwrap() >= 1);
    let (seconds, total) = (
        summary["seconds"].as_f64().unwrap(),
        summary["seconds_total"].as_f64().unwrap(),
    );
    assert!(0.0 < seconds && seconds <= total, "{summary}");
    let rate = summary["rate"].as_f64().unwrap();
    assert!((rate * seconds - 2000.0).abs() < 0.01, "{summary}");

    assert_keys_in_order(&events);
    assert_commits_truthful(&events);
    let done = places(&events, "done");
    assert_eq!(
        (done.len(), done.iter().collect::<BTreeSet<_>>().len()),
        (2000, 2000)
    );
    assert_eq!(places(&events, "start").len(), 2000);
    let commits = last_commits(&events);
    assert_eq!(commits.values().map(|commit| commit.0).sum::<i64>(), 2000);
    assert!(commits.values().all(|commit| commit.1.is_empty()));
    for kind in ["assigned", "revoked"] {
        assert_eq!(count(&events, kind), 4, "{kind}");
    }
    let first = &events[0].0;
    assert_eq!(first["event"], "assigned");
    assert!(
        events
            .iter()
            .all(|event| event.0["member"] == first["member"])
    );
    assert!(
        events
            .iter()
            .all(|event| event.0["ns"].as_u64().unwrap() > 1_600_000_000_000_000_000)
    );
}

#[test]
fn no_record_past_the_nth_is_started() {
    let run = Run::start("--records 123 --handler sleep:1ms --generate 1000,50,10");
    let (summary, events) = run.success();
    assert_eq!(summary["records"], 123);
    assert_eq!(places(&events, "start").len(), 123);
    assert_eq!(places(&events, "done").len(), 123);
    assert_commits_truthful(&events);
    let complete: i64 = last_commits(&events)
        .values()
        .map(|(base, text)| {
            let map = map_of(*base, text);
            map.base().get() + map.span() as i64 - map.hole_count() as i64
        })
        .sum();
    assert_eq!(complete, 123, "all of them are in the last commits");
}

#[test]
fn a_failed_attempt_is_made_again_and_its_key_waits() {
    let run = Run::start("--handler fail:0.1 --generate 200,100,10 --until-idle 2s");
    let (summary, events) = run.success();
    assert_eq!(summary["records"], 200);
    assert_eq!(summary["failed"], count(&events, "failed"));
    assert!(summary["failed"].as_u64().unwrap() > 0);
    assert_keys_in_order(&events);
    assert_commits_truthful(&events);
    let mut attempts: HashMap<Place, i64> = HashMap::new();
    for event in events.iter().filter(|event| event.is("start")) {
        let attempt = attempts.entry(event.place()).or_default();
        *attempt += 1;
        assert_eq!(event.attempt(), *attempt);
    }
}

#[test]
fn a_retry_does_not_count_against_the_number_of_records() {
    let run = Run::start("--handler fail:0.1 --generate 400,100,10 --records 200");
    let (summary, events) = run.success();
    assert_eq!(summary["records"], 200);
    let started: BTreeSet<Place> = places(&events, "start").into_iter().collect();
    assert_eq!(started.len(), 200);
}

#[test]
fn a_batch_writes_a_line_for_each_of_its_records() {
    let run = Run::start(
        "--handler sleep:2ms --batch 20 --concurrency 4 --generate 1000,100,10 --until-idle 2s",
    );
    let (summary, events) = run.success();
    assert_eq!(summary["records"], 1000);
    assert!(
        summary["max_running"].as_u64().unwrap() > 4,
        "records are counted, not calls: {summary}"
    );
    assert_eq!(places(&events, "done").len(), 1000);
    assert_commits_truthful(&events);
}

#[test]
fn records_without_a_key_have_none_in_the_log() {
    let run = Run::start("--generate 50,0,10 --until-idle 2s --handler spin:1us");
    let (summary, events) = run.success();
    assert_eq!(summary["records"], 50);
    for event in events.iter().filter(|event| event.is("start")) {
        assert!(event.0.as_object().unwrap()["key"].is_null());
    }
}

#[test]
fn topics_share_the_generated_records() {
    let run = Run::start(
        "--topic a --topic b --group g --ordering partition --generate 80,8,10 --until-idle 2s",
    );
    let (summary, events) = run.success();
    assert_eq!(summary["records"], 80);
    let topics: BTreeSet<String> = places(&events, "start")
        .into_iter()
        .map(|place| place.0)
        .collect();
    assert_eq!(topics, BTreeSet::from(["a".to_owned(), "b".to_owned()]));
}

#[test]
fn a_start_at_the_latest_record_finds_none() {
    for wish in ["--start latest", "-X auto.offset.reset=latest"] {
        let run = Run::start(&format!("{wish} --generate 50,5,10 --until-idle 2s"));
        let (summary, _) = run.success();
        assert_eq!(
            (&summary["records"], &summary["rate"]),
            (&json!(0), &json!(0.0)),
            "{wish}"
        );
    }
}

#[test]
fn a_signal_drains() {
    for signal in ["TERM", "INT"] {
        let mut run = Run::start("--handler sleep:20ms --concurrency 20 --generate 1000,100,10");
        run.wait_until("some are done", |events| count(events, "done") >= 50);
        run.signal(signal);
        let (summary, events) = run.success();
        assert_keys_in_order(&events);
        assert_commits_truthful(&events);
        let done = places(&events, "done").len();
        assert_eq!(summary["records"], done);
        assert_eq!(
            places(&events, "start").len(),
            done,
            "what was started was finished"
        );
        let all_committed: i64 = last_commits(&events).values().map(|commit| commit.0).sum();
        assert_eq!(all_committed, done as i64, "drained: no holes are left");
    }
}

#[test]
fn a_second_signal_finishes_only_what_runs() {
    let mut run = Run::start("--handler sleep:100ms --concurrency 5 --generate 2000,100,10");
    run.wait_until("some are done", |events| count(events, "done") >= 5);
    run.signal("TERM");
    run.signal("INT");
    let (summary, events) = run.success();
    assert!(summary["records"].as_u64().unwrap() < 2000);
    assert_eq!(
        places(&events, "start").len(),
        places(&events, "done").len()
    );
    assert_commits_truthful(&events);
}

#[test]
fn a_kill_leaves_a_truthful_log() {
    let mut run = Run::start(
        "--handler sleep:10ms --concurrency 50 --generate 20000,500,10 --commit-interval 50ms",
    );
    run.wait_until("holes are committed", |events| {
        last_commits(events)
            .values()
            .any(|commit| !commit.1.is_empty())
    });
    run.signal("KILL");
    let (status, summary, events) = run.end();
    assert_eq!((status.code(), summary), (None, None));
    assert_keys_in_order(&events);
    assert_commits_truthful(&events);
}

#[test]
fn a_broker_that_does_not_answer_is_waited_for_until_a_signal() {
    use std::io::{BufRead, BufReader, Read};
    use std::process::Stdio;

    let mut child = keyway("run --brokers 127.0.0.1:1 --group g --topic t --until-idle 1ms")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("127.0.0.1:1") {
        line.clear();
        assert!(
            stderr.read_line(&mut line).unwrap() > 0,
            "says what it waits for"
        );
    }
    assert!(child.try_wait().unwrap().is_none());
    // Read on, so that the pipe does not fill up.
    let rest = std::thread::spawn(move || stderr.read_to_end(&mut Vec::new()));
    signal(&child, "TERM");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(
        String::from_utf8(output.stdout)
            .unwrap()
            .contains(r#""records":0"#)
    );
    rest.join().unwrap().unwrap();
}

#[test]
fn what_can_not_be_run_is_exit_code_2() {
    for arguments in [
        "run",
        "run --brokers mock --handler exec:",
        "run --brokers mock --handler exec:cat --batch 5",
        "run --brokers mock --handler exec:cat --handler-timeout 1ms",
        "run --brokers mock --handler sleep:2",
        "run --brokers mock --concurrency 0",
        "run --brokers mock --batch 0",
        "run --brokers mock --records 0",
        "run --brokers mock --records 5 --until-idle 1s",
        "run --brokers mock --generate 1,2",
        "run --brokers mock --dead-letter d",
        "run --brokers mock --dead-letter d --retry 1s,2,1m,0",
        "run --brokers mock --dead-letter generated --retry 1s,2,1m,1",
        "run --brokers mock --rate 5",
        "run --brokers mock --causal",
        "run --brokers mock -X enable.auto.commit=true",
        "run --brokers mock -X no.such.property=1",
        "run --brokers mock -X nonsense",
        "run --brokers mock --events /no/such/folder/file",
        "run --brokers mock --config /no/such/file",
        "run --brokers 127.0.0.1:1 --topic t",
        "run --brokers 127.0.0.1:1 --group g",
        "run --group g --topic t",
        "run --brokers 127.0.0.1:1 --group g --topic t --generate 1,1,1",
    ] {
        let output = output(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {output:?}");
        assert!(!output.stderr.is_empty(), "{arguments}");
        assert!(output.stdout.is_empty(), "{arguments}");
    }
}

#[test]
fn properties_come_from_a_file_and_options_go_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("client.properties");
    std::fs::write(
        &path,
        "# a comment\ngroup.id = from-the-file\nauto.offset.reset=latest\n",
    )
    .unwrap();
    let run = |more: &str| {
        let mut command =
            keyway("run --brokers mock --generate 20,2,10 --until-idle 2s --json --config");
        let (code, summary) = answer(
            command
                .arg(&path)
                .args(more.split_whitespace())
                .env("RUST_LOG", "error"),
        );
        assert_eq!(code, 0);
        summary["records"].as_u64().unwrap()
    };
    assert_eq!(run(""), 0);
    assert_eq!(run("-X auto.offset.reset=earliest"), 20);
    assert_eq!(run("--start earliest"), 20);
}

#[test]
fn a_rider_goes_with_every_commit() {
    let run = Run::start("--records 100 --rider-hex 68656c6c6f --generate 1000,50,10");
    let (_, events) = run.success();
    let commits: Vec<&Event> = events
        .iter()
        .filter(|event| event.is("committed"))
        .collect();
    assert!(!commits.is_empty());
    for commit in commits {
        let base = Offset::new(commit.place().2).unwrap();
        let text = commit.0["metadata"].as_str().unwrap();
        let rider = read(base, text.as_bytes(), DEFAULT_MAX_WINDOW).rider;
        assert_eq!(rider, Rider::Present(b"hello".to_vec()));
    }
    assert_commits_truthful(&events);
}

#[test]
fn after_its_last_attempt_a_record_stays_incomplete_and_idleness_ends_the_run() {
    let run =
        Run::start("--handler fail:1 --retry 1ms,2,4ms,3 --until-idle 2s --generate 20,20,10");
    let (status, summary, events) = run.end();
    let summary = summary.unwrap();
    assert_eq!(status.code(), Some(1), "records stayed incomplete");
    assert_eq!(
        (&summary["records"], &summary["failed"]),
        (&json!(0), &json!(60))
    );
    let attempts: BTreeSet<_> = events
        .iter()
        .filter(|event| event.is("start"))
        .map(Event::attempt)
        .collect();
    assert_eq!(attempts, BTreeSet::from([1, 2, 3]));
}

#[test]
fn a_rate_is_kept() {
    // Without it they are done in milliseconds.
    let run = Run::start("--generate 150,50,10 --records 150 --rate 100/s");
    let (summary, _) = run.success();
    assert_eq!(summary["records"], 150);
    assert!(summary["seconds"].as_f64().unwrap() > 1.3, "{summary}");
}

#[test]
fn after_its_last_attempt_a_record_is_a_dead_letter_and_complete() {
    let run = Run::start(
        "--handler fail:1 --retry 1ms,2,4ms,2 --dead-letter generated.dead --until-idle 2s --generate 20,5,10",
    );
    let (status, summary, events) = run.end();
    let summary = summary.unwrap();
    assert_eq!(status.code(), Some(0), "nothing stayed incomplete");
    assert_eq!(
        (&summary["records"], &summary["failed"]),
        (&json!(20), &json!(40))
    );
    assert_eq!(summary["fetched_bytes"], summary["processed_bytes"]);
    assert_eq!(places(&events, "done"), []);
    let dead = places(&events, "dead");
    assert_eq!(dead.len(), 20);
    for place in &dead {
        let story: Vec<_> = events
            .iter()
            .filter(|event| {
                ["start", "failed", "dead"]
                    .iter()
                    .any(|kind| event.is(kind))
            })
            .filter(|event| event.place() == *place)
            .map(|event| event.0["event"].as_str().unwrap())
            .collect();
        assert_eq!(story, ["start", "failed", "start", "failed", "dead"]);
    }
    assert!(
        last_commits(&events)
            .values()
            .all(|(_, text)| text.is_empty())
    );
}

#[test]
fn what_is_sent_on_is_done_once_the_broker_has_it() {
    for handler in [
        "noop",
        "sleep:1ms --batch 5",
        "spin:10us",
        "fail:0",
        "sleep:1ms --exactly-once --commit-interval 100ms",
    ] {
        let run = Run::start(&format!(
            "--handler {handler} --output generated.out --until-idle 2s --generate 500,20,10"
        ));
        let (summary, events) = run.success();
        assert_eq!(
            (&summary["records"], &summary["failed"]),
            (&json!(500), &json!(0))
        );
        assert_eq!(summary["fetched_bytes"], summary["processed_bytes"]);
        assert_eq!(places(&events, "done").len(), 500);
        assert_commits_truthful(&events);
    }
}

#[test]
fn what_cant_be_sent_is_a_failed_attempt() {
    for more in ["", " --exactly-once --commit-interval 100ms"] {
        let run = Run::start(&format!(
            "--output generated.out --retry 1ms,2,4ms,2 -X message.max.bytes=2000 --until-idle 2s \
             --generate 10,10,5000{more}",
        ));
        let (status, summary, events) = run.end();
        assert_eq!(status.code(), Some(1), "records stayed incomplete");
        assert_eq!(summary.unwrap()["failed"], json!(20));
        // In a transaction the handler's end is told before.
        assert_eq!(places(&events, "done").is_empty(), more.is_empty());
        let failed = events.iter().filter(|event| event.is("failed"));
        assert_eq!(failed.clone().count(), 20);
        for event in failed {
            let reason = event.0["reason"].as_str().unwrap();
            assert!(reason.contains("generated.out"), "{reason}");
        }
    }
}
