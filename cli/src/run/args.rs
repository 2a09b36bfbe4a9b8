//! The options of `keyway run`.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use keyway::Rate;
use keyway_rider::RiderBytes;

use super::generate::Generate;
use super::handlers::HandlerKind;
use crate::properties::Properties;
use crate::units::{self, Retries};

/// The value of --brokers that stands for a broker inside the process.
pub(super) const MOCK: &str = "mock";

/// Process the records of topics as a member of a consumer group, many at a time while each key stays in order.
///
/// Runs until a signal, or as --until-idle or --records say. SIGTERM and SIGINT drain: nothing more is taken in, what
/// is buffered is finished and committed, within 30 s. A second signal stops: only what runs is finished, within 5 s.
/// A third one ends the process at once.
///
/// At the end there is one JSON line on stdout. Exit code 0 for an orderly end, 1 when records stayed incomplete or
/// the engine had to stop, 2 for options that can't be used. A broker that does not answer is waited for.
///
/// Try it without a broker: keyway run --brokers mock --handler sleep:2ms --concurrency 200 --until-idle 1s
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Brokers to begin with, or "mock" for one inside this process that --generate fills
    #[arg(long, value_name = "HOST:PORT,..|mock")]
    pub(super) brokers: Option<String>,

    /// Consumer group [default with a mock broker: keyway-run]
    #[arg(long)]
    pub(super) group: Option<String>,

    /// Topic to consume, may be repeated; a pattern when it begins with ^ [default with a mock broker: generated]
    #[arg(long = "topic", value_name = "TOPIC")]
    pub(super) topics: Vec<String>,

    /// Which records run one after another
    #[arg(long, value_enum, default_value_t = Ordering::Key)]
    pub(super) ordering: Ordering,

    /// Calls of the handler at once; noop, spin and fail never take more than there are cores
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) concurrency: u32,

    /// What is done with a record: nothing; wait; compute; fail with probability P (0 to 1), each attempt anew; ask a child
    /// that "sh -c CMD" runs, one for each call at once: a JSON line on its stdin, a JSON line from its stdout; or post it
    /// to a URL: 2xx is done, 429 and 5xx are failed attempts, any other status is given up.
    /// A failed attempt is made again as --retry says. With --batch, sleep and spin take their time for each batch
    #[arg(long, value_name = "noop|sleep:2ms|spin:50us|fail:P|exec:CMD|http:URL", default_value = "noop", value_parser = HandlerKind::parse)]
    pub(super) handler: HandlerKind,

    /// How long a child of exec:CMD or the server of http:URL may take for an answer; then the attempt has failed, and the
    /// child is killed and replaced
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = units::timeout)]
    pub(super) handler_timeout: Duration,

    /// How failed attempts are made again: the first delay, how much longer each further one is, the longest, and the
    /// most attempts (0 for no limit), after which the record stays incomplete and its key waits, or goes where
    /// --dead-letter says [default: 1s,2,1m,0]
    #[arg(long, value_name = "INITIAL,FACTOR,MAX,ATTEMPTS", value_parser = units::retry)]
    pub(super) retry: Option<Retries>,

    /// Write a record to this topic after its last attempt, as --retry counts them, with its story in headers that begin
    /// with keyway.dlq; it is complete when the broker has acknowledged that
    #[arg(long, value_name = "TOPIC", requires = "retry")]
    pub(super) dead_letter: Option<String>,

    /// How a dead letter tells its story: in headers behind the record's own, or in an envelope in place of its value
    #[arg(long, value_enum, default_value_t = LetterForm::Headers, requires = "dead_letter")]
    pub(super) dead_letter_form: LetterForm,

    /// Send each record that the handler is through with to this topic, with its key, value, headers and timestamp; it is
    /// complete when the broker has acknowledged that, and what can't be sent is a failed attempt
    #[arg(long, value_name = "TOPIC")]
    pub(super) output: Option<String>,

    /// Store outputs, dead letters and offsets together, in one transaction at each --commit-interval: who reads them with
    /// isolation.level=read_committed sees each once
    #[arg(long)]
    pub(super) exactly_once: bool,

    /// Start at most N records a second, all partitions together
    #[arg(long, value_name = "N/s", value_parser = units::rate)]
    pub(super) rate: Option<Rate>,

    /// Give the handler up to N records at a time
    #[arg(long, value_name = "N", value_parser = units::count)]
    pub(super) batch: Option<usize>,

    /// How often finished work is committed; 0s for as soon as the commit before is answered
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = units::duration)]
    pub(super) commit_interval: Duration,

    /// Write these bytes beside each commit's hole map; every member of the group has to know riders
    #[arg(long, value_name = "HEX", value_parser = units::rider)]
    pub(super) rider_hex: Option<RiderBytes>,

    /// Start a record only when everything that its header parsley.causes names is done, and write that header to what is
    /// sent; every member of the group has to do so, over the same topics
    #[arg(long, conflicts_with = "rider_hex")]
    pub(super) causal: bool,

    /// With --causal: send although commits of the group carry no causal shard, since nothing was learned before
    #[arg(long, requires = "causal")]
    pub(super) accept_lost_frontier: bool,

    /// With --causal: where commits carry no causal shard, read all that the group has read once more before anything runs
    #[arg(long, requires = "causal")]
    pub(super) rebuild_lost_frontier: bool,

    /// With --causal: read a topic that joins the group from behind those of its records whose effects are out
    #[arg(long, requires = "causal")]
    pub(super) skip_joined: bool,

    /// With --causal: run this record, whose header can't be read, as one without causes; may be repeated
    #[arg(long, value_name = "TOPIC-PARTITION@OFFSET", value_parser = units::record, requires = "causal")]
    pub(super) accept_undecodable: Vec<units::RecordName>,

    /// With --causal and --dead-letter: what depends on a dead letter's record starts
    #[arg(long, requires_all = ["causal", "dead_letter"])]
    pub(super) dead_letters_settle: bool,

    /// End when nothing was received, running or awaiting a retry for so long, counted from the first assignment
    #[arg(long, value_name = "DURATION", value_parser = units::duration, conflicts_with = "records")]
    pub(super) until_idle: Option<Duration>,

    /// Start no record past the Nth, all partitions together, and end when N are complete
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) records: Option<u64>,

    /// Where a partition without a commit starts [default: what -X auto.offset.reset says, else earliest]
    #[arg(long, value_enum)]
    pub(super) start: Option<Start>,

    /// Append what happens to this file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    pub(super) events: Option<PathBuf>,

    /// Append each record that is received to this file, as a record block when its first attempt begins; "keyway record
    /// decode --file" reads them. A file that ends within a block is not appended to
    #[arg(long, value_name = "FILE")]
    pub(super) record: Option<PathBuf>,

    #[command(flatten)]
    pub(super) properties: Properties,

    /// Fill the mock broker with N records under KEYS keys (0 for null keys) with values of SIZE bytes
    /// [default: 10000,100,100]
    #[arg(long, value_name = "N,KEYS,SIZE", value_parser = Generate::parse)]
    pub(super) generate: Option<Generate>,
}

/// Which records run one after another.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Ordering {
    /// Those with equal keys
    Key,
    /// Those of a partition
    Partition,
    /// None
    Unordered,
}

/// How a dead letter tells its story.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum LetterForm {
    /// In headers that begin with keyway.dlq
    Headers,
    /// In the value, with the whole record
    Envelope,
}

/// Where a partition without a committed offset starts.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Start {
    /// At the first record of the log
    Earliest,
    /// Behind the last one
    Latest,
}
