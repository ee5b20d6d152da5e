//! Several runs side by side: a row for each case, a column for each run.

use std::{collections::HashMap, io::Write};

use askama::Template;
use holodeck_runs::pass_rate_interval;

use super::{
    ComparedRun,
    pairing::{self, Pairing},
    pairs::{Comparability, Pair, Pairs},
    phrases::describe_verdicts,
    run::{ComparedCase, show_score, state_word},
    statistics,
};
use crate::{
    GateOptions, PageLink, ReportError, SummaryFold, format,
    history::HISTORY_STYLE,
    html::{SCRIPT, STYLE, page_policy},
};

/// A run of the table.
#[derive(Debug)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct GridRun {
    /// The run.
    pub run: ComparedRun,
    /// Its page, if it has one.
    pub page: Option<String>,
    /// Its cost and its time, as far as they are known.
    pub facts: Vec<String>,
}

/// The surroundings of the table.
#[derive(Clone, Copy)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct GridPage<'a> {
    /// The links above it.
    pub links: &'a [PageLink],
    /// The address of the comparison of two runs, by their places.
    pub compare: &'a dyn Fn(usize, usize) -> String,
    /// The address of the table of all rows, or of those that differ.
    pub rows: &'a dyn Fn(bool) -> String,
    /// Whether only rows that differ are shown.
    pub only_different: bool,
}

#[derive(Template)]
#[template(path = "grid.html")]
pub(super) struct Page<'a> {
    policy: String,
    style: &'static str,
    own_style: &'static str,
    title: String,
    links: &'a [PageLink],
    shown: String,
    /// The address of the other choice of rows, if a server answers it.
    other_rows: Option<(String, &'static str)>,
    /// The best of the runs by each figure.
    best: Vec<BestRun>,
    footer: String,
    columns: Vec<Column<'a>>,
    rows: Vec<Row>,
    tests: Vec<Test>,
}

struct Column<'a> {
    letter: String,
    agent: &'a str,
    about: Vec<&'a str>,
    at: String,
    page: Option<&'a str>,
    facts: &'a [String],
    unfinished: Option<&'a str>,
    passed: String,
    interval: String,
    scores: Vec<(String, String)>,
}

struct Row {
    label: String,
    differs: bool,
    cells: Vec<Cell>,
}

struct Cell {
    class: &'static str,
    state: String,
    scores: Vec<(String, String)>,
    /// Why it cannot be compared with the first cell.
    note: &'static str,
}

struct Test {
    pair: String,
    /// The address of the comparison, if it has one.
    href: Option<String>,
    text: String,
}

/// The best of several runs by one figure.
pub(super) struct BestRun {
    pub(super) figure: String,
    /// Several, if they are equal.
    pub(super) runs: Vec<String>,
    pub(super) value: String,
    /// How many runs have the figure, if not all.
    pub(super) note: String,
}

/// Writes the table of two to six runs, which are given oldest first.
pub fn write_grid(runs: &[GridRun], page: GridPage<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    let compare = |one, other| Some((page.compare)(one, other));
    let mut shown = Page::new(runs, &compare);
    if page.only_different {
        shown.rows.retain(|row| row.differs);
    }
    shown.links = page.links;
    shown.other_rows = Some(if page.only_different {
        ((page.rows)(false), "Show all cases")
    } else {
        ((page.rows)(true), "Show only cases with different states")
    });
    Ok(shown.write_into(out)?)
}

/// The letter of a run, and after 26 a number.
pub(super) fn letter(place: usize) -> String {
    match u8::try_from(place) {
        Ok(place @ 0..=25) => char::from(b'A' + place).to_string(),
        _ => format!("No. {}", place + 1),
    }
}

impl<'a> Page<'a> {
    /// The table of all rows, with the addresses of the comparisons of every two runs.
    pub(super) fn new(runs: &'a [GridRun], compare: &dyn Fn(usize, usize) -> Option<String>) -> Self {
        let rows = rows(runs);
        let different = rows.iter().filter(|row| row.differs).count();
        Self {
            policy: page_policy(&[STYLE, HISTORY_STYLE], SCRIPT, false),
            style: STYLE,
            own_style: HISTORY_STYLE,
            title: format!("{} side by side", format::count(runs.len(), "run")),
            links: &[],
            shown: format!(
                "{}, {different} with different states",
                format::count(rows.len(), "case")
            ),
            other_rows: None,
            best: Vec::new(),
            footer: "holodeck view".to_owned(),
            columns: runs
                .iter()
                .enumerate()
                .map(|(place, run)| Column::new(run, letter(place)))
                .collect(),
            rows,
            tests: tests(runs, compare),
        }
    }

    /// The page of the runs of one matrix, which has files of its own and no server.
    pub(super) fn of_matrix(runs: &'a [GridRun], best: Vec<BestRun>, footer: String) -> Self {
        Self {
            title: format!("{} side by side", format::count(runs.len(), "combination")),
            best,
            footer,
            ..Self::new(runs, &|_, _| None)
        }
    }
}

/// A row for each case of the first run, then for those that only another one has.
fn rows(runs: &[GridRun]) -> Vec<Row> {
    let Some(first) = runs.first() else {
        return Vec::new();
    };
    let mut rows: Vec<Vec<Option<(usize, &'static str)>>> = (0..first.run.cases.len())
        .map(|place| vec![Some((place, ""))])
        .collect();
    for (column, other) in runs.iter().enumerate().skip(1) {
        add_column(&mut rows, column, first, other);
    }
    rows.iter().map(|cells| Row::new(cells, runs)).collect()
}

/// Adds the cases of another run to the rows of the first one; those that only it has are rows of their own.
fn add_column(
    rows: &mut Vec<Vec<Option<(usize, &'static str)>>>,
    column: usize,
    first: &GridRun,
    other: &GridRun,
) {
    let pairing = pairing::pair(&first.run.cases, &other.run.cases);
    let pairs = Pairs::new(&first.run, &other.run, &pairing);
    let of_first: HashMap<usize, (usize, &'static str)> = pairs
        .iter()
        .map(|pair| (pair.places.0, (pair.places.1, note(&pair))))
        .collect();
    for row in rows.iter_mut() {
        let place = row.first().copied().flatten();
        row.push(place.and_then(|(place, _)| of_first.get(&place).copied()));
    }
    for place in pairing.only_after {
        let mut row = vec![None; column];
        row.push(Some((place, "")));
        rows.push(row);
    }
}

fn note(pair: &Pair<'_>) -> &'static str {
    match pair.comparability() {
        Comparability::Same => "",
        Comparability::Unknown => "not known whether the same is expected",
        Comparability::OtherExpectation => "another expectation",
        Comparability::OtherJudge => "another judge or grader",
    }
}

impl Row {
    fn new(cells: &[Option<(usize, &'static str)>], runs: &[GridRun]) -> Self {
        let cases: Vec<Option<(&ComparedCase, &'static str)>> = runs
            .iter()
            .zip(cells)
            .map(|(run, cell)| {
                let (place, note) = (*cell)?;
                Some((run.run.cases.get(place)?, note))
            })
            .collect();
        let known = || cases.iter().flatten().map(|(case, _)| *case);
        let state = known().next().map(|case| case.state);
        Self {
            label: known().next().map_or_else(String::new, |case| case.label.clone()),
            differs: known().any(|case| Some(case.state) != state) || cases.iter().any(Option::is_none),
            cells: cases.into_iter().map(Cell::new).collect(),
        }
    }
}

impl Cell {
    fn new(case: Option<(&ComparedCase, &'static str)>) -> Self {
        let Some((case, note)) = case else {
            return Self {
                class: "unchecked",
                state: "not in this run".to_owned(),
                scores: Vec::new(),
                note: "",
            };
        };
        let trials = case.trials.filter(|_| case.repeated());
        let state = state_word(case.state);
        Self {
            class: case.state.map_or("unchecked", format::class),
            state: trials.map_or_else(
                || state.to_owned(),
                |trials| format!("{state}, {} of {}", trials.passed, trials.judged),
            ),
            scores: case.shown_scores(),
            note,
        }
    }
}

impl<'a> Column<'a> {
    fn new(run: &'a GridRun, letter: String) -> Self {
        let info = &run.run.info;
        let summary = SummaryFold::of_states(&info.states).finish();
        let interval = pass_rate_interval(&summary);
        let means = mean_scores(&run.run).into_iter();
        let means = means.map(|(label, mean, _)| (label, show_score(mean)));
        let model = info.model.iter().map(String::as_str);
        Self {
            letter,
            agent: &info.agent_name,
            about: model.chain(info.provenance.iter().map(String::as_str)).collect(),
            at: format::date(&info.at),
            page: run.page.as_deref(),
            facts: &run.facts,
            unfinished: info.unfinished.as_deref(),
            passed: format::totals(&summary),
            interval: interval.map_or_else(String::new, |(low, high)| format!("{low:.2}–{high:.2}")),
            scores: means.collect(),
        }
    }
}

/// The mean of the scores of each metric, and how many there are.
pub(super) fn mean_scores(run: &ComparedRun) -> Vec<(String, Option<f64>, usize)> {
    let mut means: Vec<(String, Vec<f64>)> = Vec::new();
    for score in run.cases.iter().flat_map(|case| &case.scores) {
        let label = score.metric.key.label();
        match means.iter_mut().find(|(known, _)| *known == label) {
            Some((_, scores)) => scores.extend(score.score),
            None => means.push((label, score.score.into_iter().collect())),
        }
    }
    let means = means.into_iter().map(|(label, scores)| {
        let mean = (!scores.is_empty()).then(|| scores.iter().sum::<f64>() / scores.len() as f64);
        (label, mean, scores.len())
    });
    means.collect()
}

/// The paired test of passes and failures of every two runs.
fn tests(runs: &[GridRun], href: &dyn Fn(usize, usize) -> Option<String>) -> Vec<Test> {
    let alpha = GateOptions::default().alpha;
    let mut tests = Vec::new();
    for (place, before) in runs.iter().enumerate() {
        for (later, after) in runs.iter().enumerate().skip(place + 1) {
            let pairing: Pairing = pairing::pair(&before.run.cases, &after.run.cases);
            let pairs = Pairs::new(&before.run, &after.run, &pairing);
            let verdicts = describe_verdicts(&statistics::verdicts(&pairs, alpha), alpha);
            tests.push(Test {
                pair: format!("{} → {}", letter(place), letter(later)),
                href: href(place, later),
                text: verdicts.into_iter().next().unwrap_or_default(),
            });
        }
    }
    tests
}

#[cfg(test)]
mod tests {
    use holodeck_model::CaseState;
    use pretty_assertions::assert_eq;

    use super::*;

    fn run(cases: &[(&str, &str, Option<CaseState>)]) -> GridRun {
        use super::super::run::{Metrics, RunInfo, RunKind, Source};
        let mut metrics = Metrics::default();
        let cases = cases.iter().map(|(name, content, state)| ComparedCase {
            name: Some((*name).to_owned()),
            label: (*name).to_owned(),
            content: Some(content_of(content)),
            state: *state,
            trials: None,
            scores: Vec::new(),
            deciders: metrics.share_deciders(holodeck_model::CaseDeciders::default()),
            answer: None,
        });
        let info = RunInfo {
            name: String::new(),
            kind: RunKind::RunFile,
            path: std::path::PathBuf::new(),
            run_id: None,
            agent_name: "<b>agent".to_owned(),
            model: None,
            at: String::new(),
            unfinished: None,
            provenance: Vec::new(),
            states: std::collections::BTreeMap::new(),
            agent_parts: std::collections::BTreeMap::new(),
            old_baseline: false,
        };
        GridRun {
            run: ComparedRun::new(info, cases.collect(), Source::File),
            page: None,
            facts: Vec::new(),
        }
    }

    fn content_of(text: &str) -> holodeck_model::CaseContent {
        let case = holodeck_model::TestCase {
            input: Some(text.to_owned()),
            ..holodeck_model::TestCase::default()
        };
        let cases = holodeck_model::Cases::from_iter([case]);
        holodeck_model::identify_cases(&cases, &holodeck_model::MemoryFiles::new())[0].content
    }

    #[test]
    fn a_case_that_a_run_lacks_is_a_difference_and_not_a_pass() {
        let (passed, failed) = (Some(CaseState::Passed), Some(CaseState::Failed));
        let runs = [
            run(&[
                ("same", "1", passed),
                ("other", "2", passed),
                ("gone", "3", passed),
            ]),
            run(&[("other", "2", failed), ("same", "1", passed)]),
            run(&[
                ("same", "1", passed),
                ("other", "2", passed),
                ("new", "4", passed),
            ]),
        ];
        let write = |only_different| {
            let mut out = Vec::new();
            let page = GridPage {
                links: &[],
                compare: &|one, two| format!("/compare?{one}&{two}"),
                rows: &|_| String::new(),
                only_different,
            };
            write_grid(&runs, page, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let all = write(false);
        assert!(all.contains("4 cases, 3 with different states"), "{all}");
        assert!(!all.contains("<b>agent"), "{all}");
        let rows = |page: &str| -> Vec<(String, usize)> {
            let rows = page.split("<tr class=").skip(1).map(|row| {
                let name = row.split("<th scope=\"row\">").nth(1).unwrap();
                let name = name.split('<').next().unwrap().trim().to_owned();
                let row = row.split("</tr>").next().unwrap();
                (name, row.matches("not in this run").count())
            });
            rows.collect()
        };
        let row = |name: &str, lacks| (name.to_owned(), lacks);
        assert_eq!(
            rows(&all),
            [row("same", 0), row("other", 0), row("gone", 2), row("new", 2)]
        );
        assert_eq!(
            rows(&write(true)),
            [row("other", 0), row("gone", 2), row("new", 2)]
        );
        assert_eq!(all.matches("/compare?").count(), 3, "{all}");
    }
}
