//! Changes to a YAML file that leave every other byte as it is: comments, order, quotes, blank lines.
//!
//! A change is made to the text, then the text is read again: unless exactly the intended value changed, nothing is
//! given back. What can't be changed that way is for the person to edit.

mod lines;
mod render;

use serde_json::Value;

use crate::{
    Layer, Source,
    value::JsonMap,
    yaml::{Entry, NodeId, SourceFile, Tree, build, from_tree},
};
use lines::Lines;
use render::{block_item, flow_item};

/// Why a file was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// It is no sound YAML.
    #[error("{0}")]
    Unreadable(String),
    /// The file holds something else than a mapping.
    #[error("the file is no mapping of keys and values")]
    NotAMapping,
    /// What is to be changed is no list.
    #[error("`{key}` is no list")]
    NotAList {
        /// Its key.
        key: String,
    },
    /// Something of this name is there already.
    #[error("`{key}` has an item named `{name}` already")]
    Duplicate {
        /// The list's key.
        key: String,
        /// The name.
        name: String,
    },
    /// Nothing of this name is there.
    #[error("`{key}` has no item named `{name}`")]
    NotFound {
        /// The list's key.
        key: String,
        /// The name.
        name: String,
        /// The names that are there.
        names: Vec<String>,
    },
    /// The file is written in a way in which the change would touch something else.
    #[error("`{key}` is written in a way that can't be changed without touching something else")]
    Awkward {
        /// The list's key.
        key: String,
    },
}

/// Adds `item`, which has a `name`, to the end of the list under a key of the file; the list is made if it is absent.
pub fn add_item(text: &str, key: &str, item: &JsonMap) -> Result<String, EditError> {
    let file = File::read(text)?;
    let name = item.get("name").and_then(Value::as_str).unwrap_or_default();
    if file
        .names(key)?
        .iter()
        .any(|other| other.as_deref() == Some(name))
    {
        return Err(EditError::Duplicate {
            key: key.to_owned(),
            name: name.to_owned(),
        });
    }
    let mut wanted = file.value()?;
    let list = wanted
        .as_object_mut()
        .ok_or(EditError::NotAMapping)?
        .entry(key.to_owned())
        .or_insert(Value::Null);
    match list {
        Value::Array(items) => items.push(Value::Object(item.clone())),
        empty => *empty = Value::Array(vec![Value::Object(item.clone())]),
    }
    first_right(file.with_item(key, item), &wanted, key)
}

/// The items of the list under a key of the file, as they are written: nothing of the environment is in them. None if
/// there is no such list.
pub fn list_items(text: &str, key: &str) -> Result<Vec<JsonMap>, EditError> {
    let file = File::read(text)?;
    file.names(key)?;
    let value = file.value()?;
    let items = value.get(key).and_then(Value::as_array);
    let items = items.into_iter().flatten();
    Ok(items.filter_map(|item| item.as_object().cloned()).collect())
}

/// Takes the item of this name out of the list under a key of the file.
pub fn remove_item(text: &str, key: &str, name: &str) -> Result<String, EditError> {
    let file = File::read(text)?;
    let names = file.names(key)?;
    let Some(place) = names.iter().position(|other| other.as_deref() == Some(name)) else {
        return Err(EditError::NotFound {
            key: key.to_owned(),
            name: name.to_owned(),
            names: names.into_iter().flatten().collect(),
        });
    };
    let mut wanted = file.value()?;
    if let Some(Value::Array(items)) = wanted.get_mut(key) {
        items.remove(place);
    }
    first_right(file.without_item(key, place), &wanted, key)
}

/// The first of several texts that holds what is wanted, and nothing else.
fn first_right(candidates: Vec<String>, wanted: &Value, key: &str) -> Result<String, EditError> {
    candidates
        .into_iter()
        .find(|text| {
            let value = File::read(text).and_then(|file| file.value());
            value.is_ok_and(|value| value == *wanted)
        })
        .ok_or_else(|| EditError::Awkward { key: key.to_owned() })
}

/// A file as it was read.
struct File<'t> {
    text: &'t str,
    tree: Tree,
    /// Absent if the file holds nothing but blanks and comments.
    root: Option<NodeId>,
}

/// How a list is written.
enum Written<'f> {
    Absent,
    /// The key is there and its value is nothing, written at this range of bytes.
    Empty(&'f Entry, std::ops::Range<usize>),
    Block(&'f Entry, usize),
    /// Between these two brackets.
    Flow(&'f [NodeId], std::ops::Range<usize>),
    Other,
}

impl<'t> File<'t> {
    fn read(text: &'t str) -> Result<Self, EditError> {
        let mut tree = Tree::default();
        let source = Source {
            path: std::path::Path::new("").into(),
            text: text.into(),
        };
        let file = tree.add_file(SourceFile::new(source, Layer::Agent));
        let built = build(&mut tree, file, 0..text.len(), None);
        if let Some(problem) = built.diagnostics.into_iter().find(crate::Diagnostic::is_error) {
            let line = problem.primary.as_ref().map_or(1, |place| place.line);
            return Err(EditError::Unreadable(format!("line {line}: {}", problem.message)));
        }
        Ok(Self {
            text,
            tree,
            root: built.root,
        })
    }

    fn value(&self) -> Result<Value, EditError> {
        match self.root {
            Some(root) => from_tree(&self.tree, root).map_err(|error| EditError::Unreadable(error.message)),
            None => Ok(Value::Object(JsonMap::new())),
        }
    }

    /// The names of the items of a list, in order; of an absent list, none.
    fn names(&self, key: &str) -> Result<Vec<Option<String>>, EditError> {
        let Some(root) = self.root else {
            return Ok(Vec::new());
        };
        if self.tree.entries(root).is_none() {
            return Err(EditError::NotAMapping);
        }
        let Some(entry) = self.tree.get(root, key) else {
            return Ok(Vec::new());
        };
        if self.tree.is_null(entry.value) {
            return Ok(Vec::new());
        }
        let items = self
            .tree
            .items(entry.value)
            .ok_or_else(|| EditError::NotAList { key: key.to_owned() })?;
        let name = |item: &NodeId| {
            let name = self.tree.get(*item, "name")?;
            Some(self.tree.scalar(name.value)?.text.to_owned())
        };
        Ok(items.iter().map(name).collect())
    }

    fn written(&self, key: &str) -> Written<'_> {
        let Some(root) = self.root else {
            return Written::Absent;
        };
        let Some(entry) = self.tree.get(root, key) else {
            return Written::Absent;
        };
        let place = self.tree.place(entry.value);
        let (start, end) = (place.start as usize, place.end as usize);
        if self.tree.merged_at(entry).is_some() || self.tree.is_alias(entry.value) {
            return Written::Other;
        }
        if self.tree.is_null(entry.value) {
            // A value that is not written at all has the place of its key.
            let nothing = start == entry.key_place.start as usize;
            return Written::Empty(entry, if nothing { end..end } else { start..end });
        }
        let items = self.tree.items(entry.value).unwrap_or_default();
        if self.text.as_bytes().get(start) != Some(&b'[') {
            return Written::Block(entry, items.len());
        }
        let inside = self.text.get(start..end);
        if inside.is_some_and(|inside| inside == "[]") && !self.is_flow() {
            return Written::Empty(entry, start..end);
        }
        if inside.is_some_and(|inside| inside.ends_with(']')) {
            return Written::Flow(items, start..end);
        }
        Written::Other
    }

    /// Whether the whole file is written as `{…}`.
    fn is_flow(&self) -> bool {
        let start = self.root.map(|root| self.tree.place(root).start as usize);
        start.and_then(|start| self.text.as_bytes().get(start)) == Some(&b'{')
    }

    fn with_item(&self, key: &str, item: &JsonMap) -> Vec<String> {
        let lines = Lines::of(self.text);
        match self.written(key) {
            Written::Other => Vec::new(),
            Written::Absent if self.is_flow() => Vec::new(),
            Written::Absent => {
                let column = self.column_of_keys(&lines);
                let list = format!("{:column$}{key}:\n{}", "", block_item(item, column + 2));
                lines
                    .ends()
                    .into_iter()
                    .map(|end| lines.inserted(end, &list))
                    .collect()
            }
            Written::Empty(entry, written) => {
                let column = lines.column(entry.key_place.start as usize);
                let text = without(self.text, written);
                let lines = Lines::of(&text);
                let after = lines.number(entry.key_place.start as usize) + 1;
                vec![lines.inserted(after, &block_item(item, column + 2))]
            }
            Written::Block(entry, count) => {
                let Some(list) = lines.block_list(entry.key_place.start as usize, count) else {
                    return Vec::new();
                };
                let item = block_item(item, list.column);
                let ends = list.items.last().map(|last| lines.ends_of(last.clone()));
                ends.unwrap_or_default()
                    .into_iter()
                    .map(|end| lines.inserted(end, &item))
                    .collect()
            }
            Written::Flow(items, brackets) => {
                let item = flow_item(item);
                let end = brackets.end - 1;
                let inside = self.text.get(brackets.start + 1..end).unwrap_or_default();
                let used = inside.trim_end();
                let at = brackets.start + 1 + used.len();
                let comma = match (items.is_empty(), used.ends_with(',')) {
                    (true, _) => "",
                    (false, true) => " ",
                    (false, false) => ", ",
                };
                // A comment before the bracket would swallow what comes after it.
                let own_line = format!("{comma}\n{item}\n");
                vec![
                    with(self.text, at, &format!("{comma}{item}")),
                    with(self.text, end, &own_line),
                ]
            }
        }
    }

    fn without_item(&self, key: &str, place: usize) -> Vec<String> {
        match self.written(key) {
            Written::Block(entry, count) => {
                let lines = Lines::of(self.text);
                let Some(list) = lines.block_list(entry.key_place.start as usize, count) else {
                    return Vec::new();
                };
                let Some(item) = list.items.get(place) else {
                    return Vec::new();
                };
                let ends = lines.ends_of(item.clone()).into_iter();
                ends.map(|end| {
                    let text = lines.removed(item.start, end);
                    if count > 1 {
                        return text;
                    }
                    // Nothing at all would mean the same, but `[]` shows that it is meant.
                    match lines.colon(entry.key_place.end as usize) {
                        Some(colon) => with(&text, colon + 1, " []"),
                        None => text,
                    }
                })
                .collect()
            }
            Written::Flow(items, brackets) => {
                let start = |index: usize| {
                    let node = items.get(index)?;
                    Some(self.tree.place(*node).start as usize)
                };
                let Some(own) = start(place) else {
                    return Vec::new();
                };
                let upto_next = start(place + 1);
                let from_before = place.checked_sub(1).and_then(start).map(|before| {
                    let between = self.text.get(before..own).unwrap_or_default();
                    before + between.rfind(',').unwrap_or(between.len())
                });
                let end = brackets.end - 1;
                let range = match (upto_next, from_before) {
                    (Some(next), _) => own..next,
                    (None, Some(comma)) => comma..end,
                    (None, None) => brackets.start + 1..end,
                };
                vec![without(self.text, range)]
            }
            Written::Absent | Written::Empty(..) | Written::Other => Vec::new(),
        }
    }

    /// Where the keys of the file stand.
    fn column_of_keys(&self, lines: &Lines<'_>) -> usize {
        let entries = self
            .root
            .and_then(|root| self.tree.entries(root))
            .unwrap_or_default();
        let first = entries.iter().map(|entry| entry.key_place.start as usize).min();
        first.map_or(0, |first| lines.column(first))
    }
}

fn with(text: &str, at: usize, more: &str) -> String {
    let (before, after) = text.split_at_checked(at).unwrap_or((text, ""));
    format!("{before}{more}{after}")
}

fn without(text: &str, range: std::ops::Range<usize>) -> String {
    let before = text.get(..range.start).unwrap_or(text);
    let after = text.get(range.end..).unwrap_or_default();
    format!("{before}{after}")
}

#[cfg(test)]
mod tests;
