//! The requests to a Qdrant server that the store needs.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::filter::{PASSAGE, SOURCE, is};
use crate::payload::{PassageFields, Record, SourceFields, uuid_of};
use crate::rest::{Method, Rest};
use crate::{Entry, IndexInfo, RetrievalError, SourceState};

/// The name of a passage's vector; points without it are not searched.
pub(super) const VECTOR: &str = "text";

/// Points per page.
const PAGE: usize = 256;

/// Payload fields that are used only for search.
pub(super) const SEARCH_FIELDS: [&str; 3] = ["words", "facets", "folded"];

/// The collection of an index.
#[derive(Debug)]
pub(super) struct Api {
    rest: Rest,
    path: String,
    /// Whether every vector is compared.
    pub(super) exact: bool,
}

/// A point to write.
#[derive(Serialize)]
pub(super) struct Point<'a, P> {
    pub(super) id: String,
    pub(super) vector: Vector<'a>,
    pub(super) payload: P,
}

#[derive(Serialize)]
pub(super) struct Vector<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<&'a [f32]>,
}

impl Api {
    pub(super) fn new(rest: Rest, collection: &str, exact: bool) -> Self {
        Self {
            rest,
            path: format!("collections/{collection}"),
            exact,
        }
    }

    pub(super) fn describe(&self) -> String {
        self.rest.store().to_owned()
    }

    pub(super) fn error(&self, reason: impl Into<String>) -> RetrievalError {
        self.rest.error(reason)
    }

    /// The `result` of an answer; `None` if there is no such collection.
    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Option<Value>, RetrievalError> {
        let path = format!("{}/{path}", self.path);
        let answer = self.rest.send(Method::Post, &path, None, body).await?;
        Ok(answer.and_then(result))
    }

    /// Changes points; returns when the change is applied.
    pub(super) async fn change(&self, path: &str, body: &impl Serialize) -> Result<(), RetrievalError> {
        self.wait(Method::Post, path, body).await
    }

    pub(super) async fn upsert<P: Serialize>(&self, points: &[Point<'_, P>]) -> Result<(), RetrievalError> {
        #[derive(Serialize)]
        struct Points<'p, 'v, P> {
            points: &'p [Point<'v, P>],
        }
        if points.is_empty() {
            return Ok(());
        }
        self.wait(Method::Put, "points", &Points { points }).await
    }

    async fn wait(&self, method: Method, path: &str, body: &impl Serialize) -> Result<(), RetrievalError> {
        let path = format!("{}/{path}", self.path);
        let answer = self
            .rest
            .send(method, &path, Some(("wait", "true")), body)
            .await?;
        let Some(result) = answer.and_then(result) else {
            return Err(self.error("the collection was deleted by another process"));
        };
        match result.get("status").and_then(Value::as_str) {
            // Creating a payload index has the same answer.
            Some("completed") | None => Ok(()),
            Some(status) => Err(self.error(format!("the server did not finish a change (status {status})"))),
        }
    }

    pub(super) async fn exists(&self) -> Result<bool, RetrievalError> {
        let answer = self.rest.get(&format!("{}/exists", self.path)).await?;
        let exists = answer
            .and_then(result)
            .and_then(|result| result.get("exists")?.as_bool());
        exists.ok_or_else(|| self.rest.unreadable("information whether the collection exists"))
    }

    pub(super) async fn create_collection(&self, dimensions: usize) -> Result<(), RetrievalError> {
        // Vectors have length 1, so the dot product is the cosine; with `Cosine` the server would rewrite them.
        let body = json!({"vectors": {VECTOR: {"size": dimensions, "distance": "Dot"}}});
        self.rest.send(Method::Put, &self.path, None, &body).await?;
        for field in ["kind", "source", "facets", "words"] {
            let body = json!({"field_name": field, "field_schema": "keyword"});
            self.wait(Method::Put, "index", &body).await?;
        }
        Ok(())
    }

    pub(super) async fn delete_collection(&self) -> Result<(), RetrievalError> {
        self.rest.delete(&self.path).await?;
        Ok(())
    }

    pub(super) fn info_id() -> String {
        uuid_of(&["holodeck", "info"])
    }

    pub(super) async fn info(&self) -> Result<Option<IndexInfo>, RetrievalError> {
        let body = json!({"ids": [Self::info_id()], "with_payload": true, "with_vector": false});
        let found = self.post("points", &body).await?;
        let text = found
            .as_ref()
            .and_then(|found| found.get(0)?.get("payload")?.get("info")?.as_str());
        let info = text.map(Record::read).transpose();
        info.map_err(|reason| self.error(reason))
    }

    pub(super) async fn sources(&self) -> Result<Vec<SourceState>, RetrievalError> {
        let filter = json!({"must": [is("kind", SOURCE)]});
        let points = self.scroll(&filter, &json!(true), false).await?;
        let mut sources = points
            .into_iter()
            .map(|point| Ok(self.payload::<SourceFields>(point)?.0.state()))
            .collect::<Result<Vec<_>, RetrievalError>>()?;
        sources.sort_by(|a, b| a.source.cmp(&b.source));
        Ok(sources)
    }

    /// All entries of a source, in order.
    pub(super) async fn entries_of(&self, source: &str) -> Result<Vec<Entry>, RetrievalError> {
        let filter = json!({"must": [is("kind", PASSAGE), is("source", source)]});
        let points = self
            .scroll(&filter, &json!({"exclude": SEARCH_FIELDS}), true)
            .await?;
        let mut entries = Vec::with_capacity(points.len());
        for point in points {
            let (fields, point) = self.payload::<PassageFields>(point)?;
            let vector = point.get("vector").and_then(|vector| vector.get(VECTOR));
            let vector = vector.and_then(numbers);
            let vector = vector.ok_or_else(|| self.rest.unreadable("vector"))?;
            let position = fields.position;
            let passage = fields.passage().map_err(|reason| self.error(reason))?;
            entries.push((position, Entry { passage, vector }));
        }
        entries.sort_by_key(|(position, _)| *position);
        Ok(entries.into_iter().map(|(_, entry)| entry).collect())
    }

    pub(super) async fn count(&self, must: &[Value]) -> Result<usize, RetrievalError> {
        let body = json!({"filter": {"must": must}, "exact": true});
        let Some(found) = self.post("points/count", &body).await? else {
            return Ok(0);
        };
        let count = found.get("count").and_then(Value::as_u64);
        let count = count.and_then(|count| usize::try_from(count).ok());
        count.ok_or_else(|| self.rest.unreadable("count"))
    }

    /// Every point that matches, page by page.
    pub(super) async fn scroll(
        &self,
        filter: &Value,
        payload: &Value,
        vectors: bool,
    ) -> Result<Vec<Value>, RetrievalError> {
        let mut points = Vec::new();
        let mut body =
            json!({"filter": filter, "limit": PAGE, "with_payload": payload, "with_vector": vectors});
        while let Some(mut page) = self.post("points/scroll", &body).await? {
            let Some(Value::Array(found)) = page.get_mut("points").map(Value::take) else {
                return Err(self.rest.unreadable("page of points"));
            };
            points.extend(found);
            let next = page.get_mut("next_page_offset").map(Value::take);
            let Some(next) = next.filter(|next| !next.is_null()) else {
                break;
            };
            if let Some(body) = body.as_object_mut() {
                body.insert("offset".to_owned(), next);
            }
        }
        Ok(points)
    }

    /// Reads a point's payload, without and with the rest of the point.
    pub(super) fn payload<T: DeserializeOwned>(
        &self,
        mut point: Value,
    ) -> Result<(T, Value), RetrievalError> {
        let payload = point.get_mut("payload").map(Value::take).unwrap_or_default();
        let read = serde_json::from_value(payload);
        let read = read.map_err(|error| self.error(format!("a point can't be read: {error}")))?;
        Ok((read, point))
    }
}

fn result(mut answer: Value) -> Option<Value> {
    answer
        .get_mut("result")
        .map(Value::take)
        .filter(|result| !result.is_null())
}

#[expect(clippy::cast_possible_truncation, reason = "they were sent as f32")]
fn numbers(vector: &Value) -> Option<Vec<f32>> {
    let numbers = vector.as_array()?.iter();
    numbers
        .map(|number| number.as_f64().map(|number| number as f32))
        .collect()
}
