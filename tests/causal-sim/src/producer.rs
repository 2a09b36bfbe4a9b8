//! A producer outside the group: it reads whatever it likes, and what it writes depends on all of that.

use std::sync::Arc;

use keyway_causal::{Causes, Channel, Position};

use crate::bits::Bits;
use crate::record::{Header, Record};

/// One producer.
#[derive(Debug, Default)]
pub(crate) struct Producer {
    causes: Causes,
    pub(crate) past: Bits,
}

impl Producer {
    pub(crate) fn observe(&mut self, number: usize, record: &Record, channel: Channel) {
        if let Some(header) = &record.header {
            self.causes
                .merge_all(&Causes::decode(header).expect("a header of this run"));
        }
        let position = Position::new(record.offset).expect("an offset of a log");
        self.causes.merge(channel, position);
        self.past.add_all(&record.ancestors);
        self.past.insert(number);
    }

    pub(crate) fn header(&self, may_be_missing: bool) -> Header {
        match may_be_missing && self.causes.is_empty() {
            true => None,
            false => Some(Arc::from(self.causes.encode())),
        }
    }
}
