//! Replaces and removes sources within a transaction.

use std::pin::pin;

use tokio_postgres::Client;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::Type;

use super::failure::Failure;
use super::names::Names;
use super::params::{Jsonb, PgVector, json_text, without_nul};
use super::read::{damaged, prepared_info};
use crate::keyword_text::keyword_text;
use crate::phrases::fold;
use crate::{Entry, IndexInfo, SourceState};

/// How the index is built now, if this process prepared it that way.
pub(super) async fn expect(
    client: &Client,
    names: &Names,
    prepared: Option<&IndexInfo>,
) -> Result<IndexInfo, Failure> {
    let unprepared = || damaged(names, "it was not prepared, or cleared by another process");
    let found = match prepared_info(client, names).await {
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
                    (&without_nul(&state.source).as_ref(), Type::TEXT),
                    (&without_nul(&state.hash).as_ref(), Type::TEXT),
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
        .map(|source| without_nul(source).into_owned())
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
        "COPY {} (id, source, position, text, context, metadata, fields, keyword_text, folded, terms) FROM STDIN (FORMAT binary)",
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
            let keyword_text = keyword_text(&passage.text, passage.context.as_deref(), &passage.metadata);
            let keyword_text = without_nul(&keyword_text);
            let folded = fold(&keyword_text);
            let metadata = json_text(&serde_json::Value::Object(passage.metadata.clone()));
            writer
                .as_mut()
                .write(&[
                    &without_nul(&passage.id).as_ref(),
                    &without_nul(&state.source).as_ref(),
                    &position,
                    &without_nul(&passage.text).as_ref(),
                    &passage.context.as_deref().map(without_nul).as_deref(),
                    &metadata,
                    &Jsonb(&metadata),
                    &keyword_text.as_ref(),
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
                .write(&[&without_nul(&entry.passage.id).as_ref(), &PgVector(&entry.vector)])
                .await?;
        }
    }
    writer.finish().await?;
    Ok(())
}

/// The distinct plain words of a folded text.
fn terms(folded: &str) -> Vec<&str> {
    let words = folded.split(|c: char| !c.is_alphanumeric());
    let mut terms: Vec<&str> = words.filter(|word| !word.is_empty() && word.is_ascii()).collect();
    terms.sort_unstable();
    terms.dedup();
    terms
}
