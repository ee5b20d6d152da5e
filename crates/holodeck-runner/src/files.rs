//! The files that go with a question.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use holodeck_backend_api::Image;
use holodeck_documents::{ConvertOptions, Converted, Converter, Picture};
use holodeck_model::FileInput;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Reads the files of questions. Cheap to clone.
#[derive(Clone, Debug)]
pub struct FileReader {
    converter: Converter,
    timeout: Duration,
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
        Self { converter, timeout }
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
        let Some(path) = &file.path else {
            return Err(format!("file {}: only paths are read yet", name(file)));
        };
        let cancel = cancel.child_token();
        let _stop = cancel.clone().drop_guard();
        let path = path.path();
        let options = options(file);
        let converting = self.converter.convert_file(&path, &options, &cancel);
        match tokio::time::timeout(self.timeout, converting).await {
            Ok(Ok(converted)) => Ok(Read::of(converted)),
            Ok(Err(error)) => Err(format!("file `{}`: {}", name(file), error.problem)),
            Err(_) => Err(format!(
                "file `{}`: not read within {} s (`execution.file_timeout`)",
                name(file),
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
            self.message.push_str(&format!(" ({description})"));
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

fn options(file: &FileInput) -> ConvertOptions {
    ConvertOptions {
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
    let mut metadata = json!({ "type": file.file_type, "path": name(file) });
    if let (Some(path), Some(fields)) = (&file.path, metadata.as_object_mut()) {
        if let Some(size) = size(&path.path()) {
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
