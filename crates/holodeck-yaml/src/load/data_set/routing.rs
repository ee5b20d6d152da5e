//! Tasks with the specialist agent that should be selected for each, as YAML, CSV or JSON Lines.

use std::{path::Path, sync::LazyLock};

use holodeck_model::{Code, Diagnostic, Env, FileKind, Files, Layer, RoutingCase, Source};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{super::Loader, DataFormat, table::RowKind};
use crate::{
    check::check_shape,
    load::Load,
    schema::raw,
    shape::Shapes,
    yaml::{NodeId, Place, SourceFile, build},
};

static SHAPES: LazyLock<Shapes> = LazyLock::new(|| Shapes::kept(include_str!("../../shape/routing.json")));

/// The schema from which the shapes are made.
pub(crate) fn routing_schema() -> serde_json::Value {
    raw::<Vec<Row>>()
}

/// A task and the agent that should be selected for it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Row {
    /// The task.
    #[schemars(regex(pattern = r"\S"))]
    task: String,
    /// The agent; null if none should be selected.
    #[schemars(regex(pattern = r"\S"))]
    expected_agent: Option<String>,
    /// The name of the command.
    #[schemars(regex(pattern = r"\S"))]
    command: Option<String>,
}

/// Reads tasks with the agent expected for each. The problems are in the [`Load`], which has no agent; with an error, there
/// are no tasks.
pub fn load_routing_cases(path: &Path, files: &dyn Files) -> (Vec<RoutingCase>, Load) {
    let env = Env::default();
    let mut loader = Loader::new(&env, files);
    let cases = loader.routing_cases(path);
    for diagnostic in &mut loader.findings.diagnostics {
        // The reader of data sets names the field of test cases; here the file is an argument.
        if diagnostic.pointer.as_deref() == Some("test_cases_file") {
            diagnostic.pointer = None;
        }
        diagnostic.primary = diagnostic
            .primary
            .take()
            .filter(|primary| !primary.path.as_os_str().is_empty());
    }
    let load = loader.finish(None);
    (cases.filter(|_| !load.has_errors()).unwrap_or_default(), load)
}

impl Loader<'_> {
    fn routing_cases(&mut self, path: &Path) -> Option<Vec<RoutingCase>> {
        // What is wrong with the file as a whole has no place in it.
        let source = Source {
            path: Path::new("").into(),
            text: "".into(),
        };
        let nowhere = Place {
            file: self.tree.add_file(SourceFile::new(source, Layer::Cli)),
            start: 0,
            end: 0,
        };
        let report = |loader: &mut Self, code, message: String, help: &str| {
            let diagnostic = Diagnostic::error(code, message).with_help(help);
            loader.findings.add(&loader.tree, nowhere, diagnostic);
        };
        let shown = path.display();
        if self.files.kind(path) != FileKind::File {
            let message = format!("`{shown}` is not a file");
            report(
                self,
                Code::FileNotFound,
                message,
                "name a YAML, `.csv` or `.jsonl` file of tasks",
            );
            return None;
        }
        let format = DataFormat::of(path);
        let list = match format {
            Some(format @ (DataFormat::Csv | DataFormat::JsonLines)) => {
                let (file, rows) = self.read_rows(format, path, nowhere, RowKind::Routing)?;
                let place = Place {
                    file,
                    start: 0,
                    end: 0,
                };
                let list = self.tree.seq_node(place, &rows);
                self.tree.add_root(list);
                Some(list)
            }
            Some(_) => {
                let message = format!("`{shown}` has a format that is not supported");
                report(self, Code::BadFormat, message, "use YAML, `.csv` or `.jsonl`");
                return None;
            }
            None => {
                let file = self.read_text(path, Layer::Agent, None)?;
                let len = self.tree.file_text(file).len();
                let built = build(&mut self.tree, file, 0..len, None);
                let broken = !built.diagnostics.is_empty();
                self.findings.diagnostics.extend(built.diagnostics);
                if broken {
                    return None;
                }
                built.root
            }
        };
        let Some(list) = list.filter(|list| self.tree.items(*list).is_none_or(|items| !items.is_empty()))
        else {
            if self.findings.has_errors() {
                return None;
            }
            let message = format!("`{shown}` has no task");
            report(
                self,
                Code::EmptyFile,
                message,
                "a task has `task` and `expected_agent`",
            );
            return None;
        };
        check_shape(&self.tree, &SHAPES, list, &mut self.findings);
        if self.findings.has_errors() {
            return None;
        }
        let items = self.tree.items(list).unwrap_or_default().to_vec();
        let is_table = matches!(format, Some(DataFormat::Csv));
        items
            .into_iter()
            .map(|item| self.routing_case(item, is_table))
            .collect()
    }

    fn routing_case(&mut self, item: NodeId, is_table: bool) -> Option<RoutingCase> {
        // An empty cell is null, an absent key may be a mistake.
        if !is_table && self.tree.get(item, "expected_agent").is_none() {
            let diagnostic = Diagnostic::error(Code::MissingField, "missing field `expected_agent`")
                .with_help("write `expected_agent: null` if no agent should be selected");
            let at = self.tree.place(item);
            self.findings.add(&self.tree, at, diagnostic);
        }
        let row: Row = self.deserialize(item)?;
        Some(RoutingCase {
            task: row.task,
            expected_agent: row.expected_agent,
            command: row.command,
            location: Some(self.tree.location(self.tree.place(item))),
        })
    }
}
