//! Reads the description, sources and passages of an index.

use holodeck_model::JsonMap;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use super::failure::Failure;
use super::names::Names;
use crate::{Entry, IndexInfo, IndexStats, Passage, RetrievalError, SourceState};

/// Increased whenever the tables change incompatibly.
pub(super) const FORMAT: i32 = 1;

/// The columns that [`passage`] reads.
pub(super) const PASSAGE: &str = "p.id, p.source, p.text, p.context, p.metadata";

/// How the index was built, once it has entries.
pub(super) async fn info(client: &Client, names: &Names) -> Result<Option<IndexInfo>, Failure> {
    let sql = format!("SELECT EXISTS (SELECT FROM {})", names.sources);
    let row = client.query_typed_one(&sql, &[]).await?;
    let filled: bool = row.try_get(0)?;
    if filled {
        prepared_info(client, names).await
    } else {
        Ok(None)
    }
}

/// How the index was prepared to be built.
pub(super) async fn prepared_info(client: &Client, names: &Names) -> Result<Option<IndexInfo>, Failure> {
    let sql = format!("SELECT format, info FROM {}", names.info);
    let Some(row) = client.query_typed_opt(&sql, &[]).await? else {
        return Ok(None);
    };
    let format: i32 = row.try_get(0)?;
    if format != FORMAT {
        return Err(damaged(
            names,
            &format!("format {format} belongs to another version of HoloDeck"),
        ));
    }
    let json: String = row.try_get(1)?;
    serde_json::from_str(&json)
        .map(Some)
        .map_err(|error| damaged(names, &error.to_string()))
}

pub(super) async fn sources(client: &Client, names: &Names) -> Result<Vec<SourceState>, Failure> {
    let sql = format!(
        "SELECT source, hash, passages FROM {} ORDER BY source",
        names.sources
    );
    let rows = client.query_typed(&sql, &[]).await?;
    rows.iter().map(state).collect()
}

/// One source with its current entries.
pub(super) async fn source(
    client: &Client,
    names: &Names,
    source: &str,
) -> Result<Option<(SourceState, Vec<Entry>)>, Failure> {
    let sql = format!(
        "SELECT s.source, s.hash, s.passages, {PASSAGE}, v.vector::real[] FROM {} s \
         LEFT JOIN ({} p JOIN {} v ON v.id = p.id) ON p.source = s.source \
         WHERE s.source = $1 ORDER BY p.position",
        names.sources, names.passages, names.vectors
    );
    let rows = client.query_typed(&sql, &[(&source, Type::TEXT)]).await?;
    let Some(first) = rows.first() else {
        return Ok(None);
    };
    let state = state(first)?;
    let mut entries = Vec::with_capacity(rows.len());
    for row in &rows {
        let id: Option<String> = row.try_get(3)?;
        if id.is_some() {
            entries.push(Entry {
                passage: passage(row, 3, names)?,
                vector: row.try_get(8)?,
            });
        }
    }
    Ok(Some((state, entries)))
}

pub(super) async fn stats(client: &Client, names: &Names) -> Result<IndexStats, Failure> {
    let sql = format!(
        "SELECT count(*), coalesce(sum(passages), 0)::bigint, \
         (SELECT sum(pg_catalog.pg_total_relation_size(t::regclass))::bigint \
         FROM unnest($1::text[]) t) FROM {}",
        names.sources
    );
    let tables = [&names.info, &names.sources, &names.passages, &names.vectors];
    let tables = tables.map(String::as_str).to_vec();
    let row = client
        .query_typed_one(&sql, &[(&tables, Type::TEXT_ARRAY)])
        .await?;
    let bytes: Option<i64> = row.try_get(2)?;
    Ok(IndexStats {
        sources: count(row.try_get(0)?),
        passages: count(row.try_get(1)?),
        bytes: bytes.and_then(|bytes| u64::try_from(bytes).ok()),
    })
}

/// A passage from the columns starting at `at`, which are [`PASSAGE`].
pub(super) fn passage(row: &Row, at: usize, names: &Names) -> Result<Passage, Failure> {
    let metadata: String = row.try_get(at + 4)?;
    let metadata: JsonMap =
        serde_json::from_str(&metadata).map_err(|error| damaged(names, &error.to_string()))?;
    Ok(Passage {
        id: row.try_get(at)?,
        source: row.try_get(at + 1)?,
        text: row.try_get(at + 2)?,
        context: row.try_get(at + 3)?,
        metadata,
    })
}

pub(super) fn damaged(names: &Names, reason: &str) -> Failure {
    Failure::Ours(RetrievalError::Store {
        store: format!("postgres {}", names.shown),
        reason: format!("the index can't be read: {reason}"),
    })
}

fn state(row: &Row) -> Result<SourceState, Failure> {
    Ok(SourceState {
        source: row.try_get(0)?,
        hash: row.try_get(1)?,
        passages: count(row.try_get(2)?),
    })
}

fn count(number: i64) -> usize {
    usize::try_from(number).unwrap_or_default()
}
