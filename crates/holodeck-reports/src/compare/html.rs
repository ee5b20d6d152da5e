//! A comparison as one self-contained page with both sides of every changed case.

use std::io::{self, Write};

use askama::Template;

use super::{
    CaseSide, Change, ChangeKind, Comparison, GateResult, describe_metric, describe_run, describe_side,
    describe_verdicts, headline, phrases,
};
use crate::{
    PageLink,
    html::{SCRIPT, STYLE, policy},
};

/// Only the first changes are open, because a browser must lay out every open case.
const MAX_OPEN: usize = 50;

#[derive(Template)]
#[template(path = "compare.html")]
struct Page<'a> {
    policy: String,
    links: &'a [PageLink],
    style: &'static str,
    script: &'static str,
    agent: &'a str,
    tone: &'static str,
    verdict: &'static str,
    headline: String,
    runs: [(&'static str, String); 2],
    reasons: Vec<&'a str>,
    notes: Vec<&'a str>,
    verdicts: Vec<String>,
    metrics: Vec<(&'a str, String, &'static str)>,
    kinds: Vec<(&'static str, &'static str)>,
    cases: Vec<Case<'a>>,
    unpaired: Vec<(&'static str, &'a [super::UnpairedCase])>,
    version: &'static str,
}

struct Case<'a> {
    number: usize,
    class: &'static str,
    title: &'static str,
    label: &'a str,
    renamed_from: Option<&'a str>,
    open: bool,
    question: Option<&'a str>,
    sides: [Side<'a>; 2],
}

struct Side<'a> {
    title: &'static str,
    state: String,
    reason: Option<&'a str>,
    answer: &'a str,
}

/// Writes a comparison as one page, with links to other pages above it.
pub fn write_comparison_html(
    comparison: &Comparison,
    links: &[PageLink],
    out: &mut dyn Write,
) -> io::Result<()> {
    let gate = &comparison.gate;
    let tone = match gate.result {
        GateResult::Passed => "passed",
        GateResult::Failed => "failed",
        GateResult::NotComparable => "error",
    };
    let changes = comparison.changes.iter().enumerate();
    let classes = ["failed", "error", "passed", "unchecked"];
    let has = |class: &str| {
        comparison
            .changes
            .iter()
            .any(|change| phrases::class(change.kind) == class)
    };
    let kinds = [
        "newly failing",
        "lost their result",
        "newly passing",
        "not comparable, or now with a verdict",
    ];
    let page = Page {
        policy: policy(),
        links,
        style: STYLE,
        script: SCRIPT,
        agent: &comparison.after.agent_name,
        tone,
        verdict: gate.result.describe(),
        headline: headline(comparison),
        runs: [
            ("A, before", describe_run(&comparison.before)),
            ("B, now", describe_run(&comparison.after)),
        ],
        reasons: gate.reasons.iter().map(|reason| reason.text.as_str()).collect(),
        notes: comparison.notes.iter().map(String::as_str).collect(),
        verdicts: describe_verdicts(&comparison.verdicts, comparison.alpha),
        metrics: comparison
            .metrics
            .iter()
            .map(|metric| {
                (
                    metric.metric.as_str(),
                    describe_metric(metric),
                    outcome_class(metric.outcome),
                )
            })
            .collect(),
        kinds: classes
            .into_iter()
            .zip(kinds)
            .filter(|(class, _)| has(class))
            .collect(),
        cases: changes.map(|(place, change)| Case::new(place, change)).collect(),
        unpaired: [
            ("Missing cases", comparison.missing.as_slice()),
            ("New cases", comparison.added.as_slice()),
        ]
        .into_iter()
        .filter(|(_, cases)| !cases.is_empty())
        .collect(),
        version: env!("CARGO_PKG_VERSION"),
    };
    Template::write_into(&page, out)
}

fn outcome_class(outcome: super::Outcome) -> &'static str {
    match outcome {
        super::Outcome::Worse => "failed",
        super::Outcome::Better => "passed",
        super::Outcome::Unclear | super::Outcome::NotTested => "unchecked",
    }
}

impl<'a> Case<'a> {
    fn new(place: usize, change: &'a Change) -> Self {
        let question = change.after.texts.question.as_deref();
        Self {
            number: place + 1,
            class: phrases::class(change.kind),
            title: change.kind.title(),
            label: &change.case,
            renamed_from: change.renamed_from.as_deref(),
            open: place < MAX_OPEN && change.kind != ChangeKind::NewlyPassing,
            question: question.or(change.before.texts.question.as_deref()),
            sides: [
                Side::new("A, before", &change.before),
                Side::new("B, now", &change.after),
            ],
        }
    }
}

impl<'a> Side<'a> {
    fn new(title: &'static str, side: &'a CaseSide) -> Self {
        Self {
            title,
            state: describe_side(side),
            reason: side.texts.reason.as_deref(),
            answer: side.texts.answer.as_deref().unwrap_or("(no answer stored)"),
        }
    }
}
