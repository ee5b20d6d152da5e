use std::{
    fmt::Write as _,
    io::{self, Read as _},
    path::Path,
};

use holodeck_model::open_input;
use sha2::{Digest as _, Sha256};

/// What stands for a content in a key: the beginning of its SHA-256.
pub fn digest(content: &[u8]) -> String {
    written(Sha256::new().chain_update(content))
}

/// The [`digest`] of a file.
pub fn file_digest(path: &Path) -> io::Result<String> {
    let mut file = open_input(path, u64::MAX)?;
    let mut hash = Sha256::new();
    let mut piece = vec![0; 64 * 1024];
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(written(hash)),
            Ok(read) => hash.update(piece.get(..read).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn written(hash: Sha256) -> String {
    hash.finalize()
        .iter()
        .take(16)
        .fold("sha256:".to_owned(), |mut text, byte| {
            // Writing to a String can't fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}
