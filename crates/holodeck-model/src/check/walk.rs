//! The walk of a tree against the shapes: every unknown key, missing key, wrong type, value and range, each at its
//! node.

use super::{
    Findings,
    naming::{Path, shorten},
    suggest::closest,
};
use crate::{
    Code, Diagnostic,
    shape::{Field, Record, ShapeId, ShapeKind, Shapes, TextRule},
    yaml::{
        Core, Entry, Legacy, NodeId, Place, Scalar, Tree, implied_type, legacy_reading, lenient_bool,
        lenient_f64, lenient_int, resolve,
    },
};

/// Checks a value against the root of the shapes.
pub(crate) fn check_shape(tree: &Tree, shapes: &Shapes, root: NodeId, findings: &mut Findings) {
    let mut walk = Walk {
        tree,
        shapes,
        findings,
        path: Path::default(),
        through: Vec::new(),
    };
    walk.value(shapes.root, root, tree.place(root));
}

struct Walk<'a> {
    tree: &'a Tree,
    shapes: &'a Shapes,
    findings: &'a mut Findings,
    path: Path,
    /// The aliases and merge keys that led here.
    through: Vec<Place>,
}

impl Walk<'_> {
    /// Checks a value. `named_at` is where a person looks for it: its key, or the item itself.
    fn value(&mut self, shape: ShapeId, node: NodeId, named_at: Place) {
        let alias = self.tree.is_alias(node);
        if alias {
            self.through.push(self.tree.place(node));
        }
        self.resolved_value(shape, node, named_at);
        if alias {
            self.through.pop();
        }
    }

    fn resolved_value(&mut self, shape: ShapeId, node: NodeId, named_at: Place) {
        let shapes = self.shapes;
        let shape = shapes.get(shape);
        if self.tree.is_null(node) {
            if !shape.nullable {
                self.empty_value(&shape.kind, node, named_at);
            }
            return;
        }
        match &shape.kind {
            ShapeKind::Any => self.anything(node),
            ShapeKind::Either(alternatives) => {
                let fitting = alternatives
                    .iter()
                    .find(|id| self.is_of_kind(&shapes.get(**id).kind, node));
                match fitting {
                    Some(id) => self.resolved_value(*id, node, named_at),
                    None => self.wrong_type(&shape.kind, node),
                }
            }
            kind if !self.is_of_kind(kind, node) => self.wrong_type(kind, node),
            ShapeKind::Text(_)
            | ShapeKind::Bool
            | ShapeKind::Integer { .. }
            | ShapeKind::Number { .. }
            | ShapeKind::Choice(_) => self.scalar(&shape.kind, node),
            ShapeKind::List { items, min, max } => self.list(node, named_at, *items, *min, *max),
            ShapeKind::Record(record) => self.record(record, node, named_at, &[]),
            ShapeKind::Table { values, min } => self.table(node, named_at, *values, *min),
            ShapeKind::Tagged {
                variants,
                may_omit_type,
            } => self.tagged(variants, *may_omit_type, node, named_at),
        }
    }

    fn is_of_kind(&self, kind: &ShapeKind, node: NodeId) -> bool {
        match kind {
            ShapeKind::Any => true,
            ShapeKind::List { .. } => self.tree.items(node).is_some(),
            ShapeKind::Record(_) | ShapeKind::Table { .. } | ShapeKind::Tagged { .. } => {
                self.tree.entries(node).is_some()
            }
            ShapeKind::Either(alternatives) => alternatives
                .iter()
                .any(|id| self.is_of_kind(&self.shapes.get(*id).kind, node)),
            _ => self.tree.scalar(node).is_some(),
        }
    }

    fn scalar(&mut self, kind: &ShapeKind, node: NodeId) {
        let Some(scalar) = self.tree.scalar(node) else {
            return;
        };
        let text = scalar.text;
        match kind {
            ShapeKind::Text(rule) => self.text(rule.as_ref(), scalar, node),
            ShapeKind::Bool if lenient_bool(text).is_none() => self.wrong_type(kind, node),
            ShapeKind::Choice(choices) if !choices.iter().any(|choice| choice == text) => {
                self.unknown_choice(choices, scalar, node);
            }
            ShapeKind::Integer { min, max } => match lenient_int(text) {
                None => self.wrong_type(kind, node),
                Some(number) if number < *min || number > *max => {
                    let range = integer_range(*min, *max);
                    self.out_of_range(&range, node);
                }
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "only compared with what YAML 1.1 reads"
                )]
                Some(number) => self.warn_legacy_number(scalar, Some(number as f64), node),
            },
            ShapeKind::Number {
                min,
                max,
                above,
                multiple_of,
            } => match lenient_f64(text) {
                None => self.wrong_type(kind, node),
                Some(number) => {
                    let inside = min.is_none_or(|min| number >= min)
                        && max.is_none_or(|max| number <= max)
                        && above.is_none_or(|above| number > above)
                        && multiple_of.is_none_or(|step| (number / step).fract() == 0.0);
                    if inside {
                        self.warn_legacy_number(scalar, Some(number), node);
                    } else {
                        let range = number_range(*min, *max, *above, *multiple_of);
                        self.out_of_range(&range, node);
                    }
                }
            },
            _ => {}
        }
    }

    fn text(&mut self, rule: Option<&TextRule>, scalar: Scalar<'_>, node: NodeId) {
        if scalar.plain
            && let Core::Bool(value) = resolve(scalar.text)
        {
            let message = format!("{} must be a text, not {value}", self.name());
            let diagnostic = Diagnostic::error(Code::WrongType, message).with_help(format!(
                "put it in quotes if the text is meant: \"{}\"",
                scalar.text
            ));
            self.report(node, diagnostic);
            return;
        }
        match rule {
            Some(TextRule::NotBlank) if scalar.text.trim().is_empty() => self.blank(scalar, node),
            Some(TextRule::Form { pattern, words }) if !pattern.is_match(scalar.text) => {
                let message = format!("{} must be {words}{}", self.name(), not_this(scalar));
                self.report(node, Diagnostic::error(Code::BadFormat, message));
            }
            _ => self.warn_legacy_number(scalar, None, node),
        }
    }

    fn blank(&mut self, scalar: Scalar<'_>, node: NodeId) {
        let mut diagnostic = Diagnostic::error(Code::Blank, format!("{} must not be blank", self.name()));
        if scalar.substituted {
            diagnostic = diagnostic.with_help("the environment variable used here is set but empty");
        }
        self.report(node, diagnostic);
    }

    fn list(&mut self, node: NodeId, named_at: Place, items: ShapeId, min: usize, max: Option<usize>) {
        let nodes = self.tree.items(node).unwrap_or_default();
        if nodes.len() < min {
            let diagnostic = Diagnostic::error(Code::Blank, format!("{} must not be empty", self.name()));
            self.report_at(named_at, node, diagnostic);
        }
        if let Some(max) = max.filter(|max| nodes.len() > *max) {
            let message = format!(
                "{} may have {max} items at most, not {}",
                self.name(),
                nodes.len()
            );
            let extra = nodes.get(max).copied().unwrap_or(node);
            self.report_at(
                self.tree.place(extra),
                node,
                Diagnostic::error(Code::TooManyItems, message),
            );
        }
        for (index, item) in nodes.iter().enumerate() {
            self.path.push_index(index, *item);
            self.value(items, *item, self.tree.place(*item));
            self.path.pop();
        }
    }

    fn table(&mut self, node: NodeId, named_at: Place, values: ShapeId, min: usize) {
        let entries = self.tree.entries(node).unwrap_or_default();
        if entries.len() < min {
            let diagnostic = Diagnostic::error(Code::Blank, format!("{} must not be empty", self.name()));
            self.report_at(named_at, node, diagnostic);
        }
        for entry in entries {
            self.through.extend(entry.merged_at);
            self.entry(entry, values);
            if entry.merged_at.is_some() {
                self.through.pop();
            }
        }
    }

    fn entry(&mut self, entry: &Entry, shape: ShapeId) {
        self.path.push_key(self.tree.key(entry), entry.value);
        self.value(shape, entry.value, entry.key_place);
        self.path.pop();
    }

    fn record(&mut self, record: &Record, node: NodeId, named_at: Place, also_known: &[&str]) {
        let entries = self.tree.entries(node).unwrap_or_default();
        for entry in entries {
            let key = self.tree.key(entry);
            self.through.extend(entry.merged_at);
            if let Some(field) = record.fields.get(key) {
                self.warn_no_effect(key, field, entry);
                self.entry(entry, field.shape);
            } else if record.open {
                self.path.push_key(key, entry.value);
                self.anything(entry.value);
                self.path.pop();
            } else if !also_known.contains(&key) {
                self.unknown_field(record, node, entry);
            }
            if entry.merged_at.is_some() {
                self.through.pop();
            }
        }
        for (name, field) in &record.fields {
            let absent = !entries.iter().any(|entry| self.tree.key(entry) == name);
            if field.required && absent && !self.findings.is_meant(node, name) {
                self.missing_field(name, field, node, named_at);
            }
        }
    }

    fn tagged(&mut self, variants: &[(String, Record)], may_omit: bool, node: NodeId, named_at: Place) {
        let kinds = || variants.iter().map(|(kind, _)| kind.as_str());
        let tag = self.tree.get(node, "type").copied();
        let chosen = match tag.map(|entry| (entry, self.tree.scalar(entry.value))) {
            Some((entry, Some(scalar))) if !self.tree.is_null(entry.value) => {
                if !kinds().any(|kind| kind == scalar.text) {
                    let choices: Vec<String> = kinds().map(str::to_owned).collect();
                    self.path.push_key("type", entry.value);
                    self.unknown_choice(&choices, scalar, entry.value);
                    self.path.pop();
                    self.findings.spoil(node);
                }
                Some(scalar.text)
            }
            _ => {
                let implied = self.implied(variants, node);
                if !may_omit || implied.is_none() {
                    self.missing_type(&kinds().collect::<Vec<_>>(), implied, node, named_at);
                }
                implied
            }
        };
        if let Some((_, record)) = variants.iter().find(|(kind, _)| Some(kind.as_str()) == chosen) {
            self.record(record, node, named_at, &["type"]);
        }
    }

    /// The variant that a mapping without `type` must be, told by its keys.
    fn implied<'v>(&self, variants: &'v [(String, Record)], node: NodeId) -> Option<&'v str> {
        let has = |key: &str| self.tree.get(node, key).is_some();
        if let Some(kind) = implied_type("MetricConfig", has)
            && let Some((kind, _)) = variants.iter().find(|(name, _)| name == kind)
        {
            return Some(kind);
        }
        // Only one variant knows all the keys.
        let entries = self.tree.entries(node).unwrap_or_default();
        let mut fitting = variants.iter().filter(|(_, record)| {
            entries
                .iter()
                .all(|entry| record.fields.contains_key(self.tree.key(entry)))
        });
        match (fitting.next(), fitting.next()) {
            (Some((kind, _)), None) => Some(kind),
            _ => None,
        }
    }

    /// A value without a shape: JSON will do.
    fn anything(&mut self, node: NodeId) {
        if let Some(scalar) = self.tree.scalar(node) {
            if !scalar.plain {
                return;
            }
            if matches!(resolve(scalar.text), Core::Float(number) if !number.is_finite()) {
                let message = format!("{} is a number that JSON does not have", self.name());
                self.report(node, Diagnostic::error(Code::WrongType, message));
            } else if let Some(legacy) = legacy_reading(scalar.text) {
                let here = match resolve(scalar.text) {
                    Core::Int(number) => format!("the number {number}"),
                    Core::Float(number) => format!("the number {number}"),
                    _ => "a text".to_owned(),
                };
                self.warn_legacy(scalar, &legacy, &here, node);
            }
        } else if let Some(items) = self.tree.items(node) {
            for (index, item) in items.iter().enumerate() {
                self.path.push_index(index, *item);
                self.anything(*item);
                self.path.pop();
            }
        } else {
            for entry in self.tree.entries(node).unwrap_or_default() {
                self.path.push_key(self.tree.key(entry), entry.value);
                self.anything(entry.value);
                self.path.pop();
            }
        }
    }

    fn unknown_field(&mut self, record: &Record, node: NodeId, entry: &Entry) {
        let key = self.tree.key(entry);
        let message = format!(
            "unknown field `{}`{}",
            shorten(key),
            self.path.owner_suffix(self.tree)
        );
        let mut diagnostic =
            Diagnostic::error(Code::UnknownField, message).about(self.path.pointer(Some(key)));
        // A field that is there already was not meant.
        let absent = record
            .fields
            .keys()
            .map(String::as_str)
            .filter(|name| self.tree.get(node, name).is_none());
        if let Some(name) = closest(key, absent) {
            diagnostic = diagnostic.with_inline(format!("did you mean `{name}`?"));
            self.findings.mean(node, name);
        } else if let Some(home) = self.home_of(key) {
            diagnostic = diagnostic.with_help(format!("`{key}` belongs in `{home}`"));
        } else if record.fields.len() <= 12 {
            let names: Vec<String> = record.fields.keys().map(|name| format!("`{name}`")).collect();
            diagnostic = diagnostic.with_help(format!("the fields here are {}", listed(&names)));
        }
        self.report_at(entry.key_place, entry.value, diagnostic);
    }

    /// The block of the file that has this field, for a key that was written at the top.
    fn home_of(&self, key: &str) -> Option<String> {
        if !self.path.is_root() {
            return None;
        }
        let ShapeKind::Record(root) = &self.shapes.get(self.shapes.root).kind else {
            return None;
        };
        [
            "model",
            "execution",
            "evaluations",
            "instructions",
            "claude",
            "openai",
        ]
        .into_iter()
        .find_map(|block| {
            let shape = self.shapes.get(root.fields.get(block)?.shape);
            let record = match &shape.kind {
                ShapeKind::Record(record) => record,
                ShapeKind::Either(alternatives) => {
                    alternatives
                        .iter()
                        .find_map(|id| match &self.shapes.get(*id).kind {
                            ShapeKind::Record(record) => Some(record),
                            _ => None,
                        })?
                }
                _ => return None,
            };
            record.fields.contains_key(key).then(|| block.to_owned())
        })
    }

    fn missing_field(&mut self, name: &str, field: &Field, node: NodeId, named_at: Place) {
        let message = if self.path.is_root() {
            format!("missing field `{name}`")
        } else {
            format!("missing field `{name}`{}", self.path.owner_suffix(self.tree))
        };
        let diagnostic = Diagnostic::error(Code::MissingField, message)
            .about(self.path.pointer(Some(name)))
            .with_help(missing_help(name, &field.description));
        self.report_at(named_at, node, diagnostic);
    }

    fn missing_type(&mut self, kinds: &[&str], implied: Option<&str>, node: NodeId, named_at: Place) {
        let message = format!("{} does not say its `type`", self.path.describe(self.tree));
        let help = match implied {
            Some(kind) => format!("add `type: {kind}`"),
            None => format!("add `type:` with {}", alternatives(kinds)),
        };
        let diagnostic = Diagnostic::error(Code::MissingType, message)
            .about(self.path.pointer(Some("type")))
            .with_help(help);
        self.report_at(named_at, node, diagnostic);
    }

    fn empty_value(&mut self, kind: &ShapeKind, node: NodeId, named_at: Place) {
        let message = format!(
            "{} has no value, it must be {}",
            self.name(),
            self.expectation(kind)
        );
        let mut diagnostic = Diagnostic::error(Code::WrongType, message);
        if self.tree.scalar(node).is_some_and(|scalar| scalar.substituted) {
            diagnostic = diagnostic.with_help("the environment variable used here is set but empty");
        }
        self.report_at(named_at, node, diagnostic);
    }

    fn wrong_type(&mut self, kind: &ShapeKind, node: NodeId) {
        let found = match self.tree.scalar(node) {
            Some(scalar) if scalar.substituted => "what the environment variable holds".to_owned(),
            Some(scalar) => match (scalar.plain, resolve(scalar.text)) {
                (true, Core::Bool(value)) => value.to_string(),
                (true, Core::Int(_) | Core::Unsigned(_) | Core::Float(_)) => scalar.text.to_owned(),
                _ => format!("the text `{}`", shorten(scalar.text)),
            },
            None if self.tree.items(node).is_some() => "a list".to_owned(),
            None => "a mapping".to_owned(),
        };
        let message = format!("{} must be {}, not {found}", self.name(), self.expectation(kind));
        let mut diagnostic = Diagnostic::error(Code::WrongType, message);
        if let Some(scalar) = self.tree.scalar(node)
            && matches!(kind, ShapeKind::Integer { .. } | ShapeKind::Number { .. })
            && let Some(Legacy::Number(number)) = legacy_reading(scalar.text)
        {
            diagnostic =
                diagnostic.with_help(format!("only YAML 1.1 reads it as a number; write `{number}`"));
        } else if let ShapeKind::List { .. } = kind
            && self.tree.scalar(node).is_some()
        {
            diagnostic = diagnostic.with_help("write it as a list: `[...]`, or lines that begin with `- `");
        }
        self.report(node, diagnostic);
    }

    fn unknown_choice(&mut self, choices: &[String], scalar: Scalar<'_>, node: NodeId) {
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
                not_this(scalar)
            );
            Diagnostic::error(Code::UnknownValue, message)
        };
        if !scalar.substituted
            && let Some(name) = closest(scalar.text, names)
        {
            diagnostic = diagnostic.with_inline(format!("did you mean `{name}`?"));
        }
        self.report(node, diagnostic);
    }

    fn out_of_range(&mut self, range: &str, node: NodeId) {
        self.report(
            node,
            Diagnostic::error(Code::OutOfRange, format!("{} must be {range}", self.name())),
        );
    }

    fn warn_no_effect(&mut self, key: &str, field: &Field, entry: &Entry) {
        let Some(why) = &field.no_effect else { return };
        let message = format!("`{key}`{} has no effect", self.path.owner_suffix(self.tree));
        let diagnostic = Diagnostic::warning(Code::NoEffect, message)
            .about(self.path.pointer(Some(key)))
            .with_help(format!("remove it; {why}"));
        self.findings.add(self.tree, entry.key_place, diagnostic);
    }

    /// Warns of a number that YAML 1.1 reads otherwise; `read` is what the field makes of it.
    fn warn_legacy_number(&mut self, scalar: Scalar<'_>, read: Option<f64>, node: NodeId) {
        if !scalar.plain || scalar.substituted {
            return;
        }
        let Some(legacy @ Legacy::Number(_)) = legacy_reading(scalar.text) else {
            return;
        };
        let Legacy::Number(number) = &legacy else { return };
        if read.is_some() && lenient_f64(number) == read {
            let message = format!(
                "`{}` is a number in YAML 1.1 only; it is read as {number}",
                scalar.text
            );
            let help = format!("write `{number}`");
            self.warn_difference(message, &help, node);
        } else {
            // A text field keeps what was written.
            let here = read.map_or_else(|| "a text".to_owned(), |number| format!("the number {number}"));
            self.warn_legacy(scalar, &legacy, &here, node);
        }
    }

    fn warn_legacy(&mut self, scalar: Scalar<'_>, legacy: &Legacy, here: &str, node: NodeId) {
        if scalar.substituted {
            return;
        }
        let text = scalar.text;
        let (other, help) = match legacy {
            Legacy::Number(number) => (
                format!("the number {number}"),
                "put it in quotes if it is a text, else write plain digits".to_owned(),
            ),
            Legacy::Bool(value) => (
                value.to_string(),
                format!("put it in quotes if it is a text, else write `{value}`"),
            ),
            Legacy::Date => ("a date".to_owned(), "put it in quotes".to_owned()),
            Legacy::Text => (
                "a text".to_owned(),
                "put it in quotes if it is a text, else write plain digits".to_owned(),
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

    fn name(&self) -> String {
        if self.path.is_root() {
            "the file".to_owned()
        } else {
            self.path.describe_field(self.tree)
        }
    }

    fn expectation(&self, kind: &ShapeKind) -> String {
        match kind {
            ShapeKind::Any => "a value".to_owned(),
            ShapeKind::Text(_) => "a text".to_owned(),
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

    /// Reports a problem of a value, at the value.
    fn report(&mut self, node: NodeId, diagnostic: Diagnostic) {
        self.report_at(self.tree.place(node), node, diagnostic);
    }

    /// Reports a problem at a place; `spoiled` is the value it spoils.
    fn report_at(&mut self, place: Place, spoiled: NodeId, mut diagnostic: Diagnostic) {
        self.findings.spoil(spoiled);
        if diagnostic.pointer.is_none() {
            diagnostic = diagnostic.about(self.path.pointer(None));
        }
        // Both ends of an alias matter: where the value is written, and where it is used.
        if let Some(used) = self.through.last().copied() {
            if used == place {
                let defined = self.tree.place(self.tree.resolve(spoiled));
                diagnostic = diagnostic.with_label(self.tree.location(defined), "defined here");
            } else {
                diagnostic = diagnostic.with_label(self.tree.location(used), "used here");
            }
        }
        self.findings.add(self.tree, place, diagnostic);
    }
}

/// `, not `x`` unless the value came from the environment.
fn not_this(scalar: Scalar<'_>) -> String {
    if scalar.substituted {
        String::new()
    } else {
        format!(", not `{}`", shorten(scalar.text))
    }
}

/// What to add, with the field's own description.
pub(super) fn missing_help(name: &str, description: &str) -> String {
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
pub(super) fn listed(names: &[String]) -> String {
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}

fn integer_range(min: i128, max: i128) -> String {
    let huge = i128::from(i64::MAX).min(i128::from(u32::MAX));
    match (min, max) {
        (min, max) if max < huge => format!("between {min} and {max}"),
        (min, _) if min >= -huge => format!("{min} or more"),
        _ => "a smaller number".to_owned(),
    }
}

fn number_range(min: Option<f64>, max: Option<f64>, above: Option<f64>, multiple_of: Option<f64>) -> String {
    let steps = multiple_of.map_or_else(String::new, |step| format!(", in steps of {step}"));
    match (min, max, above) {
        (Some(min), Some(max), _) => format!("between {min} and {max}{steps}"),
        (Some(min), None, _) => format!("{min} or more{steps}"),
        (None, Some(max), _) => format!("{max} or less{steps}"),
        (None, None, Some(above)) => format!("more than {above}{steps}"),
        _ => format!("a number{steps}"),
    }
}
