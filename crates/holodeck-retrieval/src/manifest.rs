//! Digests of files, so that unchanged files are not read again.

use std::{
    collections::BTreeMap,
    fs::{self, File, Metadata},
    io::{self, Read, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use holodeck_model::{create_private_folder, hex, io_reason, private_file};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Increased when the file's layout changes.
const VERSION: u32 = 1;

/// A file modified this shortly before it was read may change again without a new time, because some file systems have
/// coarse timestamps.
const MARGIN: Duration = Duration::from_secs(2);

/// How much of a file's beginning is stored: formats are recognised by it.
const HEAD: usize = 20;

/// The digests of files by path, stored in a file of their own: a file with the same size and times is not read again.
///
/// Sizes and times are only valid on the machine that recorded them, so the manifest is next to an index and not in its
/// store, which may be a server for many machines. A change that keeps the size and both times is missed; since
/// changing the content or the modification time sets the other time, that requires a clock that was set back.
#[derive(Debug, Default)]
pub struct FileManifest {
    path: Option<PathBuf>,
    opened: i64,
    known: BTreeMap<String, FileState>,
    seen: BTreeMap<String, FileState>,
    read: usize,
}

/// The recorded state of a file: its size, when it and its directory entry changed, when it was read (in nanoseconds
/// since 1970), and its digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FileState {
    size: u64,
    modified: i64,
    changed: i64,
    read: i64,
    digest: String,
    head: String,
}

/// The manifest as it is stored.
#[derive(Serialize, Deserialize)]
struct Stored {
    version: u32,
    files: BTreeMap<String, FileState>,
}

/// The content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileContent<'a> {
    /// Its SHA-256 in hexadecimal digits.
    pub digest: &'a str,
    /// Its beginning; invalid UTF-8 is replaced.
    pub head: &'a str,
}

impl FileManifest {
    /// The manifest at `path`; a missing or unreadable one is empty. `now` is recorded as the time of reading when it
    /// is saved.
    pub fn open(path: &Path, now: SystemTime) -> Self {
        let stored = fs::read(path).ok();
        let stored = stored.and_then(|text| serde_json::from_slice::<Stored>(&text).ok());
        let stored = stored.filter(|stored| stored.version == VERSION);
        Self {
            path: Some(path.to_owned()),
            opened: nanos(now),
            known: stored.map(|stored| stored.files).unwrap_or_default(),
            ..Self::default()
        }
    }

    /// The content of a regular file of at most `most` bytes.
    pub fn content(&mut self, path: &Path, most: u64) -> Result<FileContent<'_>, String> {
        let name = path.to_string_lossy().into_owned();
        // Opening a pipe without a writer would block.
        let about = fs::metadata(path).map_err(|error| unreadable(&error))?;
        check_file(&about, most)?;
        let known = match self.known.remove(&name).or_else(|| self.seen.remove(&name)) {
            Some(known) if known.matches(&about, self.opened) => known,
            _ => {
                self.read += 1;
                FileState::read(path, most, self.opened)?
            }
        };
        let known = self.seen.entry(name).or_insert(known);
        Ok(FileContent {
            digest: &known.digest,
            head: &known.head,
        })
    }

    /// Number of files that were read.
    pub fn reads(&self) -> usize {
        self.read
    }

    /// Saves the manifest if it changed, without files that no longer exist.
    pub fn save(mut self) -> io::Result<()> {
        let Some(path) = self.path.take().filter(|_| self.read > 0) else {
            return Ok(());
        };
        self.known.retain(|name, _| fs::symlink_metadata(name).is_ok());
        self.known.append(&mut self.seen);
        let stored = Stored {
            version: VERSION,
            files: self.known,
        };
        if let Some(folder) = path.parent() {
            create_private_folder(folder)?;
        }
        // Another run may write it at the same time.
        let temporary = path.with_extension(format!("{}.partial", std::process::id()));
        let written = private_file()
            .truncate(true)
            .open(&temporary)
            .and_then(|mut file| file.write_all(&serde_json::to_vec(&stored)?))
            .and_then(|()| fs::rename(&temporary, &path));
        if written.is_err() {
            // A file that could not be renamed is useless.
            let _ = fs::remove_file(&temporary);
        }
        written
    }
}

impl FileState {
    fn read(path: &Path, most: u64, now: i64) -> Result<Self, String> {
        let mut file = File::open(path).map_err(|error| unreadable(&error))?;
        // From the open file, before it is read: later changes have a later time.
        let about = file.metadata().map_err(|error| unreadable(&error))?;
        check_file(&about, most)?;
        let mut hash = Sha256::new();
        let mut head = Vec::new();
        let mut buffer = vec![0; usize::try_from(about.len()).map_or(BUFFER, |size| size.clamp(1, BUFFER))];
        loop {
            match file.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => {
                    let piece = buffer.get(..count).unwrap_or_default();
                    head.extend(piece.iter().take(HEAD - head.len().min(HEAD)));
                    hash.update(piece);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(unreadable(&error)),
            }
        }
        Ok(Self {
            size: about.len(),
            modified: time(about.mtime(), about.mtime_nsec()),
            changed: time(about.ctime(), about.ctime_nsec()),
            read: now,
            digest: hex(&hash.finalize()),
            head: String::from_utf8_lossy(&head).into_owned(),
        })
    }

    /// Whether a file with these properties still has the recorded content.
    fn matches(&self, about: &Metadata, now: i64) -> bool {
        let margin = i64::try_from(MARGIN.as_nanos()).unwrap_or(i64::MAX);
        let last = self.modified.max(self.changed);
        self.size == about.len()
            && self.modified == time(about.mtime(), about.mtime_nsec())
            && self.changed == time(about.ctime(), about.ctime_nsec())
            && last.saturating_add(margin) < self.read
            // Otherwise the clock was set back, and times repeat.
            && self.read <= now
    }
}

/// Read buffer size.
const BUFFER: usize = 256 * 1024;

fn time(seconds: i64, nanoseconds: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}

fn nanos(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Rejects anything that is not a regular file or is too large.
pub(crate) fn check_file(about: &Metadata, most: u64) -> Result<(), String> {
    if !about.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    if about.len() > most {
        return Err(format!(
            "it has {} bytes, more than the limit of {most}",
            about.len()
        ));
    }
    Ok(())
}

pub(crate) fn unreadable(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file".to_owned(),
        _ => format!("can't be read: {}", io_reason(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::FileTimes;

    use pretty_assertions::assert_eq;

    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn file(&self) -> PathBuf {
            self.0.path().join("a.md")
        }

        fn write(&self, content: &str) {
            fs::write(self.file(), content).unwrap();
        }

        /// The digest's prefix and the number of files read, `after` now.
        fn digest(&self, after: Duration) -> (String, usize) {
            self.digest_at(SystemTime::now() + after)
        }

        fn digest_at(&self, now: SystemTime) -> (String, usize) {
            let mut manifest = FileManifest::open(&self.0.path().join("deep/files.json"), now);
            let digest = manifest.content(&self.file(), 100).unwrap().digest[..8].to_owned();
            let reads = manifest.reads();
            manifest.save().unwrap();
            (digest, reads)
        }
    }

    fn sha256(content: &str) -> String {
        hex(&Sha256::digest(content))[..8].to_owned()
    }

    #[test]
    fn what_did_not_change_is_not_read_again() {
        let folder = Folder::new();
        folder.write("one");
        assert_eq!(folder.digest(HOUR), (sha256("one"), 1));
        assert_eq!(folder.digest(2 * HOUR), (sha256("one"), 0));
        // Of the same size.
        folder.write("two");
        assert_eq!(folder.digest(3 * HOUR), (sha256("two"), 1));
        assert_eq!(folder.digest(4 * HOUR), (sha256("two"), 0));
    }

    #[test]
    fn a_file_that_is_touched_is_read_once() {
        let folder = Folder::new();
        folder.write("one");
        let _ = folder.digest(HOUR);
        let earlier = FileTimes::new().set_modified(SystemTime::now() - HOUR);
        File::options()
            .write(true)
            .open(folder.file())
            .unwrap()
            .set_times(earlier)
            .unwrap();
        assert_eq!(folder.digest(2 * HOUR), (sha256("one"), 1));
        assert_eq!(folder.digest(3 * HOUR), (sha256("one"), 0));
    }

    #[test]
    fn a_time_that_was_put_back_does_not_hide_a_change() {
        let folder = Folder::new();
        folder.write("one");
        let _ = folder.digest(HOUR);
        let before = fs::metadata(folder.file()).unwrap().modified().unwrap();
        folder.write("two");
        let times = FileTimes::new().set_modified(before);
        File::options()
            .write(true)
            .open(folder.file())
            .unwrap()
            .set_times(times)
            .unwrap();
        assert_eq!(folder.digest(2 * HOUR), (sha256("two"), 1));
    }

    #[test]
    fn a_file_that_had_just_changed_is_read_again() {
        let folder = Folder::new();
        folder.write("one");
        let now = SystemTime::now();
        assert_eq!(folder.digest_at(now), (sha256("one"), 1));
        assert_eq!(folder.digest_at(now + Duration::from_secs(1)), (sha256("one"), 1));
        assert_eq!(folder.digest_at(now + HOUR), (sha256("one"), 1));
        assert_eq!(folder.digest_at(now + 2 * HOUR), (sha256("one"), 0));
    }

    #[test]
    fn a_clock_that_was_put_back_is_not_trusted() {
        let folder = Folder::new();
        folder.write("one");
        let _ = folder.digest(2 * HOUR);
        assert_eq!(folder.digest(HOUR), (sha256("one"), 1));
        assert_eq!(folder.digest(2 * HOUR), (sha256("one"), 0));
    }

    #[test]
    fn an_unreadable_manifest_is_empty_and_deleted_files_are_dropped() {
        let folder = Folder::new();
        folder.write("one");
        let manifest = folder.0.path().join("deep/files.json");
        for damaged in ["", "{", "{\"version\":0,\"files\":{}}"] {
            let _ = folder.digest(HOUR);
            fs::write(&manifest, damaged).unwrap();
            assert_eq!(folder.digest(HOUR), (sha256("one"), 1), "{damaged}");
        }
        fs::rename(folder.file(), folder.0.path().join("b.md")).unwrap();
        folder.write("two");
        fs::remove_file(folder.0.path().join("b.md")).unwrap();
        let _ = folder.digest(HOUR);
        let stored: Stored = serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
        assert_eq!(stored.files.len(), 1);
        assert!(fs::read_dir(manifest.parent().unwrap()).unwrap().count() == 1);
    }

    #[test]
    fn other_file_types_and_large_files_are_refused() {
        let folder = Folder::new();
        folder.write(&"x".repeat(101));
        let mut manifest = FileManifest::default();
        assert!(
            manifest
                .content(&folder.file(), 100)
                .unwrap_err()
                .contains("101 bytes")
        );
        assert_eq!(
            manifest.content(&folder.file(), 101).unwrap().head,
            "x".repeat(HEAD)
        );
        assert!(
            manifest
                .content(folder.0.path(), 100)
                .unwrap_err()
                .contains("regular")
        );
        assert_eq!(
            manifest.content(Path::new("/nowhere/x"), 9).unwrap_err(),
            "no such file"
        );
    }
}
