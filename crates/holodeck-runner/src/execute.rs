//! Executes one trial of a case with the agent and returns its record.
//!
//! Must not grade the answer or write to the journal; the dispatcher does.

mod improve;
mod simulate;

use std::sync::Arc;

use holodeck_backend_api::{AgentBackend, AgentSession, BackendError, BackendEvent, HistoryItem, Opening};
use holodeck_judging::Judges;
use holodeck_model::{
    CaseIdentity, ExecutorRecord, Failure, FailureKind, JudgeFailure, MessageRole, TaskRoute, TaskRouter,
    TestCase, TokenUsage, UnitKey,
};
use holodeck_turn::{TurnEnd, TurnInput, TurnRecord, TurnRunner, describe_error};
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use holodeck_runs::{Grade, LoopRecord, UnitRecord, UserRecord};

use crate::{answer_loop::AnswerLoop, grading::GradingStage, trial_resources::TrialUses};

/// Executes one case at a time.
pub(crate) struct Executor {
    pub(crate) grading: Arc<GradingStage>,
    /// `None` if no planned case asks the agent.
    pub(crate) backend: Option<Arc<dyn AgentBackend>>,
    pub(crate) turns: TurnRunner,
    /// The models that play users.
    pub(crate) users: Option<Arc<dyn Judges>>,
    /// Selects specialist agents.
    pub(crate) router: Option<Arc<dyn TaskRouter>>,
    /// The quality loop that improves answers.
    pub(crate) answer_loop: Option<Arc<dyn AnswerLoop>>,
    /// The resources of each trial.
    pub(crate) trials: TrialUses,
    pub(crate) notices: tokio::sync::mpsc::UnboundedSender<String>,
}

/// How a case ended.
pub(crate) enum CaseEnd {
    /// It was executed, with or without success.
    Ended {
        /// The execution, with secrets masked.
        unit: Box<UnitRecord>,
        /// The checks that had to see texts that are masked now.
        checks: Option<Box<Grade>>,
        /// An error that will also affect other cases.
        blocker: Option<Blocker>,
    },
    /// This run cancelled it; it counts as not run.
    Stopped,
}

/// An error of a case that will also affect other cases.
pub(crate) enum Blocker {
    /// The endpoint rejected the credentials: certain after one case.
    Credentials(String),
    /// The endpoint was unreachable: certain after several cases.
    Unreachable(String),
}

/// The executed turns of a case.
#[derive(Default)]
pub(crate) struct Conversation {
    pub(crate) turns: Vec<TurnRecord>,
    pub(crate) failures: Vec<Failure>,
    pub(crate) blocker: Option<Blocker>,
    pub(crate) user: Option<UserRecord>,
    pub(crate) quality_loop: Option<Box<LoopRecord>>,
}

impl Conversation {
    /// A turn for which the agent is not asked: it costs nothing.
    fn without_answer(case: &TestCase) -> Self {
        let turn = TurnRecord {
            input: case.input.clone().unwrap_or_default(),
            usage: Some(TokenUsage::default()),
            cost_usd: Some(0.0),
            ..TurnRecord::default()
        };
        Self {
            turns: vec![turn],
            ..Self::default()
        }
    }
}

impl Executor {
    pub(crate) async fn run(
        self: Arc<Self>,
        index: usize,
        (identity, trial): (CaseIdentity, u32),
        cancel: CancellationToken,
    ) -> CaseEnd {
        let key = UnitKey {
            case: identity.id,
            trial,
        };
        let case = self.grading.case(index);
        let mut route = None;
        let conversation = match case.as_deref() {
            Some(case) if self.grading.agent.config.needs_no_model(case) => {
                route = self.route(case).await;
                Some(Conversation::without_answer(case))
            }
            Some(case) => self.ask(case, key, &cancel).await,
            None => None,
        };
        let Some(Conversation {
            turns,
            failures,
            blocker,
            user,
            quality_loop,
        }) = conversation
        else {
            return CaseEnd::Stopped;
        };
        if case.as_deref().is_some_and(|case| case.expected_agent.is_some()) {
            // What answered the first question counts, not what would have.
            let first = turns.first().and_then(|turn| turn.result.execution.as_deref());
            route = route.or_else(|| first.map(ExecutorRecord::route));
        }
        let mut unit = Box::new(UnitRecord {
            turns,
            failures,
            user,
            route,
            quality_loop,
            ..self.empty_record(index, (identity, trial))
        });
        let mut checks = None;
        if unit.holds_secrets(&self.grading.redactor) {
            // Only the checks may see the unmasked answer, so they run before it is stored.
            let (checked, grade) = Arc::clone(&self.grading).check(index, unit).await;
            (unit, checks) = (checked, Some(Box::new(grade)));
        }
        unit.mask(&self.grading.redactor);
        CaseEnd::Ended {
            unit,
            checks,
            blocker,
        }
    }

    /// The record of a case that crashed inside this program: an error of the case, so that the case is not lost.
    pub(crate) fn crashed(&self, index: usize, unit: (CaseIdentity, u32), reason: &str) -> UnitRecord {
        let mut unit = self.empty_record(index, unit);
        let text = format!("internal error: {reason}");
        unit.failures.push(Failure::new(FailureKind::Internal, text));
        unit.mask(&self.grading.redactor);
        unit
    }

    fn empty_record(&self, index: usize, (identity, trial): (CaseIdentity, u32)) -> UnitRecord {
        let cases = &self.grading.agent.config.test_cases;
        UnitRecord {
            key: UnitKey {
                case: identity.id,
                trial,
            },
            case: identity,
            name: cases.name(index).map(str::to_owned),
            conversation: cases.get(index).is_some_and(|case| case.is_conversation()),
            at: Timestamp::now().to_string(),
            turns: Vec::new(),
            failures: Vec::new(),
            user: None,
            route: None,
            quality_loop: None,
        }
    }

    /// The specialist agent that the question of a case would be routed to; nothing is asked.
    async fn route(&self, case: &TestCase) -> Option<TaskRoute> {
        let task = case.input.as_deref()?;
        let router = self.router.as_ref()?;
        Some(router.route(task, case.command.as_deref()).await)
    }

    /// Asks the agent with the resources of the trial. `None` if this run stopped it.
    async fn ask(&self, case: &TestCase, key: UnitKey, cancel: &CancellationToken) -> Option<Conversation> {
        let ready = cancel.run_until_cancelled(self.trials.begin(key.trial)).await?;
        if let Err(error) = ready {
            return Some(Conversation {
                failures: vec![self.describe(&error)],
                blocker: Blocker::from_error(&error),
                ..Conversation::default()
            });
        }
        match &case.user {
            // Boxed, because most cases have no simulated user.
            Some(user) => Box::pin(self.run_simulated(case, user, key, cancel)).await,
            None if case.turns.is_empty() => self.run_single(case, key, cancel).await,
            None => self.run_conversation(case, key, cancel).await,
        }
    }

    /// The backend, which a case that asks the agent needs.
    pub(crate) fn backend(&self) -> Result<&dyn AgentBackend, BackendError> {
        let missing = || BackendError::init("the agent was not opened for this run");
        self.backend.as_deref().ok_or_else(missing)
    }

    /// `None` if this run stopped it.
    async fn run_single(
        &self,
        case: &TestCase,
        key: UnitKey,
        cancel: &CancellationToken,
    ) -> Option<Conversation> {
        let unit = self.grading.unit_name(case, key);
        let vars = case.sent_map();
        let turn = TurnInput {
            vars: vars.as_ref(),
            input: case.input.as_deref().unwrap_or_default(),
            files: &case.files,
            unit: Some(&unit),
            trial: key.trial,
            command: case.command.as_deref(),
            ..TurnInput::default()
        };
        if !case.messages.is_empty() {
            return self.run_after(case, turn, cancel).await;
        }
        let start = |request| match self.backend() {
            Ok(backend) => backend.start(request),
            Err(error) => Box::pin(futures::stream::iter([Err(error)])),
        };
        let end = self
            .turns
            .run(turn, cancel, start, |event| self.forward_notice(event))
            .await;
        let TurnEnd::Ended { record, error } = end else {
            return None;
        };
        let conversation = Conversation {
            turns: vec![*record],
            blocker: error.as_ref().and_then(Blocker::from_error),
            ..Conversation::default()
        };
        // Boxed, because most agents have no loop.
        Box::pin(self.improve_answer(case, (&unit, key.trial), conversation, cancel)).await
    }

    /// Runs a turn after the earlier messages of its case. `None` if this run stopped it.
    async fn run_after(
        &self,
        case: &TestCase,
        turn: TurnInput<'_>,
        cancel: &CancellationToken,
    ) -> Option<Conversation> {
        let mut conversation = Conversation::default();
        let mut session = match self.open_session(case).await {
            Ok(session) => session,
            Err(_) if cancel.is_cancelled() => return None,
            Err(error) => {
                conversation.failures.push(self.describe(&error));
                conversation.blocker = Blocker::from_error(&error);
                return Some(conversation);
            }
        };
        let end = self
            .turns
            .run(
                turn,
                cancel,
                |request| session.turn(request),
                |event| self.forward_notice(event),
            )
            .await;
        let TurnEnd::Ended { record, error } = end else {
            return None;
        };
        conversation.turns.push(*record);
        conversation.blocker = error.as_ref().and_then(Blocker::from_error);
        self.close_session(&mut *session, &mut conversation).await;
        Some(conversation)
    }

    /// Opens the conversation of a case, after its earlier messages.
    pub(crate) async fn open_session(&self, case: &TestCase) -> Result<Box<dyn AgentSession>, BackendError> {
        let history = case.messages.iter().map(|message| match message.role {
            MessageRole::User => HistoryItem::user(&message.content),
            MessageRole::Assistant => HistoryItem::assistant(&message.content),
        });
        let history: Vec<HistoryItem> = history.collect();
        self.backend()?.open_session(Opening::after(history)).await
    }

    /// Closes a conversation. A failure is one of its case.
    pub(crate) async fn close_session(
        &self,
        session: &mut dyn AgentSession,
        conversation: &mut Conversation,
    ) {
        if let Err(error) = session.close().await {
            let failure = self.describe(&error);
            conversation.failures.push(Failure {
                text: format!("failed to close the conversation: {}", failure.text),
                ..failure
            });
        }
    }

    /// `None` if this run stopped it.
    async fn run_conversation(
        &self,
        case: &TestCase,
        key: UnitKey,
        cancel: &CancellationToken,
    ) -> Option<Conversation> {
        let mut conversation = Conversation {
            turns: Vec::with_capacity(case.turns.len()),
            ..Conversation::default()
        };
        let mut session = match self.open_session(case).await {
            Ok(session) => session,
            Err(_) if cancel.is_cancelled() => return None,
            Err(error) => {
                conversation.failures.push(self.describe(&error));
                conversation.blocker = Blocker::from_error(&error);
                return Some(conversation);
            }
        };
        let label = self.grading.unit_name(case, key);
        let mut failures_in_a_row = 0;
        let vars = case.sent_map();
        for (place, turn) in case.turns.iter().enumerate() {
            if conversation.blocker.is_some() || failures_in_a_row >= 2 {
                conversation.turns.push(TurnRecord::skipped(&turn.input));
                continue;
            }
            let unit = format!("{label} · turn {}", place + 1);
            let input = TurnInput {
                vars: vars.as_ref(),
                input: &turn.input,
                files: &turn.files,
                unit: Some(&unit),
                trial: key.trial,
                command: turn.command.as_deref(),
                ..TurnInput::default()
            };
            let end = self
                .turns
                .run(
                    input,
                    cancel,
                    |request| session.turn(request),
                    |event| self.forward_notice(event),
                )
                .await;
            match end {
                TurnEnd::Stopped => return None,
                TurnEnd::Ended { record, error } => {
                    let failed = record.state == holodeck_model::ExecutionState::Error;
                    failures_in_a_row = if failed { failures_in_a_row + 1 } else { 0 };
                    conversation.blocker = error.as_ref().and_then(Blocker::from_error);
                    conversation.turns.push(*record);
                }
            }
        }
        self.close_session(&mut *session, &mut conversation).await;
        Some(conversation)
    }

    pub(crate) fn describe(&self, error: &BackendError) -> Failure {
        describe_error(error, &self.turns.timeout_source)
    }

    pub(crate) fn forward_notice(&self, event: &BackendEvent) {
        if let BackendEvent::Notice { message } = event {
            // Without a receiver the run is over.
            let _ = self.notices.send(message.clone());
        }
    }
}

impl Blocker {
    /// Whether one case shows it.
    pub(crate) fn is_certain(&self) -> bool {
        matches!(self, Self::Credentials(_))
    }

    /// A judge whose credentials are rejected judges no other case either.
    pub(crate) fn of_judge(grade: &Grade) -> Option<Self> {
        let mut metrics = grade.metrics();
        let rejected = metrics.find(|metric| metric.judge_failure == Some(JudgeFailure::Credentials))?;
        let reason = rejected.error.clone().unwrap_or_default();
        Some(Self::Credentials(reason))
    }

    pub(crate) fn from_error(error: &BackendError) -> Option<Self> {
        if error.is_credentials() {
            Some(Self::Credentials(error.to_string()))
        } else if error.is_unreachable() {
            Some(Self::Unreachable(error.to_string()))
        } else {
            None
        }
    }
}
