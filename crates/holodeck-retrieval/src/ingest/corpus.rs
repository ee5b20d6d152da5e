use std::sync::Arc;

use async_trait::async_trait;
use holodeck_model::JsonMap;
use tokio_util::sync::CancellationToken;

use crate::RetrievalError;

/// What an index is made of: sources that can be listed cheaply and read one by one.
#[async_trait]
pub trait Corpus: Send + Sync {
    /// All that decides what comes of a source besides its content, in one line.
    fn describe(&self) -> String;

    /// Every source with a hash of its content.
    async fn list(&self, cancel: &CancellationToken) -> Result<Vec<Listed>, RetrievalError>;

    /// A source in pieces; the error says what is wrong with it, lower case, without its name.
    async fn read(&self, source: &str, cancel: &CancellationToken) -> Result<Content, String>;
}

/// A source before it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name, unique and the same in every run.
    pub source: String,
    /// A hash of its content, or why there is none.
    pub content: Result<String, String>,
}

/// A source after it was read.
#[derive(Clone, Debug, Default)]
pub struct Content {
    /// A hash of what was read, as [`Listed::content`]; it may have changed in between.
    pub hash: String,
    /// The text of the whole, for those who write contexts; empty where there is none.
    pub text: Arc<str>,
    /// What can be found.
    pub pieces: Vec<Piece>,
    /// What a person should know; lower case, no full stop.
    pub notes: Vec<String>,
}

/// A piece of a source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Piece {
    /// What the source itself calls it; unique in its source.
    pub id: Option<String>,
    /// As it is shown.
    pub text: String,
    /// What is put before it when it is embedded, such as the headings around it.
    pub lead: Option<String>,
    /// As in [`Passage::metadata`](crate::Passage::metadata).
    pub metadata: JsonMap,
}
