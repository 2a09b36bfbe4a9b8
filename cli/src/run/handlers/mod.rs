//! The built-in handlers, and what is counted around them.

mod exec;
mod http;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hyper::Uri;
use keyway::{Outcome, Output, Record, Route};

use super::args::Args;
use crate::refusal::Refusal;
use crate::units;
pub(super) use exec::Children;
use http::Post;

/// What is done with a record.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum HandlerKind {
    /// Nothing.
    Noop,
    /// Waits, without holding a thread.
    Sleep(Duration),
    /// Keeps a core busy.
    Spin(Duration),
    /// Fails with this probability.
    Fail(f64),
    /// Asks a child that runs this command.
    Exec(String),
    /// Posts to this URL.
    Http(Uri),
}

impl HandlerKind {
    /// Reads `noop`, `sleep:2ms`, `spin:50us`, `fail:0.1`, `exec:CMD`, `http:URL`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "noop" => Ok(Self::Noop),
            Some(("sleep", time)) => units::duration(time).map(Self::Sleep),
            Some(("spin", time)) => units::duration(time).map(Self::Spin),
            Some(("fail", share)) => match share.parse::<f64>() {
                Ok(share) if (0.0..=1.0).contains(&share) => Ok(Self::Fail(share)),
                _ => Err("a probability is a number from 0 to 1".to_owned()),
            },
            Some(("exec", command)) if !command.trim().is_empty() => {
                Ok(Self::Exec(command.to_owned()))
            }
            Some(("http", url)) => http::url(url).map(Self::Http),
            Some(("https", _)) => Err("it is http:https://..".to_owned()),
            _ => Err(
                "the handlers are noop, sleep:2ms, spin:50us, fail:P, exec:CMD and http:URL"
                    .to_owned(),
            ),
        }
    }
}

/// Counts what is inside handlers, and the bytes of what is complete.
#[derive(Debug, Default)]
pub(super) struct Gauge {
    inside: AtomicU64,
    most: AtomicU64,
    done_bytes: AtomicU64,
}

/// Records inside a handler until it is dropped, by a panic too.
struct Inside<'g> {
    gauge: &'g Gauge,
    records: u64,
}

// All counters are Relaxed: nothing else is read because of them, and they are reported after the engine's end,
// which orders everything before it.
impl Gauge {
    fn enter(&self, records: u64) -> Inside<'_> {
        let inside = self.inside.fetch_add(records, Ordering::Relaxed) + records;
        // The maximum is met rarely: look before the write.
        if inside > self.most.load(Ordering::Relaxed) {
            self.most.fetch_max(inside, Ordering::Relaxed);
        }
        Inside {
            gauge: self,
            records,
        }
    }

    /// Most records inside handlers at once.
    pub(super) fn max_running(&self) -> u64 {
        self.most.load(Ordering::Relaxed)
    }

    /// Notes a record that is complete: done, sent on, skipped, or a dead letter.
    pub(super) fn done(&self, record: &Record) {
        let bytes = record.size() as u64;
        self.done_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes of keys and values of these records, which is what librdkafka's `rxbytes` counts.
    pub(super) fn done_bytes(&self) -> u64 {
        self.done_bytes.load(Ordering::Relaxed)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.gauge.inside.fetch_sub(self.records, Ordering::Relaxed);
    }
}

/// What becomes of a record that the handler is through with.
#[derive(Clone, Debug)]
struct Finish {
    output: Option<Arc<str>>,
}

impl Finish {
    fn new(args: &Args) -> Self {
        Self {
            output: args.output.as_deref().map(Arc::from),
        }
    }

    /// Done; sent on where --output says so.
    fn of(&self, record: &Record) -> Outcome {
        let Some(topic) = &self.output else {
            return Outcome::Done;
        };
        match Output::copy_of(record, Arc::clone(topic)) {
            Ok(output) => output.into(),
            // No further attempt would read them.
            Err(unreadable) => Outcome::GiveUp(unreadable.to_string().into()),
        }
    }

    fn of_all(&self, records: &[Record]) -> Vec<Outcome> {
        records.iter().map(|record| self.of(record)).collect()
    }
}

/// The route of the chosen handler, and the children that it has.
pub(super) fn route(
    args: &Args,
    gauge: &Arc<Gauge>,
) -> Result<(Route, Option<Arc<Children>>), Refusal> {
    let gauge = Arc::clone(gauge);
    let finish = Finish::new(args);
    let mut children = None;
    let route = match &args.handler {
        HandlerKind::Noop => on_threads(args.batch, gauge, move |record| finish.of(record)),
        HandlerKind::Fail(share) => {
            let chance = Chance::new(*share);
            on_threads(args.batch, gauge, move |record| match chance.take() {
                true => Outcome::Failed("as --handler fail:P asks".into()),
                false => finish.of(record),
            })
        }
        HandlerKind::Spin(time) => on_cores(args.batch, gauge, *time, finish),
        HandlerKind::Sleep(time) => on_timers(args.batch, gauge, *time, finish),
        HandlerKind::Exec(command) => {
            one_by_one(args)?;
            let asked = Arc::new(Children::new(command, args.handler_timeout, finish));
            children = Some(Arc::clone(&asked));
            by_asking(gauge, move |record| {
                let asked = Arc::clone(&asked);
                async move { asked.handle(&record).await }
            })
        }
        HandlerKind::Http(url) => {
            one_by_one(args)?;
            let (timeout, calls) = (args.handler_timeout, args.concurrency);
            let asked =
                Post::new(url.clone(), timeout, calls, finish).map_err(Refusal::BadInput)?;
            let asked = Arc::new(asked);
            by_asking(gauge, move |record| {
                let asked = Arc::clone(&asked);
                async move { asked.handle(&record).await }
            })
        }
    };
    let route = route.concurrency(match args.handler {
        // What never waits gains nothing from more threads than there are cores.
        HandlerKind::Noop | HandlerKind::Fail(_) => args.concurrency.min(cores()),
        _ => args.concurrency,
    });
    Ok((route, children))
}

fn one_by_one(args: &Args) -> Result<(), Refusal> {
    match args.batch {
        None => Ok(()),
        Some(_) => Err(Refusal::BadInput(
            "--batch can't be used with this --handler, which takes one record at a time"
                .to_owned(),
        )),
    }
}

/// A handler that asks somebody about each record.
fn by_asking<A>(gauge: Arc<Gauge>, ask: impl Fn(Record) -> A + Send + Sync + 'static) -> Route
where
    A: Future<Output = Outcome> + Send + 'static,
{
    Route::async_handler(move |record: Record| {
        let (gauge, answer) = (Arc::clone(&gauge), ask(record));
        async move {
            let _inside = gauge.enter(1);
            answer.await
        }
    })
}

fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
}

/// A handler that decides about each record at once.
fn on_threads(
    batch: Option<usize>,
    gauge: Arc<Gauge>,
    decide: impl Fn(&Record) -> Outcome + Send + Sync + 'static,
) -> Route {
    match batch {
        None => Route::handler(move |record: &Record| {
            let _inside = gauge.enter(1);
            decide(record)
        }),
        Some(most) => Route::batch_handler(move |records: Vec<Record>| {
            let _inside = gauge.enter(records.len() as u64);
            records.iter().map(&decide).collect::<Vec<Outcome>>()
        })
        .batch_max(most),
    }
}

/// A handler that keeps a core busy for `time` each call.
fn on_cores(batch: Option<usize>, gauge: Arc<Gauge>, time: Duration, finish: Finish) -> Route {
    match batch {
        None => Route::cpu_handler(move |record: &Record| {
            let _inside = gauge.enter(1);
            spin(time);
            finish.of(record)
        }),
        Some(most) => Route::cpu_batch_handler(move |records: Vec<Record>| {
            let _inside = gauge.enter(records.len() as u64);
            spin(time);
            finish.of_all(&records)
        })
        .batch_max(most),
    }
}

fn spin(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// A handler that waits for `time` each call, without a thread.
fn on_timers(batch: Option<usize>, gauge: Arc<Gauge>, time: Duration, finish: Finish) -> Route {
    match batch {
        None => Route::async_handler(move |record: Record| {
            let (gauge, finish) = (Arc::clone(&gauge), finish.clone());
            async move {
                let _inside = gauge.enter(1);
                tokio::time::sleep(time).await;
                finish.of(&record)
            }
        }),
        Some(most) => Route::async_batch_handler(move |records: Vec<Record>| {
            let (gauge, finish) = (Arc::clone(&gauge), finish.clone());
            async move {
                let _inside = gauge.enter(records.len() as u64);
                tokio::time::sleep(time).await;
                finish.of_all(&records)
            }
        })
        .batch_max(most),
    }
}

/// True with a given probability; a counter under a hash that mixes well.
#[derive(Debug)]
struct Chance {
    share: f64,
    state: AtomicU64,
}

impl Chance {
    fn new(share: f64) -> Self {
        Self {
            share,
            state: AtomicU64::new(RandomState::new().hash_one(0_u8)),
        }
    }

    fn take(&self) -> bool {
        // SplitMix64: a Weyl sequence and Stafford's mixer 13.
        let mut mixed = self
            .state
            .fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        // The 53 bits that a float holds exactly, as a number from 0 to below 1.
        ((mixed >> 11) as f64) / ((1_u64 << 53) as f64) < self.share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handlers_have_names_and_numbers() {
        for (text, kind) in [
            ("noop", HandlerKind::Noop),
            ("sleep:2ms", HandlerKind::Sleep(Duration::from_millis(2))),
            ("spin:50us", HandlerKind::Spin(Duration::from_micros(50))),
            ("fail:0.25", HandlerKind::Fail(0.25)),
            ("fail:1", HandlerKind::Fail(1.0)),
            ("exec:a b:c", HandlerKind::Exec("a b:c".to_owned())),
            (
                "http:https://h/a:b",
                HandlerKind::Http(Uri::from_static("https://h/a:b")),
            ),
        ] {
            assert_eq!(HandlerKind::parse(text), Ok(kind), "{text}");
        }
        for text in [
            "",
            "sleep",
            "sleep:",
            "sleep:2",
            "noop:",
            "fail:1.1",
            "fail:-1",
            "fail:NaN",
            "exec",
            "exec: ",
            "http://h/",
            "http:h",
            "https://h/",
        ] {
            assert!(HandlerKind::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_chance_comes_as_often_as_it_should() {
        let times = |share| {
            let chance = Chance::new(share);
            (0..100_000).filter(|_| chance.take()).count()
        };
        assert_eq!(times(0.0), 0);
        assert_eq!(times(1.0), 100_000);
        // Ten standard deviations to either side.
        assert!((9_000..11_000).contains(&times(0.1)));
    }

    #[test]
    fn the_gauge_keeps_the_most_that_were_inside() {
        let gauge = Gauge::default();
        {
            let _first = gauge.enter(1);
            let _second = gauge.enter(5);
        }
        let _third = gauge.enter(2);
        assert_eq!(gauge.max_running(), 6);
    }
}
