//! `keyway run --record FILE`, and the file that it leaves.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Run, count, keyway};
use serde_json::Value;
use tempfile::TempDir;

fn file() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records");
    (folder, path)
}

fn record(path: &Path, arguments: &str) -> Run {
    Run::with(&["--record", path.to_str().unwrap()], arguments)
}

/// What `keyway record decode --file` says of it, and its exit code.
fn decoded(path: &Path) -> (Vec<Value>, Option<i32>) {
    let output = keyway("record decode --file").arg(path).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    (lines.collect(), output.status.code())
}

/// Its blocks, all of which are whole.
fn blocks(path: &Path) -> Vec<Value> {
    let (blocks, code) = decoded(path);
    assert_eq!(code, Some(0), "{:?}", blocks.last());
    blocks
}

/// Exit code and stderr of a run that does not begin.
fn refused(path: &Path) -> String {
    let output = keyway("run --brokers mock --until-idle 1s --record")
        .arg(path)
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    stderr
}

/// Where attempts are not told apart it fails, with hundreds of blocks.
#[test]
fn each_record_is_appended_once_however_many_attempts_it_takes() {
    let (_folder, path) = file();
    for runs in 1..=2 {
        let run = record(
            &path,
            "--handler fail:0.5 --retry 1ms,1,1ms,0 --generate 100,10,30 --until-idle 2s",
        );
        let (summary, _) = run.success();
        assert!(summary["failed"].as_u64().unwrap() > 0);
        let blocks = blocks(&path);
        assert_eq!(blocks.len(), runs * 100);
        for block in &blocks {
            assert_eq!(block["value"], hex::encode(".".repeat(30)));
            assert!(
                block["key"]
                    .as_str()
                    .unwrap()
                    .starts_with(&hex::encode("key-"))
            );
            assert!(block["timestamp"].as_i64().unwrap() > 0);
            assert_eq!(block["headers"], Value::Array(Vec::new()));
        }
    }
}

/// What a kill leaves is every record that was started, and at most half a block of one that was not. Without the writing it
/// fails, with no record at all.
#[test]
fn a_record_is_in_the_file_before_its_handler_runs() {
    let (_folder, path) = file();
    let mut run = record(&path, "--handler sleep:5ms --generate 5000,100,1000");
    run.wait_until("some are done", |events| count(events, "done") >= 100);
    run.signal("KILL");
    let (_, _, events) = run.end();
    let (mut blocks, code) = decoded(&path);
    if code != Some(0) {
        assert_eq!(blocks.pop().unwrap()["error"], "torn");
    }
    let started = count(&events, "start");
    assert!(blocks.len() >= started, "{} of {started}", blocks.len());
}

/// Without the look at its end it fails: blocks are appended behind half a one, and nobody finds them.
#[test]
fn a_file_that_ends_within_a_block_is_not_appended_to() {
    let (_folder, path) = file();
    record(&path, "--generate 10,10,30 --until-idle 1s").success();
    let whole = fs::metadata(&path).unwrap().len();
    let torn = OpenOptions::new().write(true).open(&path).unwrap();
    torn.set_len(whole - 1).unwrap();

    let (mut lines, code) = decoded(&path);
    let last = lines.pop().unwrap();
    assert_eq!(
        (lines.len(), code, &last["error"]),
        (9, Some(2), &"torn".into())
    );
    let cut_at = whole / 10 * 9;
    assert!(
        last["detail"]
            .as_str()
            .unwrap()
            .contains(&cut_at.to_string()),
        "{last}"
    );
    assert!(refused(&path).contains(&format!("truncate -s {cut_at}")));
    assert_eq!(
        fs::metadata(&path).unwrap().len(),
        whole - 1,
        "nobody touches it"
    );

    torn.set_len(cut_at).unwrap();
    record(&path, "--generate 10,10,30 --until-idle 1s").success();
    assert_eq!(blocks(&path).len(), 19);
}

/// Without reading it through it fails: the run begins.
#[test]
fn what_is_no_file_of_blocks_is_not_appended_to() {
    let (folder, path) = file();
    fs::write(&path, "no blocks at all, but long enough for one").unwrap();
    assert!(refused(&path).contains("is no file of record blocks"));
    assert!(refused(folder.path()).contains("can't be written"));
    assert!(refused(Path::new("/dev/null")).contains("is no regular file"));
}

/// Without the lock it fails: two processes append, and each takes the file for as long as it has made it.
#[test]
fn a_file_has_one_writer() {
    let (_folder, path) = file();
    let mut run = record(&path, "--generate 10,10,30 --until-idle 30s");
    run.wait_until("all are done", |events| count(events, "done") == 10);
    assert!(refused(&path).contains("by another process"));
    run.signal("TERM");
    run.success();
    assert_eq!(blocks(&path).len(), 10);
}

/// On a file that may not grow beyond 16 KiB (or 32, as the shell counts). Without the cut it fails: it ends within a block.
#[test]
fn a_write_that_fails_ends_the_run_and_leaves_whole_blocks() {
    let (_folder, path) = file();
    let limited = "trap '' XFSZ; ulimit -f 32; exec \"$0\" \"$@\"";
    let child = Command::new("sh")
        .args(["-c", limited, env!("CARGO_BIN_EXE_keyway"), "run"])
        .args(["--brokers", "mock", "--generate", "1000,100,1000"])
        .args(["--handler", "sleep:5ms", "--record"])
        .arg(&path)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let stderr = String::from_utf8(child.stderr).unwrap();
    assert_eq!(child.status.code(), Some(1), "{stderr}");
    let length = fs::metadata(&path).unwrap().len();
    assert!(
        stderr.contains(&format!("it is whole up to byte {length}\n")),
        "{stderr}"
    );
    let recorded = blocks(&path).len();
    assert!(recorded > 0);
    let told = format!("{recorded} of the records that ran are in it");
    assert!(stderr.contains(&told), "{stderr}");
}
