//! Ingests files: converts them and splits them into chunks or records.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use holodeck_documents::{
    Chunk, ChunkOptions, ConvertOptions, Converter, Format, Place, RecordOptions, chunk, read_records,
};
use holodeck_model::{JsonMap, hex};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use super::{Content, Corpus, ListedSource, Piece};
use crate::{
    FileManifest, RetrievalError,
    manifest::{check_file, unreadable},
};

/// Files, converted and split.
#[derive(Clone, Debug)]
pub struct FileCorpus {
    files: BTreeMap<String, FileSource>,
    converter: Converter,
    convert: ConvertOptions,
    cutting: Cutting,
    manifest: Option<PathBuf>,
}

/// How files are split.
#[derive(Clone, Debug)]
pub enum Cutting {
    /// Into chunks of text.
    Chunks(ChunkOptions),
    /// Into records.
    Records(Box<RecordOptions>),
}

impl From<ChunkOptions> for Cutting {
    fn from(options: ChunkOptions) -> Self {
        Self::Chunks(options)
    }
}

impl From<RecordOptions> for Cutting {
    fn from(options: RecordOptions) -> Self {
        Self::Records(Box::new(options))
    }
}

/// Where the content of a source is.
#[derive(Clone, Debug)]
pub enum FileSource {
    /// In a file.
    Path(PathBuf),
    /// In memory, such as a download. The options' `format` helps if the name has no known extension.
    Bytes {
        /// The content.
        bytes: Arc<[u8]>,
        /// Conversion options, if they differ from those of the corpus.
        options: Box<ConvertOptions>,
    },
}

impl From<PathBuf> for FileSource {
    fn from(path: PathBuf) -> Self {
        Self::Path(path)
    }
}

impl From<&str> for FileSource {
    /// Text that is in no file.
    fn from(text: &str) -> Self {
        Self::Bytes {
            bytes: text.as_bytes().into(),
            options: Box::default(),
        }
    }
}

/// Increased when the same chunks produce different pieces.
const PIECES: u32 = 1;

impl FileCorpus {
    /// Files by name: paths relative to the agent's file.
    pub fn new(
        files: impl IntoIterator<Item = (String, FileSource)>,
        converter: Converter,
        convert: ConvertOptions,
        cutting: impl Into<Cutting>,
    ) -> Self {
        Self {
            files: files.into_iter().collect(),
            converter,
            convert,
            cutting: cutting.into(),
            manifest: None,
        }
    }

    /// Skips reading files that the [`FileManifest`] at `path` lists as unchanged.
    pub fn with_manifest(mut self, path: PathBuf) -> Self {
        self.manifest = Some(path);
        self
    }
}

#[async_trait]
impl Corpus for FileCorpus {
    fn describe(&self) -> String {
        let cutting = match &self.cutting {
            Cutting::Chunks(options) => options.describe(),
            Cutting::Records(options) => options.describe(),
        };
        format!("{cutting}, pieces v{PIECES}")
    }

    async fn list(&self, cancel: &CancellationToken) -> Result<Vec<ListedSource>, RetrievalError> {
        let files = self.files.clone();
        let most = self.convert.max_bytes;
        let cancel = cancel.clone();
        let manifest = self.manifest.clone();
        let listed = tokio::task::spawn_blocking(move || {
            let open = |path: PathBuf| FileManifest::open(&path, SystemTime::now());
            let mut manifest = manifest.map(open).unwrap_or_default();
            let mut listed = Vec::with_capacity(files.len());
            for (source, file) in files {
                if cancel.is_cancelled() {
                    return Err(RetrievalError::Cancelled);
                }
                let content = match &file {
                    FileSource::Path(path) => manifest.content(path, most).map(|file| file.digest.to_owned()),
                    FileSource::Bytes { bytes, .. } => Ok(hash(bytes)),
                };
                listed.push(ListedSource { source, content });
            }
            if let Err(error) = manifest.save() {
                // Without the manifest, the next run reads the files again.
                tracing::debug!(%error, "cannot store the digests of files");
            }
            Ok(listed)
        });
        listed.await.map_err(|_gone| RetrievalError::Cancelled)?
    }

    async fn read(&self, source: &str, cancel: &CancellationToken) -> Result<Content, String> {
        let file = self.files.get(source).ok_or("no such file")?;
        let (bytes, options) = match file {
            FileSource::Path(path) => (read_file(path, self.convert.max_bytes).await?, &self.convert),
            FileSource::Bytes { bytes, options } => (bytes.to_vec(), &**options),
        };
        match &self.cutting {
            Cutting::Chunks(cut) => self.chunks(source, bytes, options, cut, cancel).await,
            Cutting::Records(records) => {
                let format = options.format.or_else(|| Format::of_name(source));
                let format = format.ok_or("its extension is not a record format (CSV, JSON, JSON Lines)")?;
                let (source, records) = (source.to_owned(), records.clone());
                let read = tokio::task::spawn_blocking(move || content(&source, format, &bytes, &records));
                read.await
                    .map_err(|error| format!("reading its records crashed: {error}"))?
            }
        }
    }
}

impl FileCorpus {
    async fn chunks(
        &self,
        source: &str,
        bytes: Vec<u8>,
        options: &ConvertOptions,
        cut: &ChunkOptions,
        cancel: &CancellationToken,
    ) -> Result<Content, String> {
        let hash = hash(&bytes);
        let converted = self
            .converter
            .convert_bytes(source, bytes, options, cancel)
            .await
            .map_err(|error| error.problem.to_string())?;
        let document = converted
            .into_document()
            .ok_or("it is an image, and its text was not read")?;
        let cut = cut.clone();
        let content = tokio::task::spawn_blocking(move || {
            let pieces: Vec<Piece> = chunk(&document, &cut).into_iter().map(piece).collect();
            Content {
                hash,
                text: document.text.into(),
                pieces,
                notes: document.notes,
            }
        });
        content
            .await
            .map_err(|error| format!("splitting it crashed: {error}"))
    }
}

fn content(source: &str, format: Format, bytes: &[u8], options: &RecordOptions) -> Result<Content, String> {
    let read = read_records(source, format, bytes, options).map_err(|error| match error.at {
        Some(at) => format!("{at}: {}", error.problem),
        None => error.problem.to_string(),
    })?;
    let pieces = read.records.into_iter().map(|record| Piece {
        id: Some(record.id),
        text: record.text,
        lead: None,
        metadata: record.metadata,
    });
    Ok(Content {
        hash: hash(bytes),
        text: Arc::from(""),
        pieces: pieces.collect(),
        notes: read.notes,
    })
}

fn piece(chunk: Chunk) -> Piece {
    let mut metadata = JsonMap::new();
    let mut add = |key: &str, value: Value| {
        metadata.insert(key.to_owned(), value);
    };
    let lead = chunk
        .headings
        .last()
        .filter(|heading| !chunk.text.contains(heading.as_str()))
        .map(|_| chunk.headings.join(" > "));
    if !chunk.headings.is_empty() {
        add("headings", chunk.headings.into());
    }
    if let Some(section) = chunk.section {
        add("section", section.into());
    }
    match chunk.place {
        Some(Place::Page(page)) => add("page", page.into()),
        Some(Place::Slide(slide)) => add("slide", slide.into()),
        Some(Place::Sheet(sheet)) => add("sheet", sheet.into()),
        None => {}
    }
    add("start", chunk.range.start.into());
    add("end", chunk.range.end.into());
    if !chunk.definitions.is_empty() {
        let definitions = chunk.definitions.into_iter();
        let definitions: Vec<Value> = definitions
            .map(|definition| json!({"term": definition.term, "meaning": definition.meaning}))
            .collect();
        add("definitions", definitions.into());
    }
    if !chunk.references.is_empty() {
        add("references", chunk.references.into());
    }
    Piece {
        id: None,
        text: chunk.text,
        lead,
        metadata,
    }
}

async fn read_file(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let path = path.to_owned();
    let read = tokio::task::spawn_blocking(move || {
        let about = std::fs::metadata(&path).map_err(|error| unreadable(&error))?;
        check_file(&about, most)?;
        std::fs::read(&path).map_err(|error| unreadable(&error))
    });
    read.await.map_err(|error| error.to_string())?
}

fn hash(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}
