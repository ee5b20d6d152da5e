//! Diagnostics of the shape checks.

use holodeck_model::{Code, Diagnostic, closest};

use super::Walk;
use crate::{
    check::{
        foreign::{self, Beside},
        naming::shorten,
    },
    shape::{Field, Record, Shape, ShapeKind},
    yaml::{Core, Entry, Legacy, NodeId, Place, Scalar, legacy_reading, lenient_f64, resolve},
};

impl Walk<'_> {
    pub(super) fn report_unknown_field(&mut self, record: &Record, node: NodeId, entry: &Entry) {
        let key = self.tree.key(entry);
        let owner = self.path.owner_suffix(self.tree);
        let message = match record.refused.get(key) {
            Some(_) => format!("`{key}`{owner} is not supported"),
            None => format!("unknown field `{}`{owner}", shorten(key)),
        };
        let mut diagnostic =
            Diagnostic::error(Code::UnknownField, message).about(self.path.pointer(Some(key)));
        let is_taken = |name: &str| self.tree.get(node, name).is_some();
        let known = foreign::field(key, record, is_taken);
        let prompt = foreign::shapes::prompt_of_messages(self.tree, entry)
            .filter(|_| self.path.is_root() && !is_taken("instructions"));
        // A field that is already present was not meant.
        let absent = record
            .fields
            .keys()
            .map(String::as_str)
            .filter(|name| self.tree.get(node, name).is_none());
        if let Some(reason) = record.refused.get(key) {
            diagnostic = diagnostic.with_help(reason.clone());
        } else if let Some(line) = prompt {
            diagnostic = diagnostic
                .with_inline("here it is `instructions`")
                .with_help(foreign::write(&line));
            self.findings.add_suggestion(node, "instructions");
        } else if let Some(known) = known.filter(|known| is_taken(known.ours)) {
            let list = known.line.strip_prefix(&format!("{}: [", known.ours));
            diagnostic = diagnostic
                .with_inline(format!("here it is `{}`, which is there already", known.ours))
                .with_help(match list.and_then(|items| items.strip_suffix(']')) {
                    Some(item) => format!("add to `{}`: `- {item}`", known.ours),
                    None => format!("write only `{}`", known.line),
                });
        } else if let Some(known) = known {
            diagnostic = diagnostic
                .with_inline(format!("here it is `{}`", known.ours))
                .with_help(foreign::write(known.line));
            self.findings.add_suggestion(node, known.ours);
        } else if key.contains(' ') && self.tree.is_null(entry.value) {
            diagnostic = diagnostic
                .with_inline("is this the rest of a text?")
                .with_help("a text with a comma in `{…}` needs quotes: `{inline: \"first, second\"}`");
        } else if let Some(name) = closest(key, absent) {
            diagnostic = diagnostic.with_inline(format!("did you mean `{name}`?"));
            self.findings.add_suggestion(node, name);
        } else if let Some(home) = self.home_of(record, key) {
            diagnostic = diagnostic.with_help(format!("`{key}` belongs in `{home}`"));
        } else {
            let names: Vec<String> = record.fields.keys().map(|name| format!("`{name}`")).collect();
            diagnostic = diagnostic.with_help(format!("the fields here are {}", join_names(&names)));
        }
        self.report_at(entry.key_place, entry.value, diagnostic);
    }

    /// The block inside of `record` that has this field. Of several at the top level, the one that is usually meant.
    fn home_of(&self, record: &Record, key: &str) -> Option<String> {
        let has_key = |block: &str| {
            let inner = record.fields.get(block).map(|field| self.shapes.get(field.shape));
            inner
                .and_then(|shape| self.record_in(shape))
                .is_some_and(|inner| inner.fields.contains_key(key))
        };
        let usual = [
            "model",
            "execution",
            "evaluations",
            "instructions",
            "claude",
            "openai",
        ];
        let usual = usual
            .into_iter()
            .filter(|_| self.path.is_root())
            .find(|block| has_key(block));
        let home = usual.or_else(|| {
            let mut homes = record
                .fields
                .keys()
                .map(String::as_str)
                .filter(|block| has_key(block));
            homes.next().filter(|_| homes.next().is_none())
        });
        home.map(|block| self.path.pointer(Some(block)))
    }

    /// The record that a mapping of this shape is.
    fn record_in<'s>(&'s self, shape: &'s Shape) -> Option<&'s Record> {
        match &shape.kind {
            ShapeKind::Record(record) => Some(record),
            ShapeKind::Either(alternatives) => {
                let mut shapes = alternatives.iter().map(|id| self.shapes.get(*id));
                shapes.find_map(|shape| match &shape.kind {
                    ShapeKind::Record(record) => Some(record),
                    _ => None,
                })
            }
            _ => None,
        }
    }

    pub(super) fn report_missing_field(
        &mut self,
        record: &Record,
        (name, field): (&str, &Field),
        node: NodeId,
        named_at: Place,
    ) {
        let message = if self.path.is_root() {
            format!("missing field `{name}`")
        } else {
            format!("missing field `{name}`{}", self.path.owner_suffix(self.tree))
        };
        let diagnostic = Diagnostic::error(Code::MissingField, message)
            .about(self.path.pointer(Some(name)))
            .with_help(missing_help(
                foreign::example_line(name, record).unwrap_or(name),
                &field.description,
            ));
        self.report_at(named_at, node, diagnostic);
    }

    pub(super) fn report_missing_type(
        &mut self,
        kinds: &[&str],
        implied: Option<&str>,
        node: NodeId,
        named_at: Place,
    ) {
        let message = format!("{} has no `type`", self.path.describe(self.tree));
        let help = match implied {
            Some(kind) => format!("add `type: {kind}`"),
            None => format!("add `type:` with {}", alternatives(kinds)),
        };
        let diagnostic = Diagnostic::error(Code::MissingType, message)
            .about(self.path.pointer(Some("type")))
            .with_help(help);
        self.report_at(named_at, node, diagnostic);
    }

    pub(super) fn report_empty_value(&mut self, kind: &ShapeKind, node: NodeId, named_at: Place) {
        let message = format!(
            "{} has no value; it must be {}",
            self.name(),
            self.expectation(kind)
        );
        let mut diagnostic = Diagnostic::error(Code::WrongType, message);
        if self.tree.scalar(node).is_some_and(|scalar| scalar.substituted) {
            diagnostic = diagnostic.with_help("the environment variable used here is set but empty");
        }
        self.report_at(named_at, node, diagnostic);
    }

    pub(super) fn report_wrong_type(&mut self, kind: &ShapeKind, node: NodeId) {
        let found = match self.tree.scalar(node) {
            Some(scalar) if scalar.substituted => "but the environment variable has another value".to_owned(),
            Some(scalar) => match (scalar.plain, resolve(scalar.text)) {
                (true, Core::Bool(_)) => "found a boolean".to_owned(),
                (true, Core::Int(_) | Core::Unsigned(_) | Core::Float(_)) => {
                    format!("found {}", shorten(scalar.text))
                }
                _ => format!("found the string `{}`", shorten(scalar.text)),
            },
            None if self.tree.items(node).is_some() => "found a list".to_owned(),
            None => "found a mapping".to_owned(),
        };
        let message = format!("{} must be {}, {found}", self.name(), self.expectation(kind));
        let mut diagnostic = Diagnostic::error(Code::WrongType, message);
        if let Some(scalar) = self.tree.scalar(node)
            && matches!(kind, ShapeKind::Integer { .. } | ShapeKind::Number { .. })
            && let Some(Legacy::Number(number)) = legacy_reading(scalar.text)
        {
            diagnostic =
                diagnostic.with_help(format!("only YAML 1.1 reads it as a number; write `{number}`"));
        } else if matches!(kind, ShapeKind::Integer { .. } | ShapeKind::Number { .. })
            && let Some(scalar) = self.tree.scalar(node).filter(|scalar| !scalar.substituted)
            && let Some(number) = without_unit(scalar.text, &self.path.pointer(None))
        {
            diagnostic = diagnostic.with_inline(format!("write `{number}`, without a unit"));
        } else if let ShapeKind::Number { .. } = kind
            && let Some(number) = self.tree.scalar(node).and_then(share_of_percent)
        {
            diagnostic = diagnostic.with_inline(format!("write `{number}`"));
        } else if let ShapeKind::List { .. } = kind
            && let Some(scalar) = self.tree.scalar(node)
        {
            diagnostic = diagnostic.with_help(self.as_list(scalar));
        }
        if let Some(line) = self.line_instead(kind, node) {
            diagnostic = diagnostic.with_help(foreign::write(&line));
        }
        self.report(node, diagnostic);
    }

    /// The hint for one text where a list belongs.
    fn as_list(&self, scalar: Scalar<'_>) -> String {
        let pointer = self.path.pointer(None);
        let key = pointer.rsplit('.').next().unwrap_or_default();
        let items: Vec<&str> = scalar.text.split([',', ';']).map(str::trim).collect();
        let are_words = items.iter().all(|item| {
            let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
            !item.is_empty() && item.chars().all(is_part)
        });
        if scalar.substituted || !are_words {
            return "write it as a list: `[...]`, or lines that begin with `- `".to_owned();
        }
        format!("write `{key}: [{}]`", shorten(&items.join(", ")))
    }

    /// The line to write instead of a form that people bring from other tools.
    pub(super) fn known_form(&self, node: NodeId) -> Option<String> {
        let scalar = self.tree.scalar(node).filter(|scalar| !scalar.substituted);
        let name = self.tree.get(node, "name");
        let name = name.and_then(|entry| self.tree.scalar(entry.value));
        foreign::shapes::line(&foreign::shapes::Found {
            pointer: &self.path.pointer(None),
            text: scalar.map(|scalar| scalar.text),
            is_list: self.tree.items(node).is_some(),
            inner_name: name.map(|name| name.text),
        })
    }

    /// The line to write instead of a value of the wrong form.
    fn line_instead(&self, kind: &ShapeKind, node: NodeId) -> Option<String> {
        let scalar = self.tree.scalar(node);
        let pointer = self.path.pointer(None);
        let has_fields = |kind: &ShapeKind| {
            matches!(
                kind,
                ShapeKind::Record(_) | ShapeKind::Table { .. } | ShapeKind::Tagged { .. }
            )
        };
        let wants_fields = match kind {
            ShapeKind::Either(shapes) => shapes.iter().any(|id| has_fields(&self.shapes.get(*id).kind)),
            kind => has_fields(kind),
        };
        let wants_text = matches!(kind, ShapeKind::Text(_)) && scalar.is_none();
        let wants_list = matches!(kind, ShapeKind::List { .. }) && scalar.is_none();
        if !(wants_fields || wants_text || wants_list) {
            return None;
        }
        let generic = || {
            let example = foreign::shapes::example(self.shapes, kind);
            match pointer.rsplit('.').next() {
                Some(step) if step.bytes().all(|byte| byte.is_ascii_digit()) => format!("- {example}"),
                Some(key) => format!("{key}: {example}"),
                None => example,
            }
        };
        let known = self.known_form(node);
        known.or_else(|| (wants_fields && !self.path.is_root()).then(generic))
    }

    /// The fields beside the value.
    fn beside(&self) -> Beside<'_> {
        Beside {
            tree: self.tree,
            mapping: self.path.parent(),
        }
    }

    pub(super) fn report_unknown_choice(&mut self, choices: &[String], scalar: Scalar<'_>, node: NodeId) {
        let names: Vec<&str> = choices.iter().map(String::as_str).collect();
        let mut diagnostic = if names.len() > 8 {
            let shown = if scalar.substituted {
                String::new()
            } else {
                format!(" `{}`", shorten(scalar.text))
            };
            Diagnostic::error(
                Code::UnknownValue,
                format!("unknown value{shown} for {}", self.name()),
            )
            .with_help(format!("it must be {}", alternatives(&names)))
        } else {
            let message = format!(
                "{} must be {}{}",
                self.name(),
                alternatives(&names),
                actual_suffix(scalar)
            );
            Diagnostic::error(Code::UnknownValue, message)
        };
        if !scalar.substituted
            && let Some(help) = foreign::choice(scalar.text, choices, &self.beside())
        {
            diagnostic = diagnostic.with_help(help);
        } else if !scalar.substituted
            && closest(scalar.text, names.iter().copied()).is_none()
            && let Some(line) = self.known_form(node)
        {
            diagnostic = diagnostic.with_help(foreign::write(&line));
        } else if !scalar.substituted
            && let Some(name) = closest(scalar.text, names)
        {
            diagnostic = diagnostic.with_inline(format!("did you mean `{name}`?"));
        }
        self.report(node, diagnostic);
    }

    pub(super) fn report_out_of_range(&mut self, range: &str, node: NodeId) {
        let mut diagnostic = Diagnostic::error(Code::OutOfRange, format!("{} must be {range}", self.name()));
        let scalar = self.tree.scalar(node).filter(|scalar| !scalar.substituted);
        let is_score = ["threshold", "min_score"]
            .contains(&self.path.pointer(None).rsplit('.').next().unwrap_or_default());
        if is_score && let Some(number) = scalar.and_then(|scalar| lenient_f64(scalar.text)) {
            diagnostic.help = foreign::as_share(number);
        }
        self.report(node, diagnostic);
    }

    pub(super) fn warn_no_effect(&mut self, key: &str, field: &Field, entry: &Entry) {
        let Some(why) = &field.no_effect else { return };
        let message = format!("`{key}`{} has no effect", self.path.owner_suffix(self.tree));
        let diagnostic = Diagnostic::warning(Code::NoEffect, message)
            .about(self.path.pointer(Some(key)))
            .with_help(format!("remove it; {why}"));
        self.findings.add(self.tree, entry.key_place, diagnostic);
    }

    /// Warns of a number that YAML 1.1 reads differently; `read` is the value of the field.
    pub(super) fn warn_legacy_number(&mut self, scalar: Scalar<'_>, read: Option<f64>, node: NodeId) {
        if !scalar.plain || scalar.substituted {
            return;
        }
        let Some(legacy @ Legacy::Number(_)) = legacy_reading(scalar.text) else {
            return;
        };
        let Legacy::Number(number) = &legacy else { return };
        if read.is_some() && lenient_f64(number) == read {
            let message = format!(
                "`{}` is a number only in YAML 1.1; it is read as {number}",
                scalar.text
            );
            let help = format!("write `{number}`");
            self.warn_difference(message, &help, node);
        } else {
            // A string field keeps the text of the file.
            let here = read.map_or_else(|| "a string".to_owned(), |number| format!("the number {number}"));
            self.warn_legacy(scalar, &legacy, &here, node);
        }
    }

    pub(super) fn warn_legacy(&mut self, scalar: Scalar<'_>, legacy: &Legacy, here: &str, node: NodeId) {
        if scalar.substituted {
            return;
        }
        let text = scalar.text;
        let (other, help) = match legacy {
            Legacy::Number(number) => (
                format!("the number {number}"),
                "put it in quotes if it is a string, otherwise write plain digits".to_owned(),
            ),
            Legacy::Bool(value) => (
                value.to_string(),
                format!("put it in quotes if it is a string, otherwise write `{value}`"),
            ),
            Legacy::Date => ("a date".to_owned(), "put it in quotes".to_owned()),
            Legacy::Text => (
                "a string".to_owned(),
                "put it in quotes if it is a string, otherwise write plain digits".to_owned(),
            ),
        };
        self.warn_difference(
            format!("`{text}` is {here} here, but {other} in YAML 1.1"),
            &help,
            node,
        );
    }

    fn warn_difference(&mut self, message: String, help: &str, node: NodeId) {
        let diagnostic = Diagnostic::warning(Code::Yaml11Difference, message)
            .about(self.path.pointer(None))
            .with_help(help);
        self.findings.add(self.tree, self.tree.place(node), diagnostic);
    }

    pub(super) fn name(&self) -> String {
        if self.path.is_root() {
            "the file".to_owned()
        } else {
            self.path.describe_field(self.tree)
        }
    }

    fn expectation(&self, kind: &ShapeKind) -> String {
        match kind {
            ShapeKind::Any => "a value".to_owned(),
            ShapeKind::Text(_) => "a string".to_owned(),
            ShapeKind::Bool => "true or false".to_owned(),
            ShapeKind::Integer { .. } => "a whole number".to_owned(),
            ShapeKind::Number { .. } => "a number".to_owned(),
            ShapeKind::Choice(choices) => {
                alternatives(&choices.iter().map(String::as_str).collect::<Vec<_>>())
            }
            ShapeKind::List { .. } => "a list".to_owned(),
            ShapeKind::Record(_) | ShapeKind::Table { .. } | ShapeKind::Tagged { .. } => {
                "a mapping".to_owned()
            }
            ShapeKind::Either(shapes) => {
                let mut names: Vec<String> = shapes
                    .iter()
                    .map(|id| self.expectation(&self.shapes.get(*id).kind))
                    .collect();
                names.dedup();
                names.join(" or ")
            }
        }
    }

    /// Reports a problem of a value at its place.
    pub(super) fn report(&mut self, node: NodeId, diagnostic: Diagnostic) {
        self.report_at(self.tree.place(node), node, diagnostic);
    }

    /// Reports a problem at a place and marks `node` as invalid.
    pub(super) fn report_at(&mut self, place: Place, node: NodeId, mut diagnostic: Diagnostic) {
        self.findings.mark_invalid(node);
        if diagnostic.pointer.is_none() {
            diagnostic = diagnostic.about(self.path.pointer(None));
        }
        // For an alias, show both where the value is written and where it is used.
        if let Some(used) = self.through.last().copied() {
            if used == place {
                let defined = self.tree.place(self.tree.resolve(node));
                diagnostic = diagnostic.with_label(self.tree.location(defined), "defined here");
            } else {
                diagnostic = diagnostic.with_label(self.tree.location(used), "used here");
            }
        }
        self.findings.add(self.tree, place, diagnostic);
    }
}

/// `, not `x`` unless the value came from the environment.
pub(super) fn actual_suffix(scalar: Scalar<'_>) -> String {
    if scalar.substituted {
        String::new()
    } else {
        format!(", not `{}`", shorten(scalar.text))
    }
}

/// The hint to add a field, with the field's own description.
pub(in crate::check) fn missing_help(name: &str, description: &str) -> String {
    let first = description
        .split_once(". ")
        .map_or(description, |(first, _)| first)
        .trim_end_matches('.');
    let mut characters = first.chars();
    match characters.next() {
        // An abbreviation keeps its capitals.
        Some(_) if characters.clone().next().is_some_and(char::is_uppercase) => {
            format!("add `{name}`: {first}")
        }
        Some(letter) => format!("add `{name}`: {}{}", letter.to_lowercase(), characters.as_str()),
        None => format!("add `{name}`"),
    }
}

/// "`a`, `b` or `c`".
pub(super) fn alternatives(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

/// "`a`, `b` and `c`".
pub(super) fn join_names(names: &[String]) -> String {
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}

pub(super) fn integer_range(min: i128, max: i128) -> String {
    let huge = i128::from(i64::MAX).min(i128::from(u32::MAX));
    match (min, max) {
        (min, max) if max < huge => format!("between {min} and {max}"),
        (min, _) if min >= -huge => format!("{min} or more"),
        _ => "a smaller number".to_owned(),
    }
}

pub(super) fn number_range(
    min: Option<f64>,
    max: Option<f64>,
    above: Option<f64>,
    multiple_of: Option<f64>,
) -> String {
    let steps = multiple_of.map_or_else(String::new, |step| format!(", in steps of {step}"));
    match (min, max, above) {
        (Some(min), Some(max), _) => format!("between {min} and {max}{steps}"),
        (Some(min), None, _) => format!("{min} or more{steps}"),
        (None, Some(max), _) => format!("{max} or less{steps}"),
        (None, None, Some(above)) => format!("more than {above}{steps}"),
        _ => format!("a number{steps}"),
    }
}

/// Returns `60` for `60s` and `120` for `2 minutes`: the field defines the unit, milliseconds if its name ends with `_ms`.
fn without_unit(text: &str, field: &str) -> Option<f64> {
    let written = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let number: f64 = written.parse().ok()?;
    let milliseconds = match text.get(written.len()..)?.trim().to_ascii_lowercase().as_str() {
        "ms" | "millis" | "milliseconds" => 1.0,
        "s" | "sec" | "secs" | "second" | "seconds" => 1000.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60_000.0,
        "h" | "hour" | "hours" => 3_600_000.0,
        _ => return None,
    };
    let unit = if field.ends_with("_ms") { 1.0 } else { 1000.0 };
    let converted = number * milliseconds / unit;
    (converted.fract() == 0.0).then_some(converted)
}

/// Returns `0.8` for `80%`.
fn share_of_percent(scalar: Scalar<'_>) -> Option<f64> {
    let number: f64 = scalar.text.trim().strip_suffix('%')?.trim().parse().ok()?;
    (!scalar.substituted && (0.0..=100.0).contains(&number)).then_some(number / 100.0)
}

/// Converts a text to the name that was probably meant.
pub(super) fn as_name(text: &str) -> Option<String> {
    let name: String = text
        .trim()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    let same = name.chars().zip(text.trim().chars());
    let is_near = same
        .filter(|(new, old)| new != old)
        .all(|(_, old)| " -.".contains(old));
    (is_near && !name.is_empty()).then_some(name)
}
