//! Answers that people judged, as rows with the columns of [`LABEL_COLUMNS`].

use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use holodeck_model::{Cases, Code, Diagnostic, Env, Files, LabelledAnswer, Layer, Source, closest};

use super::{super::Loader, DataFormat, table::RowKind};
use crate::{
    load::Load,
    yaml::{NodeId, Place, SourceFile},
};

/// The columns of labelled answers.
pub(super) const LABEL_COLUMNS: [&str; 6] = [
    "case",
    "input",
    "response",
    "ground_truth",
    "retrieval_context",
    "passed",
];

/// Reads the answers that people judged from a table or from JSON Lines. What a row does not say comes from its case
/// among `cases`. The problems are in the [`Load`], which has no agent; with an error, there are no answers.
pub fn load_labels(path: &Path, cases: &Cases, env: &Env, files: &dyn Files) -> (Vec<LabelledAnswer>, Load) {
    let mut loader = Loader::new(env, files);
    // What is wrong with the file as a whole has no place in it.
    let source = Source {
        path: Path::new("").into(),
        text: "".into(),
    };
    let file = loader.tree.add_file(SourceFile::new(source, Layer::Cli));
    let named_at = Place {
        file,
        start: 0,
        end: 0,
    };
    let format = DataFormat::of(path).unwrap_or(DataFormat::Unsupported);
    let rows = loader
        .read_rows(format, path, named_at, RowKind::Label)
        .map_or_else(Vec::new, |(_, rows)| rows);
    if rows.is_empty() && !loader.findings.has_errors() {
        let message = format!("`{}` has no labelled answer", path.display());
        let diagnostic = Diagnostic::error(Code::EmptyFile, message);
        loader.findings.add(&loader.tree, named_at, diagnostic);
    }
    let mut seen = HashSet::new();
    let names = unique_names(cases);
    let mut answers = Vec::with_capacity(rows.len());
    for row in rows {
        answers.extend(loader.label(row, cases, &names, &mut seen));
    }
    if loader.findings.has_errors() {
        answers.clear();
    }
    for diagnostic in &mut loader.findings.diagnostics {
        // The reader of data sets names the field of test cases; here the file is an argument.
        diagnostic.pointer = None;
        diagnostic.primary = diagnostic
            .primary
            .take()
            .filter(|primary| !primary.path.as_os_str().is_empty());
        if let Some(help) = &mut diagnostic.help
            && help.starts_with("use YAML, ")
        {
            *help = help.replace("use YAML, ", "use ");
        }
    }
    (answers, loader.finish(None))
}

/// The cases by name; `None` for a name that several have.
fn unique_names(cases: &Cases) -> HashMap<&str, Option<usize>> {
    let mut names = HashMap::new();
    for (index, name) in (0..cases.len()).filter_map(|index| Some((index, cases.name(index)?))) {
        names
            .entry(name)
            .and_modify(|found| *found = None)
            .or_insert(Some(index));
    }
    names
}

impl Loader<'_> {
    fn label(
        &mut self,
        row: NodeId,
        cases: &Cases,
        names: &HashMap<&str, Option<usize>>,
        seen: &mut HashSet<(Option<String>, String, String)>,
    ) -> Option<LabelledAnswer> {
        let at = self.tree.place(row);
        let entries = self.tree.entries(row).unwrap_or_default().to_vec();
        for entry in &entries {
            let key = self.tree.key(entry).to_owned();
            if !LABEL_COLUMNS.contains(&key.as_str()) {
                let diagnostic = Diagnostic::error(Code::UnknownField, format!("unknown column `{key}`"));
                let columns: Vec<String> = LABEL_COLUMNS.iter().map(|name| format!("`{name}`")).collect();
                let help = format!("the columns of labelled answers are {}", columns.join(", "));
                self.findings
                    .add(&self.tree, entry.key_place, diagnostic.with_help(help));
            }
        }
        let name = self.label_text(row, "case")?;
        let case = match &name {
            None => None,
            Some(name) => cases.get(self.find_case(row, name, names)?),
        };
        let input = self.label_text(row, "input")?;
        let input = input.or_else(|| case.as_ref().and_then(|case| case.input.clone()));
        let response = self.label_text(row, "response")?;
        let ground_truth = self.label_text(row, "ground_truth")?;
        let label = self.label_text(row, "passed")?;
        let mut missing = |what: &str, help: &str| {
            let diagnostic = Diagnostic::error(Code::MissingField, format!("this row has no {what}"));
            self.findings.add(&self.tree, at, diagnostic.with_help(help));
        };
        let (input, response, label) = match (input, response, label) {
            (Some(input), Some(response), Some(label)) => (input, response, label),
            (input, response, label) => {
                if input.is_none() {
                    missing(
                        "`input`",
                        "name a case with an `input` in the column `case`, or write the question in `input`",
                    );
                }
                if response.is_none() {
                    missing("`response`", "`response` is the answer that people judged");
                }
                if label.is_none() {
                    missing("label", "write `true` or `false` in the column `passed`");
                }
                return None;
            }
        };
        let passed = match label.trim().to_ascii_lowercase().as_str() {
            "true" | "yes" | "1" => true,
            "false" | "no" | "0" => false,
            _ => {
                let message = format!("`{label}` is not a label");
                let help = "`passed` is `true`, `yes` or `1`, or else `false`, `no` or `0`";
                let diagnostic = Diagnostic::error(Code::UnknownValue, message).with_help(help);
                let at = self.field_place(row, "passed");
                self.findings.add(&self.tree, at, diagnostic);
                return None;
            }
        };
        if !seen.insert((name.clone(), input.clone(), response.clone())) {
            let message = "this answer is labelled twice";
            let help = "delete one of the rows: each answer counts once";
            let diagnostic = Diagnostic::error(Code::DuplicateKey, message).with_help(help);
            let at = self.field_place(row, "response");
            self.findings.add(&self.tree, at, diagnostic);
            return None;
        }
        let own_passages = self.label_passages(row)?;
        Some(LabelledAnswer {
            location: self.tree.location(at),
            case: name,
            input,
            response,
            ground_truth: ground_truth.or_else(|| case.as_ref().and_then(|case| case.ground_truth.clone())),
            retrieval_context: own_passages
                .or_else(|| case.as_ref().and_then(|case| case.retrieval_context.clone())),
            passed,
        })
    }

    fn find_case(&mut self, row: NodeId, name: &str, names: &HashMap<&str, Option<usize>>) -> Option<usize> {
        let diagnostic = match names.get(name) {
            Some(Some(case)) => return Some(*case),
            Some(None) => Diagnostic::error(
                Code::InconsistentValues,
                format!("several cases have the name `{name}`"),
            )
            .with_help("give the cases different names, or write the question in `input` instead"),
            None => {
                let diagnostic =
                    Diagnostic::error(Code::UnknownValue, format!("the agent file has no case `{name}`"));
                match closest(name, names.keys().copied()) {
                    Some(other) => diagnostic.with_inline(format!("did you mean `{other}`?")),
                    None => diagnostic
                        .with_help("name a case of the agent file, or write the question in `input`"),
                }
            }
        };
        let at = self.field_place(row, "case");
        self.findings.add(&self.tree, at, diagnostic);
        None
    }

    fn field_place(&self, row: NodeId, name: &str) -> Place {
        let entry = self.tree.get(row, name);
        entry.map_or_else(|| self.tree.place(row), |entry| self.tree.place(entry.value))
    }

    /// The text of a field, if it has one; the outer `None` if it is no text, which is reported.
    #[allow(clippy::option_option, reason = "the outer one is a reported problem")]
    fn label_text(&mut self, row: NodeId, name: &str) -> Option<Option<String>> {
        let Some(entry) = self.tree.get(row, name).copied() else {
            return Some(None);
        };
        let Some(scalar) = self.tree.scalar(entry.value) else {
            let at = self.tree.place(entry.value);
            let diagnostic = Diagnostic::error(Code::WrongType, format!("`{name}` must be a text"));
            self.findings.add(&self.tree, at, diagnostic);
            return None;
        };
        let absent = scalar.text.trim().is_empty() || (scalar.plain && scalar.text == "null");
        Some((!absent).then(|| scalar.text.to_owned()))
    }

    /// The passages of a row, if it has any; the outer `None` if they are no texts, which is reported.
    #[allow(clippy::option_option, reason = "the outer one is a reported problem")]
    fn label_passages(&mut self, row: NodeId) -> Option<Option<Vec<String>>> {
        let Some(entry) = self.tree.get(row, "retrieval_context").copied() else {
            return Some(None);
        };
        let texts = match self.tree.items(entry.value) {
            Some(items) => items
                .iter()
                .map(|item| Some(self.tree.scalar(*item)?.text.to_owned()))
                .collect::<Option<Vec<String>>>(),
            None => self
                .tree
                .scalar(entry.value)
                .map(|scalar| vec![scalar.text.to_owned()]),
        };
        if texts.is_none() {
            let at = self.tree.place(entry.value);
            let message = "`retrieval_context` must be a text or a list of texts";
            self.findings
                .add(&self.tree, at, Diagnostic::error(Code::WrongType, message));
        }
        texts.map(Some)
    }
}
