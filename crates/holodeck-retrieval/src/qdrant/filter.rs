//! Translates filters on passages into Qdrant's conditions.

use serde_json::{Value, json};

use crate::Filter;
use crate::payload::facet;

/// The kind of a point: `kind` of its payload.
pub(super) const PASSAGE: &str = "passage";
pub(super) const SOURCE: &str = "source";

pub(super) fn is(key: &str, value: &str) -> Value {
    json!({"key": key, "match": {"value": value}})
}

pub(super) fn match_any(key: &str, values: &[String]) -> Value {
    json!({"key": key, "match": {"any": values}})
}

/// The conditions of a filter; `None` if no passage can match it.
pub(super) fn conditions(filter: &Filter) -> Option<Vec<Value>> {
    let mut all = vec![is("kind", PASSAGE)];
    for (field, wanted) in &filter.equal {
        all.push(if field == Filter::SOURCE {
            is("source", wanted.as_str()?)
        } else {
            is("facets", &field_facet(field, wanted))
        });
    }
    Some(all)
}

/// A field and its value as one keyword.
pub(super) fn field_facet(field: &str, value: &Value) -> String {
    format!("{field}={}", facet(value))
}
