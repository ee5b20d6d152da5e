//! Chooses the tools that are offered for a message, by words and embeddings, as `tool_filtering` configures.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use async_trait::async_trait;
use holodeck_backend_api::{BackendError, ToolFilter, ToolSpec};
use holodeck_model::{SearchMethod, ToolFilteringConfig};
use holodeck_retrieval::{Bm25, Bm25Kind, Embedder, Fusion, HashEmbedder, Purpose, product};
use tokio::sync::OnceCell;

/// Constant of reciprocal rank fusion.
const RRF_K: u32 = 60;

/// Chooses the tools that match a message, as configured by `tool_filtering`.
pub struct ToolSearch {
    settings: ToolFilteringConfig,
    names: Vec<String>,
    texts: Vec<String>,
    /// Tools that are always offered.
    always: HashSet<String>,
    words: Bm25,
    embedder: Arc<dyn Embedder>,
    /// How `similarity_threshold` applies to embedding scores.
    threshold: Threshold,
    vectors: OnceCell<Vec<Vec<f32>>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Threshold {
    /// The minimum cosine.
    Cosine,
    /// The minimum share of the best score.
    ShareOfBest,
}

/// The positions of the matching tools, best first.
type Ranking = Vec<usize>;

impl ToolSearch {
    /// Creates a search among `specs`. `always` names the tools that are always offered. Without an embedder, hashed
    /// words replace embeddings.
    pub fn new(
        settings: &ToolFilteringConfig,
        specs: &[ToolSpec],
        always: HashSet<String>,
        embedder: Option<Arc<dyn Embedder>>,
    ) -> Self {
        let texts: Vec<String> = specs.iter().map(search_text).collect();
        let threshold = match &embedder {
            Some(embedder) if embedder.id().provider != "hash" => Threshold::Cosine,
            _ => Threshold::ShareOfBest,
        };
        Self {
            settings: settings.clone(),
            names: specs.iter().map(|spec| spec.name.clone()).collect(),
            words: Bm25::new(Bm25Kind::Few, &texts),
            texts,
            always,
            embedder: embedder.unwrap_or_else(|| Arc::new(HashEmbedder::new(HashEmbedder::DIMENSIONS))),
            threshold,
            vectors: OnceCell::new(),
        }
    }

    async fn rank(&self, message: &str) -> Result<Ranking, BackendError> {
        Ok(match self.settings.search_method {
            SearchMethod::Semantic => self.rank_by_embedding(message).await?,
            SearchMethod::Bm25 => self.rank_by_words(message),
            SearchMethod::Hybrid => fuse([
                self.rank_by_embedding(message).await?,
                self.rank_by_words(message),
            ]),
        })
    }

    fn rank_by_words(&self, message: &str) -> Ranking {
        let scores = self.words.scores(message).into_iter().collect();
        rank_scores(scores, Threshold::ShareOfBest, self.settings.similarity_threshold)
    }

    async fn rank_by_embedding(&self, message: &str) -> Result<Ranking, BackendError> {
        if message.trim().is_empty() {
            return Ok(Vec::new());
        }
        let vectors = self.vectors.get_or_try_init(|| self.embed_tools()).await?;
        let query = self
            .embedder
            .embed(&[message], Purpose::Query)
            .await
            .map_err(|error| embedding_error(&error))?;
        let query = query.into_iter().next().unwrap_or_default();
        let scores = vectors.iter().map(|vector| product(vector, &query));
        let scores = scores.enumerate().collect();
        Ok(rank_scores(
            scores,
            self.threshold,
            self.settings.similarity_threshold,
        ))
    }

    async fn embed_tools(&self) -> Result<Vec<Vec<f32>>, BackendError> {
        let texts: Vec<&str> = self.texts.iter().map(String::as_str).collect();
        self.embedder
            .embed(&texts, Purpose::Passage)
            .await
            .map_err(|error| embedding_error(&error))
    }

    /// The most called tools, up to the number in the YAML; ties keep the order of the YAML.
    fn most_used(&self, used: &HashMap<String, usize>) -> impl Iterator<Item = &String> {
        let mut called: Vec<(&String, usize)> = self
            .names
            .iter()
            .filter_map(|name| Some((name, *used.get(name)?)))
            .collect();
        called.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
        called
            .into_iter()
            .take(self.settings.always_include_top_n_used as usize)
            .map(|(name, _)| name)
    }
}

#[async_trait]
impl ToolFilter for ToolSearch {
    async fn choose(
        &self,
        message: &str,
        used: &HashMap<String, usize>,
    ) -> Result<HashSet<String>, BackendError> {
        let mut chosen: HashSet<String> = self.always.clone();
        chosen.extend(self.most_used(used).cloned());
        let most = (self.settings.top_k as usize).max(chosen.len());
        for place in self.rank(message).await? {
            if chosen.len() >= most {
                break;
            }
            chosen.extend(self.names.get(place).cloned());
        }
        Ok(chosen)
    }
}

/// The searchable text of a tool: name, description and parameters.
fn search_text(spec: &ToolSpec) -> String {
    let mut text = format!("{}: {}", spec.name.replace('_', " "), spec.description);
    let properties = spec
        .parameters
        .get("properties")
        .and_then(|value| value.as_object());
    for (name, schema) in properties.into_iter().flatten() {
        text.push(' ');
        text.push_str(&name.replace('_', " "));
        if let Some(description) = schema.get("description").and_then(|value| value.as_str()) {
            text.push(' ');
            text.push_str(description);
        }
    }
    text
}

/// Ranks the tools that reach the threshold, best first; ties keep the order of the YAML.
fn rank_scores(mut scores: Vec<(usize, f64)>, threshold: Threshold, least: f64) -> Ranking {
    let best = scores.iter().map(|(_, score)| *score).fold(0.0_f64, f64::max);
    let least = match threshold {
        Threshold::Cosine => least,
        Threshold::ShareOfBest => least * best,
    };
    scores.retain(|(_, score)| *score > 0.0 && *score >= least);
    scores
        .sort_by(|(place, score), (other_place, other)| other.total_cmp(score).then(place.cmp(other_place)));
    scores.into_iter().map(|(place, _)| place).collect()
}

/// Combines two rankings by reciprocal rank fusion.
fn fuse(rankings: [Ranking; 2]) -> Ranking {
    let mut fusion = Fusion::new(RRF_K);
    for ranking in rankings {
        fusion.add(1.0, ranking.into_iter().map(|place| (place, place)));
    }
    fusion.ranked().into_iter().map(|(_, place)| place).collect()
}

fn embedding_error(error: &holodeck_retrieval::RetrievalError) -> BackendError {
    BackendError::session(
        error
            .explanation()
            .within("`tool_filtering` cannot compute embeddings"),
    )
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn specs() -> Vec<ToolSpec> {
        [
            (
                "get_weather",
                "Returns the weather of a city: rain, wind and temperature.",
            ),
            ("search_orders", "Finds orders of a customer by name or number."),
            ("refund_order", "Pays the price of an order back to the customer."),
            ("translate_text", "Translates a text into another language."),
        ]
        .into_iter()
        .map(|(name, description)| ToolSpec {
            name: name.to_owned(),
            description: description.to_owned(),
            parameters: json!({"type": "object", "properties": {}}),
            side_effects: holodeck_backend_api::SideEffects::None,
        })
        .collect()
    }

    async fn choose_tools(
        settings: ToolFilteringConfig,
        always: &[&str],
        used: &[(&str, usize)],
        message: &str,
    ) -> Vec<String> {
        let always = always.iter().map(|name| (*name).to_owned()).collect();
        let search = ToolSearch::new(&settings, &specs(), always, None);
        let used = used
            .iter()
            .map(|(name, times)| ((*name).to_owned(), *times))
            .collect();
        let mut chosen: Vec<_> = search.choose(message, &used).await.unwrap().into_iter().collect();
        chosen.sort();
        chosen
    }

    fn settings(method: SearchMethod, top_k: u32) -> ToolFilteringConfig {
        ToolFilteringConfig {
            enabled: true,
            top_k,
            search_method: method,
            ..ToolFilteringConfig::default()
        }
    }

    #[tokio::test]
    async fn every_method_finds_the_tool_that_matches_a_message() {
        for method in [SearchMethod::Semantic, SearchMethod::Bm25, SearchMethod::Hybrid] {
            for (message, expected) in [
                ("Will there be rain in the city of Oslo?", "get_weather"),
                ("Please translate this text.", "translate_text"),
            ] {
                assert_eq!(
                    choose_tools(settings(method, 1), &[], &[], message).await,
                    [expected],
                    "{method:?} {message}"
                );
            }
            let orders = choose_tools(settings(method, 2), &[], &[], "Which orders has this customer?").await;
            assert!(
                orders.contains(&"search_orders".to_owned()),
                "{method:?} {orders:?}"
            );
        }
    }

    #[tokio::test]
    async fn some_tools_are_always_offered() {
        let bm25 = || settings(SearchMethod::Bm25, 2);
        assert_eq!(
            choose_tools(bm25(), &["refund_order"], &[], "weather in the city").await,
            ["get_weather", "refund_order"]
        );
        // They count towards `top_k`, but are offered even if there are more of them.
        assert_eq!(
            choose_tools(
                settings(SearchMethod::Bm25, 1),
                &["refund_order", "translate_text"],
                &[],
                "weather"
            )
            .await,
            ["refund_order", "translate_text"]
        );
        assert_eq!(
            choose_tools(bm25(), &[], &[], "xyzzy").await,
            Vec::<String>::new()
        );
    }

    #[tokio::test]
    async fn the_most_used_stay() {
        let mut two = settings(SearchMethod::Bm25, 3);
        two.always_include_top_n_used = 2;
        let used = [
            ("translate_text", 1),
            ("refund_order", 4),
            ("search_orders", 1),
            ("gone", 9),
        ];
        assert_eq!(
            choose_tools(two.clone(), &[], &used, "weather").await,
            ["get_weather", "refund_order", "search_orders"]
        );
        two.always_include_top_n_used = 0;
        assert_eq!(choose_tools(two, &[], &used, "weather").await, ["get_weather"]);
    }

    #[tokio::test]
    async fn a_higher_threshold_leaves_more_out() {
        let mut counts = Vec::new();
        for threshold in [0.0, 0.3, 1.0] {
            let mut settings = settings(SearchMethod::Bm25, 4);
            settings.similarity_threshold = threshold;
            counts.push(
                choose_tools(settings, &[], &[], "refund the order of a customer")
                    .await
                    .len(),
            );
        }
        assert!(
            counts[0] >= counts[1] && counts[1] >= counts[2] && counts[2] == 1,
            "{counts:?}"
        );
    }

    #[test]
    fn a_cosine_is_compared_with_the_threshold_directly() {
        let scores = || [0.2, 0.35, 0.9, -0.1].into_iter().enumerate().collect();
        assert_eq!(rank_scores(scores(), Threshold::Cosine, 0.3), [2, 1]);
        assert_eq!(rank_scores(scores(), Threshold::ShareOfBest, 0.2), [2, 1, 0]);
        assert!(rank_scores(vec![(0, 0.0), (1, 0.0)], Threshold::ShareOfBest, 0.0).is_empty());
        assert_eq!(fuse([vec![0, 1], vec![1, 2]]), [1, 0, 2]);
    }
}
