//! The requests to a Chroma server that the store needs.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::payload::{MORE, PassageFields, Record, SourceFields, best, facet, settles_ties, unit};
use crate::rest::{Method, Rest};
use crate::vector::check_query;
use crate::{Entry, Filter, IndexInfo, RetrievalError, Scored, SourceState};

/// Records per page.
const PAGE: usize = 256;

/// Key in a collection's metadata that describes how the index was built.
const INFO: &str = "holodeck";

/// Prefix of a passage's metadata fields in Chroma's metadata.
pub(super) const FIELD: &str = "field ";

/// The collections of an index.
#[derive(Debug)]
pub(super) struct Api {
    rest: Rest,
    name: String,
    ef_search: u64,
}

/// A collection that exists.
pub(super) struct Collection {
    id: String,
    metadata: Value,
}

/// Records to write, as columns of the same length.
#[derive(Default, Serialize)]
pub(super) struct Records<'v> {
    pub(super) ids: Vec<String>,
    pub(super) embeddings: Vec<std::borrow::Cow<'v, [f32]>>,
    pub(super) metadatas: Vec<Value>,
}

impl Api {
    pub(super) fn new(rest: Rest, name: &str, ef_search: u64) -> Self {
        Self {
            rest,
            name: name.to_owned(),
            ef_search,
        }
    }

    pub(super) fn describe(&self) -> String {
        self.rest.store().to_owned()
    }

    pub(super) fn error(&self, reason: impl Into<String>) -> RetrievalError {
        self.rest.error(reason)
    }

    /// The collection of passages, if it exists.
    pub(super) async fn passages(&self) -> Result<Option<Collection>, RetrievalError> {
        self.collection(&self.name).await
    }

    /// The collection of sources, if it exists.
    pub(super) async fn sources(&self) -> Result<Option<Collection>, RetrievalError> {
        self.collection(&self.sources_name()).await
    }

    fn sources_name(&self) -> String {
        format!("{}_sources", self.name)
    }

    async fn collection(&self, name: &str) -> Result<Option<Collection>, RetrievalError> {
        let Some(mut answer) = self.rest.get(&format!("collections/{name}")).await? else {
            return Ok(None);
        };
        let id = answer.get("id").and_then(Value::as_str).map(str::to_owned);
        Ok(Some(Collection {
            id: id.ok_or_else(|| self.rest.unreadable("id of the collection"))?,
            metadata: answer.get_mut("metadata").map(Value::take).unwrap_or_default(),
        }))
    }

    pub(super) fn info_of(&self, passages: &Collection) -> Result<IndexInfo, RetrievalError> {
        let text = passages.metadata.get(INFO).and_then(Value::as_str);
        let Some(text) = text else {
            return Err(self
                .error("the collection exists but is not a HoloDeck index; set another `collection_name`"));
        };
        Record::read(text).map_err(|reason| self.error(reason))
    }

    pub(super) async fn create_collections(&self, info: &IndexInfo) -> Result<(), RetrievalError> {
        let info = Record::text(info).map_err(|reason| self.error(reason))?;
        // Vectors have length 1, so the dot product is the cosine; with `cosine` the server would rewrite them.
        let graph = json!({"hnsw": {"space": "ip", "ef_construction": 200, "ef_search": self.ef_search}});
        let sources = json!({"name": self.sources_name(), "get_or_create": true});
        self.rest
            .send(Method::Post, "collections", None, &sources)
            .await?;
        // Written last, because this is what identifies an index.
        let passages = json!({"name": self.name, "metadata": {INFO: info}, "configuration": graph});
        self.rest
            .send(Method::Post, "collections", None, &passages)
            .await?;
        Ok(())
    }

    pub(super) async fn delete_collections(&self) -> Result<(), RetrievalError> {
        for name in [&self.name, &self.sources_name()] {
            self.rest.delete(&format!("collections/{name}")).await?;
        }
        Ok(())
    }

    pub(super) async fn upsert(&self, to: &Collection, records: &Records<'_>) -> Result<(), RetrievalError> {
        if records.ids.is_empty() {
            return Ok(());
        }
        let done = self.post(to, "upsert", records).await?;
        done.map(|_| ()).ok_or_else(|| self.collection_deleted())
    }

    pub(super) async fn delete(&self, from: &Collection, which: &Value) -> Result<(), RetrievalError> {
        let done = self.post(from, "delete", which).await?;
        done.map(|_| ()).ok_or_else(|| self.collection_deleted())
    }

    fn collection_deleted(&self) -> RetrievalError {
        self.error("the collection was deleted by another process")
    }

    async fn post(
        &self,
        to: &Collection,
        what: &str,
        body: &impl Serialize,
    ) -> Result<Option<Value>, RetrievalError> {
        let path = format!("collections/{}/{what}", to.id);
        self.rest.send(Method::Post, &path, None, body).await
    }

    pub(super) async fn all_sources(&self) -> Result<Vec<SourceState>, RetrievalError> {
        let Some(collection) = self.sources().await? else {
            return Ok(Vec::new());
        };
        let found = self.get_all(&collection, None, &["metadatas"]).await?;
        let mut sources = Vec::new();
        for page in found {
            for fields in list(&page, "metadatas") {
                sources.push(self.read::<SourceFields>(fields)?.state());
            }
        }
        sources.sort_by(|a, b| a.source.cmp(&b.source));
        Ok(sources)
    }

    /// All entries of a source, in order.
    pub(super) async fn entries_of(&self, source: &str) -> Result<Vec<Entry>, RetrievalError> {
        let Some(collection) = self.passages().await? else {
            return Ok(Vec::new());
        };
        let filter = json!({"source": source});
        let pages = self
            .get_all(&collection, Some(&filter), &["metadatas", "embeddings"])
            .await?;
        let mut entries = Vec::new();
        for page in pages {
            for (fields, vector) in list(&page, "metadatas").zip(list(&page, "embeddings")) {
                let fields = self.read::<PassageFields>(fields)?;
                let position = fields.position;
                let vector = numbers(vector).ok_or_else(|| self.rest.unreadable("vector"))?;
                let passage = fields.passage().map_err(|reason| self.error(reason))?;
                entries.push((position, Entry { passage, vector }));
            }
        }
        entries.sort_by_key(|(position, _)| *position);
        Ok(entries.into_iter().map(|(_, entry)| entry).collect())
    }

    async fn get_all(
        &self,
        of: &Collection,
        filter: Option<&Value>,
        include: &[&str],
    ) -> Result<Vec<Value>, RetrievalError> {
        let mut pages = Vec::new();
        loop {
            let mut body = json!({"include": include, "limit": PAGE, "offset": pages.len() * PAGE});
            if let (Some(filter), Some(body)) = (filter, body.as_object_mut()) {
                body.insert("where".to_owned(), filter.clone());
            }
            let Some(page) = self.post(of, "get", &body).await? else {
                return Ok(pages);
            };
            let found = list(&page, "ids").count();
            pages.push(page);
            if found < PAGE {
                return Ok(pages);
            }
        }
    }

    pub(super) async fn nearest(
        &self,
        query: &[f32],
        limit: usize,
        filter: &Filter,
    ) -> Result<Vec<Scored>, RetrievalError> {
        check_query(query)?;
        let Some(filter) = conditions(filter).filter(|_| limit > 0) else {
            return Ok(Vec::new());
        };
        let Some(collection) = self.passages().await? else {
            return Ok(Vec::new());
        };
        let filter = join_conditions(filter);
        let mut asked = limit + MORE;
        loop {
            let mut body = json!({
                "query_embeddings": [unit(query)],
                "n_results": asked,
                "include": ["metadatas", "distances"],
            });
            if let (Some(filter), Some(body)) = (&filter, body.as_object_mut()) {
                body.insert("where".to_owned(), filter.clone());
            }
            let Some(answer) = self.post(&collection, "query", &body).await? else {
                return Ok(Vec::new());
            };
            // There is one query, so each column holds one list.
            let first = |name| answer.get(name).and_then(|lists| lists.get(0));
            let none = Value::Array(Vec::new());
            let fields = first("metadatas").unwrap_or(&none);
            let distances = first("distances").unwrap_or(&none);
            let mut found = Vec::new();
            for (fields, distance) in items(fields).zip(items(distances)) {
                let fields = self.read::<PassageFields>(fields)?;
                let distance = distance.as_f64();
                found.push(Scored {
                    score: 1.0 - distance.ok_or_else(|| self.rest.unreadable("distance"))?,
                    passage: fields.passage().map_err(|reason| self.error(reason))?,
                });
            }
            if settles_ties(&found, asked, limit) {
                return Ok(best(found, limit));
            }
            asked = asked.saturating_mul(4);
        }
    }

    fn read<T: DeserializeOwned>(&self, fields: &Value) -> Result<T, RetrievalError> {
        T::deserialize(fields).map_err(|error| self.error(format!("a record can't be read: {error}")))
    }
}

/// The conditions of a filter in Chroma's syntax; `None` if no passage can pass it.
fn conditions(filter: &Filter) -> Option<Vec<Value>> {
    let mut all = Vec::new();
    for (field, wanted) in &filter.equal {
        all.push(if field == Filter::SOURCE {
            json!({"source": wanted.as_str()?})
        } else {
            json!({format!("{FIELD}{field}"): facet(wanted)})
        });
    }
    Some(all)
}

/// Chroma rejects an empty filter and a list with a single condition.
fn join_conditions(mut conditions: Vec<Value>) -> Option<Value> {
    match conditions.len() {
        0 => None,
        1 => conditions.pop(),
        _ => Some(json!({"$and": conditions})),
    }
}

fn list<'v>(page: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> {
    page.get(name).into_iter().flat_map(items)
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

#[expect(clippy::cast_possible_truncation, reason = "they were sent as f32")]
fn numbers(vector: &Value) -> Option<Vec<f32>> {
    let numbers = vector.as_array()?.iter();
    numbers
        .map(|number| number.as_f64().map(|number| number as f32))
        .collect()
}
