//! The compressed forms: a body inside exactly one zstd frame, the magic byte outside it.
//!
//! Three things are refused before anything is decompressed: what is not a frame, what follows it, and
//! room for more content than a body may have. The room is never sized by what the frame announces.

use std::cell::RefCell;
use std::io;

use zstd::bulk::Compressor;
use zstd::zstd_safe::{self, CParameter};

use crate::error::{DecodeError, NotCanonical, ZstdFault};

/// What Java compresses with. Higher levels save a byte here and there for many times the work.
const LEVEL: i32 = 3;

/// The magic number of a frame, little-endian. Skippable frames have others.
const FRAME_MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

/// Bodies longer than this are neither compressed nor inflated. A map whose shortest body is longer spans
/// more than eight million offsets with a quarter of a million holes; its text would have to be one of
/// the few that shrink a thousandfold. The bound keeps what a hostile text can make a reader allocate
/// to 64 times as much (bits that alternate).
pub(super) const MAX_BODY_BYTES: usize = 1 << 20;

/// No frame is shorter: it takes at least a magic number, a descriptor, a window, a block header and a byte.
pub(super) const SHORTEST_FRAME_BYTES: usize = 4 + 1 + 1 + 3 + 1;

thread_local! {
    /// Making a compressor costs more than most bodies take to compress. What it gives does not depend
    /// on what it compressed before.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = RefCell::new(new_compressor().ok());
}

fn new_compressor() -> io::Result<Compressor<'static>> {
    let mut compressor = Compressor::new(LEVEL)?;
    // Without the content's length a frame's header is 6 bytes, whatever the length.
    compressor.set_parameter(CParameter::ContentSizeFlag(false))?;
    Ok(compressor)
}

/// The frame of `body`, or `None` if the library has no memory for it: the plain form stands.
pub(super) fn compress(body: &[u8]) -> Option<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|compressor| compressor.as_mut()?.compress(body).ok())
}

/// zstd's answer when the content does not fit the room: `ZSTD_error_dstSize_tooSmall`, fixed since 1.3.
const OUT_OF_ROOM: usize = 0_usize.wrapping_sub(70);

/// The content of the one frame that `frame` is, at most `longest` bytes.
pub(super) fn decompress(frame: &[u8], longest: u64) -> Result<Vec<u8>, DecodeError> {
    check_frame(frame).map_err(DecodeError::BadZstd)?;
    let bound = usize::try_from(longest)
        .unwrap_or(usize::MAX)
        .min(MAX_BODY_BYTES);
    let mut body = Vec::with_capacity(bound);
    zstd_safe::decompress(&mut body, frame).map_err(|code| {
        DecodeError::BadZstd(match code {
            OUT_OF_ROOM => ZstdFault::TooLong { bound },
            _ => ZstdFault::Corrupt,
        })
    })?;
    if check_frame(&body).is_ok() {
        return Err(DecodeError::NotCanonical(NotCanonical::NestedZstd));
    }
    Ok(body)
}

/// Whether `bytes` is one frame from its first byte to its last, as far as its headers tell.
fn check_frame(bytes: &[u8]) -> Result<(), ZstdFault> {
    if !bytes.starts_with(&FRAME_MAGIC) {
        return Err(ZstdFault::NotAFrame);
    }
    match zstd_safe::find_frame_compressed_size(bytes) {
        Ok(len) if len == bytes.len() => Ok(()),
        Ok(len) => Err(ZstdFault::Trailing {
            count: bytes.len().saturating_sub(len),
        }),
        Err(_) => Err(ZstdFault::Incomplete),
    }
}
