//! Limits on the parts of a form that its reader would otherwise collect: the headers of each part, their number, and the
//! whole body. It reads no content.

use std::sync::{Arc, OnceLock};

use axum::body::{Body, Bytes};
use futures::StreamExt as _;

/// Bytes of the headers of one part, with its name and the name of its file.
const MAX_HEAD: usize = 8 << 10;

/// Why a form was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FormLimit {
    /// The headers of a part are too large.
    Head,
    /// It has too many parts.
    Parts(usize),
    /// It is larger than this.
    Total(usize),
}

/// Where the refusal is found once reading the form fails.
pub(crate) type Refusal = Arc<OnceLock<FormLimit>>;

/// Follows the bytes of a form.
struct Follower {
    /// `\r\n--` and the boundary.
    delimiter: Vec<u8>,
    max_parts: usize,
    max_total: usize,
    /// The last bytes, among which a delimiter or the end of the headers may begin.
    tail: Vec<u8>,
    state: State,
    parts: usize,
    total: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the content of a part: the bytes of its headers until here.
    Head(usize),
    Content,
}

/// The body, which fails at the first byte beyond a limit.
pub(crate) fn limit_form(body: Body, boundary: &str, max_parts: usize, max_total: usize) -> (Body, Refusal) {
    let refusal = Refusal::default();
    let refused = Arc::clone(&refusal);
    let mut follower = Follower::new(boundary, max_parts, max_total);
    let pieces = body.into_data_stream().map(move |piece| {
        let piece: Bytes = piece.map_err(std::io::Error::other)?;
        follower.follow(&piece).map_err(|limit| {
            let _ = refused.set(limit);
            std::io::Error::other("the form is too large")
        })?;
        Ok::<_, std::io::Error>(piece)
    });
    (Body::from_stream(pieces), refusal)
}

impl Follower {
    fn new(boundary: &str, max_parts: usize, max_total: usize) -> Self {
        Self {
            delimiter: format!("\r\n--{boundary}").into_bytes(),
            max_parts,
            max_total,
            // The first delimiter has no line before it.
            tail: b"\r\n".to_vec(),
            state: State::Head(0),
            parts: 0,
            total: 0,
        }
    }

    fn follow(&mut self, piece: &[u8]) -> Result<(), FormLimit> {
        self.total = self.total.saturating_add(piece.len());
        if self.total > self.max_total {
            return Err(FormLimit::Total(self.max_total));
        }
        for byte in piece {
            self.tail.push(*byte);
            let keep = self.delimiter.len().max(4);
            if self.tail.len() > 2 * keep {
                self.tail.drain(..self.tail.len() - keep);
            }
            if self.tail.ends_with(&self.delimiter) {
                self.parts += 1;
                // The last delimiter ends the form.
                if self.parts > self.max_parts + 1 {
                    return Err(FormLimit::Parts(self.max_parts));
                }
                self.state = State::Head(0);
            } else if let State::Head(length) = &mut self.state {
                *length += 1;
                if *length > MAX_HEAD {
                    return Err(FormLimit::Head);
                }
                if self.tail.ends_with(b"\r\n\r\n") && self.parts > 0 {
                    self.state = State::Content;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(form: &[u8], cut: usize) -> Result<(), FormLimit> {
        let mut follower = Follower::new("AaB", 3, 100_000);
        form.chunks(cut).try_for_each(|piece| follower.follow(piece))
    }

    fn part(head: &str, content: &str) -> String {
        format!("--AaB\r\nContent-Disposition: form-data; {head}\r\n\r\n{content}\r\n")
    }

    #[test]
    fn every_part_of_a_form_is_limited_however_it_is_cut() {
        let long = "x".repeat(MAX_HEAD);
        let three = part("name=a", "1").repeat(3);
        let four = part("name=a", "1").repeat(4);
        let long_head = part(&format!("name={long}"), "1");
        let second = part("name=a", "1") + &part(&format!("name=a; filename={long}"), "");
        let content = part("name=a", &"y\r\n--Aa".repeat(5_000));
        let headers = format!("--AaB\r\n{}\r\n1", "X-Other: y\r\n".repeat(1_000));
        for (form, expected) in [
            (three + "--AaB--\r\n", Ok(())),
            (content + "--AaB--\r\n", Ok(())),
            (four + "--AaB--\r\n", Err(FormLimit::Parts(3))),
            (long_head, Err(FormLimit::Head)),
            (second, Err(FormLimit::Head)),
            (headers, Err(FormLimit::Head)),
            // A preamble is none of a part.
            (long.clone() + "y", Err(FormLimit::Head)),
            (
                part("name=a", &"z".repeat(100_000)),
                Err(FormLimit::Total(100_000)),
            ),
        ] {
            for cut in [1, 2, 7, 1_000, 1 << 20] {
                assert_eq!(follow(form.as_bytes(), cut), expected, "{cut}");
            }
        }
    }
}
