//! The chain of a journal's lines: every line ends with a digest of itself and of the line before, so that a line which
//! was changed, moved, added or removed does not fit.
//!
//! It finds accidents and simple edits. It must not be taken for more: who can write the file can compute digests too.

use sha2::{Digest as _, Sha256};

/// A digest of a line, or of all lines up to one.
pub(super) type LineDigest = [u8; 16];

/// Before the digest in a line.
const FIELD: &[u8] = b",\"chain\":\"";

/// After it.
const END: &[u8] = b"\"}\n";

/// The length of the digest with what is around it.
const SUFFIX: usize = FIELD.len() + 32 + END.len();

/// The digest of all lines so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Chain(LineDigest);

/// A line of a file, without its digest.
pub(super) struct Link {
    /// The digest of the line alone.
    pub(super) digest: LineDigest,
    /// The digest of the lines so far.
    pub(super) chain: Chain,
}

impl Chain {
    /// The chain with another line.
    fn with(self, line: LineDigest) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(self.0);
        hasher.update(line);
        Self(half(hasher))
    }

    /// The digest in letters.
    pub(super) fn hex(self) -> String {
        holodeck_model::hex_prefix(&self.0, 16)
    }

    /// Appends a line to `text`: a JSON object, with the digest as its last field.
    pub(super) fn append(self, object: &[u8], text: &mut Vec<u8>) -> Link {
        let body = object.strip_suffix(b"}").unwrap_or(object);
        let digest = digest(body);
        let chain = self.with(digest);
        text.extend_from_slice(body);
        text.extend_from_slice(FIELD);
        text.extend_from_slice(chain.hex().as_bytes());
        text.extend_from_slice(END);
        Link { digest, chain }
    }

    /// The chain with this line of a file, if the line fits.
    pub(super) fn fit(self, line: &[u8]) -> Option<Link> {
        let (body, hex) = split(line)?;
        let digest = digest(body);
        let chain = self.with(digest);
        (chain.hex().as_bytes() == hex).then_some(Link { digest, chain })
    }
}

/// Whether a line is unchanged as the first of a file.
pub(crate) fn fits_as_first(line: &[u8]) -> bool {
    Chain::default().fit(line).is_some()
}

/// Removes the digest at the end of a line, so that the JSON object remains that was appended.
pub(super) fn strip(line: &mut Vec<u8>) {
    if let Some((body, _)) = split(line) {
        let length = body.len();
        line.truncate(length);
        line.push(b'}');
    }
}

/// Whether a line is the one that was written.
pub(super) fn is_unchanged(line: &[u8], written: LineDigest) -> bool {
    split(line).is_some_and(|(body, _)| digest(body) == written)
}

/// The line before its digest, and the digest in letters.
fn split(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let (body, suffix) = line.split_at_checked(line.len().checked_sub(SUFFIX)?)?;
    let hex = suffix.strip_prefix(FIELD)?.strip_suffix(END)?;
    Some((body, hex))
}

fn digest(line: &[u8]) -> LineDigest {
    let mut hasher = Sha256::new();
    hasher.update(line);
    half(hasher)
}

/// The first half of the digest: 128 bits are enough to find changes.
fn half(hasher: Sha256) -> LineDigest {
    let full = hasher.finalize();
    let mut half = LineDigest::default();
    for (byte, from) in half.iter_mut().zip(full) {
        *byte = from;
    }
    half
}
