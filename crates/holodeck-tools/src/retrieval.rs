use std::fmt::Write as _;
use std::sync::Arc;

use async_trait::async_trait;
use holodeck_backend_api::{CallRefusal, Passage, Tool, ToolCx, ToolError, ToolKind, ToolOutput, ToolSpec};
use holodeck_retrieval::{Hit, RetrievalError, SearchResults, render_hits};
use serde_json::Value;

/// What a [`SearchTool`] asks.
#[async_trait]
pub trait Search: Send + Sync {
    /// What is found for `query`.
    async fn search(&self, query: &str) -> Result<Found, RetrievalError>;
}

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Text for the model.
    pub text: String,
    /// The passages in it, the best first.
    pub passages: Vec<Passage>,
}

impl Found {
    /// The results, as `text` shows them to the model.
    pub fn new(text: String, results: &SearchResults) -> Self {
        let passages = results.hits.iter().map(|hit| Passage {
            text: hit.text.clone(),
            source: Some(hit.source.clone()),
            score: Some(hit.score),
        });
        Self {
            text,
            passages: passages.collect(),
        }
    }
}

/// A `type: vectorstore` or `type: hierarchical_document` tool.
pub struct SearchTool {
    spec: ToolSpec,
    search: Arc<dyn Search>,
}

impl SearchTool {
    /// A tool that the model sees as `spec` says; see [`retrieval_spec`](crate::retrieval_spec).
    pub fn new(spec: ToolSpec, search: Arc<dyn Search>) -> Self {
        Self { spec, search }
    }
}

#[async_trait]
impl Tool for SearchTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Retrieval
    }

    async fn call(&self, arguments: Value, cx: ToolCx) -> Result<ToolOutput, ToolError> {
        let query = arguments.get("query").and_then(Value::as_str).unwrap_or_default();
        if query.trim().is_empty() {
            let text = "`query` is empty: say what to search for";
            return Ok(ToolOutput::refused(CallRefusal::InvalidArguments, text));
        }
        let found = tokio::select! {
            biased;
            () = cx.cancel.cancelled() => return Err(ToolError::Cancelled),
            found = self.search.search(query) => found,
        };
        match found {
            Ok(found) => Ok(ToolOutput::retrieved(found.text, found.passages)),
            Err(RetrievalError::Cancelled) => Err(ToolError::Cancelled),
            // What the model wrote is at fault, and it can write something else.
            Err(error @ RetrievalError::Query(_)) => Ok(ToolOutput::refused(
                CallRefusal::InvalidArguments,
                error.to_string(),
            )),
            // Nobody can tell what would have been found: going on without it would lead to a verdict on something else.
            Err(error) => Err(ToolError::Unavailable {
                name: self.spec.name.clone(),
                reason: error.to_string(),
            }),
        }
    }
}

/// What a search in documents found, as a model reads it: with where in the document each passage stands.
pub fn render_documents(results: &SearchResults) -> String {
    if results.hits.is_empty() {
        return render_hits(results);
    }
    let hits: Vec<String> = results.hits.iter().map(document_hit).collect();
    hits.join("\n---\n")
}

fn document_hit(hit: &Hit) -> String {
    let headings: Vec<&str> = match hit.metadata.get("headings") {
        Some(Value::Array(headings)) => headings.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let location = if headings.is_empty() {
        "Root".to_owned()
    } else {
        headings.join(" > ")
    };
    // Writing to a `String` never fails.
    let mut text = format!(
        "Score: {:.3} | Source: {}\nLocation: {location}\n",
        hit.score, hit.source
    );
    for (key, name) in [
        ("section", "Section"),
        ("page", "Page"),
        ("slide", "Slide"),
        ("sheet", "Sheet"),
    ] {
        match hit.metadata.get(key) {
            Some(Value::String(value)) => {
                let _ = writeln!(text, "{name}: {value}");
            }
            Some(Value::Number(value)) => {
                let _ = writeln!(text, "{name}: {value}");
            }
            _ => {}
        }
    }
    text.push('\n');
    text.push_str(hit.text.trim_end());
    text
}

#[cfg(test)]
mod tests {
    use holodeck_backend_api::SideEffects;
    use holodeck_model::SearchMode;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    /// Finds the query itself; fails as its first word says.
    struct Echo;

    #[async_trait]
    impl Search for Echo {
        async fn search(&self, query: &str) -> Result<Found, RetrievalError> {
            match query {
                "wrong" => Err(RetrievalError::Query("no phrase".to_owned())),
                "down" => Err(RetrievalError::Store {
                    store: "postgres".to_owned(),
                    reason: "connection refused".to_owned(),
                }),
                "hang" => std::future::pending().await,
                query => Ok(Found {
                    text: format!("found {query}"),
                    passages: vec![Passage::of(query)],
                }),
            }
        }
    }

    async fn call(query: Value) -> Result<ToolOutput, ToolError> {
        let tool = SearchTool::new(crate::retrieval_spec("kb", "Searches."), Arc::new(Echo));
        assert_eq!(tool.spec().name, "kb_search");
        assert_eq!(tool.spec().side_effects, SideEffects::None);
        let cx = ToolCx::default();
        if query == json!("hang") {
            cx.cancel.cancel();
        }
        tool.call(json!({"query": query}), cx).await
    }

    #[tokio::test]
    async fn the_model_hears_what_was_found_and_what_it_asked_wrongly() {
        assert_eq!(
            call(json!("refund")).await.unwrap(),
            ToolOutput::retrieved("found refund", vec![Passage::of("refund")])
        );
        assert_eq!(
            call(json!("wrong")).await.unwrap(),
            ToolOutput::refused(CallRefusal::InvalidArguments, "no phrase")
        );
        for empty in [json!(" "), json!(null)] {
            assert!(call(empty).await.unwrap().is_error);
        }
    }

    #[tokio::test]
    async fn a_store_that_is_down_ends_the_turn() {
        let error = call(json!("down")).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "tool `kb_search` could not be run: postgres: connection refused"
        );
        assert!(matches!(call(json!("hang")).await, Err(ToolError::Cancelled)));
    }

    #[test]
    fn a_passage_of_a_document_is_told_with_its_place() {
        let hit = |metadata: Value| -> Hit {
            serde_json::from_value(json!({
                "score": 0.5, "text": "Notice is 60 days.\n", "source": "terms.md", "id": "1", "metadata": metadata,
            }))
            .unwrap()
        };
        let results = |hits| SearchResults {
            query: "notice".to_owned(),
            mode: SearchMode::Hybrid,
            search_ms: 1.0,
            hits,
        };
        let found = results(vec![
            hit(json!({"headings": ["Terms", "Termination"], "section": "4.2", "page": 3})),
            hit(json!({"start": 0})),
        ]);
        assert_eq!(
            render_documents(&found),
            "Score: 0.500 | Source: terms.md\nLocation: Terms > Termination\nSection: 4.2\nPage: 3\n\n\
             Notice is 60 days.\n---\nScore: 0.500 | Source: terms.md\nLocation: Root\n\nNotice is 60 days."
        );
        assert_eq!(
            render_documents(&results(Vec::new())),
            render_hits(&results(Vec::new()))
        );
    }
}
