//! Tests that splitting output into lines does not depend on how the bytes arrive, and that memory stays limited.

use proptest::prelude::*;

use super::*;
use crate::recording::Recording;

/// All lines and errors of consecutive `pieces`.
fn read(pieces: &[&[u8]], limit: usize) -> Vec<Result<Vec<u8>, String>> {
    let mut lines = Lines::new(limit);
    let mut results = Vec::new();
    for piece in pieces {
        lines.buffer_mut().extend_from_slice(piece);
        loop {
            match lines.take() {
                Ok(Some(line)) => results.push(Ok(lines.get(line).unwrap().to_vec())),
                Ok(None) => break,
                Err(error) => results.push(Err(error.to_string())),
            }
        }
    }
    results.extend(lines.end().err().map(|error| Err(error.to_string())));
    results
}

fn lines(texts: &[&str]) -> Vec<Result<Vec<u8>, String>> {
    texts.iter().map(|text| Ok(text.as_bytes().to_vec())).collect()
}

#[test]
fn line_ends_and_empty_lines_are_removed() {
    assert_eq!(read(&[b"a\n\n\r\nb\r\nc\n"], 10), lines(&["a", "b", "c"]));
}

#[test]
fn a_line_beyond_the_limit_is_one_error_and_the_next_one_is_read() {
    let too_long = Err("a line of output is longer than 4 bytes".to_owned());
    for pieces in [
        &[b"a\n12345\nb\n".as_slice()][..],
        &[b"a\n1234", b"5", b"678", b"9\nb", b"\n"],
    ] {
        let mut expected = lines(&["a", "b"]);
        expected.insert(1, too_long.clone());
        assert_eq!(read(pieces, 4), expected);
    }
    assert_eq!(read(&[b"1234\n"], 4), lines(&["1234"]));
    assert_eq!(read(&[b"12345"], 4), [too_long]);
}

#[test]
fn a_line_beyond_the_limit_is_not_buffered() {
    let mut lines = Lines::new(1000);
    let chunk = [b'x'; CHUNK];
    let mut errors = 0;
    for _ in 0..1000 {
        lines.buffer_mut().extend_from_slice(&chunk);
        errors += usize::from(lines.take().is_err());
        assert!(lines.buffer.capacity() < 4 * CHUNK);
    }
    assert_eq!(errors, 1);
    lines.buffer_mut().extend_from_slice(b"\nafter\n");
    let line = lines.take().unwrap().unwrap();
    assert_eq!(lines.get(line).unwrap(), b"after");
}

#[test]
fn a_long_line_does_not_keep_its_memory() {
    let mut lines = Lines::new(LINE_LIMIT);
    lines
        .buffer_mut()
        .extend_from_slice(&vec![b'x'; 4 * MAX_IDLE_CAPACITY]);
    lines.buffer_mut().push(b'\n');
    lines.take().unwrap().unwrap();
    assert!(lines.buffer_mut().capacity() <= MAX_IDLE_CAPACITY);
}

#[test]
fn half_a_line_at_the_end_is_an_error() {
    let half = "the output ended in the middle of a line, after 3 bytes of it".to_owned();
    assert_eq!(read(&[b"a\nbcd"], 10), [Ok(b"a".to_vec()), Err(half)]);
}

#[tokio::test]
async fn dropping_a_read_loses_nothing() {
    let (mut writer, reader) = tokio::io::duplex(64);
    let mut reader = LineReader::new(reader, 100);
    tokio::io::AsyncWriteExt::write_all(&mut writer, b"one\ntw")
        .await
        .unwrap();
    assert_eq!(reader.next().await.unwrap().unwrap(), b"one");
    // Polled once: it reads the available bytes and waits for more.
    let waited = futures::FutureExt::now_or_never(async { reader.next().await.map(|_| ()) });
    assert!(waited.is_none());
    tokio::io::AsyncWriteExt::write_all(&mut writer, b"o\nhalf")
        .await
        .unwrap();
    assert_eq!(reader.next().await.unwrap().unwrap(), b"two");
    drop(writer);
    assert!(matches!(
        reader.next().await,
        Err(FramingError::HalfLine { bytes: 4 })
    ));
    assert!(reader.next().await.unwrap().is_none());
}

#[tokio::test]
async fn fifty_megabytes_without_a_line_end_are_refused() {
    let reader = tokio::io::repeat(b'x').take(50_000_000);
    let mut reader = LineReader::new(reader, LINE_LIMIT);
    assert!(matches!(reader.next().await, Err(FramingError::TooLong { .. })));
    assert!(reader.next().await.unwrap().is_none());
}

#[test]
fn recordings_are_read_the_same_byte_by_byte() {
    for recording in Recording::all() {
        let output = recording.output();
        let whole = read(&[&output], LINE_LIMIT);
        assert!(whole.iter().all(Result::is_ok));
        assert_eq!(whole.len(), recording.frames().len());
        let bytes: Vec<&[u8]> = output.chunks(1).collect();
        assert_eq!(read(&bytes, LINE_LIMIT), whole, "{}", recording.name);
    }
}

#[test]
fn recordings_are_read_the_same_split_at_every_byte() {
    // The long messages at the start are all alike; the test above reads them byte by byte.
    const SHORT: usize = 1500;
    for recording in Recording::all() {
        let output = recording.output();
        let short: Vec<&[u8]> = output
            .split_inclusive(|byte| *byte == b'\n')
            .filter(|line| line.len() < SHORT)
            .collect();
        let output = short.concat();
        let whole = read(&[&output], LINE_LIMIT);
        for at in 0..output.len() {
            let (before, after) = output.split_at(at);
            assert!(
                read(&[before, after], LINE_LIMIT) == whole,
                "{} split at {at}",
                recording.name
            );
        }
    }
}

proptest! {
    #[test]
    fn any_pieces_give_the_lines_of_the_whole(
        input in "[ab\r\n]{0,60}",
        cuts in proptest::collection::vec(0..60_usize, 0..6),
        limit in 1..12_usize,
    ) {
        let input = input.as_bytes();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(input.len())).collect();
        cuts.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for cut in cuts {
            pieces.push(&input[from..cut]);
            from = cut;
        }
        pieces.push(&input[from..]);
        // The results may differ in the byte count of an unfinished line.
        let without_count = |results: Vec<Result<Vec<u8>, String>>| -> Vec<_> {
            results.into_iter().map(|line| line.map_err(|error| error.starts_with("a line"))).collect()
        };
        prop_assert_eq!(
            without_count(read(&pieces, limit)),
            without_count(read(&[input], limit))
        );
    }
}
