//! What the engines of this process count and log, kept for tests to look at.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, OnceLock};

use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use tracing::Level;
use tracing_subscriber::fmt::MakeWriter;

static SAMPLES: OnceLock<Mutex<HashMap<String, Vec<f64>>>> = OnceLock::new();
static COUNTERS: OnceLock<Mutex<HashMap<String, Arc<AtomicU64>>>> = OnceLock::new();
static GAUGES: OnceLock<Mutex<HashMap<String, Arc<AtomicU64>>>> = OnceLock::new();
static LINES: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Keeps counters, gauges, histograms, warnings and what is told at start from now on. Called by a test before its first
/// engine.
///
/// # Panics
/// When somebody else records in this process.
pub fn keep() {
    static KEPT: Once = Once::new();
    KEPT.call_once(|| {
        metrics::set_global_recorder(Kept).expect("nobody else records in this process");
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(Level::INFO)
            .with_ansi(false)
            .with_writer(Kept)
            .finish();
        tracing::subscriber::set_global_default(subscriber)
            .expect("nobody else subscribes in this process");
    });
}

/// A counter's value, all its series with this label value together.
///
/// # Panics
/// When a test panicked within this module.
pub fn counted(name: &str, label: &str) -> u64 {
    let counters = COUNTERS.get_or_init(Mutex::default).lock().expect("lock");
    let series = format!("{name} {label}");
    counters
        .get(&series)
        .map_or(0, |counter| counter.load(Ordering::Relaxed))
}

/// What a gauge shows, of the series with these label values in their order.
///
/// # Panics
/// When a test panicked within this module.
pub fn gauge(name: &str, labels: &str) -> Option<f64> {
    let gauges = GAUGES.get_or_init(Mutex::default).lock().expect("lock");
    let shown = gauges.get(&format!("{name} {labels}"))?;
    Some(f64::from_bits(shown.load(Ordering::Relaxed)))
}

/// What was recorded into a histogram.
///
/// # Panics
/// When a test panicked within this module.
pub fn samples(name: &str) -> Vec<f64> {
    let samples = SAMPLES.get_or_init(Mutex::default).lock().expect("lock");
    samples.get(name).cloned().unwrap_or_default()
}

/// The lines of the log, from INFO on, that hold these words.
///
/// # Panics
/// When a test panicked within this module.
pub fn logged(words: &[&str]) -> Vec<String> {
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
        let mut counters = COUNTERS.get_or_init(Mutex::default).lock().expect("lock");
        Counter::from_arc(Arc::clone(counters.entry(series(key)).or_default()))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        let mut gauges = GAUGES.get_or_init(Mutex::default).lock().expect("lock");
        Gauge::from_arc(Arc::clone(gauges.entry(series(key)).or_default()))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(Samples(key.name().to_owned())))
    }
}

fn series(key: &Key) -> String {
    let labels: Vec<&str> = key.labels().map(metrics::Label::value).collect();
    format!("{} {}", key.name(), labels.join(","))
}

struct Samples(String);

impl HistogramFn for Samples {
    fn record(&self, value: f64) {
        let mut samples = SAMPLES.get_or_init(Mutex::default).lock().expect("lock");
        samples.entry(self.0.clone()).or_default().push(value);
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
