//! Baselines: the small, sorted file that a repository keeps to compare later runs with.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufReader, Write},
    path::Path,
};

use holodeck_model::{CaseContent, CaseDeciders, CaseState, CheckIdentity, Redactor};
use serde::{Deserialize, Serialize};

use super::run::{
    ComparedCase, ComparedScore, MetricIdentity, MetricKey, Metrics, ScoreSource, TrialTally, answers_of,
    scores_of,
};
use crate::{ReportError, RunView, explain_in_a_line, format};
use holodeck_runs::{CaseReport, RunOwner};

/// The name of a baseline without a name.
pub const DEFAULT_NAME: &str = "baseline";

/// The format that this version writes.
pub(super) const BASELINE_VERSION: u64 = 2;

/// The format that this version still reads. It says nothing about judges and expectations.
pub(super) const OLD_BASELINE_VERSION: u64 = 1;

/// A reason in a baseline is a reminder, not a report.
const REASON_CHARS: usize = 200;
const QUESTION_CHARS: usize = 60;

/// One case of a baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct BaselineCase {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The beginning of the question of a case without a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    question: Option<String>,
    content: CaseContent,
    state: CaseState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trials: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trials_passed: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trial_errors: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    metrics: Vec<BaselineMetric>,
    /// Why it did not pass, shortened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    /// Digest of the answers and tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
    /// The identities of everything that decides the verdict.
    #[serde(default, skip_serializing_if = "CaseDeciders::is_unknown")]
    deciders: CaseDeciders,
}

/// One metric of a case of a baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct BaselineMetric {
    name: String,
    kind: String,
    score: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    threshold: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    judge: Option<String>,
    #[serde(default, skip_serializing_if = "CheckIdentity::is_unknown")]
    identity: CheckIdentity,
    scale: String,
    /// Whether the metric decides about the case.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    gates: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    skipped: bool,
}

impl BaselineCase {
    fn of(report: &CaseReport, redactor: &Redactor) -> Self {
        let name = report
            .name
            .as_deref()
            .map(|name| redactor.text(name).into_owned());
        let reason = format::one_line(&explain_in_a_line(report), REASON_CHARS);
        let mut metrics = Metrics::default();
        let scores = scores_of(report, &mut metrics);
        let trials = TrialTally::of(report);
        Self {
            question: name
                .is_none()
                .then(|| format::one_line(&report.question(), QUESTION_CHARS)),
            name,
            content: report.unit.case.content,
            state: report.state(),
            trials: trials.map(|trials| trials.judged),
            trials_passed: trials.map(|trials| trials.passed),
            trial_errors: trials.map(|trials| trials.errors).filter(|errors| *errors > 0),
            metrics: scores.iter().map(BaselineMetric::of).collect(),
            reason: Some(reason).filter(|reason| !reason.is_empty()),
            answer: answers_of(report),
            deciders: report.deciders(),
        }
    }

    pub(super) fn into_compared(self, place: usize, metrics: &mut Metrics) -> ComparedCase {
        let label = super::run::label(
            self.name.as_deref(),
            self.question.as_deref().unwrap_or_default(),
            place,
        );
        let trials = self.trials.zip(self.trials_passed);
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        let mut scores = Vec::new();
        for metric in self.metrics {
            let nth = seen.entry(metric.name.clone()).or_default();
            let key = MetricKey {
                name: metric.name,
                nth: *nth,
            };
            *nth += 1;
            let source = ScoreSource {
                kind: metric.kind,
                model: metric.judge,
                scale: metric.scale,
                identity: metric.identity,
            };
            scores.push(ComparedScore {
                metric: metrics.share(MetricIdentity { key, source }),
                score: metric.score.filter(|score| score.is_finite()),
                threshold: metric.threshold,
                gates: metric.gates,
                skipped: metric.skipped,
            });
        }
        ComparedCase {
            label,
            content: Some(self.content),
            state: Some(self.state),
            trials: trials.map(|(judged, passed)| TrialTally {
                judged,
                passed,
                errors: self.trial_errors.unwrap_or(0),
            }),
            scores,
            deciders: metrics.share_deciders(self.deciders),
            answer: self.answer,
            name: self.name,
        }
    }
}

impl BaselineMetric {
    fn of(score: &ComparedScore) -> Self {
        let MetricIdentity { key, source } = &*score.metric;
        Self {
            name: key.name.clone(),
            kind: source.kind.clone(),
            score: score.score,
            threshold: score.threshold,
            judge: source.model.clone(),
            identity: source.identity,
            scale: source.scale.clone(),
            gates: score.gates,
            skipped: score.skipped,
        }
    }
}

/// Writes a baseline: one line per case, sorted, so that a change of one case changes one line.
pub fn write_baseline(
    view: &RunView<'_>,
    owner: &RunOwner,
    redactor: &Redactor,
    out: &mut dyn Write,
) -> Result<(), ReportError> {
    let mut lines = Vec::new();
    for report in view.cases() {
        let case = BaselineCase::of(&report?, redactor);
        let line = serde_json::to_string(&case).map_err(std::io::Error::from)?;
        lines.push((case.name, case.question, case.content, line));
    }
    // Equal cases keep their order, by which they are paired.
    lines.sort_by(
        |(a_name, a_question, a_content, _), (b_name, b_question, b_content, _)| {
            (a_name.is_none(), a_name, a_question, a_content).cmp(&(
                b_name.is_none(),
                b_name,
                b_question,
                b_content,
            ))
        },
    );
    let text = |text: &str| serde_json::to_string(&*redactor.text(text)).map_err(std::io::Error::from);
    let head = view.head;
    writeln!(out, "{{\n\"holodeck_baseline\": {BASELINE_VERSION},")?;
    writeln!(out, "\"agent\": {},", text(&head.agent_name)?)?;
    writeln!(out, "\"agent_file\": {},", text(owner.file())?)?;
    writeln!(out, "\"model\": {},", text(view.model)?)?;
    writeln!(out, "\"run\": {},", text(&head.run_id)?)?;
    writeln!(out, "\"saved_at\": {},", text(&head.timestamp)?)?;
    if let Some(combination) = &head.combination {
        let combination = serde_json::to_string(combination).map_err(std::io::Error::from)?;
        writeln!(out, "\"combination\": {combination},")?;
    }
    if let Some(replayed) = &head.replayed {
        let replayed = serde_json::to_string(replayed).map_err(std::io::Error::from)?;
        writeln!(out, "\"replayed\": {replayed},")?;
    }
    if let Some(partial) = &head.partial {
        let partial = serde_json::to_string(partial).map_err(std::io::Error::from)?;
        writeln!(out, "\"partial\": {partial},")?;
    }
    write!(out, "\"agent_parts\": {{")?;
    for (place, (part, digest)) in head.agent_parts.iter().enumerate() {
        let separator = if place == 0 { "" } else { "," };
        write!(out, "{separator}\n{}: {}", text(part)?, text(digest)?)?;
    }
    writeln!(out, "\n}},")?;
    write!(out, "\"cases\": [")?;
    for (place, (.., line)) in lines.iter().enumerate() {
        let separator = if place == 0 { "" } else { "," };
        write!(out, "{separator}\n{line}")?;
    }
    writeln!(out, "\n]\n}}")?;
    Ok(())
}

/// The agent of the baseline in this file, if it is another one than `own`. A baseline of an earlier version names only
/// the agent, not its file; a file that cannot be read is not known to be of another agent.
pub fn other_owner(path: &Path, own: &RunOwner, redactor: &Redactor) -> Option<RunOwner> {
    #[derive(Deserialize)]
    struct Head {
        agent: String,
        agent_file: Option<String>,
    }
    let file = BufReader::with_capacity(1 << 16, File::open(path).ok()?);
    let head: Head = serde_json::from_reader(file).ok()?;
    // It was masked when it was written.
    let own = own.masked(redactor);
    let file = head.agent_file.unwrap_or_else(|| own.file().to_owned());
    let owner = RunOwner::new(Path::new(&file), Some(&head.agent));
    (!own.is_same(&owner)).then_some(owner)
}

/// Whether a file with this beginning is a baseline, which a new one may replace.
pub fn is_baseline(beginning: &str) -> bool {
    beginning
        .trim_start()
        .strip_prefix('{')
        .is_some_and(|rest| rest.trim_start().starts_with("\"holodeck_baseline\""))
}

/// Checks the name of a baseline, which becomes a file name.
pub fn check_baseline_name(name: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
        return Err(format!(
            "`{name}` is not the name of a baseline: use letters, digits, `-`, `_` and `.`"
        ));
    }
    Ok(())
}
