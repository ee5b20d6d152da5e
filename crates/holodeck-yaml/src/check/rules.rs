//! Rules across fields. They check the tree, so that their problems are reported together with those of its shape, and
//! skip values that are already invalid.

mod approvals;
mod arguments;
mod backends;
mod claude_model;
mod evaluation;
mod matrix;
mod mocks;
mod model;
mod names;
mod operations;
mod patterns;
mod routing;
mod target;
mod test_cases;
mod tools;

use std::path::Path as FilePath;

use holodeck_model::{Code, Diagnostic, FileKind, Files, near_file};

use super::{Findings, foreign::only_example_line, naming::Path, walk::missing_help};
use crate::yaml::{Entry, NodeId, Place, Tree, lenient_bool, lenient_f64};

/// The next step for a regular expression that does not compile.
const HELP_FOR_PATTERNS: &str = "write `\\` before a character that is meant as it is, as in `\\(`";

/// Checks the merged agent tree.
pub(crate) fn check_agent_rules(tree: &Tree, root: NodeId, files: &dyn Files, findings: &mut Findings) {
    let mut rules = Rules {
        tree,
        files,
        findings,
    };
    let agent = rules.root(root);
    let provider = rules
        .child(&agent, "model")
        .and_then(|model| rules.text(&model, "provider"));
    target::check_target(&mut rules, &agent);
    model::check_agent_models(&mut rules, &agent);
    model::check_instructions(&mut rules, &agent);
    tools::check_tools(&mut rules, &agent, provider);
    tools::check_embeddings(&mut rules, &agent, provider);
    approvals::check_approvals(&mut rules, &agent, provider);
    evaluation::check_evaluations(&mut rules, &agent);
    test_cases::check_test_cases(&mut rules, &agent, provider);
    backends::check_backends(&mut rules, &agent, provider);
    if provider == Some("anthropic") {
        claude_model::check_claude_models(&mut rules, &agent);
    }
    operations::check_operations(&mut rules, &agent);
    routing::check_routing(&mut rules, &agent);
    matrix::check_matrix(&mut rules, &agent);
    model::note_sampling_defaults(&mut rules, &agent);
}

/// Checks a `config.yaml` by itself.
pub(crate) fn check_config_rules(tree: &Tree, root: NodeId, files: &dyn Files, findings: &mut Findings) {
    let mut rules = Rules {
        tree,
        files,
        findings,
    };
    let config = rules.root(root);
    if let Some(providers) = rules.child(&config, "providers") {
        for provider in rules.values(&providers) {
            model::check_model(&mut rules, &provider);
        }
    }
    for server in rules.list(&config, "mcp_servers") {
        tools::check_mcp(&mut rules, &server);
    }
    operations::check_operations(&mut rules, &config);
}

/// A value with its path.
#[derive(Clone, Debug)]
struct View {
    node: NodeId,
    path: Path,
    /// The place to report for the value: its key, or the item itself.
    named_at: Place,
}

struct Rules<'a> {
    tree: &'a Tree,
    files: &'a dyn Files,
    findings: &'a mut Findings,
}

impl<'a> Rules<'a> {
    fn root(&self, node: NodeId) -> View {
        View {
            node,
            path: Path::default(),
            named_at: self.tree.place(node),
        }
    }

    fn entry(&self, view: &View, key: &str) -> Option<&'a Entry> {
        self.tree
            .get(view.node, key)
            .filter(|entry| !self.tree.is_null(entry.value))
    }

    /// Whether a field is present, or was probably meant to be.
    fn has(&self, view: &View, key: &str) -> bool {
        self.entry(view, key).is_some() || self.findings.is_suggested(view.node, key)
    }

    /// The value of a field, if present.
    fn child(&self, view: &View, key: &str) -> Option<View> {
        let entry = self.entry(view, key)?;
        Some(View {
            node: entry.value,
            path: view.path.with_key(key, entry.value),
            named_at: entry.key_place,
        })
    }

    fn text(&self, view: &View, key: &str) -> Option<&'a str> {
        let entry = self.entry(view, key)?;
        if self.findings.is_invalid(entry.value) {
            return None;
        }
        self.tree.scalar(entry.value).map(|scalar| scalar.text)
    }

    fn number(&self, view: &View, key: &str) -> Option<f64> {
        self.text(view, key).and_then(lenient_f64)
    }

    fn flag(&self, view: &View, key: &str) -> Option<bool> {
        self.text(view, key).and_then(lenient_bool)
    }

    /// Whether a value contains an environment variable, whose value must not be shown or checked for spelling.
    fn is_substituted(&self, view: &View, key: &str) -> bool {
        self.entry(view, key)
            .and_then(|entry| self.tree.scalar(entry.value))
            .is_some_and(|scalar| scalar.substituted)
    }

    /// The items of a list; rows of a data set that need no check are left out.
    fn list(&self, view: &View, key: &str) -> Vec<View> {
        let Some(list) = self.child(view, key) else {
            return Vec::new();
        };
        let items = self.tree.items(list.node).unwrap_or_default();
        items
            .iter()
            .enumerate()
            .filter(|(_, item)| self.tree.row(**item).is_none())
            .map(|(index, item)| View {
                node: *item,
                path: list.path.with_index(index, *item),
                named_at: self.tree.place(*item),
            })
            .collect()
    }

    /// The values of a mapping.
    fn values(&self, view: &View) -> Vec<View> {
        let entries = self.tree.entries(view.node).unwrap_or_default();
        entries
            .iter()
            .map(|entry| View {
                node: entry.value,
                path: view.path.with_key(self.tree.key(entry), entry.value),
                named_at: entry.key_place,
            })
            .collect()
    }

    /// The strings of a value that is a string or a list of strings.
    fn texts(&self, view: &View, key: &str) -> Vec<(NodeId, &'a str)> {
        let Some(entry) = self.entry(view, key) else {
            return Vec::new();
        };
        let nodes: Vec<NodeId> = match self.tree.items(entry.value) {
            Some(items) => items.to_vec(),
            None => vec![entry.value],
        };
        nodes
            .into_iter()
            .filter(|node| !self.findings.is_invalid(*node))
            .filter_map(|node| Some((node, self.tree.scalar(node)?.text)))
            .collect()
    }

    /// The place of a field's value, or of the view itself if the field is absent.
    fn value_place(&self, view: &View, key: &str) -> Place {
        self.entry(view, key)
            .map_or(view.named_at, |entry| self.tree.place(entry.value))
    }

    /// The place of a field's key, or of the view itself if the field is absent.
    fn key_place(&self, view: &View, key: &str) -> Place {
        self.entry(view, key)
            .map_or(view.named_at, |entry| entry.key_place)
    }

    /// " of tool `x`", " in `model`".
    fn owner_suffix(&self, view: &View) -> String {
        view.path.owner_suffix(self.tree)
    }

    fn add(&mut self, place: Place, diagnostic: Diagnostic) {
        self.findings.add(self.tree, place, diagnostic);
    }

    /// Reports a field that is required in this case.
    fn report_missing(&mut self, view: &View, key: &str, why: &str, what: &str) {
        let message = format!("missing field `{key}`{}{why}", self.owner_suffix(view));
        // What an endpoint is depends on the mapping.
        let example = only_example_line(key).filter(|_| key != "endpoint");
        let diagnostic = Diagnostic::error(Code::MissingField, message)
            .about(view.path.pointer(Some(key)))
            .with_help(missing_help(example.unwrap_or(key), what));
        self.add(view.named_at, diagnostic);
        self.findings.mark_invalid(view.node);
    }

    /// Checks that exactly one of two fields is present.
    fn check_exactly_one(&mut self, view: &View, first: &str, second: &str) {
        match (self.has(view, first), self.has(view, second)) {
            (true, true) => self.report_conflict(view, first, second),
            (false, false) => {
                let message = format!("{} needs `{first}` or `{second}`", view.path.describe(self.tree));
                let diagnostic =
                    Diagnostic::error(Code::OneOfRequired, message).about(view.path.pointer(None));
                self.add(view.named_at, diagnostic);
            }
            _ => {}
        }
    }

    /// Reports two mutually exclusive fields.
    fn report_conflict(&mut self, view: &View, first: &str, second: &str) {
        let (Some(one), Some(other)) = (self.entry(view, first), self.entry(view, second)) else {
            return;
        };
        let message = format!(
            "`{second}` and `{first}`{} are mutually exclusive",
            self.owner_suffix(view)
        );
        let label = self.tree.location(one.key_place);
        let diagnostic = Diagnostic::error(Code::ConflictingFields, message)
            .about(view.path.pointer(Some(second)))
            .with_label(label, format!("`{first}` is here"))
            .with_help("keep one of them");
        self.add(other.key_place, diagnostic);
    }

    /// Warns of a field that has no effect here.
    fn warn_no_effect(&mut self, view: &View, key: &str, why: &str) {
        if self.entry(view, key).is_none() {
            return;
        }
        let message = format!("`{key}`{} has no effect", self.owner_suffix(view));
        let diagnostic = Diagnostic::warning(Code::NoEffect, message)
            .about(view.path.pointer(Some(key)))
            .with_help(format!("remove it; {why}"));
        self.add(self.key_place(view, key), diagnostic);
    }

    fn report_inconsistent(
        &mut self,
        view: &View,
        key: &str,
        message: impl Into<String>,
        help: Option<&str>,
    ) {
        let mut diagnostic =
            Diagnostic::error(Code::InconsistentValues, message).about(view.path.pointer(Some(key)));
        diagnostic.help = help.map(str::to_owned);
        self.add(self.value_place(view, key), diagnostic);
    }

    /// Checks that a file exists. `missing` creates the diagnostic if it does not.
    fn check_file(&mut self, view: &View, key: &str, missing: fn(Code, String) -> Diagnostic) {
        let Some(text) = self.text(view, key) else { return };
        let place = self.value_place(view, key);
        let path = self.tree.dir(place).join(text);
        let diagnostic = match self.files.kind(&path) {
            FileKind::File => return,
            FileKind::Directory => missing(
                Code::IsDirectory,
                format!("`{key}`{} is a directory, not a file", self.owner_suffix(view)),
            ),
            FileKind::Missing => {
                let diagnostic = missing(Code::FileNotFound, self.missing_file_message(view, key));
                self.with_near_file(diagnostic, view, key, &path)
            }
        };
        self.add(place, diagnostic.about(view.path.pointer(Some(key))));
    }

    /// Adds the next step for a file that is not there: the name of a similar one beside it, if there is one.
    fn with_near_file(
        &self,
        diagnostic: Diagnostic,
        view: &View,
        key: &str,
        missing: &FilePath,
    ) -> Diagnostic {
        let diagnostic = diagnostic.with_help("paths are relative to the file that names them");
        let written = self.text(view, key).filter(|_| !self.is_substituted(view, key));
        match written.zip(near_file(self.files, missing)) {
            Some((written, near)) => {
                let near = FilePath::new(written).with_file_name(near);
                diagnostic.with_inline(format!("did you mean `{}`?", near.display()))
            }
            None => diagnostic,
        }
    }

    /// "`file` of tool `x` names `a.py`, which does not exist".
    fn missing_file_message(&self, view: &View, key: &str) -> String {
        let shown = match self.text(view, key) {
            Some(text) if !self.is_substituted(view, key) => format!("`{text}`"),
            _ => "a file".to_owned(),
        };
        format!(
            "`{key}`{} names {shown}, which does not exist",
            self.owner_suffix(view)
        )
    }
}
