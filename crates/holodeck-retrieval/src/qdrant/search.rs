//! Vector search on the server, and BM25 over candidates that the server returns.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::api::{Api, SEARCH_FIELDS, VECTOR};
use super::filter::{PASSAGE, conditions, is, match_any};
use crate::payload::{MORE, PassageFields, best, settles_ties, unit};
use crate::phrases::{Phrase, fold, words};
use crate::vector::check_query;
use crate::{Filter, RetrievalError, Scored};

/// BM25 parameters, as in the other stores.
const K1: f64 = 1.2;
const B: f64 = 0.75;

/// Maximum number of passages to fetch and score; beyond it, only the rarer words are searched.
const CANDIDATES: usize = 5000;

/// Maximum number of query words; anything longer is a document, not a query.
const WORDS: usize = 64;

pub(super) async fn nearest(
    api: &Api,
    query: &[f32],
    limit: usize,
    filter: &Filter,
) -> Result<Vec<Scored>, RetrievalError> {
    check_query(query)?;
    let Some(must) = conditions(filter).filter(|_| limit > 0) else {
        return Ok(Vec::new());
    };
    let query = unit(query);
    let mut asked = limit + MORE;
    loop {
        let body = json!({
            "query": query,
            "using": VECTOR,
            "filter": {"must": must},
            "params": {"exact": api.exact},
            "limit": asked,
            "with_payload": {"exclude": SEARCH_FIELDS},
            "with_vector": false,
        });
        let Some(mut answer) = api.post("points/query", &body).await? else {
            return Ok(Vec::new());
        };
        let Some(Value::Array(points)) = answer.get_mut("points").map(Value::take) else {
            return Err(api.error("the server's answer contains no points"));
        };
        let mut found = Vec::with_capacity(points.len());
        for point in points {
            let (fields, point) = api.payload::<PassageFields>(point)?;
            let score = point.get("score").and_then(Value::as_f64);
            found.push(Scored {
                score: score.ok_or_else(|| api.error("the server returned a point without a score"))?,
                passage: fields.passage().map_err(|reason| api.error(reason))?,
            });
        }
        if settles_ties(&found, asked, limit) {
            return Ok(best(found, limit));
        }
        asked = asked.saturating_mul(4);
    }
}

/// BM25 over the passages that contain a word of the query.
pub(super) async fn ranked(
    api: &Api,
    query: &str,
    limit: usize,
    filter: &Filter,
) -> Result<Vec<Scored>, RetrievalError> {
    let folded = fold(query);
    let mut asked: Vec<&str> = words(&folded).collect();
    asked.sort_unstable();
    asked.dedup();
    asked.truncate(WORDS);
    let Some(mut must) = conditions(filter).filter(|_| limit > 0 && !asked.is_empty()) else {
        return Ok(Vec::new());
    };
    let all = api.count(&[is("kind", PASSAGE)]).await?;
    let mut counted = Vec::with_capacity(asked.len());
    for word in asked {
        let found = api.count(&[is("kind", PASSAGE), is("words", word)]).await?;
        counted.push((found, word.to_owned()));
    }
    counted.sort();
    let mut sum = 0;
    let wanted: Vec<String> = counted
        .iter()
        .filter(|(found, _)| *found > 0)
        .take_while(|(found, _)| {
            sum += found;
            // The rarest word is always included.
            sum == *found || sum <= CANDIDATES
        })
        .map(|(_, word)| word.clone())
        .collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    must.push(match_any("words", &wanted));
    let idf: BTreeMap<&str, f64> = counted
        .iter()
        .map(|(found, word)| {
            let (all, found) = (all as f64, *found as f64);
            (word.as_str(), (1.0 + (all - found + 0.5) / (found + 0.5)).ln())
        })
        .collect();
    let candidates = folded_texts(api, &must).await?;
    let lengths = candidates.iter().map(|(_, folded)| words(folded).count() as f64);
    let average = (lengths.sum::<f64>() / candidates.len().max(1) as f64).max(1.0);
    let scored = candidates
        .into_iter()
        .map(|(fields, folded)| (fields, bm25(&folded, &idf, average)));
    finish(api, scored, limit)
}

fn bm25(folded: &str, idf: &BTreeMap<&str, f64>, average: f64) -> f64 {
    let mut length = 0.0;
    let mut often: BTreeMap<&str, f64> = BTreeMap::new();
    for word in words(folded) {
        length += 1.0;
        if idf.contains_key(word) {
            *often.entry(word).or_insert(0.0) += 1.0;
        }
    }
    often
        .iter()
        .map(|(word, often)| {
            let idf = idf.get(word).copied().unwrap_or_default();
            idf * often * (K1 + 1.0) / (often + K1 * (1.0 - B + B * length / average))
        })
        .sum()
}

/// Texts that contain each phrase, most occurrences first.
pub(super) async fn containing(
    api: &Api,
    phrases: &[String],
    limit: usize,
    filter: &Filter,
) -> Result<Vec<Scored>, RetrievalError> {
    let phrases: Vec<Phrase> = phrases.iter().filter_map(|phrase| Phrase::new(phrase)).collect();
    let Some(mut must) = conditions(filter).filter(|_| limit > 0 && !phrases.is_empty()) else {
        return Ok(Vec::new());
    };
    // The index finds the words; the remaining texts are checked for the phrases.
    let each = phrases.iter().flat_map(|phrase| words(phrase.as_str()));
    must.extend(each.map(|word| is("words", word)));
    let candidates = folded_texts(api, &must).await?;
    let scored = candidates.into_iter().filter_map(|(fields, folded)| {
        let count = Phrase::count_all(&phrases, &folded)?;
        Some((fields, count as f64))
    });
    finish(api, scored, limit)
}

async fn folded_texts(api: &Api, must: &[Value]) -> Result<Vec<(PassageFields, String)>, RetrievalError> {
    let payload = json!({"exclude": ["words", "facets"]});
    let points = api.scroll(&json!({"must": must}), &payload, false).await?;
    points
        .into_iter()
        .map(|point| {
            let folded = point.get("payload").and_then(|payload| payload.get("folded"));
            let folded = folded.and_then(Value::as_str).unwrap_or_default().to_owned();
            Ok((api.payload::<PassageFields>(point)?.0, folded))
        })
        .collect()
}

fn finish(
    api: &Api,
    scored: impl Iterator<Item = (PassageFields, f64)>,
    limit: usize,
) -> Result<Vec<Scored>, RetrievalError> {
    let found = scored.map(|(fields, score)| {
        let passage = fields.passage().map_err(|reason| api.error(reason))?;
        Ok(Scored { score, passage })
    });
    Ok(best(found.collect::<Result<_, RetrievalError>>()?, limit))
}
