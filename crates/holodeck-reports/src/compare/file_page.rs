//! Makes the page of a run file or a baseline: every case with its state, its scores and the texts that the file has.

use askama::Template;

use super::{
    CaseTexts, ComparedRun, ReadRunError,
    files::texts_of,
    run::{RunKind, state_word},
};
use crate::{
    PageLink, format,
    html::{SCRIPT, STYLE, page_policy},
    view::Pages,
};
use holodeck_model::{CaseState, ReportHead};

/// Cases of a page.
const PAGE_CASES: usize = 100;

/// The surroundings of the page.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct FilePage<'a> {
    /// The links above it.
    pub links: &'a [PageLink],
    /// The file, as it is shown.
    pub file: &'a str,
    /// The page from 1, if a server answers requests for the others; else all cases are on one.
    pub number: Option<usize>,
}

#[derive(Template)]
#[template(path = "file_page.html")]
struct Page<'a> {
    policy: String,
    style: &'static str,
    links: &'a [PageLink],
    file: &'a str,
    kind: &'static str,
    agent: &'a str,
    tone: &'static str,
    verdict: String,
    totals: String,
    facts: Vec<(&'static str, String)>,
    notes: Vec<&'a str>,
    is_served: bool,
    cases: Vec<Case<'a>>,
    pages: Pages,
    version: &'static str,
}

struct Case<'a> {
    number: usize,
    class: &'static str,
    state: &'static str,
    label: &'a str,
    is_open: bool,
    scores: Vec<(String, String)>,
    texts: CaseTexts,
}

/// The page of a run that was read from a file, what did not pass first.
pub fn file_page(head: &ReportHead, run: &ComparedRun, page: FilePage<'_>) -> Result<Vec<u8>, ReadRunError> {
    let mut places: Vec<usize> = (0..run.cases.len()).collect();
    let state_at = |place: usize| run.cases.get(place).and_then(|case| case.state);
    places.sort_by_key(|place| rank(state_at(*place)));
    let count = places.len().div_ceil(PAGE_CASES).max(1);
    let number = page.number.map(|number| number.clamp(1, count));
    let shown = match number {
        Some(number) => places.chunks(PAGE_CASES).nth(number - 1).unwrap_or_default(),
        None => places.as_slice(),
    };
    let mut texts = texts_of(run, shown)?;
    let cases = shown.iter().filter_map(|&place| {
        let case = run.cases.get(place)?;
        Some(Case {
            number: place + 1,
            class: case.state.map_or("unchecked", format::class),
            state: state_word(case.state),
            label: &case.label,
            is_open: rank(case.state) == 0,
            scores: case.shown_scores(),
            texts: texts.remove(&place).unwrap_or_default(),
        })
    });
    let info = &run.info;
    let facts = [
        (
            "Date",
            Some(format::date(&info.at)).filter(|date| !date.is_empty()),
        ),
        ("Model", info.model.clone()),
        ("Run", info.run_id.clone()),
        ("Cost", head.summary.cost_usd.map(format::cost)),
    ];
    let notes = info.unfinished.iter().chain(&info.provenance);
    let page = Page {
        policy: page_policy(&[STYLE], SCRIPT, page.number.is_some()),
        style: STYLE,
        links: page.links,
        file: page.file,
        kind: kind(info.kind),
        agent: &info.agent_name,
        tone: format::tone_class(head),
        verdict: format::verdict(head),
        totals: format::totals(&head.summary),
        facts: facts
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
            .collect(),
        notes: notes.map(String::as_str).collect(),
        is_served: page.number.is_some(),
        cases: cases.collect(),
        pages: Pages {
            name: "Pages of cases",
            number: number.unwrap_or(1),
            count: number.map_or(1, |_| count),
        },
        version: env!("CARGO_PKG_VERSION"),
    };
    let mut html = Vec::new();
    page.write_into(&mut html).map_err(|source| ReadRunError::Io {
        path: info.path.display().to_string(),
        source,
    })?;
    Ok(html)
}

/// Orders the cases: those that did not pass or have no result are the first.
fn rank(state: Option<CaseState>) -> u8 {
    match state {
        Some(CaseState::Passed) => 2,
        Some(CaseState::Unchecked) => 1,
        _ => 0,
    }
}

fn kind(kind: RunKind) -> &'static str {
    match kind {
        RunKind::Journal => "Test run",
        RunKind::RunFile => "Run file",
        RunKind::Original => "Run file of HoloDeck 0.7",
        RunKind::Baseline => "Baseline",
    }
}
