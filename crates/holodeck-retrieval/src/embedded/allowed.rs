//! The rows that pass a filter.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use holodeck_model::JsonMap;
use rusqlite::Transaction;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};

use super::database::DatabaseError;
use super::read::source_rows;
use crate::Filter;

/// Number of filters whose rows are cached: a tool repeats the same few filters.
const MAX_FILTERS: usize = 8;

/// The rows that pass a filter.
pub(super) enum Allowed {
    All,
    /// Half-open range.
    Range(i64, i64),
    Rows(Arc<HashSet<i64>>),
}

impl Allowed {
    pub(super) fn passes(&self, row: i64) -> bool {
        match self {
            Self::All => true,
            Self::Range(first, end) => (*first..*end).contains(&row),
            Self::Rows(rows) => rows.contains(&row),
        }
    }
}

/// The rows of the latest filters, each as of one state of the index.
#[derive(Default)]
pub(super) struct Filters(Mutex<Vec<CachedRows>>);

struct CachedRows {
    generation: i64,
    filter: Filter,
    rows: Arc<HashSet<i64>>,
}

impl Filters {
    pub(super) fn allowed(
        &self,
        transaction: &Transaction<'_>,
        filter: &Filter,
    ) -> Result<Allowed, DatabaseError> {
        let Some((field, value)) = filter.equal.first() else {
            return Ok(Allowed::All);
        };
        if filter.equal.len() == 1 && field == Filter::SOURCE {
            let found = match value.as_str() {
                Some(source) => source_rows(transaction, source)?,
                None => None,
            };
            let (_, first, passages) = found.unwrap_or_default();
            return Ok(Allowed::Range(first, first + passages));
        }
        let generation = generation(transaction)?;
        let last = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last().retain(|remembered| remembered.generation == generation);
        if let Some(remembered) = last().iter().find(|remembered| remembered.filter == *filter) {
            return Ok(Allowed::Rows(Arc::clone(&remembered.rows)));
        }
        let rows = Arc::new(rows(transaction, filter)?);
        let mut remembered = last();
        if remembered.len() == MAX_FILTERS {
            remembered.remove(0);
        }
        remembered.push(CachedRows {
            generation,
            filter: filter.clone(),
            rows: Arc::clone(&rows),
        });
        Ok(Allowed::Rows(rows))
    }
}

/// A number that changes with every write.
pub(super) fn generation(transaction: &Transaction<'_>) -> Result<i64, DatabaseError> {
    let mut statement = transaction.prepare_cached("SELECT generation FROM state")?;
    Ok(statement.query_row([], |row| row.get(0))?)
}

fn rows(transaction: &Transaction<'_>, filter: &Filter) -> Result<HashSet<i64>, DatabaseError> {
    let mut statement = transaction.prepare_cached(
        "SELECT passages.row, sources.name, passages.metadata FROM passages \
         JOIN sources ON sources.number = passages.source",
    )?;
    let mut found = statement.query([])?;
    let mut rows = HashSet::new();
    while let Some(row) = found.next()? {
        let text = |at| row.get_ref(at)?.as_str().map_err(rusqlite::Error::from);
        let mut json = serde_json::Deserializer::from_str(text(2)?);
        let metadata = FilteredFields(filter).deserialize(&mut json);
        let metadata = metadata.map_err(|_| DatabaseError::Damaged("unreadable metadata"))?;
        if filter.passes(text(1)?, |field| metadata.get(field)) {
            rows.insert(row.get(0)?);
        }
    }
    Ok(rows)
}

/// Deserializes only the metadata fields that the filter needs.
struct FilteredFields<'a>(&'a Filter);

impl<'de> DeserializeSeed<'de> for FilteredFields<'_> {
    type Value = JsonMap;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<JsonMap, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for FilteredFields<'_> {
    type Value = JsonMap;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonMap, A::Error> {
        let mut asked = JsonMap::new();
        while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            if self.0.equal.iter().any(|(field, _)| *field == key) {
                asked.insert(key.into_owned(), map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(asked)
    }
}
