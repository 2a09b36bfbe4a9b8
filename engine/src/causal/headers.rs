//! The header of what is sent: exactly one, and nobody's but the engine's.

use std::sync::Arc;

use keyway_causal::{HEADER, is_reserved};

use crate::kafka::RawHeader;

/// The value of the header `parsley.causes` of what is sent now; `None` without causal delivery.
pub(crate) type Stamp = Option<Arc<[u8]>>;

/// The headers of something that is sent: with the stamp in place of the one of the record from which they were copied.
/// Without a stamp, as they are.
///
/// # Errors
/// The name of a reserved header that an application has set.
pub(crate) fn stamped<'m>(
    mut headers: Vec<RawHeader<'m>>,
    stamp: Option<&'m [u8]>,
    copied: Option<&[u8]>,
) -> Result<Vec<RawHeader<'m>>, String> {
    let Some(stamp) = stamp else {
        return Ok(headers);
    };
    headers.retain(|(name, value)| {
        // What the application has copied, it has not set.
        *name != HEADER.as_bytes() || copied.is_none() || *value != copied
    });
    let reserved = headers.iter().find(|(name, _)| is_reserved(name));
    if let Some((name, _)) = reserved {
        return Err(String::from_utf8_lossy(name).into_owned());
    }
    headers.push((HEADER.as_bytes(), Some(stamp)));
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &[u8] = b"\x01\x01own";
    const STAMP: &[u8] = b"\x01\x00";

    #[test]
    fn without_a_stamp_headers_stay_as_they_are() {
        let headers = vec![(&b"parsley.causes"[..], Some(OWN)), (b"a", None)];
        assert_eq!(stamped(headers.clone(), None, None), Ok(headers));
    }

    #[test]
    fn a_copied_header_is_replaced_by_the_stamp() {
        let headers = vec![(HEADER.as_bytes(), Some(OWN)), (&b"a"[..], None)];
        assert_eq!(
            stamped(headers, Some(STAMP), Some(OWN)),
            Ok(vec![(&b"a"[..], None), (HEADER.as_bytes(), Some(STAMP))])
        );
    }

    #[test]
    fn an_application_sets_no_reserved_header() {
        for name in ["parsley.causes", "parsley.other"] {
            let headers = vec![(name.as_bytes(), Some(&b"x"[..]))];
            assert_eq!(
                stamped(headers, Some(STAMP), Some(OWN)),
                Err(name.to_owned())
            );
        }
    }
}
