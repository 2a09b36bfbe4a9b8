//! Reading a file to which record blocks were appended, one after the other.
//!
//! ```text
//!     block | block | block | blo        the last one torn off, where its writer died
//! ```

use std::io::{self, Read};

use crate::error::ReadError;
use crate::record::{Length, Record, block_length, check_beginning, decode_record};

/// Most bytes of a block that a reader takes unless told otherwise. A batch of Kafka counts its bytes in an i32, so
/// that no record of it comes near; what claims more is damaged.
pub const MAX_BLOCK_BYTES: u64 = 1 << 31;

/// Reads blocks until their file ends.
///
/// Its memory is that of the longest block that is really there, whatever lengths are announced. It reads in small
/// pieces: give it a [`BufReader`](io::BufReader).
///
/// A block whose length was damaged so that it points past the end of the file can't be told from a torn one, as long
/// as it is under the limit; every other damage is [`ReadError::Corrupt`].
#[derive(Debug)]
pub struct RecordReader<R> {
    input: R,
    block: Vec<u8>,
    /// Where the next block begins.
    offset: u64,
    max_block_bytes: u64,
    has_ended: bool,
}

impl<R: Read> RecordReader<R> {
    /// A reader of what `input` gives.
    pub const fn new(input: R) -> Self {
        Self {
            input,
            block: Vec::new(),
            offset: 0,
            max_block_bytes: MAX_BLOCK_BYTES,
            has_ended: false,
        }
    }

    /// Takes blocks of so many bytes, instead of [`MAX_BLOCK_BYTES`].
    #[must_use]
    pub const fn with_max_block_bytes(mut self, bytes: u64) -> Self {
        self.max_block_bytes = bytes;
        self
    }

    /// Bytes of the blocks that were read: where a file with a torn end has to be cut.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// The next record; `None` at the end, and after an error.
    ///
    /// # Errors
    /// When the input fails or ends within a block, or the block is damaged.
    pub fn read(&mut self) -> Result<Option<Record<'_>>, ReadError> {
        if self.has_ended {
            return Ok(None);
        }
        // Until there is a whole block.
        self.has_ended = true;
        if !self.read_block()? {
            return Ok(None);
        }
        let offset = self.offset;
        let record =
            decode_record(&self.block).map_err(|fault| ReadError::Corrupt { offset, fault })?;
        self.offset += self.block.len() as u64;
        self.has_ended = false;
        Ok(Some(record))
    }

    /// Reads as many bytes as the block says that it has; `false` at the end of the file.
    fn read_block(&mut self) -> Result<bool, ReadError> {
        let (offset, limit) = (self.offset, self.max_block_bytes);
        self.block.clear();
        loop {
            let length =
                block_length(&self.block).map_err(|fault| ReadError::Corrupt { offset, fault })?;
            let (Length::AtLeast(needed) | Length::Exactly(needed)) = length;
            if needed > limit {
                return Err(ReadError::TooLong {
                    offset,
                    bytes: needed,
                    limit,
                });
            }
            let is_whole = self
                .fill(needed)
                .map_err(|source| ReadError::Io { offset, source })?;
            let present = self.block.len() as u64;
            if present == 0 {
                return Ok(false);
            }
            if !is_whole {
                // What no block begins with was not torn off one.
                check_beginning(&self.block)
                    .map_err(|fault| ReadError::Corrupt { offset, fault })?;
                return Err(ReadError::Torn {
                    offset,
                    present,
                    needed,
                });
            }
            if matches!(length, Length::Exactly(_)) {
                return Ok(true);
            }
        }
    }

    /// Reads on until there are `bytes` bytes of the block; `false` when the input ends before.
    fn fill(&mut self, bytes: u64) -> io::Result<bool> {
        let missing = bytes - self.block.len() as u64;
        // Makes room as bytes come, not by what is announced.
        let read = self
            .input
            .by_ref()
            .take(missing)
            .read_to_end(&mut self.block)?;
        Ok(read as u64 == missing)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// With room made for what is announced it is two gigabytes.
    #[test]
    fn memory_grows_with_what_is_there() {
        let mut file = [0; 100];
        file[5] = 0x01;
        file[14..18].copy_from_slice(&(i32::MAX as u32).to_be_bytes());
        let mut blocks = RecordReader::new(&file[..]).with_max_block_bytes(u64::MAX);
        let error = blocks.read().unwrap_err();
        assert!(
            matches!(error, ReadError::Torn { present: 100, .. }),
            "{error}"
        );
        assert!(
            blocks.block.capacity() < 10 * file.len(),
            "{}",
            blocks.block.capacity()
        );
    }
}
