//! The parts of a document that paths can look at, so that only these are kept when it is read.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// The parts of a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Wanted {
    /// The value with everything in it.
    All,
    /// Its kind, these fields of an object, and this of each item of a list. What is not wanted of a list is null.
    Parts {
        fields: Vec<(String, Wanted)>,
        items: Option<Box<Wanted>>,
    },
}

impl Default for Wanted {
    fn default() -> Self {
        Self::Parts {
            fields: Vec::new(),
            items: None,
        }
    }
}

/// A step of a path, to one place.
#[derive(Clone, Debug)]
pub(super) enum Step<'a> {
    Field(&'a str),
    Item(i64),
}

/// The steps of a path that begins with `$`, as long as each is to one place, and the rest of it.
pub(super) fn steps(path: &str) -> Option<(Vec<Step<'_>>, &str)> {
    let mut rest = path.trim().strip_prefix('$')?;
    let mut steps = Vec::new();
    while let Some((step, after)) = step(rest) {
        steps.push(step);
        rest = after;
    }
    Some((steps, rest))
}

/// The value at the end of these steps.
pub(super) fn walk<'a>(value: &'a Value, steps: &[Step<'_>]) -> Option<&'a Value> {
    steps.iter().try_fold(value, |value, step| match step {
        Step::Field(name) => value.as_object()?.get(*name),
        Step::Item(index) => {
            let items = value.as_array()?;
            let from_end = || usize::try_from(index.unsigned_abs()).ok();
            let place = match usize::try_from(*index) {
                Ok(place) => place,
                Err(_) => items.len().checked_sub(from_end()?)?,
            };
            items.get(place)
        }
    })
}

impl Wanted {
    /// Adds what a JSONPath looks at. A filter may look at everything.
    pub(crate) fn add(&mut self, path: &str) {
        let mut place = self;
        let begins = steps(path).filter(|_| !path.contains('?'));
        for step in begins.into_iter().flat_map(|(steps, _)| steps) {
            let Self::Parts { fields, items } = place else {
                return;
            };
            place = match step {
                Step::Item(_) => items.get_or_insert_default(),
                Step::Field(name) => {
                    let found = fields.iter().position(|(field, _)| field == name);
                    let found = found.unwrap_or_else(|| {
                        fields.push((name.to_owned(), Self::default()));
                        fields.len() - 1
                    });
                    let Some((_, field)) = fields.get_mut(found) else {
                        return;
                    };
                    field
                }
            };
        }
        *place = Self::All;
    }

    /// The wanted parts of a JSON text, which must be JSON as a whole.
    pub(crate) fn read(&self, text: &[u8]) -> Result<Value, serde_json::Error> {
        let mut reader = serde_json::Deserializer::from_slice(text);
        let value = self.deserialize(&mut reader)?;
        reader.end()?;
        Ok(value)
    }
}

/// The next step of a path that selects one field, or an item by its index; and what follows.
fn step(path: &str) -> Option<(Step<'_>, &str)> {
    if let Some(rest) = path.strip_prefix('.') {
        let is_of_name = |letter: char| letter.is_alphanumeric() || letter == '_';
        let end = rest.find(|letter| !is_of_name(letter)).unwrap_or(rest.len());
        let (name, rest) = rest.split_at(end);
        return (!name.is_empty()).then_some((Step::Field(name), rest));
    }
    let rest = path.strip_prefix('[')?;
    if let Some(quote) = rest.chars().next().filter(|letter| matches!(letter, '\'' | '"')) {
        let (name, rest) = rest.get(1..)?.split_once(quote)?;
        let rest = rest.strip_prefix(']')?;
        return (!name.contains('\\')).then_some((Step::Field(name), rest));
    }
    let (index, rest) = rest.split_once(']')?;
    Some((Step::Item(index.parse().ok()?), rest))
}

impl<'de> DeserializeSeed<'de> for &Wanted {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        match self {
            Wanted::All => serde::Deserialize::deserialize(reader),
            Wanted::Parts { fields, items } => reader.deserialize_any(Parts {
                fields,
                items: items.as_deref(),
            }),
        }
    }
}

/// Reads the wanted parts of a value.
struct Parts<'a> {
    fields: &'a [(String, Wanted)],
    items: Option<&'a Wanted>,
}

impl<'de> Visitor<'de> for Parts<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        match self.items {
            Some(wanted) => {
                while let Some(item) = list.next_element_seed(wanted)? {
                    items.push(item);
                }
            }
            None => {
                while list.next_element::<IgnoredAny>()?.is_some() {
                    items.push(Value::Null);
                }
            }
        }
        Ok(items.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let mut found = Map::new();
        while let Some(field) = object.next_key_seed(Name(self.fields))? {
            match field {
                Some((name, wanted)) => {
                    let value = object.next_value_seed(wanted)?;
                    found.insert(name.clone(), value);
                }
                None => {
                    object.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(found.into())
    }
}

/// Reads the name of a field; finds it among those that are wanted.
struct Name<'a>(&'a [(String, Wanted)]);

impl<'de, 'a> DeserializeSeed<'de> for Name<'a> {
    type Value = Option<&'a (String, Wanted)>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_str(self)
    }
}

impl<'a> Visitor<'_> for Name<'a> {
    type Value = Option<&'a (String, Wanted)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().find(|(field, _)| field == name))
    }
}

#[cfg(test)]
mod tests {
    use holodeck_model::ResponsePath;
    use serde_json::json;

    use super::*;
    use crate::paths::{PartPath, parse};

    /// Paths of every kind, alone and together.
    const PATHS: [&str; 22] = [
        "$.a[-3].b",
        "$.a[1].c[0]",
        "$",
        "$.a",
        "$.a.b",
        "$['a']['b']",
        "$[\"a\"][0]",
        "$.a[0].b",
        "$.a[-1]",
        "$.a[*].b",
        "$.a[1:]",
        "$.a[0, 1]",
        "$..b",
        "$.a..b",
        "$.*",
        "$.a.*",
        "$.a[?@.b == $.c]",
        "$.a[?length(@) > 1]",
        "$['a.b']",
        r"$['a\'b']",
        "$ .a",
        "$.é",
    ];

    fn documents() -> Vec<Value> {
        let mut documents = vec![
            json!(null),
            json!(1),
            json!("a"),
            json!([]),
            json!({"é": 1, "a.b": 2, "a'b": 3, "a": "x"}),
            json!({"a": [{"b": 1}, {"b": 2, "c": [3]}, 4], "c": 2}),
            json!({"a": {"b": {"a": {"b": 1}}, "0": 5}, "b": [1, 2], "c": null}),
        ];
        for value in documents.clone() {
            documents.push(json!({"a": value, "b": 1.5}));
            documents.push(json!([value, {"a": true}]));
        }
        documents
    }

    #[test]
    fn paths_find_the_same_in_what_is_kept_for_them_as_in_the_whole() {
        for path in PATHS {
            for other in PATHS {
                let mut wanted = Wanted::default();
                wanted.add(path);
                wanted.add(other);
                for document in documents() {
                    let kept = wanted.read(document.to_string().as_bytes()).unwrap();
                    for path in [path, other] {
                        let part = PartPath::new(&ResponsePath::Path(path.to_owned())).unwrap();
                        let path = parse(path).unwrap();
                        let found = path.query(&document).all();
                        assert_eq!(path.query(&kept).all(), found, "{path} {other} {document} {kept}");
                        assert_eq!(part.find(&kept), found, "{path} {other} {document} {kept}");
                    }
                }
            }
        }
    }

    #[test]
    fn only_what_a_path_looks_at_is_kept() {
        let document = br#"{"id": "x", "choices": [{"index": 0, "delta": {"role": "a", "content": "hi"}}], "usage": {"n": 1}}"#;
        let mut wanted = Wanted::default();
        wanted.add("$.choices[0].delta.content");
        assert_eq!(
            wanted.read(document).unwrap(),
            json!({"choices": [{"delta": {"content": "hi"}}]})
        );
        wanted.add("$.usage");
        wanted.add("$.choices[*].index");
        assert_eq!(
            wanted.read(document).unwrap(),
            json!({"choices": [{"index": 0, "delta": {"role": "a", "content": "hi"}}], "usage": {"n": 1}})
        );
    }

    #[test]
    fn a_text_that_is_no_json_as_a_whole_is_an_error_wherever_it_breaks() {
        let mut wanted = Wanted::default();
        wanted.add("$.a.b");
        let text = br#"{"x": [1, {"y": "z"}], "a": {"b": "c", "d": [true, null]}, "e": {}}"#;
        assert!(wanted.read(text).is_ok());
        for end in 0..text.len() {
            assert!(wanted.read(&text[..end]).is_err(), "{end}");
        }
        for text in [
            r#"{"x": tru, "a": 1}"#,
            r#"{"x": 01}"#,
            r#"{"x" 1}"#,
            "{} {}",
            "<html>",
        ] {
            assert!(wanted.read(text.as_bytes()).is_err(), "{text}");
        }
    }
}
