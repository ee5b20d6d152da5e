//! Stores the files that users upload, each user's apart, on a disk that several processes may share.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use crate::file_error::{FileError, failed};
use holodeck_documents::Format;
use holodeck_events::{Ids as _, RandomIds};
use holodeck_model::{AttachmentsConfig, create_private_folder, private_file};
use jiff::Timestamp;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest as _, Sha256};

/// Longer names are cut.
const MAX_NAME: usize = 200;

/// The files that people attach to messages, each user's in a folder of its own. Cheap to clone; several processes may
/// use one folder.
///
/// A file's bytes are stored by their SHA-256 and written before its record, so that a record always has its bytes.
/// The bytes of a file that was sent stay after it is deleted: they are what the model read.
#[derive(Clone, Debug)]
pub struct FileVault {
    root: PathBuf,
    limits: AttachmentsConfig,
}

/// A file of a user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct StoredFile {
    /// Its id.
    pub file_id: String,
    /// Its name, without a folder.
    pub name: String,
    /// Its media type, which is found from the content.
    pub mime: String,
    /// Its size in bytes.
    pub size: u64,
    /// SHA-256 of its content, in hexadecimal.
    pub hash: String,
    /// When it was uploaded.
    pub created_at: Timestamp,
}

impl FileVault {
    /// The files in this folder, which is created when it is needed.
    pub fn new(root: impl Into<PathBuf>, limits: AttachmentsConfig) -> Self {
        Self {
            root: root.into(),
            limits,
        }
    }

    /// The limits of files.
    pub fn limits(&self) -> &AttachmentsConfig {
        &self.limits
    }

    /// The largest size of a file in bytes.
    pub fn max_file_bytes(&self) -> u64 {
        mib(self.limits.max_file_mib)
    }

    /// The largest size of the files of a message in bytes.
    pub fn max_total_bytes(&self) -> u64 {
        mib(self.limits.max_total_mib)
    }

    /// Stores a file of `owner`.
    pub async fn put(&self, owner: &str, name: &str, bytes: Vec<u8>) -> Result<StoredFile, FileError> {
        let (folder, name) = (self.folder(owner), clean_name(name));
        let too_large = FileError::TooLarge {
            limit_mib: self.limits.max_file_mib,
        };
        let limit = self.max_file_bytes();
        let limits = self.limits.clone();
        blocking(move || {
            let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            if size > limit {
                return Err(too_large);
            }
            let format = Format::detect(&name, &bytes).map_err(|problem| FileError::Unsupported {
                reason: format!("file `{name}`: {problem}"),
            })?;
            let file = StoredFile {
                file_id: RandomIds.next().to_string(),
                name,
                mime: format.media_type().to_owned(),
                size,
                hash: hex(&Sha256::digest(&bytes)),
                created_at: Timestamp::now(),
            };
            create_private_folder(&folder)?;
            let _lock = lock(&folder)?;
            check_quota(&folder, &file, &limits)?;
            let content = content_path(&folder, &file.hash);
            if !content.exists() {
                write_whole(&content, &bytes)?;
            }
            write_whole(&record_path(&folder, &file.file_id), &json(&file)?)?;
            Ok(file)
        })
        .await
    }

    /// The files of `owner`, in the order of their upload.
    pub async fn list(&self, owner: &str) -> Result<Vec<StoredFile>, FileError> {
        let folder = self.folder(owner);
        blocking(move || list(&folder)).await
    }

    /// A file of `owner`.
    pub async fn get(&self, owner: &str, id: &str) -> Result<StoredFile, FileError> {
        let (folder, id) = (self.folder(owner), id.to_owned());
        blocking(move || record(&folder, &id)).await
    }

    /// Deletes a file of `owner`. Its bytes are deleted, too, if no message was sent with them.
    pub async fn delete(&self, owner: &str, id: &str) -> Result<(), FileError> {
        let (folder, id) = (self.folder(owner), id.to_owned());
        blocking(move || {
            let file = record(&folder, &id)?;
            let _lock = lock(&folder)?;
            remove(&record_path(&folder, &id))?;
            for entry in entries(&folder)? {
                let is_index = entry.starts_with(&format!("{id}.")) && has_extension(&entry, "index");
                if is_index {
                    remove(&folder.join(entry))?;
                }
            }
            let is_shared = list(&folder)?.iter().any(|other| other.hash == file.hash);
            if !is_shared && !sent_path(&folder, &file.hash).exists() {
                remove(&content_path(&folder, &file.hash))?;
            }
            Ok(())
        })
        .await
    }

    /// The bytes of `owner` with this hash.
    pub(super) async fn read(&self, owner: &str, hash: &str) -> Result<Vec<u8>, FileError> {
        let (folder, hash) = (self.folder(owner), hash.to_owned());
        blocking(move || {
            // The hash comes from an event, which may have been imported.
            if !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err(failed("the hash of a file is not hexadecimal"));
            }
            let bytes = fs::read(content_path(&folder, &hash))?;
            if hex(&Sha256::digest(&bytes)) == hash {
                Ok(bytes)
            } else {
                Err(failed("the stored content of a file has changed"))
            }
        })
        .await
    }

    /// Keeps the bytes when their file is deleted.
    pub(super) async fn mark_sent(&self, owner: &str, hash: &str) -> Result<(), FileError> {
        let path = sent_path(&self.folder(owner), hash);
        blocking(move || {
            if path.exists() {
                return Ok(());
            }
            write_whole(&path, b"")
        })
        .await
    }

    /// Reads the stored index of a file for the embedding model `model`.
    pub(super) async fn read_index<T: DeserializeOwned + Send + 'static>(
        &self,
        owner: &str,
        id: &str,
        model: &str,
    ) -> Option<T> {
        let path = index_path(&self.folder(owner), id, model);
        blocking(move || {
            let bytes = fs::read(path)?;
            serde_json::from_slice(&bytes).map_err(|error| failed(&error.to_string()))
        })
        .await
        .ok()
    }

    pub(super) async fn write_index<T: Serialize>(
        &self,
        owner: &str,
        id: &str,
        model: &str,
        index: &T,
    ) -> Result<(), FileError> {
        let (folder, id) = (self.folder(owner), id.to_owned());
        let (path, bytes) = (index_path(&folder, &id, model), json(index)?);
        blocking(move || {
            let _lock = lock(&folder)?;
            // It may have been deleted meanwhile.
            record(&folder, &id)?;
            write_whole(&path, &bytes)
        })
        .await
    }

    /// Users choose their names, so the folder's name is a hash.
    fn folder(&self, owner: &str) -> PathBuf {
        self.root.join(hex(&Sha256::digest(owner.as_bytes())))
    }
}

/// Refuses a file that is one too many of its user, or for whose bytes there is no space. What was sent counts, also after
/// it was deleted: it is kept.
fn check_quota(folder: &Path, file: &StoredFile, limits: &AttachmentsConfig) -> Result<(), FileError> {
    let mut count: u32 = 0;
    let mut bytes: u64 = 0;
    for entry in entries(folder)? {
        if has_extension(&entry, "json") {
            count = count.saturating_add(1);
        } else if has_extension(&entry, "content") {
            let about = fs::metadata(folder.join(&entry));
            bytes = bytes.saturating_add(about.map_or(0, |about| about.len()));
        }
    }
    if count >= limits.max_user_files {
        let limit = format!("{} files (`attachments.max_user_files`)", limits.max_user_files);
        return Err(FileError::Quota { limit });
    }
    let is_new = !content_path(folder, &file.hash).exists();
    if is_new && bytes.saturating_add(file.size) > mib(limits.max_user_mib) {
        let limit = format!("{} MiB (`attachments.max_user_mib`)", limits.max_user_mib);
        return Err(FileError::Quota { limit });
    }
    Ok(())
}

fn mib(count: u32) -> u64 {
    u64::from(count) << 20
}

/// The name without folders and characters that disturb a terminal or a prompt.
fn clean_name(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let clean: String = last
        .chars()
        .filter(|c| !c.is_control() && !is_invisible(*c))
        .collect();
    let clean = clean.trim();
    if clean.trim_matches('.').is_empty() {
        return "file".to_owned();
    }
    let (stem, extension) = match clean.rsplit_once('.') {
        Some((stem, extension)) if extension.len() <= 16 => (stem, format!(".{extension}")),
        _ => (clean, String::new()),
    };
    let end = stem.floor_char_boundary(MAX_NAME - extension.len());
    format!("{}{extension}", stem.get(..end).unwrap_or_default())
}

/// Characters that show text in another order than it is.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

fn record(folder: &Path, id: &str) -> Result<StoredFile, FileError> {
    let missing = || FileError::NotFound { id: id.to_owned() };
    if !is_file_id(id) {
        return Err(missing());
    }
    match fs::read(record_path(folder, id)) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| failed(&error.to_string())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(missing()),
        Err(error) => Err(error.into()),
    }
}

fn list(folder: &Path) -> Result<Vec<StoredFile>, FileError> {
    let mut files = Vec::new();
    for entry in entries(folder)? {
        let Some(id) = entry.strip_suffix(".json") else {
            continue;
        };
        match record(folder, id) {
            Ok(file) => files.push(file),
            // It was deleted meanwhile.
            Err(FileError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    files.sort_by(|a, b| (a.created_at, &a.file_id).cmp(&(b.created_at, &b.file_id)));
    Ok(files)
}

/// The names in a folder; none if it does not exist.
fn entries(folder: &Path) -> Result<Vec<String>, FileError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    entries
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect()
}

/// Ids become file names.
fn is_file_id(id: &str) -> bool {
    id.len() == 36 && id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

fn has_extension(name: &str, extension: &str) -> bool {
    Path::new(name).extension().is_some_and(|own| own == extension)
}

fn record_path(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.json"))
}

fn content_path(folder: &Path, hash: &str) -> PathBuf {
    folder.join(format!("{hash}.content"))
}

fn sent_path(folder: &Path, hash: &str) -> PathBuf {
    folder.join(format!("{hash}.sent"))
}

fn index_path(folder: &Path, id: &str, model: &str) -> PathBuf {
    let model = hex(&Sha256::digest(model.as_bytes()));
    folder.join(format!("{id}.{model}.index"))
}

/// Held while files of a user are written or deleted.
fn lock(folder: &Path) -> Result<File, FileError> {
    let file = private_file().open(folder.join("lock"))?;
    file.lock()?;
    Ok(file)
}

/// Writes a file that is either whole or absent, also after a power loss.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let temporary = path.with_extension(format!("{}.new", RandomIds.next()));
    let write = || {
        let mut file = private_file().create_new(true).open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        match path.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    };
    write().map_err(|error| {
        let _ = fs::remove_file(&temporary);
        error.into()
    })
}

fn remove(path: &Path) -> Result<(), FileError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

fn json(value: &impl Serialize) -> Result<Vec<u8>, FileError> {
    serde_json::to_vec(value).map_err(|error| failed(&error.to_string()))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FileError> + Send + 'static,
) -> Result<T, FileError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(failed(&error.to_string())))
}

#[cfg(test)]
mod tests {
    use super::clean_name;

    #[test]
    fn names_are_without_folders_and_control_characters() {
        for (name, clean) in [
            ("report.pdf", "report.pdf"),
            ("../../etc/passwd", "passwd"),
            ("C:\\temp\\a b.txt", "a b.txt"),
            ("a\u{1b}[2J\n\u{202e}b.txt", "a[2Jb.txt"),
            ("..", "file"),
            ("", "file"),
            ("dir/", "file"),
        ] {
            assert_eq!(clean_name(name), clean, "{name:?}");
        }
        let long = clean_name(&format!("{}.pdf", "é".repeat(300)));
        assert!(long.len() <= 200 && long.ends_with("é.pdf"), "{long}");
    }
}
