//! Writes the page that lists stored runs: a row per run with what changed since the one before, and the trends of each
//! agent.

use std::{collections::BTreeSet, io::Write};

use askama::Template;
use holodeck_model::ReportHead;
use holodeck_runs::pass_rate_interval;

mod trend;

use self::trend::{Trend, trends};
use crate::{
    PageLink, ReportError, format,
    html::{SCRIPT, STYLE, VIEW_SCRIPT, page_policy, policy_of},
    view::Pages,
};

pub(crate) const HISTORY_STYLE: &str = include_str!("../templates/history.css");

/// A run in the list.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct HistoryEntry {
    /// Names the run in addresses.
    pub id: String,
    /// Its page, if it has one.
    pub page: Option<String>,
    /// Its file, below the folder.
    pub file: String,
    /// The run, or why it cannot be read.
    pub run: Result<HistoryRun, String>,
}

/// A run as the list shows it.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct HistoryRun {
    /// Everything except its cases.
    pub head: ReportHead,
    /// Provider and model, if known.
    pub model: Option<String>,
    /// Whether a command is writing it now.
    pub is_running: bool,
    /// The folder of its agent, below that of the list.
    pub folder: String,
    /// Each difference to the run before of the same agent; absent if there is none before.
    pub changes: Option<Vec<String>>,
    /// The tags that people gave to it.
    pub tags: Vec<String>,
}

/// The runs of the list.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct HistoryList<'a> {
    /// The folder, as it is shown.
    pub folder: &'a str,
    /// The runs, oldest first.
    pub entries: &'a [HistoryEntry],
    /// How many more are being read.
    pub unread: usize,
    /// The token of the forms that change something; absent if nothing may be changed.
    pub token: Option<&'a str>,
    /// The id and the name of each file in the trash.
    pub trash: &'a [(String, String)],
    /// Parts of files of annotations that count for nothing.
    pub problems: &'a [String],
    /// The links above it.
    pub links: &'a [PageLink],
}

/// A reader's choice of rows and their order.
#[derive(Clone, Debug, Default)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct HistoryQuery {
    /// Words that a row must contain.
    pub words: String,
    /// The verdict of a row; empty for all.
    pub state: String,
    /// The tag that a run must have; empty for all.
    pub run_tag: String,
    /// The order: `oldest`, `cost` or `time`; else the newest first.
    pub order: String,
    /// The page, from 1. A file has one page.
    pub page: usize,
}

/// Whether the page can be asked, or lies on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "a page is served or a file")]
pub enum PageUse {
    /// A server answers its forms.
    Served,
    /// It is a file, without forms.
    File,
}

#[derive(Template)]
#[template(path = "history.html")]
struct Page<'a> {
    policy: String,
    style: &'static str,
    own_style: &'static str,
    served: bool,
    folder: &'a str,
    count: String,
    query: &'a HistoryQuery,
    states: Vec<(&'static str, bool)>,
    orders: Vec<(&'static str, bool)>,
    unread: Option<String>,
    is_running: bool,
    token: Option<&'a str>,
    /// Each tag, with whether it is chosen.
    tags: Vec<(&'a str, bool)>,
    problems: &'a [String],
    links: &'a [PageLink],
    trash: &'a [(String, String)],
    pages: Pages,
    script: &'static str,
    trends: Vec<Trend>,
    rows: &'a [Row<'a>],
    version: &'static str,
}

struct Row<'a> {
    id: &'a str,
    page: Option<&'a str>,
    file: &'a str,
    class: &'static str,
    state: String,
    agent: &'a str,
    run: &'a str,
    at: String,
    changes: Changes<'a>,
    totals: String,
    interval: String,
    cost: String,
    time: String,
    model: &'a str,
    notes: Vec<String>,
    tags: &'a [String],
    cost_usd: Option<f64>,
    millis: u64,
}

/// The differences to the run before.
enum Changes<'a> {
    /// There is none before, or it cannot be read.
    Unknown,
    None,
    Some(&'a [String]),
}

const RUNNING: &str = "running";
const DAMAGED: &str = "cannot be read";
const STATES: [&str; 5] = ["passed", "failed", "error", RUNNING, DAMAGED];
const ORDERS: [&str; 4] = ["newest", "oldest", "cost", "time"];

/// Rows of a page.
const PAGE_ROWS: usize = 100;

/// Writes the list of runs.
pub fn write_history(
    list: &HistoryList<'_>,
    query: &HistoryQuery,
    usage: PageUse,
    out: &mut dyn Write,
) -> Result<(), ReportError> {
    let words: Vec<String> = query
        .words
        .to_lowercase()
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    let entries = list.entries;
    let mut rows: Vec<Row<'_>> = entries.iter().rev().map(Row::new).collect();
    rows.retain(|row| {
        if !query.state.is_empty() && row.kind() != query.state {
            return false;
        }
        if !query.run_tag.is_empty() && !row.tags.contains(&query.run_tag) {
            return false;
        }
        if words.is_empty() {
            return true;
        }
        let text = row.text();
        words.iter().all(|word| text.contains(word))
    });
    match query.order.as_str() {
        "oldest" => rows.reverse(),
        "cost" => rows.sort_by(|a, b| {
            let cost = |row: &Row<'_>| row.cost_usd.unwrap_or(f64::NEG_INFINITY);
            cost(b).total_cmp(&cost(a))
        }),
        "time" => rows.sort_by_key(|row| std::cmp::Reverse(row.millis)),
        _ => {}
    }
    let pages = rows.len().div_ceil(PAGE_ROWS).max(1);
    let number = query.page.clamp(1, pages);
    let mut shown = rows.as_slice();
    if usage == PageUse::Served {
        shown = rows.chunks(PAGE_ROWS).nth(number - 1).unwrap_or_default();
    }
    let page = Page {
        policy: page_policy(&[STYLE, HISTORY_STYLE], VIEW_SCRIPT, usage == PageUse::Served),
        style: STYLE,
        own_style: HISTORY_STYLE,
        served: usage == PageUse::Served,
        folder: list.folder,
        count: if rows.len() == entries.len() {
            format::count(entries.len(), "run")
        } else {
            format!("{} of {}", rows.len(), format::count(entries.len(), "run"))
        },
        query,
        states: STATES.map(|state| (state, state == query.state)).to_vec(),
        orders: ORDERS.map(|order| (order, order == query.order)).to_vec(),
        unread: (list.unread > 0).then(|| format!("{} more being read", format::count(list.unread, "run"))),
        is_running: entries
            .iter()
            .any(|entry| entry.run.as_ref().is_ok_and(|run| run.is_running)),
        token: list.token,
        tags: tags(entries, &query.run_tag),
        problems: list.problems,
        links: list.links,
        trash: list.trash,
        pages: Pages {
            name: "Pages of runs",
            number,
            count: if usage == PageUse::Served { pages } else { 1 },
        },
        script: VIEW_SCRIPT,
        trends: if number == 1 {
            trends(entries, &rows.iter().map(|row| row.agent).collect())
        } else {
            Vec::new()
        },
        rows: shown,
        version: env!("CARGO_PKG_VERSION"),
    };
    Ok(page.write_into(out)?)
}

/// The policy of every page when it is served, for the header of its response.
pub fn history_policy() -> String {
    policy_of(&[STYLE, HISTORY_STYLE], &[SCRIPT, VIEW_SCRIPT], true)
}

/// Writes a page that says why there is nothing else to show.
pub fn write_error_page(
    title: &str,
    text: &str,
    link: &PageLink,
    out: &mut dyn Write,
) -> Result<(), ReportError> {
    #[derive(Template)]
    #[template(path = "problem.html")]
    struct Problem<'a> {
        policy: String,
        style: &'static str,
        title: &'a str,
        text: &'a str,
        link: &'a PageLink,
    }
    let page = Problem {
        policy: page_policy(&[STYLE], SCRIPT, false),
        style: STYLE,
        title,
        text,
        link,
    };
    Ok(page.write_into(out)?)
}

impl<'a> Row<'a> {
    fn new(entry: &'a HistoryEntry) -> Self {
        let run = match &entry.run {
            Ok(run) => run,
            Err(error) => {
                return Self {
                    id: &entry.id,
                    page: entry.page.as_deref(),
                    file: &entry.file,
                    class: "error",
                    state: DAMAGED.to_owned(),
                    agent: "",
                    run: "",
                    at: String::new(),
                    changes: Changes::Unknown,
                    totals: String::new(),
                    interval: String::new(),
                    cost: String::new(),
                    time: String::new(),
                    model: "",
                    notes: vec![error.clone()],
                    tags: &[],
                    cost_usd: None,
                    millis: 0,
                };
            }
        };
        let head = &run.head;
        let summary = &head.summary;
        let interval = pass_rate_interval(summary);
        let ended_because = head.ended_because.iter().filter(|_| !run.is_running).cloned();
        Self {
            id: &entry.id,
            page: entry.page.as_deref(),
            file: &entry.file,
            class: if run.is_running {
                "unchecked"
            } else {
                format::tone_class(head)
            },
            state: if run.is_running {
                RUNNING.to_owned()
            } else {
                format::verdict(head)
            },
            agent: &head.agent_name,
            run: &head.run_id,
            at: format::date(&head.timestamp),
            changes: match run.changes.as_deref() {
                None => Changes::Unknown,
                Some([]) => Changes::None,
                Some(changes) => Changes::Some(changes),
            },
            totals: format::totals(summary),
            interval: interval.map_or_else(String::new, |(low, high)| format!("{low:.2}–{high:.2}")),
            cost: summary.cost_usd.map(format::cost).unwrap_or_default(),
            // A file of another kind does not say it.
            time: match summary.total_duration_ms {
                0 => String::new(),
                millis => format::duration(millis),
            },
            model: run.model.as_deref().unwrap_or_default(),
            notes: head
                .provenance()
                .into_iter()
                .chain(ended_because)
                .chain(head.warnings.clone())
                .collect(),
            tags: &run.tags,
            cost_usd: summary.cost_usd,
            millis: summary.total_duration_ms,
        }
    }

    /// The state by which rows are filtered.
    fn kind(&self) -> &str {
        match self.state.as_str() {
            RUNNING => RUNNING,
            DAMAGED => DAMAGED,
            _ => self.class,
        }
    }

    /// The text that is searched, in lower case.
    fn text(&self) -> String {
        let fields = [
            self.agent,
            self.run,
            &self.at,
            self.model,
            self.file,
            &self.state,
            &self.totals,
        ];
        let changes = match self.changes {
            Changes::Some(changes) => changes,
            Changes::None | Changes::Unknown => &[],
        };
        let notes = self
            .notes
            .iter()
            .chain(changes)
            .chain(self.tags)
            .map(String::as_str);
        let fields = fields.into_iter().chain(notes);
        fields.collect::<Vec<_>>().join("\n").to_lowercase()
    }
}

/// Every tag of the runs, and the chosen one, by name.
fn tags<'a>(entries: &'a [HistoryEntry], chosen: &'a str) -> Vec<(&'a str, bool)> {
    let runs = entries.iter().filter_map(|entry| entry.run.as_ref().ok());
    let all = runs.flat_map(|run| &run.tags).map(String::as_str);
    let all: BTreeSet<&str> = all.chain(Some(chosen).filter(|tag| !tag.is_empty())).collect();
    all.into_iter().map(|tag| (tag, tag == chosen)).collect()
}
