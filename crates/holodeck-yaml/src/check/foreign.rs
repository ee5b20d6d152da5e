//! Names and forms that people bring from other tools, each with the line to write here.
//!
//! The tables only explain errors: nothing is read by another name than its own.

pub(crate) mod shapes;
mod tables;

use std::path::Path;

use holodeck_model::{Code, Diagnostic, StandardMetricName};

pub(crate) use tables::{FIELDS, METRICS, PROVIDERS};

use crate::{
    shape::Record,
    yaml::{NodeId, Tree},
};

/// A field as other tools call it.
pub(crate) struct ForeignField {
    /// Their names, in lower case and without separators.
    pub(crate) theirs: &'static [&'static str],
    /// A field of the mapping in which the name is meant so.
    pub(crate) beside: &'static str,
    /// Our field.
    pub(crate) ours: &'static str,
    /// The line to write.
    pub(crate) line: &'static str,
}

/// A kind of metric as other tools call it.
pub(crate) struct ForeignMetric {
    pub(crate) theirs: &'static [&'static str],
    pub(crate) line: &'static str,
}

/// A service that speaks OpenAI's protocol.
pub(crate) struct ForeignProvider {
    pub(crate) theirs: &'static [&'static str],
    /// The line to write.
    pub(crate) line: &'static str,
}

/// The name in lower case and without separators: `systemPrompt`, `system-prompt` and `system_prompt` are one name.
pub(crate) fn normalise(name: &str) -> String {
    let letters = name.chars().filter(|c| !matches!(c, '_' | '-' | ' ' | '.'));
    letters.flat_map(char::to_lowercase).collect()
}

/// Our field for a name of another tool in a mapping with these fields, of which some are `taken`.
pub(crate) fn field(
    name: &str,
    record: &Record,
    taken: impl Fn(&str) -> bool,
) -> Option<&'static ForeignField> {
    let name = normalise(name);
    FIELDS.iter().find(|field| {
        field.theirs.contains(&name.as_str())
            && record.fields.contains_key(field.beside)
            && record.fields.contains_key(field.ours)
            && !taken(field.ours)
    })
}

/// The line for a value that other tools have where one of these choices belongs.
pub(crate) fn choice(value: &str, choices: &[String]) -> Option<String> {
    let has = |choice: &str| choices.iter().any(|known| known == choice);
    let name = normalise(value);
    if has("azure_openai") {
        let known = PROVIDERS.iter().find(|it| it.theirs.contains(&name.as_str()));
        return known.map(|known| known.line.to_owned());
    }
    if has("geval") || has("contains_any") {
        return metric(value);
    }
    None
}

/// Reports a whole file of another tool; `path` is the file as it was given.
pub(crate) fn recognise(tree: &Tree, root: NodeId, path: &Path) -> Option<Diagnostic> {
    let has = |names: &[&str]| names.iter().any(|name| tree.get(root, name).is_some());
    let groups = [
        has(&["prompts"]),
        has(&["providers", "targets"]),
        has(&["tests", "scenarios", "defaultTest"]),
    ];
    let is_ours = has(&["instructions", "model", "target"]);
    if is_ours || groups.into_iter().filter(|group| *group).count() < 2 {
        return None;
    }
    let diagnostic = Diagnostic::error(
        Code::UnknownField,
        "this is a promptfoo configuration, not an agent file",
    );
    Some(diagnostic.with_help(format!(
        "`holodeck import promptfoo {}` writes an agent file and test cases of it, and lists what it leaves out",
        path.display()
    )))
}

/// The line for the kind of a metric of another tool.
fn metric(value: &str) -> Option<String> {
    let (negate, value) = match value.strip_prefix("not-").or_else(|| value.strip_prefix("not_")) {
        Some(positive) => (", negate: true", positive),
        None => ("", value),
    };
    let name = normalise(value);
    if let Some(known) = METRICS.iter().find(|it| it.theirs.contains(&name.as_str())) {
        let line = known.line;
        return Some(match line.strip_suffix('}') {
            Some(open) if !negate.is_empty() => format!("{open}{negate}}}"),
            _ => line.to_owned(),
        });
    }
    let ours = value.to_lowercase().replace('-', "_");
    let ours: Option<StandardMetricName> = serde_json::from_value(ours.into()).ok();
    ours.map(|ours| format!("{{type: standard, metric: {ours}{negate}}}"))
}

#[cfg(test)]
mod tests;
