//! Reads files that a user names, always with limits on size and time: a pipe may have no writer, and a device no end.

use std::{
    borrow::Cow,
    fs::{self, File},
    io::{self, ErrorKind, Read as _},
    path::Path,
    sync::mpsc,
    thread,
    time::Duration,
};

/// How long reading anything but a regular file may take.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads the whole file; fails if it is larger than `limit` bytes. A pipe must be read within 5 s.
pub(crate) fn read_input(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let bytes = read_up_to(path, limit.saturating_add(1))?;
    if bytes.len() as u64 > limit {
        return Err(too_large(limit));
    }
    Ok(bytes)
}

/// As [`read_input`], for text that [`decode_text`] reads.
pub fn read_text_input(path: &Path, limit: u64) -> io::Result<String> {
    let bytes = read_input(path, limit)?;
    decode_text(bytes).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

/// A text whose lines end in `\n`, whatever ends them in the file.
pub fn unix_lines(text: &str) -> Cow<'_, str> {
    if text.contains('\r') {
        Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n"))
    } else {
        Cow::Borrowed(text)
    }
}

/// A text of the same length whose lines end in LF or CR LF: a CR alone becomes LF, so that every place stays where it is.
pub fn same_length_lines(text: String) -> String {
    let is_alone = |(at, _): &(usize, &str)| text.as_bytes().get(at + 1) != Some(&b'\n');
    if !text.contains('\r') || !text.match_indices('\r').any(|found| is_alone(&found)) {
        return text;
    }
    lines_with_ends(&text)
        .flat_map(|line| match line.strip_suffix('\r') {
            Some(content) => [content, "\n"],
            None => [line, ""],
        })
        .collect()
}

/// Lines with what ends them: LF, CR LF or CR.
pub fn lines_with_ends(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.bytes().position(|byte| matches!(byte, b'\n' | b'\r'));
        let end = end.map_or(rest.len(), |at| match rest.get(at..at + 2) {
            Some("\r\n") => at + 2,
            _ => at + 1,
        });
        let (line, after) = rest.split_at_checked(end)?;
        rest = after;
        (!line.is_empty()).then_some(line)
    })
}

/// The place of the first bytes that are not text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column} is not {encoding} text; save the file as UTF-8")]
pub struct NotText {
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// The offset in bytes.
    pub offset: usize,
    /// The encoding that the file should have: UTF-8 unless a byte order mark says otherwise.
    pub encoding: &'static str,
}

impl NotText {
    fn after(valid: &str, offset: usize, encoding: &'static str) -> Self {
        let valid = unix_lines(valid);
        let line = valid.rsplit('\n').next().unwrap_or_default();
        Self {
            line: valid.matches('\n').count() + 1,
            column: line.chars().count() + 1,
            offset,
            encoding,
        }
    }
}

/// Decodes a text file that configures something: UTF-8, or UTF-16 with its byte order mark. The mark is no part of the
/// text.
pub fn decode_text(bytes: Vec<u8>) -> Result<String, NotText> {
    let is_utf32 = bytes.starts_with(b"\xFF\xFE\0\0") || bytes.starts_with(b"\0\0\xFE\xFF");
    if is_utf32 {
        return Err(NotText::after("", 0, "UTF-8"));
    }
    if let Some(rest) = bytes.strip_prefix(b"\xFF\xFE") {
        return decode_utf16(rest, u16::from_le_bytes);
    }
    if let Some(rest) = bytes.strip_prefix(b"\xFE\xFF") {
        return decode_utf16(rest, u16::from_be_bytes);
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(match text.strip_prefix('\u{feff}') {
            Some(rest) => rest.to_owned(),
            None => text,
        }),
        Err(error) => {
            let offset = error.utf8_error().valid_up_to();
            let valid = error.as_bytes().get(..offset).unwrap_or_default();
            let valid = String::from_utf8_lossy(valid);
            let valid = valid.trim_start_matches('\u{feff}');
            Err(NotText::after(valid, offset, "UTF-8"))
        }
    }
}

fn decode_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<String, NotText> {
    let mut text = String::with_capacity(bytes.len() / 2);
    let (pairs, rest) = bytes.as_chunks::<2>();
    let not_text = |text: &str| {
        // The mark, and two bytes for each unit before.
        let offset = 2 + text.encode_utf16().count() * 2;
        NotText::after(text, offset, "UTF-16")
    };
    for character in char::decode_utf16(pairs.iter().copied().map(unit)) {
        match character {
            Ok(character) => text.push(character),
            Err(_) => return Err(not_text(&text)),
        }
    }
    if rest.is_empty() {
        Ok(text)
    } else {
        Err(not_text(&text))
    }
}

/// Opens a regular file of at most `limit` bytes, to read it piece by piece in any order.
pub fn open_input(path: &Path, limit: u64) -> io::Result<File> {
    // Checked before opening: opening a pipe waits for its writer.
    let metadata = fs::metadata(path)?;
    if metadata.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        return Err(io::Error::new(
            ErrorKind::InvalidInput,
            "it is not a regular file",
        ));
    }
    if metadata.len() > limit {
        return Err(too_large(limit));
    }
    File::open(path)
}

/// Reads at most the first `limit` bytes.
pub(crate) fn read_up_to(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    if fs::metadata(path)?.is_file() {
        return read(path, limit);
    }
    let (sender, receiver) = mpsc::channel();
    let file = path.to_owned();
    // A thread that is blocked in the system cannot be stopped; it ends with the process.
    thread::Builder::new().name("input".to_owned()).spawn(move || {
        let _ = sender.send(read(&file, limit));
    })?;
    receiver.recv_timeout(READ_TIMEOUT).unwrap_or_else(|_| {
        let limit = READ_TIMEOUT.as_secs();
        Err(io::Error::new(
            ErrorKind::TimedOut,
            format!("it is not a regular file, and reading it took more than {limit} s"),
        ))
    })
}

fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn too_large(limit: u64) -> io::Error {
    io::Error::new(
        ErrorKind::FileTooLarge,
        format!("it is larger than the {limit} bytes allowed"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_have_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("input");
        fs::write(&path, "12345").unwrap();
        assert_eq!(read_input(&path, 5).unwrap(), b"12345");
        assert_eq!(read_text_input(&path, 5).unwrap(), "12345");
        let error = read_input(&path, 4).unwrap_err();
        assert_eq!(error.to_string(), "it is larger than the 4 bytes allowed");
        assert_eq!(open_input(&path, 4).unwrap_err().kind(), ErrorKind::FileTooLarge);
        open_input(&path, 5).unwrap();
    }

    #[test]
    fn every_line_end_ends_a_line_and_no_place_moves() {
        for (text, lines, same) in [
            ("", vec![], ""),
            ("a", vec!["a"], "a"),
            ("a\rb", vec!["a\r", "b"], "a\nb"),
            ("a\r\nb\r", vec!["a\r\n", "b\r"], "a\r\nb\n"),
            ("\r\r\n\n\r", vec!["\r", "\r\n", "\n", "\r"], "\n\r\n\n\n"),
            ("ä\r€\n", vec!["ä\r", "€\n"], "ä\n€\n"),
        ] {
            assert_eq!(lines_with_ends(text).collect::<Vec<_>>(), lines, "{text:?}");
            assert_eq!(same_length_lines(text.to_owned()), same, "{text:?}");
        }
        for end in ["\n", "\r", "\r\n"] {
            let bytes = format!("A=1{end}äB={end}");
            let error = decode_text([bytes.as_bytes(), b"\xE4"].concat()).unwrap_err();
            assert_eq!((error.line, error.column), (3, 1), "{end:?}");
        }
    }

    #[test]
    fn a_text_is_the_same_with_every_byte_order_mark() {
        let text = "A=1\nB=ä€😀\n";
        let little = text.encode_utf16().flat_map(u16::to_le_bytes);
        let big = text.encode_utf16().flat_map(u16::to_be_bytes);
        for bytes in [
            text.as_bytes().to_vec(),
            [b"\xEF\xBB\xBF", text.as_bytes()].concat(),
            [0xFF, 0xFE].into_iter().chain(little).collect(),
            [0xFE, 0xFF].into_iter().chain(big).collect(),
        ] {
            assert_eq!(decode_text(bytes), Ok(text.to_owned()));
        }
        assert_eq!(decode_text(Vec::new()), Ok(String::new()));
    }

    #[test]
    fn the_first_place_that_is_no_text_is_named() {
        let error = |bytes: &[u8]| decode_text(bytes.to_vec()).unwrap_err();
        for (bytes, place) in [
            (b"A=1\nB=\xE4\n".as_slice(), (2, 3, 6, "UTF-8")),
            (b"\xEF\xBB\xBFA\xE4", (1, 2, 4, "UTF-8")),
            (b"\xFF\xFEA\0\n\0\0\xD8", (2, 1, 6, "UTF-16")),
            (b"\xFE\xFF\0A\0", (1, 2, 4, "UTF-16")),
            (b"\xFF\xFE\0\0A\0\0\0", (1, 1, 0, "UTF-8")),
        ] {
            let error = error(bytes);
            assert_eq!((error.line, error.column, error.offset, error.encoding), place);
        }
        assert_eq!(
            error(b"\nA=\xE4").to_string(),
            "line 2, column 3 is not UTF-8 text; save the file as UTF-8"
        );
    }

    #[test]
    fn a_device_without_an_end_is_rejected() {
        let zeros = Path::new("/dev/zero");
        let error = read_input(zeros, 1_000).unwrap_err();
        assert_eq!(error.to_string(), "it is larger than the 1000 bytes allowed");
        assert_eq!(read_up_to(zeros, 1_000).unwrap().len(), 1_000);
        let error = open_input(zeros, u64::MAX).unwrap_err();
        assert_eq!(error.to_string(), "it is not a regular file");
    }
}
