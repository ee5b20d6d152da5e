//! Edits a YAML file without changing any other byte: comments, order, quotes and blank lines stay.
//!
//! The text is edited and then parsed again: unless exactly the intended value changed, an error is returned. Such a
//! file must be edited by hand.

mod lines;
mod render;

use holodeck_model::{JsonMap, Layer, Source};
use serde_json::Value;

use crate::yaml::{Entry, NodeId, SourceFile, Tree, build, from_tree};
use lines::{BlockList, Lines};
use render::{block_item, flow_item};

/// Why a file was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// The file is not valid YAML.
    #[error("{0}")]
    Unreadable(String),
    /// The top level of the file is not a mapping.
    #[error("the top level must be a mapping")]
    NotAMapping,
    /// The value to edit is not a list.
    #[error("`{key}` must be a list")]
    NotAList {
        /// The list's key.
        key: String,
    },
    /// The list already has an item with this name.
    #[error("`{key}` already has an item named `{name}`")]
    Duplicate {
        /// The list's key.
        key: String,
        /// The name.
        name: String,
    },
    /// The list has no item with this name.
    #[error("`{key}` has no item named `{name}`")]
    NotFound {
        /// The list's key.
        key: String,
        /// The name.
        name: String,
        /// The names of the existing items.
        names: Vec<String>,
    },
    /// The list is written in a form in which the edit would change other parts of the file.
    #[error("can't edit `{key}` without changing other parts of the file")]
    NotEditable {
        /// The list's key.
        key: String,
    },
}

/// Adds `item`, which has a `name`, to the end of the list under a key of the file; creates the list if it is absent.
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
    first_matching(file.with_item(key, item), &wanted, key)
}

/// The lines of an item of a list, as an edit writes it.
pub fn item_lines(item: &JsonMap) -> String {
    block_item(item, 0)
}

/// Adds a test case, which has a `name`, to an agent file or a file of test cases: to the list `test_cases`, or to the
/// list that the file is.
pub fn add_test_case(text: &str, case: &JsonMap) -> Result<String, EditError> {
    const KEY: &str = "test_cases";
    let file = File::read(text)?;
    let Some(items) = file.root.and_then(|root| file.tree.items(root)) else {
        return add_item(text, KEY, case);
    };
    let name = case.get("name").and_then(Value::as_str).unwrap_or_default();
    if file
        .names_of(items)
        .iter()
        .any(|other| other.as_deref() == Some(name))
    {
        return Err(EditError::Duplicate {
            key: KEY.to_owned(),
            name: name.to_owned(),
        });
    }
    let mut wanted = file.value()?;
    if let Value::Array(cases) = &mut wanted {
        cases.push(Value::Object(case.clone()));
    }
    first_matching(file.with_root_item(items, case), &wanted, KEY)
}

/// The items of the list under a key of the file, as written: environment variables are not substituted. Empty if there
/// is no such list.
pub fn list_items(text: &str, key: &str) -> Result<Vec<JsonMap>, EditError> {
    let file = File::read(text)?;
    file.names(key)?;
    let value = file.value()?;
    let items = value.get(key).and_then(Value::as_array);
    let items = items.into_iter().flatten();
    Ok(items.filter_map(|item| item.as_object().cloned()).collect())
}

/// Removes the item with this name from the list under a key of the file.
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
    first_matching(file.without_item(key, place), &wanted, key)
}

/// The first of several texts whose value is exactly `wanted`.
fn first_matching(candidates: Vec<String>, wanted: &Value, key: &str) -> Result<String, EditError> {
    candidates
        .into_iter()
        .find(|text| {
            let value = File::read(text).and_then(|file| file.value());
            value.is_ok_and(|value| value == *wanted)
        })
        .ok_or_else(|| EditError::NotEditable { key: key.to_owned() })
}

/// A parsed file.
struct File<'t> {
    text: &'t str,
    tree: Tree,
    /// Absent if the file contains only blank lines and comments.
    root: Option<NodeId>,
}

/// How a list is written.
enum ListStyle<'f> {
    Absent,
    /// The key exists with an empty value at this range of bytes.
    Empty(&'f Entry, std::ops::Range<usize>),
    Block(&'f Entry, usize),
    /// In a pair of brackets at this range of bytes.
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
        if let Some(problem) = built
            .diagnostics
            .into_iter()
            .find(holodeck_model::Diagnostic::is_error)
        {
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

    /// The names of the items of a list, in order; empty if the list is absent.
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
        Ok(self.names_of(items))
    }

    fn names_of(&self, items: &[NodeId]) -> Vec<Option<String>> {
        let name = |item: &NodeId| {
            let name = self.tree.get(*item, "name")?;
            Some(self.tree.scalar(name.value)?.text.to_owned())
        };
        items.iter().map(name).collect()
    }

    fn list_style(&self, key: &str) -> ListStyle<'_> {
        let Some(root) = self.root else {
            return ListStyle::Absent;
        };
        let Some(entry) = self.tree.get(root, key) else {
            return ListStyle::Absent;
        };
        let place = self.tree.place(entry.value);
        let (start, end) = (place.start as usize, place.end as usize);
        if self.tree.merged_at(entry).is_some() || self.tree.is_alias(entry.value) {
            return ListStyle::Other;
        }
        if self.tree.is_null(entry.value) {
            // A missing value has the place of its key.
            let nothing = start == entry.key_place.start as usize;
            return ListStyle::Empty(entry, if nothing { end..end } else { start..end });
        }
        let items = self.tree.items(entry.value).unwrap_or_default();
        if self.text.as_bytes().get(start) != Some(&b'[') {
            return ListStyle::Block(entry, items.len());
        }
        let inside = self.text.get(start..end);
        if inside.is_some_and(|inside| inside == "[]") && !self.is_flow() {
            return ListStyle::Empty(entry, start..end);
        }
        if inside.is_some_and(|inside| inside.ends_with(']')) {
            return ListStyle::Flow(items, start..end);
        }
        ListStyle::Other
    }

    /// Whether the whole file is written as `{…}`.
    fn is_flow(&self) -> bool {
        let start = self.root.map(|root| self.tree.place(root).start as usize);
        start.and_then(|start| self.text.as_bytes().get(start)) == Some(&b'{')
    }

    fn with_item(&self, key: &str, item: &JsonMap) -> Vec<String> {
        let lines = Lines::of(self.text);
        match self.list_style(key) {
            ListStyle::Other => Vec::new(),
            ListStyle::Absent if self.is_flow() => Vec::new(),
            ListStyle::Absent => {
                let column = self.column_of_keys(&lines);
                let list = format!("{:column$}{key}:\n{}", "", block_item(item, column + 2));
                lines
                    .file_ends()
                    .into_iter()
                    .map(|end| lines.insert(end, &list))
                    .collect()
            }
            ListStyle::Empty(entry, value) => {
                let column = lines.column(entry.key_place.start as usize);
                let text = remove_range(self.text, value);
                let lines = Lines::of(&text);
                let after = lines.number(entry.key_place.start as usize) + 1;
                vec![lines.insert(after, &block_item(item, column + 2))]
            }
            ListStyle::Block(entry, count) => {
                let list = lines.block_list(entry.key_place.start as usize, count);
                with_block_item(&lines, list, item)
            }
            ListStyle::Flow(items, brackets) => self.with_flow_item(items, &brackets, item),
        }
    }

    /// The file, which is a list, with one more item.
    fn with_root_item(&self, items: &[NodeId], item: &JsonMap) -> Vec<String> {
        let Some(root) = self.root.filter(|root| !self.tree.is_alias(*root)) else {
            return Vec::new();
        };
        let place = self.tree.place(root);
        let (start, end) = (place.start as usize, place.end as usize);
        match self.text.get(start..end) {
            Some(inside) if inside.starts_with('[') && inside.ends_with(']') => {
                self.with_flow_item(items, &(start..end), item)
            }
            _ => {
                let lines = Lines::of(self.text);
                with_block_item(&lines, lines.root_list(items.len()), item)
            }
        }
    }

    fn with_flow_item(
        &self,
        items: &[NodeId],
        brackets: &std::ops::Range<usize>,
        item: &JsonMap,
    ) -> Vec<String> {
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
        // A comment before the bracket would hide the new item.
        let own_line = format!("{comma}\n{item}\n");
        vec![
            insert_at(self.text, at, &format!("{comma}{item}")),
            insert_at(self.text, end, &own_line),
        ]
    }

    fn without_item(&self, key: &str, place: usize) -> Vec<String> {
        match self.list_style(key) {
            ListStyle::Block(entry, count) => {
                let lines = Lines::of(self.text);
                let Some(list) = lines.block_list(entry.key_place.start as usize, count) else {
                    return Vec::new();
                };
                let Some(item) = list.items.get(place) else {
                    return Vec::new();
                };
                let ends = lines.item_ends(item.clone()).into_iter();
                ends.map(|end| {
                    let text = lines.remove(item.start, end);
                    if count > 1 {
                        return text;
                    }
                    // An empty value means the same, but `[]` shows the intent.
                    match lines.colon(entry.key_place.end as usize) {
                        Some(colon) => insert_at(&text, colon + 1, " []"),
                        None => text,
                    }
                })
                .collect()
            }
            ListStyle::Flow(items, brackets) => {
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
                vec![remove_range(self.text, range)]
            }
            ListStyle::Absent | ListStyle::Empty(..) | ListStyle::Other => Vec::new(),
        }
    }

    /// The column of the keys of the file.
    fn column_of_keys(&self, lines: &Lines<'_>) -> usize {
        let entries = self
            .root
            .and_then(|root| self.tree.entries(root))
            .unwrap_or_default();
        let first = entries.iter().map(|entry| entry.key_place.start as usize).min();
        first.map_or(0, |first| lines.column(first))
    }
}

fn with_block_item(lines: &Lines<'_>, list: Option<BlockList>, item: &JsonMap) -> Vec<String> {
    let Some(list) = list else {
        return Vec::new();
    };
    let item = block_item(item, list.column);
    let ends = list.items.last().map(|last| lines.item_ends(last.clone()));
    let ends = ends.unwrap_or_default().into_iter();
    ends.map(|end| lines.insert(end, &item)).collect()
}

fn insert_at(text: &str, at: usize, more: &str) -> String {
    let (before, after) = text.split_at_checked(at).unwrap_or((text, ""));
    format!("{before}{more}{after}")
}

fn remove_range(text: &str, range: std::ops::Range<usize>) -> String {
    let before = text.get(..range.start).unwrap_or(text);
    let after = text.get(range.end..).unwrap_or_default();
    format!("{before}{after}")
}

#[cfg(test)]
mod tests;
