//! Compares two runs: which cases changed, whether that is more than chance, and whether a gate should let it pass.
//!
//! A run is a list of one line per case, read from a journal, a run file or a baseline; answers and reasons are read
//! only for the cases that changed. This module must not ask a model or print.
//!
//! Start reading at [`compare`], then `pairing::pair` and `statistics`.

mod baseline;
mod file_page;
mod files;
mod gate;
mod grid;
mod html;
mod markdown;
mod matrix_page;
mod options;
mod pairing;
mod pairs;
mod phrases;
mod read;
mod run;
mod since;
mod statistics;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use holodeck_model::Difference;
use serde::{Deserialize, Serialize};

pub use baseline::write_baseline;
pub use baseline::{DEFAULT_NAME, check_baseline_name, is_baseline, other_owner};
pub use file_page::{FilePage, file_page};
pub use files::{compare_read, read_compared};
pub use gate::{Gate, GateReason, GateReasonKind, GateResult};
pub use grid::{GridPage, GridRun, write_grid};
pub use html::write_comparison_html;
pub use markdown::write_comparison_markdown;
pub use matrix_page::write_matrix;
pub use options::GateOptions;
use pairs::Pairs;
pub use phrases::{describe_metric, describe_run, describe_side, describe_verdicts, headline};
pub(crate) use read::journal_report;
pub use read::{CaseTexts, ReadRunError, RunReader};
use run::state_word;
pub use run::{ComparedRun, RunInfo, RunKind, ScoreSource, TrialTally};
pub use since::{RunChanges, changed_places};
pub use statistics::{MetricTest, Outcome, TestMethod, VerdictTest};
pub use table::RunTable;
pub(crate) use table::{CaseRow, TableFold};

use crate::format;

/// Version of the JSON object of a comparison.
pub const COMPARISON_VERSION: u32 = 1;

/// Limits the cases whose texts are shown; the others are listed by name.
const MAX_TEXTS: usize = 500;

/// Two runs of the same cases, compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Comparison {
    /// The earlier run, A.
    pub before: RunInfo,
    /// The later run, B.
    pub after: RunInfo,
    /// The level of significance.
    pub alpha: f64,
    /// Notes that a reader needs to interpret the numbers.
    pub notes: Vec<String>,
    /// Numbers of cases.
    pub counts: Counts,
    /// Changed cases: newly failing first, then those that lost their verdict, then newly passing ones.
    pub changes: Vec<Change>,
    /// Cases of A that are not in B.
    pub missing: Vec<UnpairedCase>,
    /// Cases of B that are not in A.
    pub added: Vec<UnpairedCase>,
    /// The test of passes and failures.
    pub verdicts: VerdictTest,
    /// The test of each metric's scores.
    pub metrics: Vec<MetricTest>,
    /// Each check and rule about which something else decides now, with the number of cases.
    pub changed: Vec<ChangedDecider>,
    /// The parts of the agent that differ, as far as both files record them.
    pub agent_changes: Vec<String>,
    /// The decision of `--gate`.
    pub gate: Gate,
}

/// Numbers of cases of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(clippy::exhaustive_structs, reason = "plain numbers of a report")]
pub struct Counts {
    /// Cases in both runs.
    pub pairs: usize,
    /// Pairs with a verdict on both sides that can be compared.
    pub with_verdict: usize,
    /// Pairs of which something else is expected now; they are not tested.
    pub other_expectation: usize,
    /// Pairs that another judge or grader program decides now; they are not tested.
    pub other_judge: usize,
    /// Pairs of which it is not known whether the same was expected.
    pub unknown_expectation: usize,
    /// Passed in both.
    pub still_passing: usize,
    /// Failed in both.
    pub still_failing: usize,
    /// Passed before, fail now.
    pub newly_failing: usize,
    /// Failed before, pass now.
    pub newly_passing: usize,
    /// Had a result before; end in an error or are not run now.
    pub new_errors: usize,
    /// With more trials than before that end in an error; the rates of passes do not contain these.
    pub more_trial_errors: usize,
    /// Had a verdict before; nothing checks them now.
    pub no_longer_checked: usize,
    /// Without a verdict before; have one now.
    pub first_verdicts: usize,
    /// Without a verdict on both sides.
    pub without_verdict: usize,
    /// With the same answers and tool calls on both sides, as far as they are known.
    pub same_answer: usize,
    /// Paired by name although the question changed.
    pub other_question: usize,
    /// Only in A.
    pub missing: usize,
    /// Only in B.
    pub added: usize,
    /// Only in B, and failed.
    pub added_failing: usize,
    /// Only in B, and without a result: they end in an error or are not run.
    pub added_errors: usize,
}

/// A case whose verdict changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Change {
    /// The kind of the change.
    pub kind: ChangeKind,
    /// The case's name now, else the beginning of its question.
    pub case: String,
    /// Its name before, if it was another one.
    pub renamed_from: Option<String>,
    /// The names of everything else that decides its verdict now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<String>,
    /// Before.
    pub before: CaseSide,
    /// Now.
    pub after: CaseSide,
}

/// One side of a changed case.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CaseSide {
    /// `passed`, `failed`, `flaky`, `error`, `unchecked` or `not run`.
    pub state: &'static str,
    /// Its trials, if it ran more than once.
    pub trials: Option<TrialTally>,
    /// Its texts, shortened.
    #[serde(flatten)]
    pub texts: CaseTexts,
}

/// How the verdict of a case changed, the most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChangeKind {
    /// Passed before, fails now.
    NewlyFailing,
    /// Had a result before; ends in an error or is not run now.
    NewError,
    /// Had a verdict before; nothing checks it now.
    NoLongerChecked,
    /// Failed before, passes now.
    NewlyPassing,
    /// Something else is expected of it now, so that its verdicts are not compared.
    OtherExpectation,
    /// Another judge or grader program decides now, so that its verdicts are not compared.
    OtherJudge,
    /// Had no verdict before and has one now.
    FirstVerdict,
}

/// A check or a rule about which something else decides now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ChangedDecider {
    /// The difference.
    #[serde(flatten)]
    pub difference: Difference,
    /// In how many cases.
    pub cases: usize,
}

/// A case that only one of the runs has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct UnpairedCase {
    /// Its name, else the beginning of its question.
    pub case: String,
    /// Its state.
    pub state: &'static str,
}

impl ChangeKind {
    /// Every kind, the most important first.
    pub const ALL: [Self; 7] = [
        Self::NewlyFailing,
        Self::NewError,
        Self::NoLongerChecked,
        Self::NewlyPassing,
        Self::OtherExpectation,
        Self::OtherJudge,
        Self::FirstVerdict,
    ];

    /// The title of the cases of this kind.
    pub fn title(self) -> &'static str {
        match self {
            Self::NewlyFailing => "newly failing",
            Self::NewError => "new errors",
            Self::NoLongerChecked => "no longer checked",
            Self::NewlyPassing => "newly passing",
            Self::OtherExpectation => "another expectation",
            Self::OtherJudge => "another judge or grader",
            Self::FirstVerdict => "now with a verdict",
        }
    }

    /// Whether the change is bad news.
    pub fn is_regression(self) -> bool {
        matches!(self, Self::NewlyFailing | Self::NewError | Self::NoLongerChecked)
    }
}

/// Compares the run `before` with the run `after`.
pub fn compare(
    reader: &RunReader<'_>,
    before: &ComparedRun,
    after: &ComparedRun,
    options: &GateOptions,
) -> Result<Comparison, ReadRunError> {
    let pairing = pairing::pair(&before.cases, &after.cases);
    let pairs = Pairs::new(before, after, &pairing);
    let counts = pairs.count(&pairing);
    let verdicts = statistics::verdicts(&pairs, options.alpha);
    let metrics = statistics::metrics(&pairs, options.alpha);
    let changes = changes(reader, &pairs)?;
    let mut comparison = Comparison {
        before: before.info.clone(),
        after: after.info.clone(),
        alpha: options.alpha,
        notes: Vec::new(),
        counts,
        changes,
        missing: unpaired(before, &pairing.only_before),
        added: unpaired(after, &pairing.only_after),
        verdicts,
        metrics,
        changed: pairs.changed(),
        agent_changes: since::agent_changes(&before.info, &after.info).unwrap_or_default(),
        gate: Gate::default(),
    };
    comparison.notes = phrases::notes(&comparison);
    let without_chain = [(before, "earlier"), (after, "later")].into_iter();
    let without_chain = without_chain.filter(|(run, _)| run.is_without_chain());
    comparison.notes.extend(without_chain.map(|(_, which)| {
        format!("an earlier version of holodeck recorded the {which} run; whether its journal was changed is not known")
    }));
    comparison.gate = Gate::decide(&comparison, options, pairs.losses(&pairing, options));
    Ok(comparison)
}

fn unpaired(run: &ComparedRun, places: &[usize]) -> Vec<UnpairedCase> {
    let cases = places.iter().filter_map(|place| run.cases.get(*place));
    cases
        .map(|case| UnpairedCase {
            case: case.label.clone(),
            state: state_word(case.state),
        })
        .collect()
}

/// The changed cases, with their texts.
fn changes(reader: &RunReader<'_>, pairs: &Pairs<'_>) -> Result<Vec<Change>, ReadRunError> {
    let mut changed: Vec<(ChangeKind, pairs::Pair<'_>)> = pairs
        .iter()
        .filter_map(|pair| Some((pair.change()?, pair)))
        .collect();
    changed.sort_by_key(|(kind, pair)| (*kind, pair.places.1));
    let shown = || changed.iter().take(MAX_TEXTS).map(|(_, pair)| pair.places);
    let places: BTreeSet<usize> = shown().map(|(before, _)| before).collect();
    let mut texts_before = reader.texts(pairs.before, &places)?;
    let places: BTreeSet<usize> = shown().map(|(_, after)| after).collect();
    let mut texts_after = reader.texts(pairs.after, &places)?;
    let side = |case: &run::ComparedCase, texts: Option<CaseTexts>| CaseSide {
        state: state_word(case.state),
        trials: case.trials.filter(|_| case.repeated()),
        texts: texts.unwrap_or_default(),
    };
    let changes = changed.into_iter().map(|(kind, pair)| {
        let renamed = pair.before.name.is_some() && pair.before.name != pair.after.name;
        let differences = pair.differences().unwrap_or_default();
        Change {
            kind,
            differences: differences.iter().map(ToString::to_string).collect(),
            case: pair.after.label.clone(),
            renamed_from: renamed.then(|| pair.before.label.clone()),
            before: side(pair.before, texts_before.remove(&pair.places.0)),
            after: side(pair.after, texts_after.remove(&pair.places.1)),
        }
    });
    Ok(changes.collect())
}

/// The JSON object of a comparison, with its exit code.
pub fn comparison_json(comparison: &Comparison) -> serde_json::Value {
    let mut object = serde_json::json!({
        "comparison": COMPARISON_VERSION,
        "exit_code": comparison.exit().code(),
    });
    if let (Some(object), Ok(serde_json::Value::Object(fields))) =
        (object.as_object_mut(), serde_json::to_value(comparison))
    {
        object.extend(fields);
    }
    object
}

impl Comparison {
    /// The changed cases of one kind.
    pub fn changes_of(&self, kind: ChangeKind) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(move |change| change.kind == kind)
    }

    /// Whether anything of the two runs could be compared.
    pub fn is_comparable(&self) -> bool {
        self.counts.with_verdict > 0 || self.metrics.iter().any(|metric| metric.pairs > 0)
    }

    /// `12 cases`, for the number of pairs.
    fn paired(&self) -> String {
        format::count(self.counts.pairs, "case")
    }
}
