//! Short digests of contents for the keys of a recording.

use std::{
    io::{self, Read as _},
    path::Path,
};

use holodeck_model::{hex_prefix, open_input};
use sha2::{Digest as _, Sha256};

/// The digest of a content in a key: the beginning of its SHA-256.
pub fn digest(content: &[u8]) -> String {
    format_hash(Sha256::new().chain_update(content))
}

/// The [`digest`] of a file.
pub fn file_digest(path: &Path) -> io::Result<String> {
    let mut file = open_input(path, u64::MAX)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(format_hash(hash)),
            Ok(read) => hash.update(buffer.get(..read).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn format_hash(hash: Sha256) -> String {
    format!("sha256:{}", hex_prefix(&hash.finalize(), 16))
}
