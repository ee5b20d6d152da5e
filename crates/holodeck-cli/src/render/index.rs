use holodeck::{
    index::{Build, Hit, IndexStatus, Migration, SearchResults, StatusState},
    runner::words::{clip, count, duration, printable},
};
use serde_json::Value;

use super::{
    case::one_line,
    style::{BAD, DIM, DOUBTFUL, GOOD, STRONG, paint},
    text::{fit, width, wrap},
};

/// How much of a hit's text is shown.
const SHOWN: usize = 400;

/// What a build came to, a line for each index.
pub(crate) fn built(built: &[Build], columns: usize) -> String {
    let name = built.iter().map(|build| width(&build.tool)).max().unwrap_or(0);
    let mut text = String::new();
    for build in built {
        let holds = holds(build.sources, build.passages);
        let told = if build.is_unchanged() {
            format!("up to date: {holds}")
        } else {
            format!("{holds} ({}) · {}", changes(build), duration(build.took_ms))
        };
        text.push_str(&format!("{}  {told}\n", fit(&build.tool, name)));
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
    let told: Vec<String> = parts
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!("{number} {what}"))
        .collect();
    told.join(", ")
}

fn holds(sources: usize, passages: usize) -> String {
    format!("{}, {}", count(sources, "source"), count(passages, "passage"))
}

/// How the indexes stand.
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

/// What a search found, best first.
pub(crate) fn found(found: &SearchResults, columns: usize) -> String {
    if found.hits.is_empty() {
        return format!(
            "nothing was found for {}\n",
            paint(STRONG, one_line(&found.query))
        );
    }
    let mut text = String::new();
    for (index, hit) in found.hits.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        text.push_str(&format!(
            "{}  {}  {}\n",
            paint(STRONG, format!("{:>2}", index + 1)),
            format_args!("{:.3}", hit.score),
            one_line(&place(hit))
        ));
        let shown = clip(hit.text.trim(), SHOWN);
        for line in shown.lines().filter(|line| !line.trim().is_empty()) {
            for line in wrap(&printable(line), columns.saturating_sub(4)) {
                text.push_str(&format!("    {line}\n"));
            }
        }
    }
    text.push_str(&paint(
        DIM,
        format!(
            "\n{} · {:.0} ms\n",
            count(found.hits.len(), "hit"),
            found.search_ms
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

/// What was copied.
pub(crate) fn migrated(moved: &Migration) -> String {
    format!(
        "{}  {} copied from {} to {}\n",
        moved.tool,
        holds(moved.sources, moved.passages),
        printable(&moved.from),
        printable(&moved.to)
    )
}
