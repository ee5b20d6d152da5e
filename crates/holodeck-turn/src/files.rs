//! Reads the files attached to a question and adds their content to the message. An unreadable file prevents the
//! question.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use holodeck_backend_api::Image;
use holodeck_documents::{
    ConvertOptions, Converted, Converter, DocumentError, Fetcher, HttpUrl, Picture, Source,
};
use holodeck_model::FileInput;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Reads the files attached to questions. Cheap to clone.
#[derive(Clone, Debug)]
pub struct FileReader {
    converter: Converter,
    timeout: Duration,
    web: Option<Web>,
}

/// Fetches files from the web.
#[derive(Clone, Debug)]
struct Web {
    /// Caches files, so that unchanged ones are not downloaded again.
    caching: Fetcher,
    /// For files with `cache: false`.
    fresh: Fetcher,
}

/// A question with its files.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The message for the model: the text of the files, then the question.
    pub message: String,
    /// Images attached to the message.
    pub images: Vec<Image>,
    /// How each file was processed, for the run file.
    pub processed: Vec<Value>,
    /// Files that could not be read; if there are any, the question must not be sent.
    pub problems: Vec<String>,
}

/// The content of a file as a model gets it.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct FileContent {
    /// The text; of an image, its description if it has one.
    pub text: String,
    /// The image.
    pub image: Option<Image>,
    /// Notices about content that the conversion left out.
    pub notes: Vec<String>,
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

    /// Also fetches files from the web: with `caching`, or with `fresh` where the YAML has `cache: false`.
    pub fn with_fetchers(mut self, caching: Fetcher, fresh: Fetcher) -> Self {
        self.web = Some(Web { caching, fresh });
        self
    }

    /// Builds the question `input` with `files`.
    pub async fn build_question(
        &self,
        input: &str,
        files: &[FileInput],
        cancel: &CancellationToken,
    ) -> Question {
        let mut question = Question {
            message: String::new(),
            images: Vec::new(),
            processed: Vec::new(),
            problems: Vec::new(),
        };
        for file in files {
            let started = Instant::now();
            let content = self.read(file, cancel).await;
            let processed = describe_file(file, &content, started.elapsed());
            question.processed.push(processed);
            match content {
                Ok(content) => question.add(file, content),
                Err(problem) => question.problems.push(problem),
            }
        }
        question.message.push_str(input);
        question
    }

    /// Reads content that is not in a file of the YAML; the error says why it can't be read.
    pub async fn read_bytes(
        &self,
        name: &str,
        bytes: Vec<u8>,
        cancel: &CancellationToken,
    ) -> Result<FileContent, String> {
        let options = ConvertOptions::default();
        let converting = self.converter.convert_bytes(name, bytes, &options, cancel);
        self.in_time(converting).await
    }

    async fn read(&self, file: &FileInput, cancel: &CancellationToken) -> Result<FileContent, String> {
        let content = match (&file.path, &file.url) {
            (Some(path), _) => self.read_path(&path.path(), file, cancel).await,
            (None, Some(url)) => match Source::parse(url) {
                Ok(Source::Url(url)) => self.read_url(&url, file, cancel).await,
                Ok(Source::Files(path)) => self.read_path(Path::new(&path), file, cancel).await,
                Err(error) => Err(error.to_string()),
            },
            (None, None) => Err("it has neither `path` nor `url`".to_owned()),
        };
        content.map_err(|problem| format!("file `{}`: {problem}", name(file)))
    }

    async fn read_path(
        &self,
        path: &Path,
        file: &FileInput,
        cancel: &CancellationToken,
    ) -> Result<FileContent, String> {
        let options = options(file);
        let converting = self.converter.convert_file(path, &options, cancel);
        self.in_time(converting).await
    }

    async fn read_url(
        &self,
        url: &HttpUrl,
        file: &FileInput,
        cancel: &CancellationToken,
    ) -> Result<FileContent, String> {
        let Some(web) = &self.web else {
            return Err("fetching files from URLs is not enabled".to_owned());
        };
        let fetcher = if file.cache == Some(false) {
            &web.fresh
        } else {
            &web.caching
        };
        let fetched = fetcher
            .fetch(url, cancel)
            .await
            .map_err(|error| error.to_string())?;
        let options = ConvertOptions {
            format: fetched.format,
            charset: fetched.charset,
            ..options(file)
        };
        let converting = self
            .converter
            .convert_bytes(&fetched.name, fetched.bytes, &options, cancel);
        self.in_time(converting).await
    }

    async fn in_time(
        &self,
        converting: impl Future<Output = Result<Converted, DocumentError>>,
    ) -> Result<FileContent, String> {
        match tokio::time::timeout(self.timeout, converting).await {
            Ok(Ok(converted)) => Ok(FileContent::of(converted)),
            Ok(Err(error)) => Err(error.problem.to_string()),
            Err(_) => Err(format!(
                "not read within {} s (`execution.file_timeout`)",
                self.timeout.as_secs_f64()
            )),
        }
    }
}

impl Question {
    fn add(&mut self, file: &FileInput, content: FileContent) {
        self.message.push_str("File: ");
        self.message.push_str(name(file));
        if let Some(description) = &file.description {
            for part in [" (", description, ")"] {
                self.message.push_str(part);
            }
        }
        self.message.push('\n');
        self.message.push_str(content.text.trim_end());
        self.message.push_str("\n\n");
        self.images.extend(content.image);
    }
}

impl FileContent {
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

fn options(file: &FileInput) -> ConvertOptions {
    ConvertOptions {
        pages: file.pages.clone(),
        sheet: file.sheet.clone(),
        range: file.range.clone(),
        ..ConvertOptions::default()
    }
}

/// The file as the YAML names it.
fn name(file: &FileInput) -> &str {
    match (&file.path, &file.url) {
        (Some(path), _) => path.as_str(),
        (None, Some(url)) => url,
        (None, None) => "",
    }
}

/// Describes a file in the run file, in the format of 0.7.1.
fn describe_file(file: &FileInput, content: &Result<FileContent, String>, elapsed: Duration) -> Value {
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
        if let Some(notes) = content
            .as_ref()
            .ok()
            .map(|content| &content.notes)
            .filter(|notes| !notes.is_empty())
        {
            fields.insert("warning".to_owned(), notes.join("; ").into());
        }
    }
    let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
    json!({
        "original": file,
        "markdown_content": content.as_ref().map(|content| content.text.as_str()).unwrap_or_default(),
        "metadata": metadata,
        "processing_time_ms": elapsed_ms,
        "error": content.as_ref().err(),
    })
}

fn size(path: &Path) -> Option<u64> {
    std::fs::metadata(path).ok().map(|metadata| metadata.len())
}
