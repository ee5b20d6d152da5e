//! Answers or conversations that people judged, as rows with the columns of [`LABEL_COLUMNS`].

use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use holodeck_model::{
    Cases, Code, Diagnostic, Env, Files, LabelledContent, LabelledItem, LabelledTurn, Layer, Source,
    TestCase, closest,
};

use super::{
    super::Loader,
    DataFormat,
    table::{LABEL_COLUMNS, RowKind},
};
use crate::{
    load::Load,
    yaml::{NodeId, Place, SourceFile, from_tree},
};

/// Reads the answers, or the conversations, that people judged from a table or from JSON Lines. What a row does not say
/// comes from its case among `cases`. The problems are in the [`Load`], which has no agent; with an error, there are no
/// items. All items are of one kind.
pub fn load_labels(path: &Path, cases: &Cases, env: &Env, files: &dyn Files) -> (Vec<LabelledItem>, Load) {
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
    let mut items: Vec<LabelledItem> = Vec::with_capacity(rows.len());
    for row in rows {
        let Some(item) = loader.label(row, cases, &names, &mut seen) else {
            continue;
        };
        if let Some(first) = items.first()
            && first.content.is_conversation() != item.content.is_conversation()
        {
            let message = "this file has answers (`response`) and conversations (`turns`)";
            let help = "a judge judges one of them: write the others to a file of their own";
            let diagnostic = Diagnostic::error(Code::InconsistentValues, message).with_help(help);
            let at = loader.tree.place(row);
            loader.findings.add(&loader.tree, at, diagnostic);
            break;
        }
        items.push(item);
    }
    if loader.findings.has_errors() {
        items.clear();
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
    (items, loader.finish(None))
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
        seen: &mut HashSet<(Option<String>, String)>,
    ) -> Option<LabelledItem> {
        let at = self.tree.place(row);
        let entries = self.tree.entries(row).unwrap_or_default().to_vec();
        for entry in &entries {
            let key = self.tree.key(entry).to_owned();
            if !LABEL_COLUMNS.contains(&key.as_str()) {
                let diagnostic = Diagnostic::error(Code::UnknownField, format!("unknown column `{key}`"));
                let columns: Vec<String> = LABEL_COLUMNS.iter().map(|name| format!("`{name}`")).collect();
                let help = format!("the columns of labels are {}", columns.join(", "));
                self.findings
                    .add(&self.tree, entry.key_place, diagnostic.with_help(help));
            }
        }
        let name = self.label_text(row, "case")?;
        let case = match &name {
            None => None,
            Some(name) => cases.get(self.find_case(row, name, names)?),
        };
        let case = case.as_deref();
        let content = self.label_content(row, case);
        let ground_truth = self.label_text(row, "ground_truth")?;
        let label = self.label_text(row, "passed")?;
        if label.is_none() {
            self.report_missing_label(at, "label", "write `true` or `false` in the column `passed`");
        }
        let (mut content, label) = (content?, label?);
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
        // All that people judged, as one text.
        let (what, identity) = match &content {
            LabelledContent::Answer { input, response } => {
                ("response", serde_json::to_string(&(input, response)))
            }
            LabelledContent::Conversation { goal, turns } => ("turns", serde_json::to_string(&(goal, turns))),
        };
        if !seen.insert((name.clone(), identity.unwrap_or_default())) {
            let kind = if content.is_conversation() {
                "conversation"
            } else {
                "answer"
            };
            let message = format!("this {kind} is labelled twice");
            let help = format!("delete one of the rows: each {kind} counts once");
            let diagnostic = Diagnostic::error(Code::DuplicateKey, message).with_help(help);
            let at = self.field_place(row, what);
            self.findings.add(&self.tree, at, diagnostic);
            return None;
        }
        let own_passages = self.label_passages(row)?;
        let ground_truth = ground_truth.or_else(|| case.and_then(|case| case.ground_truth.clone()));
        if let LabelledContent::Conversation { goal, .. } = &mut content {
            // As in a run: the goal of the user, else the expected answer.
            let of_user = || Some(case?.user.as_deref()?.goal.clone());
            *goal = goal.take().or_else(of_user).or_else(|| ground_truth.clone());
        }
        Some(LabelledItem {
            location: self.tree.location(at),
            case: name,
            content,
            ground_truth,
            retrieval_context: own_passages.or_else(|| case.and_then(|case| case.retrieval_context.clone())),
            passed,
        })
    }

    fn report_missing_label(&mut self, at: Place, what: &str, help: &str) {
        let diagnostic = Diagnostic::error(Code::MissingField, format!("this row has no {what}"));
        self.findings.add(&self.tree, at, diagnostic.with_help(help));
    }

    /// Reads the judged content: an answer or a conversation. `None` if the row has neither or both, which is reported.
    fn label_content(&mut self, row: NodeId, case: Option<&TestCase>) -> Option<LabelledContent> {
        let own_input = self.label_text(row, "input")?;
        let response = self.label_text(row, "response")?;
        let goal = self.label_text(row, "goal")?;
        let at = self.tree.place(row);
        if let Some(turns) = self.label_turns(row)? {
            let other = [("input", &own_input), ("response", &response)];
            if let Some((field, _)) = other.into_iter().find(|(_, text)| text.is_some()) {
                let message = format!("this row has `turns` and `{field}`");
                let help = "`turns` is a whole conversation with its questions and answers; an answer has `response`";
                let diagnostic = Diagnostic::error(Code::InconsistentValues, message).with_help(help);
                let at = self.field_place(row, field);
                self.findings.add(&self.tree, at, diagnostic);
                return None;
            }
            return Some(LabelledContent::Conversation { goal, turns });
        }
        if goal.is_some() {
            let message = "`goal` is what the user wants in a conversation, and this row has no `turns`";
            let at = self.field_place(row, "goal");
            self.findings.add(
                &self.tree,
                at,
                Diagnostic::error(Code::InconsistentValues, message),
            );
            return None;
        }
        let input = own_input.or_else(|| case.and_then(|case| case.input.clone()));
        if input.is_none() {
            let help = "name a case with an `input` in the column `case`, or write the question in `input`";
            self.report_missing_label(at, "`input`", help);
        }
        if response.is_none() {
            let help = "`response` is the answer that people judged; a conversation has `turns` instead";
            self.report_missing_label(at, "`response`", help);
        }
        Some(LabelledContent::Answer {
            input: input?,
            response: response?,
        })
    }

    /// The turns of a row, if it has any; the outer `None` if they cannot be read, which is reported.
    #[allow(clippy::option_option, reason = "the outer one is a reported problem")]
    fn label_turns(&mut self, row: NodeId) -> Option<Option<Vec<LabelledTurn>>> {
        let Some(entry) = self.tree.get(row, "turns").copied() else {
            return Some(None);
        };
        if self.tree.is_null(entry.value) {
            return Some(None);
        }
        let turns = match self.tree.items(entry.value) {
            None => Err("it is not a JSON list".to_owned()),
            Some([]) => Err("there is no turn".to_owned()),
            Some(_) => from_tree(&self.tree, entry.value).map_err(|error| error.message),
        };
        match turns {
            Ok(turns) => Some(Some(turns)),
            Err(problem) => {
                let message = format!("`turns` cannot be read: {problem}");
                let help = "write a JSON list, as in `[{\"user\": \"…\", \"agent\": \"…\", \"tools\": [{\"name\": \
                            \"…\", \"arguments\": {}, \"result\": \"…\"}]}]`";
                let at = self.tree.place(entry.value);
                let diagnostic = Diagnostic::error(Code::WrongType, message).with_help(help);
                self.findings.add(&self.tree, at, diagnostic);
                None
            }
        }
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
