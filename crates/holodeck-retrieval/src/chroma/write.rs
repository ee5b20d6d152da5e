//! Writes sources to Chroma, which has no transactions: an unfinished source is marked until it is complete.

use serde_json::{Value, json};

use super::api::{Api, FIELD, Records};
use crate::payload::{PassageFields, SourceFields, facet, pieces, size, unit, uuid_of};
use crate::vector::check_entries;
use crate::{Entry, IndexInfo, Passage, RetrievalError, SourceState};

/// Sources per request.
const SOURCES: usize = 200;

pub(super) async fn prepare(api: &Api, wanted: &IndexInfo) -> Result<(), RetrievalError> {
    if let Some(passages) = api.passages().await? {
        let found = api.info_of(&passages)?;
        if found.must_equal(wanted).is_ok() {
            return Ok(());
        }
        if !api.all_sources().await?.is_empty() {
            found.must_equal(wanted)?;
        }
    }
    api.delete_collections().await?;
    api.create_collections(wanted).await
}

pub(super) async fn replace(
    api: &Api,
    prepared: Option<&IndexInfo>,
    parts: &[(&SourceState, &[Entry])],
) -> Result<(), RetrievalError> {
    let passages = api.passages().await?;
    let passages =
        passages.ok_or_else(|| api.error("the index was not prepared, or cleared by another process"))?;
    let info = api.info_of(&passages)?;
    if let Some(prepared) = prepared {
        info.must_equal(prepared)?;
    }
    for (state, entries) in parts {
        check_entries(&state.source, entries, info.dimensions)?;
    }
    let names: Vec<String> = parts.iter().map(|(state, _)| state.source.clone()).collect();
    delete_passages(api, &names).await?;
    let entries: Vec<(usize, &Entry)> = parts
        .iter()
        .flat_map(|(_, entries)| entries.iter().enumerate())
        .collect();
    for piece in pieces(&entries, |(_, entry)| size(entry)) {
        let mut records = Records::default();
        for (position, Entry { passage, vector }) in piece {
            records.ids.push(uuid_of(&[&passage.source, &passage.id]));
            records.embeddings.push(unit(vector));
            records.metadatas.push(metadata(api, passage, *position)?);
        }
        api.upsert(&passages, &records).await?;
    }
    let whole = parts
        .iter()
        .map(|(state, entries)| SourceFields::finished(state, entries));
    put_sources(api, whole.collect()).await
}

pub(super) async fn remove(api: &Api, sources: &[String]) -> Result<(), RetrievalError> {
    let Some(collection) = api.sources().await? else {
        return Ok(());
    };
    delete_passages(api, sources).await?;
    for some in sources.chunks(SOURCES) {
        let ids: Vec<String> = some.iter().map(|source| uuid_of(&[source])).collect();
        api.delete(&collection, &json!({"ids": ids})).await?;
    }
    Ok(())
}

/// Deletes the passages of sources and marks the sources unfinished.
async fn delete_passages(api: &Api, sources: &[String]) -> Result<(), RetrievalError> {
    let unfinished = sources.iter().map(|source| SourceFields::unfinished(source));
    put_sources(api, unfinished.collect()).await?;
    if let Some(passages) = api.passages().await? {
        for some in sources.chunks(SOURCES) {
            let which = json!({"where": {"source": {"$in": some}}});
            api.delete(&passages, &which).await?;
        }
    }
    Ok(())
}

async fn put_sources(api: &Api, sources: Vec<SourceFields>) -> Result<(), RetrievalError> {
    let Some(collection) = api.sources().await? else {
        return Err(api.error("the index was not prepared, or cleared by another process"));
    };
    for some in sources.chunks(SOURCES) {
        let mut records = Records::default();
        for fields in some {
            records.ids.push(uuid_of(&[&fields.source]));
            // A record must have a vector; this one is never searched.
            records.embeddings.push(vec![1.0].into());
            let fields = serde_json::to_value(fields).map_err(|error| api.error(error.to_string()))?;
            records.metadatas.push(fields);
        }
        api.upsert(&collection, &records).await?;
    }
    Ok(())
}

fn metadata(api: &Api, passage: &Passage, position: usize) -> Result<Value, RetrievalError> {
    let fields = PassageFields::of(passage, position);
    let mut metadata = serde_json::to_value(fields).map_err(|error| api.error(error.to_string()))?;
    if let Some(metadata) = metadata.as_object_mut() {
        for (field, value) in &passage.metadata {
            metadata.insert(format!("{FIELD}{field}"), facet(value).into());
        }
    }
    Ok(metadata)
}
