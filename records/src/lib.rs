#![doc = include_str!("../README.md")]

mod cursor;
mod error;
mod headers;
mod reader;
mod record;

pub use error::{DecodeError, EncodeError, Part, ReadError};
pub use headers::{Header, MAX_HEADERS, MAX_NAME_BYTES, decode_headers, encode_headers};
pub use reader::{MAX_BLOCK_BYTES, RecordReader};
pub use record::{Record, append_record, decode_record, encode_record};
