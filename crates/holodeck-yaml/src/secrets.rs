//! Finds the secrets in the files of an agent and the places where they are written.

use std::{
    ops::Range,
    sync::{Arc, LazyLock},
};

use holodeck_model::{
    Redactor, is_hidden,
    redact::{
        Names, Role, arguments, assignments, find_in_configured_urls, find_url_secrets, merge_ranges, role,
        role_of_mapping,
    },
};
use regex::Regex;

use crate::yaml::{Entry, FileId, NodeId, Place, Tree};

/// The secrets of the files of a tree.
#[derive(Debug, Default)]
pub(crate) struct Secrets {
    /// The values.
    pub(crate) values: Vec<String>,
    /// Where secrets and possible secrets are written.
    places: Vec<Place>,
}

/// How a value is treated because of the fields that contain it.
#[derive(Clone, Copy)]
struct Scope {
    names: Names,
    /// The value is masked where it is written.
    masked: bool,
    /// The value is a secret wherever it appears.
    secret: bool,
    /// The value is a mapping whose keys are variable names.
    variables: bool,
}

impl Secrets {
    /// Collects the secrets in fields, variables and URLs of the files of `tree`.
    pub(crate) fn of(tree: &Tree) -> Self {
        let mut secrets = Self {
            values: tree.secret_variables().to_vec(),
            places: Vec::new(),
        };
        let scope = Scope {
            names: Names::Fields,
            masked: false,
            secret: false,
            variables: false,
        };
        for root in tree.roots() {
            secrets.collect_value(tree, *root, scope);
        }
        for entry in tree.dropped_entries() {
            secrets.collect_entry(tree, entry, scope);
        }
        secrets
    }

    fn collect_value(&mut self, tree: &Tree, node: NodeId, scope: Scope) {
        if let Some(scalar) = tree.scalar(node) {
            let place = tree.place(tree.resolve(node));
            if scope.secret && !tree.is_null(node) {
                self.values.push(scalar.text.to_owned());
            } else if scope.names != Names::Schema {
                self.values.extend(find_url_secrets(scalar.text));
            }
            if scope.masked {
                self.hide(tree, place);
            } else {
                self.hide_parts(tree, place);
            }
        } else if let Some(items) = tree.items(node) {
            for item in items {
                let variables = false;
                self.collect_value(tree, *item, Scope { variables, ..scope });
            }
        } else {
            for entry in tree.entries(node).unwrap_or_default() {
                self.collect_entry(tree, entry, scope);
            }
        }
    }

    fn collect_entry(&mut self, tree: &Tree, entry: &Entry, scope: Scope) {
        let key = tree.key(entry);
        let is_mapping = tree.entries(entry.value).is_some();
        let role = if is_mapping {
            role_of_mapping(key, scope.names)
        } else {
            role(key, scope.names)
        };
        // `{hunter2}` is a key without a value.
        let is_bare = scope.names == Names::Login
            && role == Role::Secret
            && key != "client_secret"
            && tree.is_null(entry.value);
        if is_bare {
            // Messages name unknown fields.
            self.values.push(key.to_owned());
        }
        if is_bare || (scope.masked && !scope.variables) {
            self.hide(tree, entry.key_place);
        }
        let inner = match role {
            Role::Secret => Scope {
                masked: true,
                secret: scope.secret || !matches!(scope.names, Names::Data | Names::Schema),
                variables: false,
                ..scope
            },
            Role::Variables => Scope {
                masked: true,
                variables: true,
                ..scope
            },
            Role::Arguments => {
                self.collect_arguments(tree, entry.value, scope);
                Scope {
                    variables: false,
                    ..scope
                }
            }
            Role::Prose => Scope {
                variables: false,
                ..scope
            },
            Role::Plain(names) => Scope {
                names,
                variables: false,
                ..scope
            },
        };
        self.collect_value(tree, entry.value, inner);
    }

    fn collect_arguments(&mut self, tree: &Tree, list: NodeId, scope: Scope) {
        let items = tree.items(list).unwrap_or_default();
        let texts = items
            .iter()
            .map(|item| tree.scalar(*item).map_or("", |scalar| scalar.text));
        let texts: Vec<&str> = texts.collect();
        for ((item, text), ranges) in items.iter().zip(&texts).zip(arguments(&texts)) {
            if ranges.is_empty() {
                continue;
            }
            if scope.names != Names::Data {
                let values = ranges.into_iter().filter_map(|range| text.get(range));
                self.values.extend(values.map(str::to_owned));
            }
            self.hide(tree, tree.place(tree.resolve(*item)));
        }
    }

    /// Hides a value except the names of variables in it.
    fn hide(&mut self, tree: &Tree, place: Place) {
        let text = tree.file_text(place.file);
        let (start, end) = (place.start as usize, place.end as usize);
        let mut from = start;
        for name in text.get(start..end).into_iter().flat_map(names_of_variables) {
            self.push(place, from..start + name.start);
            from = start + name.end;
        }
        self.push(place, from..end);
    }

    /// Hides credentials and query values of URLs, and the defaults of variables.
    fn hide_parts(&mut self, tree: &Tree, place: Place) {
        let file = tree.file_text(place.file);
        let start = place.start as usize;
        let Some(text) = file.get(start..place.end as usize) else {
            return;
        };
        let mut found = Vec::new();
        find_in_configured_urls(text, &mut found);
        if text.contains(":-") {
            let defaults = VARIABLE.iter().flat_map(|regex| regex.captures_iter(text));
            found.extend(defaults.filter_map(|variable| Some(variable.name("default")?.range())));
        }
        for range in found {
            let place = Place {
                start: place.start + offset(range.start),
                end: place.start + offset(range.end),
                ..place
            };
            self.hide(tree, place);
        }
    }

    fn push(&mut self, place: Place, range: Range<usize>) {
        if !range.is_empty() {
            self.places.push(Place {
                start: offset(range.start),
                end: offset(range.end),
                ..place
            });
        }
    }
}

/// `${NAME}` and `${NAME:-default}`.
static VARIABLE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\$\{(?<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?<default>[^}]*))?\}").ok());

/// The places of the names of variables, without their defaults.
fn names_of_variables(text: &str) -> Vec<Range<usize>> {
    let variables = VARIABLE.iter().flat_map(|regex| regex.captures_iter(text));
    let names = variables.flat_map(|variable| {
        let whole = variable.get(0).map(|whole| whole.range()).unwrap_or_default();
        match variable.name("default") {
            Some(default) => vec![whole.start..default.start(), default.end()..whole.end],
            None => vec![whole],
        }
    });
    names.collect()
}

/// The text of a file with secrets replaced by asterisks, without moving any byte. In a file that could not be parsed
/// everything but the keys is masked, because the bounds of its values are unknown. A text without secrets is not copied.
pub(crate) fn mask_file(tree: &Tree, file: FileId, secrets: &Secrets, redactor: &Redactor) -> Arc<str> {
    let text = tree.file_text(file);
    if tree.is_broken(file) {
        return replace_hidden(mask_all_but_keys(&text, redactor)).into();
    }
    let mut found = redactor.find(&text);
    let places = secrets.places.iter().filter(|place| place.file == file);
    found.extend(places.map(|place| place.start as usize..place.end as usize));
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        // A comment, or a string in which masking does no harm.
        if let Some(at) = line.find('#') {
            let values = assignments(line.get(at..).unwrap_or_default());
            found.extend(
                values
                    .iter()
                    .map(|value| start + at + value.start..start + at + value.end),
            );
        }
        start += line.len();
    }
    if found.is_empty() && !has_hidden(&text) {
        return text;
    }
    replace_hidden(mask_ranges(&text, merge_ranges(found))).into()
}

fn has_hidden(text: &str) -> bool {
    !text.is_ascii() && text.contains(|c: char| !c.is_ascii() && is_hidden(c))
}

/// Replaces each byte of a hidden character by a question mark: escapes would move the places after them.
fn replace_hidden(text: String) -> String {
    if !has_hidden(&text) {
        return text;
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if !c.is_ascii() && is_hidden(c) {
            shown.extend(std::iter::repeat_n('?', c.len_utf8()));
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Replaces ranges by asterisks, except white space and quotes.
fn mask_ranges(text: &str, found: Vec<Range<usize>>) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut at = 0;
    for range in found {
        masked.push_str(text.get(at..range.start).unwrap_or_default());
        for c in text.get(range.clone()).unwrap_or_default().chars() {
            if c.is_whitespace() || matches!(c, '"' | '\'') {
                masked.push(c);
            } else {
                masked.extend(std::iter::repeat_n('*', c.len_utf8()));
            }
        }
        at = range.end;
    }
    masked.push_str(text.get(at..).unwrap_or_default());
    masked
}

/// The fields whose texts are shown also if the file cannot be parsed: they say something, and are no place for a secret.
const SHOWN: [&str; 9] = [
    "name",
    "description",
    "inline",
    "input",
    "ground_truth",
    "criteria",
    "type",
    "metric",
    "provider",
];

/// The part of a line after a field that is shown: until something begins that could be another field or holds a secret.
fn shown_part(line: &str, redactor: &Redactor) -> usize {
    static KEY_LIKE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        // Another field, a bracket, a variable, or many letters and digits in a row, as keys have.
        Regex::new(
            r#"[,\[{&*!|>][\t ]*["']?[\w-]+["']?[\t ]*:|[{}\[\]#$]|^[|>&*!]|[A-Za-z0-9_+/=.-]{20,}|://"#,
        )
        .ok()
    });
    let mut end = line.len();
    let Some(regex) = KEY_LIKE.as_ref() else { return 0 };
    end = regex.find(line).map_or(end, |found| end.min(found.start()));
    for range in redactor.find(line).into_iter().chain(assignments(line)) {
        end = end.min(range.start);
    }
    let mut urls = Vec::new();
    find_in_configured_urls(line, &mut urls);
    urls.into_iter().fold(end, |end, range| end.min(range.start))
}

/// Masks a text that is not YAML, except the fields of the language and texts that hold no secret.
fn mask_all_but_keys(text: &str, redactor: &Redactor) -> String {
    static KEY: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(
            r#"(?m)(?:^[\t ]*(?:[-?][\t ]+)*|[{,\[][\t ]*)["']?(?<key>[A-Za-z_]\w*)["']?[\t ]*:(?:[\t ]|$)"#,
        )
        .ok()
    });
    let keys = KEY.iter().flat_map(|regex| regex.captures_iter(text));
    let fields = keys.filter(|key| {
        key.name("key")
            .is_some_and(|key| crate::schema::is_field(key.as_str()))
    });
    let mut at = 0;
    let mut hidden = Vec::new();
    for field in fields {
        let Some(whole) = field.get(0) else { continue };
        hidden.push(at.min(whole.start())..whole.start());
        at = whole.end();
        let key = field.name("key").map_or("", |key| key.as_str());
        let line = text
            .get(at..)
            .and_then(|rest| rest.split('\n').next())
            .unwrap_or_default();
        if SHOWN.contains(&key) {
            at += shown_part(line, redactor);
        }
    }
    hidden.push(at..text.len());
    let masked = mask_ranges(text, merge_ranges(hidden));
    // The marks of documents and front matter are no values.
    let lines = text.split_inclusive('\n').zip(masked.split_inclusive('\n'));
    lines
        .map(|(line, masked)| match line.trim_end() {
            "---" | "..." => line,
            _ => masked,
        })
        .collect()
}

fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
