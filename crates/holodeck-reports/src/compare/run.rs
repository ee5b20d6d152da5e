//! A run as a comparison sees it: one line per case, without answers.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, HashSet},
    path::PathBuf,
    sync::Arc,
};

use holodeck_model::{
    CaseContent, CaseDeciders, CaseState, CheckIdentity, Decider, Digest, MetricResult, case_label,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use holodeck_runs::CaseReport;

/// Where a compared run was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunKind {
    /// The journal of a run.
    Journal,
    /// A run file or a JSON report.
    RunFile,
    /// A run file of HoloDeck 0.7.
    Original,
    /// A saved baseline.
    Baseline,
}

/// Information about a compared run as a whole.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RunInfo {
    /// The run as the user named it.
    pub name: String,
    /// The kind of file.
    pub kind: RunKind,
    /// The file.
    pub path: PathBuf,
    /// The run; absent in files of HoloDeck 0.7.
    pub run_id: Option<String>,
    /// The agent.
    pub agent_name: String,
    /// Provider and model, if known.
    pub model: Option<String>,
    /// When it started or ended, RFC 3339.
    pub at: String,
    /// Why not every planned case has a result, if so.
    pub unfinished: Option<String>,
    /// The source of the answers, if not the agent itself.
    pub provenance: Vec<String>,
    /// Number of cases by state.
    pub states: BTreeMap<&'static str, usize>,
    /// Each part of the agent that affects its answers, with its digest; empty if the file does not record them.
    #[serde(skip)]
    pub agent_parts: BTreeMap<String, String>,
    /// Whether the file is a baseline of an earlier format, which says nothing about judges and expectations.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub old_baseline: bool,
}

/// A run that can be compared. Holds one line for each case; answers and reasons are read on demand.
#[derive(Debug)]
pub struct ComparedRun {
    pub(super) info: RunInfo,
    pub(super) cases: Vec<ComparedCase>,
    pub(super) source: Source,
}

/// Where the texts of a run are read from.
#[derive(Debug)]
pub(super) enum Source {
    Journal(Box<holodeck_runs::Journal>),
    /// The table beside a journal, which is opened where a text is needed.
    Table {
        is_without_chain: bool,
    },
    File,
    Baseline,
}

/// One case of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ComparedCase {
    /// Its own name.
    pub(super) name: Option<String>,
    /// The label that is shown: its name, else the beginning of its question.
    pub(super) label: String,
    /// Its content; absent if the file does not record it.
    pub(super) content: Option<CaseContent>,
    /// The verdict; absent for a case that was not run.
    pub(crate) state: Option<CaseState>,
    /// If it ran more than once.
    pub(super) trials: Option<TrialTally>,
    pub(super) scores: Vec<ComparedScore>,
    /// The identities of everything that decides the verdict.
    pub(super) deciders: Arc<CaseDeciders>,
    /// Digest of its answers and tool calls.
    pub(crate) answer: Option<String>,
}

/// The trials of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::exhaustive_structs, reason = "three numbers")]
pub struct TrialTally {
    /// How many have a verdict.
    pub judged: u64,
    /// How many passed.
    pub passed: u64,
    /// How many ended in an error, so that they have no verdict.
    pub errors: u64,
}

/// The score of one metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ComparedScore {
    pub(super) metric: Arc<MetricIdentity>,
    /// Absent when it could not be computed.
    pub(super) score: Option<f64>,
    pub(super) threshold: Option<f64>,
    /// Whether the metric decides about the case.
    pub(super) gates: bool,
    /// Whether the metric was left out because a gate before it was missed.
    pub(super) skipped: bool,
}

/// A metric of a case, and what computed its scores.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct MetricIdentity {
    pub(super) key: MetricKey,
    pub(super) source: ScoreSource,
}

/// A metric: a name may appear twice with different options.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct MetricKey {
    pub(super) name: String,
    /// Place among the metrics of this name, from 0.
    pub(super) nth: usize,
}

impl MetricKey {
    /// `rougeL`, or `rougeL (2)` for the second one.
    pub(super) fn label(&self) -> String {
        match self.nth {
            0 => self.name.clone(),
            nth => format!("{} ({})", self.name, nth + 1),
        }
    }
}

/// The source of a score.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(clippy::exhaustive_structs, reason = "plain data of a report")]
pub struct ScoreSource {
    /// `standard`, `rag`, `geval`, `code` or `goal_success`.
    pub kind: String,
    /// The judges that voted; absent for a metric without a judge, and if the file does not name them.
    pub model: Option<String>,
    /// The scale of the scores.
    pub scale: String,
    /// The identities of everything that decides about the score and its verdict.
    #[serde(flatten)]
    pub identity: CheckIdentity,
}

/// Standard metrics that ask a judge.
const JUDGED: [&str; 4] = ["groundedness", "relevance", "coherence", "fluency"];

impl ScoreSource {
    pub(super) fn of(metric: &MetricResult) -> Self {
        Self {
            kind: metric.kind.clone(),
            model: metric.model_used.clone(),
            scale: metric.scale.clone(),
            identity: metric.identity,
        }
    }

    /// Whether a model computed the score.
    pub(super) fn is_judge(&self, metric: &str) -> bool {
        self.model.is_some()
            || matches!(self.kind.as_str(), "rag" | "geval" | "goal_success")
            || JUDGED.contains(&metric)
    }

    /// The differences between the sources of two scores. In files that record no identities, the name of the judge decides,
    /// and an unknown judge or program equals no other.
    pub(super) fn differences(&self, other: &Self, metric: &str) -> Vec<Decider> {
        if self.kind != other.kind || self.scale != other.scale {
            return vec![Decider::Judge];
        }
        if let Some(differences) = self.identity.differences(&other.identity) {
            return differences;
        }
        let are_both_unknown = self.identity.is_unknown() && other.identity.is_unknown();
        if self.is_judge(metric) || other.is_judge(metric) {
            let is_same = are_both_unknown && self.model.is_some() && self.model == other.model;
            return if is_same { Vec::new() } else { vec![Decider::Judge] };
        }
        if self.kind == "code" && !are_both_unknown {
            return vec![Decider::Grader];
        }
        Vec::new()
    }

    /// `gpt-4o, judge 1a2b3c4d, scale 0-1`.
    pub(super) fn describe(&self) -> String {
        let model = self.model.as_deref().unwrap_or("an unknown judge");
        let judge = self.identity.judge.map(|judge| {
            let short: String = judge.to_string().chars().take(8).collect();
            format!(", judge {short}")
        });
        format!("{model}{}, scale {}", judge.unwrap_or_default(), self.scale)
    }
}

/// Shares equal identities: a run has few metrics and many cases.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    metrics: HashSet<Arc<MetricIdentity>>,
    deciders: HashSet<Arc<CaseDeciders>>,
}

fn share<T: std::hash::Hash + Eq>(known: &mut HashSet<Arc<T>>, value: T) -> Arc<T> {
    if let Some(known) = known.get(&value) {
        return Arc::clone(known);
    }
    let shared = Arc::new(value);
    known.insert(Arc::clone(&shared));
    shared
}

impl Metrics {
    pub(super) fn share(&mut self, identity: MetricIdentity) -> Arc<MetricIdentity> {
        share(&mut self.metrics, identity)
    }

    pub(super) fn share_deciders(&mut self, deciders: CaseDeciders) -> Arc<CaseDeciders> {
        share(&mut self.deciders, deciders)
    }

    /// The scores of a case: of several trials, the mean of those that have one. A metric with an error has none,
    /// whatever number stands beside it.
    pub(super) fn scores<'m>(
        &mut self,
        trials: impl Iterator<Item = &'m [MetricResult]>,
    ) -> Vec<ComparedScore> {
        let mut groups: Vec<(ComparedScore, Vec<f64>)> = Vec::new();
        for metrics in trials {
            let mut seen: HashMap<Cow<'_, str>, usize> = HashMap::new();
            for metric in metrics {
                let nth = seen.entry(metric.label()).or_default();
                let key = MetricKey {
                    name: metric.label().into_owned(),
                    nth: *nth,
                };
                *nth += 1;
                let source = ScoreSource::of(metric);
                let score = metric
                    .score
                    .filter(|score| score.is_finite() && metric.error.is_none());
                let identity = self.share(MetricIdentity { key, source });
                let known = groups.iter_mut().find(|(group, _)| group.metric == identity);
                if let Some((group, scores)) = known {
                    group.gates |= metric.passed.is_some();
                    group.skipped |= metric.skipped;
                    scores.extend(score);
                } else {
                    let group = ComparedScore {
                        metric: identity,
                        score: None,
                        threshold: metric.threshold,
                        gates: metric.passed.is_some(),
                        skipped: metric.skipped,
                    };
                    groups.push((group, score.into_iter().collect()));
                }
            }
        }
        let mean =
            |scores: &[f64]| (!scores.is_empty()).then(|| scores.iter().sum::<f64>() / scores.len() as f64);
        let scores = groups.into_iter().map(|(group, scores)| ComparedScore {
            score: mean(&scores),
            ..group
        });
        scores.collect()
    }
}

/// The scores of a case of a journal.
pub(super) fn scores_of(report: &CaseReport, metrics: &mut Metrics) -> Vec<ComparedScore> {
    let trials: Vec<_> = report.metrics_of_trials().collect();
    metrics.scores(trials.iter().map(|metrics| &**metrics))
}

impl TrialTally {
    pub(super) fn of(report: &CaseReport) -> Option<Self> {
        let trials = report.trials.as_ref()?;
        Some(Self {
            judged: trials.counted().into(),
            passed: trials.passed.into(),
            errors: trials.errors.into(),
        })
    }
}

impl ComparedCase {
    /// Whether it passed or failed; errors, unchecked cases and cases that were not run have no verdict.
    pub(super) fn has_verdict(&self) -> bool {
        is_verdict(self.state)
    }

    /// Whether it has a result: a verdict, or that nothing checks it.
    pub(super) fn has_result(&self) -> bool {
        self.has_verdict() || self.state == Some(CaseState::Unchecked)
    }

    /// The share of its trials that passed; absent without a verdict.
    pub(super) fn rate(&self) -> Option<f64> {
        if !self.has_verdict() {
            return None;
        }
        match self.trials {
            Some(trials) if trials.judged > 0 => Some(trials.passed as f64 / trials.judged as f64),
            Some(_) => None,
            None => Some(if self.state == Some(CaseState::Passed) {
                1.0
            } else {
                0.0
            }),
        }
    }

    pub(super) fn repeated(&self) -> bool {
        self.trials.is_some_and(|trials| trials.judged > 1)
    }

    /// The score of each metric, as it is shown.
    pub(crate) fn shown_scores(&self) -> Vec<(String, String)> {
        let scores = self.scores.iter();
        scores
            .map(|score| (score.metric.key.label(), show_score(score.score)))
            .collect()
    }

    /// How many of its trials have no verdict.
    pub(super) fn trial_errors(&self) -> u64 {
        self.trials.map_or(0, |trials| trials.errors)
    }

    pub(super) fn score(&self, key: &MetricKey) -> Option<&ComparedScore> {
        self.scores.iter().find(|score| score.metric.key == *key)
    }
}

/// Whether a state is a pass or a failure.
pub(super) fn is_verdict(state: Option<CaseState>) -> bool {
    match state {
        Some(CaseState::Passed | CaseState::Failed | CaseState::Flaky) => true,
        Some(CaseState::Error | CaseState::Unchecked) | None => false,
    }
}

/// How much of a question identifies a case without a name.
const LABEL_CHARS: usize = 60;

/// The name that is shown: the case's own, else the beginning of its question, else its place.
pub(super) fn label(name: Option<&str>, question: &str, place: usize) -> String {
    if name.is_some() || question.trim().is_empty() {
        return case_label(name, place);
    }
    crate::format::one_line(question, LABEL_CHARS)
}

/// A short digest of the answers of a case and of its tool calls, by which an agent that did the same is recognised;
/// `None` without an answer.
pub(super) fn answer_digest<'a>(
    answers: impl IntoIterator<Item = Option<&'a str>>,
    calls: impl IntoIterator<Item = (&'a str, &'a Value)>,
) -> Option<String> {
    let answers: Vec<Option<&str>> = answers.into_iter().collect();
    answers.iter().any(Option::is_some).then(|| {
        let calls: Vec<(&str, &Value)> = calls.into_iter().collect();
        Digest::of(&json!([answers, calls])).to_string()
    })
}

/// The digest of what the agent did in a case of a journal.
pub(crate) fn answers_of(report: &CaseReport) -> Option<String> {
    let calls: Vec<_> = report.calls().collect();
    answer_digest(
        report.turns().map(|turn| turn.answer()),
        calls
            .iter()
            .map(|call| (call.call.name.as_str(), &call.call.arguments)),
    )
}

impl ComparedRun {
    /// About the run as a whole.
    pub fn info(&self) -> &RunInfo {
        &self.info
    }

    /// The number of its planned cases.
    pub fn len(&self) -> usize {
        self.cases.len()
    }

    /// Whether it has no case.
    pub fn is_empty(&self) -> bool {
        self.cases.is_empty()
    }

    /// Whether it is a journal whose lines have no digests, so that it cannot be known whether they were changed.
    pub fn is_without_chain(&self) -> bool {
        match &self.source {
            Source::Journal(journal) => journal.is_without_chain(),
            Source::Table { is_without_chain } => *is_without_chain,
            Source::File | Source::Baseline => false,
        }
    }

    pub(super) fn new(mut info: RunInfo, cases: Vec<ComparedCase>, source: Source) -> Self {
        for case in &cases {
            *info.states.entry(state_word(case.state)).or_default() += 1;
        }
        let not_run = cases.iter().filter(|case| case.state.is_none()).count();
        if not_run > 0 && info.unfinished.is_none() {
            info.unfinished = Some(format!(
                "{} without a result",
                crate::format::count(not_run, "case")
            ));
        }
        Self { info, cases, source }
    }
}

/// A score, or that there is none.
pub(super) fn show_score(score: Option<f64>) -> String {
    score.map_or_else(|| "–".to_owned(), |score| format!("{score:.2}"))
}

/// The name of a state.
pub(super) fn state_word(state: Option<CaseState>) -> &'static str {
    state.map_or("not run", crate::format::state)
}
