//! JSON as nodes of the tree. All nodes have one place: that of the line or the cell.

use std::{cell::RefCell, collections::VecDeque, fmt};

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
    let numbers = RefCell::new(numbers_of(text));
    let numbers = &numbers;
    JsonNode { tree, place, numbers }
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

/// The numbers of a JSON text as they are written, in their order. The reader checks that it is JSON.
fn numbers_of(text: &str) -> VecDeque<&str> {
    let mut numbers = VecDeque::new();
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit()) {
        let from = rest.get(start..).unwrap_or_default();
        let length = if from.starts_with('"') {
            length_of_string(from)
        } else {
            let is_part = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
            let length = from.find(|c| !is_part(c)).unwrap_or(from.len());
            numbers.extend(from.get(..length));
            length
        };
        rest = from.get(length..).unwrap_or_default();
    }
    numbers
}

/// The length of the string with which a JSON text begins.
fn length_of_string(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

struct JsonNode<'t, 'n> {
    tree: &'t mut Tree,
    place: Place,
    /// The numbers that follow, as they are written: a value of the reader has not all of their digits.
    numbers: &'n RefCell<VecDeque<&'n str>>,
}

impl JsonNode<'_, '_> {
    fn number<E: Error>(self) -> Result<NodeId, E> {
        let number = self.numbers.borrow_mut().pop_front();
        let number = number.ok_or_else(|| E::custom("a number was not found in the text"))?;
        Ok(self.plain(number.to_owned()))
    }

    fn plain(self, text: String) -> NodeId {
        let text = self.tree.own_text(text);
        self.tree.scalar_node(self.place, text, true, false)
    }
}

impl<'de> DeserializeSeed<'de> for JsonNode<'_, '_> {
    type Value = NodeId;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<NodeId, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for JsonNode<'_, '_> {
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

    fn visit_i64<E: Error>(self, _: i64) -> Result<NodeId, E> {
        self.number()
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<NodeId, E> {
        self.number()
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<NodeId, E> {
        self.number()
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<NodeId, E> {
        let text = self.tree.own_text(value);
        Ok(self.tree.scalar_node(self.place, text, false, false))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<NodeId, A::Error> {
        let Self { tree, place, numbers } = self;
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(JsonNode { tree, place, numbers })? {
            items.push(item);
        }
        Ok(tree.seq_node(place, &items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<NodeId, A::Error> {
        let Self { tree, place, numbers } = self;
        let mut entries = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            if tree_has(tree, &entries, &key) {
                return Err(A::Error::custom(format!("the key `{key}` appears twice")));
            }
            let value = map.next_value_seed(JsonNode { tree, place, numbers })?;
            entries.push(tree.entry(&key, place, value));
        }
        Ok(tree.map_node(place, &entries))
    }
}

fn tree_has(tree: &Tree, entries: &[crate::yaml::Entry], key: &str) -> bool {
    entries.iter().any(|entry| tree.key(entry) == key)
}
