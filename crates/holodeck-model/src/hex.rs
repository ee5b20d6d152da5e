//! Bytes as hexadecimal digits, as digests are written.

/// Two lower-case digits for each byte.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(digit(byte >> 4));
        text.push(digit(byte & 15));
    }
    text
}

/// The same of the first `count` bytes, of a digest that need not be whole.
pub fn hex_prefix(bytes: &[u8], count: usize) -> String {
    hex(bytes.get(..count).unwrap_or(bytes))
}

fn digit(value: u8) -> char {
    char::from_digit(value.into(), 16).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{hex, hex_prefix};

    #[test]
    fn every_byte_has_two_digits() {
        assert_eq!(hex(&[0, 9, 10, 0x7f, 0xff]), "00090a7fff");
        assert_eq!(hex(&[]), "");
        assert_eq!(hex_prefix(&[1, 2, 3], 2), "0102");
        assert_eq!(hex_prefix(&[1], 2), "01");
    }
}
