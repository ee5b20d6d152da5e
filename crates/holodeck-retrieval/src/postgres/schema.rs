//! Creates and drops the tables of an index and its vector graph.

use std::fmt::Write as _;

use std::sync::Arc;

use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::failure::Failure;
use super::names::{Names, literal, quote};
use super::read::{self, FORMAT};
use super::target::{HNSW_DIMENSIONS, Target, VectorIndex};
use crate::IndexInfo;

/// Longer vectors do not fit a page with the rest of their row; the server stores them separately.
const INLINE_DIMENSIONS: usize = 1900;

/// Whether there is nothing to prepare. Needs only read permission.
pub(super) async fn ready(client: &Client, target: &Target, wanted: &IndexInfo) -> Result<bool, Failure> {
    let found = read::prepared_info(client, &target.names).await?;
    Ok(found.is_some_and(|found| found.must_equal(wanted).is_ok())
        && has_hnsw(client, &target.names).await? == wants_hnsw(target))
}

pub(super) async fn prepare(
    client: &Arc<Client>,
    target: &Target,
    wanted: &IndexInfo,
) -> Result<(), Failure> {
    let names = &target.names;
    if wants_hnsw(target) && wanted.dimensions > HNSW_DIMENSIONS {
        return Err(target
            .error(format!(
                "`index: hnsw` supports at most {HNSW_DIMENSIONS} dimensions, the embedder has {}; use `index: exact`",
                wanted.dimensions
            ))
            .into());
    }
    create_extension(client).await?;
    create_schema(client, names).await?;
    let found = if exists(client, &names.info).await? {
        read::prepared_info(client, names).await?
    } else {
        if exists(client, &names.passages).await? {
            return Err(target
                .error(format!(
                    "the table {} exists but is not a HoloDeck index; set another `table`",
                    names.passages
                ))
                .into());
        }
        None
    };
    match found {
        Some(found) if found.must_equal(wanted).is_ok() => {}
        Some(found) if !read::sources(client, names).await?.is_empty() => found.must_equal(wanted)?,
        _ => {
            drop_all(client, names).await?;
            create_tables(client, target, wanted).await?;
        }
    }
    update_hnsw(client, target).await
}

pub(super) async fn drop_all(client: &Client, names: &Names) -> Result<(), Failure> {
    if !exists(client, &names.info).await? {
        return Ok(());
    }
    let sql = format!(
        "DROP TABLE IF EXISTS {}, {}, {}, {}",
        names.vectors, names.passages, names.sources, names.info
    );
    client.batch_execute(&sql).await?;
    Ok(())
}

async fn create_extension(client: &Client) -> Result<(), Failure> {
    let found = client
        .query_typed_opt(
            "SELECT 1 FROM pg_catalog.pg_extension WHERE extname = 'vector'",
            &[],
        )
        .await?;
    if found.is_some() {
        return Ok(());
    }
    // In this session the search path is still the database's own: that is where the extension is created.
    client
        .batch_execute("CREATE EXTENSION IF NOT EXISTS vector")
        .await?;
    let row = client
        .query_typed_one(
            "SELECT n.nspname::text FROM pg_catalog.pg_extension e \
             JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'",
            &[],
        )
        .await?;
    let schema: String = row.try_get(0)?;
    client
        .batch_execute(&format!("SET search_path = pg_catalog, {}", quote(&schema)))
        .await?;
    Ok(())
}

async fn create_schema(client: &Client, names: &Names) -> Result<(), Failure> {
    let found = client
        .query_typed_opt(
            "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1",
            &[(&names.schema_name, Type::TEXT)],
        )
        .await?;
    if found.is_none() {
        client
            .batch_execute(&format!("CREATE SCHEMA IF NOT EXISTS {}", names.schema))
            .await?;
    }
    Ok(())
}

async fn create_tables(client: &Client, target: &Target, info: &IndexInfo) -> Result<(), Failure> {
    let names = &target.names;
    let json = serde_json::to_string(info)
        .map_err(|error| target.error(format!("the index can't be described: {error}")))?;
    let language = literal(&target.language);
    let mut sql = format!(
        "CREATE TABLE {info} (one boolean PRIMARY KEY DEFAULT true CHECK (one), format integer NOT NULL, \
         info text NOT NULL);
         CREATE TABLE {sources} (source text COLLATE \"C\" PRIMARY KEY, hash text NOT NULL, \
         passages bigint NOT NULL, words bigint NOT NULL);
         CREATE TABLE {passages} (id text COLLATE \"C\" PRIMARY KEY, source text COLLATE \"C\" NOT NULL, \
         position integer NOT NULL, text text NOT NULL, context text, metadata text NOT NULL, fields jsonb NOT NULL, \
         keyword_text text NOT NULL, folded text COLLATE \"C\" NOT NULL, terms text[] NOT NULL, \
         words tsvector NOT NULL GENERATED ALWAYS AS (to_tsvector({language}::regconfig, keyword_text)) STORED);
         CREATE INDEX ON {passages} (source, position);
         CREATE INDEX ON {passages} USING gin (words);
         CREATE INDEX ON {passages} USING gin (terms);
         CREATE TABLE {vectors} (id text COLLATE \"C\" PRIMARY KEY, vector vector({dimensions}) NOT NULL);",
        info = names.info,
        sources = names.sources,
        passages = names.passages,
        vectors = names.vectors,
        dimensions = info.dimensions,
    );
    if info.dimensions <= INLINE_DIMENSIONS {
        // Stored out of line, each long vector would be fetched separately during a scan.
        let _ = write!(
            sql,
            "ALTER TABLE {} ALTER COLUMN vector SET STORAGE PLAIN;",
            names.vectors
        );
    }
    let _ = write!(
        sql,
        "INSERT INTO {} (format, info) VALUES ({FORMAT}, {})",
        names.info,
        literal(&json)
    );
    client.batch_execute(&sql).await?;
    Ok(())
}

fn wants_hnsw(target: &Target) -> bool {
    matches!(target.index, VectorIndex::Hnsw { .. })
}

async fn has_hnsw(client: &Client, names: &Names) -> Result<bool, Failure> {
    exists(client, &names.hnsw).await
}

async fn update_hnsw(client: &Client, target: &Target) -> Result<(), Failure> {
    let names = &target.names;
    let sql = match target.index {
        VectorIndex::Exact => format!("DROP INDEX IF EXISTS {}", names.hnsw),
        VectorIndex::Hnsw {
            m, ef_construction, ..
        } => format!(
            "CREATE INDEX IF NOT EXISTS {} ON {} USING hnsw (vector vector_cosine_ops) \
             WITH (m = {m}, ef_construction = {ef_construction})",
            quote(&names.hnsw_name),
            names.vectors
        ),
    };
    client.batch_execute(&sql).await?;
    Ok(())
}

async fn exists(client: &Client, quoted_name: &str) -> Result<bool, Failure> {
    let row = client
        .query_typed_one(
            "SELECT pg_catalog.to_regclass($1) IS NOT NULL",
            &[(&quoted_name, Type::TEXT)],
        )
        .await?;
    Ok(row.try_get(0)?)
}
