use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use holodeck_documents::{
    Chunk, ChunkOptions, ConvertOptions, Converter, Format, Place, RecordOptions, chunk, read_records,
};
use holodeck_model::JsonMap;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use super::{Content, Corpus, Listed, Piece, prepare::hex};
use crate::RetrievalError;

/// Files, converted and cut up.
#[derive(Clone, Debug)]
pub struct FileCorpus {
    files: BTreeMap<String, FileSource>,
    converter: Converter,
    convert: ConvertOptions,
    cutting: Cutting,
}

/// What files are cut up into.
#[derive(Clone, Debug)]
pub enum Cutting {
    /// Chunks of their text.
    Chunks(ChunkOptions),
    /// Their records.
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
    /// Here, got otherwise: from a URL. Its name, if it tells no format, is helped by the options' `format`.
    Bytes {
        /// The content.
        bytes: Arc<[u8]>,
        /// How it is converted, if not as all others.
        options: Box<ConvertOptions>,
    },
}

/// Raised when the same chunks become other pieces.
const PIECES: u32 = 1;

impl FileCorpus {
    /// Files by the names they are known by: paths relative to the agent's file.
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
        }
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

    async fn list(&self, cancel: &CancellationToken) -> Result<Vec<Listed>, RetrievalError> {
        let files = self.files.clone();
        let most = self.convert.max_bytes;
        let cancel = cancel.clone();
        let listed = tokio::task::spawn_blocking(move || {
            let mut listed = Vec::with_capacity(files.len());
            for (source, file) in files {
                if cancel.is_cancelled() {
                    return Err(RetrievalError::Cancelled);
                }
                let content = match &file {
                    FileSource::Path(path) => hash_file(path, most),
                    FileSource::Bytes { bytes, .. } => Ok(hash(bytes)),
                };
                listed.push(Listed { source, content });
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
                let format = format.ok_or("its name tells no format that has records")?;
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
            .ok_or("it is a picture, and the text in it was not read")?;
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
            .map_err(|error| format!("cutting it up crashed: {error}"))
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
        check_file(&path, most)?;
        std::fs::read(&path).map_err(|error| unreadable(&error))
    });
    read.await.map_err(|error| error.to_string())?
}

fn hash_file(path: &Path, most: u64) -> Result<String, String> {
    check_file(path, most)?;
    let mut file = std::fs::File::open(path).map_err(|error| unreadable(&error))?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 256 * 1024];
    loop {
        match std::io::Read::read(&mut file, &mut buffer) {
            Ok(0) => return Ok(hex(&hash.finalize())),
            Ok(count) => hash.update(buffer.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(unreadable(&error)),
        }
    }
}

/// A pipe without a writer would be waited for, and a file that is too large is not worth a look.
fn check_file(path: &Path, most: u64) -> Result<(), String> {
    let about = std::fs::metadata(path).map_err(|error| unreadable(&error))?;
    if !about.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    if about.len() > most {
        return Err(format!(
            "it has {} bytes, more than the {most} allowed",
            about.len()
        ));
    }
    Ok(())
}

fn unreadable(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file".to_owned(),
        _ => format!("can't be read: {error}"),
    }
}

fn hash(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}
