//! Names and forms that people bring from other tools, each with the line to write here.
//!
//! The tables only explain errors: nothing is read by another name than its own.

pub(crate) mod shapes;
mod tables;

use std::path::Path;

use holodeck_model::{Code, Diagnostic, StandardMetricName};

pub(crate) use tables::{FIELDS, METRICS, PROVIDERS, TOOLS};

use crate::{
    check::metric_fields,
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

/// A service that speaks OpenAI's protocol, or has another name here.
pub(crate) struct ForeignProvider {
    pub(crate) theirs: &'static [&'static str],
    /// Our name.
    pub(crate) provider: &'static str,
    /// The address that it needs; empty if none.
    pub(crate) endpoint: &'static str,
}

/// A kind of tool as other tools call it.
pub(crate) struct ForeignTool {
    pub(crate) theirs: &'static [&'static str],
    /// The line to write.
    pub(crate) line: &'static str,
    /// Fields that only this kind has: with one of them, the mapping lacks nothing but the right kind.
    pub(crate) fields: &'static [&'static str],
}

/// The fields of the mapping in which a foreign name stands.
pub(crate) struct Beside<'a> {
    pub(crate) tree: &'a Tree,
    pub(crate) mapping: Option<NodeId>,
}

impl Beside<'_> {
    fn has(&self, field: &str) -> bool {
        self.mapping
            .is_some_and(|mapping| self.tree.get(mapping, field).is_some())
    }

    /// The text of a field, unless it came from a variable.
    fn text(&self, field: &str) -> Option<&str> {
        shapes::text_of(self.tree, self.mapping?, field)
    }
}

impl ForeignProvider {
    /// The provider of this name.
    fn named(name: &str) -> Option<&'static Self> {
        let name = normalise(name);
        PROVIDERS.iter().find(|it| it.theirs.contains(&name.as_str()))
    }

    /// The next step: the lines to write beside those that are there.
    pub(crate) fn help(&self, beside: &Beside<'_>) -> String {
        let Self {
            provider, endpoint, ..
        } = self;
        match *endpoint {
            _ if !endpoint.is_empty() && beside.has("endpoint") => format!(
                "write `provider: {provider}`; `endpoint` stays the address of its OpenAI-compatible API"
            ),
            "" => format!("write `provider: {provider}`"),
            unknown if unknown.contains('…') => format!(
                "write `provider: {provider}` and the address of its OpenAI-compatible API, as in `endpoint: {unknown}`"
            ),
            endpoint => format!("write `provider: {provider}` and `endpoint: {endpoint}`"),
        }
    }
}

/// "write `LINE`"; a line that has code of its own is a sentence.
pub(crate) fn write(line: &str) -> String {
    if line.contains('`') {
        format!("write {line}")
    } else {
        format!("write `{line}`")
    }
}

/// The line that sets a field of a mapping with these fields, as an example.
pub(crate) fn example_line(ours: &str, record: &Record) -> Option<&'static str> {
    let is_it = |field: &&ForeignField| field.ours == ours && record.fields.contains_key(field.beside);
    FIELDS.iter().find(is_it).map(|field| field.line)
}

/// The line that sets a field, as an example, if the field has the same meaning in every mapping.
pub(crate) fn only_example_line(ours: &str) -> Option<&'static str> {
    let mut lines = FIELDS
        .iter()
        .filter(|field| field.ours == ours)
        .map(|field| field.line);
    let first = lines.next()?;
    lines.all(|line| line == first).then_some(first)
}

/// The hint for a score that is not between 0 and 1: as a share of 10 or of 100.
pub(crate) fn as_share(number: f64) -> Option<String> {
    if number <= 1.0 || !(1.0..=100.0).contains(&number) {
        return None;
    }
    Some(if number <= 10.0 {
        format!(
            "scores are between 0 and 1: write `{}` for {number} of 10",
            number / 10.0
        )
    } else {
        format!(
            "scores are between 0 and 1: write `{}` for {number} %",
            number / 100.0
        )
    })
}

/// The name in lower case and without separators: `systemPrompt`, `system-prompt` and `system_prompt` are one name.
pub(crate) fn normalise(name: &str) -> String {
    let letters = name.chars().filter(|c| !matches!(c, '_' | '-' | ' ' | '.'));
    letters.flat_map(char::to_lowercase).collect()
}

/// Our field for a name of another tool in a mapping with these fields; one that is not `taken` comes first.
pub(crate) fn field(
    name: &str,
    record: &Record,
    taken: impl Fn(&str) -> bool,
) -> Option<&'static ForeignField> {
    let name = normalise(name);
    let meant = FIELDS.iter().filter(|field| {
        field.theirs.contains(&name.as_str())
            && record.fields.contains_key(field.beside)
            && record.fields.contains_key(field.ours)
    });
    let mut free = meant.clone().filter(|field| !taken(field.ours));
    free.next().or_else(|| meant.clone().next())
}

/// The next step for a value that other tools have where one of these choices belongs.
pub(crate) fn choice(value: &str, choices: &[String], beside: &Beside<'_>) -> Option<String> {
    let has = |choice: &str| choices.iter().any(|known| known == choice);
    if has("azure_openai") {
        return ForeignProvider::named(value).map(|known| known.help(beside));
    }
    if has("vectorstore") && has("mcp") {
        let name = normalise(value);
        let known = TOOLS.iter().find(|it| it.theirs.contains(&name.as_str()));
        return known.map(|known| match known.kind() {
            Some(kind) if known.fields.iter().any(|field| beside.has(field)) => {
                write(&format!("type: {kind}"))
            }
            _ => write(known.line),
        });
    }
    if has("geval") || has("contains_any") {
        return metric(value).map(|line| write(&with_given(line, beside)));
    }
    None
}

impl ForeignTool {
    /// Our name of the kind.
    fn kind(&self) -> Option<&'static str> {
        let (kind, _) = self.line.strip_prefix("{type: ")?.split_once(',')?;
        Some(kind)
    }
}

/// The line of a metric with the `value` and the `threshold` that are given: without them it would check something else.
fn with_given(line: String, beside: &Beside<'_>) -> String {
    let is_share = |text: &&str| text.parse().is_ok_and(|share: f64| (0.0..=1.0).contains(&share));
    let threshold = beside.text("threshold").filter(is_share);
    let line = match threshold {
        Some(threshold) if !line.contains("type: code") => with_field(&line, "threshold", threshold),
        _ => line,
    };
    let Some(value) = beside.text("value") else {
        return line;
    };
    let quoted = format!("\"{}\"", shapes::quoted(value));
    if takes(&line, "value") {
        with_field(&line, "value", &quoted)
    } else if line.contains("criteria: ") {
        with_field(&line, "criteria", &quoted)
    } else {
        line
    }
}

/// Whether the line is that of a standard metric that uses a field.
fn takes(line: &str, field: &str) -> bool {
    let standard = line.split_once("type: standard, metric: ");
    let name = standard.and_then(|(_, rest)| rest.split([',', '}']).next());
    name.is_some_and(|name| metric_fields::of_standard(name).contains(&field))
}

/// A mapping in one line with another value of a field, which is a text or a number.
fn with_field(line: &str, field: &str, value: &str) -> String {
    let name = format!(", {field}: ");
    if let Some((before, rest)) = line.split_once(&name) {
        let end = rest.find([',', '}']).unwrap_or(rest.len());
        let after = rest.get(end..).unwrap_or_default();
        return format!("{before}{name}{value}{after}");
    }
    match line.strip_suffix('}') {
        Some(open) => format!("{open}{name}{value}}}"),
        None => line.to_owned(),
    }
}

/// Reports a whole file of another tool; `path` is the file as it was given.
pub(crate) fn recognise(tree: &Tree, root: NodeId, path: &Path) -> Option<Diagnostic> {
    let has = |names: &[&str]| names.iter().any(|name| tree.get(root, name).is_some());
    if has(&["instructions", "model", "target"]) {
        return None;
    }
    let groups = [
        has(&["prompts"]),
        has(&["providers", "targets"]),
        has(&["tests", "scenarios", "defaultTest"]),
    ];
    if groups.into_iter().filter(|group| *group).count() < 2 {
        return shapes::docker_agent(tree, root).or_else(|| shapes::crew(tree, root));
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
        // Only a check can be negated; the same line without it would mean the opposite.
        if !negate.is_empty() && !takes(line, "negate") {
            return None;
        }
        return Some(match line.strip_suffix('}') {
            Some(open) if !negate.is_empty() => format!("{open}{negate}}}"),
            _ => line.to_owned(),
        });
    }
    let ours = value.to_lowercase().replace('-', "_");
    let ours: Option<StandardMetricName> = serde_json::from_value(ours.into()).ok();
    let line = ours.map(|ours| format!("{{type: standard, metric: {ours}}}"))?;
    let open = line.strip_suffix('}')?;
    (negate.is_empty() || takes(open, "negate")).then(|| format!("{open}{negate}}}"))
}

#[cfg(test)]
mod tests;
