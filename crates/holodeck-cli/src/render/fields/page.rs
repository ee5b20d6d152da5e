//! The pages that list every field of the YAML files, of events and of the file of a run.

use std::collections::{HashMap, VecDeque};

use serde_json::Value;

use super::{Record, SWITCH, Schema, choices, constants, default, description, example, own_description};

const BEFORE: &str = include_str!("before.md");
const BEFORE_EVENTS: &str = include_str!("before_events.md");
const BEFORE_RUN_FILE: &str = include_str!("before_run_file.md");

/// The fields of both files, in Markdown.
pub(crate) fn field_page(agent: &Value, config: &Value) -> String {
    let mut page = BEFORE.to_owned();
    let mut shared = HashMap::new();
    for (file, schema) in [("agent.yaml", agent), ("config.yaml", config)] {
        page.push_str(&format!("\n## `{file}`\n"));
        Page {
            tree: Schema::new(schema),
            places: &mut shared,
            waiting: VecDeque::new(),
            with_examples: true,
            text: &mut page,
        }
        .write(schema);
    }
    page
}

/// The types of events with their fields, in Markdown.
pub(crate) fn event_page(schema: &Value) -> String {
    let mut text = BEFORE_EVENTS.to_owned();
    let mut places = HashMap::new();
    let kinds = choices(schema);
    let common = kinds.first().and_then(|kind| kind.pointer("/allOf/0"));
    let common = common.map(|fields| ("Fields of every event", "", fields));
    let kinds = kinds.iter().filter_map(|kind| {
        let title = kind.get("title")?.as_str()?;
        Some((title, description(kind), *kind))
    });
    for (title, about, fields) in common.into_iter().chain(kinds) {
        let title = if about.is_empty() {
            title.to_owned()
        } else {
            format!("`{title}`")
        };
        text.push_str(&format!("\n## {title}\n"));
        if !about.is_empty() {
            text.push_str(&format!("\n{about}\n"));
        }
        Page {
            tree: Schema::new(schema),
            places: &mut places,
            waiting: VecDeque::new(),
            with_examples: false,
            text: &mut text,
        }
        .write(fields);
    }
    text
}

/// The fields of the file of a run, in Markdown.
pub(crate) fn run_file_page(schema: &Value) -> String {
    let mut text = BEFORE_RUN_FILE.to_owned();
    Page {
        tree: Schema::new(schema),
        places: &mut HashMap::new(),
        waiting: VecDeque::new(),
        with_examples: false,
        text: &mut text,
    }
    .write(schema);
    text
}

struct Page<'a, 's, 'p> {
    tree: Schema<'a>,
    /// The heading under which each definition is listed.
    places: &'s mut HashMap<String, String>,
    waiting: VecDeque<(String, &'a Value)>,
    /// Whether the tables have a column for them.
    with_examples: bool,
    text: &'p mut String,
}

impl<'a> Page<'a, '_, '_> {
    fn write(&mut self, root: &'a Value) {
        for record in self.tree.records(root) {
            self.table(&record, "");
        }
        while let Some((title, schema)) = self.waiting.pop_front() {
            self.section(&title, schema);
        }
    }

    fn section(&mut self, title: &str, schema: &'a Value) {
        self.text.push_str(&format!("\n### `{title}`\n"));
        let about = own_description(&self.tree, self.tree.resolve(schema));
        if !about.is_empty() {
            self.text.push_str(&format!("\n{about}\n"));
        }
        if let Some(values) = constants(self.tree.resolve(schema)) {
            self.text.push_str("\n| value | meaning |\n|---|---|\n");
            for (value, meaning) in values {
                self.text
                    .push_str(&format!("| `{value}` | {} |\n", cell(meaning)));
            }
            return;
        }
        for record in self.tree.records(schema) {
            if let Some(kind) = record.variant {
                self.text
                    .push_str(&format!("\n#### `{title}` with `type: {kind}`\n"));
            }
            self.table(&record, title);
        }
    }

    fn table(&mut self, record: &Record<'a>, above: &str) {
        self.text.push_str(if self.with_examples {
            "\n| field | value | default | example | meaning |\n|---|---|---|---|---|\n"
        } else {
            "\n| field | value | default | meaning |\n|---|---|---|---|\n"
        });
        for (name, schema) in record.properties {
            if (record.variant.is_some() && name == "type") || schema == &Value::Bool(false) {
                continue;
            }
            let path = if above.is_empty() {
                name.clone()
            } else {
                format!("{above}.{name}")
            };
            let link = self.link(&path, schema);
            let words = self.tree.words(schema);
            // The fields that a link lists have their own, and a switch needs none.
            let example = example(schema).filter(|_| link.is_none() && words != SWITCH);
            let example = example.map_or_else(String::new, |example| format!("`{example}`"));
            let value = match link {
                Some(title) => format!("{}, see [{title}](#{})", short(&words), anchor(&title)),
                None => words,
            };
            let default = if record.required.contains(&name.as_str()) {
                "required".to_owned()
            } else {
                default(schema).map_or_else(String::new, |value| format!("`{value}`"))
            };
            let meaning = cell(own_description(&self.tree, schema));
            let example = if self.with_examples {
                format!(" {} |", cell(&example))
            } else {
                String::new()
            };
            self.text.push_str(&format!(
                "| `{name}` | {} | {} |{example} {meaning} |\n",
                cell(&value),
                cell(&default)
            ));
        }
    }

    /// The heading where the fields or values of a field are listed, queued if it is the first use.
    fn link(&mut self, path: &str, schema: &'a Value) -> Option<String> {
        let resolved = self.tree.resolve(schema);
        let meanings =
            constants(resolved).filter(|all| all.len() > 1 && all.iter().any(|(_, text)| !text.is_empty()));
        if meanings.is_none() && self.tree.records(schema).is_empty() {
            return None;
        }
        let title = format!("{path}{}", self.tree.mark(schema));
        let Some(name) = definition(schema) else {
            self.waiting.push_back((title.clone(), schema));
            return Some(title);
        };
        if let Some(place) = self.places.get(&name) {
            return Some(place.clone());
        }
        self.places.insert(name, title.clone());
        self.waiting.push_back((title.clone(), schema));
        Some(title)
    }
}

/// The definition that holds the fields: the one of the value, of its items or of its only choice with fields.
fn definition(schema: &Value) -> Option<String> {
    if let Some(name) = Schema::name(schema) {
        return Some(name.to_owned());
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get(key).filter(|inner| inner.is_object()) {
            return definition(inner);
        }
    }
    choices(schema).into_iter().find_map(definition)
}

/// The type without the values that a link lists.
fn short(words: &str) -> String {
    let is_values = words.starts_with('`') && words != SWITCH;
    if is_values {
        "one of these values".to_owned()
    } else {
        words.to_owned()
    }
}

/// Text for a cell of a table.
fn cell(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}

/// The anchor that GitHub gives a heading.
fn anchor(title: &str) -> String {
    title
        .chars()
        .filter(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '-'))
        .flat_map(char::to_lowercase)
        .collect()
}
