//! Renders diagnostics with the lines of their files, as compilers do.

use std::path::Path;

use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use holodeck::model::{Code, Diagnostic, Location, Severity, Sources, lines_with_ends, same_length_lines};
use holodeck::reports::format::count;
use holodeck::yaml::Load;
use serde_json::{Value, json};

use super::{
    shown_path,
    style::{ERROR, GOOD, STRONG, WARNING, paint},
};

/// How many diagnostics are shown; `--json` has them all.
const MAX_SHOWN: usize = 100;

/// Two places of a file are shown together if at most this many lines lie between them.
const MAX_DISTANCE: usize = 1_000;

/// Which diagnostics to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiagnosticFilter {
    /// All diagnostics and their number.
    All,
    /// Errors and warnings; their number only if there is an error.
    Important,
    /// Errors, and what must be said before anything is sent or started.
    Essential,
}

impl DiagnosticFilter {
    fn shows(self, diagnostic: &Diagnostic) -> bool {
        match self {
            Self::All => true,
            Self::Important => diagnostic.severity != Severity::Note,
            Self::Essential => diagnostic.is_error() || diagnostic.code == Code::EnvFileDecides,
        }
    }
}

/// The problems of an agent file, as a compiler shows them, and how many there are.
pub(crate) fn diagnostics(load: &Load, file: &Path, filter: DiagnosticFilter, width: usize) -> String {
    let selected: Vec<_> = load
        .diagnostics
        .iter()
        .filter(|diagnostic| filter.shows(diagnostic))
        .collect();
    let renderer = Renderer::styled().term_width(width);
    let mut text = String::new();
    for diagnostic in selected.iter().take(MAX_SHOWN) {
        let mut pages = Pages::default();
        pages.prepare(diagnostic, &load.sources);
        text.push_str(&renderer.render(&[report(diagnostic, &pages)]));
        text.push('\n');
        if diagnostic.primary.is_none() {
            text.push_str(&notes_without_place(diagnostic));
        }
        text.push('\n');
    }
    if selected.len() > MAX_SHOWN {
        text.push_str(&format!("… and {} more\n\n", selected.len() - MAX_SHOWN));
    }
    if filter == DiagnosticFilter::All || load.has_errors() {
        text.push_str(&totals(&selected, file));
    }
    text
}

/// `2 errors, 1 warning in agent.yaml`, a line for each file with diagnostics.
fn totals(diagnostics: &[&Diagnostic], agent: &Path) -> String {
    let mut files: Vec<(&Path, Vec<&Diagnostic>)> = Vec::new();
    for diagnostic in diagnostics {
        let file = diagnostic.primary.as_ref().map_or(agent, |place| &place.path);
        match files.iter_mut().find(|(other, _)| *other == file) {
            Some((_, found)) => found.push(diagnostic),
            None => files.push((file, vec![diagnostic])),
        }
    }
    if files.is_empty() {
        files.push((agent, Vec::new()));
    }
    let lines = files
        .iter()
        .map(|(file, found)| format!("{} in {}\n", numbers(found), shown_path(file).display()));
    lines.collect()
}

/// `2 errors, 1 warning`, without colours.
pub(crate) fn count_diagnostics(load: &Load) -> String {
    let all: Vec<&Diagnostic> = load.diagnostics.iter().collect();
    anstream::adapter::strip_str(&numbers(&all)).to_string()
}

fn numbers(diagnostics: &[&Diagnostic]) -> String {
    let count_of = |severity| {
        let matches = diagnostics
            .iter()
            .filter(|diagnostic| diagnostic.severity == severity);
        matches.count()
    };
    let parts: Vec<_> = [
        (Severity::Error, ERROR),
        (Severity::Warning, WARNING),
        (Severity::Note, GOOD),
    ]
    .into_iter()
    .map(|(severity, style)| (count_of(severity), severity, style))
    .filter(|(number, ..)| *number > 0)
    .map(|(number, severity, style)| paint(style, count(number, severity.as_str())))
    .collect();
    if parts.is_empty() {
        paint(GOOD, "no problems")
    } else {
        parts.join(", ")
    }
}

fn report<'a>(diagnostic: &'a Diagnostic, pages: &'a Pages<'a>) -> Group<'a> {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Note => Level::NOTE,
    };
    let mut group = Group::with_title(
        level
            .primary_title(diagnostic.message.as_str())
            .id(diagnostic.code.id()),
    );
    for page in &pages.pages {
        group = match &page.text {
            Some(text) => group.element(
                Snippet::source(text.as_str())
                    .path(page.path.as_str())
                    .line_start(page.first_line)
                    .annotations(page.marks.iter().map(Mark::annotation)),
            ),
            None => group.element(
                Origin::path(page.path.as_str())
                    .line(page.first_line)
                    .char_column(page.column),
            ),
        };
    }
    if diagnostic.primary.is_none() {
        return group;
    }
    for note in &diagnostic.notes {
        group = group.element(Level::NOTE.message(note.as_str()));
    }
    if let Some(help) = &diagnostic.help {
        group = group.element(Level::HELP.with_name("hint").message(help.as_str()));
    }
    group
}

/// Notes and the hint of a diagnostic without a place.
fn notes_without_place(diagnostic: &Diagnostic) -> String {
    let notes = diagnostic.notes.iter().map(|note| ("note", note));
    let hint = diagnostic.help.iter().map(|help| ("hint", help));
    notes
        .chain(hint)
        .map(|(what, text)| format!("  = {}: {text}\n", paint(STRONG, what)))
        .collect::<Vec<_>>()
        .concat()
}

/// The parts of files that a diagnostic shows.
#[derive(Default)]
struct Pages<'a> {
    pages: Vec<Page<'a>>,
}

struct Page<'a> {
    path: String,
    first_line: usize,
    column: usize,
    /// Only the lines around the marks, as a file may be large and have many problems. `None` if the file could not be
    /// read.
    text: Option<String>,
    /// Where `text` begins in its file.
    start: usize,
    marks: Vec<Mark<'a>>,
}

struct Mark<'a> {
    kind: AnnotationKind,
    start: usize,
    end: usize,
    label: Option<&'a str>,
}

impl<'a> Mark<'a> {
    fn annotation(&self) -> Annotation<'a> {
        self.kind.span(self.start..self.end).label(self.label)
    }
}

impl<'a> Pages<'a> {
    fn prepare(&mut self, diagnostic: &'a Diagnostic, sources: &Sources) {
        let Some(primary) = &diagnostic.primary else {
            return;
        };
        let near = |other: &Location| {
            other.path == primary.path && other.line.abs_diff(primary.line) <= MAX_DISTANCE
        };
        let together: Vec<_> = diagnostic
            .labels
            .iter()
            .filter(|label| near(&label.location))
            .collect();
        let lines = together.iter().map(|label| label.location.line);
        let lines = lines.chain([primary.line]);
        let (first, last) = lines.fold((primary.line, primary.line), |(first, last), line| {
            (first.min(line), last.max(line))
        });
        let mut page = Page::open(primary, first, last, sources);
        page.mark(AnnotationKind::Primary, primary, diagnostic.inline.as_deref());
        for label in &together {
            page.mark(AnnotationKind::Context, &label.location, Some(&label.message));
        }
        self.pages.push(page);
        for label in &diagnostic.labels {
            if !near(&label.location) {
                let line = label.location.line;
                let mut page = Page::open(&label.location, line, line, sources);
                page.mark(AnnotationKind::Context, &label.location, Some(&label.message));
                self.pages.push(page);
            }
        }
    }
}

impl<'a> Page<'a> {
    /// Lines `first` to `last`, both counted from 1, of the file of `location`.
    fn open(location: &Location, first: usize, last: usize, sources: &Sources) -> Self {
        let whole = sources.get(&location.path);
        let mut start = 0;
        let mut text = None;
        if let Some(whole) = whole {
            // The line is searched backwards from the byte, as counting from the top is slow in large files.
            let at = floor(whole, location.span.start);
            start = line_start(whole, at, location.line.saturating_sub(first));
            let mut end = start;
            for _ in first..=last {
                let rest = whole.get(end..).unwrap_or_default();
                end += lines_with_ends(rest).next().map_or(0, str::len);
            }
            let lines = whole.get(start..end).map(str::to_owned);
            text = lines.map(same_length_lines);
        }
        Self {
            path: shown_path(&location.path).display().to_string(),
            first_line: first,
            column: location.column,
            text,
            start,
            marks: Vec::new(),
        }
    }

    fn mark(&mut self, kind: AnnotationKind, location: &Location, label: Option<&'a str>) {
        let Some(text) = &self.text else { return };
        let start = floor(text, location.span.start.saturating_sub(self.start));
        let line_end = text
            .get(start..)
            .and_then(|rest| rest.find(['\r', '\n']))
            .map_or(text.len(), |length| start + length);
        // Of a span of several lines only the first is marked.
        let end = floor(text, location.span.end.saturating_sub(self.start)).clamp(start, line_end);
        self.marks.push(Mark {
            kind,
            start,
            end,
            label,
        });
    }
}

/// The start of the character at or before `at`.
fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// The start of the line that is `before` lines above the line of byte `at`.
fn line_start(text: &str, at: usize, before: usize) -> usize {
    let mut start = at;
    for step in 0..=before {
        let mut head = text.get(..start).unwrap_or_default();
        if step > 0 {
            head = head.strip_suffix('\n').unwrap_or(head);
        }
        // A CR before LF ends no line of its own.
        let is_pair = text.get(head.len()..).is_some_and(|rest| rest.starts_with('\n'));
        if step > 0 || is_pair {
            head = head.strip_suffix('\r').unwrap_or(head);
        }
        start = head.rfind(['\n', '\r']).map_or(0, |end| end + 1);
    }
    start
}

/// The diagnostics as JSON.
pub(crate) fn diagnostics_json(load: &Load, file: &Path) -> Value {
    json!({
        "file": file.display().to_string(),
        "ok": !load.has_errors(),
        "diagnostics": load.diagnostics.iter().map(diagnostic_json).collect::<Vec<_>>(),
    })
}

pub(super) fn diagnostic_json(diagnostic: &Diagnostic) -> Value {
    let place = diagnostic.primary.as_ref();
    json!({
        "code": diagnostic.code.id(),
        "name": diagnostic.code.name(),
        "severity": diagnostic.severity.as_str(),
        "message": diagnostic.message,
        "file": place.map(|place| shown_path(&place.path).display().to_string()),
        "line": place.map(|place| place.line),
        "column": place.map(|place| place.column),
        "hint": diagnostic.hint(),
        "path": diagnostic.pointer,
        "notes": diagnostic.notes,
        "labels": diagnostic.labels.iter().map(|label| json!({
            "file": shown_path(&label.location.path).display().to_string(),
            "line": label.location.line,
            "column": label.location.column,
            "message": label.message,
        })).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests;
