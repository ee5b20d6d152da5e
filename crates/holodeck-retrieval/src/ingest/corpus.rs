//! The contract of what can be ingested: sources that are cheap to list and read one by one.

use std::sync::Arc;

use async_trait::async_trait;
use holodeck_model::JsonMap;
use tokio_util::sync::CancellationToken;

use crate::RetrievalError;

/// The sources of an index: cheap to list, read one by one.
#[async_trait]
pub trait Corpus: Send + Sync {
    /// Everything besides its content that determines the passages of a source, in one line.
    fn describe(&self) -> String;

    /// Every source with a hash of its content.
    async fn list(&self, cancel: &CancellationToken) -> Result<Vec<ListedSource>, RetrievalError>;

    /// A source in pieces; the error is a lowercase reason without the source's name.
    async fn read(&self, source: &str, cancel: &CancellationToken) -> Result<Content, String>;
}

/// A source before it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSource {
    /// Its name, unique and the same in every run.
    pub source: String,
    /// A hash of its content, or why there is none.
    pub content: Result<String, String>,
}

/// A source after it was read.
#[derive(Clone, Debug, Default)]
pub struct Content {
    /// A hash of the content that was read, comparable to [`ListedSource::content`]; the source may have changed in
    /// between.
    pub hash: String,
    /// The full text, for context writers; empty if there is none.
    pub text: Arc<str>,
    /// The searchable pieces.
    pub pieces: Vec<Piece>,
    /// Notices for the user; lowercase, no full stop.
    pub notes: Vec<String>,
}

/// A piece of a source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Piece {
    /// The source's own id for the piece; unique in its source.
    pub id: Option<String>,
    /// The text that is shown.
    pub text: String,
    /// Text that precedes it when it is embedded, such as the headings around it.
    pub lead: Option<String>,
    /// As in [`Passage::metadata`](crate::Passage::metadata).
    pub metadata: JsonMap,
}
