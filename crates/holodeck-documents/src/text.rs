//! Decodes text in any common encoding.

/// Bytes of a file's beginning that are checked.
const LOOKED_AT: usize = 64 * 1024;

enum Encoding {
    Utf8,
    Utf16(fn([u8; 2]) -> u16),
    Windows1252,
}

/// Whether the bytes are text in an encoding that [`decode`] supports.
pub(crate) fn is_text(bytes: &[u8]) -> bool {
    let start = bytes.get(..bytes.len().min(LOOKED_AT)).unwrap_or_default();
    let (encoding, start) = encoding(start);
    match encoding {
        Encoding::Utf8 | Encoding::Windows1252 => {
            let odd = start.iter().filter(|byte| is_control(**byte)).count();
            !start.contains(&0) && odd * 100 <= start.len()
        }
        Encoding::Utf16(_) => true,
    }
}

fn is_control(byte: u8) -> bool {
    byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x0C | 0x1B)
}

/// The text with `
/// ` line ends, and notices about how it was decoded.
pub(crate) fn decode(bytes: &[u8]) -> (String, Vec<String>) {
    let (encoding, bytes) = encoding(bytes);
    let mut notes = Vec::new();
    let text = match encoding {
        Encoding::Utf8 => String::from_utf8_lossy(bytes).into_owned(),
        Encoding::Utf16(number) => {
            let units = bytes.chunks_exact(2).map(|pair| match pair {
                [first, second] => number([*first, *second]),
                _ => 0,
            });
            let decoded = char::decode_utf16(units);
            decoded
                .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
                .collect()
        }
        Encoding::Windows1252 => {
            notes.push("not UTF-8; read as Windows-1252".to_owned());
            bytes.iter().map(|byte| windows_1252(*byte)).collect()
        }
    };
    if text.contains('\r') {
        return (text.replace("\r\n", "\n").replace('\r', "\n"), notes);
    }
    (text, notes)
}

/// The encoding, and the bytes after its byte order mark.
fn encoding(bytes: &[u8]) -> (Encoding, &[u8]) {
    if let Some(rest) = bytes.strip_prefix(b"\xEF\xBB\xBF") {
        return (Encoding::Utf8, rest);
    }
    if let Some(rest) = bytes.strip_prefix(b"\xFF\xFE") {
        return (Encoding::Utf16(u16::from_le_bytes), rest);
    }
    if let Some(rest) = bytes.strip_prefix(b"\xFE\xFF") {
        return (Encoding::Utf16(u16::from_be_bytes), rest);
    }
    if let Some(order) = unmarked_utf16(bytes) {
        return (Encoding::Utf16(order), bytes);
    }
    let valid = match std::str::from_utf8(bytes) {
        Ok(_) => true,
        // Only the end of a truncated prefix.
        Err(error) => error.error_len().is_none() && bytes.len() >= LOOKED_AT,
    };
    (
        if valid {
            Encoding::Utf8
        } else {
            Encoding::Windows1252
        },
        bytes,
    )
}

/// In UTF-16, every other byte of a European text is 0; in other encodings, none is.
fn unmarked_utf16(bytes: &[u8]) -> Option<fn([u8; 2]) -> u16> {
    let start = bytes.get(..bytes.len().min(4096)).unwrap_or_default();
    let zeros = |skip: usize| {
        start
            .iter()
            .skip(skip)
            .step_by(2)
            .filter(|byte| **byte == 0)
            .count()
    };
    let (even, odd, half) = (zeros(0), zeros(1), start.len() / 2);
    if half < 2 || !bytes.len().is_multiple_of(2) {
        None
    } else if even == 0 && odd * 2 > half {
        Some(u16::from_le_bytes)
    } else if odd == 0 && even * 2 > half {
        Some(u16::from_be_bytes)
    } else {
        None
    }
}

/// Windows-1252 in place of Latin-1's second row of control characters.
const FROM_0X80: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}', '\u{90}',
    '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

fn windows_1252(byte: u8) -> char {
    let special = usize::from(byte)
        .checked_sub(0x80)
        .and_then(|at| FROM_0X80.get(at));
    special.copied().unwrap_or(char::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Größe: 5 € – “ja”\nzweite Zeile\n";

    #[test]
    fn every_encoding_gives_the_same_text() {
        let little: Vec<u8> = TEXT.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = TEXT.encode_utf16().flat_map(u16::to_be_bytes).collect();
        let windows: Vec<u8> = TEXT
            .chars()
            .map(|c| (0..=255).find(|byte| windows_1252(*byte) == c).unwrap())
            .collect();
        let all = [
            (TEXT.as_bytes().to_vec(), 0),
            ([b"\xEF\xBB\xBF", TEXT.as_bytes()].concat(), 0),
            ([b"\xFF\xFE".as_slice(), &little].concat(), 0),
            ([b"\xFE\xFF".as_slice(), &big].concat(), 0),
            (little, 0),
            (big, 0),
            (windows, 1),
            (TEXT.replace('\n', "\r\n").into_bytes(), 0),
            (TEXT.replace('\n', "\r").into_bytes(), 0),
        ];
        for (bytes, notes) in all {
            assert!(is_text(&bytes), "{bytes:?}");
            let (text, notices) = decode(&bytes);
            assert_eq!((text.as_str(), notices.len()), (TEXT, notes), "{bytes:?}");
        }
    }

    #[test]
    fn what_is_cut_within_a_character_when_looked_at_is_still_utf8() {
        let text = format!("{}ä{}", "x".repeat(LOOKED_AT - 1), "y".repeat(10));
        assert!(is_text(text.as_bytes()));
        assert_eq!(decode(text.as_bytes()), (text, Vec::new()));
    }

    #[test]
    fn binary_is_not_text() {
        let all: Vec<u8> = (0..=255).cycle().take(4096).collect();
        assert!(!is_text(&all));
        assert!(!is_text(b"\x7FELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0>\0"));
        assert!(is_text(b""));
    }
}
