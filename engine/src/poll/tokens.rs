//! Tokens for OAUTHBEARER: librdkafka asks, the application's provider answers, and nobody waits for it.
//!
//! ```text
//!   SourceEvent::TokenRefresh --> Tokens::ask --> provider, for at most 30 s, on the caller's runtime
//!                                                    |       or else on a thread that lives as long
//!                                                    v
//!                                 Question --> set_token, or set_token_failure
//! ```
//!
//! librdkafka asks once and then waits for the answer without end, so there has to be one in every case, also
//! when the provider panics or its runtime is shut down. Hence the question answers when it is dropped.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::runtime::{self, Handle};

use crate::handler::BoxFuture;
use crate::kafka::{ClientError, GroupClient, OauthToken, ProducerTokens};

/// How long a provider may take. librdkafka asks when a fifth of the token's time is left, and lets no broker
/// wait for the answer while the old one is good.
const PROVIDER_TIME: Duration = Duration::from_secs(30);

/// An application's provider with its types erased.
pub(crate) type TokenProvider =
    Arc<dyn Fn() -> BoxFuture<Result<OauthToken, String>> + Send + Sync>;

pub(crate) fn token_provider<F, E>(
    provider: impl Fn() -> F + Send + Sync + 'static,
) -> TokenProvider
where
    F: Future<Output = Result<OauthToken, E>> + Send + 'static,
    E: fmt::Display,
{
    Arc::new(move || {
        let token = provider();
        Box::pin(async move { token.await.map_err(|error| error.to_string()) })
    })
}

/// Who waits for a token: librdkafka, and in tests a list.
pub(crate) trait TokenTaker: Clone + Send + 'static {
    /// Takes a token, or says what is wrong with it.
    fn take(&self, token: &OauthToken) -> Result<(), ClientError>;

    /// Takes the reason why there is none; asks again later. The reason is never empty.
    fn take_failure(&self, reason: &str) -> Result<(), ClientError>;
}

impl TokenTaker for GroupClient {
    fn take(&self, token: &OauthToken) -> Result<(), ClientError> {
        self.set_token(token)
    }

    fn take_failure(&self, reason: &str) -> Result<(), ClientError> {
        self.set_token_failure(reason)
    }
}

impl TokenTaker for ProducerTokens {
    fn take(&self, token: &OauthToken) -> Result<(), ClientError> {
        self.set(token)
    }

    fn take_failure(&self, reason: &str) -> Result<(), ClientError> {
        self.set_failure(reason)
    }
}

/// Runs the provider when it is asked to.
pub(crate) struct Tokens<T> {
    pub(crate) provider: TokenProvider,
    /// The runtime in which the engine was started.
    pub(crate) runtime: Option<Handle>,
    pub(crate) taker: T,
}

impl<T: TokenTaker> Tokens<T> {
    /// Starts the provider. Does not wait for it.
    pub(crate) fn ask(&self) {
        let question = Question {
            taker: self.taker.clone(),
            answered: false,
        };
        let asked = answer(Arc::clone(&self.provider), question);
        match &self.runtime {
            // A runtime that was shut down drops the future at once, and the question answers.
            Some(runtime) => drop(runtime.spawn(asked)),
            None => run_on_a_thread(asked),
        }
    }
}

/// Where no thread or runtime can be had the future is dropped, and the question answers.
fn run_on_a_thread(asked: impl Future<Output = ()> + Send + 'static) {
    let run = move || match runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(asked),
        Err(error) => tracing::warn!(%error, "no runtime for the token provider"),
    };
    let started = thread::Builder::new()
        .name("keyway-token".to_owned())
        .spawn(run);
    if let Err(error) = started {
        tracing::warn!(%error, "no thread for the token provider");
    }
}

async fn answer<T: TokenTaker>(provider: TokenProvider, question: Question<T>) {
    // The provider is called in here, so that a panic of the call is not one of the poll thread.
    let token = tokio::time::timeout(PROVIDER_TIME, async { provider().await }).await;
    match token {
        Ok(Ok(token)) => question.answer(&token),
        Ok(Err(reason)) => question.refuse(&reason),
        Err(_) => question.refuse(&format!(
            "the token provider took longer than {PROVIDER_TIME:?}"
        )),
    }
}

/// A request for a token. It is answered exactly once, by its drop if by nobody else.
struct Question<T: TokenTaker> {
    taker: T,
    answered: bool,
}

impl<T: TokenTaker> Question<T> {
    fn answer(mut self, token: &OauthToken) {
        self.answered = true;
        match self.taker.take(token) {
            Ok(()) => tracing::debug!(?token, "a new token"),
            Err(ClientError::Closed) => tracing::debug!("a token came after the end"),
            Err(error) => self.fail(&format!("the token was not taken: {error}")),
        }
    }

    fn refuse(mut self, reason: &str) {
        self.answered = true;
        self.fail(reason);
    }

    fn fail(&self, reason: &str) {
        // librdkafka would not take an empty reason, and never ask again.
        let reason = if reason.is_empty() {
            "the token provider gives no reason"
        } else {
            reason
        };
        match self.taker.take_failure(reason) {
            Ok(()) => tracing::warn!(reason, "no token; asked for again in 10 s"),
            Err(ClientError::Closed) => tracing::debug!(reason, "no token, after the end"),
            Err(error) => tracing::error!(reason, %error, "no token, and the client was not told"),
        }
    }
}

impl<T: TokenTaker> Drop for Question<T> {
    fn drop(&mut self) {
        if !self.answered {
            self.fail(if thread::panicking() {
                "the token provider panicked"
            } else {
                "the token provider was broken off: no runtime or thread to run it on"
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use crossbeam_channel::{Receiver, Sender, unbounded};

    use super::*;
    use crate::kafka::ErrorCode;

    /// Generous: an answer that takes so long will not come.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// A taker that refuses the token `bad` and passes on what it gets.
    #[derive(Clone)]
    struct Taken(Sender<Result<String, String>>);

    impl TokenTaker for Taken {
        fn take(&self, token: &OauthToken) -> Result<(), ClientError> {
            if token.value == "bad" {
                return Err(ClientError::Transient {
                    code: ErrorCode {
                        number: -186,
                        name: "_INVALID_ARG".to_owned(),
                    },
                    text: "a bad token".to_owned(),
                });
            }
            self.0
                .send(Ok(token.value.clone()))
                .expect("the test lives");
            Ok(())
        }

        fn take_failure(&self, reason: &str) -> Result<(), ClientError> {
            self.0.send(Err(reason.to_owned())).expect("the test lives");
            Ok(())
        }
    }

    fn token(value: &str) -> OauthToken {
        OauthToken {
            value: value.to_owned(),
            principal: "orders".to_owned(),
            lifetime_ms: i64::MAX,
            extensions: Vec::new(),
        }
    }

    type Answers = Receiver<Result<String, String>>;

    fn tokens(provider: TokenProvider, runtime: Option<Handle>) -> (Tokens<Taken>, Answers) {
        let (sender, answers) = unbounded();
        let tokens = Tokens {
            provider,
            runtime,
            taker: Taken(sender),
        };
        (tokens, answers)
    }

    /// Asks on a thread of its own for the one answer there is.
    fn asked<F>(provider: impl Fn() -> F + Send + Sync + 'static) -> Result<String, String>
    where
        F: Future<Output = Result<OauthToken, String>> + Send + 'static,
    {
        let (tokens, answers) = tokens(token_provider(provider), None);
        tokens.ask();
        let answer = answers.recv_timeout(PATIENCE).expect("an answer");
        drop(tokens);
        assert!(answers.recv_timeout(PATIENCE).is_err(), "one answer only");
        answer
    }

    #[test]
    fn a_token_is_handed_on() {
        assert_eq!(asked(|| async { Ok(token("good")) }), Ok("good".to_owned()));
    }

    /// Without words for a reason that has none it fails with an empty one.
    #[test]
    fn an_error_is_handed_on_as_the_reason() {
        let refusal = |text: &'static str| asked(move || async move { Err(text.to_owned()) });
        assert_eq!(refusal("no network"), Err("no network".to_owned()));
        assert_ne!(refusal(""), Err(String::new()), "librdkafka wants a reason");
    }

    /// Without the failure that follows there is no answer.
    #[test]
    fn a_token_that_is_not_taken_is_a_failure() {
        let reason = asked(|| async { Ok(token("bad")) }).expect_err("refused");
        assert!(reason.contains("a bad token"), "{reason}");
    }

    /// Without the answer of a `Question` that is dropped there is none.
    #[test]
    fn a_panic_is_a_failure() {
        async fn panics() -> Result<OauthToken, String> {
            panic!("as the test wants")
        }
        let in_the_call =
            || -> BoxFuture<Result<OauthToken, String>> { panic!("as the test wants") };
        for reason in [asked(panics), asked(in_the_call)] {
            assert_eq!(reason, Err("the token provider panicked".to_owned()));
        }
    }

    #[test]
    fn asking_does_not_wait() {
        let (release, released) = tokio::sync::watch::channel(false);
        let provider = token_provider(move || {
            let mut released = released.clone();
            async move {
                let wait = released.wait_for(|released| *released).await;
                wait.map(|_| token("late"))
                    .map_err(|error| error.to_string())
            }
        });
        let (tokens, answers) = tokens(provider, None);
        tokens.ask();
        assert!(answers.is_empty());
        release.send(true).expect("the provider waits");
        assert_eq!(answers.recv_timeout(PATIENCE), Ok(Ok("late".to_owned())));
    }

    /// Without `PROVIDER_TIME` there is no answer.
    #[test]
    fn a_provider_that_takes_too_long_is_given_up() {
        let runtime = runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        let provider = token_provider(pending::<Result<OauthToken, String>>);
        let (tokens, answers) = tokens(provider, Some(runtime.handle().clone()));
        tokens.ask();
        let moment = Duration::from_secs(1);
        runtime.block_on(async {
            tokio::time::sleep(PROVIDER_TIME - moment).await;
            assert!(answers.is_empty(), "there is time left");
            tokio::time::sleep(2 * moment).await;
        });
        let reason = answers.try_recv().expect("given up").expect_err("no token");
        assert!(reason.contains("longer than 30s"), "{reason}");
    }

    /// Without the answer of a `Question` that is dropped there is none from a runtime that is gone.
    #[test]
    fn the_callers_runtime_runs_the_provider() {
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("callers")
            .enable_time()
            .build()
            .expect("a runtime");
        let provider = token_provider(|| async {
            let thread = thread::current();
            Ok::<_, String>(token(thread.name().unwrap_or_default()))
        });
        let (tokens, answers) = tokens(provider, Some(runtime.handle().clone()));
        tokens.ask();
        assert_eq!(answers.recv_timeout(PATIENCE), Ok(Ok("callers".to_owned())));
        // A runtime that is gone is a failure, which is asked for again.
        drop(runtime);
        tokens.ask();
        let reason = answers.recv_timeout(PATIENCE).expect("an answer");
        assert!(reason.expect_err("no token").contains("broken off"));
    }

    mod engine {
        use super::*;
        use crate::kafka::MockBroker;
        use crate::{ClientConfig, Keyway, Outcome, StartError};

        /// An engine whose broker asks for OAUTHBEARER.
        fn start(asked: Sender<()>) -> Result<crate::Engine, StartError> {
            let broker = MockBroker::start(1).expect("a mock broker");
            let mut config = ClientConfig::new();
            config
                .set("bootstrap.servers", broker.bootstrap())
                .set("security.protocol", "SASL_PLAINTEXT")
                .set("sasl.mechanism", "OAUTHBEARER");
            Keyway::builder(config)
                .group("g")
                .topics(["orders"])
                .handler(|_| Outcome::Done)
                .oauth_token(move || {
                    // Nobody hears a second request.
                    let _ = asked.send(());
                    async { Ok::<_, String>(token("good")) }
                })
                .build()
                .expect("a good configuration")
                .start()
        }

        #[cfg(not(any(feature = "ssl", feature = "ssl-vendored", feature = "dynamic-linking")))]
        #[test]
        fn without_the_feature_the_start_says_what_is_missing() {
            let error = start(unbounded().0).expect_err("built without SSL");
            let text = error.to_string();
            assert!(
                text.contains("OAUTHBEARER") && text.contains("recompile librdkafka"),
                "{text}"
            );
        }

        #[cfg(any(feature = "ssl", feature = "ssl-vendored"))]
        #[test]
        fn the_client_asks_the_provider() {
            let (sender, asked) = unbounded();
            let engine = start(sender).expect("built with SSL");
            asked.recv_timeout(PATIENCE).expect("asked");
            engine.abandon();
        }
    }
}
