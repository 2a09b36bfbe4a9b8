//! One memory budget, and how it is shared out.
//!
//! ```text
//!   a quarter   librdkafka's prefetch: one queue for all partitions, overshot by one fetch
//!   a half      buffered records, as the core counts them
//!   a quarter   fetched batches that running records pin, and the engine's own tables
//! ```
//!
//! None of the shares follows the number of partitions, so that one partition and a thousand cost the same.

use keyway_core::BufferConfig;

use crate::kafka::Prefetch;

/// 256 MiB: enough for a prefetch that keeps the fetcher busy and for half a million small records.
pub(crate) const DEFAULT_MEMORY_BUDGET: usize = 256 << 20;

/// Below this the prefetch would be smaller than one fetch of one partition.
pub(crate) const MIN_MEMORY_BUDGET: usize = 16 << 20;

/// What a buffered record costs beside its key and value: librdkafka's message and the core's task.
pub(crate) const RECORD_OVERHEAD: usize = 256;

/// Most of one partition in one fetch. A larger record is fetched all the same.
const FETCH_BYTES: (usize, usize) = (64 << 10, 1 << 20);

/// librdkafka's own minimum of `queued.max.messages.kbytes` would be 1.
const KIB: usize = 1 << 10;

#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryBudget(pub(crate) usize);

impl MemoryBudget {
    pub(crate) fn prefetch(self) -> Prefetch {
        let bytes = self.0 / 4;
        Prefetch {
            max_kbytes: u32::try_from(bytes / KIB).unwrap_or(u32::MAX),
            // 64 partitions may answer at once before a fetch overshoots the prefetch by more than itself.
            fetch_message_max_bytes: u32::try_from(
                (bytes / 64).clamp(FETCH_BYTES.0, FETCH_BYTES.1),
            )
            .unwrap_or(u32::MAX),
            ..Prefetch::default()
        }
    }

    pub(crate) fn buffers(self) -> BufferConfig {
        let total_bytes = self.0 / 2;
        let total_records = total_bytes / RECORD_OVERHEAD;
        let defaults = BufferConfig::default();
        BufferConfig {
            partition_records: defaults.partition_records.min(total_records / 2),
            partition_bytes: total_bytes / 2,
            total_records,
            total_bytes,
        }
    }
}
