//! The quality loop of an open agent: what scores and improves its answers, around a question and around a test case.

mod check;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use holodeck_backend_api::{AgentBackend, BackendError};
use holodeck_eval::CountingJudge;
use holodeck_judging::{JudgeCalls, JudgeSettings, RunJudge};
use holodeck_model::{
    AfterSideEffects, ClaudeConfig, ExecutionState, Executor, ExecutorRecord, FileInput, JsonMap,
    JudgeFailure, LoopStrategy, LoopSummary, ModelConfig, Occasion, QualityLoopConfig, SideEffectGate,
    SideEffects, Spent, TerminationReason, ToolConfig,
};
use holodeck_orchestrator::{
    AnswerScorer, Assessment, ImproveError, Improver, InvalidRule, LoopControl, LoopOutput, LoopReport,
    LoopRules, QualityAssessment, QualityLoop, ScorerParts, Signals, repair_prompt,
};
use holodeck_process::{BASE_VARIABLES, ChildEnv};
use holodeck_runner::{AnswerLoop, FirstAnswer, ImprovedAnswer};
use holodeck_runs::LoopRecord;
use holodeck_turn::{TurnEnd, TurnInput, TurnRecord, TurnRunner};
use tokio_util::sync::CancellationToken;

use crate::{
    OpenAgent,
    agent::inventory::loop_metrics,
    test::graders::{GraderPrograms, grader_files},
};

pub(crate) use check::check;

/// Why the quality loop of an agent can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoopSetupError {
    /// A rule is outside of its range.
    #[error("`quality_loop`: {0}")]
    Rule(#[from] InvalidRule),
    /// A metric of the scorer can't be used.
    #[error("`quality_loop.scorer`: {0}")]
    Scorer(String),
    /// A command can't be run.
    #[error("`quality_loop.scorer.signals`: {0}")]
    Signals(String),
    /// Commands in a test without the flag that allows them.
    #[error(
        "`quality_loop.scorer.signals` runs commands, which a test does only with `--allow-side-effects`"
    )]
    SideEffectsNotAllowed,
    /// Several independent answers would repeat what tools change.
    #[error(
        "`strategy: best_of_n` would repeat the work of tools that may change something: {}",
        tools.join(", ")
    )]
    RepeatsSideEffects {
        /// The tools.
        tools: Vec<String>,
    },
}

/// The scorers of an open agent's answers.
pub(crate) struct AnswerScorers {
    parts: Arc<ScorerParts>,
    judges: Arc<RunJudge>,
}

impl AnswerScorers {
    /// Prepares what `quality_loop.scorer` names; an error if the loop would do what it must not.
    pub(crate) fn new(
        open: &OpenAgent,
        config: &QualityLoopConfig,
        judges: JudgeSettings,
        (occasion, gate): (Occasion, SideEffectGate),
    ) -> Result<Self, LoopSetupError> {
        let agent = open.agent();
        refuse_repeated_side_effects(open, (occasion, gate))?;
        let env = open.backends().env();
        let child_env = ChildEnv::inherit(BASE_VARIABLES, |name| env.get(name));
        let folder = std::path::absolute(agent.dir.join(".")).unwrap_or_else(|_| agent.dir.clone());
        let signals =
            Signals::new(&config.scorer.signals, folder, child_env).map_err(LoopSetupError::Signals)?;
        if signals.is_some() && occasion == Occasion::Test && gate == SideEffectGate::Closed {
            return Err(LoopSetupError::SideEffectsNotAllowed);
        }
        let files = grader_files(agent).map_err(|error| LoopSetupError::Scorer(error.to_string()))?;
        let metrics = loop_metrics(agent, config)
            .map(|(_, metric)| metric.clone())
            .collect();
        let redactor = open.redactor();
        let parts = ScorerParts::new(
            metrics,
            config.scorer.judge.clone(),
            signals,
            GraderPrograms::new(&agent.dir, env, files),
            (Arc::clone(&redactor), agent.on_masked()),
        );
        let model = agent
            .default_judge()
            .map(ModelConfig::answering)
            .unwrap_or_default();
        // Nothing is written to a journal: a case that is repeated asks again.
        let (judges, _) = RunJudge::new(Some(judges), model, &redactor);
        Ok(Self {
            parts: Arc::new(parts.map_err(LoopSetupError::Scorer)?),
            judges: Arc::new(judges),
        })
    }

    /// The scorer of the answers to `task`, with its judge; `unit` names them in recordings.
    pub(crate) fn for_task(
        &self,
        task: &str,
        unit: &str,
        cancel: &CancellationToken,
    ) -> (AnswerScorer, Arc<JudgeCalls>) {
        let judge = Arc::new(JudgeCalls::new(&self.judges, unit, cancel.clone()));
        let scorer = self
            .parts
            .for_task(task, Arc::clone(&judge) as Arc<dyn CountingJudge>);
        (scorer, judge)
    }

    pub(crate) async fn close(&self) -> Result<(), BackendError> {
        self.judges.close().await
    }
}

/// The quality loop around the test cases of an open agent.
pub(crate) struct AgentLoop {
    quality: QualityLoop,
    answers: AnswerScorers,
    /// The executor that answers; the loop asks the same one again.
    executor: Arc<dyn AgentBackend>,
    turns: TurnRunner,
}

impl AgentLoop {
    /// The loop of an agent for test cases; `None` if it has none.
    pub(crate) fn new(
        open: &OpenAgent,
        executor: &Arc<dyn AgentBackend>,
        turns: &TurnRunner,
        judges: JudgeSettings,
        (occasion, gate): (Occasion, SideEffectGate),
    ) -> Result<Option<Self>, LoopSetupError> {
        let Some(config) = open.agent().config.enabled_loop() else {
            return Ok(None);
        };
        let quality = QualityLoop::new(LoopRules::of(config))?;
        let answers = AnswerScorers::new(open, config, judges, (occasion, gate))?;
        Ok(Some(Self {
            quality,
            answers,
            executor: Arc::clone(executor),
            turns: turns.clone(),
        }))
    }

    /// Scores the first answer and improves it.
    pub(crate) async fn run(&self, first: FirstAnswer<'_>, cancel: &CancellationToken) -> LoopedTurn {
        let started = Instant::now();
        let (scorer, judge) = self.answers.for_task(first.question, first.unit, cancel);
        let turn = Arc::new(first.turn);
        let improver = AgentImprover {
            agent: self,
            question: first.question,
            files: first.files,
            vars: first.vars,
            unit: first.unit,
            trial: first.trial,
            execution: turn.result.execution.clone(),
            cancel,
            turns: Mutex::new(vec![Arc::clone(&turn)]),
        };
        let control = LoopControl::default().cancelled_by(cancel.clone());
        let before = Duration::from_millis(turn.elapsed_ms);
        let initial = LoopOutput::of_turn(Arc::clone(&turn));
        let (output, assessment, report) = self.quality.run(initial, &scorer, &improver, &control).await;
        let returned = output.turn.unwrap_or(turn);
        let turns = improver
            .turns
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let others = turns.iter().filter(|turn| !Arc::ptr_eq(turn, &returned));
        let scoring = judge.spent();
        let used = others.map(|turn| turn.spent()).sum::<Spent>() + scoring;
        let further = turns.iter().skip(1).map(|turn| turn.spent());
        let beyond_first = further.sum::<Spent>() + scoring;
        let mut turn = Arc::unwrap_or_clone(returned);
        // The prompt of an iteration is not what was asked.
        first.question.clone_into(&mut turn.input);
        LoopedTurn {
            turn,
            assessment,
            report,
            used,
            beyond_first,
            judge_failure: judge.failure(),
            elapsed: before.saturating_add(started.elapsed()),
        }
    }
}

/// Returns an error if independent answers would repeat what tools of the agent change.
pub(crate) fn refuse_repeated_side_effects(
    open: &OpenAgent,
    (occasion, gate): (Occasion, SideEffectGate),
) -> Result<(), LoopSetupError> {
    let config = open
        .agent()
        .config
        .enabled_loop()
        .filter(|config| config.strategy == LoopStrategy::BestOfN);
    if config.is_none_or(|config| config.after_side_effects == AfterSideEffects::Allow) {
        return Ok(());
    }
    let tools = tools_with_side_effects(open, occasion, gate);
    if tools.is_empty() {
        Ok(())
    } else {
        Err(LoopSetupError::RepeatsSideEffects { tools })
    }
}

/// The tools of the agent that may change something.
fn tools_with_side_effects(open: &OpenAgent, occasion: Occasion, gate: SideEffectGate) -> Vec<String> {
    let agent = open.agent();
    let specs = open.tools().current();
    let possible = specs
        .iter()
        .filter(|spec| spec.side_effects == SideEffects::Possible);
    let mut tools: Vec<String> = possible.map(|spec| format!("`{}`", spec.name)).collect();
    if agent.config.is_claude() {
        let withheld = occasion == Occasion::Test && gate == SideEffectGate::Closed;
        let claude = agent.config.claude.clone().unwrap_or_default();
        let built_in = claude.all_built_in_tools().into_iter();
        let built_in = built_in.filter(|tool| !withheld && ClaudeConfig::may_change_something(tool));
        tools.extend(built_in.map(|tool| format!("`{tool}`")));
        // The CLI connects these servers itself, so what their tools do is not known here.
        let real = agent.config.real_tools();
        let servers = real.filter(|(_, tool)| matches!(tool, ToolConfig::Mcp(_)));
        tools.extend(servers.map(|(_, server)| format!("those of `{}`", server.name())));
    }
    tools.dedup();
    tools
}

/// The result of the loop for one message.
pub(crate) struct LoopedTurn {
    /// The returned answer.
    pub(crate) turn: TurnRecord,
    pub(crate) assessment: QualityAssessment,
    pub(crate) report: LoopReport,
    /// The cost besides the returned answer.
    pub(crate) used: Spent,
    /// The cost beyond the first answer.
    pub(crate) beyond_first: Spent,
    /// The meaning of a judge's failed call for other calls.
    pub(crate) judge_failure: Option<JudgeFailure>,
    pub(crate) elapsed: Duration,
}

impl LoopedTurn {
    /// The summary for reports.
    pub(crate) fn summary(&self) -> LoopSummary {
        let report = &self.report;
        LoopSummary {
            first_score: report.iterations.first().map(|first| first.output_quality),
            final_score: self.assessment.score,
            iterations: report.iteration_count,
            termination_reason: report.termination_reason,
            scores: report
                .iterations
                .iter()
                .map(|record| record.output_quality)
                .collect(),
            invalid_scores: report
                .iterations
                .iter()
                .filter(|record| record.score_invalid)
                .map(|record| record.iteration)
                .collect(),
            passed: self.assessment.passed,
            cost_usd: match self.beyond_first.calls {
                0 => Some(0.0),
                _ => self.beyond_first.cost_usd,
            },
            repeated_side_effects: report.repeated_side_effects,
        }
    }
}

#[async_trait]
impl AnswerLoop for AgentLoop {
    async fn improve(&self, first: FirstAnswer<'_>, cancel: &CancellationToken) -> Option<ImprovedAnswer> {
        let ended = self.run(first, cancel).await;
        if ended.report.termination_reason == TerminationReason::Cancelled {
            return None;
        }
        let mut record = LoopRecord {
            summary: ended.summary(),
            used: ended.used,
            elapsed_ms: u64::try_from(ended.elapsed.as_millis()).unwrap_or(u64::MAX),
            judge_failure: ended.judge_failure,
            failure: None,
        };
        // In a test, a score that is not known is never a verdict.
        if let Some(reason) = &ended.report.scorer_error {
            record = record.failed(format_args!("the scorer failed: {reason}"));
        } else if let Some(invalid) = ended.report.iterations.iter().find(|record| record.score_invalid) {
            let number = invalid.iteration.saturating_add(1);
            let reason = invalid.invalid_reason.as_deref().unwrap_or("there is none");
            record = record.failed(format_args!(
                "answer {number} of the loop has no valid score: {reason}"
            ));
        }
        Some(ImprovedAnswer {
            turn: ended.turn,
            record,
        })
    }

    async fn close(&self) -> Result<(), BackendError> {
        self.answers.close().await
    }
}

/// Asks the agent again, each time in a fresh execution.
struct AgentImprover<'a> {
    agent: &'a AgentLoop,
    question: &'a str,
    files: &'a [FileInput],
    vars: Option<&'a JsonMap>,
    unit: &'a str,
    trial: u32,
    /// Which executor answered first.
    execution: Option<Box<ExecutorRecord>>,
    cancel: &'a CancellationToken,
    /// Every turn, also those without an answer.
    turns: Mutex<Vec<Arc<TurnRecord>>>,
}

#[async_trait]
impl Improver for AgentImprover<'_> {
    async fn improve(
        &self,
        output: &LoopOutput,
        assessment: &Assessment,
        iteration: u32,
    ) -> Result<LoopOutput, ImproveError> {
        let prompt = match self.agent.quality.rules().strategy {
            LoopStrategy::Refine => repair_prompt(self.question, iteration, &output.text, assessment),
            LoopStrategy::BestOfN => self.question.to_owned(),
        };
        let unit = format!("{} · iteration {}", self.unit, iteration.saturating_add(1));
        let routed = self
            .execution
            .as_deref()
            .filter(|record| record.executor == Some(Executor::Sdk));
        let specialist = routed.and_then(|record| record.agent.as_deref());
        let input = TurnInput {
            input: &prompt,
            files: self.files,
            vars: self.vars,
            unit: Some(&unit),
            trial: self.trial,
            agent: specialist,
            ..TurnInput::default()
        };
        let start = |request| self.agent.executor.start(request);
        let TurnEnd::Ended { mut record, .. } = self.agent.turns.run(input, self.cancel, start, |_| {}).await
        else {
            return Err(ImproveError::new("cancelled"));
        };
        record.result.execution.clone_from(&self.execution);
        let turn = Arc::new(*record);
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.push(Arc::clone(&turn));
        drop(turns);
        let output = LoopOutput::of_turn(Arc::clone(&turn));
        if turn.state == ExecutionState::Completed {
            return Ok(output);
        }
        let reason = turn.failures.first().map(|failure| failure.text.clone());
        Err(ImproveError {
            reason: reason.unwrap_or_else(|| "the agent gave no answer".to_owned()),
            usage: output.usage,
        })
    }
}
