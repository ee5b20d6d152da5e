//! Offers a search in an index as a tool and renders its results for the model.

use std::fmt::Write as _;
use std::sync::Arc;

use async_trait::async_trait;
use holodeck_backend_api::{CallRefusal, Passage, Tool, ToolCx, ToolError, ToolKind, ToolOutput, ToolSpec};
use holodeck_retrieval::{Hit, RetrievalError, SearchResults, render_hits};
use serde_json::Value;

/// The search behind a [`SearchTool`].
#[async_trait]
pub trait Search: Send + Sync {
    /// Searches for `query` during a call, whose usage includes that of the models asked.
    async fn search(&self, query: &str, cx: &ToolCx) -> Result<SearchOutput, RetrievalError>;
}

/// The output of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchOutput {
    /// Text for the model.
    pub text: String,
    /// The passages in the text, best first.
    pub passages: Vec<Passage>,
}

impl SearchOutput {
    /// The output for `results`, which `text` contains as the model sees them.
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
    /// A tool with this spec; see [`retrieval_spec`](crate::retrieval_spec).
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
        let output = tokio::select! {
            biased;
            () = cx.cancel.cancelled() => return Err(ToolError::Cancelled),
            output = self.search.search(query, &cx) => output,
        };
        match output {
            Ok(output) => Ok(ToolOutput::retrieved(output.text, output.passages)),
            Err(RetrievalError::Cancelled) => Err(ToolError::Cancelled),
            // The query of the model is invalid, and the model can correct it.
            Err(error @ RetrievalError::Query(_)) => Ok(ToolOutput::refused(
                CallRefusal::InvalidArguments,
                error.to_string(),
            )),
            // The result is unknown: continuing without it would grade a different situation.
            Err(error) => Err(ToolError::Unavailable {
                name: self.spec.name.clone(),
                reason: error.explanation().text(),
            }),
        }
    }
}

/// Renders the results of a document search for a model, with the location of each passage in its document.
pub fn render_documents(results: &SearchResults) -> String {
    if results.hits.is_empty() {
        return render_hits(results);
    }
    let hits: Vec<String> = results.hits.iter().map(render_document_hit).collect();
    hits.join("\n---\n")
}

fn render_document_hit(hit: &Hit) -> String {
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

    /// Returns the query as the result, or fails as the query requests.
    struct Echo;

    #[async_trait]
    impl Search for Echo {
        async fn search(&self, query: &str, _cx: &ToolCx) -> Result<SearchOutput, RetrievalError> {
            match query {
                "wrong" => Err(RetrievalError::Query("no phrase".to_owned())),
                "down" => Err(RetrievalError::Store {
                    store: "postgres".to_owned(),
                    reason: "connection refused".to_owned(),
                }),
                "hang" => std::future::pending().await,
                query => Ok(SearchOutput {
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
    async fn the_model_receives_results_and_query_errors() {
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
    fn a_passage_of_a_document_has_its_location() {
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
