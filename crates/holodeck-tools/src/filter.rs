use std::{
    cmp::Ordering,
    collections::{HashMap, HashSet},
    sync::Arc,
};

use async_trait::async_trait;
use holodeck_backend_api::{BackendError, ToolFilter, ToolSpec};
use holodeck_model::{SearchMethod, ToolFilteringConfig};
use holodeck_retrieval::{Embedder, HashEmbedder, Purpose};
use tokio::sync::OnceCell;

use crate::bm25::Bm25;

/// Constant of reciprocal rank fusion.
const RRF_K: f64 = 60.0;

/// Offers the tools that fit a message, as `tool_filtering` says.
pub struct ToolSearch {
    settings: ToolFilteringConfig,
    names: Vec<String>,
    texts: Vec<String>,
    /// Offered whatever is asked.
    always: HashSet<String>,
    words: Bm25,
    meaning: Arc<dyn Embedder>,
    /// What says how near a tool must be: a cosine, or a share of the best one's score.
    threshold: Threshold,
    vectors: OnceCell<Vec<Vec<f32>>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Threshold {
    Cosine,
    ShareOfBest,
}

/// The tools that fit, by their places, the best first, each with its score.
type Ranking = Vec<(usize, f64)>;

impl ToolSearch {
    /// A search among `specs`. `always` are names of those that are offered whatever is asked. Without an embedder,
    /// hashed words stand in for meanings.
    pub fn new(
        settings: &ToolFilteringConfig,
        specs: &[ToolSpec],
        always: HashSet<String>,
        embedder: Option<Arc<dyn Embedder>>,
    ) -> Self {
        let texts: Vec<String> = specs.iter().map(text).collect();
        let threshold = match &embedder {
            Some(embedder) if embedder.id().provider != "hash" => Threshold::Cosine,
            _ => Threshold::ShareOfBest,
        };
        Self {
            settings: settings.clone(),
            names: specs.iter().map(|spec| spec.name.clone()).collect(),
            words: Bm25::new(texts.iter().map(String::as_str)),
            texts,
            always,
            meaning: embedder.unwrap_or_else(|| Arc::new(HashEmbedder::new(HashEmbedder::DIMENSIONS))),
            threshold,
            vectors: OnceCell::new(),
        }
    }

    async fn ranking(&self, message: &str) -> Result<Ranking, BackendError> {
        Ok(match self.settings.search_method {
            SearchMethod::Semantic => self.by_meaning(message).await?,
            SearchMethod::Bm25 => self.by_words(message),
            SearchMethod::Hybrid => fused(&[self.by_meaning(message).await?, self.by_words(message)]),
        })
    }

    fn by_words(&self, message: &str) -> Ranking {
        near(
            self.words.scores(message),
            Threshold::ShareOfBest,
            self.settings.similarity_threshold,
        )
    }

    async fn by_meaning(&self, message: &str) -> Result<Ranking, BackendError> {
        if message.trim().is_empty() {
            return Ok(Vec::new());
        }
        let vectors = self.vectors.get_or_try_init(|| self.embed_tools()).await?;
        let asked = self
            .meaning
            .embed(&[message], Purpose::Query)
            .await
            .map_err(|error| failed(&error))?;
        let asked = asked.into_iter().next().unwrap_or_default();
        let scores = vectors.iter().map(|vector| cosine(vector, &asked)).collect();
        Ok(near(scores, self.threshold, self.settings.similarity_threshold))
    }

    async fn embed_tools(&self) -> Result<Vec<Vec<f32>>, BackendError> {
        let texts: Vec<&str> = self.texts.iter().map(String::as_str).collect();
        self.meaning
            .embed(&texts, Purpose::Passage)
            .await
            .map_err(|error| failed(&error))
    }

    /// The tools called most, as many as the YAML says; among equals in the order of the YAML.
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
        for (place, _) in self.ranking(message).await? {
            if chosen.len() >= most {
                break;
            }
            chosen.extend(self.names.get(place).cloned());
        }
        Ok(chosen)
    }
}

/// What is searched of a tool: its name, what it is for, and what it takes.
fn text(spec: &ToolSpec) -> String {
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

/// Those that are near enough, the nearest first; among equals in the order of the YAML.
fn near(scores: Vec<f64>, threshold: Threshold, least: f64) -> Ranking {
    let best = scores.iter().copied().fold(0.0_f64, f64::max);
    let least = match threshold {
        Threshold::Cosine => least,
        Threshold::ShareOfBest => least * best,
    };
    let mut ranking: Ranking = scores.into_iter().enumerate().collect();
    ranking.retain(|(_, score)| *score > 0.0 && *score >= least);
    sort(&mut ranking);
    ranking
}

/// By reciprocal rank: what one of them found counts, what both found counts twice.
fn fused(rankings: &[Ranking]) -> Ranking {
    let mut scores: HashMap<usize, f64> = HashMap::new();
    for ranking in rankings {
        for (rank, (place, _)) in (1_u32..).zip(ranking) {
            *scores.entry(*place).or_default() += 1.0 / (RRF_K + f64::from(rank));
        }
    }
    let mut fused: Ranking = scores.into_iter().collect();
    sort(&mut fused);
    fused
}

fn sort(ranking: &mut Ranking) {
    ranking.sort_by(|(place, score), (other_place, other)| {
        let by_score = other.partial_cmp(score).unwrap_or(Ordering::Equal);
        by_score.then(place.cmp(other_place))
    });
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    // The vectors are of length 1.
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

fn failed(error: &holodeck_retrieval::RetrievalError) -> BackendError {
    BackendError::Session {
        message: format!("`tool_filtering` could not embed: {error}"),
    }
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
                "Tells the weather of a city: rain, wind and temperature.",
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

    async fn chosen(
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
    async fn what_fits_a_message_is_found_by_every_method() {
        for method in [SearchMethod::Semantic, SearchMethod::Bm25, SearchMethod::Hybrid] {
            for (message, expected) in [
                ("Will there be rain in the city of Oslo?", "get_weather"),
                ("Please translate this text.", "translate_text"),
            ] {
                assert_eq!(
                    chosen(settings(method, 1), &[], &[], message).await,
                    [expected],
                    "{method:?} {message}"
                );
            }
            let orders = chosen(settings(method, 2), &[], &[], "Which orders has this customer?").await;
            assert!(
                orders.contains(&"search_orders".to_owned()),
                "{method:?} {orders:?}"
            );
        }
    }

    #[tokio::test]
    async fn some_are_offered_whatever_is_asked() {
        let bm25 = || settings(SearchMethod::Bm25, 2);
        assert_eq!(
            chosen(bm25(), &["refund_order"], &[], "weather in the city").await,
            ["get_weather", "refund_order"]
        );
        // They take places, but are never left out for want of one.
        assert_eq!(
            chosen(
                settings(SearchMethod::Bm25, 1),
                &["refund_order", "translate_text"],
                &[],
                "weather"
            )
            .await,
            ["refund_order", "translate_text"]
        );
        assert_eq!(chosen(bm25(), &[], &[], "xyzzy").await, Vec::<String>::new());
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
            chosen(two.clone(), &[], &used, "weather").await,
            ["get_weather", "refund_order", "search_orders"]
        );
        two.always_include_top_n_used = 0;
        assert_eq!(chosen(two, &[], &used, "weather").await, ["get_weather"]);
    }

    #[tokio::test]
    async fn a_higher_threshold_leaves_more_out() {
        let mut counts = Vec::new();
        for threshold in [0.0, 0.3, 1.0] {
            let mut settings = settings(SearchMethod::Bm25, 4);
            settings.similarity_threshold = threshold;
            counts.push(
                chosen(settings, &[], &[], "refund the order of a customer")
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
    fn a_cosine_is_held_against_the_threshold_as_it_is() {
        let scores = || vec![0.2, 0.35, 0.9, -0.1];
        assert_eq!(near(scores(), Threshold::Cosine, 0.3), [(2, 0.9), (1, 0.35)]);
        assert_eq!(
            near(scores(), Threshold::ShareOfBest, 0.2),
            [(2, 0.9), (1, 0.35), (0, 0.2)]
        );
        assert_eq!(near(vec![0.0, 0.0], Threshold::ShareOfBest, 0.0), []);
        let both = fused(&[vec![(0, 9.0), (1, 1.0)], vec![(1, 5.0), (2, 4.0)]]);
        let places: Vec<_> = both.iter().map(|(place, _)| *place).collect();
        assert_eq!(places, [1, 0, 2]);
    }
}
