//! The producer of one thread, made when it is first needed, and another one once it can't go on.

use std::time::Duration;

use rdkafka::ClientConfig;
use tokio::runtime::Handle;

use crate::kafka::{ClientError, Producer, ProducerEvent, ProducerTokens};
use crate::poll::{TokenProvider, Tokens};

/// The producer, and what another one in its place is made of.
pub(crate) struct Producers {
    kind: ProducerKind,
    config: ClientConfig,
    provider: Option<TokenProvider>,
    runtime: Option<Handle>,
    /// None before there was something to write.
    current: Option<(Producer, Option<Tokens<ProducerTokens>>)>,
}

/// What its producers are for.
#[derive(Clone, Debug)]
pub(crate) enum ProducerKind {
    Plain,
    /// Messages go in transactions.
    Transactional {
        id: String,
    },
}

impl Producers {
    pub(crate) fn new(
        kind: ProducerKind,
        config: ClientConfig,
        provider: Option<TokenProvider>,
        runtime: Option<Handle>,
    ) -> Self {
        Self {
            kind,
            config,
            provider,
            runtime,
            current: None,
        }
    }

    pub(crate) fn current(&mut self) -> Result<&Producer, ClientError> {
        if self.current.is_none() {
            let token_refresh = self.provider.is_some();
            let producer = match &self.kind {
                ProducerKind::Plain => Producer::open(&self.config, token_refresh),
                ProducerKind::Transactional { id } => {
                    Producer::transactional(&self.config, id, token_refresh)
                }
            }?;
            let tokens = self.provider.clone().map(|provider| Tokens {
                provider,
                runtime: self.runtime.clone(),
                taker: producer.token_taker(),
            });
            self.current = Some((producer, tokens));
        }
        match &self.current {
            Some((producer, _)) => Ok(producer),
            None => Err(ClientError::Closed),
        }
    }

    /// What there is to be taken within `timeout`: nothing, and at once, before there was something to write.
    pub(crate) fn poll(&self, timeout: Duration) -> Vec<ProducerEvent> {
        match &self.current {
            Some((producer, _)) => producer.poll(timeout),
            None => Vec::new(),
        }
    }

    pub(crate) fn ask_for_token(&self) {
        if let Some((_, Some(tokens))) = &self.current {
            tokens.ask();
        }
    }

    /// Whether the producer has met a fatal error.
    pub(crate) fn has_fatal(&self) -> bool {
        let current = self.current.as_ref();
        current.is_some_and(|(producer, _)| producer.fatal().is_some())
    }

    /// Gives up a producer that has met a fatal error, and says which. Not before there is something to write, so that a
    /// cluster which refuses producers is not asked for ever.
    pub(crate) fn drop_fatal(&mut self) -> Option<ClientError> {
        let reason = self.current.as_ref()?.0.fatal()?;
        tracing::warn!(%reason, "the producer can't go on: another one takes over");
        self.let_go();
        Some(reason)
    }

    /// Gives up the producer, with what it has not sent.
    pub(crate) fn drop_current(&mut self) {
        if let Some((producer, _)) = self.current.take() {
            producer.close();
        }
    }

    /// The same without a wait for its end, which may take its time.
    pub(crate) fn let_go(&mut self) {
        if let Some((producer, _)) = self.current.take() {
            let closer = std::thread::Builder::new().name("keyway-closer".to_owned());
            if let Err(error) = closer.spawn(|| producer.close()) {
                tracing::error!(%error, "no thread to close a producer on: it was closed in place");
            }
        }
    }
}
