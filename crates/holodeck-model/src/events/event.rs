//! One event in its JSON form: a flat object that preserves fields of newer versions.

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::Error as _,
    ser::{Error as _, SerializeMap as _},
};
use serde_json::{Map, Value};

use super::{EventBody, EventMeta, body::Fields};

/// One event of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentEvent {
    /// Its metadata.
    pub meta: EventMeta,
    /// Its content.
    pub body: EventBody,
    /// Fields unknown to this version; empty in events that it creates.
    pub extra: Map<String, Value>,
}

impl AgentEvent {
    /// An event without unknown fields.
    pub fn new(meta: EventMeta, body: EventBody) -> Self {
        Self {
            meta,
            body,
            extra: Map::new(),
        }
    }
}

/// An event without unknown fields, written without intermediate values.
#[derive(Serialize)]
struct Known<'a> {
    r#type: &'a str,
    #[serde(flatten)]
    meta: &'a EventMeta,
    #[serde(flatten)]
    body: Fields<'a>,
}

/// One flat object: the type, the metadata, the body, the unknown fields.
impl Serialize for AgentEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.extra.is_empty() {
            let known = Known {
                r#type: self.body.kind(),
                meta: &self.meta,
                body: Fields(&self.body),
            };
            return known.serialize(serializer);
        }
        let meta = match serde_json::to_value(&self.meta).map_err(S::Error::custom)? {
            Value::Object(meta) => meta,
            _ => Map::new(),
        };
        let body = self.body.fields().map_err(S::Error::custom)?;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", self.body.kind())?;
        let known = meta.iter().chain(&body);
        let unknown = self.extra.iter().filter(|(key, _)| !body.contains_key(*key));
        for (key, value) in known.chain(unknown) {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for AgentEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Map::deserialize(deserializer)?;
        let Some(Value::String(kind)) = fields.shift_remove("type") else {
            return Err(D::Error::missing_field("type"));
        };
        let own = EventMeta::FIELDS.into_iter();
        let own = own.filter_map(|key| Some((key.to_owned(), fields.shift_remove(key)?)));
        let own = Value::Object(own.collect());
        let meta = EventMeta::deserialize(own).map_err(D::Error::custom)?;
        let body = EventBody::read(kind, fields.clone()).map_err(D::Error::custom)?;
        // The unknown fields are those that the typed event would not write back.
        let known = body.fields().map_err(D::Error::custom)?;
        fields.retain(|key, _| !known.contains_key(key));
        Ok(Self {
            meta,
            body,
            extra: fields,
        })
    }
}

#[cfg(test)]
mod tests;
