//! `keyway run`: the engine as a command.
//!
//! ```text
//!     args --> config ---.
//!     args --> handlers --+--> engine --> watch (signals, idleness, progress) --> summary
//!     args --> events ---+
//!     args --> tape -----'
//! ```

mod args;
mod config;
mod events;
mod generate;
mod handlers;
mod observe;
mod progress;
mod signals;
mod summary;
mod tape;
mod watch;

use std::process::ExitCode;
use std::sync::Arc;

use keyway::{
    BuildError, Causal, CommitMode, DeadLetters, Engine, Exhausted, Keyway, Route, StartError,
};

pub(crate) use args::Args;
use args::{LetterForm, MOCK, Ordering};
use events::EventLog;
use generate::MockWorld;
use handlers::Gauge;
use observe::Told;
pub(crate) use progress::Progress;
pub(crate) use signals::listen;
use tape::Tape;
pub(crate) use watch::{Cause, Watch};

use crate::refusal::Refusal;

pub(crate) fn execute(args: Args, json: bool) -> ExitCode {
    run(&args, json).unwrap_or_else(Refusal::report)
}

fn run(args: &Args, json: bool) -> Result<ExitCode, Refusal> {
    // Before anything takes time, so that a signal finds somebody who listens.
    let signals = signals::listen()
        .map_err(|error| Refusal::Failed(format!("signals can't be received: {error}")))?;
    let (events, tape) = files(args)?;
    let of_events = events.as_ref().map(EventLog::fault);
    let of_tape = tape.as_ref().map(|tape| tape.fault());
    // Lives as long as the engine: its broker ends with it.
    let mock = MockWorld::start(args)?;
    let client = config::client(args, mock.as_ref())?;
    let start_at = config::start(args, &client);
    let topics = config::topics(args, mock.as_ref())?;
    let gauge = Arc::new(Gauge::default());

    let (route, children) = handlers::route(args, &gauge)?;
    let route = route.ordering(match args.ordering {
        Ordering::Key => keyway::Ordering::Key,
        Ordering::Partition => keyway::Ordering::Partition,
        Ordering::Unordered => keyway::Ordering::Unordered,
    });
    let route = with_retry(args, route)?;
    let mut builder = Keyway::builder(client)
        .topics(topics)
        .route(route)
        .commit_mode(match args.exactly_once {
            true => CommitMode::Transactional(args.commit_interval),
            false => CommitMode::Periodic(args.commit_interval),
        });
    if let Some(start) = start_at {
        builder = builder.start_at(start);
    }
    if let Some(records) = args.records {
        builder = builder.record_limit(records);
    }
    if let Some(rate) = args.rate {
        builder = builder.rate(rate);
    }
    builder = builder.observer(Told {
        gauge: Arc::clone(&gauge),
        events,
        tape: tape.clone(),
    });
    if let Some(rider) = args.rider_hex.clone() {
        builder = builder.rider(move |_| Some(rider.as_slice().to_vec()));
    }
    if args.causal {
        builder = builder.causal(causal(args)?);
    }
    let engine = start(builder)?;
    let watch = Watch {
        engine: &engine,
        signals,
        until_idle: args.until_idle,
        faults: of_events.into_iter().chain(of_tape).collect(),
        progress: if json { None } else { Progress::on_terminal() },
        before_exit: Box::new({
            let children = children.clone();
            move || children.iter().for_each(|children| children.kill())
        }),
    };
    let end = watch.until_end();
    if let Some(children) = children {
        children.end();
    }
    for line in tape.iter().flat_map(|tape| tape.report()) {
        eprintln!("keyway: {line}");
    }
    Ok(summary::conclude(&end, &engine.status(), &gauge))
}

/// Causal delivery as the options say.
fn causal(args: &Args) -> Result<Causal, Refusal> {
    if args.brokers.as_deref() == Some(MOCK) {
        return Err(Refusal::BadInput(
            "--causal needs a real broker: that inside this process can not be asked for the ids of topics".to_owned(),
        ));
    }
    let mut causal = Causal::default();
    if args.accept_lost_frontier {
        causal = causal.accept_lost_frontier();
    }
    if args.rebuild_lost_frontier {
        causal = causal.rebuild_lost_frontier();
    }
    if args.skip_joined {
        causal = causal.skip_joined();
    }
    for record in &args.accept_undecodable {
        causal = causal.accept_undecodable(&record.topic, record.partition, record.offset);
    }
    if args.dead_letters_settle {
        causal = causal.dead_letters_settle();
    }
    Ok(causal)
}

/// The files of what happens.
fn files(args: &Args) -> Result<(Option<EventLog>, Option<Arc<Tape>>), Refusal> {
    let events = args.events.as_deref().map(|path| {
        EventLog::open(path).map_err(|error| {
            Refusal::BadInput(format!("{} can't be written: {error}", path.display()))
        })
    });
    let tape = args.record.as_deref().map(|path| {
        let tape = Tape::open(path).map(Arc::new);
        tape.map_err(|no_tape| Refusal::BadInput(no_tape.of(path)))
    });
    Ok((events.transpose()?, tape.transpose()?))
}

/// What follows a failed attempt, and the last one.
fn with_retry(args: &Args, route: Route) -> Result<Route, Refusal> {
    let Some(retry) = args.retry else {
        return Ok(route);
    };
    let Some(topic) = &args.dead_letter else {
        return Ok(route.retry(retry.policy));
    };
    if retry.attempts == 0 {
        return Err(Refusal::BadInput(
            "--dead-letter needs a limit of attempts: the last number of --retry".to_owned(),
        ));
    }
    Ok(route
        .retry(retry.policy.then(Exhausted::DeadLetter))
        .dead_letters(match args.dead_letter_form {
            LetterForm::Headers => DeadLetters::headers(topic),
            LetterForm::Envelope => DeadLetters::envelope(topic),
        }))
}

pub(crate) fn start(builder: keyway::Builder) -> Result<Engine, Refusal> {
    let keyway = builder
        .build()
        .map_err(|error: BuildError| Refusal::BadInput(error.to_string()))?;
    keyway.start().map_err(|error| match error {
        StartError::Client(_) => Refusal::BadInput(error.to_string()),
        _ => Refusal::Failed(error.to_string()),
    })
}
