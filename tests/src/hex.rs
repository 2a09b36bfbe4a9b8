//! Bytes from hexadecimal digits, as event logs and the Java peer write keys.

/// `None` when the text is not pairs of digits.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let pair = |pair: &[u8]| match *pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    };
    text.as_bytes().chunks(2).map(pair).collect()
}

fn digit(character: u8) -> Option<u8> {
    let value = char::from(character).to_digit(16)?;
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn pairs_of_digits_are_bytes_and_all_else_is_nothing() {
        assert_eq!(decode(""), Some(vec![]));
        assert_eq!(decode("00fFa0"), Some(vec![0x00, 0xff, 0xa0]));
        assert_eq!(decode("0"), None);
        assert_eq!(decode("0g"), None);
        assert_eq!(decode("+1"), None);
    }
}
