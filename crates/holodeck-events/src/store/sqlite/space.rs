//! The space on the disk of the file, and a reserve of it, so that what is old can be deleted when the disk is full.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use super::StoreError;

/// With less than this, the next message may not fit.
const LEAST: u64 = 1 << 20;

/// The reserve is made only if the disk has this many times its size.
const PLENTY: u64 = 8;

/// A file by its place on the disk: another file may get its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    device: u64,
    number: u64,
}

impl FileId {
    pub(super) fn of(path: &Path) -> Option<Self> {
        let about = fs::metadata(path).ok()?;
        Some(Self {
            device: about.dev(),
            number: about.ino(),
        })
    }
}

/// The free bytes on the disk of a folder, if they are known.
pub(super) type FreeSpace = fn(&Path) -> Option<u64>;

fn free(path: &Path, space: Option<FreeSpace>) -> Option<u64> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    space?(folder.unwrap_or_else(|| Path::new(".")))
}

/// Whether the disk is full.
pub(super) fn is_full(path: &Path, space: Option<FreeSpace>) -> bool {
    free(path, space).is_some_and(|free| free < LEAST)
}

/// Checks that the file is still there, and that its disk has space.
pub(super) fn check(path: &Path, opened: Option<FileId>, space: Option<FreeSpace>) -> Result<(), StoreError> {
    if opened.is_some() && FileId::of(path) != opened {
        let reason = "was deleted or replaced while it is used";
        return Err(StoreError::failed(format_args!("`{}` {reason}", path.display())));
    }
    if is_full(path, space) {
        return Err(StoreError::Full);
    }
    Ok(())
}

fn reserve(path: &Path) -> PathBuf {
    let mut reserve = path.as_os_str().to_owned();
    reserve.push("-reserve");
    reserve.into()
}

/// Makes the reserve, unless it is there or the disk has too little space.
pub(super) fn keep_reserve(path: &Path, bytes: u64, space: Option<FreeSpace>) {
    let reserve = reserve(path);
    let is_plenty = || free(path, space).is_some_and(|free| free / PLENTY >= bytes);
    if bytes == 0 || reserve.exists() || !is_plenty() {
        return;
    }
    let fill = || -> io::Result<()> {
        let mut file = holodeck_model::private_file().open(&reserve)?;
        let block = [0; 1 << 13];
        let mut left = bytes;
        while left > 0 {
            let length = usize::try_from(left).unwrap_or(usize::MAX).min(block.len());
            file.write_all(block.get(..length).unwrap_or(&block))?;
            left = left.saturating_sub(length as u64);
        }
        Ok(())
    };
    if fill().is_err() {
        let _ = fs::remove_file(&reserve);
    }
}

/// Gives the reserve back to the disk; whether there was one.
pub(super) fn release_reserve(path: &Path) -> bool {
    fs::remove_file(reserve(path)).is_ok()
}
