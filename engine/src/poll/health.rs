//! What the poll thread does for its health: it tries what was denied, looks which life topics have, and says why it is not
//! ready.

use std::time::Duration;

use keyway_core::Timestamp;

use super::look::{Identified, Look};
use super::{PollLoop, log_refusal};
use crate::health::{Health, NotReady};
use crate::kafka::TopicPartition;
use crate::status::RouteStatus;

impl PollLoop {
    /// Tries what was denied, where nothing would show by itself that it works again.
    pub(super) fn try_again(&mut self, now: Timestamp) {
        let slots = &self.slots;
        let Some(probe) = self
            .state
            .denials
            .probe(|partition| slots.is_assigned(partition), now)
        else {
            return;
        };
        if probe.look && !self.state.looking {
            self.state.looking = true;
            // Whoever looks ends only after this thread.
            let _ = self.looks.send(Look::Topics);
        }
        if !probe.refetch.is_empty() {
            log_refusal(self.source.refetch(&probe.refetch));
        }
        if probe.commit {
            self.core.commit_again(now);
        }
    }

    /// Asks which life the topics have, when it is time.
    pub(super) fn identify(&mut self, now: Timestamp) {
        if let Some(topics) = self.state.identities.question(&self.named_topics, now) {
            let look = Look::Identities {
                topics,
                asked_at: now,
            };
            let _ = self.looks.send(look);
        }
    }

    pub(super) fn take_identities(&mut self, answer: &Identified, now: Timestamp) {
        for (topic, id) in answer.ids.iter().flatten() {
            match id {
                Ok(_) => self.state.denials.seen(topic),
                Err(error) => {
                    self.state.denials.note(error, None, now);
                }
            }
        }
        self.heed_missing(answer, now);
        let anew = self.state.identities.answered(answer, now);
        self.restore_anew(&anew, true, now);
    }

    pub(super) fn make_health(&self, core: &keyway_core::Status, now: Timestamp) -> Health {
        let rebalancing = &self.state.rebalancing;
        let mut not_ready = Vec::new();
        if !rebalancing.is_settled() {
            not_ready.push(NotReady::Unassigned);
        }
        if let Some(lasting) = rebalancing.restoring_for(now) {
            not_ready.push(NotReady::Restoring {
                partitions: rebalancing.restoring(),
                lasting,
                error: rebalancing
                    .restore_failure()
                    .or(self.state.causal.failure.as_ref())
                    .cloned(),
            });
        }
        let is_own = |partition: &TopicPartition| self.slots.is_assigned(partition);
        not_ready.extend(self.state.denials.reasons(is_own, now));
        let of_letters = self.letter_error(core).map(|(error, since)| (error, since));
        let of_outputs = self.send_errors(now).map(|why| (&why.error, &why.since));
        let errors = of_outputs.chain(of_letters);
        for (error, since) in errors.filter(|(error, _)| error.is_denied()) {
            not_ready.push(NotReady::Denied {
                error: error.clone(),
                lasting: now.since(*since),
            });
        }
        let denied: Vec<_> = core
            .partitions
            .iter()
            .filter(|part| part.commit_denied)
            .map(|part| self.slots.partition(part.slot).clone())
            .collect();
        if !denied.is_empty() {
            not_ready.push(NotReady::CommitDenied { partitions: denied });
        }
        let routes = core
            .routes
            .iter()
            .map(|route| self.route_status(route, now));
        let is_held = |route: &RouteStatus| route.circuit.is_some_and(|circuit| circuit.holds());
        let held: Vec<_> = routes.filter(is_held).map(|route| route.topic).collect();
        if !held.is_empty() {
            not_ready.push(NotReady::CircuitOpen { routes: held });
        }
        if self.state.shutdown.is_some() {
            not_ready.push(NotReady::Stopping);
        }
        Health {
            alive: true,
            last_turn: Duration::ZERO,
            not_ready,
            stuck: self.stuck(now),
            unreplaced: self.state.calls.unreplaced,
        }
    }
}
