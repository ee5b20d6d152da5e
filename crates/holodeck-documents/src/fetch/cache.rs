//! Downloaded files and the validators that detect changes.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use holodeck_http::{HttpUrl, Response};
use holodeck_model::{create_private_folder, hex, private_file};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::FetchError;

/// Two files of a folder: the content and its metadata. URLs may contain secrets, so only their hashes are stored.
#[derive(Debug)]
pub(super) struct Cache {
    content: PathBuf,
    about: PathBuf,
    max_bytes: u64,
}

/// A cached file.
#[derive(Clone, Debug)]
pub(super) struct CachedFile {
    pub(super) about: About,
    pub(super) bytes: Vec<u8>,
}

/// Metadata of a file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct About {
    /// Hash of the URL that sent it.
    url: String,
    /// Hash of its content.
    content: String,
    pub(super) media_type: Option<String>,
    pub(super) etag: Option<String>,
    pub(super) last_modified: Option<String>,
}

impl CachedFile {
    /// Reads the metadata from the headers of an answer.
    pub(super) fn of(url: &HttpUrl, answer: &Response) -> Self {
        let header = |name: &str| answer.header(name).map(str::to_owned);
        let about = About {
            url: hash(url.exposed().as_bytes()),
            content: String::new(),
            media_type: header("content-type"),
            etag: header("etag"),
            last_modified: header("last-modified"),
        };
        let bytes = Vec::new();
        Self { about, bytes }
    }

    pub(super) fn with(mut self, bytes: Vec<u8>) -> Self {
        self.about.content = hash(&bytes);
        self.bytes = bytes;
        self
    }

    pub(super) fn is_of(&self, url: &HttpUrl) -> bool {
        self.about.url == hash(url.exposed().as_bytes())
    }
}

impl Cache {
    pub(super) fn new(folder: &Path, url: &HttpUrl, max_bytes: u64) -> Self {
        let key = hash(url.exposed().as_bytes());
        Self {
            content: folder.join(format!("{key}.content")),
            about: folder.join(format!("{key}.json")),
            max_bytes,
        }
    }

    /// A complete entry with a validator. Anything else is downloaded again.
    pub(super) async fn get(&self) -> Option<CachedFile> {
        let (content, about, most) = (self.content.clone(), self.about.clone(), self.max_bytes);
        let read = tokio::task::spawn_blocking(move || {
            let about: About = serde_json::from_slice(&fs::read(about).ok()?).ok()?;
            if fs::metadata(&content).ok()?.len() > most {
                return None;
            }
            let bytes = fs::read(content).ok()?;
            let comparable = about.etag.is_some() || about.last_modified.is_some();
            (comparable && about.content == hash(&bytes)).then_some(CachedFile { about, bytes })
        });
        read.await.ok().flatten()
    }

    /// Stores a file and returns it.
    pub(super) async fn keep(&self, kept: CachedFile) -> Result<CachedFile, FetchError> {
        let (content, about) = (self.content.clone(), self.about.clone());
        let written = tokio::task::spawn_blocking(move || {
            let json = serde_json::to_vec(&kept.about)?;
            // The content first: without metadata it is ignored.
            write(&content, &kept.bytes)?;
            write(&about, &json)?;
            Ok(kept)
        });
        let written = written.await.unwrap_or_else(|error| Err(io::Error::other(error)));
        written.map_err(|source| FetchError::Cache {
            path: self.content.clone(),
            source,
        })
    }
}

/// Writes a file atomically.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    if let Some(folder) = path.parent() {
        create_private_folder(folder)?;
    }
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let part = path.with_extension(format!("{}-{number}.part", std::process::id()));
    let opened = private_file().truncate(true).open(&part);
    let written = opened.and_then(|mut file| file.write_all(bytes));
    let written = written.and_then(|()| fs::rename(&part, path));
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written
}

fn hash(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}
