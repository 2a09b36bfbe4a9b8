//! Numbers of seven bits a byte, the lowest first, of which only the shortest spelling is one.
//!
//! The bound is a number of bits: 31 for what the header counts, 63 for what a shard says besides.

/// Payload bits of a byte.
const BITS_A_BYTE: u32 = 7;

/// More bytes follow.
const MORE: u8 = 0x80;

/// Why bytes begin with no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// They end before it does.
    Truncated,
    /// It ends with a zero that says nothing.
    Nonminimal,
    /// It has more than `BITS` bits. A reader that shifts what is too much away would find two spellings for one number.
    Overflow,
}

/// The number of at most `BITS` bits that `bytes` begin with, and what follows it.
#[inline]
pub(crate) fn read<const BITS: u32>(bytes: &[u8]) -> Result<(u64, &[u8]), Fault> {
    match *bytes {
        [byte, ref rest @ ..] if byte < MORE => Ok((byte.into(), rest)),
        // The next longer one is common enough to be worth its own line.
        [low, high @ 1..MORE, ref rest @ ..] => {
            let number = u64::from(low & !MORE) | u64::from(high) << BITS_A_BYTE;
            Ok((number, rest))
        }
        _ => read_long::<BITS>(bytes),
    }
}

fn read_long<const BITS: u32>(bytes: &[u8]) -> Result<(u64, &[u8]), Fault> {
    let mut number = 0;
    let mut rest = bytes;
    let mut shift = 0;
    loop {
        let (&byte, behind) = rest.split_first().ok_or(Fault::Truncated)?;
        rest = behind;
        // The last byte has room for what is left of the bits, and for no bit that says that more follow.
        let room = BITS - shift;
        if room <= BITS_A_BYTE && u32::from(byte) >= 1 << room {
            return Err(Fault::Overflow);
        }
        number |= u64::from(byte & !MORE) << shift;
        if byte < MORE {
            return match byte {
                0 if shift > 0 => Err(Fault::Nonminimal),
                _ => Ok((number, rest)),
            };
        }
        shift += BITS_A_BYTE;
    }
}

/// Appends `number`.
pub(crate) fn write(mut number: u64, to: &mut Vec<u8>) {
    while number >= MORE.into() {
        to.push(number as u8 | MORE);
        number >>= BITS_A_BYTE;
    }
    to.push(number as u8);
}

/// Bytes that [`write`] appends.
pub(crate) const fn len(number: u64) -> usize {
    // Zero takes a byte as well.
    let bits = u64::BITS - (number | 1).leading_zeros();
    bits.div_ceil(BITS_A_BYTE) as usize
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(number: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(number, &mut bytes);
        bytes
    }

    #[test]
    fn numbers_have_the_bytes_of_the_reference() {
        for (number, bytes) in [
            (0, &[0][..]),
            (127, &[0x7f]),
            (128, &[0x80, 0x01]),
            (300, &[0xac, 0x02]),
            ((1 << 31) - 1, &[0xff, 0xff, 0xff, 0xff, 0x07]),
        ] {
            assert_eq!(written(number), bytes);
            assert_eq!(read::<31>(bytes), Ok((number, &[][..])));
        }
    }

    #[test]
    fn each_other_spelling_is_refused() {
        for (bytes, fault) in [
            (&[][..], Fault::Truncated),
            (&[0x80], Fault::Truncated),
            (&[0x80, 0x80, 0x80, 0x80], Fault::Truncated),
            (&[0x80, 0x00], Fault::Nonminimal),
            (&[0x85, 0x80, 0x80, 0x80, 0x00], Fault::Nonminimal),
            (&[0x80, 0x80, 0x80, 0x80, 0x08], Fault::Overflow),
            (&[0x85, 0x80, 0x80, 0x80, 0x10], Fault::Overflow),
            (&[0x85, 0x80, 0x80, 0x80, 0x80, 0x00], Fault::Overflow),
        ] {
            assert_eq!(read::<31>(bytes), Err(fault), "{bytes:02x?}");
        }
    }

    #[test]
    fn sixty_three_bits_take_nine_bytes() {
        let most = i64::MAX.unsigned_abs();
        assert_eq!((written(most).len(), len(most)), (9, 9));
        assert_eq!(read::<63>(&written(most)), Ok((most, &[][..])));
        assert_eq!(read::<63>(&written(most + 1)), Err(Fault::Overflow));
    }

    proptest! {
        #[test]
        fn a_number_is_read_back_and_what_is_read_is_written_back(
            number in any::<u64>(), bits in 0..64_u32, bytes in proptest::collection::vec(any::<u8>(), 0..12),
        ) {
            let number = number >> bits;
            prop_assert_eq!(written(number).len(), len(number));
            prop_assert_eq!(read::<63>(&written(number)).is_ok(), number >> 63 == 0);
            prop_assert_eq!(read::<31>(&written(number)).is_ok(), number >> 31 == 0);
            for (number, rest) in [read::<31>(&bytes), read::<63>(&bytes)].into_iter().flatten() {
                prop_assert_eq!([&written(number)[..], rest].concat(), bytes.clone());
            }
        }
    }
}
