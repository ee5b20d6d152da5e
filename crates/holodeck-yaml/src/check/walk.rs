//! Checks a tree against the shapes: every unknown key, missing key, wrong type, value and range, each at its node.

mod report;

use holodeck_model::{Code, Diagnostic};
pub(super) use report::missing_help;
use report::{actual_suffix, as_name, integer_range, number_range};

use super::{
    Findings,
    foreign::{shapes::arguments_of_schema, write},
    naming::Path,
};
use crate::{
    shape::{Record, ShapeId, ShapeKind, Shapes, TextRule},
    yaml::{
        Core, Entry, NodeId, Place, Scalar, Tree, implied_type, legacy_reading, lenient_bool, lenient_f64,
        lenient_int, resolve,
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
    walk.check_value(shapes.root, root, tree.place(root));
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
    /// Checks a value. `named_at` is the place to report for it: its key, or the item itself.
    fn check_value(&mut self, shape: ShapeId, node: NodeId, named_at: Place) {
        let alias = self.tree.is_alias(node);
        if alias {
            self.through.push(self.tree.place(node));
        }
        self.check_resolved_value(shape, node, named_at);
        if alias {
            self.through.pop();
        }
    }

    fn check_resolved_value(&mut self, shape: ShapeId, node: NodeId, named_at: Place) {
        let shapes = self.shapes;
        let shape = shapes.get(shape);
        if self.tree.is_incomplete(node) {
            self.findings.mark_invalid(node);
            return;
        }
        if self.tree.row(node).is_some() {
            return;
        }
        if self.tree.is_null(node) {
            if !shape.nullable {
                self.report_empty_value(&shape.kind, node, named_at);
            }
            return;
        }
        match &shape.kind {
            ShapeKind::Any => self.check_free_value(node),
            ShapeKind::Either(alternatives) => {
                let fitting = alternatives
                    .iter()
                    .find(|id| self.is_of_kind(&shapes.get(**id).kind, node));
                match fitting {
                    Some(id) => self.check_resolved_value(*id, node, named_at),
                    None => self.report_wrong_type(&shape.kind, node),
                }
            }
            kind if !self.is_of_kind(kind, node) => self.report_wrong_type(kind, node),
            ShapeKind::Text(_)
            | ShapeKind::Bool
            | ShapeKind::Integer { .. }
            | ShapeKind::Number { .. }
            | ShapeKind::Choice(_) => self.check_scalar(&shape.kind, node),
            ShapeKind::List { items, min, max } => self.check_list(node, named_at, *items, *min, *max),
            ShapeKind::Record(record) => self.check_record(record, node, named_at, &[]),
            ShapeKind::Table { values, min } => self.check_table(node, named_at, *values, *min),
            ShapeKind::Tagged {
                variants,
                may_omit_type,
            } => self.check_tagged(variants, *may_omit_type, node, named_at),
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

    fn check_scalar(&mut self, kind: &ShapeKind, node: NodeId) {
        let Some(scalar) = self.tree.scalar(node) else {
            return;
        };
        let text = scalar.text;
        match kind {
            ShapeKind::Text(rule) => self.check_text(rule.as_ref(), scalar, node),
            ShapeKind::Bool if lenient_bool(text).is_none() => self.report_wrong_type(kind, node),
            ShapeKind::Choice(choices) if !choices.iter().any(|choice| choice == text) => {
                self.report_unknown_choice(choices, scalar, node);
            }
            ShapeKind::Integer { min, max } => match lenient_int(text) {
                None => self.report_wrong_type(kind, node),
                Some(number) if number < *min || number > *max => {
                    let range = integer_range(*min, *max);
                    self.report_out_of_range(&range, node);
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
                None => self.report_wrong_type(kind, node),
                Some(number) => {
                    let inside = min.is_none_or(|min| number >= min)
                        && max.is_none_or(|max| number <= max)
                        && above.is_none_or(|above| number > above)
                        && multiple_of.is_none_or(|step| (number / step).fract() == 0.0);
                    if inside {
                        self.warn_legacy_number(scalar, Some(number), node);
                    } else {
                        let range = number_range(*min, *max, *above, *multiple_of);
                        self.report_out_of_range(&range, node);
                    }
                }
            },
            _ => {}
        }
    }

    fn check_text(&mut self, rule: Option<&TextRule>, scalar: Scalar<'_>, node: NodeId) {
        if scalar.plain
            && let Core::Bool(_) = resolve(scalar.text)
        {
            let message = format!("{} must be a string, found a boolean", self.name());
            let diagnostic = Diagnostic::error(Code::WrongType, message)
                .with_help(format!("put it in quotes if it is a string: \"{}\"", scalar.text));
            self.report(node, diagnostic);
            return;
        }
        match rule {
            Some(TextRule::NotBlank) if scalar.text.trim().is_empty() => self.report_blank(scalar, node),
            Some(TextRule::Form { pattern, words }) if !pattern.is_match(scalar.text) => {
                let message = format!("{} must be {words}{}", self.name(), actual_suffix(scalar));
                let mut diagnostic = Diagnostic::error(Code::BadFormat, message);
                if !scalar.substituted
                    && let Some(name) = as_name(scalar.text).filter(|name| pattern.is_match(name))
                {
                    diagnostic = diagnostic.with_inline(format!("write `{name}`"));
                } else if let Some(line) = self.known_form(node) {
                    diagnostic = diagnostic.with_help(write(&line));
                }
                self.report(node, diagnostic);
            }
            _ => self.warn_legacy_number(scalar, None, node),
        }
    }

    fn report_blank(&mut self, scalar: Scalar<'_>, node: NodeId) {
        let mut diagnostic = Diagnostic::error(Code::Blank, format!("{} must not be blank", self.name()));
        if scalar.substituted {
            diagnostic = diagnostic.with_help("the environment variable used here is set but empty");
        }
        self.report(node, diagnostic);
    }

    fn check_list(&mut self, node: NodeId, named_at: Place, items: ShapeId, min: usize, max: Option<usize>) {
        let nodes = self.tree.items(node).unwrap_or_default();
        if nodes.len() < min {
            let diagnostic = Diagnostic::error(Code::Blank, format!("{} must not be empty", self.name()));
            self.report_at(named_at, node, diagnostic);
        }
        if let Some(max) = max.filter(|max| nodes.len() > *max) {
            let message = format!(
                "{} must have at most {max} items, found {}",
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
            self.check_value(items, *item, self.tree.place(*item));
            self.path.pop();
        }
    }

    fn check_table(&mut self, node: NodeId, named_at: Place, values: ShapeId, min: usize) {
        if self.path.pointer(None).ends_with(".parameters")
            && let Some(arguments) = arguments_of_schema(self.tree, node)
        {
            let message = format!(
                "{} must be the arguments by name, found a JSON Schema",
                self.name()
            );
            let diagnostic = Diagnostic::error(Code::WrongType, message).with_help(format!(
                "write the arguments themselves, without `type` and `properties` around them: `parameters: {arguments}`"
            ));
            self.report_at(named_at, node, diagnostic);
            return;
        }
        let entries = self.tree.entries(node).unwrap_or_default();
        if entries.len() < min {
            let diagnostic = Diagnostic::error(Code::Blank, format!("{} must not be empty", self.name()));
            self.report_at(named_at, node, diagnostic);
        }
        for entry in entries {
            let merged_at = self.tree.merged_at(entry);
            self.through.extend(merged_at);
            self.check_entry(entry, values);
            if merged_at.is_some() {
                self.through.pop();
            }
        }
    }

    fn check_entry(&mut self, entry: &Entry, shape: ShapeId) {
        self.path.push_key(self.tree.key(entry), entry.value);
        self.check_value(shape, entry.value, entry.key_place);
        self.path.pop();
    }

    fn check_record(&mut self, record: &Record, node: NodeId, named_at: Place, also_known: &[&str]) {
        let entries = self.tree.entries(node).unwrap_or_default();
        for entry in entries {
            let key = self.tree.key(entry);
            let merged_at = self.tree.merged_at(entry);
            self.through.extend(merged_at);
            if let Some(field) = record.fields.get(key) {
                self.warn_no_effect(key, field, entry);
                self.check_entry(entry, field.shape);
            } else if record.open {
                self.path.push_key(key, entry.value);
                self.check_free_value(entry.value);
                self.path.pop();
            } else if !also_known.contains(&key) {
                self.report_unknown_field(record, node, entry);
            }
            if merged_at.is_some() {
                self.through.pop();
            }
        }
        for (name, field) in &record.fields {
            let absent = !entries.iter().any(|entry| self.tree.key(entry) == name);
            if field.required && absent && !self.findings.is_suggested(node, name) {
                self.report_missing_field(record, (name, field), node, named_at);
            }
        }
    }

    fn check_tagged(&mut self, variants: &[(String, Record)], may_omit: bool, node: NodeId, named_at: Place) {
        let kinds = || variants.iter().map(|(kind, _)| kind.as_str());
        if kinds().any(|kind| kind == "function")
            && let Some(function) = self.tree.get(node, "function")
            && self.tree.entries(function.value).is_some()
        {
            // What the other fields lack is in it.
            self.check_foreign_function(node, function);
            return;
        }
        let tag = self.tree.get(node, "type").copied();
        let chosen = match tag.map(|entry| (entry, self.tree.scalar(entry.value))) {
            Some((entry, Some(scalar))) if !self.tree.is_null(entry.value) => {
                if !kinds().any(|kind| kind == scalar.text) {
                    let choices: Vec<String> = kinds().map(str::to_owned).collect();
                    self.path.push_key("type", entry.value);
                    self.report_unknown_choice(&choices, scalar, entry.value);
                    self.path.pop();
                    self.findings.mark_invalid(node);
                }
                Some(scalar.text)
            }
            _ => {
                let implied = self.implied_variant(variants, node);
                if !may_omit || implied.is_none() {
                    self.report_missing_type(&kinds().collect::<Vec<_>>(), implied, node, named_at);
                }
                implied
            }
        };
        if let Some((_, record)) = variants.iter().find(|(kind, _)| Some(kind.as_str()) == chosen) {
            self.check_record(record, node, named_at, &["type"]);
        }
    }

    /// Reports a tool in OpenAI's form.
    fn check_foreign_function(&mut self, node: NodeId, function: &Entry) {
        self.path.push_key("function", function.value);
        let message = format!("{} must be a string, found a mapping", self.name());
        let line = self.known_form(function.value).unwrap_or_default();
        self.path.pop();
        let diagnostic = Diagnostic::error(Code::WrongType, message).with_help(write(&line));
        self.report_at(function.key_place, function.value, diagnostic);
        self.findings.mark_invalid(node);
    }

    /// The variant of a mapping without `type`, derived from its keys.
    fn implied_variant<'v>(&self, variants: &'v [(String, Record)], node: NodeId) -> Option<&'v str> {
        let has = |key: &str| self.tree.get(node, key).is_some();
        if let Some(kind) = implied_type("MetricConfig", has)
            && let Some((kind, _)) = variants.iter().find(|(name, _)| name == kind)
        {
            return Some(kind);
        }
        // Exactly one variant may have all the keys.
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

    /// Checks a value without a shape, which must be valid as JSON.
    fn check_free_value(&mut self, node: NodeId) {
        if let Some(scalar) = self.tree.scalar(node) {
            if !scalar.plain {
                return;
            }
            if matches!(resolve(scalar.text), Core::Float(number) if !number.is_finite()) {
                let message = format!("{} is a number that JSON cannot represent", self.name());
                self.report(node, Diagnostic::error(Code::WrongType, message));
            } else if let Some(legacy) = legacy_reading(scalar.text) {
                let here = match resolve(scalar.text) {
                    Core::Int(number) => format!("the number {number}"),
                    Core::Float(number) => format!("the number {number}"),
                    _ => "a string".to_owned(),
                };
                self.warn_legacy(scalar, &legacy, &here, node);
            }
        } else if let Some(items) = self.tree.items(node) {
            for (index, item) in items.iter().enumerate() {
                self.path.push_index(index, *item);
                self.check_free_value(*item);
                self.path.pop();
            }
        } else {
            for entry in self.tree.entries(node).unwrap_or_default() {
                self.path.push_key(self.tree.key(entry), entry.value);
                self.check_free_value(entry.value);
                self.path.pop();
            }
        }
    }
}
