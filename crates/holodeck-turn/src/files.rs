//! The files that go with a question.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use holodeck_backend_api::Image;
use holodeck_documents::{
    ConvertOptions, Converted, Converter, DocumentError, Fetcher, Format, HttpUrl, Picture, Source,
};
use holodeck_model::FileInput;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Reads the files of questions. Cheap to clone.
#[derive(Clone, Debug)]
pub struct FileReader {
    converter: Converter,
    timeout: Duration,
    web: Option<Web>,
}

/// How files of the web are got.
#[derive(Clone, Debug)]
struct Web {
    /// Keeps them, so that one that has not changed is not sent again.
    keeping: Fetcher,
    /// For files with `cache: false`.
    fresh: Fetcher,
}

/// A question with its files.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// What the model is asked: the text of the files, then the question.
    pub message: String,
    /// Pictures that go with it.
    pub images: Vec<Image>,
    /// What became of each file, for the run file.
    pub processed: Vec<Value>,
    /// Files that could not be read; then the question is not to be asked.
    pub problems: Vec<String>,
}

/// A file as it was read.
struct Read {
    text: String,
    image: Option<Image>,
    notes: Vec<String>,
}

impl FileReader {
    /// Reads with `converter`, each file within `timeout`.
    pub fn new(converter: Converter, timeout: Duration) -> Self {
        Self {
            converter,
            timeout,
            web: None,
        }
    }

    /// Gets files of the web too: with `keeping`, or with `fresh` where the YAML says `cache: false`.
    pub fn fetching(mut self, keeping: Fetcher, fresh: Fetcher) -> Self {
        self.web = Some(Web { keeping, fresh });
        self
    }

    /// The question `input` with `files`.
    pub async fn question(&self, input: &str, files: &[FileInput], cancel: &CancellationToken) -> Question {
        let mut question = Question {
            message: String::new(),
            images: Vec::new(),
            processed: Vec::new(),
            problems: Vec::new(),
        };
        for file in files {
            let started = Instant::now();
            let read = self.read(file, cancel).await;
            question.processed.push(processed(file, &read, started.elapsed()));
            match read {
                Ok(read) => question.add(file, read),
                Err(problem) => question.problems.push(problem),
            }
        }
        question.message.push_str(input);
        question
    }

    async fn read(&self, file: &FileInput, cancel: &CancellationToken) -> Result<Read, String> {
        let read = match (&file.path, &file.url) {
            (Some(path), _) => self.read_path(&path.path(), file, cancel).await,
            (None, Some(url)) => match Source::parse(url) {
                Ok(Source::Url(url)) => self.read_url(&url, file, cancel).await,
                Ok(Source::Files(path)) => self.read_path(Path::new(&path), file, cancel).await,
                Err(error) => Err(error.to_string()),
            },
            (None, None) => Err("it has neither `path` nor `url`".to_owned()),
        };
        read.map_err(|problem| format!("file `{}`: {problem}", name(file)))
    }

    async fn read_path(
        &self,
        path: &Path,
        file: &FileInput,
        cancel: &CancellationToken,
    ) -> Result<Read, String> {
        let options = options(file, None);
        let converting = self.converter.convert_file(path, &options, cancel);
        self.in_time(converting).await
    }

    async fn read_url(
        &self,
        url: &HttpUrl,
        file: &FileInput,
        cancel: &CancellationToken,
    ) -> Result<Read, String> {
        let Some(web) = &self.web else {
            return Err("nothing is fetched here".to_owned());
        };
        let fetcher = if file.cache == Some(false) {
            &web.fresh
        } else {
            &web.keeping
        };
        let fetched = fetcher
            .fetch(url, cancel)
            .await
            .map_err(|error| error.to_string())?;
        let options = options(file, fetched.format);
        let converting = self
            .converter
            .convert_bytes(&fetched.name, fetched.bytes, &options, cancel);
        self.in_time(converting).await
    }

    async fn in_time(
        &self,
        converting: impl Future<Output = Result<Converted, DocumentError>>,
    ) -> Result<Read, String> {
        match tokio::time::timeout(self.timeout, converting).await {
            Ok(Ok(converted)) => Ok(Read::of(converted)),
            Ok(Err(error)) => Err(error.problem.to_string()),
            Err(_) => Err(format!(
                "not read within {} s (`execution.file_timeout`)",
                self.timeout.as_secs_f64()
            )),
        }
    }
}

impl Question {
    fn add(&mut self, file: &FileInput, read: Read) {
        self.message.push_str("File: ");
        self.message.push_str(name(file));
        if let Some(description) = &file.description {
            for part in [" (", description, ")"] {
                self.message.push_str(part);
            }
        }
        self.message.push('\n');
        self.message.push_str(read.text.trim_end());
        self.message.push_str("\n\n");
        self.images.extend(read.image);
    }
}

impl Read {
    fn of(converted: Converted) -> Self {
        match converted {
            Converted::Text(document) => Self {
                text: document.text,
                image: None,
                notes: document.notes,
            },
            Converted::Image(Picture {
                format,
                base64,
                text,
                notes,
            }) => Self {
                text: text.unwrap_or_default(),
                image: Some(Image {
                    media_type: format.media_type().to_owned(),
                    base64: base64.into(),
                }),
                notes,
            },
        }
    }
}

fn options(file: &FileInput, format: Option<Format>) -> ConvertOptions {
    ConvertOptions {
        format,
        pages: file.pages.clone(),
        sheet: file.sheet.clone(),
        range: file.range.clone(),
        ..ConvertOptions::default()
    }
}

/// As the YAML names it.
fn name(file: &FileInput) -> &str {
    match (&file.path, &file.url) {
        (Some(path), _) => path.as_str(),
        (None, Some(url)) => url,
        (None, None) => "",
    }
}

/// As 0.7.1 writes it into the run file.
fn processed(file: &FileInput, read: &Result<Read, String>, took: Duration) -> Value {
    let place = if file.path.is_some() { "path" } else { "url" };
    let mut metadata = json!({ "type": file.file_type, place: name(file) });
    if let Some(fields) = metadata.as_object_mut() {
        if let Some(size) = file.path.as_ref().and_then(|path| size(&path.path())) {
            fields.insert("size_bytes".to_owned(), size.into());
        }
        if !file.pages.is_empty() {
            fields.insert("pages_extracted".to_owned(), json!(file.pages));
        }
        if let Some(sheet) = &file.sheet {
            fields.insert("sheet_extracted".to_owned(), sheet.as_str().into());
        }
        if let Some(range) = &file.range {
            fields.insert("range_extracted".to_owned(), range.as_str().into());
        }
        if let Some(notes) = read
            .as_ref()
            .ok()
            .map(|read| &read.notes)
            .filter(|notes| !notes.is_empty())
        {
            fields.insert("warning".to_owned(), notes.join("; ").into());
        }
    }
    let took = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    json!({
        "original": file,
        "markdown_content": read.as_ref().map(|read| read.text.as_str()).unwrap_or_default(),
        "metadata": metadata,
        "processing_time_ms": took,
        "error": read.as_ref().err(),
    })
}

fn size(path: &Path) -> Option<u64> {
    std::fs::metadata(path).ok().map(|about| about.len())
}
