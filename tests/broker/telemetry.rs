//! What the engines of this process count and log, kept for tests to look at.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, OnceLock};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use tracing::Level;
use tracing_subscriber::fmt::MakeWriter;

static COUNTERS: OnceLock<Mutex<HashMap<String, Arc<AtomicU64>>>> = OnceLock::new();
static LINES: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Keeps counters and warnings from now on. Called by a test before its first engine.
pub(crate) fn keep() {
    static KEPT: Once = Once::new();
    KEPT.call_once(|| {
        metrics::set_global_recorder(Kept).expect("nobody else records in this process");
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(Level::WARN)
            .with_ansi(false)
            .with_writer(Kept)
            .finish();
        tracing::subscriber::set_global_default(subscriber)
            .expect("nobody else subscribes in this process");
    });
}

/// A counter's value, all its series with this label value together.
pub(crate) fn counted(name: &str, label: &str) -> u64 {
    let counters = COUNTERS.get_or_init(Mutex::default).lock().expect("lock");
    let series = format!("{name} {label}");
    counters
        .get(&series)
        .map_or(0, |counter| counter.load(Ordering::Relaxed))
}

/// The warnings and errors that hold these words, one line each.
pub(crate) fn logged(words: &[&str]) -> Vec<String> {
    let lines = LINES.lock().expect("lock");
    let lines = String::from_utf8_lossy(&lines);
    let holds_all = |line: &&str| words.iter().all(|word| line.contains(word));
    lines.lines().filter(holds_all).map(str::to_owned).collect()
}

#[derive(Clone, Copy)]
struct Kept;

impl Recorder for Kept {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let labels: Vec<&str> = key.labels().map(metrics::Label::value).collect();
        let series = format!("{} {}", key.name(), labels.join(","));
        let mut counters = COUNTERS.get_or_init(Mutex::default).lock().expect("lock");
        Counter::from_arc(Arc::clone(counters.entry(series).or_default()))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

impl MakeWriter<'_> for Kept {
    type Writer = Kept;

    fn make_writer(&self) -> Kept {
        Kept
    }
}

impl Write for Kept {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        LINES.lock().expect("lock").extend_from_slice(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
