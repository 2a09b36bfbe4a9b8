//! The page that names a test beside each line of what users have suffered, and whether the tests are there.

use std::fs;
use std::path::{Path, PathBuf};

/// Where the page's paths begin.
const BEGINNINGS: [&str; 3] = ["", "tests", "engine/src"];

/// The tests and files that `line` names in vain: `a/file.rs`, `a/file.rs::a_test`, and `..::a_test` for another one of
/// the file before it.
fn missing(root: &Path, line: &str) -> Vec<String> {
    let mut file: Option<PathBuf> = None;
    let mut missing = Vec::new();
    for token in line.split('`').skip(1).step_by(2) {
        let (place, name) = match token.split_once("::") {
            Some((place, name)) => (place, Some(name)),
            None => (token, None),
        };
        if place.ends_with(".rs") {
            let mut paths = BEGINNINGS.iter().map(|at| root.join(at).join(place));
            file = paths.find(|path| path.is_file());
        } else if place != ".." {
            // A mutant, a folder, a command.
            continue;
        }
        let text = file.as_ref().map(fs::read_to_string);
        let is_there = |text: &str| name.is_none_or(|name| text.contains(&format!("fn {name}(")));
        if !matches!(text, Some(Ok(text)) if is_there(&text)) {
            missing.push(token.to_owned());
        }
    }
    missing
}

/// With `broker/foreign.rs` for a test of `broker/commits.rs`, as it once was, it fails with that name.
#[test]
fn every_test_that_the_page_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = root.parent().expect("the workspace");
    let page = fs::read_to_string(root.join("docs/known-pain.md")).expect("the page");
    let lines = page.lines().filter(|line| line.starts_with('|'));
    let missing: Vec<_> = lines.flat_map(|line| missing(root, line)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
