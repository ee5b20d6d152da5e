//! Writes the page of one case of a stored run: its transcript, verdicts and trials, the same case in other runs, and the
//! command that runs it again.

use std::io::Write;

use askama::Template;
use holodeck_eval::JudgedLine;
use holodeck_model::{CaseId, MetricResult, ReportHead};
use holodeck_runs::{CaseReport, Grade, JournalError, TurnReport, UnitRecord};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    DiffSide, PageLink, ReportError, StoredRun,
    compare::{CaseRow, journal_report},
    difference::words,
    explain::explain,
    format,
    history::HISTORY_STYLE,
    html::{Case, STYLE, VIEW_SCRIPT, page_policy},
};

/// The parts of the page that are not in the run.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct CaseSurroundings<'a> {
    /// The links above it.
    pub links: &'a [PageLink],
    /// The form for what a person says about the answer; absent if nothing may be written.
    pub label: Option<LabelForm<'a>>,
    /// The same case in the runs of the agent, newest first, each with the address of its page.
    pub runs: &'a [(String, CaseOutcome)],
    /// How many runs of the agent are older than these.
    pub more_runs: usize,
    /// How many runs of the folder are still being read.
    pub unread: usize,
}

/// The form for what a person says about an answer.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct LabelForm<'a> {
    /// Where it is sent.
    pub action: &'a str,
    /// The token that it must carry.
    pub token: &'a str,
    /// The last that was said.
    pub now: &'a AnswerLabel,
    /// The address of the table of all labelled answers.
    pub table: &'a str,
    /// The address of the form that makes a test case of the answer.
    pub save: &'a str,
}

/// The words of a person about an answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct AnswerLabel {
    /// Whether it should pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<bool>,
    /// A score from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// A word of their own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// A comment.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub comment: String,
}

/// The shown answer to a case.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredAnswer {
    /// The name of the case.
    pub name: Option<String>,
    /// The question.
    pub question: String,
    /// The answer; empty if there is none.
    pub response: String,
    /// Whether the case has several turns.
    pub is_conversation: bool,
}

/// The outcome of a case in a run, as a list of the runs has it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CaseOutcome {
    /// The run.
    pub run_id: String,
    /// Its place in the run, from 0.
    pub place: usize,
    at: String,
    class: &'static str,
    state: String,
    scores: Vec<(String, String)>,
    time: String,
    cost: String,
    answer: Option<String>,
}

impl CaseOutcome {
    /// The outcome of the case in this row, at this place of the run.
    pub fn of(row: &CaseRow, place: usize, head: &ReportHead) -> Self {
        let is_known = row.compared.state.is_some();
        Self {
            run_id: head.run_id.clone(),
            place,
            at: format::date(&head.timestamp),
            class: row.compared.state.map_or("unchecked", format::class),
            state: row.state.clone(),
            scores: row.compared.shown_scores(),
            time: if is_known {
                format::duration(row.millis)
            } else {
                String::new()
            },
            cost: row.cost_usd.map(format::cost).unwrap_or_default(),
            answer: row.compared.answer.clone(),
        }
    }
}

#[derive(Template)]
#[template(path = "case_page.html")]
struct Page<'a> {
    policy: String,
    style: &'static str,
    own_style: &'static str,
    links: &'a [PageLink],
    title: String,
    class: &'static str,
    state: String,
    facts: Vec<(&'static str, String)>,
    tags: &'a [String],
    command: Result<String, &'static str>,
    instructions: Option<(&'static str, &'a str)>,
    /// The case as the page of its run shows it.
    shown: String,
    differences: Vec<Words>,
    verdicts: Vec<Verdict<'a>>,
    questions: Vec<Question>,
    /// The thinking of the model, of each turn that has some.
    thinking: Vec<(Option<usize>, &'a str)>,
    events: Vec<String>,
    trials: Vec<Trial>,
    runs: Vec<Row<'a>>,
    missing_runs: Vec<String>,
    script: &'static str,
    label: Option<LabelForm<'a>>,
}

/// An answer word by word: what only the expected text has, what only the answer has, and what both have.
struct Words {
    turn: Option<usize>,
    parts: Vec<(&'static str, String)>,
}

struct Verdict<'a> {
    turn: Option<usize>,
    name: String,
    score: String,
    needs: String,
    class: &'static str,
    word: &'static str,
    judge: String,
    jurors: Vec<String>,
    reason: &'a str,
    details: Option<String>,
}

/// A call of a judge.
struct Question {
    /// Which trial it judged, if the case has several.
    trial: Option<usize>,
    label: String,
    model: String,
    prompt: String,
    /// The answer, or why there is none.
    answer: Result<String, String>,
}

impl Question {
    fn new(trial: Option<usize>, call: JudgedLine) -> Self {
        let answer = call.answer.ok_or_else(|| {
            let why = call.failure.unwrap_or_else(|| "not recorded".to_owned());
            format!("no answer: {why}")
        });
        Self {
            trial,
            label: if call.label.is_empty() {
                "a judge".to_owned()
            } else {
                call.label
            },
            model: answer
                .as_ref()
                .ok()
                .and_then(|answer| answer.model.clone())
                .unwrap_or_default(),
            prompt: call.prompt,
            answer: answer.map(|answer| {
                let text = serde_json::to_string_pretty(&answer.value).unwrap_or_default();
                format::clip(&text, TEXT_CHARS).into_owned()
            }),
        }
    }
}

struct Trial {
    number: usize,
    class: &'static str,
    state: &'static str,
    answer: String,
    reasons: Vec<String>,
    scores: Vec<(String, String)>,
}

struct Row<'a> {
    href: &'a str,
    outcome: &'a CaseOutcome,
    answer: &'static str,
    is_this: bool,
}

/// Limits each text of the page.
const TEXT_CHARS: usize = 200_000;

impl StoredRun {
    /// The identity of the case at a place of the run.
    pub fn case_id(&self, place: usize) -> Option<CaseId> {
        Some(self.journal().plan().get(place)?.id)
    }

    /// The shown answer to a case; `None` without a result.
    pub fn answer(&self, case: CaseId) -> Result<Option<StoredAnswer>, JournalError> {
        let mut planned = self.journal().plan().iter();
        let Some(place) = planned.position(|planned| planned.id == case) else {
            return Ok(None);
        };
        let report = journal_report(self.journal(), place)?;
        Ok(report.map(|report| StoredAnswer {
            name: report.name.clone(),
            question: report.question().into_owned(),
            response: report.answer().unwrap_or_default().to_owned(),
            is_conversation: report.unit.conversation,
        }))
    }

    /// Writes the page of the case at this place, which has a result; `false` if it has none.
    pub fn write_case(
        &self,
        place: usize,
        around: CaseSurroundings<'_>,
        out: &mut dyn Write,
    ) -> Result<bool, ReportError> {
        let journal = self.journal();
        let Some(case) = journal_report(journal, place)? else {
            return Ok(false);
        };
        let mut shown = Vec::new();
        Template::write_into(&Case::alone(&case), &mut shown)?;
        let header = journal.header();
        let usage = case.spent().tokens;
        let facts = [
            ("Run", Some(header.run_id.clone())),
            ("Date", Some(format::date(&header.started_at))),
            (
                "Model",
                Some(header.model.clone()).filter(|model| !model.is_empty()),
            ),
            ("Time", Some(format::duration(case.elapsed_ms()))),
            ("Tokens", usage.map(|usage| format::tokens(usage.total_tokens))),
            ("Cost", case.spent().cost_usd.map(format::cost)),
        ];
        let expected = case.grade.expected.as_deref();
        let events = case.turns().flat_map(|turn| events(&turn)).collect();
        let page = Page {
            policy: page_policy(&[STYLE, HISTORY_STYLE], VIEW_SCRIPT, true),
            style: STYLE,
            own_style: HISTORY_STYLE,
            links: around.links,
            title: case.label(),
            class: format::class(case.state()),
            state: format::case_state(&case).into_owned(),
            facts: facts
                .into_iter()
                .filter_map(|(name, value)| Some((name, value?)))
                .collect(),
            tags: expected.map_or(&[], |expected| &expected.tags),
            command: command(header, case.name.as_deref()),
            instructions: instructions(&header.metadata.agent_config),
            shown: String::from_utf8_lossy(&shown).into_owned(),
            differences: differences(&case),
            verdicts: verdicts(&case),
            questions: self.questions(place)?,
            thinking: case.turns().filter_map(|turn| thinking(&turn)).collect(),
            events,
            trials: self.trials(place)?,
            runs: rows(around.runs, &header.run_id),
            missing_runs: missing_runs(&around),
            script: VIEW_SCRIPT,
            label: around.label,
        };
        page.write_into(out)?;
        Ok(true)
    }

    /// The calls of judges for the verdicts on the case.
    fn questions(&self, place: usize) -> Result<Vec<Question>, JournalError> {
        let journal = self.journal();
        let units = journal.units_of(place);
        let has_trials = units.len() > 1;
        let mut questions = Vec::new();
        for (number, unit) in units.enumerate() {
            let trial = has_trials.then_some(number + 1);
            let calls = journal.judged_by(unit)?.into_iter();
            questions.extend(calls.map(|call| Question::new(trial, call)));
        }
        Ok(questions)
    }

    /// Every trial of a case that ran more than once.
    fn trials(&self, place: usize) -> Result<Vec<Trial>, JournalError> {
        let journal = self.journal();
        let units = journal.units_of(place);
        if units.len() < 2 {
            return Ok(Vec::new());
        }
        let mut trials = Vec::new();
        for (number, unit) in units.enumerate() {
            let record = journal.unit(unit).transpose()?;
            let verdict = journal.verdict(unit).transpose()?;
            if let (Some(record), Some(grade)) = (record, verdict) {
                trials.push(Trial::new(number + 1, &record, &grade));
            }
        }
        Ok(trials)
    }
}

impl Trial {
    fn new(number: usize, unit: &UnitRecord, grade: &Grade) -> Self {
        let answer = unit.turns.iter().rev().find_map(|turn| turn.answer());
        let failures = unit
            .own_failures()
            .chain(grade.turns.iter().flat_map(|turn| &turn.failures));
        let metrics: Vec<MetricResult> = grade.metrics().cloned().collect();
        let missed = metrics.iter().filter(|metric| metric.passed == Some(false));
        let missed = missed.filter_map(|metric| {
            let reason = metric.reasoning.as_deref()?;
            Some(format!("{}: {reason}", metric.label()))
        });
        Self {
            number,
            class: format::class(grade.state),
            state: format::state(grade.state),
            answer: format::clip(answer.unwrap_or("(no answer)"), TEXT_CHARS).into_owned(),
            reasons: failures
                .map(holodeck_model::Failure::line)
                .chain(missed)
                .collect(),
            scores: scores(&metrics),
        }
    }
}

fn scores(metrics: &[MetricResult]) -> Vec<(String, String)> {
    let scores = metrics.iter().map(|metric| {
        let score = metric
            .score
            .map_or_else(|| "–".to_owned(), |score| format!("{score:.2}"));
        (metric.label().into_owned(), score)
    });
    scores.collect()
}

/// The runs of the agent that are not listed.
fn missing_runs(around: &CaseSurroundings<'_>) -> Vec<String> {
    let run = |count| format::count(count, "run");
    let older = (around.more_runs > 0).then(|| format!("{} before these", run(around.more_runs)));
    let unread = (around.unread > 0).then(|| format!("{} still being read", run(around.unread)));
    older.into_iter().chain(unread).collect()
}

/// The runs, each with whether the agent did the same as in the run before it.
fn rows<'a>(runs: &'a [(String, CaseOutcome)], own: &str) -> Vec<Row<'a>> {
    let before = runs.iter().skip(1).map(|(_, outcome)| outcome.answer.as_ref());
    let rows = runs.iter().zip(before.map(Some).chain([None]));
    let rows = rows.map(|((href, outcome), before)| Row {
        href,
        answer: match (outcome.answer.as_ref(), before) {
            (_, None) => "",
            (Some(now), Some(Some(before))) if now == before => "same answer",
            (Some(_), Some(Some(_))) => "another answer",
            (_, Some(_)) => "not known",
        },
        is_this: outcome.run_id == own,
        outcome,
    });
    rows.collect()
}

fn differences(case: &CaseReport) -> Vec<Words> {
    let explanations = explain(case).into_iter();
    let words = explanations.filter_map(|explanation| {
        let difference = explanation.difference?;
        let parts = words(&difference).into_iter().map(|(side, text)| {
            let class = match side {
                DiffSide::Expected => "expected",
                DiffSide::Got => "got",
                DiffSide::Both => "",
            };
            (class, text)
        });
        Some(Words {
            turn: explanation.turn,
            parts: parts.collect(),
        })
    });
    words.collect()
}

fn verdicts(case: &CaseReport) -> Vec<Verdict<'_>> {
    let turns = case.turns().flat_map(|turn| {
        let metrics = turn.grade.metrics.iter();
        metrics.map(move |metric| Verdict::new(turn.number, metric))
    });
    let conversation = case.conversation_metrics().iter();
    turns
        .chain(conversation.map(|metric| Verdict::new(None, metric)))
        .collect()
}

impl<'a> Verdict<'a> {
    fn new(turn: Option<usize>, metric: &'a MetricResult) -> Self {
        let (class, word) = format::metric_state(metric);
        let (score, needs) = format::metric_score(metric);
        let jurors = metric
            .jurors
            .iter()
            .filter_map(|juror| serde_json::to_string(juror).ok());
        let details = metric.details.as_ref();
        Self {
            turn,
            name: metric.label().into_owned(),
            score,
            needs: needs.map_or_else(String::new, |needs| format!("needs {needs}")),
            class,
            word,
            judge: metric.model_used.clone().unwrap_or_default(),
            jurors: jurors.collect(),
            reason: metric
                .error
                .as_deref()
                .or(metric.reasoning.as_deref())
                .unwrap_or_default(),
            details: details.and_then(|details| serde_json::to_string_pretty(details).ok()),
        }
    }
}

/// The thinking of the model in a turn, with the number of the turn.
pub(crate) fn thinking<'a>(turn: &TurnReport<'a>) -> Option<(Option<usize>, &'a str)> {
    let text = turn.record.result.thinking.as_deref()?;
    (!text.trim().is_empty()).then_some((turn.number, text))
}

/// Decisions about calls, calls of nested agents and notices.
pub(crate) fn events(turn: &TurnReport<'_>) -> Vec<String> {
    let steps = serde_json::to_value(&turn.record.trajectory).unwrap_or_default();
    let steps = steps.as_array().cloned().unwrap_or_default();
    let steps = steps
        .iter()
        .filter_map(|step| serde_json::to_string_pretty(step).ok());
    steps
        .map(|step| format::clip(&step, TEXT_CHARS).into_owned())
        .collect()
}

/// The instructions of the agent as it ran, with what they are.
fn instructions(agent: &Value) -> Option<(&'static str, &str)> {
    let instructions = agent.get("instructions")?;
    let text = |field: &str| instructions.get(field).and_then(Value::as_str);
    let inline = text("inline").map(|text| ("Instructions", text));
    inline.or_else(|| text("file").map(|file| ("Instructions in the file", file)))
}

/// The command that runs the case again; else why there is none.
fn command(header: &holodeck_runs::JournalHeader, name: Option<&str>) -> Result<String, &'static str> {
    let name = name.ok_or("The case has no name, so that `--filter` cannot select it.")?;
    if [name, &header.agent_path]
        .iter()
        .any(|text| text.chars().any(char::is_control))
    {
        return Err("The name of the case has control characters, which are not safe in a command.");
    }
    let pattern: String = name
        .chars()
        .map(|c| match c {
            '*' | '?' | '[' | ']' | '{' | '}' | '!' => format!("[{c}]"),
            '\\' => "\\\\".to_owned(),
            other => other.to_string(),
        })
        .collect();
    let mut command = format!(
        "holodeck test {} --filter={}",
        quote(&header.agent_path),
        quote(&pattern)
    );
    for (path, value) in header
        .combination
        .iter()
        .flat_map(|stored| stored.values.values())
    {
        let value = holodeck_model::axis_value(value);
        command.push_str(" --matrix=");
        command.push_str(&quote(&format!("{path}={value}")));
    }
    Ok(command)
}

/// A word of a shell: nothing in it is expanded.
fn quote(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=".contains(c);
    if !word.is_empty() && !word.starts_with('-') && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
