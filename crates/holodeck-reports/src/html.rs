//! Writes one self-contained page that is readable without its script, case by case, failures first.

mod case;
mod charts;
mod chosen;

use std::{collections::BTreeSet, fmt, io::Write};

use askama::Template;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use holodeck_model::{CaseState, ReportHead};
use sha2::{Digest as _, Sha256};

pub(crate) use self::case::{Case, turn_alone};
use self::charts::{Charts, MetricChart, Ranking, StatePart, states};
use self::chosen::Chosen;
pub use self::chosen::RunPage;
pub(crate) use self::chosen::choose;
use crate::{
    CaseQuery, PageLink, ReportError, RunView,
    case_filter::{CaseValues, STATES},
    format,
    view::Pages,
};

pub(crate) const STYLE: &str = include_str!("../templates/page.css");
pub(crate) const SCRIPT: &str = include_str!("../templates/page.js");
/// Copies a text, and loads a page again that is not complete. Pages are readable without it.
pub(crate) const VIEW_SCRIPT: &str = include_str!("../templates/view.js");

/// Only the first failures are open, because a browser must lay out every open case.
const MAX_OPEN: usize = 100;

/// One self-contained page.
pub(super) fn report(view: &RunView<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    report_in(view, &RunPage::default(), out)
}

/// One page with these surroundings.
pub(super) fn report_in(
    view: &RunView<'_>,
    page: &RunPage<'_>,
    out: &mut dyn Write,
) -> Result<(), ReportError> {
    let chosen = choose(view, page)?;
    write_chosen(view, page, chosen, out)
}

/// Writes the page with the chosen cases; `view` need not have more of them.
pub(super) fn write_chosen(
    view: &RunView<'_>,
    page: &RunPage<'_>,
    chosen: Chosen<'_>,
    out: &mut dyn Write,
) -> Result<(), ReportError> {
    let Chosen {
        filter,
        charts,
        values,
        mut causes,
        has_before,
        places,
        pages,
    } = chosen;
    let is_here = |place: usize| places.as_ref().is_none_or(|places| places.contains(&place));
    let href = |place: usize| page.case_page.map(|href| href(place));
    let summary = &view.head.summary;
    write(&Head::new(view, page), out)?;
    if let Some(query) = filter.query {
        write(&Choose::new(query, &values, has_before), out)?;
    }
    let mut open = MAX_OPEN;
    let mut shown = 0;
    section(
        "Did not pass",
        summary.failed + summary.errors,
        &mut shown,
        out,
        |section| {
            let mut failures = view.cases().filter(|case| {
                case.as_ref().map_or(true, |case| {
                    case.is_failure() && is_here(case.index) && filter.fits(case)
                })
            });
            for case in &mut failures {
                let case = case?;
                let is_first = causes.first_of(&case);
                let shown = Case::new(&case, open > 0 && is_first != Some(false), href(case.index));
                open = open.saturating_sub(usize::from(is_first != Some(false)));
                match is_first.and_then(|_| causes.group_of(&case)) {
                    Some(html) => {
                        *section.shown += 1;
                        write(&shown, html)?;
                    }
                    None => section.case(&shown)?,
                }
            }
            section.end()?;
            for group in causes.into_groups() {
                section.title()?;
                write(&group, section.out)?;
                section.out.write_all(&group.html)?;
            }
            Ok(())
        },
    )?;
    section("Not run", summary.not_run, &mut shown, out, |section| {
        for case in view.not_run() {
            let case = case?;
            if is_here(case.index) && filter.fits_not_run(case.index) {
                section.case(&Case::not_run(&case))?;
            }
        }
        Ok(())
    })?;
    write(&Overview::new(&charts), out)?;
    let rest = [
        (CaseState::Unchecked, summary.unchecked, "Unchecked"),
        (CaseState::Passed, summary.passed, "Passed"),
    ];
    for (state, count, title) in rest {
        section(title, count, &mut shown, out, |section| {
            for case in view.cases() {
                let case = case?;
                if case.state() == state && is_here(case.index) && filter.fits(&case) {
                    section.case(&Case::new(&case, false, href(case.index)))?;
                }
            }
            Ok(())
        })?;
    }
    write(
        &Tail {
            head: view.head,
            script: SCRIPT,
            own_script: if page.choice.is_some() { VIEW_SCRIPT } else { "" },
            pages,
        },
        out,
    )
}

/// Cases under one title, in groups that a browser lays out only when they become visible.
struct Section<'o> {
    title: &'static str,
    has_title: bool,
    out: &'o mut dyn Write,
    count: usize,
    written: usize,
    has_group: bool,
    /// The cases of the page so far that a browser reads at once.
    shown: &'o mut usize,
    chunk: Chunk,
}

const GROUP_SIZE: usize = 100;

/// The cases that a browser reads at once: each further one costs time before the page can be used.
const MAX_SHOWN: usize = 2_000;

/// Further cases, which the script adds to the page when a reader opens them. Without the script, each is a line.
#[derive(Default, Template)]
#[template(path = "chunk.html")]
struct Chunk {
    lines: String,
    html: String,
    numbers: Vec<usize>,
    states: BTreeSet<&'static str>,
}

const CHUNK_SIZE: usize = 250;

impl Chunk {
    fn add(&mut self, case: &Case<'_>) -> Result<(), ReportError> {
        self.numbers.push(case.number());
        self.states.insert(case.class());
        self.lines.push_str(&case.line());
        self.lines.push('\n');
        let mut html = Vec::new();
        Template::write_into(case, &mut html)?;
        self.html.push_str(&String::from_utf8_lossy(&html));
        Ok(())
    }

    /// `250 more cases, from 2001 to 2290`.
    fn title(&self) -> String {
        let (first, last) = (self.numbers.iter().min(), self.numbers.iter().max());
        format!(
            "{}, from number {} to {}",
            format::count(self.numbers.len(), "more case"),
            first.copied().unwrap_or_default(),
            last.copied().unwrap_or_default()
        )
    }
}

impl Section<'_> {
    /// Writes the title, which a section without cases does not have.
    fn title(&mut self) -> Result<(), ReportError> {
        if !self.has_title {
            writeln!(self.out, "<h2>{}</h2>", self.title)?;
            self.has_title = true;
        }
        Ok(())
    }

    fn case(&mut self, case: &Case<'_>) -> Result<(), ReportError> {
        self.title()?;
        let done = self.written;
        if *self.shown >= MAX_SHOWN {
            self.end_group()?;
            self.written += 1;
            self.chunk.add(case)?;
            if self.chunk.numbers.len() >= CHUNK_SIZE {
                self.end_chunk()?;
            }
            return Ok(());
        }
        *self.shown += 1;
        if !self.has_group || self.written.is_multiple_of(GROUP_SIZE) {
            self.end_group()?;
            self.has_group = true;
            // The style gives a group the estimated height of a full one.
            let is_full = self.count.saturating_sub(done) >= GROUP_SIZE;
            let class = if is_full { "group" } else { "rest" };
            writeln!(self.out, "<div class=\"{class}\">")?;
        }
        self.written += 1;
        write(case, self.out)
    }

    fn end(&mut self) -> Result<(), ReportError> {
        self.end_group()?;
        self.end_chunk()
    }

    fn end_group(&mut self) -> Result<(), ReportError> {
        if std::mem::take(&mut self.has_group) {
            writeln!(self.out, "</div>")?;
        }
        Ok(())
    }

    fn end_chunk(&mut self) -> Result<(), ReportError> {
        let chunk = std::mem::take(&mut self.chunk);
        if chunk.numbers.is_empty() {
            return Ok(());
        }
        write(&chunk, self.out)
    }
}

/// Writes a section if it has cases.
fn section(
    title: &'static str,
    count: usize,
    shown: &mut usize,
    out: &mut dyn Write,
    cases: impl FnOnce(&mut Section<'_>) -> Result<(), ReportError>,
) -> Result<(), ReportError> {
    if count == 0 {
        return Ok(());
    }
    let mut section = Section {
        title,
        has_title: false,
        out,
        count,
        written: 0,
        has_group: false,
        shown,
        chunk: Chunk::default(),
    };
    cases(&mut section)?;
    section.end()
}

fn write(template: &impl Template, out: &mut dyn Write) -> Result<(), ReportError> {
    Ok(Template::write_into(template, out)?)
}

/// The content security policy: the page may use only its own style and script, identified by their hashes. Content in
/// an answer of a model is never loaded or executed.
pub(crate) fn policy() -> String {
    page_policy(&[STYLE], SCRIPT, false)
}

/// The policy of a page with these styles and this script; with forms, it may send them to its own server.
pub(crate) fn page_policy(styles: &[&str], script: &str, has_forms: bool) -> String {
    policy_of(styles, &[script], has_forms)
}

/// The policy of pages that have some of these styles and scripts.
pub(crate) fn policy_of(styles: &[&str], scripts: &[&str], has_forms: bool) -> String {
    let hash = |text: &&str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
    let hashes = |texts: &[&str]| texts.iter().map(hash).collect::<Vec<_>>().join(" ");
    format!(
        "default-src 'none'; style-src {}; script-src {}; base-uri 'none'; form-action '{}'",
        hashes(styles),
        hashes(scripts),
        if has_forms { "self" } else { "none" }
    )
}

#[derive(Template)]
#[template(path = "head.html")]
struct Head<'a> {
    agent: &'a str,
    policy: String,
    style: &'static str,
    tone: &'static str,
    verdict: String,
    totals: String,
    states: Vec<StatePart>,
    facts: Vec<(&'static str, String)>,
    share: Option<u32>,
    /// Each with its CSS class.
    notes: Vec<(&'static str, String)>,
    links: Vec<PageLink>,
    is_served: bool,
    is_running: bool,
    tags: Vec<String>,
    tag_form: Option<(String, String)>,
}

/// The form that chooses cases.
#[derive(Template)]
#[template(path = "choose.html")]
struct Choose<'a> {
    query: &'a CaseQuery,
    values: &'a CaseValues,
    states: &'static [&'static str],
    /// The name of each list, its title, its values and the chosen one.
    lists: Vec<(&'static str, &'static str, &'a BTreeSet<String>, &'a String)>,
    has_before: bool,
}

impl<'a> Choose<'a> {
    fn new(query: &'a CaseQuery, values: &'a CaseValues, has_before: bool) -> Self {
        let lists = [
            (
                "metric",
                "Check that did not pass",
                &values.metrics,
                &query.metric,
            ),
            ("tag", "Tag", &values.tags, &query.tag),
            ("tool", "Tool", &values.tools, &query.tool),
        ];
        Self {
            query,
            values,
            states: &STATES,
            lists: lists
                .into_iter()
                .filter(|(.., values, chosen)| !values.is_empty() || !chosen.is_empty())
                .collect(),
            has_before,
        }
    }
}

/// The scores of each metric, and the slowest and most expensive cases, below what did not pass.
#[derive(Template)]
#[template(path = "charts.html")]
struct Overview {
    metrics: Vec<MetricChart>,
    more_metrics: usize,
    rankings: Vec<Ranking>,
}

impl Overview {
    fn new(charts: &Charts) -> Self {
        let (metrics, more_metrics) = charts.metrics();
        Self {
            metrics,
            more_metrics,
            rankings: charts.rankings(),
        }
    }
}

impl<'a> Head<'a> {
    fn new(view: &RunView<'a>, page: &RunPage<'_>) -> Self {
        let head = view.head;
        Self {
            agent: &head.agent_name,
            policy: match page.choice {
                None => policy(),
                Some(_) => policy_of(&[STYLE], &[SCRIPT, VIEW_SCRIPT], true),
            },
            is_running: page.is_running,
            tags: page.tags.to_vec(),
            tag_form: page
                .tag_form
                .map(|(token, run)| (token.to_owned(), run.to_owned())),
            style: STYLE,
            is_served: page.choice.is_some(),
            tone: format::tone_class(head),
            verdict: format::verdict(head),
            totals: format::totals(&head.summary),
            states: states(&head.summary),
            facts: facts(view),
            share: format::share(&head.summary),
            notes: notes(head),
            links: page.links.to_vec(),
        }
    }
}

fn facts(view: &RunView<'_>) -> Vec<(&'static str, String)> {
    let summary = &view.head.summary;
    let date = format::date(&view.head.timestamp);
    let tokens = summary
        .token_usage
        .map(|usage| format::tokens(usage.total_tokens));
    let facts = [
        ("Date", Some(date)),
        (
            "Model",
            Some(view.model.to_owned()).filter(|model| !model.is_empty()),
        ),
        ("Agent", Some(view.head.agent_config_path.clone())),
        ("Tokens", tokens),
        ("Cost", summary.cost_usd.map(format::cost)),
        ("Time in cases", Some(format::duration(summary.total_duration_ms))),
    ];
    let known = facts.into_iter().filter_map(|(name, value)| Some((name, value?)));
    known.collect()
}

/// Notes and warnings that concern every verdict.
fn notes(head: &ReportHead) -> Vec<(&'static str, String)> {
    let summary = &head.summary;
    let unknown = (summary.token_usage.is_some() && summary.usage_missing > 0).then(|| {
        let cases = format::count(summary.usage_missing, "case");
        format!("tokens and cost are unknown for {cases}")
    });
    let warnings = head.warnings.iter().map(|warning| format!("warning: {warning}"));
    let provenance = head.provenance().into_iter().chain(unknown);
    let because = head.ended_because.clone().into_iter();
    let doubts = because.chain(format::doubts(summary)).chain(warnings);
    let provenance = provenance.map(|note| ("unchecked", note));
    provenance.chain(doubts.map(|note| ("error", note))).collect()
}

#[derive(Template)]
#[template(path = "tail.html")]
struct Tail<'a> {
    head: &'a ReportHead,
    script: &'static str,
    own_script: &'static str,
    pages: Pages,
}

/// Escapes text for HTML, in an element or a quoted attribute, and shows invisible and control characters.
#[derive(Clone, Copy)]
pub(crate) struct Printable;

impl askama::filters::Escaper for Printable {
    fn write_escaped_str<W: fmt::Write>(&self, mut out: W, text: &str) -> fmt::Result {
        for c in format::printable(text).chars() {
            match c {
                '&' => out.write_str("&amp;")?,
                '<' => out.write_str("&lt;")?,
                '>' => out.write_str("&gt;")?,
                '"' => out.write_str("&quot;")?,
                '\'' => out.write_str("&#39;")?,
                other => out.write_char(other)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
