//! A case of a stored run as the beginning of a conversation.

use std::path::{Path, PathBuf};

use holodeck_backend_api::Outcome;
use holodeck_chat::PastTurn;
use holodeck_model::{CaseState, ExecutionState, ResolvedAgent, case_label, closest};
use holodeck_reports::{
    explain_in_a_line,
    format::{count, state},
};
use holodeck_runs::{
    AgentRuns, CaseReport, Expected, Journal, JournalError, Member, RunUse, StoreError, UnitRecord,
    changed_parts, is_path,
};
use holodeck_turn::TurnRecord;
use serde::Deserialize;

use crate::Chat;

/// The size limit of a report.
const MAX_REPORT: u64 = 1 << 30;

/// Names of cases in a message.
const SHOWN_CASES: usize = 5;

/// A recorded case.
#[derive(Debug)]
#[non_exhaustive]
pub struct RecordedCase {
    /// A description: the case, the run, and the verdict.
    pub description: String,
    /// Its turns, without those that were skipped.
    pub turns: Vec<PastTurn>,
    /// Notes for the person about it.
    pub notes: Vec<String>,
    journal: Journal,
}

/// Why a case cannot be found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordedCaseError {
    /// The name has another form.
    #[error("`{given}` does not name a case of a run")]
    Form {
        /// The input of the user.
        given: String,
    },
    /// No such run.
    #[error(transparent)]
    Run(#[from] StoreError),
    /// The run cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The file is neither a journal nor a report of this version.
    #[error("`{path}` is not a run: it is neither a journal nor a report with a `run_id`")]
    NotARun {
        /// The file.
        path: String,
    },
    /// The run has no such case.
    #[error("run `{run}` has no case `{name}`")]
    NoCase {
        /// The run.
        run: String,
        /// The name.
        name: String,
        /// A case with a similar name.
        similar: Option<String>,
        /// Cases of the run, those that did not pass first.
        cases: Vec<String>,
    },
    /// Several cases have the name.
    #[error("run `{run}` has {} cases `{name}`", places.len())]
    Ambiguous {
        /// The run.
        run: String,
        /// The name.
        name: String,
        /// The places that distinguish them.
        places: Vec<String>,
    },
    /// The case was planned, and did not run.
    #[error("case `{name}` has no answer in run `{run}`")]
    NotRun {
        /// The run.
        run: String,
        /// The case.
        name: String,
    },
}

/// Finds the case `from`, in the form `RUN:CASE`, among the runs of the agent. RUN is a run id, its beginning,
/// `latest`, or the path of a journal or of a report; CASE is the name of a case, or `#3` for the third. Of several
/// trials, the first that did not pass.
pub fn recorded_case(agent: &ResolvedAgent, from: &str) -> Result<RecordedCase, RecordedCaseError> {
    let (run, name) = split(from).ok_or_else(|| RecordedCaseError::Form {
        given: from.to_owned(),
    })?;
    let journal = Journal::open(&find_journal(&AgentRuns::of(agent), run)?)?;
    let place = find_case(&journal, name)?;
    let run = journal.header().run_id.clone();
    let missing = || RecordedCaseError::NotRun {
        run: run.clone(),
        name: name.to_owned(),
    };
    let (trial, unit) = find_trial(&journal, place)?.ok_or_else(missing)?;
    let verdict = journal.verdict(unit).transpose()?;
    let record = journal.unit(unit).transpose()?.ok_or_else(missing)?;
    let label = case_label(record.name.as_deref(), place);
    let trials = journal.units_of(place).len();
    let mut description = match trials {
        0 | 1 => format!("`{label}` of run {run}"),
        _ => format!("`{label}` of run {run}, trial {} of {trials}", trial + 1),
    };
    let (turns, mut notes) = past_turns(&record);
    if turns.is_empty() {
        return Err(missing());
    }
    if let Some(grade) = verdict {
        description = format!("{description}: {}", state(grade.state));
        let report = CaseReport {
            index: place,
            name: record.name.clone(),
            tags: Vec::new(),
            input: String::new(),
            expected: Expected::default(),
            expected_turns: Vec::new(),
            unit: record,
            grade,
            trials: None,
        };
        let reason = explain_in_a_line(&report);
        if !reason.is_empty() {
            notes.insert(0, reason);
        }
    }
    Ok(RecordedCase {
        description,
        turns,
        notes,
        journal,
    })
}

/// The run and the case. A path may contain colons, and so may the name of a case; a run id has none.
fn split(from: &str) -> Option<(&str, &str)> {
    let mut colons = from.match_indices(':').map(|(at, _)| at);
    let at = colons
        .clone()
        .find(|at| from.get(..*at).is_some_and(is_file))
        .or_else(|| colons.next())?;
    let (run, case) = from.split_at_checked(at)?;
    let case = case.get(1..)?.trim();
    (!run.is_empty() && !case.is_empty()).then_some((run, case))
}

fn is_file(run: &str) -> bool {
    is_path(run) && Path::new(run).is_file()
}

fn find_journal(runs: &AgentRuns, run: &str) -> Result<PathBuf, RecordedCaseError> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Head {
        holodeck_journal: Option<u64>,
        run_id: Option<String>,
        report: Report,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Report {
        run_id: Option<String>,
    }
    let find = |run: &str| runs.find(run, RunUse::Read, Member::With(&[]));
    if !is_file(run) {
        return Ok(find(run)?.journal);
    }
    let path = Path::new(run);
    let not_a_run = || RecordedCaseError::NotARun { path: run.to_owned() };
    let text = holodeck_model::read_text_input(path, MAX_REPORT).map_err(|_| not_a_run())?;
    // A journal has one object a line.
    let first = serde_json::Deserializer::from_str(&text)
        .into_iter::<Head>()
        .next();
    match first {
        Some(Ok(Head {
            holodeck_journal: Some(_),
            ..
        })) => Ok(path.to_owned()),
        Some(Ok(head)) => {
            let id = head.run_id.or(head.report.run_id).ok_or_else(not_a_run)?;
            Ok(find(&id)?.journal)
        }
        _ => Err(not_a_run()),
    }
}

/// The place of a case in the plan.
fn find_case(journal: &Journal, name: &str) -> Result<usize, RecordedCaseError> {
    let mut cases = Vec::new();
    for place in 0..journal.plan().len() {
        let Some(unit) = journal.units_of(place).find(|unit| journal.has_answer(*unit)) else {
            cases.push((place, case_label(None, place), false));
            continue;
        };
        let record = journal.unit(unit).transpose()?;
        let name = record.and_then(|record| record.name);
        let passed = journal.verdict(unit).transpose()?;
        let passed = passed.is_some_and(|grade| grade.state == CaseState::Passed);
        cases.push((place, case_label(name.as_deref(), place), passed));
    }
    let run = || journal.header().run_id.clone();
    let named = |fits: &dyn Fn(&str) -> bool| -> Vec<usize> {
        let fitting = cases.iter().filter(|(_, label, _)| fits(label));
        fitting.map(|(place, _, _)| *place).collect()
    };
    let mut found = named(&|label| label == name);
    if found.is_empty() {
        let number = name
            .strip_prefix('#')
            .and_then(|number| number.parse::<usize>().ok());
        let place = number.and_then(|number| number.checked_sub(1));
        found.extend(place.filter(|place| *place < cases.len()));
    }
    if found.is_empty() {
        found = named(&|label| label.to_lowercase() == name.to_lowercase());
    }
    match found.as_slice() {
        [place] => Ok(*place),
        [] => {
            let similar = closest(name, cases.iter().map(|(_, label, _)| label.as_str()));
            let similar = similar.map(str::to_owned);
            cases.sort_by_key(|(_, _, passed)| *passed);
            Err(RecordedCaseError::NoCase {
                run: run(),
                name: name.to_owned(),
                similar,
                cases: cases
                    .into_iter()
                    .map(|(_, label, _)| label)
                    .take(SHOWN_CASES)
                    .collect(),
            })
        }
        several => Err(RecordedCaseError::Ambiguous {
            run: run(),
            name: name.to_owned(),
            places: several.iter().map(|place| case_label(None, *place)).collect(),
        }),
    }
}

/// The first trial of a case that did not pass, or the first one; with its number from 0.
fn find_trial(journal: &Journal, place: usize) -> Result<Option<(usize, usize)>, JournalError> {
    let mut first = None;
    for (trial, unit) in journal.units_of(place).enumerate() {
        if !journal.has_answer(unit) {
            continue;
        }
        let grade = journal.verdict(unit).transpose()?;
        if grade.is_none_or(|grade| grade.state != CaseState::Passed) {
            return Ok(Some((trial, unit)));
        }
        first = first.or(Some((trial, unit)));
    }
    Ok(first)
}

fn past_turns(record: &UnitRecord) -> (Vec<PastTurn>, Vec<String>) {
    let is_skipped = |turn: &&TurnRecord| turn.state == ExecutionState::Skipped;
    let turns = record
        .turns
        .iter()
        .filter(|turn| !is_skipped(turn))
        .map(past_turn);
    let mut notes = Vec::new();
    let skipped = record.turns.iter().filter(is_skipped).count();
    if skipped > 0 {
        notes.push(format!("{} skipped in the run", count(skipped, "turn")));
    }
    let files: usize = record.turns.iter().map(|turn| turn.files.len()).sum();
    if files > 0 {
        notes.push(format!(
            "the model does not see the case's {} again; `/attach` attaches a file",
            count(files, "file")
        ));
    }
    (turns.collect(), notes)
}

fn past_turn(turn: &TurnRecord) -> PastTurn {
    let mut result = turn.result.clone();
    if turn.state == ExecutionState::Error && !result.is_error() {
        let reasons = turn.failures.iter().map(|failure| failure.text.as_str());
        result.outcome = Outcome::Failed {
            reason: reasons.collect::<Vec<_>>().join("; "),
        };
    }
    result.token_usage = turn.usage;
    result.cost_usd = turn.cost_usd;
    PastTurn {
        message: turn.input.clone(),
        result,
    }
}

impl RecordedCase {
    /// A note for the person about the agent: that it is another one than in the run, or has changed since.
    pub fn changes(&self, chat: &Chat, env: &holodeck_model::Env) -> Option<String> {
        let header = self.journal.header();
        let agent = chat.agent();
        if header.agent_name != agent.config.name {
            return Some(format!(
                "the run is of agent `{}`, and this is `{}`",
                header.agent_name, agent.config.name
            ));
        }
        let now = match chat.fingerprint(env) {
            Ok(now) => now,
            Err(error) => {
                return Some(format!(
                    "whether the agent changed since the run is unknown: {error}"
                ));
            }
        };
        let is_recording = now.contains_key(RECORDING);
        let same_source = header.agent.contains_key(RECORDING) == is_recording;
        let is_of_agent = |part: &String| {
            let is_source = part == RECORDING || part == "model.endpoint" || part.starts_with("variable ");
            !part.starts_with("test case") && (same_source || !is_source)
        };
        let changed = changed_parts(&header.agent, &now);
        let changed: Vec<_> = changed.into_iter().filter(is_of_agent).collect();
        // An old journal does not describe its agent.
        if changed.is_empty() || header.agent.is_empty() {
            return None;
        }
        Some(format!(
            "the agent has changed since the run: {}",
            changed.join(", ")
        ))
    }
}

/// The part of a fingerprint that an agent has only in a replay.
const RECORDING: &str = "recording";
