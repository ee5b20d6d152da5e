//! Writes sources to Qdrant, which has no transactions: an unfinished source is marked until it is complete.

use serde::Serialize;
use serde_json::json;

use super::api::{Api, Point, Vector};
use super::filter::{PASSAGE, SOURCE, field_facet, is, match_any};
use crate::keyword_text::keyword_text;
use crate::payload::{PassageFields, Record, SourceFields, pieces, size, unit, uuid_of};
use crate::phrases::{fold, words};
use crate::vector::check_entries;
use crate::{Entry, IndexInfo, Passage, RetrievalError, SourceState};

/// Sources per request.
const SOURCES: usize = 500;

#[derive(Serialize)]
struct PassagePayload {
    kind: &'static str,
    #[serde(flatten)]
    fields: PassageFields,
    facets: Vec<String>,
    words: Vec<String>,
    folded: String,
}

#[derive(Serialize)]
struct SourcePayload {
    kind: &'static str,
    #[serde(flatten)]
    fields: SourceFields,
}

pub(super) async fn prepare(api: &Api, wanted: &IndexInfo) -> Result<(), RetrievalError> {
    if api.exists().await? {
        match api.info().await? {
            Some(found) if found.must_equal(wanted).is_ok() => return Ok(()),
            Some(found) => {
                if !api.sources().await?.is_empty() {
                    found.must_equal(wanted)?;
                }
                api.delete_collection().await?;
            }
            None => {
                return Err(api.error(
                    "the collection exists but is not a HoloDeck index; set another `collection_name`",
                ));
            }
        }
    }
    api.create_collection(wanted.dimensions).await?;
    let info = Record::text(wanted).map_err(|reason| api.error(reason))?;
    api.upsert(&[Point {
        id: Api::info_id(),
        vector: Vector { text: None },
        payload: json!({"kind": "info", "info": info}),
    }])
    .await
}

pub(super) async fn replace(
    api: &Api,
    prepared: Option<&IndexInfo>,
    parts: &[(&SourceState, &[Entry])],
) -> Result<(), RetrievalError> {
    let info = api.info().await?;
    let info = info.ok_or_else(|| api.error("the index was not prepared, or cleared by another process"))?;
    if let Some(prepared) = prepared {
        info.must_equal(prepared)?;
    }
    for (state, entries) in parts {
        check_entries(&state.source, entries, info.dimensions)?;
    }
    let names: Vec<String> = parts.iter().map(|(state, _)| state.source.clone()).collect();
    delete_passages(api, &names).await?;
    let passages: Vec<(usize, &Entry)> = parts
        .iter()
        .flat_map(|(_, entries)| entries.iter().enumerate())
        .collect();
    for piece in pieces(&passages, |(_, entry)| size(entry)) {
        let vectors: Vec<_> = piece.iter().map(|(_, entry)| unit(&entry.vector)).collect();
        let points: Vec<_> = piece
            .iter()
            .zip(&vectors)
            .map(|((position, entry), vector)| point(&entry.passage, *position, vector))
            .collect();
        api.upsert(&points).await?;
    }
    let whole = parts
        .iter()
        .map(|(state, entries)| SourceFields::finished(state, entries));
    put_sources(api, whole.collect()).await
}

pub(super) async fn remove(api: &Api, sources: &[String]) -> Result<(), RetrievalError> {
    if sources.is_empty() || !api.exists().await? {
        return Ok(());
    }
    delete_passages(api, sources).await?;
    for some in sources.chunks(SOURCES) {
        let filter = json!({"filter": {"must": [is("kind", SOURCE), match_any("source", some)]}});
        api.change("points/delete", &filter).await?;
    }
    Ok(())
}

/// Deletes the passages of sources and marks the sources unfinished.
async fn delete_passages(api: &Api, sources: &[String]) -> Result<(), RetrievalError> {
    let unfinished = sources.iter().map(|source| SourceFields::unfinished(source));
    put_sources(api, unfinished.collect()).await?;
    for some in sources.chunks(SOURCES) {
        let filter = json!({"filter": {"must": [is("kind", PASSAGE), match_any("source", some)]}});
        api.change("points/delete", &filter).await?;
    }
    Ok(())
}

async fn put_sources(api: &Api, sources: Vec<SourceFields>) -> Result<(), RetrievalError> {
    let points: Vec<_> = sources
        .into_iter()
        .map(|fields| Point {
            id: uuid_of(&["source", &fields.source]),
            vector: Vector { text: None },
            payload: SourcePayload { kind: SOURCE, fields },
        })
        .collect();
    for some in points.chunks(SOURCES) {
        api.upsert(some).await?;
    }
    Ok(())
}

fn point<'v>(passage: &Passage, position: usize, vector: &'v [f32]) -> Point<'v, PassagePayload> {
    let folded = fold(&keyword_text(
        &passage.text,
        passage.context.as_deref(),
        &passage.metadata,
    ));
    let mut each: Vec<String> = words(&folded).map(str::to_owned).collect();
    each.sort_unstable();
    each.dedup();
    let facets = passage.metadata.iter();
    Point {
        id: uuid_of(&["passage", &passage.source, &passage.id]),
        vector: Vector { text: Some(vector) },
        payload: PassagePayload {
            kind: PASSAGE,
            facets: facets.map(|(field, value)| field_facet(field, value)).collect(),
            fields: PassageFields::of(passage, position),
            words: each,
            folded,
        },
    }
}
