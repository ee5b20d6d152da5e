//! `test_cases_file`.

use holodeck_model::{Code, Diagnostic, FileKind, Layer};

use super::{Loader, data_set::DataFormat};
use crate::yaml::{Entry, NodeId, Place, build};

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
