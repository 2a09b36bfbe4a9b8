//! One memory budget, and how it is shared out.
//!
//! ```text
//!   2 of 16   librdkafka's prefetch: one queue for all partitions. What a pause throws away comes from here
//!   4 of 16   by how much one fetch may overshoot it: a broker counts packed bytes, memory holds unpacked ones
//!   3 of 16   buffered records, as the core counts them
//!   1 of 16   outputs on their way to the broker
//!   6 of 16   what else of their batches records pin, what the allocator keeps, and the engine's own tables
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
pub(crate) const RECORD_OVERHEAD: usize = 512;

/// Most of one partition in one fetch. A larger record is fetched all the same.
const FETCH_BYTES: (usize, usize) = (64 << 10, 1 << 20);

/// What records may grow by when they are unpacked before one fetch outgrows its share: text such as JSON and logs takes
/// a seventh or so.
const UNPACKED: usize = 16;

/// Most of one fetch, all partitions together, packed; librdkafka raises it to `message.max.bytes`, and has the upper
/// bound as its own default.
const FETCH_TOTAL_BYTES: (usize, usize) = (1 << 20, 50 << 20);

/// librdkafka's own minimum of `queued.max.messages.kbytes` would be 1.
const KIB: usize = 1 << 10;

#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryBudget(pub(crate) usize);

impl MemoryBudget {
    pub(crate) fn prefetch(self) -> Prefetch {
        let overshoot = self.0 / 4;
        Prefetch {
            max_kbytes: u32::try_from(self.0 / 8 / KIB).unwrap_or(u32::MAX),
            // 64 partitions may answer at once.
            fetch_message_max_bytes: u32::try_from(
                (overshoot / 64).clamp(FETCH_BYTES.0, FETCH_BYTES.1),
            )
            .unwrap_or(u32::MAX),
            fetch_max_bytes: u32::try_from(
                (overshoot / UNPACKED).clamp(FETCH_TOTAL_BYTES.0, FETCH_TOTAL_BYTES.1),
            )
            .unwrap_or(u32::MAX),
            ..Prefetch::default()
        }
    }

    pub(crate) fn buffers(self) -> BufferConfig {
        let total_bytes = self.0 / 16 * 3;
        let total_records = total_bytes / RECORD_OVERHEAD;
        let defaults = BufferConfig::default();
        BufferConfig {
            partition_records: defaults.partition_records.min(total_records / 2),
            partition_bytes: total_bytes / 2,
            total_records,
            total_bytes,
            output_bytes: self.0 / 16,
        }
    }
}
