//! Vector search and BM25 keyword search in SQL.

use std::fmt::Write as _;

use futures::TryStreamExt as _;
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::failure::Failure;
use super::names::{Names, literal};
use super::params::Params;
use super::read::{PASSAGE, passage};
use super::target::Target;
use crate::phrases::Phrase;
use crate::{Filter, Scored};

/// BM25 parameters: SQLite's values.
const K1: f64 = 1.2;
const B: f64 = 0.75;

/// Maximum number of passages to score for a query of very common words.
const CANDIDATES: usize = 2000;

pub(super) async fn nearest(
    client: &Client,
    names: &Names,
    query: &[f32],
    limit: usize,
    filter: &Filter,
) -> Result<Vec<Scored>, Failure> {
    let mut params = Params::default();
    let vector = params.add(query.to_vec(), Type::FLOAT4_ARRAY);
    let limit = params.count(limit);
    let sql = if filter.equal.is_empty() {
        format!(
            "SELECT 1 - n.distance, {PASSAGE} FROM (SELECT v.id, v.vector <=> {vector}::vector AS distance \
             FROM {vectors} v ORDER BY v.vector <=> {vector}::vector, v.id LIMIT {limit}) n \
             JOIN {passages} p ON p.id = n.id ORDER BY n.distance, n.id",
            vectors = names.vectors,
            passages = names.passages,
        )
    } else {
        let condition = params.condition(filter);
        // The added term keeps the query off the graph index, which would search only the query's neighbourhood and
        // find too few.
        format!(
            "SELECT 1 - n.distance, {PASSAGE} FROM (SELECT v.id, (v.vector <=> {vector}::vector) + 0 AS distance \
             FROM {vectors} v JOIN {passages} p ON p.id = v.id WHERE {condition} \
             ORDER BY distance, v.id LIMIT {limit}) n \
             JOIN {passages} p ON p.id = n.id ORDER BY n.distance, n.id",
            vectors = names.vectors,
            passages = names.passages,
        )
    };
    query_scored(client, names, &sql, &params).await
}

/// BM25 over the words as the text search configuration stems them.
pub(super) async fn ranked(
    client: &Client,
    target: &Target,
    query: &str,
    limit: usize,
    filter: &Filter,
) -> Result<Vec<Scored>, Failure> {
    let names = &target.names;
    let stems = stems(client, target, query).await?;
    if stems.is_empty() {
        return Ok(Vec::new());
    }
    let any: Vec<String> = stems.iter().map(|stem| tsquery_word(stem)).collect();
    let mut params = Params::default();
    let condition = params.condition(filter);
    let any = params.text(&any.join(" | "));
    let stems = params.add(stems, Type::TEXT_ARRAY);
    let limit = params.count(limit);
    let sql = format!(
        "WITH whole AS MATERIALIZED (SELECT greatest(sum(passages), 1)::float8 AS passages, \
           greatest(sum(words)::float8 / greatest(sum(passages), 1), 1) AS length FROM {sources}), \
         asked AS MATERIALIZED (SELECT stem, (SELECT count(*) FROM {passages} c \
           WHERE c.words @@ ('''' || replace(replace(stem, '\\', '\\\\'), '''', '''''') || '''')::tsquery)::float8 \
           AS found FROM unnest({stems}::text[]) stem), \
         weights AS MATERIALIZED (SELECT stem, ln(1 + (whole.passages - found + 0.5) / (found + 0.5)) AS idf FROM asked, whole), \
         candidates AS MATERIALIZED (SELECT p.id, p.words FROM {passages} p \
           WHERE p.words @@ {any}::tsquery AND {condition} \
           ORDER BY ts_rank(p.words, {any}::tsquery) DESC, p.id LIMIT {CANDIDATES}), \
         best AS (SELECT c.id, sum(w.idf * t.often * {K1_PLUS_1} \
             / (t.often + {K1} * ({REST} + {B} * length(c.words) / whole.length))) AS score \
           FROM candidates c, whole, LATERAL (SELECT u.lexeme, cardinality(u.positions)::float8 AS often \
             FROM unnest(c.words) u) t JOIN weights w ON w.stem = t.lexeme \
           GROUP BY c.id ORDER BY score DESC, c.id LIMIT {limit}) \
         SELECT b.score, {PASSAGE} FROM best b JOIN {passages} p ON p.id = b.id ORDER BY b.score DESC, b.id",
        sources = names.sources,
        passages = names.passages,
        K1_PLUS_1 = K1 + 1.0,
        REST = 1.0 - B,
    );
    query_scored(client, names, &sql, &params).await
}

/// Texts that contain each phrase, most occurrences first.
pub(super) async fn containing(
    client: &Client,
    names: &Names,
    phrases: &[String],
    limit: usize,
    filter: &Filter,
) -> Result<Vec<Scored>, Failure> {
    let phrases: Vec<Phrase> = phrases.iter().filter_map(|phrase| Phrase::new(phrase)).collect();
    if phrases.is_empty() || limit == 0 {
        return Ok(Vec::new());
    }
    let mut params = Params::default();
    let mut condition = params.condition(filter);
    for phrase in &phrases {
        let words: Vec<String> = phrase.plain_words().map(str::to_owned).collect();
        let words = params.add(words, Type::TEXT_ARRAY);
        let text = params.text(phrase.as_str());
        // The index finds the words; the remaining texts are checked for the phrases.
        let _ = write!(
            condition,
            " AND p.terms @> {words} AND strpos(p.folded, {text}) > 0"
        );
    }
    let sql = format!(
        "SELECT p.id, p.folded FROM {} p WHERE {condition}",
        names.passages
    );
    let rows = client.query_typed_raw(&sql, params.list()).await?;
    let mut rows = std::pin::pin!(rows);
    let mut found: Vec<(usize, String)> = Vec::new();
    while let Some(row) = rows.try_next().await? {
        let folded: &str = row.try_get(1)?;
        if let Some(count) = Phrase::count_all(&phrases, folded) {
            found.push((count, row.try_get(0)?));
        }
    }
    found.sort_unstable_by(|(a, a_id), (b, b_id)| b.cmp(a).then_with(|| a_id.cmp(b_id)));
    found.truncate(limit);
    let (counts, ids): (Vec<i64>, Vec<String>) = found
        .into_iter()
        .map(|(count, id)| (i64::try_from(count).unwrap_or(i64::MAX), id))
        .unzip();
    let mut params = Params::default();
    let counts = params.add(counts, Type::INT8_ARRAY);
    let ids = params.add(ids, Type::TEXT_ARRAY);
    let sql = format!(
        "SELECT f.score::float8, {PASSAGE} FROM unnest({counts}, {ids}) f (score, id) \
         JOIN {} p ON p.id = f.id ORDER BY f.score DESC, p.id",
        names.passages
    );
    query_scored(client, names, &sql, &params).await
}

async fn stems(client: &Client, target: &Target, query: &str) -> Result<Vec<String>, Failure> {
    let mut params = Params::default();
    let query = params.text(query);
    let sql = format!(
        "SELECT lexeme FROM unnest(to_tsvector({}::regconfig, {query}))",
        literal(&target.language)
    );
    let rows = client.query_typed(&sql, &params.list()).await?;
    rows.iter()
        .map(|row| row.try_get(0).map_err(Failure::from))
        .collect()
}

/// A word in the syntax of the type `tsquery`.
fn tsquery_word(word: &str) -> String {
    format!("'{}'", word.replace('\\', "\\\\").replace('\'', "''"))
}

async fn query_scored(
    client: &Client,
    names: &Names,
    sql: &str,
    params: &Params,
) -> Result<Vec<Scored>, Failure> {
    let rows = client.query_typed(sql, &params.list()).await?;
    rows.iter()
        .map(|row| {
            Ok(Scored {
                score: row.try_get(0)?,
                passage: passage(row, 1, names)?,
            })
        })
        .collect()
}
