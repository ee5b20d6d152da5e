//! Rows of cells as test cases: the first row names the fields.

use std::path::Path;

use holodeck_model::{AnswerRow, Code, Diagnostic, PlainCase, TextRange, closest};

use super::{super::Loader, json_node::read_json, plain::is_plain};
use crate::{
    check::foreign_field,
    schema,
    shape::{Record, ShapeId, ShapeKind},
    yaml::{Entry, FileId, NodeId, Place, Text},
};

/// The columns of labelled answers.
pub(super) const LABEL_COLUMNS: [&str; 8] = [
    "case",
    "input",
    "response",
    "turns",
    "goal",
    "ground_truth",
    "retrieval_context",
    "passed",
];

/// The columns of tasks.
const ROUTING_COLUMNS: [&str; 3] = ["task", "expected_agent", "command"];

/// A cell of a table: its bytes in the file, and its text if that is not the same.
pub(crate) struct Cell {
    pub(crate) start: u32,
    pub(super) end: u32,
    pub(super) owned: Option<Box<str>>,
}

impl Cell {
    /// The text of the cell in this file.
    pub(crate) fn text<'c>(&'c self, file: &'c str) -> &'c str {
        let written = || {
            file.get(self.start as usize..self.end as usize)
                .unwrap_or_default()
        };
        self.owned.as_deref().unwrap_or_else(written)
    }
}

/// The meaning of a cell's text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// The text itself.
    Text,
    /// Names, separated by `;`, or a JSON list.
    Names,
    /// Paths and URLs, separated by `;`, or a JSON list.
    Files,
    /// A JSON list, or one text.
    Texts,
    /// A JSON list or object, or a scalar as in YAML.
    Value,
    /// Nothing: the column is already reported.
    Unusable,
    /// Nothing, as the column has no name.
    Nameless,
}

struct Column {
    name: String,
    meaning: Meaning,
    place: Place,
}

/// The meaning of the rows of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowKind {
    TestCase,
    /// An answer or a conversation that people judged.
    Label,
    /// An answer that exists.
    Answer,
    /// A task and the specialist agent that should be selected for it.
    Routing,
}

/// Collects the rows of a table.
pub(super) struct Table {
    file: FileId,
    /// Whether every row must have as many cells as the first.
    rectangular: bool,
    kind: RowKind,
    columns: Option<Vec<Column>>,
    cases: Vec<NodeId>,
}

impl Table {
    pub(super) fn new(file: FileId, rectangular: bool, kind: RowKind) -> Self {
        Self {
            file,
            rectangular,
            kind,
            columns: None,
            cases: Vec::new(),
        }
    }

    /// The test cases, unless there was no row at all, which is reported.
    pub(super) fn finish(self, loader: &mut Loader<'_>) -> Option<Vec<NodeId>> {
        if self.columns.is_none() {
            let help = match self.kind {
                RowKind::TestCase => "the first row must name the fields: `input`, `ground_truth`, …",
                RowKind::Label => "the first row must name the columns: `case`, `response`, `passed`, …",
                RowKind::Answer => "the first row must name the columns: `input`, `text`, …",
                RowKind::Routing => "the first row must name the columns: `task`, `expected_agent`, …",
            };
            let diagnostic = Diagnostic::error(Code::EmptyFile, "the table is empty")
                .about("test_cases_file")
                .with_help(help);
            loader.report_data(self.file, 0, 0, diagnostic);
        }
        self.columns.map(|_| self.cases)
    }

    /// Whether the row that names the columns was read.
    pub(super) fn has_header(&self) -> bool {
        self.columns.is_some()
    }

    /// Adds a row; absent if the first row cannot be used, which is reported. A row of blank cells is no row.
    pub(super) fn add_row(&mut self, loader: &mut Loader<'_>, mut cells: Vec<Cell>) -> Option<()> {
        let text = loader.tree.file_text(self.file);
        let Some(last) = cells.iter().rposition(|cell| !is_blank(&text, cell)) else {
            return Some(());
        };
        // Blank cells after the last column are how spreadsheets pad rows.
        let width = self.columns.as_ref().map_or(0, Vec::len);
        cells.truncate(width.max(last + 1));
        let Some(columns) = &self.columns else {
            self.columns = Some(read_header(loader, self.file, cells, self.kind)?);
            return Some(());
        };
        let (width, count) = (columns.len(), cells.len());
        if count > width || (self.rectangular && count < width) {
            let at = cells.get(width).or(cells.last());
            let (start, end) = at.map_or((0, 0), |cell| (cell.start, cell.end));
            let many = if count > width { "too many" } else { "too few" };
            let message = format!("{many} cells: this row has {count}, the first row has {width}");
            let help = if self.rectangular {
                "a cell with a comma or a line end in it needs quotes: `\"a, b\"`"
            } else {
                "name the field of this column in the first row"
            };
            let diagnostic = Diagnostic::error(Code::BadFormat, message)
                .about("test_cases_file")
                .with_help(help);
            loader.report_data(self.file, start, end, diagnostic);
            return Some(());
        }
        let row = Place {
            file: self.file,
            start: cells.first().map_or(0, |cell| cell.start),
            end: cells.last().map_or(0, |cell| cell.end),
        };
        if self.kind == RowKind::TestCase
            && let Some(case) = plain_row(&loader.tree.file_text(self.file), columns, &cells)
        {
            self.cases.push(loader.tree.row_node(row, case));
            return Some(());
        }
        let mut entries = Vec::with_capacity(width);
        let mut vars = Vec::new();
        for (column, cell) in columns.iter().zip(cells) {
            let entry = read_cell(loader, column, self.file, cell);
            match variable_of(&column.name).filter(|_| self.kind == RowKind::TestCase) {
                None => entries.extend(entry),
                Some(name) => {
                    // An empty cell is an empty text, and not a missing variable.
                    let value = entry.map(|entry| entry.value);
                    let value = value.unwrap_or_else(|| quoted(loader, row, ""));
                    vars.push(loader.tree.entry(name, column.place, value));
                }
            }
        }
        if !vars.is_empty() {
            let vars = loader.tree.map_node(row, &vars);
            entries.push(loader.tree.entry("vars", row, vars));
        }
        let case = loader.tree.map_node(row, &entries);
        self.cases.push(case);
        Some(())
    }
}

/// The case of a row, if it is plain.
fn plain_row(text: &str, columns: &[Column], cells: &[Cell]) -> Option<PlainCase> {
    let (mut name, mut input, mut ground_truth) = (TextRange::ABSENT, None, TextRange::ABSENT);
    for (column, cell) in columns.iter().zip(cells) {
        if cell.owned.is_some() {
            return None;
        }
        let range = TextRange::new(cell.start..cell.end);
        let content = range.of(text)?;
        if content.trim().is_empty() {
            continue;
        }
        if !is_plain(content) || matches!(column.meaning, Meaning::Unusable | Meaning::Nameless) {
            return None;
        }
        match column.name.as_str() {
            "name" => name = range,
            "input" => input = Some(range),
            "ground_truth" => ground_truth = range,
            _ => return None,
        }
    }
    Some(PlainCase {
        name,
        input: input?,
        ground_truth,
    })
}

fn is_blank(text: &str, cell: &Cell) -> bool {
    let content = match &cell.owned {
        Some(owned) => Some(&**owned),
        None => text.get(cell.start as usize..cell.end as usize),
    };
    content.is_none_or(|content| content.trim().is_empty())
}

fn cell_text(loader: &Loader<'_>, file: FileId, cell: &Cell) -> String {
    match &cell.owned {
        Some(text) => text.to_string(),
        None => loader
            .tree
            .file_text(file)
            .get(cell.start as usize..cell.end as usize)
            .unwrap_or_default()
            .to_owned(),
    }
}

/// The columns, if every one is the name of a field.
fn read_header(
    loader: &mut Loader<'_>,
    file: FileId,
    cells: Vec<Cell>,
    kind: RowKind,
) -> Option<Vec<Column>> {
    let fields = case_fields()?;
    let known: Vec<&str> = match kind {
        RowKind::TestCase => fields.fields.keys().map(String::as_str).collect(),
        RowKind::Label => LABEL_COLUMNS.to_vec(),
        RowKind::Answer => {
            let own = fields.fields.keys().map(String::as_str);
            own.chain(AnswerRow::COLUMNS).collect()
        }
        RowKind::Routing => ROUTING_COLUMNS.to_vec(),
    };
    let mut columns: Vec<Column> = Vec::with_capacity(cells.len());
    let mut correct = true;
    let alone = cells.len() == 1;
    let first = cells.first().map_or((0, 0), |cell| (cell.start, cell.end));
    for cell in cells {
        let name = cell_text(loader, file, &cell).trim().to_owned();
        let place = Place {
            file,
            start: cell.start,
            end: cell.end,
        };
        let is_repeated = |other: &Column| {
            other.name == name
                || name == "vars" && variable_of(&other.name).is_some()
                || other.name == "vars" && variable_of(&name).is_some()
        };
        let problem = if name.is_empty() {
            None
        } else if columns
            .iter()
            .any(|column| column.name != name && is_repeated(column))
        {
            Some(Diagnostic::error(
                Code::ConflictingFields,
                "`vars` and a column for one of them are mutually exclusive",
            ))
        } else if columns.iter().any(|column| column.name == name) {
            Some(Diagnostic::error(
                Code::DuplicateKey,
                format!("column `{name}` appears twice"),
            ))
        } else if !known.contains(&name.as_str())
            && (kind != RowKind::TestCase || variable_of(&name).is_none())
        {
            let is_taken = |ours: &str| columns.iter().any(|column| column.name == ours);
            match foreign_field(&name, fields, is_taken)
                .filter(|field| kind == RowKind::TestCase && !is_taken(field.ours))
            {
                Some(field) => Some(
                    Diagnostic::error(Code::UnknownField, format!("unknown column `{name}`"))
                        .with_inline(format!("here it is `{}`", field.ours)),
                ),
                None => Some(unknown_column(&name, alone, &known, kind)),
            }
        } else {
            None
        };
        let meaning = if problem.is_some() {
            Meaning::Unusable
        } else if name.is_empty() {
            Meaning::Nameless
        } else if kind == RowKind::Label && !["retrieval_context", "turns"].contains(&name.as_str())
            || kind == RowKind::Routing
            || kind == RowKind::Answer && is_text_of_answer(&name)
        {
            Meaning::Text
        } else {
            meaning_of(fields, &name)
        };
        if let Some(diagnostic) = problem {
            correct = false;
            loader
                .findings
                .add(&loader.tree, place, diagnostic.about("test_cases_file"));
        }
        columns.push(Column { name, meaning, place });
    }
    let asks = |column: &Column| ["input", "turns", "user"].contains(&column.name.as_str());
    if kind != RowKind::TestCase {
        // What a row lacks is reported for each row.
        return correct.then_some(columns);
    }
    if correct && !columns.iter().any(asks) {
        let diagnostic = Diagnostic::error(Code::MissingField, "there is no column `input`")
            .about("test_cases_file")
            .with_help("the first row must name the fields; `input` is the question");
        loader.report_data(file, first.0, first.1, diagnostic);
        correct = false;
    }
    // The cells of columns with wrong names are still checked where they can be, so that one load reports all.
    (correct || columns.iter().any(asks)).then_some(columns)
}

fn unknown_column(name: &str, alone: bool, known: &[&str], kind: RowKind) -> Diagnostic {
    let diagnostic = Diagnostic::error(Code::UnknownField, format!("unknown column `{name}`"));
    let separator = [(';', "`;`"), ('\t', "tabs")]
        .into_iter()
        .find(|(separator, _)| alone && name.contains(*separator));
    if let Some((_, shown)) = separator {
        return diagnostic.with_help(format!(
            "the columns are separated by {shown}; save the file with commas, as `name,input,ground_truth`"
        ));
    }
    if let Some(field) = closest(name, known.iter().copied()) {
        return diagnostic.with_inline(format!("did you mean `{field}`?"));
    }
    let names: Vec<String> = known.iter().map(|field| format!("`{field}`")).collect();
    let owner = match kind {
        RowKind::TestCase => "fields of a test case",
        RowKind::Label => "columns of labels",
        RowKind::Answer => "columns of answers",
        RowKind::Routing => "columns of tasks",
    };
    diagnostic.with_help(format!("the {owner} are {}", names.join(", ")))
}

/// Whether a column of answers is a text whatever it looks like; the others may be JSON.
fn is_text_of_answer(name: &str) -> bool {
    AnswerRow::TEXTS.contains(&name) || ["name", "input", "finish_reason", "error", "session"].contains(&name)
}

/// Whether a test case has a field of this name.
pub(super) fn is_case_field(name: &str) -> bool {
    case_fields().is_some_and(|fields| fields.fields.contains_key(name))
}

/// The fields of a test case, as the schema has them.
fn case_fields() -> Option<&'static Record> {
    let shapes = &*schema::AGENT;
    let ShapeKind::Record(agent) = &shapes.get(shapes.root).kind else {
        return None;
    };
    let ShapeKind::List { items, .. } = &shapes.get(agent.fields.get("test_cases")?.shape).kind else {
        return None;
    };
    match &shapes.get(*items).kind {
        ShapeKind::Record(case) => Some(case),
        _ => None,
    }
}

/// The name of the variable whose values a column has: `city` of `vars.city`.
fn variable_of(column: &str) -> Option<&str> {
    column
        .strip_prefix("vars.")
        .filter(|name| !name.trim().is_empty())
}

fn meaning_of(fields: &Record, name: &str) -> Meaning {
    let is_text = |id: ShapeId| matches!(schema::AGENT.get(id).kind, ShapeKind::Text(_));
    match name {
        "expected_tools" | "forbidden_tools" | "tags" => Meaning::Names,
        _ if variable_of(name).is_some() => Meaning::Text,
        "files" => Meaning::Files,
        "retrieval_context" => Meaning::Texts,
        _ if fields.fields.get(name).is_some_and(|field| is_text(field.shape)) => Meaning::Text,
        _ => Meaning::Value,
    }
}

/// A cell as the entry of its column; an empty cell is an absent field.
fn read_cell(loader: &mut Loader<'_>, column: &Column, file: FileId, cell: Cell) -> Option<Entry> {
    let place = Place {
        file,
        start: cell.start,
        end: cell.end,
    };
    let text = cell_text(loader, file, &cell);
    let trimmed = text.trim();
    if trimmed.is_empty() || column.meaning == Meaning::Unusable {
        return None;
    }
    if column.meaning == Meaning::Nameless {
        // At the column, and so once for all its cells.
        let diagnostic = Diagnostic::error(Code::Blank, "a column with values has no name")
            .with_help("name the field in the first row, or delete the column");
        report(loader, column.place, diagnostic);
        return None;
    }
    let node = match column.meaning {
        Meaning::Text | Meaning::Value if !is_json(column.meaning, trimmed) => {
            let content = match cell.owned {
                Some(text) => loader.tree.own_text(text),
                None => Text::InFile {
                    start: cell.start,
                    end: cell.end,
                },
            };
            // A text such as `null` is a text; other fields are read as in YAML.
            let plain = column.meaning == Meaning::Value;
            loader.tree.scalar_node(place, content, plain, false)
        }
        Meaning::Texts if !trimmed.starts_with('[') => {
            let one = quoted(loader, place, &text);
            loader.tree.seq_node(place, &[one])
        }
        Meaning::Names | Meaning::Files if !trimmed.starts_with('[') => {
            split_cell(loader, column, place, trimmed)
        }
        _ => match read_json(&mut loader.tree, trimmed, place) {
            Ok(node) => node,
            Err(error) => {
                let message = format!("column `{}` is not JSON: {}", column.name, error.message);
                report(loader, place, Diagnostic::error(Code::BadJson, message));
                return None;
            }
        },
    };
    Some(loader.tree.entry(&column.name, column.place, node))
}

fn is_json(meaning: Meaning, text: &str) -> bool {
    meaning == Meaning::Value && text.starts_with(['[', '{'])
}

fn split_cell(loader: &mut Loader<'_>, column: &Column, place: Place, text: &str) -> NodeId {
    let text = text.strip_suffix(';').unwrap_or(text);
    let mut items = Vec::new();
    for part in text.split(';').map(str::trim) {
        if part.is_empty() {
            let message = format!("column `{}` has an empty part between `;`", column.name);
            report(loader, place, Diagnostic::error(Code::Blank, message));
            continue;
        }
        if column.meaning == Meaning::Names {
            // As one name it would be that of no tool, so that a forbidden tool would be allowed.
            if part.contains(|c: char| c.is_whitespace() || ",|/，、；".contains(c)) {
                let message = format!("column `{}`: `{part}` is not one name", column.name);
                let diagnostic = Diagnostic::error(Code::BadFormat, message)
                    .with_help("separate names with `;`, or write a JSON list: `[\"…\", \"…\"]`");
                report(loader, place, diagnostic);
                continue;
            }
            items.push(quoted(loader, place, part));
        } else {
            items.extend(file_input(loader, column, place, part));
        }
    }
    loader.tree.seq_node(place, &items)
}

/// A file by its path or URL; what kind it is follows from its extension.
fn file_input(loader: &mut Loader<'_>, column: &Column, place: Place, text: &str) -> Option<NodeId> {
    let url = text.contains("://");
    let name = text.split(['?', '#']).next().filter(|_| url).unwrap_or(text);
    let extension = Path::new(name)
        .extension()
        .and_then(|extension| extension.to_str());
    let kind = match extension.unwrap_or_default().to_ascii_lowercase().as_str() {
        "png" | "jpg" | "jpeg" | "gif" | "webp" | "bmp" | "tif" | "tiff" => "image",
        "pdf" => "pdf",
        "txt" | "md" => "text",
        "xlsx" | "xls" | "ods" => "excel",
        "docx" | "doc" => "word",
        "pptx" | "ppt" => "powerpoint",
        "csv" => "csv",
        _ => {
            let message = format!("column `{}`: the kind of `{text}` is unknown", column.name);
            let diagnostic = Diagnostic::error(Code::UnknownValue, message)
                .with_help("write the files as JSON: `[{\"path\": \"…\", \"type\": \"text\"}]`");
            report(loader, place, diagnostic);
            return None;
        }
    };
    let target = quoted(loader, place, text);
    let kind = quoted(loader, place, kind);
    let key = if url { "url" } else { "path" };
    let entries = [
        loader.tree.entry(key, place, target),
        loader.tree.entry("type", place, kind),
    ];
    Some(loader.tree.map_node(place, &entries))
}

fn quoted(loader: &mut Loader<'_>, place: Place, text: &str) -> NodeId {
    let text = loader.tree.own_text(text);
    loader.tree.scalar_node(place, text, false, false)
}

fn report(loader: &mut Loader<'_>, place: Place, diagnostic: Diagnostic) {
    loader
        .findings
        .add(&loader.tree, place, diagnostic.about("test_cases_file"));
}
