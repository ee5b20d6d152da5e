use std::pin::pin;

use async_stream::try_stream;
use futures::{Stream, StreamExt as _};
use holodeck_backend_api::{
    BackendError, BackendEvent, Conversation, ExecutionResult, MAX_TOOL_CALLS, Outcome, ResultFold,
    StopReason, ToolCx, TurnRequest,
};
use serde_json::Value;

use crate::{
    answer_format::AnswerFormat,
    approvals::{self, Decisions},
    core::Core,
    message::{self, Asking, Message, Writing, until},
    tool_calls::{self, Ran},
    wire_message,
};

/// A turn being run, and then its end.
pub(crate) enum Step {
    Event(BackendEvent),
    Done(Box<Done>),
}

/// What a turn came to.
pub(crate) struct Done {
    pub(crate) result: ExecutionResult,
    /// The conversation to go on from; `None` when this turn left nothing to go on from.
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
            conversation,
            spending: request.spending.clone(),
        };
        if let Some(message) = core.opening_notice() {
            yield turn.tell(BackendEvent::Notice { message });
        }
        let choice = core.choose(&request.message, &turn.conversation);
        let chosen = until(&request.cancel, choice).await??;
        let outcome = loop {
            let mut written = None;
            {
                let unit = request.unit.as_deref();
                let tools = core.offered(chosen.as_ref(), unit, turn.model_calls);
                let asking = Asking { tools: &tools, unit, cancel: &request.cancel };
                let mut writing = pin!(message::write(core, &turn.conversation, asking));
                while let Some(step) = writing.next().await {
                    match step? {
                        Writing::Event(event) => {
                            turn.fold.observe(&event);
                            yield Step::Event(event);
                        }
                        Writing::Whole(message) => written = Some(message),
                    }
                }
            }
            let message = written.unwrap_or_default();
            turn.model_calls += 1;
            turn.conversation.push(wire_message::assistant(&message.text, &message.calls));
            let stop_reason = message.stop_reason.clone().unwrap_or(StopReason::EndTurn);
            if message.calls.is_empty() || stop_reason == StopReason::Refusal {
                match turn.answered(core, &message, &stop_reason) {
                    Answer::Plain => break None,
                    Answer::Structured(value) => {
                        yield turn.tell(BackendEvent::StructuredOutput(value));
                        break None;
                    }
                    Answer::Repair(problem) => turn.ask_for_repair(&problem),
                    Answer::Wrong(reason) => break Some(Outcome::Failed { reason }),
                }
                continue;
            }
            if message.calls.len() > MAX_TOOL_CALLS {
                break Some(Outcome::too_many_tool_calls());
            }
            if turn.model_calls >= core.max_turns {
                // Nobody would read the results, and running tools may change things.
                break Some(Outcome::MaxTurns);
            }
            let mut decisions = Decisions::default();
            {
                let mut deciding = pin!(approvals::decide(core, &message.calls, &request, &mut decisions));
                while let Some(event) = deciding.next().await {
                    yield turn.tell(event?);
                }
            }
            if let Some(reason) = decisions.terminated() {
                break Some(Outcome::Terminated { reason: reason.to_owned() });
            }
            let mut unavailable = None;
            // After all answers: a server refuses another message between them.
            let mut pictures = Vec::new();
            let mut running = pin!(tool_calls::run(core, &message.calls, &decisions, &cx));
            while let Some(ran) = until(&request.cancel, running.next()).await? {
                let (result, failed) = match ran? {
                    Ran::Answered(result, images) => {
                        if !images.is_empty() {
                            pictures.push(wire_message::tool_images(&result.name, &images));
                        }
                        (result, false)
                    }
                    Ran::Unavailable(result) => (result, true),
                };
                turn.conversation.push(wire_message::tool_result(&result));
                if failed {
                    unavailable = Some(Outcome::ToolFailed { name: result.name.clone() });
                }
                yield turn.tell(BackendEvent::ToolResult(result));
                if failed {
                    break;
                }
            }
            if unavailable.is_some() {
                break unavailable;
            }
            turn.conversation.append(&mut pictures);
        };
        yield Step::Done(Box::new(turn.done(outcome)));
    }
}

struct Turn {
    conversation: Vec<Value>,
    fold: ResultFold,
    model_calls: u32,
    /// The reason of the last message.
    stop_reason: StopReason,
    /// Where the exchange about a wrong answer begins.
    repair: Option<usize>,
}

/// What to do with a message that calls no tool.
enum Answer {
    Plain,
    Structured(Value),
    Repair(String),
    Wrong(String),
}

impl Turn {
    fn new(mut conversation: Vec<Value>, request: &TurnRequest) -> Self {
        conversation.push(wire_message::user_with(&request.message, &request.images));
        Self {
            conversation,
            fold: ResultFold::new(),
            model_calls: 0,
            stop_reason: StopReason::EndTurn,
            repair: None,
        }
    }

    fn tell(&mut self, event: BackendEvent) -> Step {
        self.fold.observe(&event);
        Step::Event(event)
    }

    fn answered(&mut self, core: &Core, message: &Message, stop_reason: &StopReason) -> Answer {
        self.stop_reason = stop_reason.clone();
        let Some(format) = &core.format else {
            return Answer::Plain;
        };
        if *stop_reason == StopReason::Refusal || message.text.trim().is_empty() {
            return Answer::Plain;
        }
        match format.read(&message.text) {
            Ok(value) => Answer::Structured(value),
            Err(problem) if self.repair.is_none() && self.model_calls < core.max_turns => {
                Answer::Repair(problem)
            }
            Err(problem) => {
                let cut = if *stop_reason == StopReason::MaxTokens {
                    "; the answer was cut at the token limit"
                } else {
                    ""
                };
                Answer::Wrong(format!(
                    "structured output does not match the schema: {problem}{cut}"
                ))
            }
        }
    }

    fn ask_for_repair(&mut self, problem: &str) {
        self.repair = self.conversation.len().checked_sub(1);
        self.conversation
            .push(wire_message::user(&AnswerFormat::repair(problem)));
    }

    /// The end: `outcome`, or the one the answer itself implies.
    fn done(mut self, outcome: Option<Outcome>) -> Done {
        let result = match outcome {
            Some(outcome) => self.fold.finish(outcome),
            None => self.fold.finish_answered(&self.stop_reason),
        };
        let goes_on = matches!(result.outcome, Outcome::Completed | Outcome::Refused);
        let conversation = (goes_on && !result.response.trim().is_empty()).then(|| {
            // The next turn has no use for the wrong answer and what was said about it.
            if let Some(begin) = self.repair {
                let answer = self.conversation.pop();
                self.conversation.truncate(begin);
                self.conversation.extend(answer);
            }
            self.conversation
        });
        Done { result, conversation }
    }
}
