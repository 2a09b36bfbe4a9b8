//! The gate of this engine's core: open, or causal.

use std::collections::HashMap;

use keyway_causal::{
    CarriesCauses, CausalConfig, CausalGate, CausesError, CausesView, find_causes,
};
use keyway_core::{Admission, Gate, PartitionSlot, Restored};
use keyway_offsets::Offset;

use crate::kafka::TopicPartition;
use crate::record::Message;

/// One of the two, chosen when the engine is built: without causal delivery a record costs one branch.
#[derive(Debug, Default)]
pub(crate) enum EngineGate {
    #[default]
    Open,
    Causal(Box<CausalGate>, Option<Notes>),
}

/// What is held and let through, for an observer.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    keys: HashMap<(PartitionSlot, Offset), Option<Vec<u8>>>,
    news: Vec<Note>,
}

/// A record was held, or let through after that.
#[derive(Debug)]
pub(crate) struct Note {
    pub(crate) slot: PartitionSlot,
    pub(crate) offset: Offset,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) is_released: bool,
}

impl Notes {
    fn held(&mut self, slot: PartitionSlot, offset: Offset, key: Option<&[u8]>) {
        let key = key.map(<[u8]>::to_vec);
        self.keys.insert((slot, offset), key.clone());
        self.news.push(Note {
            slot,
            offset,
            key,
            is_released: false,
        });
    }

    fn released(&mut self, slot: PartitionSlot, offset: Offset) {
        if let Some(key) = self.keys.remove(&(slot, offset)) {
            self.news.push(Note {
                slot,
                offset,
                key,
                is_released: true,
            });
        }
    }
}

impl EngineGate {
    /// A causal gate; `observed`, for somebody who is told what it holds.
    pub(crate) fn causal(config: CausalConfig, observed: bool) -> Self {
        let notes = observed.then(Notes::default);
        Self::Causal(Box::new(CausalGate::new(config)), notes)
    }

    pub(crate) fn as_causal(&self) -> Option<&CausalGate> {
        match self {
            Self::Open => None,
            Self::Causal(gate, _) => Some(gate),
        }
    }

    pub(crate) fn as_causal_mut(&mut self) -> Option<&mut CausalGate> {
        match self {
            Self::Open => None,
            Self::Causal(gate, _) => Some(gate),
        }
    }

    /// Where a partition starts: one that has joined what a causal group consumes, behind the records whose effects are out.
    pub(crate) fn behind_effects(
        &self,
        slot: PartitionSlot,
        partition: &TopicPartition,
        restored: &Restored,
    ) -> Restored {
        let mut restored = restored.clone();
        let behind = self.as_causal().and_then(|gate| gate.joins_behind(slot));
        let is_skipped = |behind: &Offset| restored.committed.is_none() && *behind > restored.start;
        if let Some(behind) = behind.filter(is_skipped) {
            tracing::warn!(
                %partition,
                from = %restored.start,
                to = %behind,
                "records are skipped that nobody has processed: their effects were processed before the group consumed \
                 this topic"
            );
            restored.start = behind;
        }
        restored
    }

    /// What an observer is to be told.
    pub(crate) fn take_notes(&mut self) -> Vec<Note> {
        match self {
            Self::Causal(_, Some(notes)) => std::mem::take(&mut notes.news),
            _ => Vec::new(),
        }
    }
}

impl CarriesCauses for Message {
    fn causes(&self) -> Result<Option<CausesView<'_>>, CausesError> {
        let Some(headers) = self.raw_headers() else {
            return Err(CausesError::HeadersUnreadable);
        };
        find_causes(headers)
    }

    fn causes_were_read(&mut self) {
        self.forget_headers();
    }
}

impl Gate<Message> for EngineGate {
    #[inline]
    fn admit(&mut self, slot: PartitionSlot, offset: Offset, payload: &mut Message) -> Admission {
        match self {
            Self::Open => Admission::Ready,
            Self::Causal(gate, notes) => {
                let admission = gate.admit(slot, offset, payload);
                if let (Admission::Held, Some(notes)) = (admission, notes) {
                    notes.held(slot, offset, payload.key());
                }
                admission
            }
        }
    }

    #[inline]
    fn learn(&mut self, slot: PartitionSlot, offset: Offset, payload: &Message) {
        if let Self::Causal(gate, _) = self {
            gate.learn(slot, offset, payload);
        }
    }

    #[inline]
    fn begun(&mut self, slot: PartitionSlot, base: Offset, restored: &Restored) {
        if let Self::Causal(gate, _) = self {
            Gate::<Message>::begun(&mut **gate, slot, base, restored);
        }
    }

    #[inline]
    fn ended(&mut self, slot: PartitionSlot) {
        if let Self::Causal(gate, _) = self {
            Gate::<Message>::ended(&mut **gate, slot);
        }
        if let Self::Causal(_, Some(notes)) = self {
            notes.keys.retain(|(held, _), _| *held != slot);
        }
    }

    #[inline]
    fn started(&mut self, slot: PartitionSlot, offset: Offset) {
        if let Self::Causal(gate, _) = self {
            Gate::<Message>::started(&mut **gate, slot, offset);
        }
    }

    #[inline]
    fn completed(&mut self, slot: PartitionSlot, offset: Offset) {
        if let Self::Causal(gate, _) = self {
            Gate::<Message>::completed(&mut **gate, slot, offset);
        }
    }

    #[inline]
    fn settled(&mut self, slot: PartitionSlot, base: Offset) {
        if let Self::Causal(gate, _) = self {
            Gate::<Message>::settled(&mut **gate, slot, base);
        }
    }

    #[inline]
    fn committed(&mut self, slot: PartitionSlot, base: Offset) {
        if let Self::Causal(gate, _) = self {
            Gate::<Message>::committed(&mut **gate, slot, base);
        }
    }

    #[inline]
    fn next_freed(&mut self) -> Option<(PartitionSlot, Offset)> {
        match self {
            Self::Open => None,
            Self::Causal(gate, notes) => {
                let freed = Gate::<Message>::next_freed(&mut **gate)?;
                if let Some(notes) = notes {
                    notes.released(freed.0, freed.1);
                }
                Some(freed)
            }
        }
    }

    #[inline]
    fn keeps_cut(&self) -> bool {
        matches!(self, Self::Causal(..))
    }

    #[inline]
    fn rider(&mut self, slot: PartitionSlot) -> Option<Vec<u8>> {
        match self {
            Self::Open => None,
            Self::Causal(gate, _) => Gate::<Message>::rider(&mut **gate, slot),
        }
    }

    #[inline]
    fn riders_fit(&mut self, room: usize) -> bool {
        match self {
            Self::Open => true,
            Self::Causal(gate, _) => Gate::<Message>::riders_fit(&mut **gate, room),
        }
    }

    #[inline]
    fn rider_chars(&self, slot: PartitionSlot) -> usize {
        match self {
            Self::Open => 0,
            Self::Causal(gate, _) => Gate::<Message>::rider_chars(&**gate, slot),
        }
    }

    #[inline]
    fn owes_rider(&self, slot: PartitionSlot) -> bool {
        match self {
            Self::Open => false,
            Self::Causal(gate, _) => Gate::<Message>::owes_rider(&**gate, slot),
        }
    }

    #[inline]
    fn take_news(&mut self) -> bool {
        match self {
            Self::Open => false,
            Self::Causal(gate, _) => Gate::<Message>::take_news(&mut **gate),
        }
    }

    #[inline]
    fn rider_answered(&mut self, slot: PartitionSlot, is_stored: bool) {
        if let Self::Causal(gate, _) = self {
            Gate::<Message>::rider_answered(&mut **gate, slot, is_stored);
        }
    }
}
