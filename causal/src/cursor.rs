//! A place in bytes that may be anything: what is taken is there, or the fault says what is wrong where.

use crate::error::Part;
use crate::varint;

/// What is left of a header's value or of a shard.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    pub(crate) rest: &'a [u8],
    /// Bytes of the whole.
    len: usize,
}

/// What a cursor did not find.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) kind: varint::Fault,
    /// Where the part begins.
    pub(crate) offset: usize,
    pub(crate) part: Part,
}

impl<'a> Cursor<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            len: bytes.len(),
        }
    }

    /// Where `rest` begins.
    pub(crate) const fn at(&self) -> usize {
        self.len - self.rest.len()
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self, part: Part) -> Result<[u8; N], Fault> {
        let Some((&taken, rest)) = self.rest.split_first_chunk() else {
            return Err(self.truncated(part));
        };
        self.rest = rest;
        Ok(taken)
    }

    /// The next bytes, as many as a number in the bytes says.
    pub(crate) fn take(&mut self, bytes: u64, part: Part) -> Result<&'a [u8], Fault> {
        let split = usize::try_from(bytes)
            .ok()
            .and_then(|bytes| self.rest.split_at_checked(bytes));
        let Some((taken, rest)) = split else {
            return Err(self.truncated(part));
        };
        self.rest = rest;
        Ok(taken)
    }

    /// The next number, of at most `BITS` bits.
    #[inline]
    pub(crate) fn varint<const BITS: u32>(&mut self, part: Part) -> Result<u64, Fault> {
        match varint::read::<BITS>(self.rest) {
            Ok((number, rest)) => {
                self.rest = rest;
                Ok(number)
            }
            Err(kind) => Err(Fault {
                kind,
                offset: self.at(),
                part,
            }),
        }
    }

    pub(crate) const fn truncated(&self, part: Part) -> Fault {
        Fault {
            kind: varint::Fault::Truncated,
            offset: self.at(),
            part,
        }
    }
}
