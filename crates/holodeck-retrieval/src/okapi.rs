//! Keyword search in memory, for stores without their own.

use std::borrow::Cow;

use async_trait::async_trait;
use futures::TryStreamExt as _;

use crate::keyword_text::keyword_text;
use crate::phrases::{Phrase, fold};
use crate::{Bm25, Bm25Kind, Filter, KeywordSearch, Passage, RetrievalError, Scored, VectorStore};

/// Okapi BM25 as Python's rank-bm25 computes it, over passages in memory.
#[derive(Debug)]
pub struct InMemoryKeywords {
    passages: Vec<Passage>,
    words: Bm25,
}

impl InMemoryKeywords {
    /// Indexes passages.
    pub fn new(passages: impl IntoIterator<Item = Passage>) -> Self {
        let passages: Vec<Passage> = passages.into_iter().collect();
        let words = Bm25::new(Bm25Kind::Passages, passages.iter().map(searched_text));
        Self { passages, words }
    }

    /// Indexes all passages of a store.
    pub async fn of(store: &dyn VectorStore) -> Result<Self, RetrievalError> {
        let mut passages = Vec::new();
        let mut entries = store.entries();
        while let Some((_, entries)) = entries.try_next().await? {
            passages.extend(entries.into_iter().map(|entry| entry.passage));
        }
        let built = tokio::task::spawn_blocking(|| Self::new(passages)).await;
        built.map_err(|error| RetrievalError::Store {
            store: store.describe(),
            reason: error.to_string(),
        })
    }

    fn best(&self, scores: impl Iterator<Item = (usize, f64)>, limit: usize, filter: &Filter) -> Vec<Scored> {
        let passages = scores.filter_map(|(at, score)| Some((self.passages.get(at)?, score)));
        let mut found: Vec<(&Passage, f64)> =
            passages.filter(|(passage, _)| filter.matches(passage)).collect();
        found.sort_by(|(a_passage, a), (b_passage, b)| {
            b.total_cmp(a).then_with(|| a_passage.id.cmp(&b_passage.id))
        });
        let best = found.into_iter().take(limit);
        best.map(|(passage, score)| Scored {
            score,
            passage: passage.clone(),
        })
        .collect()
    }
}

fn searched_text(passage: &Passage) -> Cow<'_, str> {
    keyword_text(&passage.text, passage.context.as_deref(), &passage.metadata)
}

#[async_trait]
impl KeywordSearch for InMemoryKeywords {
    async fn ranked(
        &self,
        query: &str,
        limit: usize,
        filter: &Filter,
    ) -> Result<Vec<Scored>, RetrievalError> {
        Ok(self.best(self.words.scores(query).into_iter(), limit, filter))
    }

    async fn containing(
        &self,
        phrases: &[String],
        limit: usize,
        filter: &Filter,
    ) -> Result<Vec<Scored>, RetrievalError> {
        let phrases: Vec<Phrase> = phrases.iter().filter_map(|phrase| Phrase::new(phrase)).collect();
        let counts = self.passages.iter().enumerate().filter_map(|(at, passage)| {
            let text = fold(&searched_text(passage));
            Phrase::count_all(&phrases, &text).map(|count| (at, count as f64))
        });
        Ok(self.best(counts, limit, filter))
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::InMemoryKeywords;
    use crate::{Filter, KeywordSearch as _, Passage};

    const TEXTS: [&str; 8] = [
        "the quick brown fox jumps over the lazy dog",
        "the lazy dog sleeps",
        "a quick brown dog",
        "refunds are paid within thirty days",
        "thirty days hath september thirty",
        "fox",
        "",
        "the the the the",
    ];

    fn keywords() -> InMemoryKeywords {
        InMemoryKeywords::new(TEXTS.iter().enumerate().map(|(at, text)| Passage {
            id: at.to_string(),
            source: "s".to_owned(),
            text: (*text).to_owned(),
            context: None,
            metadata: serde_json::Map::new(),
        }))
    }

    /// Expected: `BM25Okapi([text.split() for text in TEXTS]).get_scores(query.split())` of rank-bm25 0.2.2.
    #[test]
    fn scores_are_those_of_rank_bm25() {
        let check = |query: &str, wanted: [f64; 8]| {
            let found = keywords().words.scores(query);
            for (at, wanted) in wanted.into_iter().enumerate() {
                let found = found.get(&at).copied().unwrap_or_default();
                assert!(
                    (found - wanted).abs() < 1e-12,
                    "{query}, {at}: {found} instead of {wanted}"
                );
            }
        };
        check(
            "quick fox",
            [
                1.247_552_035_050_658_6,
                0.0,
                0.968_721_280_672_976_9,
                0.0,
                0.0,
                1.449_741_502_800_248,
                0.0,
                0.0,
            ],
        );
        check(
            "thirty days",
            [
                0.0,
                0.0,
                0.0,
                1.586_509_569_102_158_5,
                2.150_138_758_488_506,
                0.0,
                0.0,
                0.0,
            ],
        );
        check(
            "the",
            [
                0.467_937_539_875_165_06,
                0.458_233_766_006_786_1,
                0.0,
                0.0,
                0.0,
                0.0,
                0.0,
                0.826_916_650_507_048_5,
            ],
        );
        check(
            "lazy the dog",
            [
                1.386_778_029_873_706_7,
                1.885_188_812_686_549_3,
                0.458_233_766_006_786_1,
                0.0,
                0.0,
                0.0,
                0.0,
                0.826_916_650_507_048_5,
            ],
        );
        check("nothing here", [0.0; 8]);
        check(
            "thirty thirty",
            [
                0.0,
                0.0,
                0.0,
                1.586_509_569_102_158_5,
                2.555_775_293_690_407,
                0.0,
                0.0,
                0.0,
            ],
        );
        check(
            "september refunds fox",
            [
                0.623_776_017_525_329_3,
                0.0,
                0.0,
                1.336_137_134_850_951_2,
                1.469_196_434_587_145_5,
                1.449_741_502_800_248,
                0.0,
                0.0,
            ],
        );
    }

    #[tokio::test]
    async fn passages_come_best_first() {
        let keywords = keywords();
        let ids = |found: Vec<crate::Scored>| {
            found
                .into_iter()
                .map(|scored| scored.passage.id)
                .collect::<Vec<_>>()
        };
        let all = Filter::default();
        assert_eq!(
            ids(keywords.ranked("Quick, FOX!", 9, &all).await.unwrap()),
            ["5", "0", "2"]
        );
        assert_eq!(ids(keywords.ranked("thirty", 1, &all).await.unwrap()), ["4"]);
        assert_eq!(ids(keywords.ranked("", 9, &all).await.unwrap()), [""; 0]);
        let none = Filter {
            equal: vec![("page".to_owned(), 1.into())],
        };
        assert_eq!(ids(keywords.ranked("thirty", 9, &none).await.unwrap()), [""; 0]);
        let phrase = |phrase: &str| vec![phrase.to_owned()];
        assert_eq!(
            ids(keywords.containing(&phrase("lazy  DOG"), 9, &all).await.unwrap()),
            ["0", "1"]
        );
        assert_eq!(
            ids(keywords.containing(&phrase("the"), 9, &all).await.unwrap()),
            ["7", "0", "1"]
        );
        assert_eq!(ids(keywords.containing(&[], 9, &all).await.unwrap()), [""; 0]);
        assert!(
            InMemoryKeywords::new([])
                .ranked("x", 1, &all)
                .await
                .unwrap()
                .is_empty()
        );
    }
}
