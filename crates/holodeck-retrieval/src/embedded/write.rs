//! Adds and removes sources inside the given transaction.

use std::borrow::Cow;

use rusqlite::{CachedStatement, OptionalExtension as _, Transaction, params};

use super::database::DatabaseError;
use crate::keyword_text::keyword_text;
use crate::scan::{Bounds, UNIT, encode, product};
use crate::{Entry, IndexInfo, RetrievalError, SourceState};

/// Vectors whose codes share a row of the table.
pub(super) const SEGMENT: usize = 1024;

/// A source converted to its stored form before the transaction starts.
pub(super) struct Prepared {
    name: String,
    hash: String,
    rows: Vec<Row>,
    dimensions: Option<usize>,
    /// The codes of all rows, concatenated.
    vectors: Vec<u8>,
    codes: Vec<i8>,
    bounds: Vec<Bounds>,
}

struct Row {
    id: String,
    text: String,
    context: Option<String>,
    metadata: String,
    /// Where it differs from the text.
    keyword_text: Option<String>,
}

impl Prepared {
    pub(super) fn new(source: &SourceState, entries: &[Entry]) -> Result<Self, String> {
        let dimensions = entries.first().map(|entry| entry.vector.len());
        let numbers = entries.len() * dimensions.unwrap_or_default();
        let mut prepared = Self {
            name: source.source.clone(),
            hash: source.hash.clone(),
            rows: Vec::with_capacity(entries.len()),
            dimensions,
            vectors: Vec::with_capacity(numbers * size_of::<f32>()),
            codes: Vec::with_capacity(numbers),
            bounds: Vec::with_capacity(entries.len()),
        };
        for entry in entries {
            prepared.add(entry).map_err(|reason| {
                format!("passage `{}` of `{}` {reason}", entry.passage.id, source.source)
            })?;
        }
        Ok(prepared)
    }

    fn add(&mut self, Entry { passage, vector }: &Entry) -> Result<(), String> {
        if passage.source != self.name {
            return Err(format!("names another source, `{}`", passage.source));
        }
        if Some(vector.len()) != self.dimensions {
            return Err("has a vector of another length than those before".to_owned());
        }
        let vector = of_length_one(vector)?;
        self.vectors.extend(vector.iter().flat_map(|x| x.to_le_bytes()));
        self.bounds.push(encode(&vector, &mut self.codes));
        self.rows.push(Row {
            id: passage.id.clone(),
            text: passage.text.clone(),
            context: passage.context.clone(),
            metadata: serde_json::to_string(&passage.metadata).map_err(|error| error.to_string())?,
            keyword_text: match keyword_text(&passage.text, passage.context.as_deref(), &passage.metadata) {
                Cow::Owned(keyword_text) => Some(keyword_text),
                Cow::Borrowed(_) => None,
            },
        });
        Ok(())
    }
}

/// Scales a vector to length 1. A vector without a direction is an error.
pub(super) fn of_length_one(vector: &[f32]) -> Result<Cow<'_, [f32]>, String> {
    let length = product(vector, vector).sqrt();
    if !length.is_finite() || length <= f64::from(f32::MIN_POSITIVE) {
        return Err("has a vector that is all zeros or not finite".to_owned());
    }
    if (length - 1.0).abs() < UNIT / 2.0 {
        return Ok(vector.into());
    }
    #[expect(clippy::cast_possible_truncation, reason = "at most 1")]
    Ok(vector.iter().map(|x| (f64::from(*x) / length) as f32).collect())
}

/// How the index was built.
pub(super) fn info(transaction: &Transaction<'_>) -> Result<Option<IndexInfo>, DatabaseError> {
    let read = |row: &rusqlite::Row<'_>| row.get::<_, Option<String>>(0);
    let info = transaction
        .prepare_cached("SELECT info FROM state")?
        .query_row([], read)?;
    let parsed = info.as_deref().map(serde_json::from_str).transpose();
    parsed.map_err(|_| DatabaseError::Damaged("unreadable build settings"))
}

/// Declares how the index is built.
pub(super) fn prepare(transaction: &Transaction<'_>, wanted: &IndexInfo) -> Result<(), DatabaseError> {
    if let Some(found) = info(transaction)? {
        let count = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
        let entries =
            transaction.query_row("SELECT count(*) FROM (SELECT 1 FROM vectors LIMIT 1)", [], count)?;
        if entries > 0 {
            found.must_equal(wanted)?;
        }
    }
    let text = serde_json::to_string(wanted).map_err(|error| DatabaseError::Refused(error.to_string()))?;
    transaction.execute("UPDATE state SET info = ?", [text])?;
    Ok(())
}

/// Puts sources in place of those with the same name.
pub(super) fn replace(
    transaction: &Transaction<'_>,
    expected: Option<&IndexInfo>,
    sources: &[Prepared],
) -> Result<(), DatabaseError> {
    let Some(info) = info(transaction)? else {
        return Err(DatabaseError::Refused(
            "the index was not prepared before its first entry".to_owned(),
        ));
    };
    if let Some(expected) = expected {
        // Another process may have rebuilt the index with other settings.
        info.must_equal(expected)?;
    }
    let mut writer = Writer::new(transaction)?;
    for source in sources {
        if source.dimensions.is_some_and(|found| found != info.dimensions) {
            return Err(DatabaseError::Refused(format!(
                "the vectors of `{}` do not have the index's {} dimensions",
                source.name, info.dimensions
            )));
        }
        remove(transaction, &source.name)?;
        writer.put(source)?;
    }
    writer.end()
}

/// Deletes a source.
pub(super) fn remove(transaction: &Transaction<'_>, name: &str) -> Result<(), DatabaseError> {
    let found = transaction
        .prepare_cached("DELETE FROM sources WHERE name = ? RETURNING first, passages")?
        .query_row([name], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))
        .optional()?;
    let Some((first, passages)) = found.filter(|(_, passages)| *passages > 0) else {
        return Ok(());
    };
    for sql in [
        "DELETE FROM words WHERE rowid >= ?1 AND rowid < ?2",
        "DELETE FROM passages WHERE row >= ?1 AND row < ?2",
        "DELETE FROM vectors WHERE row >= ?1 AND row < ?2",
        "DELETE FROM codes WHERE first >= ?1 AND first < ?2",
    ] {
        transaction
            .prepare_cached(sql)?
            .execute([first, first + passages])?;
    }
    Ok(())
}

/// Deletes everything.
pub(super) fn clear(transaction: &Transaction<'_>) -> Result<(), DatabaseError> {
    transaction.execute_batch(
        "INSERT INTO words(words) VALUES ('delete-all');
         DELETE FROM sources; DELETE FROM passages; DELETE FROM vectors; DELETE FROM codes;
         UPDATE state SET info = NULL;",
    )?;
    Ok(())
}

/// The prepared statements of a batch.
struct Writer<'a> {
    transaction: &'a Transaction<'a>,
    next: i64,
    sources: CachedStatement<'a>,
    passages: CachedStatement<'a>,
    vectors: CachedStatement<'a>,
    codes: CachedStatement<'a>,
    words: CachedStatement<'a>,
}

impl<'a> Writer<'a> {
    fn new(transaction: &'a Transaction<'a>) -> Result<Self, DatabaseError> {
        Ok(Self {
            transaction,
            next: transaction.query_row("SELECT next_row FROM state", [], |row| row.get(0))?,
            sources: transaction
                .prepare_cached("INSERT INTO sources (name, hash, first, passages) VALUES (?, ?, ?, ?)")?,
            passages: transaction.prepare_cached("INSERT INTO passages VALUES (?, ?, ?, ?, ?, ?)")?,
            vectors: transaction.prepare_cached("INSERT INTO vectors VALUES (?, ?)")?,
            codes: transaction.prepare_cached("INSERT INTO codes VALUES (?, ?, ?, ?)")?,
            words: transaction.prepare_cached("INSERT INTO words (rowid, text) VALUES (?, ?)")?,
        })
    }

    fn put(&mut self, source: &Prepared) -> Result<(), DatabaseError> {
        let first = self.next;
        self.sources
            .execute(params![source.name, source.hash, first, source.rows.len()])?;
        let number = self.transaction.last_insert_rowid();
        let dimensions = source.dimensions.unwrap_or_default().max(1);
        let vectors = source.vectors.chunks_exact(dimensions * size_of::<f32>());
        for (row, vector) in source.rows.iter().zip(vectors) {
            let inserted = self.passages.execute(params![
                self.next,
                row.id,
                number,
                row.metadata,
                row.context,
                row.text
            ]);
            inserted.map_err(|error| match error.sqlite_error_code() {
                Some(rusqlite::ErrorCode::ConstraintViolation) => DatabaseError::Refused(format!(
                    "passage `{}` of `{}` already exists in another source",
                    row.id, source.name
                )),
                _ => error.into(),
            })?;
            self.vectors.execute(params![self.next, vector])?;
            self.words
                .execute(params![self.next, row.keyword_text.as_ref().unwrap_or(&row.text)])?;
            self.next += 1;
        }
        let codes = source.codes.chunks(SEGMENT * dimensions);
        let mut at = first;
        for (codes, bounds) in codes.zip(source.bounds.chunks(SEGMENT)) {
            let codes: Vec<u8> = codes.iter().map(|code| code.cast_unsigned()).collect();
            let both = bounds.iter().flat_map(|bounds| [bounds.scale, bounds.error]);
            let both: Vec<u8> = both.flat_map(f32::to_le_bytes).collect();
            self.codes.execute(params![at, bounds.len(), codes, both])?;
            at += i64::try_from(bounds.len()).unwrap_or(i64::MAX);
        }
        Ok(())
    }

    fn end(self) -> Result<(), DatabaseError> {
        self.transaction
            .prepare_cached("UPDATE state SET next_row = ?")?
            .execute([self.next])?;
        Ok(())
    }
}

/// Shared by every search, so that all report the same error for a query without a direction.
pub(super) fn query_of_length_one(query: &[f32]) -> Result<Cow<'_, [f32]>, RetrievalError> {
    of_length_one(query).map_err(|reason| RetrievalError::Query(format!("the query {reason}")))
}
