//! The windowed counter, as it is run by hand: members in processes of their own, the first one killed.

#![allow(clippy::unwrap_used)]

use std::process::Command;

#[test]
fn every_record_counts_once_over_a_kill() {
    let output = Command::new(env!("CARGO"))
        .args([
            "run",
            "--quiet",
            "--package",
            "keyway-examples",
            "--example",
            "windowed_counter",
        ])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complained}");
    assert!(said.contains("Records counted: 20000 of 20000."), "{said}");
    assert!(said.contains("killed after"), "{said}");
}
