//! Answers behind their questions: one slow partition, read plainly and with causal delivery.
//!
//! ```sh
//! cargo run --release --example forum -- --brokers localhost:9092
//! ```
//!
//! People ask in `questions`, a service answers in `answers`, another one says in `moderation` whether an answer stays.
//! Two timelines show all three topics, alike but for one line. One partition of the questions is slow to show, as one
//! with large attachments would be. The plain timeline goes on with the other topics meanwhile, and shows answers to
//! questions that nobody has seen. The causal one holds just these until their question is there.
//!
//! - **Who stamps**: the two services are causal as well, so what they send names what they had read. Nothing in their
//!   handlers says so. The questions come from elsewhere, without causes, and are never held.
//! - **What is held** takes no worker, and holds nobody else. A stamp names all that its sender had read by then: an answer
//!   waits for what the service had read before it answered, not for its own question alone.
//! - **A real cluster**: topics are known by their ids, which a broker inside the process can't be asked for.
//!
//! Exits with 1 if the causal timeline showed an effect before its cause.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use keyway::{
    Builder, Causal, ClientConfig, Engine, Keyway, Ordering, Outcome, Output, Record, StartAt,
};
use keyway_examples::Cluster;
use tokio::time::{Instant, sleep};

// ---- the services ----

/// Between two commits. What another member of the group waits for it learns from a commit, so this is short.
const COMMIT_INTERVAL: Duration = Duration::from_millis(100);

/// Where posts of each kind lie.
#[derive(Clone)]
pub(crate) struct Topics {
    pub(crate) questions: Arc<str>,
    pub(crate) answers: Arc<str>,
    pub(crate) moderation: Arc<str>,
}

impl Topics {
    fn all(&self) -> [&str; 3] {
        [&self.questions, &self.answers, &self.moderation]
    }
}

/// Whether what caused a record is done before it starts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    Plain,
    Causal,
}

/// Answers each question; its key is the thread's.
pub(crate) fn answering(client: ClientConfig, topics: &Topics) -> Builder {
    let to = Arc::clone(&topics.answers);
    Keyway::builder(client)
        .topics([&*topics.questions])
        .start_at(StartAt::Earliest)
        .commit_interval(COMMIT_INTERVAL)
        .causal(Causal::default())
        .handler(move |question: &Record| reply(question, &to, "answered"))
}

/// Judges each answer, having seen the question.
pub(crate) fn moderating(client: ClientConfig, topics: &Topics) -> Builder {
    let to = Arc::clone(&topics.moderation);
    let answers = Arc::clone(&topics.answers);
    Keyway::builder(client)
        .topics([&*topics.questions, &*topics.answers])
        .start_at(StartAt::Earliest)
        .commit_interval(COMMIT_INTERVAL)
        .causal(Causal::default())
        .handler(move |post: &Record| match post.topic() == &*answers {
            true => reply(post, &to, "it stays"),
            false => Outcome::Done,
        })
}

fn reply(post: &Record, to: &Arc<str>, text: &str) -> Outcome {
    match post.key() {
        Some(thread) => Outcome::Send(vec![Output::to(Arc::clone(to)).key(thread).value(text)]),
        // Nobody could tell what is replied to.
        None => Outcome::Done,
    }
}

/// Shows what is posted, on this wall. `slow` says how long a post takes to show.
pub(crate) fn timeline(
    client: ClientConfig,
    topics: &Topics,
    delivery: Delivery,
    slow: impl Fn(&Record) -> Duration + Send + Sync + 'static,
    wall: &Arc<Wall>,
) -> Builder {
    let (wall, kinds) = (Arc::clone(wall), topics.clone());
    let builder = Keyway::builder(client)
        .topics(topics.all())
        .start_at(StartAt::Earliest)
        .commit_interval(COMMIT_INTERVAL)
        .ordering(Ordering::Partition)
        .async_handler(move |post: Record| {
            let (wall, kind, takes) = (Arc::clone(&wall), Kind::of(&post, &kinds), slow(&post));
            async move {
                if !takes.is_zero() {
                    sleep(takes).await;
                }
                wall.show(kind, post.key().unwrap_or_default());
            }
        });
    match delivery {
        Delivery::Plain => builder,
        Delivery::Causal => builder.causal(Causal::default()),
    }
}

/// What a post is, in the order in which these follow from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Question,
    Answer,
    Verdict,
}

impl Kind {
    fn of(post: &Record, topics: &Topics) -> Self {
        match post.topic() {
            topic if topic == &*topics.questions => Self::Question,
            topic if topic == &*topics.answers => Self::Answer,
            _ => Self::Verdict,
        }
    }

    /// What a post of this kind is about.
    fn cause(self) -> Option<Self> {
        match self {
            Self::Question => None,
            Self::Answer => Some(Self::Question),
            Self::Verdict => Some(Self::Answer),
        }
    }
}

/// What a timeline has shown, in order.
#[derive(Default)]
pub(crate) struct Wall(Mutex<Shown>);

#[derive(Default)]
struct Shown {
    posts: Vec<Post>,
    there: BTreeSet<(String, Kind)>,
}

/// A line of a timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Post {
    pub(crate) thread: String,
    pub(crate) kind: Kind,
    /// What it is about was not there.
    pub(crate) is_early: bool,
}

impl Wall {
    fn show(&self, kind: Kind, thread: &[u8]) {
        let thread = String::from_utf8_lossy(thread).into_owned();
        let mut shown = self.lock();
        let is_there = |cause| shown.there.contains(&(thread.clone(), cause));
        let is_early = kind.cause().is_some_and(|cause| !is_there(cause));
        shown.there.insert((thread.clone(), kind));
        shown.posts.push(Post {
            thread,
            kind,
            is_early,
        });
    }

    pub(crate) fn posts(&self) -> Vec<Post> {
        self.lock().posts.clone()
    }

    /// Different posts: after a rebalance one may be shown twice.
    fn different(&self) -> usize {
        self.lock().there.len()
    }

    fn lock(&self) -> MutexGuard<'_, Shown> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for Post {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (indent, what, lacks) = match self.kind {
            Kind::Question => ("", "question", ""),
            Kind::Answer => ("  ", "answer", "question"),
            Kind::Verdict => ("    ", "verdict", "answer"),
        };
        write!(f, "{indent}{what} {}", self.thread)?;
        match self.is_early {
            true => write!(f, "  <- which {lacks}?"),
            false => Ok(()),
        }
    }
}

// ---- the demonstration ----

const QUESTIONS: usize = 100;
const PARTITIONS: i32 = 2;

/// Somebody asks so often.
const ASKED_EVERY: Duration = Duration::from_millis(10);

/// A question in partition 0 takes so long to show: more than comes in meanwhile.
const SLOW: Duration = Duration::from_millis(40);

/// Lines of a timeline that are printed, from shortly before the first early one.
const LINES: usize = 24;
const LINES_BEFORE: usize = 4;

/// After so long something is wrong.
const PATIENCE: Duration = Duration::from_secs(120);

/// For the end of each member.
const DRAIN: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let cluster = Cluster::from_arguments("questions", PARTITIONS).await?;
    if cluster.is_in_process() {
        return Err("causal delivery needs a real cluster: -- --brokers HOST:PORT (one to try: docker run -p 9092:9092 \
                    apache/kafka:4.1.1)"
            .into());
    }
    let [plain, causal] = run(cluster).await?;
    let from = plain.first_early().unwrap_or_default();
    let from = from.saturating_sub(LINES_BEFORE);
    println!("\n{:<36}causal", "plain");
    for line in from..from + LINES {
        let of = |seen: &Seen| seen.posts.get(line).map(Post::to_string);
        let (left, right) = (of(&plain), of(&causal));
        println!(
            "{:<36}{}",
            left.unwrap_or_default(),
            right.unwrap_or_default()
        );
    }
    println!("{:<36}..\n", "..");
    println!("plain: {plain}");
    println!("causal: {causal}");
    match causal.early() {
        0 => Ok(()),
        early => Err(format!("{early} effects were shown before their causes").into()),
    }
}

/// What a timeline has shown by the end.
pub(crate) struct Seen {
    pub(crate) posts: Vec<Post>,
    /// How many records were held.
    pub(crate) held: u64,
}

impl Seen {
    pub(crate) fn early(&self) -> usize {
        self.posts.iter().filter(|post| post.is_early).count()
    }

    fn first_early(&self) -> Option<usize> {
        self.posts.iter().position(|post| post.is_early)
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (posts, early, held) = (self.posts.len(), self.early(), self.held);
        write!(
            f,
            "{posts} posts, {early} of them before what they are about; {held} were held"
        )
    }
}

/// People ask, services answer, timelines show: what the plain one and the causal one have shown.
pub(crate) async fn run(mut cluster: Cluster) -> Result<[Seen; 2], Box<dyn Error>> {
    let topics = Topics {
        answers: cluster.topic_beside("answers").await?.into(),
        moderation: cluster.topic_beside("moderation").await?.into(),
        questions: cluster.topic().into(),
    };
    println!("{QUESTIONS} questions, on {cluster}; its partition 0 takes {SLOW:?} for each.");
    let client = |name: &str| {
        let mut client = cluster.client();
        client.set("group.id", format!("{}.{name}", cluster.group()));
        client
    };
    let services = [
        answering(client("answering"), &topics).build()?.start()?,
        moderating(client("moderating"), &topics).build()?.start()?,
    ];
    let walls: [Arc<Wall>; 2] = Default::default();
    let start = |name: &str, delivery, wall: &Arc<Wall>| -> Result<Engine, Box<dyn Error>> {
        let questions = Arc::clone(&topics.questions);
        let slow = move |post: &Record| match (post.topic() == &*questions, post.partition()) {
            (true, 0) => SLOW,
            _ => Duration::ZERO,
        };
        Ok(timeline(client(name), &topics, delivery, slow, wall)
            .build()?
            .start()?)
    };
    let timelines = [
        start("plain", Delivery::Plain, &walls[0])?,
        start("causal", Delivery::Causal, &walls[1])?,
    ];
    until("all are there", || {
        let mut engines = services.iter().chain(&timelines);
        engines.all(|engine| engine.health().is_ready())
    })
    .await?;

    cluster.produce_all((0..QUESTIONS).map(|thread| {
        thread::sleep(ASKED_EVERY);
        (format!("#{thread}"), "why?")
    }))?;
    until("all is shown on both", || {
        walls.iter().all(|wall| wall.different() == 3 * QUESTIONS)
    })
    .await?;

    for engine in services.iter().chain(&timelines) {
        engine.drain(DRAIN);
    }
    let mut seen = Vec::new();
    for (engine, wall) in timelines.into_iter().zip(&walls) {
        engine.finished().await?;
        let causal = &engine.status().causal;
        seen.push(Seen {
            posts: wall.posts(),
            held: causal.as_ref().map_or(0, |causal| causal.held_total),
        });
    }
    for service in services {
        service.finished().await?;
    }
    cluster.clean_up().await?;
    seen.try_into()
        .map_err(|_| "there are two timelines".into())
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) -> Result<(), Box<dyn Error>> {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        if Instant::now() > deadline {
            return Err(format!("{what}: not within {PATIENCE:?}").into());
        }
        sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}
