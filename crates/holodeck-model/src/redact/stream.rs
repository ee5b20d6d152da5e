//! Masks secrets in texts that arrive in pieces.

use std::sync::Arc;

use super::{Redactor, escapes};

/// A longer text without a place to cut it is emitted as far as it has arrived.
const LONGEST: usize = 64 * 1024;

/// Masks secrets in a text that arrives in pieces: a possible beginning of a secret is held back until it is clear
/// whether it is one.
#[derive(Debug)]
pub struct RedactedStream {
    redactor: Arc<Redactor>,
    pending: String,
}

impl RedactedStream {
    /// Masks everything that `redactor` masks.
    pub fn new(redactor: Arc<Redactor>) -> Self {
        Self {
            redactor,
            pending: String::new(),
        }
    }

    /// Adds a piece; returns what may be shown now.
    pub fn push(&mut self, piece: &str) -> String {
        self.pending.push_str(piece);
        let end = if self.pending.len() > LONGEST {
            self.pending.len()
        } else {
            self.redactor.find_safe_end(&self.pending)
        };
        let rest = self.pending.split_off(end);
        self.redactor
            .text(&std::mem::replace(&mut self.pending, rest))
            .into_owned()
    }

    /// Returns the text that was held back, at the end.
    pub fn finish(&mut self) -> String {
        self.redactor
            .text(&std::mem::take(&mut self.pending))
            .into_owned()
    }
}

impl Redactor {
    /// How much of `text` can be shown whatever follows: no secret that has begun crosses this place.
    fn find_safe_end(&self, text: &str) -> usize {
        let last = text.char_indices().rev().find(|(_, c)| is_boundary(*c));
        let mut end = last.map_or(0, |(at, c)| at + c.len_utf8());
        // A header, a private key or a secret of the agent may contain such characters.
        for (start, stop) in [
            ("-----BEGIN", "-----END"),
            ("authorization", "\n"),
            ("bearer", "\n"),
        ] {
            if let Some(at) = rfind_ignoring_case(text, start)
                && !text.get(at..).is_some_and(|rest| rest.contains(stop))
            {
                end = end.min(at);
            }
        }
        let shown = text.get(..end).unwrap_or_default();
        let begins = |shown: &str| {
            let beginnings = self.known.divisible.iter().filter_map(|form| {
                let cuts = form.char_indices().map(|(at, _)| at).filter(|at| *at > 0);
                cuts.rev()
                    .find(|at| form.get(..*at).is_some_and(|begin| shown.ends_with(begin)))
            });
            shown.len() - beginnings.max().unwrap_or(0)
        };
        let of_escaped = escapes::levels(shown).into_iter().map(|read| {
            let begin = begins(&read.text);
            read.source(&(begin..read.text.len())).start
        });
        end = of_escaped.chain([begins(shown)]).min().unwrap_or(end);
        let crossing = self
            .find(text)
            .into_iter()
            .find(|found| found.start < end && end < found.end);
        crossing.map_or(end, |found| found.start)
    }
}

/// Whitespace and other scripts: the shapes of keys contain neither.
pub(super) fn is_boundary(c: char) -> bool {
    c.is_whitespace() || !c.is_ascii()
}

fn rfind_ignoring_case(text: &str, what: &str) -> Option<usize> {
    let windows = text.as_bytes().windows(what.len());
    let mut windows = windows.enumerate().rev();
    windows
        .find(|(_, window)| window.eq_ignore_ascii_case(what.as_bytes()))
        .map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_secret_in_pieces_is_masked() {
        let key = format!("sk-{}", "a1B2".repeat(8));
        let text = format!(
            "It is {key}, correct horse battery, Ünd: Authorization: Basic dXNlcjpw\nor 日本correct horse battery. Bye"
        );
        let redactor = Arc::new(Redactor::new(["correct horse battery".to_owned()]));
        let whole = redactor.text(&text).into_owned();
        assert_eq!(whole.matches("***").count(), 4);
        for size in 1..30 {
            let mut stream = RedactedStream::new(Arc::clone(&redactor));
            let letters: Vec<char> = text.chars().collect();
            let mut shown = String::new();
            for piece in letters.chunks(size) {
                shown.push_str(&stream.push(&piece.iter().collect::<String>()));
            }
            shown.push_str(&stream.finish());
            assert_eq!(shown, whole, "in pieces of {size}");
        }
    }

    #[test]
    fn words_are_shown_as_they_come() {
        let mut stream = RedactedStream::new(Arc::new(Redactor::default()));
        assert_eq!(
            (stream.push("one tw"), stream.push("o three")),
            ("one ".into(), "two ".into())
        );
        assert_eq!(stream.finish(), "three");
    }
}
