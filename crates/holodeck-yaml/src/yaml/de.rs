//! A serde deserializer for the tree.
//!
//! For an enum and a mapping node, the `type` key selects the variant and the rest of the mapping is its content: no
//! buffering, so every error keeps its place, and the tag may come last.

use std::fmt;

use holodeck_model::{MetricConfig, PathRef};
use serde::{
    de::{
        self, DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess,
        SeqAccess, VariantAccess, Visitor,
        value::{MapAccessDeserializer, StrDeserializer},
    },
    forward_to_deserialize_any,
};

use super::{
    scalar::{Core, lenient_bool, lenient_f64, lenient_int, resolve},
    tree::{Entry, NodeId, Place, Tree},
};

/// An error of serde with its place.
#[derive(Debug)]
pub(crate) struct DeError {
    pub(crate) place: Option<Place>,
    pub(crate) message: String,
}

impl fmt::Display for DeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for DeError {}

impl de::Error for DeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self {
            place: None,
            message: message.to_string(),
        }
    }
}

impl DeError {
    /// Keeps the innermost place.
    fn at(mut self, place: Place) -> Self {
        self.place.get_or_insert(place);
        self
    }
}

/// Reads a typed value from a node.
pub(crate) fn from_tree<T: DeserializeOwned>(tree: &Tree, node: NodeId) -> Result<T, DeError> {
    T::deserialize(De { tree, node })
}

#[derive(Clone, Copy)]
struct De<'t> {
    tree: &'t Tree,
    node: NodeId,
}

impl<'t> De<'t> {
    fn place(self) -> Place {
        self.tree.place(self.node)
    }

    fn text(self) -> Option<&'t str> {
        self.tree.scalar(self.node).map(|scalar| scalar.text)
    }

    fn visit_entries<'de, V: Visitor<'de>>(
        self,
        entries: &'t [Entry],
        visitor: V,
    ) -> Result<V::Value, DeError>
    where
        't: 'de,
    {
        visitor.visit_map(Pairs {
            tree: self.tree,
            rest: entries.iter(),
            skip: None,
            current: None,
        })
    }

    fn number<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError>
    where
        't: 'de,
    {
        match self.text().and_then(lenient_int) {
            Some(number) => match (u64::try_from(number), i64::try_from(number)) {
                (Ok(number), _) => visitor.visit_u64(number),
                (_, Ok(number)) => visitor.visit_i64(number),
                _ => visitor.visit_i128(number),
            }
            .map_err(|error: DeError| error.at(self.place())),
            None => self.deserialize_any(visitor),
        }
    }
}

impl<'de, 't: 'de> Deserializer<'de> for De<'t> {
    type Error = DeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        let result = if let Some(scalar) = self.tree.scalar(self.node) {
            if scalar.plain {
                match resolve(scalar.text) {
                    Core::Null => visitor.visit_unit(),
                    Core::Bool(value) => visitor.visit_bool(value),
                    Core::Int(value) => visitor.visit_i64(value),
                    Core::Unsigned(value) => visitor.visit_u64(value),
                    Core::Float(value) => visitor.visit_f64(value),
                    Core::Str => visitor.visit_borrowed_str(scalar.text),
                }
            } else {
                visitor.visit_borrowed_str(scalar.text)
            }
        } else if let Some(items) = self.tree.items(self.node) {
            visitor.visit_seq(Elements {
                tree: self.tree,
                items: items.iter(),
            })
        } else {
            self.visit_entries(self.tree.entries(self.node).unwrap_or_default(), visitor)
        };
        result.map_err(|error| error.at(self.place()))
    }

    /// A string keeps the text of the file: `3.10` is not 3.1.
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        match self.text() {
            Some(text) if !self.tree.is_null(self.node) => visitor
                .visit_borrowed_str(text)
                .map_err(|error: DeError| error.at(self.place())),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        match self.text().and_then(lenient_bool) {
            Some(value) => visitor
                .visit_bool(value)
                .map_err(|error: DeError| error.at(self.place())),
            None => self.deserialize_any(visitor),
        }
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        match self.text().and_then(lenient_f64) {
            Some(value) => visitor
                .visit_f64(value)
                .map_err(|error: DeError| error.at(self.place())),
            None => self.deserialize_any(visitor),
        }
    }

    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        self.number(visitor)
    }

    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        self.number(visitor)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        self.number(visitor)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        self.number(visitor)
    }

    fn deserialize_i8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        self.number(visitor)
    }

    fn deserialize_i16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        self.number(visitor)
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        self.number(visitor)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        self.number(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        if self.tree.is_null(self.node) {
            visitor.visit_none()
        } else {
            visitor.visit_some(self)
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DeError> {
        if name == PathRef::NEWTYPE
            && !self.tree.is_null(self.node)
            && let Some(text) = self.text()
        {
            let place = self.place();
            // A folder whose name is not UTF-8 can only be reached by the path as it was given.
            let base = self.tree.base(place).to_str().map(str::to_owned);
            let base = base.unwrap_or_else(|| self.tree.dir(place).to_string_lossy().into_owned());
            let parts = [text.to_owned(), base].into_iter();
            return visitor.visit_seq(de::value::SeqDeserializer::<_, DeError>::new(parts));
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DeError> {
        if let Some(text) = self.text() {
            return visitor
                .visit_enum(text.into_deserializer())
                .map_err(|error: DeError| error.at(self.place()));
        }
        let entries = self.tree.entries(self.node).unwrap_or_default();
        let marked = self.tree.get(self.node, "type");
        let tag = match marked {
            Some(entry) => self.tree.scalar(entry.value).map(|scalar| scalar.text),
            None => implied_type(name, |key| self.tree.get(self.node, key).is_some()),
        };
        let Some(tag) = tag else {
            return Err(DeError {
                place: Some(self.place()),
                message: "missing `type`".to_owned(),
            });
        };
        let variant = Tagged {
            tree: self.tree,
            tag,
            entries,
            skip: marked.map(Entry::key_id),
            place: self.place(),
        };
        visitor
            .visit_enum(variant)
            .map_err(|error| error.at(self.place()))
    }

    forward_to_deserialize_any! {
        i128 u128 char bytes byte_buf unit unit_struct seq tuple tuple_struct map struct ignored_any
    }
}

/// The type that one of its keys implies for a mapping without `type`.
pub(crate) fn implied_type(name: &str, has: impl Fn(&str) -> bool) -> Option<&'static str> {
    let keys = if name == "MetricConfig" {
        &MetricConfig::TYPE_KEYS[..]
    } else {
        &[]
    };
    keys.iter().find(|(key, _)| has(key)).map(|(_, kind)| *kind)
}

struct Elements<'t> {
    tree: &'t Tree,
    items: std::slice::Iter<'t, NodeId>,
}

impl<'de, 't: 'de> SeqAccess<'de> for Elements<'t> {
    type Error = DeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, DeError> {
        let Some(node) = self.items.next() else {
            return Ok(None);
        };
        seed.deserialize(De {
            tree: self.tree,
            node: *node,
        })
        .map(Some)
        .map_err(|error| error.at(self.tree.place(*node)))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

struct Pairs<'t> {
    tree: &'t Tree,
    rest: std::slice::Iter<'t, Entry>,
    skip: Option<u32>,
    current: Option<&'t Entry>,
}

impl<'de, 't: 'de> MapAccess<'de> for Pairs<'t> {
    type Error = DeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, DeError> {
        self.current = self.rest.find(|entry| Some(entry.key_id()) != self.skip);
        let Some(entry) = self.current else {
            return Ok(None);
        };
        let key: StrDeserializer<'_, DeError> = self.tree.key(entry).into_deserializer();
        seed.deserialize(key)
            .map(Some)
            .map_err(|error| error.at(entry.key_place))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, DeError> {
        let entry = self
            .current
            .ok_or_else(|| de::Error::custom("a value was requested before its key"))?;
        seed.deserialize(De {
            tree: self.tree,
            node: entry.value,
        })
        .map_err(|error| error.at(self.tree.place(entry.value)))
    }
}

struct Tagged<'t> {
    tree: &'t Tree,
    tag: &'t str,
    entries: &'t [Entry],
    skip: Option<u32>,
    place: Place,
}

impl<'t> Tagged<'t> {
    fn map(&self) -> Pairs<'t> {
        Pairs {
            tree: self.tree,
            rest: self.entries.iter(),
            skip: self.skip,
            current: None,
        }
    }
}

impl<'de, 't: 'de> EnumAccess<'de> for Tagged<'t> {
    type Error = DeError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), DeError> {
        let tag: StrDeserializer<'_, DeError> = self.tag.into_deserializer();
        let variant = seed.deserialize(tag).map_err(|error| error.at(self.place))?;
        Ok((variant, self))
    }
}

impl<'de, 't: 'de> VariantAccess<'de> for Tagged<'t> {
    type Error = DeError;

    fn unit_variant(self) -> Result<(), DeError> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, DeError> {
        seed.deserialize(MapAccessDeserializer::new(self.map()))
            .map_err(|error| error.at(self.place))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _len: usize, _visitor: V) -> Result<V::Value, DeError> {
        Err(DeError {
            place: Some(self.place),
            message: "a list is not expected here".to_owned(),
        })
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DeError> {
        visitor
            .visit_map(self.map())
            .map_err(|error| error.at(self.place))
    }
}
