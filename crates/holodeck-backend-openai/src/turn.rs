//! The loop of one turn: call the model, run its tools, and repeat until it answers or a limit is reached.

use std::{
    collections::{BTreeMap, VecDeque},
    pin::pin,
};

use async_stream::try_stream;
use futures::{Stream, StreamExt as _};
use holodeck_backend_api::{
    ApprovalDecision, BackendError, BackendEvent, Conversation, ExecutionResult, MAX_TOOL_CALLS, Outcome,
    RequestPlace, ResultFold, StopFamily, StopReason, ToolCx, TurnRequest, UNFIT_ANSWER,
};
use serde_json::Value;

use crate::{
    answer_format::SentFormat,
    approvals::{self, Decisions},
    core::{CallContext, Core},
    failure,
    message::{self, Message, MessageStep, unless_cancelled},
    questions::{Question, Questions},
    tool_calls::{self, CallOutcome},
    wire_message,
};

/// An event of a running turn, or its end.
pub(crate) enum Step {
    Event(BackendEvent),
    End(Box<TurnEnd>),
}

/// The outcome of a turn.
pub(crate) struct TurnEnd {
    pub(crate) result: ExecutionResult,
    /// The conversation from which the next turn continues; `None` if the turn failed.
    pub(crate) conversation: Option<Vec<Value>>,
}

/// Runs one turn after `history`: model calls and tool calls in a loop until the model answers.
pub(crate) fn run(
    core: &Core,
    history: Vec<Value>,
    request: TurnRequest,
    conversation: Conversation,
) -> impl Stream<Item = Result<Step, BackendError>> + Send + '_ {
    try_stream! {
        let mut turn = Turn::new(history, &request);
        let cx = ToolCx {
            cancel: request.cancel.clone(),
            unit: request.unit.clone(),
            trial: request.trial,
            conversation,
            spending: request.spending.clone(),
            elicitation: None,
        };
        if let Some(message) = core.opening_notice() {
            yield turn.observe(BackendEvent::Notice { message });
        }
        if request.thinking.is_some() {
            let message = "the endpoint has no setting for the reasoning of one answer".to_owned();
            yield turn.observe(BackendEvent::Notice { message });
        }
        let choice = core.choose_tools(&request.message, &turn.conversation);
        let selection = unless_cancelled(&request.cancel, choice).await??;
        let outcome = loop {
            let mut message = None;
            let mut too_long = None;
            let has_tools;
            {
                let unit = request.unit.as_deref();
                let place = RequestPlace { unit, trial: request.trial, message: turn.model_calls };
                let tools = core.offered_tools(selection.as_ref(), place);
                has_tools = !tools.is_empty();
                let context = CallContext {
                    tools: &tools,
                    unit,
                    number_odds: request.number_odds,
                    wishes: &request.wishes,
                    cancel: &request.cancel,
                };
                let mut steps = pin!(message::call_model(core, &turn.conversation, context));
                while let Some(step) = steps.next().await {
                    match step {
                        Ok(MessageStep::Event(event)) => {
                            turn.fold.observe(&event);
                            yield Step::Event(event);
                        }
                        Ok(MessageStep::End(whole)) => message = Some(whole),
                        Err(error) if request.may_forget && failure::is_too_long(&error) => {
                            too_long = Some(error);
                            break;
                        }
                        Err(error) => Err(error)?,
                    }
                }
            }
            if let Some(error) = too_long {
                let notice = turn.forget_oldest().ok_or(error)?;
                yield turn.observe(notice);
                continue;
            }
            let message = message.unwrap_or_default();
            turn.model_calls += 1;
            let stop_reason = message.stop_reason.clone().unwrap_or(StopReason::EndTurn);
            if !has_tools && let Some(problem) = core.format.as_ref().and_then(|format| format.check_calls(&message.calls)) {
                // Without the calls: a call needs a result, and a request without tools must not have either.
                turn.conversation.push(wire_message::assistant(&message.text, &[], &core.model));
                if !turn.can_ask_again(core) {
                    break Some(Outcome::Failed { reason: unfit(&problem, &stop_reason) });
                }
                turn.request_repair(&problem);
                continue;
            }
            turn.conversation.push(wire_message::assistant(&message.text, &message.calls, &core.model));
            if message.calls.is_empty() || stop_reason.family() == StopFamily::Refusal {
                match turn.check_answer(core, &request.message, &message, &stop_reason) {
                    Answer::Plain => break None,
                    Answer::Structured(value) => {
                        yield turn.observe(BackendEvent::StructuredOutput(value));
                        break None;
                    }
                    Answer::Repair(problem) => turn.request_repair(&problem),
                    Answer::Wrong(reason) => break Some(Outcome::Failed { reason }),
                }
                continue;
            }
            if !core.is_within_budget(turn.fold.token_usage()) {
                break Some(Outcome::BudgetExceeded);
            }
            if message.calls.len() > MAX_TOOL_CALLS {
                break Some(Outcome::too_many_tool_calls());
            }
            if turn.model_calls >= core.max_turns {
                // The model would not see the results, and tools may have side effects.
                break Some(Outcome::MaxTurns);
            }
            let mut decisions = Decisions::default();
            {
                let mut deciding = pin!(approvals::decide(core, &message.calls, &request, &mut decisions));
                while let Some(event) = deciding.next().await {
                    yield turn.observe(event?);
                }
            }
            if let Some(reason) = decisions.termination_reason() {
                break Some(Outcome::Terminated { reason: reason.to_owned() });
            }
            let mut unavailable = None;
            // By the place of the call. The model gets the results in the order of its calls, and all pictures after
            // them: servers reject another message between results.
            let mut answers = BTreeMap::new();
            // Who is asked by the servers of running tools.
            let approver = request.approver.as_ref().or(core.approver.as_ref());
            let person = approver.filter(|approver| approver.has_person());
            let mut questions = Questions::new();
            let asker = person.map(|_| questions.asker());
            let running = tool_calls::run(core, &message.calls, &decisions, &cx, asker.as_ref());
            let mut running = pin!(running.fuse());
            // What ended while a person was asked.
            let mut ended = VecDeque::new();
            loop {
                let step = match ended.pop_front() {
                    Some(outcome) => ToolStep::Ended(Some(outcome)),
                    None => unless_cancelled(&request.cancel, async {
                        tokio::select! {
                            biased;
                            question = questions.next() => ToolStep::Asked(question),
                            outcome = running.next() => ToolStep::Ended(outcome),
                        }
                    })
                    .await?,
                };
                let outcome = match step {
                    ToolStep::Ended(None) => break,
                    ToolStep::Ended(Some(outcome)) => outcome,
                    ToolStep::Asked(mut question) => {
                        let Some(person) = person else { continue };
                        let ask = question.ask.clone();
                        yield turn.observe(BackendEvent::Paused);
                        yield turn.observe(BackendEvent::ApprovalAsked(Box::new(ask.clone())));
                        let decision = unless_cancelled(&request.cancel, async {
                            let mut answer = pin!(person.ask(&ask, &request.cancel));
                            loop {
                                tokio::select! {
                                    biased;
                                    decision = &mut answer => break decision,
                                    () = question.withdrawn() => break ApprovalDecision::Withdrawn,
                                    Some(outcome) = running.next() => ended.push_back(outcome),
                                }
                            }
                        })
                        .await?;
                        yield turn.observe(BackendEvent::ApprovalAnswered {
                            call_id: ask.call_id,
                            decision: decision.clone(),
                        });
                        yield turn.observe(BackendEvent::Resumed);
                        let end = match &decision {
                            ApprovalDecision::Terminate { reason } => {
                                Some(Outcome::Terminated { reason: reason.clone() })
                            }
                            _ => None,
                        };
                        question.answer(decision);
                        if end.is_some() {
                            unavailable = end;
                            break;
                        }
                        continue;
                    }
                };
                let (place, outcome) = outcome;
                let (result, images, failure) = match outcome? {
                    CallOutcome::Answered(result, images) => (result, images, None),
                    CallOutcome::Unavailable(result, reason) => (result, Vec::new(), Some(reason)),
                };
                let pictures = (!images.is_empty()).then(|| wire_message::tool_images(&result.name, &images));
                answers.insert(place, (wire_message::tool_result(&result), pictures));
                if failure.is_some() {
                    let name = result.name.clone();
                    unavailable = Some(Outcome::ToolFailed { name, reason: failure });
                }
                yield turn.observe(BackendEvent::ToolResult(result));
                if unavailable.is_some() {
                    break;
                }
            }
            if unavailable.is_some() {
                break unavailable;
            }
            let (results, pictures): (Vec<_>, Vec<_>) = answers.into_values().unzip();
            turn.conversation.extend(results);
            turn.conversation.extend(pictures.into_iter().flatten());
        };
        yield Step::End(Box::new(turn.finish(outcome)));
    }
}

struct Turn {
    conversation: Vec<Value>,
    /// Index of the turn's own message; what comes before it is the history.
    begin: usize,
    fold: ResultFold,
    model_calls: u32,
    /// Why the last message ended.
    stop_reason: StopReason,
    /// Index of the message where the exchange about a wrong answer begins.
    repair: Option<usize>,
}

/// The failure of a turn whose answer was wrong twice.
fn unfit(problem: &str, stop_reason: &StopReason) -> String {
    let cut = stop_reason.truncation();
    let cut = cut.map_or_else(String::new, |reason| format!("; {}", reason.truncation_note()));
    format!("{UNFIT_ANSWER}{problem}{cut}")
}

/// An event while tools run.
enum ToolStep {
    Asked(Question),
    /// A call ended; `None` after the last one.
    Ended(Option<(usize, Result<CallOutcome, BackendError>)>),
}

/// The next step after a message that calls no tool.
enum Answer {
    Plain,
    Structured(Value),
    Repair(String),
    Wrong(String),
}

impl Turn {
    fn new(mut conversation: Vec<Value>, request: &TurnRequest) -> Self {
        let begin = conversation.len();
        conversation.push(wire_message::user_with(&request.message, &request.images));
        Self {
            conversation,
            begin,
            fold: ResultFold::new(),
            model_calls: 0,
            stop_reason: StopReason::EndTurn,
            repair: None,
        }
    }

    /// Adds the event to the result and returns it as a step.
    fn observe(&mut self, event: BackendEvent) -> Step {
        self.fold.observe(&event);
        Step::Event(event)
    }

    /// Leaves out the older half of the turns before this one; `None` if there is none.
    fn forget_oldest(&mut self) -> Option<BackendEvent> {
        let turns = wire_message::begins_of_turns(self.conversation.get(..self.begin)?);
        let left_out = turns.len().div_ceil(2);
        if left_out == 0 {
            return None;
        }
        let first_kept = turns.get(left_out).copied().unwrap_or(self.begin);
        self.conversation.drain(..first_kept);
        self.begin -= first_kept;
        let messages = if left_out == 1 { "message" } else { "messages" };
        let message = format!(
            "the conversation is longer than the model accepts: the oldest {left_out} {messages} of the user, with the \
             answers, were left out of the request"
        );
        Some(BackendEvent::Notice { message })
    }

    /// Whether a wrong answer may be asked for once more.
    fn can_ask_again(&self, core: &Core) -> bool {
        self.repair.is_none() && self.model_calls < core.max_turns
    }

    fn check_answer(
        &mut self,
        core: &Core,
        question: &str,
        message: &Message,
        stop_reason: &StopReason,
    ) -> Answer {
        self.stop_reason = stop_reason.clone();
        let Some(format) = &core.format else {
            return Answer::Plain;
        };
        let is_empty = message.text.trim().is_empty();
        let can_ask = self.can_ask_again(core);
        if is_empty && can_ask && stop_reason.family() == StopFamily::End {
            return Answer::Repair("it is empty".to_owned());
        }
        if is_empty || stop_reason.family() == StopFamily::Refusal {
            return Answer::Plain;
        }
        match format.read(&message.text, question) {
            Ok(value) => Answer::Structured(value),
            Err(problem) if can_ask => Answer::Repair(problem),
            Err(problem) => Answer::Wrong(unfit(&problem, stop_reason)),
        }
    }

    fn request_repair(&mut self, problem: &str) {
        self.repair = self.conversation.len().checked_sub(1);
        self.conversation
            .push(wire_message::user(&SentFormat::repair_prompt(problem)));
    }

    /// Ends the turn with `outcome`, or with the one that the answer implies.
    fn finish(mut self, outcome: Option<Outcome>) -> TurnEnd {
        let result = match outcome {
            Some(outcome) => self.fold.finish(outcome),
            None => self.fold.finish_answered(&self.stop_reason),
        };
        let can_continue = matches!(result.outcome, Outcome::Completed | Outcome::Refused);
        let conversation = (can_continue && !result.response.trim().is_empty()).then(|| {
            // The next turn does not need the wrong answer and the request to repair it.
            if let Some(begin) = self.repair {
                let answer = self.conversation.pop();
                self.conversation.truncate(begin);
                self.conversation.extend(answer);
            }
            self.conversation
        });
        TurnEnd { result, conversation }
    }
}
