//! Reads passages, sources and vectors from the tables of the embedded index.

use holodeck_model::JsonMap;
use rusqlite::{OptionalExtension as _, Row, Transaction};

use super::database::DatabaseError;
use crate::{Entry, IndexStats, Passage, Scored, SourceState};

/// The best `limit` of unordered rows, best first, ties by id.
pub(super) fn best(
    transaction: &Transaction<'_>,
    mut found: Vec<(i64, f64)>,
    limit: usize,
) -> Result<Vec<Scored>, DatabaseError> {
    found.sort_unstable_by(|(_, a), (_, b)| b.total_cmp(a));
    let Some((_, last)) = limit
        .checked_sub(1)
        .and_then(|last| found.get(last).or(found.last()))
        .copied()
    else {
        return Ok(Vec::new());
    };
    // All rows that tie with the last one stay; their ids decide.
    let enough = found.partition_point(|(_, score)| score.total_cmp(&last).is_ge());
    found.truncate(enough);
    let mut statement = transaction.prepare_cached("SELECT id FROM passages WHERE row = ?")?;
    let mut named: Vec<(String, i64, f64)> = Vec::with_capacity(found.len());
    for (row, score) in found {
        let id = statement.query_row([row], |found| found.get(0)).optional()?;
        named.push((
            id.ok_or(DatabaseError::Damaged("a passage is missing"))?,
            row,
            score,
        ));
    }
    named.sort_unstable_by(|(a_id, _, a), (b_id, _, b)| b.total_cmp(a).then_with(|| a_id.cmp(b_id)));
    named.truncate(limit);
    let mut statement = transaction.prepare_cached(PASSAGE)?;
    let scored = named.into_iter().map(|(_, row, score)| {
        let passage = statement.query_row([row], |row| Ok(passage(row)))??;
        Ok(Scored { score, passage })
    });
    scored.collect()
}

const PASSAGE: &str = "SELECT passages.id, sources.name, passages.text, passages.context, passages.metadata \
    FROM passages JOIN sources ON sources.number = passages.source WHERE passages.row = ?";

fn passage(row: &Row<'_>) -> Result<Passage, DatabaseError> {
    Ok(Passage {
        id: row.get(0)?,
        source: row.get(1)?,
        text: row.get(2)?,
        context: row.get(3)?,
        metadata: metadata(row.get_ref(4)?.as_str().map_err(rusqlite::Error::from)?)?,
    })
}

pub(super) fn metadata(text: &str) -> Result<JsonMap, DatabaseError> {
    serde_json::from_str(text).map_err(|_| DatabaseError::Damaged("unreadable metadata"))
}

/// Every source, by name.
pub(super) fn sources(transaction: &Transaction<'_>) -> Result<Vec<SourceState>, DatabaseError> {
    let mut statement =
        transaction.prepare_cached("SELECT name, hash, passages FROM sources ORDER BY name")?;
    let sources = statement.query_map([], |row| {
        Ok(SourceState {
            source: row.get(0)?,
            hash: row.get(1)?,
            passages: row.get(2)?,
        })
    })?;
    Ok(sources.collect::<Result<_, _>>()?)
}

/// The hash of a source, its first row and its number of passages.
pub(super) fn source_rows(
    transaction: &Transaction<'_>,
    name: &str,
) -> Result<Option<(String, i64, i64)>, DatabaseError> {
    let mut statement =
        transaction.prepare_cached("SELECT hash, first, passages FROM sources WHERE name = ?")?;
    Ok(statement
        .query_row([name], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?)
}

/// A source with all its entries, in document order.
pub(super) fn entries(
    transaction: &Transaction<'_>,
    name: &str,
) -> Result<Option<(SourceState, Vec<Entry>)>, DatabaseError> {
    let Some((hash, first, passages)) = source_rows(transaction, name)? else {
        return Ok(None);
    };
    let mut statement = transaction.prepare_cached(
        "SELECT passages.id, ?1, passages.text, passages.context, passages.metadata, vectors.vector \
         FROM passages JOIN vectors ON vectors.row = passages.row \
         WHERE passages.row >= ?2 AND passages.row < ?3 ORDER BY passages.row",
    )?;
    let mut rows = statement.query(rusqlite::params![name, first, first + passages])?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        let vector = row.get_ref(5)?.as_blob().map_err(rusqlite::Error::from)?;
        entries.push(Entry {
            passage: passage(row)?,
            vector: numbers(vector)?,
        });
    }
    if i64::try_from(entries.len()).ok() != Some(passages) {
        return Err(DatabaseError::Damaged("passages are missing"));
    }
    Ok(Some((
        SourceState {
            source: name.to_owned(),
            hash,
            passages: entries.len(),
        },
        entries,
    )))
}

/// A stored vector.
pub(super) fn numbers(bytes: &[u8]) -> Result<Vec<f32>, DatabaseError> {
    let mut vector = Vec::new();
    read_numbers(bytes, &mut vector)?;
    Ok(vector)
}

/// Reads a stored vector into a buffer.
pub(super) fn read_numbers(bytes: &[u8], vector: &mut Vec<f32>) -> Result<(), DatabaseError> {
    let (numbers, rest) = bytes.as_chunks();
    if !rest.is_empty() {
        return Err(DatabaseError::Damaged("a vector of another length"));
    }
    vector.clear();
    vector.extend(numbers.iter().map(|number| f32::from_le_bytes(*number)));
    Ok(())
}

/// The size of the index.
pub(super) fn stats(transaction: &Transaction<'_>) -> Result<IndexStats, DatabaseError> {
    let number = |sql: &str| transaction.query_row(sql, [], |row| row.get::<_, i64>(0));
    let count =
        |sql: &str| -> Result<usize, DatabaseError> { Ok(usize::try_from(number(sql)?).unwrap_or_default()) };
    let bytes = number("SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()")?;
    Ok(IndexStats {
        sources: count("SELECT count(*) FROM sources")?,
        passages: count("SELECT coalesce(sum(passages), 0) FROM sources")?,
        bytes: u64::try_from(bytes).ok(),
    })
}
