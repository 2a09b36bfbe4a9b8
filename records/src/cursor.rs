//! A place in bytes that may be anything: what is taken is there, or the error says what is missing where.

use crate::error::{DecodeError, Part};

/// What is left of a block, or of a part of one.
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
    /// Where `rest` begins, counted from the start of the block.
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) const fn new(block: &'a [u8]) -> Self {
        Self { rest: block, at: 0 }
    }

    pub(crate) const fn at(&self) -> usize {
        self.at
    }

    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn take(&mut self, bytes: u32, part: Part) -> Result<&'a [u8], DecodeError> {
        let split = usize::try_from(bytes)
            .ok()
            .and_then(|bytes| self.rest.split_at_checked(bytes));
        let Some((taken, rest)) = split else {
            return Err(self.truncated(part, bytes.into()));
        };
        self.at += taken.len();
        self.rest = rest;
        Ok(taken)
    }

    /// The next `bytes` bytes, as a part that has to be used up by itself.
    pub(crate) fn part(&mut self, bytes: u32, part: Part) -> Result<Self, DecodeError> {
        let at = self.at;
        let rest = self.take(bytes, part)?;
        Ok(Self { rest, at })
    }

    pub(crate) fn u8(&mut self, part: Part) -> Result<u8, DecodeError> {
        self.array(part).map(u8::from_be_bytes)
    }

    pub(crate) fn u16(&mut self, part: Part) -> Result<u16, DecodeError> {
        self.array(part).map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self, part: Part) -> Result<u32, DecodeError> {
        self.array(part).map(u32::from_be_bytes)
    }

    pub(crate) fn i64(&mut self, part: Part) -> Result<i64, DecodeError> {
        self.array(part).map(i64::from_be_bytes)
    }

    fn array<const N: usize>(&mut self, part: Part) -> Result<[u8; N], DecodeError> {
        let Some((&taken, rest)) = self.rest.split_first_chunk() else {
            return Err(self.truncated(part, N as u64));
        };
        self.at += N;
        self.rest = rest;
        Ok(taken)
    }

    /// Nothing may be left.
    pub(crate) const fn end(&self) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            bytes => Err(DecodeError::Trailing {
                offset: self.at,
                bytes: bytes as u64,
            }),
        }
    }

    pub(crate) const fn truncated(&self, part: Part, needed: u64) -> DecodeError {
        DecodeError::Truncated {
            offset: self.at,
            part,
            needed,
            present: self.rest.len() as u64,
        }
    }
}
