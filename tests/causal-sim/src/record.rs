//! Records: what is in the log, and what the oracle knows of them beside it.

use std::sync::Arc;

use keyway_causal::{CarriesCauses, CausesError, CausesView, HEADER, find_causes};

use crate::bits::Bits;

/// The value of the header of causes; `None` for a record without the header.
pub(crate) type Header = Option<Arc<[u8]>>;

/// What a handler gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Payload {
    /// Its number among all records of the run: the oracle's, which the core never looks at.
    pub(crate) record: usize,
    pub(crate) header: Header,
}

impl CarriesCauses for Payload {
    fn causes(&self) -> Result<Option<CausesView<'_>>, CausesError> {
        let name: &[u8] = HEADER.as_bytes();
        let headers = self.header.iter();
        find_causes(headers.map(|value| (name, Some(&value[..]))))
    }
}

/// A record as the oracle knows it.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// Index of its channel among all.
    pub(crate) chan: usize,
    pub(crate) offset: i64,
    pub(crate) lane: u64,
    pub(crate) header: Header,
    /// What really is before it, whatever its header says.
    pub(crate) ancestors: Bits,
    pub(crate) is_malformed: bool,
}
