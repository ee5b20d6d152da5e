//! The axes of the `matrix`, their paths and their values.

use holodeck_model::{
    Code, Diagnostic, Redactor, closest,
    redact::{Names, Role, find_in_configured_urls, role},
};
use serde_json::Value;

use super::{Rules, View};
use crate::{
    schema,
    shape::{Record, ShapeId, ShapeKind},
    yaml::{Entry, NodeId, Tree, from_tree},
};

/// The parts of an agent that shape its answers, which alone can differ between combinations. The test cases and their
/// checks must be the same.
const PARTS: [&str; 10] = [
    "model",
    "instructions",
    "response_format",
    "tools",
    "tool_filtering",
    "approvals",
    "embedding_provider",
    "claude",
    "openai",
    "target",
];

/// More combinations are probably a mistake: each is a whole run.
const MAX_COMBINATIONS: usize = 100;

pub(super) fn check_matrix(rules: &mut Rules<'_>, agent: &View) {
    let Some(matrix) = rules.child(agent, "matrix") else {
        return;
    };
    let axes = rules.tree.entries(matrix.node).unwrap_or_default();
    let mut combinations: usize = 1;
    for (place, axis) in axes.iter().enumerate() {
        check_path(rules, agent.node, axis);
        check_overlap(rules, axis, axes.get(..place).unwrap_or_default());
        let Some(values) = rules.tree.items(axis.value) else {
            continue;
        };
        combinations = combinations.saturating_mul(values.len());
        check_values(rules, axis, values);
    }
    if combinations > MAX_COMBINATIONS {
        let message = format!(
            "`matrix` has {combinations} combinations, and each runs all test cases; at most {MAX_COMBINATIONS} are allowed"
        );
        let diagnostic = Diagnostic::error(Code::TooManyItems, message)
            .about("matrix")
            .with_help(
                "remove values or axes; `--matrix PATH=VALUE` selects some combinations only for one run",
            );
        rules.add(matrix.named_at, diagnostic);
    }
}

fn report(rules: &mut Rules<'_>, axis: &Entry, code: Code, message: String, help: &str) {
    let path = rules.tree.key(axis);
    let diagnostic = Diagnostic::error(code, message)
        .about(format!("matrix.{path}"))
        .with_help(help);
    rules.add(axis.key_place, diagnostic);
}

fn check_path(rules: &mut Rules<'_>, root: NodeId, axis: &Entry) {
    let path = rules.tree.key(axis).to_owned();
    let steps: Vec<&str> = path.split('.').collect();
    let first = steps.first().copied().unwrap_or_default();
    let parts = || PARTS.map(|part| format!("`{part}`")).join(", ");
    if !PARTS.contains(&first) {
        let known = match &schema::AGENT.get(schema::AGENT.root).kind {
            ShapeKind::Record(record) => record.fields.contains_key(first),
            _ => false,
        };
        let mut diagnostic = if known {
            let message =
                format!("`{first}` cannot be in `matrix`: it does not shape the answers of the agent");
            Diagnostic::error(Code::InconsistentValues, message)
                .with_help(format!("an axis is a path in {}", parts()))
        } else {
            let message = format!("`matrix` names `{path}`, which is not a field of an agent");
            Diagnostic::error(Code::UnknownField, message)
                .with_help(format!("an axis is a path in {}", parts()))
        };
        if !known && let Some(meant) = closest(first, PARTS) {
            let rest = path.get(first.len()..).unwrap_or_default();
            diagnostic = diagnostic.with_inline(format!("did you mean `{meant}{rest}`?"));
        }
        rules.add(axis.key_place, diagnostic.about(format!("matrix.{path}")));
        return;
    }
    if steps.iter().any(|step| is_secret(step)) {
        let message = format!("`{path}` cannot be in `matrix`: its values would be shown and stored");
        report(
            rules,
            axis,
            Code::InconsistentValues,
            message,
            "secrets belong in environment variables",
        );
        return;
    }
    let search = Search {
        tree: rules.tree,
        path: &path,
    };
    if let Err(problem) = search.find(Some(root), schema::AGENT.root, &steps, "") {
        let diagnostic = (*problem).about(format!("matrix.{path}"));
        rules.add(axis.key_place, diagnostic);
    }
}

/// Reports an axis that sets what another one also sets.
fn check_overlap(rules: &mut Rules<'_>, axis: &Entry, earlier: &[Entry]) {
    let path = rules.tree.key(axis);
    let is_inside = |inner: &str, outer: &str| {
        inner
            .strip_prefix(outer)
            .is_some_and(|rest| rest.starts_with('.'))
    };
    let both_instructions = |other: &str| {
        [path, other]
            .iter()
            .all(|path| path.split('.').next() == Some("instructions"))
    };
    let other = earlier.iter().find(|other| {
        let other = rules.tree.key(other);
        is_inside(path, other) || is_inside(other, path) || both_instructions(other)
    });
    let Some(other) = other.copied() else { return };
    let message = format!(
        "`{path}` and `{}` set the same part of the agent",
        rules.tree.key(&other)
    );
    let label = rules.tree.location(other.key_place);
    let diagnostic = Diagnostic::error(Code::ConflictingFields, message)
        .about(format!("matrix.{path}"))
        .with_label(label, "the other axis is here")
        .with_help("keep one of them");
    rules.add(axis.key_place, diagnostic);
}

fn check_values(rules: &mut Rules<'_>, axis: &Entry, values: &[NodeId]) {
    let path = rules.tree.key(axis).to_owned();
    if values.is_empty() {
        let message = format!("`{path}` in `matrix` has no values");
        report(
            rules,
            axis,
            Code::OutOfRange,
            message,
            "add the values to compare, or remove the axis",
        );
    }
    let mut seen: Vec<Value> = Vec::new();
    for &node in values {
        let place = rules.tree.place(node);
        let error = |code, message: String, help: &str| {
            Diagnostic::error(code, message)
                .about(format!("matrix.{path}"))
                .with_help(help)
        };
        if is_any(rules.tree, node, &|tree, node| {
            tree.scalar(node).is_some_and(|scalar| scalar.substituted)
        }) {
            let message = format!("a value of `{path}` in `matrix` contains an environment variable");
            let help = "write the value itself: it is shown and stored with each run";
            rules.add(place, error(Code::InconsistentValues, message, help));
            continue;
        }
        if is_any(rules.tree, node, &has_secret) {
            let message =
                format!("a value of `{path}` in `matrix` contains a secret, which would be shown and stored");
            let help = "secrets belong in environment variables";
            rules.add(place, error(Code::InconsistentValues, message, help));
            continue;
        }
        let Ok(value) = from_tree::<Value>(rules.tree, node) else {
            continue;
        };
        if seen.contains(&value) {
            let message = format!("a value of `{path}` in `matrix` appears twice");
            rules.add(place, error(Code::DuplicateName, message, "remove one of them"));
        }
        seen.push(value);
    }
}

fn is_secret(key: &str) -> bool {
    matches!(role(key, Names::Fields), Role::Secret | Role::Variables)
}

/// Whether a value is a secret by its place or its shape, such as a key of a provider or the password of a URL.
fn has_secret(tree: &Tree, node: NodeId) -> bool {
    if let Some(scalar) = tree.scalar(node) {
        let mut found = Redactor::default().find(scalar.text);
        find_in_configured_urls(scalar.text, &mut found);
        return !found.is_empty();
    }
    let mut entries = tree.entries(node).unwrap_or_default().iter();
    entries.any(|entry| is_secret(tree.key(entry)))
}

/// Whether a value or one inside of it is as asked.
fn is_any(tree: &Tree, node: NodeId, is_wanted: &dyn Fn(&Tree, NodeId) -> bool) -> bool {
    let items = tree.items(node).unwrap_or_default().iter().copied();
    let values = tree
        .entries(node)
        .unwrap_or_default()
        .iter()
        .map(|entry| entry.value);
    is_wanted(tree, node) || items.chain(values).any(|inner| is_any(tree, inner, is_wanted))
}

/// Looks for the path of an axis in the language and, for indices of lists, in the file.
struct Search<'a> {
    tree: &'a Tree,
    path: &'a str,
}

impl Search<'_> {
    fn find(
        &self,
        node: Option<NodeId>,
        shape: ShapeId,
        steps: &[&str],
        owner: &str,
    ) -> Result<(), Box<Diagnostic>> {
        let Some((&step, rest)) = steps.split_first() else {
            return Ok(());
        };
        let node = node.filter(|node| !self.tree.is_null(*node));
        if node.is_some_and(|node| self.tree.scalar(node).is_some()) {
            return Err(self.no_inside(owner));
        }
        let below = if owner.is_empty() {
            step.to_owned()
        } else {
            format!("{owner}.{step}")
        };
        let child = |node: NodeId| self.tree.get(node, step).map(|entry| entry.value);
        match &schema::AGENT.get(shape).kind {
            ShapeKind::Any => Ok(()),
            ShapeKind::Record(record) => match record.fields.get(step) {
                Some(field) => self.find(node.and_then(child), field.shape, rest, &below),
                None if record.open => Ok(()),
                None => Err(self.unknown(step, rest, owner, &[record])),
            },
            ShapeKind::Tagged { variants, .. } => {
                if step == "type" {
                    return Ok(());
                }
                let kind = node.and_then(|node| self.tree.get(node, "type"));
                let kind = kind.and_then(|entry| Some(self.tree.scalar(entry.value)?.text));
                let fitting = variants
                    .iter()
                    .filter(|(name, _)| kind.is_none_or(|kind| kind == name));
                let records: Vec<&Record> = fitting.map(|(_, record)| record).collect();
                match records.iter().find_map(|record| record.fields.get(step)) {
                    Some(field) => self.find(node.and_then(child), field.shape, rest, &below),
                    None => Err(self.unknown(step, rest, owner, &records)),
                }
            }
            ShapeKind::Table { values, .. } => self.find(node.and_then(child), *values, rest, &below),
            ShapeKind::List { items, .. } => {
                let present = node.and_then(|node| self.tree.items(node)).unwrap_or_default();
                match step.parse::<usize>().ok().and_then(|index| present.get(index)) {
                    Some(item) => self.find(Some(*item), *items, rest, &below),
                    None => Err(self.no_item(step, owner, present.len())),
                }
            }
            ShapeKind::Either(alternatives) => {
                let mut problem = None;
                for alternative in alternatives {
                    match self.find(node, *alternative, steps, owner) {
                        Ok(()) => return Ok(()),
                        // That of a mapping names its fields.
                        Err(error) if problem.is_none() || error.code == Code::UnknownField => {
                            problem = Some(error);
                        }
                        Err(_) => {}
                    }
                }
                Err(problem.unwrap_or_else(|| self.no_inside(owner)))
            }
            _ => Err(self.no_inside(owner)),
        }
    }

    fn unknown(&self, step: &str, rest: &[&str], owner: &str, records: &[&Record]) -> Box<Diagnostic> {
        let message = format!(
            "`matrix` names `{}`, but `{owner}` has no field `{step}`",
            self.path
        );
        let diagnostic = Diagnostic::error(Code::UnknownField, message);
        let fields = || {
            records
                .iter()
                .flat_map(|record| record.fields.keys().map(String::as_str))
        };
        let diagnostic = if let Some(meant) = closest(step, fields()) {
            let steps: Vec<&str> = [owner, meant].into_iter().chain(rest.iter().copied()).collect();
            diagnostic.with_inline(format!("did you mean `{}`?", steps.join(".")))
        } else {
            let names: Vec<String> = fields().take(12).map(|name| format!("`{name}`")).collect();
            diagnostic.with_help(format!("the fields of `{owner}` are {}", names.join(", ")))
        };
        Box::new(diagnostic)
    }

    fn no_item(&self, step: &str, owner: &str, count: usize) -> Box<Diagnostic> {
        let message = format!(
            "`matrix` names `{}`, but `{owner}` has no item `{step}`",
            self.path
        );
        let help = match count {
            0 => format!("`{owner}` is empty or absent in the agent file"),
            count => format!("items are numbered from 0 to {}", count - 1),
        };
        Box::new(Diagnostic::error(Code::UnknownReference, message).with_help(help))
    }

    fn no_inside(&self, owner: &str) -> Box<Diagnostic> {
        let message = format!("`matrix` names `{}`, but `{owner}` is not a mapping", self.path);
        Box::new(
            Diagnostic::error(Code::UnknownReference, message)
                .with_help(format!("use `{owner}` itself as the axis")),
        )
    }
}
