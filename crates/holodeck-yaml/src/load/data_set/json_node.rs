//! JSON as nodes of the tree. All nodes have one place: that of the line or the cell.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::yaml::{NodeId, Place, Tree};

/// Why a text is not JSON.
pub(super) struct JsonError {
    pub(super) message: String,
    /// In bytes, counted from 1.
    pub(super) column: usize,
}

/// Reads one JSON value. A key that appears twice is an error: one of the two would be lost.
pub(super) fn read_json(tree: &mut Tree, text: &str, place: Place) -> Result<NodeId, JsonError> {
    let mut reader = serde_json::Deserializer::from_str(text);
    JsonNode { tree, place }
        .deserialize(&mut reader)
        .and_then(|node| reader.end().map(|()| node))
        .map_err(|error| {
            let message = error.to_string();
            let message = message.split(" at line ").next().unwrap_or_default();
            JsonError {
                message: message.to_owned(),
                column: error.column(),
            }
        })
}

struct JsonNode<'t> {
    tree: &'t mut Tree,
    place: Place,
}

impl JsonNode<'_> {
    fn plain(self, text: String) -> NodeId {
        let text = self.tree.own_text(text);
        self.tree.scalar_node(self.place, text, true, false)
    }
}

impl<'de> DeserializeSeed<'de> for JsonNode<'_> {
    type Value = NodeId;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<NodeId, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for JsonNode<'_> {
    type Value = NodeId;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<NodeId, E> {
        Ok(self.plain("null".to_owned()))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<NodeId, E> {
        Ok(self.plain(value.to_string()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<NodeId, E> {
        Ok(self.plain(value.to_string()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<NodeId, E> {
        Ok(self.plain(value.to_string()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<NodeId, E> {
        Ok(self.plain(format!("{value:?}")))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<NodeId, E> {
        let text = self.tree.own_text(value);
        Ok(self.tree.scalar_node(self.place, text, false, false))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<NodeId, A::Error> {
        let Self { tree, place } = self;
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(JsonNode { tree, place })? {
            items.push(item);
        }
        Ok(tree.seq_node(place, &items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<NodeId, A::Error> {
        let Self { tree, place } = self;
        let mut entries = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            if tree_has(tree, &entries, &key) {
                return Err(A::Error::custom(format!("the key `{key}` appears twice")));
            }
            let value = map.next_value_seed(JsonNode { tree, place })?;
            entries.push(tree.entry(&key, place, value));
        }
        Ok(tree.map_node(place, &entries))
    }
}

fn tree_has(tree: &Tree, entries: &[crate::yaml::Entry], key: &str) -> bool {
    entries.iter().any(|entry| tree.key(entry) == key)
}
