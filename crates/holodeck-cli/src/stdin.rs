//! A text on the standard input, within a limit. A byte order mark is no part of it.

use std::io::{self, Read as _};

use holodeck::model::{decode_text, io_reason};

use crate::failure::{Failure, Problem};

/// Largest text.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// Reads all of the standard input; `what` names the text in errors.
pub(crate) fn read_text(what: &str) -> Result<String, Failure> {
    read_from(io::stdin().lock(), what)
}

fn read_from(input: impl io::Read, what: &str) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = input.take(MAX_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| {
        Problem::config(format!(
            "cannot read the {what} from stdin: {}",
            io_reason(&error)
        ))
    })?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Problem::config(format!("the {what} is larger than 16 MiB")).into());
    }
    let text = decode_text(bytes).map_err(|error| {
        let (line, column, encoding) = (error.line, error.column, error.encoding);
        let place = format!("line {line}, column {column} of the {what} on stdin is not {encoding} text");
        Problem::config(place).with_hint("send UTF-8")
    })?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_order_mark_is_no_part_of_a_message() {
        let read = |bytes: &[u8]| read_from(bytes, "message").unwrap();
        assert_eq!(read(b"\xEF\xBB\xBFhello"), "hello");
        assert_eq!(read(b"\xFF\xFEh\0i\0"), "hi");
        assert_eq!(read(b"hello"), "hello");
        assert!(read_from(b"a\xFF".as_slice(), "message").is_err());
    }
}
