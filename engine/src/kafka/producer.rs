//! A producer of the engine's own, for what it writes beside the records' partitions.
//!
//! Idempotent, so that a repeat inside librdkafka writes nothing twice. Each message has its own report; a producer
//! that has met a fatal error says so and is to be replaced.

use std::fmt;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::config::{producer_config, transactional_config};
use super::errors::ClientError;
use super::native::{Failure, NativeProducer, Outgoing, Said};
use super::token::OauthToken;
use rdkafka::ClientConfig;

/// The native producer and whoever uses it.
pub(crate) struct Producer {
    pub(super) native: Arc<NativeProducer>,
}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").finish_non_exhaustive()
    }
}

/// What a poll of the producer brought.
#[derive(Debug)]
pub(crate) enum ProducerEvent {
    /// What became of a message with this number.
    Delivered {
        number: u64,
        result: Result<(), NotWritten>,
    },
    /// A token is asked for.
    TokenRefresh,
}

/// Why a message was not written.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{topic}: {error}")]
pub(crate) struct NotWritten {
    pub(crate) error: ClientError,
    /// Where it was to go; empty where librdkafka does not say.
    pub(crate) topic: String,
}

/// Most that is taken before it is looked at.
const AT_ONCE: usize = 10_000;

/// How long a token is waited for at most that is being set.
const HELD_FOR: Duration = Duration::from_secs(1);

/// How often the end looks whether a token is still being set.
const LOOK: Duration = Duration::from_millis(1);

impl Producer {
    /// Makes a producer of the member's own configuration. Nothing is waited for.
    ///
    /// # Errors
    /// When librdkafka refuses it.
    pub(crate) fn open(member: &ClientConfig, token_refresh: bool) -> Result<Self, ClientError> {
        Self::with(&producer_config(member), token_refresh)
    }

    /// The same, whose messages go in transactions under this id.
    ///
    /// # Errors
    /// When librdkafka refuses it.
    pub(crate) fn transactional(
        member: &ClientConfig,
        id: &str,
        token_refresh: bool,
    ) -> Result<Self, ClientError> {
        Self::with(&transactional_config(member, id), token_refresh)
    }

    fn with(config: &ClientConfig, token_refresh: bool) -> Result<Self, ClientError> {
        let native = NativeProducer::open(config, token_refresh);
        Ok(Self {
            native: Arc::new(native.map_err(ClientError::of)?),
        })
    }

    /// Gives a message to librdkafka; its report comes under `number`.
    ///
    /// # Errors
    /// When it is not taken; then no report comes.
    pub(crate) fn produce(&self, message: &Outgoing<'_>, number: u64) -> Result<(), NotWritten> {
        self.native
            .produce(message, number)
            .map_err(|failure| self.reason(failure, message.topic.to_owned()))
    }

    /// Waits at most `timeout` for something to happen, and takes all that has.
    pub(crate) fn poll(&self, timeout: Duration) -> Vec<ProducerEvent> {
        let mut timeout = timeout;
        // Errors come without anybody asking: what is not taken would pile up.
        let mut said = Vec::new();
        while self.native.next(timeout, &mut said) && said.len() < AT_ONCE {
            timeout = Duration::ZERO;
        }
        said.into_iter()
            .filter_map(|said| match said {
                Said::Delivered { number, result } => Some(ProducerEvent::Delivered {
                    number,
                    result: result.map_err(|failed| {
                        self.reason(failed.failure, failed.topic.unwrap_or_default())
                    }),
                }),
                Said::Error(failure) => {
                    // What it means for a message that message's own report says.
                    tracing::debug!(code = failure.code, text = failure.text, "the producer");
                    None
                }
                Said::TokenRefresh => Some(ProducerEvent::TokenRefresh),
            })
            .collect()
    }

    /// After a fatal error whatever is not sent fails for that, whatever its own report says.
    fn reason(&self, failure: Failure, topic: String) -> NotWritten {
        let error = self
            .fatal()
            .unwrap_or_else(|| ClientError::about(failure, Some(&topic)));
        NotWritten { error, topic }
    }

    /// Asks the cluster for a topic that was missing. What comes of it the next message shows.
    pub(crate) fn look_for(&self, topic: &str, timeout: Duration) {
        if let Err(failure) = self.native.look_for(topic, timeout) {
            tracing::debug!(topic, text = failure.text, "the topic was not found");
        }
    }

    /// The error after which nothing is sent any more.
    pub(crate) fn fatal(&self) -> Option<ClientError> {
        self.native.fatal().map(ClientError::of)
    }

    /// Who takes tokens for it.
    pub(crate) fn token_taker(&self) -> ProducerTokens {
        ProducerTokens(Arc::downgrade(&self.native))
    }

    /// Destroys it, with what was not sent. Blocks as long as librdkafka does. A producer that is inside a call which does
    /// not return stays with that call.
    pub(crate) fn close(self) {
        let mut native = self.native;
        let until = Instant::now() + HELD_FOR;
        // A token that is being set holds it for moments, and must not be the one to destroy it.
        while let Err(held) = Arc::try_unwrap(native) {
            native = held;
            if Instant::now() >= until {
                tracing::error!(
                    "librdkafka does not return from a call: a producer is given up, and is not freed"
                );
                return;
            }
            thread::sleep(LOOK);
        }
    }
}

/// Gives tokens to a producer as long as it is there.
#[derive(Clone)]
pub(crate) struct ProducerTokens(Weak<NativeProducer>);

impl ProducerTokens {
    pub(crate) fn set(&self, token: &OauthToken) -> Result<(), ClientError> {
        let native = self.0.upgrade().ok_or(ClientError::Closed)?;
        native
            .set_token(
                &token.value,
                &token.principal,
                token.lifetime_ms,
                &token.extensions,
            )
            .map_err(ClientError::of)
    }

    pub(crate) fn set_failure(&self, reason: &str) -> Result<(), ClientError> {
        let native = self.0.upgrade().ok_or(ClientError::Closed)?;
        native
            .set_token_failure(&reason.replace('\0', " "))
            .map_err(ClientError::of)
    }
}
