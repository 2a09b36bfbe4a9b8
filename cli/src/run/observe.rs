//! Who is told of what happens: the closing line's counters, and the event log and the file of records where they are kept.

use std::sync::Arc;

use keyway::{Observer, Record, TopicPartition};

use super::events::EventLog;
use super::handlers::Gauge;
use super::tape::Tape;

/// Passes everything on.
pub(super) struct Told {
    pub(super) gauge: Arc<Gauge>,
    pub(super) events: Option<EventLog>,
    pub(super) tape: Option<Arc<Tape>>,
}

impl Observer for Told {
    fn started(&self, record: &Record) {
        if let Some(tape) = &self.tape {
            tape.started(record);
        }
        if let Some(events) = &self.events {
            events.started(record);
        }
    }

    fn done(&self, record: &Record) {
        self.gauge.done(record);
        if let Some(events) = &self.events {
            events.done(record);
        }
    }

    fn dead(&self, record: &Record) {
        self.gauge.done(record);
        if let Some(events) = &self.events {
            events.dead(record);
        }
    }

    fn failed(&self, record: &Record, error: &str) {
        if let Some(events) = &self.events {
            events.failed(record, error);
        }
    }

    fn assigned(&self, partition: &TopicPartition) {
        if let Some(events) = &self.events {
            events.assigned(partition);
        }
    }

    fn revoked(&self, partition: &TopicPartition) {
        if let Some(events) = &self.events {
            events.revoked(partition);
        }
    }

    fn lost(&self, partition: &TopicPartition) {
        if let Some(events) = &self.events {
            events.lost(partition);
        }
    }

    fn held(&self, partition: &TopicPartition, offset: i64, key: Option<&[u8]>) {
        if let Some(events) = &self.events {
            events.held(partition, offset, key);
        }
    }

    fn released(&self, partition: &TopicPartition, offset: i64, key: Option<&[u8]>) {
        if let Some(events) = &self.events {
            events.released(partition, offset, key);
        }
    }

    fn committed(&self, partition: &TopicPartition, offset: i64, metadata: &str) {
        if let Some(events) = &self.events {
            events.committed(partition, offset, metadata);
        }
    }
}
