//! Adds to each chunk a short description of its place in the document, written by a model.

use std::fmt::Write as _;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::{
    RetrievalError,
    cache::{CacheKey, CachedKind, ModelCache},
};

/// Describes in a sentence or two where a chunk belongs in its document. Implemented by whatever calls a model.
#[async_trait]
pub trait ContextWriter: Send + Sync {
    /// The model, in one line: contexts of different models are cached separately.
    fn id(&self) -> String;

    /// The model's answer to [`ContextRequest::prompt`], at most about `max_tokens` long. An empty answer is an error.
    async fn write(
        &self,
        request: &ContextRequest<'_>,
        cancel: &CancellationToken,
    ) -> Result<String, RetrievalError>;
}

/// A chunk that needs a context.
#[derive(Clone, Copy, Debug)]
pub struct ContextRequest<'a> {
    /// Name of the document.
    pub source: &'a str,
    /// The whole document.
    pub document: &'a str,
    /// The chunk.
    pub chunk: &'a str,
    /// Maximum length of the context in tokens.
    pub max_tokens: usize,
}

/// Increased whenever the prompt changes, because the cached contexts then differ.
const PROMPT: u32 = 1;
/// Bytes of a document's beginning that the model receives, about 6,000 tokens; the cost of every chunk grows with it.
const HEAD_BYTES: usize = 24 * 1024;
/// A token is rarely longer; longer output of the model is cut.
const BYTES_PER_TOKEN: usize = 8;

impl<'a> ContextRequest<'a> {
    /// The prompt for the model. Its first part is the same for every chunk of a document, so that servers can cache
    /// the prefix.
    pub fn prompt(&self) -> String {
        let head = self.head();
        let whole = if head.len() < self.document.len() {
            " (its beginning)"
        } else {
            ""
        };
        let words = self.max_tokens * 3 / 4;
        let mut prompt = String::new();
        let _ = write!(
            prompt,
            "The document `{}`{whole}:\n<document>\n{head}\n</document>\n\n\
             One passage of it:\n<passage>\n{}\n</passage>\n\n\
             The passage will be found by a search without the rest of the document. In one or two sentences and at \
             most {words} words, in the passage's language, tell what a reader needs in order to place it: which \
             document and section it belongs to, and whom or what its pronouns and abbreviations stand for. Take \
             everything from the document, and answer with these sentences only.",
            self.source, self.chunk,
        );
        prompt
    }

    /// The document's beginning.
    fn head(&self) -> &'a str {
        let end = self.document.floor_char_boundary(HEAD_BYTES);
        self.document.get(..end).unwrap_or(self.document)
    }
}

/// Writes contexts with bounded concurrency and caches them.
#[derive(Clone)]
pub struct Contexts {
    writer: Arc<dyn ContextWriter>,
    max_tokens: usize,
    room: Arc<Semaphore>,
    concurrency: usize,
    cache: Option<ModelCache>,
}

impl Contexts {
    /// Contexts of at most `max_tokens`, written `concurrency` at a time.
    pub fn new(writer: Arc<dyn ContextWriter>, max_tokens: usize, concurrency: usize) -> Self {
        let concurrency = concurrency.max(1);
        Self {
            writer,
            max_tokens,
            room: Arc::new(Semaphore::new(concurrency)),
            concurrency,
            cache: None,
        }
    }

    /// Caches contexts in `cache`.
    pub fn cached(mut self, cache: ModelCache) -> Self {
        self.cache = Some(cache);
        self
    }

    pub(crate) fn concurrency(&self) -> usize {
        self.concurrency
    }

    /// Everything that determines a context, in one line.
    pub(crate) fn describe(&self) -> String {
        format!(
            "context by {}, {} tokens, prompt {PROMPT}",
            self.writer.id(),
            self.max_tokens
        )
    }

    pub(crate) async fn write(
        &self,
        source: &str,
        document: &str,
        chunk: &str,
        cancel: &CancellationToken,
    ) -> Result<String, RetrievalError> {
        let request = ContextRequest {
            source,
            document,
            chunk,
            max_tokens: self.max_tokens,
        };
        // Only the part of the document that the model receives, and not its name: neither an edit further down nor a
        // new name costs anything.
        let key = CacheKey::of(
            CachedKind::Context,
            &[
                b"context",
                self.describe().as_bytes(),
                request.head().as_bytes(),
                chunk.as_bytes(),
            ],
        );
        if let Some(cache) = &self.cache
            && let [Some(kept)] = cache.get(vec![key]).await?.as_slice()
            && let Ok(kept) = String::from_utf8(kept.clone())
        {
            return Ok(kept);
        }
        // The semaphore is never closed.
        let _room = self
            .room
            .acquire()
            .await
            .map_err(|_closed| RetrievalError::Cancelled)?;
        let written = cancel
            .run_until_cancelled(self.writer.write(&request, cancel))
            .await
            .unwrap_or(Err(RetrievalError::Cancelled))?;
        let context = self.clean(&written);
        if context.is_empty() {
            return Err(RetrievalError::Context {
                writer: self.writer.id(),
                reason: "the answer is empty".into(),
            });
        }
        if let Some(cache) = &self.cache {
            cache.put(vec![(key, context.as_bytes().to_vec())]).await?;
        }
        Ok(context)
    }

    /// Reduces the answer to one line of bounded length.
    fn clean(&self, written: &str) -> String {
        let mut line = written.split_whitespace().collect::<Vec<_>>().join(" ");
        let most = line.floor_char_boundary(self.max_tokens.saturating_mul(BYTES_PER_TOKEN));
        if most < line.len() {
            let end = line
                .get(..most)
                .and_then(|start| start.rfind(' '))
                .unwrap_or(most);
            line.truncate(end);
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prompt_names_everything_and_shows_a_long_document_in_part() {
        let request = ContextRequest {
            source: "law.md",
            document: "# Act\n\nSection 1. It applies to ships.",
            chunk: "It applies to ships.",
            max_tokens: 100,
        };
        insta::assert_snapshot!(request.prompt());
        let long = "ä".repeat(HEAD_BYTES);
        let prompt = ContextRequest {
            document: &long,
            ..request
        }
        .prompt();
        assert!(prompt.starts_with("The document `law.md` (its beginning):"));
        assert!(prompt.len() < HEAD_BYTES + 1024);
    }

    struct Fixed(&'static str);

    #[async_trait]
    impl ContextWriter for Fixed {
        fn id(&self) -> String {
            "fixed".to_owned()
        }

        async fn write(
            &self,
            _request: &ContextRequest<'_>,
            _cancel: &CancellationToken,
        ) -> Result<String, RetrievalError> {
            Ok(self.0.to_owned())
        }
    }

    async fn written(answer: &'static str) -> Result<String, RetrievalError> {
        let contexts = Contexts::new(Arc::new(Fixed(answer)), 2, 1);
        contexts.write("s", "d", "c", &CancellationToken::new()).await
    }

    #[tokio::test]
    async fn an_answer_becomes_one_line_of_bounded_length() {
        assert_eq!(written(" one\n\ntwo ").await.unwrap(), "one two");
        assert_eq!(written("one two three four five").await.unwrap(), "one two three");
        let error = written(" \n").await.unwrap_err();
        assert_eq!(error.to_string(), "context by fixed: the answer is empty");
    }
}
