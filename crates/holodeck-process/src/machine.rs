//! Limits of the machine: the space of a disk, and the open files of this process.

use std::path::Path;

use rustix::{
    fs::statvfs,
    process::{Resource, getrlimit},
};

/// The free bytes on the disk of a folder, as far as the user may use them; `None` if the file system does not report them.
pub fn free_space(folder: &Path) -> Option<u64> {
    let about = statvfs(folder).ok()?;
    (about.f_blocks > 0).then(|| about.f_bavail.saturating_mul(about.f_frsize))
}

/// How many files this process may have open; `None` without a limit.
pub fn max_open_files() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}
