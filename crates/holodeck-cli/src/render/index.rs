//! Renders builds, status, search results and migrations of indexes.

use holodeck::{
    index::{Build, Hit, IndexStatus, Migration, SearchResults, StatusState},
    reports::format::{clip, count, duration, printable},
};
use serde_json::Value;

use super::{
    case::one_line,
    style::{BAD, DIM, DOUBTFUL, GOOD, STRONG, paint},
    text::{fit, width, wrap},
};

/// How many characters of a hit's text are shown.
const MAX_TEXT_CHARS: usize = 400;

/// The results of builds, a line for each index.
pub(crate) fn index_builds(builds: &[Build], columns: usize) -> String {
    let name = builds.iter().map(|build| width(&build.tool)).max().unwrap_or(0);
    let mut text = String::new();
    for build in builds {
        let holds = holds(build.sources, build.passages);
        let result = if build.is_unchanged() {
            format!("up to date: {holds}")
        } else {
            format!("{holds} ({}) · {}", changes(build), duration(build.took_ms))
        };
        text.push_str(&format!("{}  {result}\n", fit(&build.tool, name)));
        for failed in &build.failed {
            for line in wrap(&printable(failed), columns.saturating_sub(name + 4)) {
                text.push_str(&format!("{}    {}\n", " ".repeat(name), paint(BAD, line)));
            }
        }
        for note in &build.notes {
            for line in wrap(&printable(note), columns.saturating_sub(name + 4)) {
                text.push_str(&format!("{}    {}\n", " ".repeat(name), paint(DIM, line)));
            }
        }
    }
    text
}

/// "3 added, 1 changed, 1 removed".
fn changes(build: &Build) -> String {
    let parts = [
        (build.added, "added"),
        (build.changed, "changed"),
        (build.removed, "removed"),
    ];
    let changes: Vec<String> = parts
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!("{number} {what}"))
        .collect();
    changes.join(", ")
}

fn holds(sources: usize, passages: usize) -> String {
    format!("{}, {}", count(sources, "source"), count(passages, "passage"))
}

/// The status of indexes.
pub(crate) fn index_status(all: &[IndexStatus], columns: usize) -> String {
    let name = all.iter().map(|status| width(&status.tool)).max().unwrap_or(0);
    let mut text = String::new();
    for status in all {
        let (mark, style) = match status.state {
            StatusState::Ready => ("✓", GOOD),
            StatusState::Stale | StatusState::NotBuilt => ("!", DOUBTFUL),
            StatusState::Unusable => ("✗", BAD),
        };
        let indent = name + 4;
        let mut lines = wrap(&printable(&status.found), columns.saturating_sub(indent)).into_iter();
        text.push_str(&format!(
            "{} {}  {}\n",
            paint(style, mark),
            fit(&status.tool, name),
            lines.next().unwrap_or_default()
        ));
        let made = status.made.iter().map(String::as_str);
        for line in lines
            .chain([printable(&status.store).into_owned()])
            .chain(made.map(str::to_owned))
        {
            text.push_str(&format!("{}{}\n", " ".repeat(indent), paint(DIM, line)));
        }
    }
    text
}

/// The hits of a search, best first.
pub(crate) fn search_results(results: &SearchResults, columns: usize) -> String {
    if results.hits.is_empty() {
        return format!("no hits for {}\n", paint(STRONG, one_line(&results.query)));
    }
    let mut text = String::new();
    for (index, hit) in results.hits.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        text.push_str(&format!(
            "{}  {}  {}\n",
            paint(STRONG, format!("{:>2}", index + 1)),
            format_args!("{:.3}", hit.score),
            one_line(&place(hit))
        ));
        let text_start = clip(hit.text.trim(), MAX_TEXT_CHARS);
        for line in text_start.lines().filter(|line| !line.trim().is_empty()) {
            for line in wrap(&printable(line), columns.saturating_sub(4)) {
                text.push_str(&format!("    {line}\n"));
            }
        }
    }
    text.push_str(&paint(
        DIM,
        format!(
            "\n{} · {:.0} ms\n",
            count(results.hits.len(), "hit"),
            results.search_ms
        ),
    ));
    text
}

/// `docs/a.md · Terms > Refunds · section 4.2 · page 3`
fn place(hit: &Hit) -> String {
    let metadata = &hit.metadata;
    let mut parts = vec![hit.source.clone()];
    if let Some(Value::Array(headings)) = metadata.get("headings") {
        let headings: Vec<&str> = headings.iter().filter_map(Value::as_str).collect();
        if !headings.is_empty() {
            parts.push(headings.join(" > "));
        }
    }
    for key in ["section", "page", "slide", "sheet"] {
        match metadata.get(key) {
            Some(Value::String(value)) => parts.push(format!("{key} {value}")),
            Some(Value::Number(value)) => parts.push(format!("{key} {value}")),
            _ => {}
        }
    }
    parts.join(" · ")
}

/// The result of copying an index.
pub(crate) fn migration(migration: &Migration) -> String {
    format!(
        "{}  {} copied from {} to {}\n",
        migration.tool,
        holds(migration.sources, migration.passages),
        printable(&migration.from),
        printable(&migration.to)
    )
}
