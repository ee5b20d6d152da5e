//! Keyword search in the full-text index.

use std::collections::HashSet;

use rusqlite::{Transaction, params};

use super::allowed::Allowed;
use super::database::DatabaseError;
use super::read;
use crate::Scored;
use crate::keyword_text::keyword_text;
use crate::phrases::{Phrase, fold};

/// Maximum number of query words; anything longer is a document, not a query.
const WORDS: usize = 64;

/// Ranking fewer passages than this is cheap enough.
const FEW: usize = 1_000;

pub(super) fn ranked(
    transaction: &Transaction<'_>,
    query: &str,
    limit: usize,
    allowed: &Allowed,
) -> Result<Vec<Scored>, DatabaseError> {
    let terms = selective_terms(transaction, terms(query))?;
    if terms.is_empty() || limit == 0 {
        return Ok(Vec::new());
    }
    let mut statement =
        transaction.prepare_cached("SELECT rowid, -bm25(words) FROM words WHERE words MATCH ?")?;
    let mut rows = statement.query([terms.join(" OR ")])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (row, score) = (row.get(0)?, row.get(1)?);
        if allowed.passes(row) {
            found.push((row, score));
        }
    }
    read::best(transaction, found, limit)
}

/// Drops words that more than half of the passages contain, unless there are no others: BM25 gives them almost no
/// weight, and ranking all those passages would take most of the time.
fn selective_terms(transaction: &Transaction<'_>, terms: Vec<String>) -> Result<Vec<String>, DatabaseError> {
    let total: usize =
        transaction.query_row("SELECT coalesce(sum(passages), 0) FROM sources", [], |row| {
            row.get(0)
        })?;
    if total < FEW {
        return Ok(terms);
    }
    let mut statement = transaction
        .prepare_cached("SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ?1 LIMIT ?2)")?;
    let mut selective = Vec::new();
    for term in &terms {
        let with: usize = statement.query_row(params![term, total / 2 + 1], |row| row.get(0))?;
        if (1..=total / 2).contains(&with) {
            selective.push(term.clone());
        }
    }
    Ok(if selective.is_empty() { terms } else { selective })
}

/// Quotes each word of a query, so that no character is full-text syntax. A word that the tokenizer splits (`4.2`,
/// `state-of-the-art`) counts as a phrase and by its parts.
fn terms(query: &str) -> Vec<String> {
    let mut seen = HashSet::new();
    let words = query.split(|c: char| c.is_whitespace() || c.is_control() || c == '"');
    let words = words.map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()));
    let words = words.flat_map(|word| {
        let parts = word.split(|c: char| !c.is_alphanumeric());
        std::iter::once(word).chain(parts.filter(|part| part.chars().nth(1).is_some()))
    });
    let words = words
        .filter(|word| !word.is_empty())
        .map(|word| format!("\"{word}\""));
    words
        .filter(|word| seen.insert(word.to_lowercase()))
        .take(WORDS)
        .collect()
}

pub(super) fn containing(
    transaction: &Transaction<'_>,
    phrases: &[String],
    limit: usize,
    allowed: &Allowed,
) -> Result<Vec<Scored>, DatabaseError> {
    let phrases: Vec<Phrase> = phrases.iter().filter_map(|phrase| Phrase::new(phrase)).collect();
    if phrases.is_empty() {
        return Ok(Vec::new());
    }
    // The full-text index only matches word stems, so it returns too many passages, never too few.
    let words: Vec<String> = phrases
        .iter()
        .flat_map(Phrase::plain_words)
        .map(|word| format!("\"{word}\""))
        .collect();
    let of_words = "SELECT row, text, context, metadata FROM passages \
        WHERE row IN (SELECT rowid FROM words WHERE words MATCH ?)";
    let of_all = "SELECT row, text, context, metadata FROM passages WHERE ? = ''";
    let mut statement = transaction.prepare_cached(if words.is_empty() { of_all } else { of_words })?;
    let mut rows = statement.query([words.join(" AND ")])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let number: i64 = row.get(0)?;
        if !allowed.passes(number) {
            continue;
        }
        let text = |at| -> rusqlite::Result<Option<&str>> { Ok(row.get_ref(at)?.as_str_or_null()?) };
        let metadata = read::metadata(text(3)?.unwrap_or_default())?;
        let folded = fold(&keyword_text(text(1)?.unwrap_or_default(), text(2)?, &metadata));
        if let Some(total) = Phrase::count_all(&phrases, &folded) {
            found.push((number, total as f64));
        }
    }
    read::best(transaction, found, limit)
}
