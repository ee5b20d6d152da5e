//! A graded case, for everything after grading: reports, progress, totals and the exit code.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap},
};

use holodeck_backend_api::{ToolCall, ToolResult};
use holodeck_model::{
    ApprovalDetail, CaseDeciders, CaseState, Decimal, Digest, ExecutionState, ExecutorRecord, Failure,
    LoopSummary, MetricResult, MissingVote, Redactor, ResolvedAgent, Spent, case_label,
};
use holodeck_turn::TurnRecord;

use crate::{
    ExitCode,
    expectations::of_conversation,
    expected::{CaseExpected, Expected},
    record::{Grade, TurnGrade, UnitRecord, UserRecord},
    trials::Trials,
};

/// A case that was executed and graded, with secrets masked.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseReport {
    /// Place in the file, from 0.
    pub index: usize,
    /// The case's name.
    pub name: Option<String>,
    /// The tags of the case.
    pub tags: Vec<String>,
    /// The input in the file; several turns are joined by a line `---`.
    pub input: String,
    /// The expectations of the file about the case.
    pub expected: Expected,
    /// The expectations of the file about each turn of a conversation.
    pub expected_turns: Vec<Expected>,
    /// The execution; of several trials, the shown one.
    pub unit: UnitRecord,
    /// The verdict on it.
    pub grade: Grade,
    /// Its trials; absent for a case that ran once.
    pub trials: Option<Box<Trials>>,
}

/// One turn of a case. A case without `turns` has exactly one.
#[derive(Clone, Copy, Debug)]
pub struct TurnReport<'a> {
    /// Place in the conversation, from 1; absent for a case without turns.
    pub number: Option<usize>,
    /// The execution.
    pub record: &'a TurnRecord,
    /// The verdict.
    pub grade: &'a TurnGrade,
    /// The expectations of the file about it.
    pub expected: &'a Expected,
}

/// A tool call with its result.
#[derive(Clone, Copy, Debug)]
pub struct CallReport<'a> {
    /// The call of the agent.
    pub call: &'a ToolCall,
    /// The result of the call.
    pub result: Option<&'a ToolResult>,
}

impl CaseReport {
    /// The case at `index` in the file of `agent`. Records and grades are already masked; expectations are masked here.
    pub fn new(
        agent: &ResolvedAgent,
        index: usize,
        unit: UnitRecord,
        grade: Grade,
        redactor: &Redactor,
    ) -> Option<Self> {
        let case = agent.config.test_cases.get(index)?;
        let case = &*case;
        let CaseExpected {
            tags: _,
            case: expected,
            turns: expected_turns,
        } = CaseExpected::of(agent, case, unit.turns.len(), redactor);
        let input = if let Some((user, _)) = of_conversation(case) {
            case.input.as_ref().unwrap_or(&user.goal).clone()
        } else if case.turns.is_empty() {
            case.input.clone().unwrap_or_default()
        } else {
            let inputs: Vec<&str> = case.turns.iter().map(|turn| turn.input.as_str()).collect();
            inputs.join(BETWEEN_TURNS)
        };
        Some(Self {
            index,
            name: case.name.clone(),
            tags: case.tags.clone(),
            input: redactor.text(&input).into_owned(),
            expected,
            expected_turns,
            unit,
            grade,
            trials: None,
        })
    }

    /// The displayed name: the case's own, otherwise its place.
    pub fn label(&self) -> String {
        case_label(self.name.as_deref(), self.index)
    }

    /// The verdict.
    pub fn state(&self) -> CaseState {
        self.trials
            .as_ref()
            .map_or(self.grade.state, |trials| trials.state)
    }

    /// Everything that decides its verdict, besides the agent; unknown if that is not the same for all trials.
    pub fn deciders(&self) -> CaseDeciders {
        match &self.trials {
            None => self.grade.deciders.clone(),
            Some(trials) => {
                let count = u32::try_from(trials.results.len()).unwrap_or(u32::MAX);
                trials.deciders.clone().with_trials(count, trials.min_passes)
            }
        }
    }

    /// Whether the case failed or ended with an error. An unchecked case is not a failure.
    pub fn is_failure(&self) -> bool {
        self.state().is_failed() || self.state() == CaseState::Error
    }

    /// How the execution ended; of several trials, the worst among those that decided the verdict.
    pub fn execution(&self) -> ExecutionState {
        match &self.trials {
            Some(trials) => trials.execution,
            None => self.unit.execution(),
        }
    }

    /// The cost of its agent, of all trials.
    pub fn spent(&self) -> Spent {
        match &self.trials {
            Some(trials) => trials.spent,
            None => self.unit.spent(),
        }
    }

    /// The cost of its judges, of all trials.
    pub fn judging(&self) -> Spent {
        match &self.trials {
            Some(trials) => trials.judging,
            None => self.grade.judging.unwrap_or_default(),
        }
    }

    /// The cost of the model that plays its user, of all trials.
    pub fn user_spent(&self) -> Spent {
        match &self.trials {
            Some(trials) => trials.user_used,
            None => self
                .unit
                .user
                .as_ref()
                .and_then(|user| user.used)
                .unwrap_or_default(),
        }
    }

    /// Which executor answered each of its turns, if the agent has `routing:`; of several trials, those of the shown one.
    pub fn executors(&self) -> impl DoubleEndedIterator<Item = &ExecutorRecord> {
        let turns = self.unit.turns.iter();
        turns.filter_map(|turn| turn.result.execution.as_deref())
    }

    /// A summary of its quality loop; of several trials, that of the shown one.
    pub fn quality_loop(&self) -> Option<&LoopSummary> {
        Some(&self.unit.quality_loop.as_ref()?.summary)
    }

    /// Why the conversation with a simulated user ended.
    pub fn ended_by(&self) -> Option<&'static str> {
        self.unit.user.as_ref().map(UserRecord::ended_by)
    }

    /// The result of each expectation about decisions, except those of turns of a conversation.
    pub fn approvals(&self) -> &[ApprovalDetail] {
        if let (Some(_), Some(conversation)) = (&self.unit.user, &self.grade.conversation) {
            return &conversation.approvals;
        }
        let turn = self.grade.turns.first().filter(|_| !self.unit.conversation);
        turn.map_or(&[], |turn| &turn.approvals)
    }

    /// Its turns, in order; empty if the first one was never started.
    pub fn turns(&self) -> impl DoubleEndedIterator<Item = TurnReport<'_>> + ExactSizeIterator {
        let conversation = self.unit.conversation;
        let turns = self.unit.turns.iter().zip(&self.grade.turns).enumerate();
        turns.map(move |(place, (record, grade))| TurnReport {
            number: conversation.then_some(place + 1),
            record,
            grade,
            expected: match self.expected_turns.get(place) {
                Some(expected) if conversation => expected,
                _ => &self.expected,
            },
        })
    }

    /// The question; several turns are joined by a line `---`.
    pub fn question(&self) -> Cow<'_, str> {
        match self.unit.turns.as_slice() {
            [] => Cow::Borrowed(&self.input),
            [turn] => Cow::Borrowed(&turn.input),
            turns => {
                let inputs: Vec<&str> = turns.iter().map(|turn| turn.input.as_str()).collect();
                Cow::Owned(inputs.join(BETWEEN_TURNS))
            }
        }
    }

    /// The answer; the last one of several turns.
    pub fn answer(&self) -> Option<&str> {
        self.turns().rev().find_map(|turn| turn.record.answer())
    }

    /// All failures, in order: those outside of its turns, then turn by turn, then those of the conversation.
    pub fn failures(&self) -> Vec<Failure> {
        let own = self.unit.own_failures().cloned();
        let turns = self.turns().flat_map(|turn| {
            turn.failures().map(move |failure| Failure {
                turn: turn.number,
                ..failure.clone()
            })
        });
        let conversation = self.grade.conversation.iter();
        let conversation = conversation.flat_map(|grade| grade.failures.iter().cloned());
        let score = self.grade.score_failure.iter().cloned();
        own.chain(turns).chain(conversation).chain(score).collect()
    }

    /// Its metrics; for several turns, the mean of each metric over the turns that computed it. Those of the whole
    /// conversation are the last ones.
    pub fn metrics(&self) -> Cow<'_, [MetricResult]> {
        let of_turns = if self.unit.conversation {
            Cow::Owned(mean_metrics(self.turns()))
        } else {
            let turn = self.turns().next();
            Cow::Borrowed(turn.map_or(&[][..], |turn| turn.grade.metrics.as_slice()))
        };
        match self.conversation_metrics() {
            [] => of_turns,
            of_conversation => Cow::Owned([&of_turns[..], of_conversation].concat()),
        }
    }

    /// The metrics of the whole conversation.
    pub fn conversation_metrics(&self) -> &[MetricResult] {
        let conversation = self.grade.conversation.as_deref();
        conversation.map_or(&[], |grade| grade.metrics.as_slice())
    }

    /// The metrics of each trial.
    pub fn metrics_of_trials(&self) -> impl Iterator<Item = Cow<'_, [MetricResult]>> {
        let trials = self.trials.iter().flat_map(|trials| &trials.results);
        let once = self.trials.is_none().then(|| self.metrics());
        let of_trials = trials.map(|trial| Cow::Borrowed(trial.metric_results.as_slice()));
        once.into_iter().chain(of_trials)
    }

    /// The exit code for one case; `None` for a pass or an unchecked self.
    pub fn exit(&self) -> Option<ExitCode> {
        match self.state() {
            CaseState::Passed | CaseState::Unchecked => None,
            CaseState::Failed | CaseState::Flaky => Some(ExitCode::Failed),
            // Every turn was executed; only the checks have no result.
            CaseState::Error
                if self.execution() == ExecutionState::Completed && !self.has_judge_failure() =>
            {
                Some(ExitCode::Metric)
            }
            CaseState::Error => Some(ExitCode::Execution),
        }
    }

    /// Whether a judge failed in a way that is a failure of the run.
    pub fn has_judge_failure(&self) -> bool {
        let quality = self.unit.quality_loop.as_ref();
        let mut metrics = self.metrics_of_trials();
        let user = self.unit.user.as_ref();
        quality.is_some_and(|quality| quality.judge_failure.is_some())
            || user.is_some_and(|user| user.judge_failure.is_some())
            || metrics.any(|metrics| metrics.iter().any(|metric| metric.judge_failure.is_some()))
    }

    /// The judges without a vote, each with the name of its metric.
    pub fn missing_votes(&self) -> Vec<(String, MissingVote)> {
        let mut missing: Vec<(String, MissingVote)> = Vec::new();
        for metrics in self.metrics_of_trials() {
            for metric in metrics.iter() {
                let votes = metric.missing_votes.iter().cloned();
                missing.extend(votes.map(|vote| (metric.label().into_owned(), vote)));
            }
        }
        missing
    }

    /// Whether all expectations about tools were met; absent when there are none.
    pub fn tools_matched(&self) -> Option<bool> {
        let turns = self.turns().filter_map(|turn| turn.grade.tools_matched);
        let conversation = self.grade.conversation.as_ref();
        let matched = turns.chain(conversation.and_then(|grade| grade.tools_matched));
        matched.reduce(|all, this| all && this)
    }

    /// Wall time, of all trials.
    pub fn elapsed_ms(&self) -> u64 {
        if let Some(trials) = &self.trials {
            return trials.elapsed_ms;
        }
        if let Some(quality) = &self.unit.quality_loop {
            return quality.elapsed_ms;
        }
        self.turns().map(|turn| turn.record.elapsed_ms).sum()
    }

    /// The model that answered, as it names itself; the last one of several turns.
    pub fn model(&self) -> Option<&str> {
        self.turns()
            .rev()
            .find_map(|turn| turn.record.result.model.as_deref())
    }

    /// Why a part of an answer is missing or may be: the reasons of all turns and trials, each once.
    pub fn truncations(&self) -> BTreeSet<String> {
        let in_trials = self.trials.iter().flat_map(|trials| &trials.truncations);
        let in_turns = self.turns().filter_map(|turn| turn.record.truncation());
        let in_turns = in_turns.map(ToString::to_string);
        in_trials.cloned().chain(in_turns).collect()
    }

    /// Whether a part of an answer is missing or may be.
    pub fn is_truncated(&self) -> bool {
        !self.truncations().is_empty()
    }

    /// Whether secrets were masked in an answer before it was stored.
    pub fn is_redacted(&self) -> bool {
        let in_trial = self.trials.as_ref().is_some_and(|trials| trials.is_redacted);
        in_trial || self.turns().any(|turn| !turn.record.redacted.is_empty())
    }

    /// Its tool calls, in order.
    pub fn calls(&self) -> impl Iterator<Item = CallReport<'_>> {
        self.turns().flat_map(|turn| turn.calls())
    }
}

const BETWEEN_TURNS: &str = "\n---\n";

impl<'a> TurnReport<'a> {
    /// The answer.
    pub fn answer(&self) -> Option<&'a str> {
        self.record.answer()
    }

    /// All failures of the turn.
    pub fn failures(&self) -> impl Iterator<Item = &'a Failure> + use<'a> {
        self.record.failures.iter().chain(&self.grade.failures)
    }

    /// Its tool calls, in order.
    pub fn calls(&self) -> impl Iterator<Item = CallReport<'a>> + use<'a> {
        let calls = self.record.result.calls();
        calls.map(|(call, result)| CallReport { call, result })
    }
}

impl<'a> CallReport<'a> {
    /// Why it failed.
    pub fn error(&self) -> Option<&'a str> {
        match self.result {
            None => Some("no result received"),
            Some(result) => result.is_error.then_some(result.result.as_str()),
        }
    }

    /// How long it took.
    pub fn duration_ms(&self) -> Option<u64> {
        self.result.and_then(|result| result.duration_ms)
    }
}

/// The mean of each metric over the turns that computed it. The n-th metrics of the same name belong together: a name
/// may appear twice with different options.
fn mean_metrics<'a>(turns: impl Iterator<Item = TurnReport<'a>>) -> Vec<MetricResult> {
    let mut groups: Vec<((&str, usize), Vec<&MetricResult>)> = Vec::new();
    for turn in turns {
        let mut seen: HashMap<&str, usize> = HashMap::new();
        for metric in &turn.grade.metrics {
            let nth = seen.entry(&metric.metric_name).or_default();
            let key = (metric.metric_name.as_str(), *nth);
            *nth += 1;
            match groups.iter_mut().find(|(other, _)| *other == key) {
                Some((_, group)) => group.push(metric),
                None => groups.push((key, vec![metric])),
            }
        }
    }
    groups.into_iter().filter_map(|(_, group)| mean(&group)).collect()
}

fn mean(group: &[&MetricResult]) -> Option<MetricResult> {
    let mut result = (*group.first()?).clone();
    let scores: Vec<f64> = group.iter().filter_map(|metric| metric.score).collect();
    let error = group.iter().find_map(|metric| metric.error.clone());
    // A mean over only the gradable turns would hide the others.
    result.score = if error.is_none() {
        Decimal::mean(&scores)
    } else {
        None
    };
    result.error = error;
    let verdicts: Vec<bool> = group.iter().filter_map(|metric| metric.passed).collect();
    result.passed = if verdicts.contains(&false) {
        Some(false)
    } else if result.error.is_some() || verdicts.is_empty() {
        None
    } else {
        Some(true)
    };
    result.evaluation_time_ms = Some(group.iter().filter_map(|metric| metric.evaluation_time_ms).sum());
    result.reasoning = None;
    // Each turn may have its own texts to compare with.
    let expectations = group.iter().filter_map(|metric| metric.identity.expectation);
    result.identity.expectation = Digest::of_all(expectations);
    result.judge_failure = group.iter().find_map(|metric| metric.judge_failure);
    result.missing_votes = group
        .iter()
        .flat_map(|metric| metric.missing_votes.clone())
        .collect();
    let mut judges: Vec<&str> = Vec::new();
    for voted in group.iter().filter_map(|metric| metric.model_used.as_deref()) {
        let more = voted.split(", ").filter(|name| !judges.contains(name));
        judges.extend(more.collect::<Vec<_>>());
    }
    result.model_used = (!judges.is_empty()).then(|| judges.join(", "));
    result.skipped = group.iter().all(|metric| metric.skipped);
    Some(result)
}
