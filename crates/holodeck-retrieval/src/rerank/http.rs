//! Reranks through a `/rerank` endpoint. A text without a score is an error.

use async_trait::async_trait;
use holodeck_backend_api::Explanation;
use holodeck_http::HttpClient;
use holodeck_model::{EndpointConfig, Env, ModelConfig, Provider};
use serde_json::{Value, json};

use super::Reranker;
use crate::{
    RetrievalError,
    endpoint::{Endpoint, EndpointOptions, Failure},
};

/// A reranking model behind a `/rerank` endpoint, as Cohere, Jina and vLLM serve it.
#[derive(Debug)]
pub struct HttpReranker {
    endpoint: Endpoint,
    model: String,
}

impl HttpReranker {
    /// The reranker that `reranker_model` of the YAML names. Its key is only read from the YAML: keys in the
    /// environment belong to other servers.
    pub fn new(
        config: &ModelConfig,
        client: HttpClient,
        options: &EndpointOptions,
    ) -> Result<Self, RetrievalError> {
        if !serves_rerank(config) {
            let message = format!(
                "`reranker_model` does not support provider `{}`, which has no `/rerank`",
                config.provider
            );
            return Err(RetrievalError::setup(Explanation::new(message).with_hint(
                "use `provider: openai` with `endpoint:` for Cohere, Jina, vLLM and compatible servers",
            )));
        }
        let endpoint = EndpointConfig {
            provider: config.provider,
            name: config.name.clone(),
            endpoint: config.endpoint.clone(),
            api_key: config.api_key.clone(),
            api_version: config.api_version.clone(),
            block: "reranker_model".to_owned(),
            at: None,
        };
        let endpoint = Endpoint::resolve(client, endpoint, "rerank", config.rpm, &Env::empty(), options)?;
        Ok(Self {
            endpoint: endpoint.with_key_hint("check `reranker_model.api_key`; no variable is read for it"),
            model: config.name.clone(),
        })
    }

    fn to_error(&self, failure: Failure) -> RetrievalError {
        RetrievalError::Rerank {
            reranker: self.describe(),
            reason: Box::new(failure.reason),
            retryable: failure.retryable,
        }
    }
}

#[async_trait]
impl Reranker for HttpReranker {
    fn describe(&self) -> String {
        self.model.clone()
    }

    async fn rerank(&self, query: &str, texts: &[&str]) -> Result<Vec<f64>, RetrievalError> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let body = json!({
            "model": self.model,
            "query": query,
            "documents": texts,
            "top_n": texts.len(),
        });
        let answer: Value = self
            .endpoint
            .ask(&body)
            .await
            .map_err(|failure| self.to_error(failure))?;
        read_scores(&answer, texts.len()).map_err(|what| self.to_error(self.endpoint.unusable(&what)))
    }
}

/// Whether `reranker_model` names a server with `/rerank`: it has an endpoint. Otherwise it is a chat model.
pub fn serves_rerank(config: &ModelConfig) -> bool {
    let endpoint = config.endpoint.as_deref();
    config.provider != Provider::Anthropic && endpoint.is_some_and(|endpoint| !endpoint.trim().is_empty())
}

/// One score per text, whatever the fields of the answer are called. A text without a score is an error: it would be
/// ranked last without being judged.
pub fn read_scores(answer: &Value, texts: usize) -> Result<Vec<f64>, String> {
    let list = answer
        .get("results")
        .or_else(|| answer.get("data"))
        .unwrap_or(answer)
        .as_array()
        .ok_or("an answer without a list of results")?;
    let mut scores: Vec<Option<f64>> = vec![None; texts];
    for result in list {
        let index = result.get("index").and_then(Value::as_u64);
        let score = result.get("relevance_score").or_else(|| result.get("score"));
        let (Some(index), Some(score)) = (index, score.and_then(Value::as_f64)) else {
            return Err("a result without index or score".to_owned());
        };
        let place = usize::try_from(index)
            .ok()
            .and_then(|index| scores.get_mut(index));
        match place {
            Some(place @ None) if score.is_finite() => *place = Some(score),
            Some(None) => {
                return Err(format!(
                    "a score of text {} that is not a finite number",
                    index + 1
                ));
            }
            Some(Some(_)) => return Err(format!("two scores for text {}", index + 1)),
            None => return Err(format!("a score for text {} of only {texts}", index + 1)),
        }
    }
    let scored = scores.iter().flatten().count();
    if scored < texts {
        return Err(format!("scores for {scored} of {texts} texts"));
    }
    Ok(scores.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn every_text_has_a_score_or_there_is_none_for_any() {
        let (one, two) = (
            json!({"index": 1, "relevance_score": 0.9}),
            json!({"index": 0, "score": 1}),
        );
        for answer in [
            json!({"results": [one, two], "id": "x", "usage": {}}),
            json!({"object": "list", "data": [one, two]}),
            json!([one, two]),
        ] {
            assert_eq!(read_scores(&answer, 2), Ok(vec![1.0, 0.9]), "{answer}");
        }
        for (answer, what) in [
            (json!({"results": [one]}), "scores for 1 of 2 texts"),
            (json!({"results": [one, one]}), "two scores for text 2"),
            (json!([{"index": 7, "score": 1}]), "a score for text 8 of only 2"),
            (
                json!([{"index": 0, "score": null}]),
                "a result without index or score",
            ),
            (json!([{"score": 0.5}]), "a result without index or score"),
            (json!({"error": "no"}), "an answer without a list of results"),
        ] {
            assert_eq!(read_scores(&answer, 2), Err(what.to_owned()), "{answer}");
        }
    }
}
