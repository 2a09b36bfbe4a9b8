//! `keyway run --handler exec:CMD` with real children.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use common::{Event, Run, assert_keys_in_order, count};

/// Reads a record a line and does `first` at the first attempt of each; says done to all others.
fn child(first: &str) -> String {
    format!(
        r#"exec:while read -r line; do
            case "$line" in *'"attempt":1,'*) {first};; esac
            echo '{{"outcome":"done"}}'
        done"#
    )
}

fn run(handler: &str, arguments: &str) -> Run {
    Run::with(&["--handler", handler], arguments)
}

fn reasons(events: &[Event]) -> BTreeSet<String> {
    let failed = events.iter().filter(|event| event.is("failed"));
    failed
        .map(|event| event.0["reason"].as_str().unwrap().to_owned())
        .collect()
}

/// Every record failed once, for this reason, and was done at the second attempt.
fn assert_each_failed_once(run: Run, records: usize, reason: &str) {
    let (summary, events) = run.success();
    assert_eq!(summary["records"], records);
    assert_eq!(count(&events, "failed"), records, "{:?}", reasons(&events));
    for given in reasons(&events) {
        assert!(given.contains(reason), "{given}");
    }
    assert_keys_in_order(&events);
}

fn pids(path: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn lives(pid: &str) -> bool {
    let status = Command::new("sh")
        .args(["-c", "kill -0 \"$0\" 2>&-", pid])
        .status();
    status.unwrap().success()
}

fn assert_gone(pids: &BTreeSet<String>) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while pids.iter().any(|pid| lives(pid)) {
        assert!(Instant::now() < deadline, "children outlive the engine");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn children_get_the_records_of_a_key_in_order_and_are_no_more_than_calls_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let started = folder.path().join("pids");
    let handler = child(":").replace("exec:", &format!("exec:echo $$ >> {};", started.display()));
    let run = run(
        &handler,
        "--concurrency 4 --generate 300,10,20 --until-idle 2s",
    );
    let (summary, events) = run.success();
    assert_eq!(
        (&summary["records"], &summary["failed"]),
        (&300.into(), &0.into())
    );
    assert_keys_in_order(&events);
    let pids = pids(&started);
    assert!((1..=4).contains(&pids.len()), "{pids:?}");
    assert_gone(&pids);
}

/// Without listening while a record is handed over it fails with "no answer": the child waits to be read, and the engine
/// to be read from.
#[test]
fn an_echo_of_the_record_names_it_and_is_done_however_long_it_is() {
    let (summary, events) = run(
        "exec:cat",
        "--handler-timeout 20s --concurrency 2 --generate 20,5,300000 --until-idle 2s",
    )
    .success();
    assert_eq!(
        (&summary["records"], &summary["failed"]),
        (&20.into(), &0.into()),
        "{:?}",
        reasons(&events)
    );
}

#[test]
fn an_answer_says_what_becomes_of_the_record() {
    for answer in [
        r#"echo '{"outcome":"dead-letter","error":"no order"}'"#,
        "echo dead-letter",
    ] {
        let run = run(
            &child(&format!("{answer}; continue")),
            "--retry 1ms,1,1ms,3 --dead-letter generated.dead --generate 20,5,10 --until-idle 2s",
        );
        let (summary, events) = run.success();
        assert_eq!(summary["records"], 20);
        assert_eq!(count(&events, "dead"), 20);
    }
}

/// The outputs go to the topic that is consumed, so that they come back.
#[test]
fn outputs_of_an_answer_are_sent() {
    let handler = r#"exec:while read -r line; do
        case "$line" in
            *'"key":"key-'*) echo '{"outputs":[{"key":{"hex":"00ff"},"value":"v","headers":[["a",null]]}]}';;
            *'"key":{"hex":"00ff"},"value":"v","headers":[["a",null]]'*) echo skip;;
            *) echo '{"outcome":"stop","error":"what is that?"}';;
        esac
    done"#;
    let run = run(
        handler,
        "--output generated --generate 20,5,10 --until-idle 2s",
    );
    let (summary, events) = run.success();
    assert_eq!(summary["records"], 40);
    let sent = events
        .iter()
        .filter(|event| event.is("done") && event.key().as_deref() == Some("00ff"));
    assert_eq!(sent.count(), 20);
}

/// What is sent on is longer than the broker takes, so that it shows.
#[test]
fn what_is_done_without_outputs_of_its_own_is_sent_on() {
    let options = "--output generated.out --retry 1ms,1,1ms,1 -X message.max.bytes=2000 --generate 4,4,5000 --until-idle 2s";
    let (_, summary, events) = run("exec:while read -r line; do echo ok; done", options).end();
    assert_eq!(summary.unwrap()["failed"], 4);
    for reason in reasons(&events) {
        assert!(reason.contains("generated.out"), "{reason}");
    }
    let none = r#"exec:while read -r line; do echo '{"outputs":[]}'; done"#;
    let (summary, _) = run(none, options).success();
    assert_eq!(
        (&summary["records"], &summary["failed"]),
        (&4.into(), &0.into())
    );
}

/// A child that notes what it was handed, says two lines about it, and handles nothing else: the second line must not
/// stand for the next record. Without a look at its pipe it fails: records are done that no child has seen.
#[test]
fn who_says_two_lines_is_handed_nothing_more() {
    let folder = tempfile::tempdir().unwrap();
    let seen = folder.path().join("seen");
    let handler = format!(
        "exec:read -r line; echo x >> {}; printf 'ok\\nok\\n'; read -r line; exit 1",
        seen.display()
    );
    let (summary, events) = run(
        &handler,
        "--concurrency 1 --generate 8,8,10 --until-idle 3s",
    )
    .success();
    assert_eq!(
        (&summary["records"], &summary["failed"]),
        (&8.into(), &0.into()),
        "{:?}",
        reasons(&events)
    );
    let seen = std::fs::read_to_string(&seen).unwrap();
    assert_eq!(seen.lines().count(), 8);
}

/// A child whose second line comes when it has been handed the next record. Without a comparison of what an answer names it
/// fails: the late line is taken for done, and the child stands still when it is asked again.
#[test]
fn a_second_line_that_comes_late_is_not_taken_for_the_next_record() {
    let folder = tempfile::tempdir().unwrap();
    let finished = folder.path().join("finished");
    let handler = format!(
        r#"exec:while read -r line; do
            if [ -n "$before" ]; then printf '%s\n' "$before"; sleep 90; fi
            before=$line; echo x >> {}; printf '%s\n' "$line"
        done"#,
        finished.display()
    );
    let (summary, events) = run(
        &handler,
        "--concurrency 1 --handler-timeout 2s --retry 1ms,1,1ms,0 --generate 6,6,10 --until-idle 3s",
    )
    .success();
    assert_eq!(summary["records"], 6);
    for reason in reasons(&events) {
        assert!(reason.contains("was handed over"), "{reason}");
    }
    assert!(count(&events, "failed") > 0);
    let finished = std::fs::read_to_string(&finished).unwrap();
    assert_eq!(finished.lines().count(), 6);
}

/// It may be alive when it is handed the record. Without asking whether that was read it fails: "the child ended".
#[test]
fn a_child_that_ends_when_it_has_nothing_to_do_costs_no_attempt() {
    for handler in [
        "exec:read -r line; echo ok",
        "exec:read -r line; echo ok; sleep 0.1",
    ] {
        let (summary, events) = run(
            handler,
            "--concurrency 2 --generate 20,20,10 --until-idle 2s",
        )
        .success();
        assert_eq!(
            (&summary["records"], &summary["failed"]),
            (&20.into(), &0.into()),
            "{handler}: {:?}",
            reasons(&events)
        );
    }
}

#[test]
fn a_child_that_dies_with_a_record_is_replaced_and_the_record_runs_again() {
    let run = run(
        &child("exit 1"),
        "--retry 1ms,1,1ms,0 --generate 12,12,10 --until-idle 3s",
    );
    assert_each_failed_once(run, 12, "ended");
}

/// Without the timeout it fails: the run does not end.
#[test]
fn a_child_that_hangs_is_killed_with_what_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let started = folder.path().join("pids");
    let hang = format!("sleep 90 & echo $! >> {}; wait", started.display());
    let run = run(
        &child(&hang),
        "--handler-timeout 300ms --retry 1ms,1,1ms,0 --generate 4,4,10 --until-idle 3s",
    );
    assert_each_failed_once(run, 4, "no answer within 300ms");
    let pids = pids(&started);
    assert_eq!(pids.len(), 4);
    assert_gone(&pids);
}

/// Without the bound it fails, with a timeout in its place.
#[test]
fn an_answer_that_does_not_end_is_not_kept() {
    let run = run(
        &child("head -c 5000000 /dev/zero; sleep 90"),
        "--retry 1ms,1,1ms,0 --generate 2,2,10 --until-idle 3s",
    );
    assert_each_failed_once(run, 2, "more than 4194304 bytes");
}

#[test]
fn what_is_not_understood_is_a_failed_attempt_that_says_what_was_expected() {
    let run = run(
        &child("echo fine; continue"),
        "--retry 1ms,1,1ms,0 --generate 4,4,10 --until-idle 3s",
    );
    assert_each_failed_once(
        run,
        4,
        r#"the answer "fine": expected one of the words ok, done"#,
    );
}

/// Without a pause it fails; where a line that is not understood ends the doubling, so does the second one.
#[test]
fn a_child_that_breaks_each_time_is_not_started_each_time() {
    for handler in ["exec:exit 1", "exec:while read -r line; do echo fine; done"] {
        let mut run = run(
            handler,
            "--concurrency 1 --retry 1ms,1,1ms,5 --generate 1,1,10",
        );
        run.wait_until("five attempts", |events| count(events, "failed") == 5);
        run.signal("TERM");
        run.signal("INT");
        let (_, _, events) = run.end();
        let failed = events.iter().filter(|event| event.is("failed"));
        let times: Vec<u64> = failed
            .map(|event| event.0["ns"].as_u64().unwrap())
            .collect();
        // 100, 200, 400 and 800 ms.
        assert!(times[4] - times[0] >= 1_450_000_000, "{handler}: {times:?}");
    }
}

/// Without the kill it fails: they outlive the engine.
#[test]
fn who_does_not_end_with_its_stdin_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let started = folder.path().join("pids");
    let handler = format!(
        "exec:echo $$ >> {0}; while read -r line; do echo ok; done; sleep 90 & echo $! >> {0}; wait",
        started.display()
    );
    let run = run(
        &handler,
        "--concurrency 2 --generate 20,5,10 --until-idle 2s",
    );
    run.success();
    let pids = pids(&started);
    assert!(pids.len() >= 2, "{pids:?}");
    assert_gone(&pids);
}

/// Without the kill they outlive the engine: after a second signal those whose calls were given up, after a third one all
/// that hang.
#[test]
fn who_hangs_ends_with_the_engine_however_that_ends() {
    for signals in [2, usize::MAX] {
        let folder = tempfile::tempdir().unwrap();
        let started = folder.path().join("pids");
        let handler = format!(
            "exec:read -r line; sleep 90 & echo $! >> {}; wait",
            started.display()
        );
        let mut run = run(
            &handler,
            "--handler-timeout 1h --concurrency 3 --generate 20,20,10",
        );
        run.wait_until("all hang", |_| pids(&started).len() == 3);
        run.signal_until_end(signals);
        let (status, _, _) = run.end();
        assert_eq!(status.code(), Some(1));
        assert_gone(&pids(&started));
    }
}

/// The pipes of each are closed on exec, so that none keeps another's open.
#[test]
fn children_end_with_an_engine_that_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let started = folder.path().join("pids");
    let handler = child(":").replace("exec:", &format!("exec:echo $$ >> {};", started.display()));
    let mut run = run(&handler, "--concurrency 4 --generate 3000,10,20");
    run.wait_until("some are done", |events| count(events, "done") >= 20);
    run.signal("KILL");
    run.end();
    let pids = pids(&started);
    assert!(!pids.is_empty());
    assert_gone(&pids);
}
