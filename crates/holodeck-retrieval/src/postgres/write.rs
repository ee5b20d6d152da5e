use std::pin::pin;

use tokio_postgres::Client;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::Type;

use super::failure::Failure;
use super::names::Names;
use super::params::{Jsonb, PgVector, json_text, storable};
use super::read::{damaged, recorded};
use crate::phrases::fold;
use crate::searched::searched;
use crate::{Entry, IndexInfo, SourceState};

/// How the index is made now, if that is what this process prepared it for.
pub(super) async fn expect(
    client: &Client,
    names: &Names,
    prepared: Option<&IndexInfo>,
) -> Result<IndexInfo, Failure> {
    let unprepared = || damaged(names, "it was not prepared, or cleared by another process");
    let found = match recorded(client, names).await {
        Ok(found) => found.ok_or_else(unprepared)?,
        Err(failure) if failure.is_missing_table() => return Err(unprepared()),
        Err(failure) => return Err(failure),
    };
    if let Some(prepared) = prepared {
        found.must_equal(prepared)?;
    }
    Ok(found)
}

pub(super) async fn replace(
    client: &Client,
    names: &Names,
    parts: &[(&SourceState, &[Entry])],
) -> Result<(), Failure> {
    let sources: Vec<String> = parts.iter().map(|(state, _)| state.source.clone()).collect();
    remove(client, names, &sources).await?;
    if parts.iter().any(|(_, entries)| !entries.is_empty()) {
        copy_passages(client, names, parts).await?;
        copy_vectors(client, names, parts).await?;
    }
    let sql = format!(
        "INSERT INTO {} (source, hash, passages, words) VALUES ($1, $2, $3, \
         (SELECT coalesce(sum(length(words)), 0) FROM {} WHERE source = $1))",
        names.sources, names.passages
    );
    for (state, entries) in parts {
        let count = i64::try_from(entries.len()).unwrap_or(i64::MAX);
        client
            .query_typed(
                &sql,
                &[
                    (&storable(&state.source).as_ref(), Type::TEXT),
                    (&storable(&state.hash).as_ref(), Type::TEXT),
                    (&count, Type::INT8),
                ],
            )
            .await?;
    }
    Ok(())
}

pub(super) async fn remove(client: &Client, names: &Names, sources: &[String]) -> Result<(), Failure> {
    let sources: Vec<String> = sources
        .iter()
        .map(|source| storable(source).into_owned())
        .collect();
    let statements = [
        format!(
            "DELETE FROM {} v USING {} p WHERE p.id = v.id AND p.source = ANY($1)",
            names.vectors, names.passages
        ),
        format!("DELETE FROM {} WHERE source = ANY($1)", names.passages),
        format!("DELETE FROM {} WHERE source = ANY($1)", names.sources),
    ];
    for sql in &statements {
        client.query_typed(sql, &[(&sources, Type::TEXT_ARRAY)]).await?;
    }
    Ok(())
}

async fn copy_passages(
    client: &Client,
    names: &Names,
    parts: &[(&SourceState, &[Entry])],
) -> Result<(), Failure> {
    let sql = format!(
        "COPY {} (id, source, position, text, context, metadata, fields, searched, folded, terms) FROM STDIN (FORMAT binary)",
        names.passages
    );
    let sink = client.copy_in(&sql).await?;
    let types = [
        Type::TEXT,
        Type::TEXT,
        Type::INT4,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::JSONB,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT_ARRAY,
    ];
    let mut writer = pin!(BinaryCopyInWriter::new(sink, &types));
    for (state, entries) in parts {
        for (position, Entry { passage, .. }) in (0_i32..).zip(*entries) {
            let searched = searched(&passage.text, passage.context.as_deref(), &passage.metadata);
            let searched = storable(&searched);
            let folded = fold(&searched);
            let metadata = json_text(&serde_json::Value::Object(passage.metadata.clone()));
            writer
                .as_mut()
                .write(&[
                    &storable(&passage.id).as_ref(),
                    &storable(&state.source).as_ref(),
                    &position,
                    &storable(&passage.text).as_ref(),
                    &passage.context.as_deref().map(storable).as_deref(),
                    &metadata,
                    &Jsonb(&metadata),
                    &searched.as_ref(),
                    &folded,
                    &terms(&folded),
                ])
                .await?;
        }
    }
    writer.finish().await?;
    Ok(())
}

async fn copy_vectors(
    client: &Client,
    names: &Names,
    parts: &[(&SourceState, &[Entry])],
) -> Result<(), Failure> {
    let sql = format!("COPY {} (id, vector) FROM STDIN (FORMAT binary)", names.vectors);
    let sink = client.copy_in(&sql).await?;
    let mut writer = pin!(BinaryCopyInWriter::new(sink, &[Type::TEXT, PgVector::kind()]));
    for (_, entries) in parts {
        for entry in *entries {
            writer
                .as_mut()
                .write(&[&storable(&entry.passage.id).as_ref(), &PgVector(&entry.vector)])
                .await?;
        }
    }
    writer.finish().await?;
    Ok(())
}

/// The plain words of a folded text, each once.
fn terms(folded: &str) -> Vec<&str> {
    let words = folded.split(|c: char| !c.is_alphanumeric());
    let mut terms: Vec<&str> = words.filter(|word| !word.is_empty() && word.is_ascii()).collect();
    terms.sort_unstable();
    terms.dedup();
    terms
}
