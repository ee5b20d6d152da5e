//! Converts files, hostile formats in a child process with limits on time, memory and output.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
};

use holodeck_model::io_reason;
use holodeck_process::{ChildEnv, ProcessSpec};
use tokio::{io::AsyncReadExt as _, sync::Semaphore};
use tokio_util::sync::CancellationToken;

use crate::{
    ConvertLimits, ConvertOptions, Converted, Document, DocumentError, Format, Picture, Problem,
    cache::{Cache, Key},
    child, convert,
};

/// Where hostile formats are converted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Isolation {
    /// In a child process per file, with limits: this program, with these arguments, calls
    /// [`answer_conversion`](crate::answer_conversion).
    Child {
        /// The program.
        program: PathBuf,
        /// Its arguments.
        args: Vec<OsString>,
    },
    /// In this process: for trusted files. No limit on time or memory applies.
    None,
}

impl Isolation {
    /// The `holodeck` command itself converts.
    pub fn by_command(program: impl Into<PathBuf>) -> Self {
        Self::Child {
            program: program.into(),
            args: vec!["internal".into(), "convert".into()],
        }
    }
}

/// Converts files, each format where that is safe. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Converter {
    isolation: Isolation,
    limits: ConvertLimits,
    cache: Option<Cache>,
    tesseract: Option<ProcessSpec>,
    /// Limits the child processes to the number of processors.
    room: Arc<Semaphore>,
}

impl Converter {
    /// A converter without a cache.
    pub fn new(isolation: Isolation) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            isolation,
            limits: ConvertLimits::default(),
            cache: None,
            tesseract: None,
            room: Arc::new(Semaphore::new(processors)),
        }
    }

    /// Caches conversions by child processes in this folder, by content.
    pub fn cache(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cache = Some(Cache::new(folder.into()));
        self
    }

    /// Also reads the text in images, with this program.
    pub fn tesseract(mut self, program: impl Into<PathBuf>, env: ChildEnv) -> Self {
        self.tesseract = Some(ProcessSpec::new(program, env).args(["stdin", "stdout"]));
        self
    }

    /// Sets the limits for one file.
    pub fn limits(mut self, limits: ConvertLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Converts a file.
    pub async fn convert_file(
        &self,
        path: &Path,
        options: &ConvertOptions,
        cancel: &CancellationToken,
    ) -> Result<Converted, DocumentError> {
        let name = path.display().to_string();
        let bytes = read(path, options.max_bytes).await;
        let bytes = bytes.map_err(|problem| DocumentError::new(&name, problem))?;
        self.convert_bytes(&name, bytes, options, cancel).await
    }

    /// Converts content from another source than a file. Errors contain `name`, whose extension counts as a file's.
    pub async fn convert_bytes(
        &self,
        name: &str,
        bytes: Vec<u8>,
        options: &ConvertOptions,
        cancel: &CancellationToken,
    ) -> Result<Converted, DocumentError> {
        let converted = self.converted(name, bytes, options, cancel).await;
        converted.map_err(|problem| DocumentError::new(name, problem))
    }

    async fn converted(
        &self,
        name: &str,
        bytes: Vec<u8>,
        options: &ConvertOptions,
        cancel: &CancellationToken,
    ) -> Result<Converted, Problem> {
        if cancel.is_cancelled() {
            return Err(Problem::Cancelled);
        }
        let ContentPlan {
            bytes,
            format,
            note,
            key,
        } = self.look(name, bytes, options).await?;
        let mut converted = match (format, &self.isolation, key) {
            (Format::Image(_), _, key) => {
                let mut picture = convert::picture(format, &bytes)?;
                if let (Some(tesseract), Some(key)) = (&self.tesseract, key) {
                    self.recognise(tesseract, &key, &mut picture, bytes, cancel)
                        .await?;
                }
                Converted::Image(picture)
            }
            (_, Isolation::Child { program, args }, Some(key)) => {
                let spec = ProcessSpec::new(program, ChildEnv::new()).args(args);
                Converted::Text(
                    self.convert_in_child(spec, &key, format, bytes, options, cancel)
                        .await?,
                )
            }
            _ => {
                let options = options.clone();
                blocking(move || convert::convert_as(format, &bytes, &options)).await??
            }
        };
        if let (Some(note), Converted::Text(document)) = (note, &mut converted) {
            document.notes.insert(0, note);
        }
        Ok(converted)
    }

    /// Determines how to handle a content. Large contents take a while.
    async fn look(
        &self,
        name: &str,
        bytes: Vec<u8>,
        options: &ConvertOptions,
    ) -> Result<ContentPlan, Problem> {
        let (name, options) = (name.to_owned(), options.clone());
        let recognises = self.tesseract.is_some();
        blocking(move || {
            let (format, note) = convert::checked(&name, &bytes, &options)?;
            let key = match format {
                Format::Image(_) => recognises.then(|| Key::of_text_in(&bytes)),
                _ => convert::is_hostile(format, &bytes).then(|| Key::of(format, &bytes, &options)),
            };
            Ok(ContentPlan {
                bytes,
                format,
                note,
                key,
            })
        })
        .await?
    }

    /// Converts in a child process, unless the cache has the result.
    async fn convert_in_child(
        &self,
        spec: ProcessSpec,
        key: &Key,
        format: Format,
        bytes: Vec<u8>,
        options: &ConvertOptions,
        cancel: &CancellationToken,
    ) -> Result<Document, Problem> {
        if let Some(document) = self.cached(key).await {
            return Ok(document);
        }
        let _room = self.room.acquire().await.map_err(|_closed| Problem::Cancelled)?;
        let document = child::convert_apart(spec, self.limits, format, bytes, options, cancel).await?;
        if let Some(cache) = &self.cache {
            cache.keep(key, &document).await;
        }
        Ok(document)
    }

    async fn recognise(
        &self,
        tesseract: &ProcessSpec,
        key: &Key,
        picture: &mut Picture,
        bytes: Vec<u8>,
        cancel: &CancellationToken,
    ) -> Result<(), Problem> {
        if let Some(document) = self.cached(key).await {
            picture.text = Some(document.text);
            return Ok(());
        }
        let _room = self.room.acquire().await.map_err(|_closed| Problem::Cancelled)?;
        match child::recognise(tesseract.clone(), self.limits, bytes, cancel).await {
            Ok(text) => {
                let document = convert::plain(text, Vec::new());
                if let Some(cache) = &self.cache {
                    cache.keep(key, &document).await;
                }
                picture.text = Some(document.text);
            }
            Err(Problem::Cancelled) => return Err(Problem::Cancelled),
            // The model can still see the image.
            Err(problem) => picture.notes.push(format!("its text can't be read: {problem}")),
        }
        Ok(())
    }

    async fn cached(&self, key: &Key) -> Option<Document> {
        self.cache.as_ref()?.get(key).await
    }
}

/// How to handle a content.
struct ContentPlan {
    bytes: Vec<u8>,
    format: Format,
    note: Option<String>,
    /// The cache key, if it needs another process.
    key: Option<Key>,
}

/// Runs slow work off the async threads.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.map_err(|error| Problem::Crashed(error.to_string()))
}

/// Reads a file; the size is checked before reading.
async fn read(path: &Path, limit: u64) -> Result<Vec<u8>, Problem> {
    let unreadable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => Problem::NotFound,
        _ => Problem::Unreadable(io_reason(&error)),
    };
    // Opening a pipe without a writer would block.
    let about = tokio::fs::metadata(path).await.map_err(unreadable)?;
    if !about.is_file() {
        let what = if about.is_dir() {
            "it is a folder"
        } else {
            "it is not a regular file"
        };
        return Err(Problem::Unreadable(what.to_owned()));
    }
    let size = about.len();
    if size > limit {
        return Err(Problem::TooLarge { size, limit });
    }
    let file = tokio::fs::File::open(path).await.map_err(unreadable)?;
    let mut bytes = Vec::new();
    // The file may grow meanwhile, so the length is checked again.
    file.take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .await
        .map_err(unreadable)?;
    Ok(bytes)
}
