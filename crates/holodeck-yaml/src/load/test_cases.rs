//! Reads the cases of an agent, from the file itself or from a file of cases.

use holodeck_model::{Cases, Code, Diagnostic, FileKind, Layer, PlainCase, TextRange};

use super::{Loader, data_set::DataFormat};
use crate::yaml::{Entry, FileId, NodeId, Place, build};

/// The fields of a plain case.
const PLAIN: [&str; 3] = ["name", "input", "ground_truth"];

impl Loader<'_> {
    /// Adds the cases of the file as `test_cases`.
    pub(super) fn resolve_test_cases_file(&mut self, root: NodeId) -> NodeId {
        let Some(reference) = self.tree.get(root, "test_cases_file").copied() else {
            return root;
        };
        if let Some(own) = self.tree.get(root, "test_cases").copied() {
            let label = self.tree.location(own.key_place);
            let diagnostic = Diagnostic::error(
                Code::ConflictingFields,
                "`test_cases_file` and `test_cases` are mutually exclusive",
            )
            .about("test_cases_file")
            .with_label(label, "`test_cases` is here")
            .with_help("keep one of them");
            self.findings.add(&self.tree, reference.key_place, diagnostic);
            return root;
        }
        let place = self.tree.place(reference.value);
        let Some(text) = self
            .tree
            .scalar(reference.value)
            .map(|scalar| scalar.text.to_owned())
        else {
            return root;
        };
        let path = self.tree.dir(place).join(&text);
        if text.trim().is_empty() || self.files.kind(&path) != FileKind::File {
            return root;
        }
        if let Some(format) = DataFormat::of(&path) {
            let Some(cases) = self.read_data_set(format, &path, place) else {
                return root;
            };
            let entry = self.tree.entry("test_cases", reference.key_place, cases);
            return self.with_entry(root, entry);
        }
        let Some(file) = self.read_text(&path, Layer::Agent, Some(place)) else {
            return root;
        };
        let len = self.tree.file_text(file).len();
        let built = build(&mut self.tree, file, 0..len, Some(self.env));
        let clean = built.diagnostics.is_empty();
        self.findings.diagnostics.extend(built.diagnostics);
        let cases = match built.root {
            Some(node) => self.find_cases(node),
            None if clean => Some(self.tree.seq_node(
                Place {
                    file,
                    start: 0,
                    end: 0,
                },
                &[],
            )),
            None => None,
        };
        let Some(cases) = cases else { return root };
        let entry = self.tree.entry("test_cases", reference.key_place, cases);
        self.with_entry(root, entry)
    }

    /// The cases of a list that was checked.
    pub(super) fn read_cases(&mut self, list: NodeId) -> Option<Cases> {
        let items = self.tree.items(list).unwrap_or_default().to_vec();
        let file = items
            .first()
            .map(|item| self.tree.place(self.tree.resolve(*item)).file);
        let text = file.map(|file| self.tree.file_text(file));
        let mut cases = text.map(Cases::with_text).unwrap_or_default();
        cases.reserve(items.len());
        for (index, item) in items.into_iter().enumerate() {
            if let Some(case) = file.and_then(|file| self.plain_case(item, file, &mut cases)) {
                cases.push_plain(case);
            } else {
                let mut case = self.deserialize(item)?;
                self.render_templates(&mut case, index, item);
                cases.push(case);
            }
        }
        cases.shrink_to_fit();
        Some(cases)
    }

    /// A case with nothing but texts.
    fn plain_case(&self, case: NodeId, file: FileId, cases: &mut Cases) -> Option<PlainCase> {
        if let Some(row) = self.tree.row(case) {
            return (self.tree.place(case).file == file).then_some(row);
        }
        let entries = self.tree.entries(case)?;
        let is_text = |entry: &Entry| {
            let is_text = self.tree.scalar(entry.value).is_some() && !self.tree.is_null(entry.value);
            is_text && PLAIN.contains(&self.tree.key(entry))
        };
        if !entries.iter().all(is_text) {
            return None;
        }
        let mut text = |key| {
            let Some(entry) = self.tree.get(case, key) else {
                return Some(TextRange::ABSENT);
            };
            let range = self.tree.text_range(entry.value, file);
            range.or_else(|| cases.add_text(self.tree.scalar(entry.value)?.text))
        };
        Some(PlainCase {
            name: text("name")?,
            input: text("input").filter(|input| *input != TextRange::ABSENT)?,
            ground_truth: text("ground_truth")?,
        })
    }

    /// Returns the list itself, or the list under `test_cases`.
    fn find_cases(&mut self, node: NodeId) -> Option<NodeId> {
        if self.tree.items(node).is_some() {
            return Some(node);
        }
        let Some(cases) = self.tree.get(node, "test_cases").copied() else {
            let message = "a file of test cases must be a list, or a mapping with `test_cases`";
            let diagnostic = Diagnostic::error(Code::WrongType, message).about("test_cases_file");
            self.findings.add(&self.tree, self.tree.place(node), diagnostic);
            return None;
        };
        for entry in self.tree.entries(node).map(<[Entry]>::to_vec).unwrap_or_default() {
            let key = self.tree.key(&entry);
            if key != "test_cases" {
                let diagnostic = Diagnostic::warning(
                    Code::NoEffect,
                    format!("`{key}` has no effect in a file of test cases"),
                )
                .with_help("only `test_cases` is read");
                self.findings.add(&self.tree, entry.key_place, diagnostic);
            }
        }
        Some(cases.value)
    }
}
