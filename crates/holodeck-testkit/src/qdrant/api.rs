//! The used part of Qdrant's API, according to its OpenAPI (1.19). A request with an unknown key, or without a required
//! one, is a violation.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::received::ReceivedRequest;

/// Status and body.
pub(super) type Answer = (u16, Value);

pub(super) struct Qdrant {
    key: String,
    collections: BTreeMap<String, Collection>,
    violations: Vec<String>,
    /// Remaining requests until it fails.
    left: Option<usize>,
}

#[derive(Default)]
struct Collection {
    vectors: BTreeMap<String, usize>,
    indexed: Vec<String>,
    points: BTreeMap<String, Point>,
}

struct Point {
    vectors: BTreeMap<String, Vec<f32>>,
    payload: Map<String, Value>,
}

type Done = Result<Value, Answer>;

impl Qdrant {
    pub(super) fn new(key: &str) -> Self {
        Self {
            key: key.to_owned(),
            collections: BTreeMap::new(),
            violations: Vec::new(),
            left: None,
        }
    }

    pub(super) fn fail_after(&mut self, requests: usize) {
        self.left = Some(requests);
    }

    pub(super) fn work_again(&mut self) {
        self.left = None;
    }

    pub(super) fn add_foreign(&mut self, name: &str) {
        self.collections.insert(name.to_owned(), Collection::default());
    }

    pub(super) fn violations(&self) -> &[String] {
        &self.violations
    }

    pub(super) fn answer(&mut self, call: &ReceivedRequest) -> Answer {
        if call.header("api-key") != Some(self.key.as_str()) {
            return (403, json!("Invalid API key or JWT"));
        }
        if let Some(left) = &mut self.left {
            match left.checked_sub(1) {
                Some(fewer) => *left = fewer,
                // A status that is not retried.
                None => return (501, json!({"status": {"error": "out of order"}, "time": 0.0})),
            }
        }
        match self.done(call) {
            Ok(result) => (200, json!({"result": result, "status": "ok", "time": 0.001})),
            Err((status, error)) => {
                // Requests for missing items are allowed; any other error is a mistake of the client.
                if status != 404 && !error.to_string().contains("dimension") {
                    self.violations
                        .push(format!("{} {} {}: {error}", call.method, call.path, call.body));
                }
                (status, json!({"status": {"error": error}, "time": 0.0}))
            }
        }
    }

    fn done(&mut self, call: &ReceivedRequest) -> Done {
        let (path, query) = call.path.split_once('?').unwrap_or((&call.path, ""));
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let ["collections", name, rest @ ..] = parts.as_slice() else {
            return Err((404, json!("no such path")));
        };
        let method = call.method.as_str();
        let body = &call.body;
        let changes = matches!(
            (method, rest),
            ("PUT", ["index" | "points"]) | ("POST", ["points", "delete"])
        );
        if (query == "wait=true") != changes {
            return wrong(format!("query `{query}`"));
        }
        match (method, rest) {
            ("GET", ["exists"]) => return Ok(json!({"exists": self.collections.contains_key(*name)})),
            ("PUT", []) => return self.create(name, body),
            ("DELETE", []) => return Ok(json!(self.collections.remove(*name).is_some())),
            _ => {}
        }
        let Some(collection) = self.collections.get_mut(*name) else {
            return Err((
                404,
                json!(format!("Not found: Collection `{name}` doesn't exist!")),
            ));
        };
        match (method, rest) {
            ("PUT", ["index"]) => {
                keys(body, &["field_name"], &["field_schema"])?;
                if body["field_schema"] != "keyword" {
                    return wrong("only keyword indexes here");
                }
                collection.indexed.push(text(&body["field_name"])?);
                Ok(completed())
            }
            ("PUT", ["points"]) => collection.upsert(body),
            ("POST", ["points", "delete"]) => {
                keys(body, &["filter"], &[])?;
                let gone = collection.passing(Some(&body["filter"]))?;
                for id in gone {
                    collection.points.remove(&id);
                }
                Ok(completed())
            }
            ("POST", ["points"]) => collection.get(body),
            ("POST", ["points", "count"]) => {
                keys(body, &[], &["filter", "exact"])?;
                Ok(json!({"count": collection.passing(body.get("filter"))?.len()}))
            }
            ("POST", ["points", "scroll"]) => collection.scroll(body),
            ("POST", ["points", "query"]) => collection.query(body),
            _ => Err((404, json!("no such path"))),
        }
    }

    fn create(&mut self, name: &str, body: &Value) -> Done {
        keys(body, &["vectors"], &[])?;
        if self.collections.contains_key(name) {
            return Err((409, json!(format!("Collection `{name}` already exists!"))));
        }
        let mut collection = Collection::default();
        for (name, params) in object(&body["vectors"])? {
            keys(params, &["size", "distance"], &[])?;
            if params["distance"] != "Dot" {
                return wrong("only Dot here");
            }
            let size = params["size"].as_u64().filter(|size| (1..=65536).contains(size));
            let Some(size) = size else {
                return wrong("size");
            };
            collection
                .vectors
                .insert(name.clone(), usize::try_from(size).unwrap());
        }
        self.collections.insert(name.to_owned(), collection);
        Ok(json!(true))
    }
}

impl Collection {
    fn upsert(&mut self, body: &Value) -> Done {
        keys(body, &["points"], &[])?;
        let points = array(&body["points"])?;
        if points.is_empty() {
            return wrong("Empty update request");
        }
        let mut new = Vec::new();
        for point in points {
            keys(point, &["id", "vector"], &["payload"])?;
            let mut vectors = BTreeMap::new();
            for (name, vector) in object(&point["vector"])? {
                let Some(size) = self.vectors.get(name) else {
                    return wrong(format!("Not existing vector name error: {name}"));
                };
                let vector = floats(vector)?;
                if vector.len() != *size {
                    return wrong(format!("Vector dimension error: expected dim: {size}"));
                }
                vectors.insert(name.clone(), vector);
            }
            let payload = object(&point["payload"])?.clone();
            new.push((id(&point["id"])?, Point { vectors, payload }));
        }
        self.points.extend(new);
        Ok(completed())
    }

    fn get(&self, body: &Value) -> Done {
        keys(body, &["ids"], &["with_payload", "with_vector"])?;
        let mut found = Vec::new();
        for wanted in array(&body["ids"])? {
            let wanted = id(wanted)?;
            if let Some(point) = self.points.get(&wanted) {
                found.push(show(&wanted, point, body)?);
            }
        }
        Ok(found.into())
    }

    fn scroll(&self, body: &Value) -> Done {
        keys(
            body,
            &[],
            &["filter", "limit", "offset", "with_payload", "with_vector"],
        )?;
        let limit = usize::try_from(body["limit"].as_u64().unwrap_or(10)).unwrap();
        let from = body.get("offset").map(id).transpose()?.unwrap_or_default();
        let mut ids = self
            .passing(body.get("filter"))?
            .into_iter()
            .filter(|id| *id >= from);
        let mut points = Vec::new();
        for id in ids.by_ref().take(limit) {
            points.push(show(&id, &self.points[&id], body)?);
        }
        Ok(json!({"points": points, "next_page_offset": ids.next()}))
    }

    fn query(&self, body: &Value) -> Done {
        let optional = [
            "using",
            "filter",
            "params",
            "limit",
            "with_payload",
            "with_vector",
        ];
        keys(body, &["query"], &optional)?;
        keys(&body["params"], &[], &["exact", "hnsw_ef"])?;
        let name = text(&body["using"])?;
        let query = floats(&body["query"])?;
        let Some(size) = self.vectors.get(&name) else {
            return wrong("Not existing vector name");
        };
        if query.len() != *size {
            return wrong(format!("Vector dimension error: expected dim: {size}"));
        }
        let mut scored = Vec::new();
        for id in self.passing(body.get("filter"))? {
            let point = &self.points[&id];
            if let Some(vector) = point.vectors.get(&name) {
                let score: f32 = vector.iter().zip(&query).map(|(a, b)| a * b).sum();
                scored.push((score, id));
            }
        }
        // The order of ties is unspecified.
        scored.sort_by(|(a, a_id), (b, b_id)| b.total_cmp(a).then_with(|| b_id.cmp(a_id)));
        scored.truncate(usize::try_from(body["limit"].as_u64().unwrap_or(10)).unwrap());
        let mut points = Vec::new();
        for (score, id) in scored {
            let mut shown = show(&id, &self.points[&id], body)?;
            shown["score"] = json!(score);
            shown["version"] = json!(1);
            points.push(shown);
        }
        Ok(json!({"points": points}))
    }

    fn passing(&self, filter: Option<&Value>) -> Result<Vec<String>, Answer> {
        let mut ids = Vec::new();
        for (id, point) in &self.points {
            if match filter {
                Some(filter) => self.passes(point, filter)?,
                None => true,
            } {
                ids.push(id.clone());
            }
        }
        Ok(ids)
    }

    fn passes(&self, point: &Point, filter: &Value) -> Result<bool, Answer> {
        keys(filter, &["must"], &[])?;
        for condition in array(&filter["must"])? {
            keys(condition, &["key", "match"], &[])?;
            let key = text(&condition["key"])?;
            if !self.indexed.contains(&key) {
                return wrong(format!("`{key}` has no index"));
            }
            let wanted: Vec<String> = match &condition["match"] {
                Value::Object(map) if map.len() == 1 && map.contains_key("value") => {
                    vec![text(&map["value"])?]
                }
                Value::Object(map) if map.len() == 1 && map.contains_key("any") => {
                    array(&map["any"])?.iter().map(text).collect::<Result<_, _>>()?
                }
                _ => return wrong("match"),
            };
            let holds = |value: &Value| {
                value
                    .as_str()
                    .is_some_and(|found| wanted.iter().any(|wanted| wanted == found))
            };
            let passed = match point.payload.get(&key) {
                // For a list, one match is enough.
                Some(Value::Array(items)) => items.iter().any(holds),
                Some(value) => holds(value),
                None => false,
            };
            if !passed {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn show(id: &str, point: &Point, body: &Value) -> Done {
    let mut payload = point.payload.clone();
    match &body["with_payload"] {
        Value::Bool(true) => {}
        with @ Value::Object(_) => {
            keys(with, &["exclude"], &[])?;
            for key in array(&with["exclude"])? {
                payload.shift_remove(&text(key)?);
            }
        }
        _ => return wrong("with_payload"),
    }
    let mut shown = json!({"id": id, "payload": payload});
    if body["with_vector"] == true {
        shown["vector"] = json!(point.vectors);
    }
    Ok(shown)
}

fn completed() -> Value {
    json!({"operation_id": 1, "status": "completed"})
}

fn wrong<T>(what: impl Into<String>) -> Result<T, Answer> {
    Err((400, json!(format!("Wrong input: {}", what.into()))))
}

fn keys(value: &Value, required: &[&str], optional: &[&str]) -> Result<(), Answer> {
    let found = object(value)?;
    for key in required {
        if !found.contains_key(*key) {
            return wrong(format!("`{key}` is missing"));
        }
    }
    match found
        .keys()
        .find(|key| !required.contains(&key.as_str()) && !optional.contains(&key.as_str()))
    {
        Some(key) => wrong(format!("unknown `{key}`")),
        None => Ok(()),
    }
}

fn object(value: &Value) -> Result<&Map<String, Value>, Answer> {
    value.as_object().map_or_else(|| wrong("not an object"), Ok)
}

fn array(value: &Value) -> Result<&Vec<Value>, Answer> {
    value.as_array().map_or_else(|| wrong("not a list"), Ok)
}

fn text(value: &Value) -> Result<String, Answer> {
    value
        .as_str()
        .map_or_else(|| wrong("not a text"), |text| Ok(text.to_owned()))
}

#[expect(clippy::cast_possible_truncation, reason = "as the server reads them")]
fn floats(value: &Value) -> Result<Vec<f32>, Answer> {
    let numbers = array(value)?
        .iter()
        .map(|number| number.as_f64().map(|number| number as f32));
    numbers
        .collect::<Option<_>>()
        .map_or_else(|| wrong("not numbers"), Ok)
}

/// A UUID; numeric ids are not used here.
fn id(value: &Value) -> Result<String, Answer> {
    let id = text(value)?;
    let lengths: Vec<usize> = id.split('-').map(str::len).collect();
    if lengths == [8, 4, 4, 4, 12] && id.chars().all(|c| c == '-' || c.is_ascii_hexdigit()) {
        Ok(id)
    } else {
        wrong(format!("`{id}` is no id of a point"))
    }
}
