//! Conversations with a user that a model plays.

use std::sync::Arc;

use holodeck_eval::{
    EvalInput, Grader, JudgeAnswer, UserMessage, UserStatus, UserView, Verdict, VerdictFormat,
};
use holodeck_judging::{Judges, OpenJudge, judge_failure, kind_of, read_answer};
use holodeck_model::{
    ConversationEnd, EarlierMessage, ExecutionState, Failure, FailureKind, MessageRole, MetricConfig,
    Redactor, SimulatedUser, TestCase, UnitKey,
};
use holodeck_turn::{TurnEnd, TurnInput, TurnRecord, describe_error};
use tokio_util::sync::CancellationToken;

use holodeck_runs::UserRecord;

use super::{Blocker, Conversation, Executor};

/// A simulated user during its conversation.
struct Player<'a> {
    user: &'a SimulatedUser,
    users: Option<&'a Arc<dyn Judges>>,
    redactor: &'a Redactor,
    /// The unit in recordings.
    label: &'a str,
    /// The trial of the case, from 0.
    trial: u32,
    cancel: &'a CancellationToken,
    /// The messages and answers so far, with secrets masked.
    exchanges: Vec<(String, String)>,
    calls: usize,
    record: UserRecord,
    /// An error of the model that plays the user and will affect other cases.
    rejected: Option<Blocker>,
}

/// Why there is no next message.
enum NoMessage {
    /// This run stopped the call.
    Stopped,
    /// The model that plays the user failed.
    Failed(Failure),
}

/// The next step after an answer of the agent.
enum Next {
    Message(String),
    End(ConversationEnd),
}

impl Executor {
    /// `None` if this run stopped it.
    pub(crate) async fn run_simulated(
        &self,
        case: &TestCase,
        user: &SimulatedUser,
        key: UnitKey,
        cancel: &CancellationToken,
    ) -> Option<Conversation> {
        let label = self.grading.unit_name(case, key);
        let mut player = Player {
            user,
            users: self.users.as_ref(),
            redactor: &self.grading.redactor,
            label: &label,
            trial: key.trial,
            cancel,
            exchanges: exchanges_of(&case.messages, &self.grading.redactor),
            calls: 0,
            record: UserRecord::default(),
            rejected: None,
        };
        let mut conversation = Conversation::default();
        let ended = self.converse(case, &mut player, &mut conversation, cancel).await;
        match ended {
            Ok(ended) => player.record.ended = ended,
            Err(NoMessage::Stopped) => return None,
            Err(NoMessage::Failed(failure)) => player.record.failure = Some(failure),
        }
        conversation.blocker = conversation.blocker.or(player.rejected);
        conversation.user = Some(player.record);
        Some(conversation)
    }

    /// Returns why the conversation ended; `None` if that was a failure of the agent, which its last turn describes.
    async fn converse(
        &self,
        case: &TestCase,
        player: &mut Player<'_>,
        conversation: &mut Conversation,
        cancel: &CancellationToken,
    ) -> Result<Option<ConversationEnd>, NoMessage> {
        let stop = player.user.stop_when.as_ref().map(|check| {
            let check = MetricConfig::Standard(check.clone());
            Grader::new(std::slice::from_ref(&check)).map_err(stop_failure)
        });
        let stop = stop.transpose()?;
        // The user is asked first, so that one that is broken starts no agent.
        let mut message = match &case.input {
            Some(input) => input.clone(),
            None => player.ask().await?.message,
        };
        let mut session = match self.open_session(case).await {
            Ok(session) => session,
            Err(_) if cancel.is_cancelled() => return Err(NoMessage::Stopped),
            Err(error) => {
                conversation.failures.push(self.describe(&error));
                conversation.blocker = Blocker::from_error(&error);
                return Ok(None);
            }
        };
        let vars = case.sent_map();
        let ended = loop {
            let place = conversation.turns.len();
            let unit = format!("{} · turn {}", player.label, place + 1);
            let input = TurnInput {
                vars: vars.as_ref(),
                input: &message,
                // The files belong to the question of the file.
                files: if place == 0 { &case.files } else { &[] },
                unit: Some(&unit),
                trial: player.trial,
                // The command is that of the question of the file, too.
                command: case.command.as_deref().filter(|_| place == 0),
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
            let TurnEnd::Ended { record, error } = end else {
                break Err(NoMessage::Stopped);
            };
            conversation.blocker = error.as_ref().and_then(Blocker::from_error);
            player.hear(&message, &record);
            let failed = record.state != ExecutionState::Completed;
            let stops = match &stop {
                Some(stop) if !failed => player.is_met(stop, &record),
                _ => Ok(false),
            };
            conversation.turns.push(*record);
            if failed {
                break Ok(None);
            }
            match stops {
                Ok(false) => {}
                Ok(true) => break Ok(Some(ConversationEnd::StopWhen)),
                Err(failure) => break Err(failure),
            }
            match player.next(conversation.turns.len()).await {
                Ok(Next::Message(next)) => message = next,
                Ok(Next::End(end)) => break Ok(Some(end)),
                Err(failure) => break Err(failure),
            }
        };
        if matches!(ended, Err(NoMessage::Stopped)) {
            return ended;
        }
        self.close_session(&mut *session, conversation).await;
        ended
    }
}

impl Player<'_> {
    /// Keeps an exchange for the next question.
    fn hear(&mut self, message: &str, record: &TurnRecord) {
        let mask = |text: &str| self.redactor.text(text).into_owned();
        let exchange = (mask(message), mask(&record.result.response));
        self.exchanges.push(exchange);
    }

    /// Whether an answer meets the check that ends the conversation.
    fn is_met(&self, stop: &Grader, record: &TurnRecord) -> Result<bool, NoMessage> {
        let input = EvalInput {
            input: &record.input,
            response: &record.result.response,
            structured_output: record.result.structured_output.as_ref(),
            ..EvalInput::default()
        };
        let negated = self.user.stop_when.as_ref().is_some_and(|check| check.negate);
        let outcome = stop.compute(&input).into_iter().flatten().next();
        match outcome.map(|outcome| (outcome.verdict, outcome.error)) {
            Some((Verdict::Passed, None)) => match record.truncation().filter(|_| negated) {
                Some(reason) => Err(stop_failure(reason.truncation_note())),
                None => Ok(true),
            },
            Some((Verdict::Failed, None)) => Ok(false),
            Some((_, Some(error))) => Err(stop_failure(error)),
            Some((_, None)) | None => Err(stop_failure("the check has no verdict")),
        }
    }

    /// Asks for the reaction to the last answer. After the last turn, too: only then can the goal be reached by it.
    async fn next(&mut self, turns: usize) -> Result<Next, NoMessage> {
        let UserMessage { message, status, .. } = self.ask().await?;
        let is_last = u32::try_from(turns).unwrap_or(u32::MAX) >= self.user.max_turns;
        let end = match status {
            UserStatus::Continue if !is_last => return Ok(Next::Message(message)),
            UserStatus::Continue => ConversationEnd::MaxTurns,
            UserStatus::GoalReached => ConversationEnd::GoalReached,
            UserStatus::GaveUp => ConversationEnd::GaveUp,
        };
        self.record.closing = Some(message).filter(|message| !message.trim().is_empty());
        Ok(Next::End(end))
    }

    /// Asks for the next message, and once more if the answer does not fit.
    async fn ask(&mut self) -> Result<UserMessage, NoMessage> {
        let persona = self.user.persona.as_deref().map(|text| self.redactor.text(text));
        let goal = self.redactor.text(&self.user.goal);
        let exchanges = std::mem::take(&mut self.exchanges);
        let view = UserView {
            persona: persona.as_deref(),
            goal: &goal,
            exchanges: &exchanges,
        };
        let asked = match self.call(view.prompt()).await {
            Ok(answer) => match view.read(answer) {
                Ok(message) => Ok(message),
                Err(problem) => match self.call(view.prompt_again(&problem)).await {
                    Ok(answer) => view.read(answer).map_err(|problem| {
                        let text = format!("its answer does not fit: {problem}");
                        user_failure(Failure::new(FailureKind::Provider, text))
                    }),
                    Err(failure) => Err(failure),
                },
            },
            Err(failure) => Err(failure),
        };
        self.exchanges = exchanges;
        asked
    }

    async fn call(&mut self, prompt: String) -> Result<JudgeAnswer, NoMessage> {
        let Some(users) = self.users else {
            let text = "no model is configured for it";
            return Err(user_failure(Failure::new(FailureKind::Internal, text)));
        };
        let model = self.user.model.as_ref();
        let OpenJudge { backend, turns } = users
            .open(model, VerdictFormat::UserMessage)
            .await
            .map_err(|error| user_failure(describe_error(&error, "")))?;
        self.record.model = Some(users.name(model));
        self.calls += 1;
        let unit = format!("{} · user {}", self.label, self.calls);
        let input = TurnInput {
            input: &prompt,
            unit: Some(&unit),
            ..TurnInput::default()
        };
        let end = turns
            .run(input, self.cancel, |request| backend.start(request), |_| {})
            .await;
        let TurnEnd::Ended { record, error } = end else {
            return Err(NoMessage::Stopped);
        };
        *self.record.used.get_or_insert_default() += record.spent();
        self.record.judge_failure = error.as_ref().and_then(kind_of).and_then(judge_failure);
        self.rejected = error
            .as_ref()
            .and_then(Blocker::from_error)
            .filter(Blocker::is_certain);
        let described = record.failures.first().cloned();
        read_answer(*record, error.as_ref()).map_err(|unusable| {
            // It is not the agent that failed.
            let described = described.filter(|failure| failure.kind != FailureKind::Agent);
            let failure = described.unwrap_or_else(|| Failure::new(FailureKind::Provider, ""));
            user_failure(Failure {
                text: unusable.reason,
                ..failure
            })
        })
    }
}

/// The exchanges of the conversation before the case, with secrets masked. Messages of one side in a row are one.
fn exchanges_of(messages: &[EarlierMessage], redactor: &Redactor) -> Vec<(String, String)> {
    let mut exchanges: Vec<(String, String)> = Vec::new();
    for message in messages {
        let text = redactor.text(&message.content);
        let is_question = message.role == MessageRole::User;
        let is_next = |(_, answer): &(String, String)| is_question && !answer.is_empty();
        if exchanges.last().is_none_or(is_next) {
            exchanges.push((String::new(), String::new()));
        }
        if let Some((question, answer)) = exchanges.last_mut() {
            let side = if is_question { question } else { answer };
            if !side.is_empty() {
                side.push('\n');
            }
            side.push_str(&text);
        }
    }
    exchanges
}

/// A failure of the model that plays the user.
fn user_failure(failure: Failure) -> NoMessage {
    NoMessage::Failed(Failure {
        field: Some("user".to_owned()),
        text: format!("the simulated user has no next message: {}", failure.text),
        ..failure
    })
}

fn stop_failure(reason: impl std::fmt::Display) -> NoMessage {
    NoMessage::Failed(Failure {
        field: Some("user.stop_when".to_owned()),
        ..Failure::new(FailureKind::Checks, format!("cannot be checked: {reason}"))
    })
}
