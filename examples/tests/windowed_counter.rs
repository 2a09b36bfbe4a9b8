//! The windowed counter, as it is run by hand: members in processes of their own, the first one killed.

#![allow(clippy::unwrap_used)]

use std::env;
use std::path::PathBuf;
use std::process::Command;

/// Builds an example and says where it lies. For the whole workspace, as its tests are built: for this package alone cargo
/// would build what it depends on once more, with fewer features.
fn built(example: &str) -> PathBuf {
    // target/<profile>/deps/<this test>
    let test = env::current_exe().unwrap();
    let profile = test.ancestors().nth(2).unwrap();
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--workspace", "--example", example])
        .args(profile.ends_with("release").then_some("--release"))
        .arg("--target-dir")
        .arg(profile.parent().unwrap())
        .status()
        .unwrap();
    assert!(status.success(), "{example} was not built");
    profile.join("examples").join(example)
}

#[test]
fn every_record_counts_once_over_a_kill() {
    let output = Command::new(built("windowed_counter")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complained}");
    assert!(said.contains("Records counted: 20000 of 20000."), "{said}");
    assert!(said.contains("killed after"), "{said}");
}
