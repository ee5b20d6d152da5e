//! Reads JSON Schemas that an agent file references by path.

use std::{collections::HashMap, path::PathBuf};

use holodeck_model::{Code, Diagnostic, FileKind, Layer, MetricConfig, SchemaRef, StandardMetric};
use serde_json::Value;

use super::Loader;
use crate::yaml::{NodeId, Place};

impl Loader<'_> {
    /// Reads every schema that the agent references by a path.
    pub(super) fn read_schemas(&mut self, root: NodeId) {
        let mut references = Vec::new();
        if let Some(format) = self.tree.find(root, "response_format") {
            references.push(format);
        }
        let mut lists: Vec<NodeId> = self.tree.find(root, "evaluations.metrics").into_iter().collect();
        let cases = self
            .tree
            .find(root, "test_cases")
            .and_then(|cases| self.tree.items(cases))
            .unwrap_or_default();
        for case in cases {
            let turns = self
                .tree
                .find(*case, "turns")
                .and_then(|turns| self.tree.items(turns))
                .unwrap_or_default();
            for owner in std::iter::once(case).chain(turns) {
                lists.extend(self.tree.get(*owner, "evaluations").map(|entry| entry.value));
            }
        }
        let stops = cases
            .iter()
            .filter_map(|case| self.tree.find(*case, "user.stop_when"));
        let stops: Vec<NodeId> = stops.collect();
        for metric in lists
            .iter()
            .flat_map(|list| self.tree.items(*list).unwrap_or_default())
            .chain(&stops)
        {
            references.extend(self.tree.get(*metric, "schema").map(|entry| entry.value));
        }
        for node in references {
            self.read_schema(node);
        }
    }

    fn read_schema(&mut self, node: NodeId) {
        let place = self.tree.place(node);
        let Some(scalar) = self.tree.scalar(node) else {
            return;
        };
        let path = self.tree.dir(place).join(scalar.text);
        if scalar.text.trim().is_empty()
            || self.schemas.contains_key(&path)
            || self.files.kind(&path) != FileKind::File
        {
            return;
        }
        let Some(file) = self.read_text(&path, Layer::Agent, Some(place)) else {
            return;
        };
        let text = self.tree.file_text(file);
        let (at, reason) = match serde_json::from_str::<Value>(&text) {
            Ok(schema @ Value::Object(_)) => {
                self.schemas.insert(path, schema);
                return;
            }
            Ok(_) => (0, "a JSON Schema must be an object".to_owned()),
            Err(error) => {
                let reason = error.to_string();
                let reason = reason.split(" at line ").next().unwrap_or_default().to_owned();
                (
                    offset(&text, error.line(), error.column()),
                    format!("not JSON: {reason}"),
                )
            }
        };
        let at = u32::try_from(at).unwrap_or(0);
        let named_at = self.tree.location(place);
        let diagnostic = Diagnostic::error(Code::BadJson, reason).with_label(named_at, "named here");
        self.findings.add(
            &self.tree,
            Place {
                file,
                start: at,
                end: at + 1,
            },
            diagnostic,
        );
    }
}

/// The byte offset of a line and a column (in bytes), both counted from 1.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let start: usize = text
        .split_inclusive('\n')
        .take(line.saturating_sub(1))
        .map(str::len)
        .sum();
    let mut at = (start + column.saturating_sub(1)).min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Adds the schema that was read to its reference.
pub(super) fn fill(reference: &mut SchemaRef, schemas: &HashMap<PathBuf, Value>) {
    if let SchemaRef::File { path, schema } = reference {
        *schema = schemas.get(&path.path()).cloned();
    }
}

pub(super) fn fill_metric(metric: &mut MetricConfig, schemas: &HashMap<PathBuf, Value>) {
    if let MetricConfig::Standard(metric) = metric {
        fill_standard(metric, schemas);
    }
}

pub(super) fn fill_standard(metric: &mut StandardMetric, schemas: &HashMap<PathBuf, Value>) {
    if let Some(reference) = &mut metric.schema {
        fill(reference, schemas);
    }
}
