//! Records and replays how similar texts are to a message, so that a replay needs no embedding model.

use std::sync::Arc;

use async_trait::async_trait;
use holodeck_backend_api::{BackendError, Compared, ModelRequest, TextSimilarity};
use holodeck_model::{Redactor, Spent};
use serde_json::json;
use tokio::time::Instant;

use crate::{
    Cassette,
    entry::SIMILARITY,
    recorder::Tape,
    replayer::{NoAnswer, ReplayCursor},
};

/// Records what another one computes.
pub struct RecordedSimilarity {
    similarity: Arc<dyn TextSimilarity>,
    tape: Arc<Tape>,
}

impl RecordedSimilarity {
    /// Records on `tape` what `similarity` computes.
    pub fn new(similarity: Arc<dyn TextSimilarity>, tape: Arc<Tape>) -> Self {
        Self { similarity, tape }
    }
}

#[async_trait]
impl TextSimilarity for RecordedSimilarity {
    fn name(&self) -> &str {
        self.similarity.name()
    }

    fn is_local(&self) -> bool {
        self.similarity.is_local()
    }

    async fn compare(&self, texts: &[String], query: &str) -> Result<Compared, BackendError> {
        let started = Instant::now();
        let compared = self.similarity.compare(texts, query).await?;
        let request = request(self.name(), texts, query);
        self.tape
            .record_value(&request, &compared.cosines, compared.spent.tokens, started);
        Ok(compared)
    }
}

/// Returns what was recorded; nothing is computed again.
pub struct ReplayedSimilarity {
    cursor: ReplayCursor,
    name: String,
}

impl ReplayedSimilarity {
    /// Replays what the model of this name computed in `cassette`.
    pub fn new(cassette: Arc<Cassette>, redactor: Arc<Redactor>, name: String) -> Self {
        Self {
            cursor: ReplayCursor::new(cassette, redactor),
            name,
        }
    }
}

#[async_trait]
impl TextSimilarity for ReplayedSimilarity {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_local(&self) -> bool {
        true
    }

    async fn compare(&self, texts: &[String], query: &str) -> Result<Compared, BackendError> {
        let miss = |message: String| BackendError::replay_miss(message);
        match self.cursor.next(&request(&self.name, texts, query)) {
            Ok(entry) => {
                let cosines: Vec<i64> =
                    serde_json::from_str(&entry.response.text).map_err(|error| miss(error.to_string()))?;
                if cosines.len() == texts.len() {
                    let spent = Spent {
                        calls: 1,
                        tokens: entry.response.usage,
                        cost_usd: None,
                    };
                    return Ok(Compared { cosines, spent });
                }
                Err(miss(format!(
                    "`{}` holds {} similarities to {} texts; record again",
                    self.cursor.cassette.path().display(),
                    cosines.len(),
                    texts.len()
                )))
            }
            Err(NoAnswer::Cassette(error)) => Err(miss(error.to_string())),
            Err(NoAnswer::Miss(_)) => Err(miss(format!(
                "`{}` holds no answer of `{}` about the message {query:?}, with the agents as they are now; record again",
                self.cursor.cassette.path().display(),
                self.name
            ))),
        }
    }
}

fn request(name: &str, texts: &[String], query: &str) -> ModelRequest {
    ModelRequest {
        provider: SIMILARITY.to_owned(),
        model: name.to_owned(),
        body: json!({"texts": texts, "query": query}).into(),
        unit: None,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::{RecordMode, entry::Response};
    use holodeck_model::TokenUsage;

    /// As similar as a text is long; one similarity too many for an empty question.
    struct Live;

    #[async_trait]
    impl TextSimilarity for Live {
        fn name(&self) -> &'static str {
            "lengths"
        }

        fn is_local(&self) -> bool {
            false
        }

        async fn compare(&self, texts: &[String], query: &str) -> Result<Compared, BackendError> {
            let extra = query.is_empty().then_some(7);
            let lengths = texts.iter().map(|text| i64::try_from(text.len()).unwrap());
            let tokens = u64::try_from(query.len()).unwrap();
            Ok(Compared {
                cosines: lengths.chain(extra).collect(),
                spent: Spent {
                    calls: 1,
                    tokens: Some(TokenUsage::new(tokens, 0)),
                    cost_usd: None,
                },
            })
        }
    }

    #[tokio::test]
    async fn recorded_similarities_are_replayed_and_others_miss() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.jsonl");
        let redactor = Arc::new(Redactor::new(["hunter2-secret".to_owned()]));
        let tape = Tape::create(&path, Arc::clone(&redactor)).unwrap();
        let recorded = RecordedSimilarity::new(Arc::new(Live), Arc::clone(&tape));
        let texts = ["a".to_owned(), "bcd".to_owned()];
        let query = "of hunter2-secret";
        let live = recorded.compare(&texts, query).await.unwrap();
        assert_eq!(live.cosines, [1, 3]);
        recorded.compare(&texts, "").await.unwrap();
        let model = ModelRequest {
            provider: "openai".to_owned(),
            model: "m".to_owned(),
            body: json!({}).into(),
            unit: None,
        };
        tape.record(&model, Response::default(), 1);
        // Similarities are no answers of a model.
        assert_eq!(tape.finish(RecordMode::Replace).unwrap(), 1);
        assert!(!std::fs::read_to_string(&path).unwrap().contains("hunter2"));
        let replayed = |name: &str| {
            let cassette = Arc::new(Cassette::open(&path).unwrap());
            ReplayedSimilarity::new(cassette, Arc::clone(&redactor), name.to_owned())
        };
        assert_eq!(replayed("lengths").compare(&texts, query).await.unwrap(), live);
        let turned = ["bcd".to_owned(), "a".to_owned()];
        let missed = [
            replayed("lengths").compare(&texts, "another").await,
            replayed("lengths").compare(&turned, query).await,
            replayed("lengths").compare(&texts[..1], query).await,
            replayed("others").compare(&texts, query).await,
            // Not as many as texts: never taken for a selection.
            replayed("lengths").compare(&texts, "").await,
        ];
        for missed in missed {
            assert!(matches!(missed, Err(BackendError::ReplayMiss(_))), "{missed:?}");
        }
    }
}
