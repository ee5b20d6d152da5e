use std::{collections::HashSet, sync::Arc};

use holodeck_backend_api::{AgentBackend, BackendError, BackendEvent};
use holodeck_model::{CaseIdentity, Failure, FailureKind, LoadedAgent, Redactor, TestCase, UnitKey};
use holodeck_turn::{TurnEnd, TurnInput, TurnRecord, TurnRunner, describe_error};
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::{
    grade::{Graders, Sight},
    record::{Grade, UnitRecord},
};

/// Runs one case at a time, and grades the answers of one.
pub(crate) struct Executor {
    pub(crate) agent: Arc<LoadedAgent>,
    pub(crate) backend: Arc<dyn AgentBackend>,
    pub(crate) graders: Graders,
    pub(crate) turns: TurnRunner,
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) notices: tokio::sync::mpsc::UnboundedSender<String>,
    /// Names of more than one case, which identify none.
    pub(crate) repeated_names: HashSet<String>,
}

/// How a case ended.
pub(crate) enum CaseEnd {
    /// By itself, well or badly.
    Ended {
        /// What happened, secrets masked.
        unit: Box<UnitRecord>,
        /// What the checks found, where they had to see what was masked.
        grade: Option<Box<Grade>>,
        /// Why no other case will succeed either, if that is so.
        hopeless: Option<Hopeless>,
    },
    /// Because this run cancelled it; it counts as not run.
    Stopped,
}

/// Why other cases will end as this one did.
pub(crate) enum Hopeless {
    /// The endpoint refused the credentials: certain after one case.
    Credentials(String),
    /// The endpoint was not reached: certain after several cases.
    Unreached(String),
}

/// How the turns of a case ended.
struct Conversation {
    turns: Vec<TurnRecord>,
    failures: Vec<Failure>,
    hopeless: Option<Hopeless>,
}

/// Bytes of answers up to which grading is too short to hold up other cases, which share the thread.
const GRADED_IN_PLACE: usize = 4 * 1024;

impl Executor {
    pub(crate) async fn run(
        self: Arc<Self>,
        index: usize,
        identity: CaseIdentity,
        cancel: CancellationToken,
    ) -> CaseEnd {
        let ended = match self.case(index) {
            Some(case) if case.turns.is_empty() => self.single(case, identity, &cancel).await,
            Some(case) => self.conversation(case, identity, &cancel).await,
            None => None,
        };
        let Some(Conversation {
            turns,
            failures,
            hopeless,
        }) = ended
        else {
            return CaseEnd::Stopped;
        };
        let mut unit = Box::new(UnitRecord {
            turns,
            failures,
            ..self.blank(index, identity)
        });
        let grade = if unit.holds_secrets(&self.redactor) {
            // The checks must see what the agent answered, and nothing else ever will.
            let (back, grade) = Arc::clone(&self).grade(index, unit, true).await;
            unit = back;
            Some(Box::new(grade))
        } else {
            None
        };
        unit.mask(&self.redactor);
        CaseEnd::Ended {
            unit,
            grade,
            hopeless,
        }
    }

    /// Grades a unit; long answers on a thread of their own, so that no other case's clock runs on meanwhile.
    pub(crate) async fn grade(
        self: Arc<Self>,
        index: usize,
        unit: Box<UnitRecord>,
        before_masking: bool,
    ) -> (Box<UnitRecord>, Grade) {
        if self.is_short(&unit) {
            let grade = self.grade_now(index, &unit, before_masking);
            return (unit, grade);
        }
        let grading = tokio::task::spawn_blocking(move || {
            let grade = self.grade_now(index, &unit, before_masking);
            (unit, grade)
        });
        match grading.await {
            Ok(graded) => graded,
            // A panic is the case's, as it would be here.
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // Only a runtime that ends cancels it, and then nothing waits.
                Err(_) => std::future::pending().await,
            },
        }
    }

    /// Whether grading a unit takes no time to speak of.
    #[allow(clippy::unused_self, reason = "other checks will depend on the agent")]
    pub(crate) fn is_short(&self, unit: &UnitRecord) -> bool {
        unit.size() <= GRADED_IN_PLACE
    }

    /// Grades a unit on this thread.
    pub(crate) fn grade_now(&self, index: usize, unit: &UnitRecord, before_masking: bool) -> Grade {
        let sight = if before_masking {
            Sight::BeforeMasking
        } else {
            Sight::Whole
        };
        let mut grade = match self.case(index) {
            Some(case) => self.graders.grade(unit, case, sight),
            None => Grade::of_turns(String::new(), unit, Vec::new()),
        };
        grade.mask(&self.redactor);
        grade
    }

    pub(crate) fn case(&self, index: usize) -> Option<&TestCase> {
        self.agent.config.test_cases.get(index)
    }

    /// A case that crashed inside this program: an error with a name, never a lost case.
    pub(crate) fn crashed(&self, index: usize, identity: CaseIdentity, what: &str) -> UnitRecord {
        let mut unit = self.blank(index, identity);
        let text = format!("internal error: {what}");
        unit.failures.push(Failure::new(FailureKind::Internal, text));
        unit.mask(&self.redactor);
        unit
    }

    fn blank(&self, index: usize, identity: CaseIdentity) -> UnitRecord {
        UnitRecord {
            key: UnitKey {
                case: identity.id,
                trial: 0,
            },
            case: identity,
            conversation: self.case(index).is_some_and(|case| !case.turns.is_empty()),
            at: Timestamp::now().to_string(),
            turns: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// What a recording knows the case by: its name if no other case has it, else its identity.
    fn unit(&self, case: &TestCase, identity: CaseIdentity) -> String {
        match &case.name {
            Some(name) if !self.repeated_names.contains(name) => name.clone(),
            _ => identity.id.to_string(),
        }
    }

    /// `None` if this run stopped it.
    async fn single(
        &self,
        case: &TestCase,
        identity: CaseIdentity,
        cancel: &CancellationToken,
    ) -> Option<Conversation> {
        let unit = self.unit(case, identity);
        let turn = TurnInput {
            input: case.input.as_deref().unwrap_or_default(),
            files: &case.files,
            unit: Some(&unit),
        };
        let start = |request| self.backend.start(request);
        match self
            .turns
            .run(turn, cancel, start, |event| self.notice(event))
            .await
        {
            TurnEnd::Stopped => None,
            TurnEnd::Ended { record, error } => Some(Conversation {
                turns: vec![*record],
                failures: Vec::new(),
                hopeless: error.as_ref().and_then(Hopeless::of),
            }),
        }
    }

    /// `None` if this run stopped it.
    async fn conversation(
        &self,
        case: &TestCase,
        identity: CaseIdentity,
        cancel: &CancellationToken,
    ) -> Option<Conversation> {
        let mut conversation = Conversation {
            turns: Vec::with_capacity(case.turns.len()),
            failures: Vec::new(),
            hopeless: None,
        };
        let mut session = match self.backend.create_session().await {
            Ok(session) => session,
            Err(_) if cancel.is_cancelled() => return None,
            Err(error) => {
                conversation.failures.push(self.describe(&error));
                conversation.hopeless = Hopeless::of(&error);
                return Some(conversation);
            }
        };
        let label = self.unit(case, identity);
        let mut failures_in_a_row = 0;
        for (place, turn) in case.turns.iter().enumerate() {
            if conversation.hopeless.is_some() || failures_in_a_row >= 2 {
                conversation.turns.push(TurnRecord::skipped(&turn.input));
                continue;
            }
            let unit = format!("{label} · turn {}", place + 1);
            let input = TurnInput {
                input: &turn.input,
                files: &turn.files,
                unit: Some(&unit),
            };
            let ran = self
                .turns
                .run(
                    input,
                    cancel,
                    |request| session.turn(request),
                    |event| self.notice(event),
                )
                .await;
            match ran {
                TurnEnd::Stopped => return None,
                TurnEnd::Ended { record, error } => {
                    let failed = record.state == holodeck_model::ExecutionState::Error;
                    failures_in_a_row = if failed { failures_in_a_row + 1 } else { 0 };
                    conversation.hopeless = error.as_ref().and_then(Hopeless::of);
                    conversation.turns.push(*record);
                }
            }
        }
        if let Err(error) = session.close().await {
            let failure = self.describe(&error);
            conversation.failures.push(Failure {
                text: format!("closing the conversation: {}", failure.text),
                ..failure
            });
        }
        Some(conversation)
    }

    fn describe(&self, error: &BackendError) -> Failure {
        describe_error(error, &self.turns.timeout_source)
    }

    fn notice(&self, event: &BackendEvent) {
        if let BackendEvent::Notice { message } = event {
            // Without a receiver the run is over.
            let _ = self.notices.send(message.clone());
        }
    }
}

impl Hopeless {
    fn of(error: &BackendError) -> Option<Self> {
        if error.is_credentials() {
            Some(Self::Credentials(error.to_string()))
        } else if error.is_unreachable() {
            Some(Self::Unreached(error.to_string()))
        } else {
            None
        }
    }
}
