//! Drives one turn on a connection: sends the message, turns frames into events, and ends or cancels the turn.
//!
//! Must emit each event once and return no position for a turn that failed.

use std::{collections::HashMap, time::Duration};

use async_stream::stream;
use futures::Stream;
use holodeck_backend_api::{
    ApprovalDecision, BackendError, BackendEvent, CallDetails, CallRefusal, ExecutionResult, MAX_TOOL_CALLS,
    Outcome, ResultFold, StopFamily, StopReason, TurnRequest,
};
use holodeck_model::mcp_tool_name;
use serde_json::json;
use tokio::time::timeout;

use crate::{
    connection::Connection,
    core::Core,
    incoming::Incoming,
    stored::Position,
    translate::{Ending, TranslateOptions, Translator},
    wire::{self, Delivery, Frame, Spending},
};

/// An item of a turn's stream.
pub(crate) enum Step {
    Event(BackendEvent),
    Done(Box<FinishedTurn>),
    /// The process exited before it began the turn; an error follows.
    NeverBegan,
    /// The turn was cancelled. The position is set if the CLI acknowledged the interrupt.
    Interrupted(Option<Position>),
}

/// How to handle the connection of a cancelled turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnCancel {
    /// Return at once; the connection cannot be used again.
    Abandon,
    /// Interrupt the CLI and wait until it acknowledges that, so that the partial answer stays in the conversation.
    Await,
}

/// How long the CLI may take to acknowledge an interrupt, which usually takes milliseconds.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(1);

/// The result of a turn that ended.
pub(crate) struct FinishedTurn {
    pub(crate) result: ExecutionResult,
    /// The position after the turn; `None` if the turn must not stay in the conversation.
    pub(crate) position: Option<Position>,
}

/// Sends `request` on `connection` and streams the turn. After an error, or if the stream is dropped before its end,
/// the connection cannot be used again.
pub(crate) fn run<'a>(
    core: &'a Core,
    connection: &'a mut Connection,
    request: TurnRequest,
    on_cancel: OnCancel,
) -> impl Stream<Item = Result<Step, BackendError>> + Send + 'a {
    stream! {
        let mut turn = Turn::new(core, connection.spent());
        while let Some(leftover) = connection.try_next() {
            if let Incoming::Broken(error) = leftover {
                yield Err(BackendError::protocol(error.to_string()));
                return;
            }
        }
        let thinking = request.thinking.or(core.options.thinking);
        if let Err(error) = connection.set_thinking(thinking, core.options.limits.handshake).await {
            yield Err(BackendError::protocol(format!("the Claude Code CLI did not set the reasoning: {error}")));
            return;
        }
        connection.send(wire::user_message(&request.message, &request.images, None, Delivery::Verbatim));
        loop {
            let incoming = tokio::select! {
                biased;
                () = request.cancel.cancelled() => {
                    if on_cancel == OnCancel::Await {
                        yield Ok(Step::Interrupted(turn.interrupt(connection).await));
                    }
                    yield Err(BackendError::Cancelled);
                    return;
                }
                incoming = connection.next() => incoming,
            };
            let Some(incoming) = incoming else {
                let rest = turn.end_of_stream();
                for event in turn.events.drain(..).chain(rest) {
                    yield Ok(Step::Event(event));
                }
                if !turn.is_started {
                    yield Ok(Step::NeverBegan);
                }
                yield Err(BackendError::Terminated {
                    detail: connection.exit_report().await,
                });
                return;
            };
            let end = turn.process(incoming);
            for event in turn.events.drain(..) {
                yield Ok(Step::Event(event));
            }
            match end {
                None => {}
                Some(Ok(end)) => {
                    connection.set_spent(turn.translator.spent());
                    yield Ok(Step::Done(Box::new(turn.finish(end))));
                    return;
                }
                Some(Err(error)) => {
                    yield Err(error);
                    return;
                }
            }
        }
    }
}

/// The event without the agents it is nested in.
fn innermost(event: &BackendEvent) -> &BackendEvent {
    match event {
        BackendEvent::Nested { event, .. } => innermost(event),
        event => event,
    }
}

/// How the agent's part of a turn ended.
enum End {
    Answered(StopReason),
    With(Outcome),
}

struct Turn<'a> {
    core: &'a Core,
    translator: Translator,
    fold: ResultFold,
    /// Events that were not emitted yet.
    events: Vec<BackendEvent>,
    position: Position,
    /// Whether the CLI has started this turn. Earlier frames belong to a previous one.
    is_started: bool,
    /// Details of calls without a result.
    details: HashMap<String, CallDetails>,
    /// Tool calls per model message; messages of sub-agents may be interleaved.
    calls: HashMap<String, usize>,
    /// An own tool that could not be run; ends the turn after the result of its call.
    unavailable: Option<(String, Outcome)>,
    /// Calls without a result: their ids and tools.
    open_calls: Vec<(String, String)>,
    /// Open questions to a person.
    questions: usize,
    /// Why an approver ended the turn.
    termination: Option<String>,
}

impl<'a> Turn<'a> {
    fn new(core: &'a Core, spent: Option<Spending>) -> Self {
        let events: Vec<_> = core
            .take_notices()
            .into_iter()
            .map(|message| BackendEvent::Notice { message })
            .collect();
        Self {
            translator: Translator::new(TranslateOptions {
                structured: core.is_structured(),
                max_tokens: core.options.max_tokens,
                names: core.options.names.clone(),
            })
            .with_spent(spent),
            fold: ResultFold::new(),
            position: Position::default(),
            is_started: false,
            calls: HashMap::new(),
            unavailable: None,
            details: HashMap::new(),
            open_calls: Vec::new(),
            questions: 0,
            termination: None,
            core,
            events,
        }
    }

    /// Interrupts the CLI and waits for the end of the turn. Returns the position then.
    async fn interrupt(mut self, connection: &mut Connection) -> Option<Position> {
        connection.send(wire::control_request("hd_stop", &json!({"subtype": "interrupt"})));
        let ended = async {
            loop {
                let incoming = connection.next().await?;
                if let Incoming::Broken(_) = incoming {
                    return None;
                }
                if self.process(incoming).is_some() {
                    return Some(());
                }
            }
        };
        timeout(ACKNOWLEDGE_TIMEOUT, ended).await.ok().flatten()?;
        connection.set_spent(self.translator.spent());
        let is_known = !self.position.session.is_empty() && self.position.message.is_some();
        is_known.then_some(self.position)
    }

    fn process(&mut self, incoming: Incoming) -> Option<Result<End, BackendError>> {
        match incoming {
            Incoming::Frame(frame) => self.frame(&frame),
            Incoming::Decided(approval) => {
                self.record_decision(&approval.call_id, &approval.decision);
                self.emit(BackendEvent::ApprovalDecided(approval));
                None
            }
            Incoming::Asked(ask) => {
                if self.questions == 0 {
                    self.emit(BackendEvent::Paused);
                }
                self.questions += 1;
                self.emit(BackendEvent::ApprovalAsked(Box::new(ask)));
                None
            }
            Incoming::Details { call_id, details } => {
                self.details.insert(call_id, details);
                None
            }
            Incoming::Answered { call_id, decision } => {
                self.record_decision(&call_id, &decision);
                self.emit_answer(call_id, decision);
                None
            }
            Incoming::Elicited {
                mut ask,
                server,
                call,
            } => {
                // Without a call the question would belong to nothing, and is declined.
                if let Some(id) = self.only_call_of(&server) {
                    ask.call_id.clone_from(&id);
                    self.process(Incoming::Asked(*ask));
                    let _ = call.send(id);
                }
                None
            }
            Incoming::ElicitationAnswered { call_id, decision } => {
                if let ApprovalDecision::Terminate { reason } = &decision {
                    self.termination = Some(reason.clone());
                }
                self.emit_answer(call_id, decision);
                None
            }
            Incoming::Unavailable {
                call_id,
                name,
                reason,
            } => {
                tracing::warn!(tool = %name, %reason, "a tool could not be run");
                let outcome = Outcome::ToolFailed {
                    name,
                    reason: Some(reason),
                };
                self.unavailable = Some((call_id, outcome));
                None
            }
            Incoming::Broken(error) => {
                let rest = self.end_of_stream();
                self.events.extend(rest);
                Some(Err(BackendError::protocol(error.to_string())))
            }
        }
    }

    /// Whether a frame belongs to this turn.
    fn is_own(&mut self, frame: &Frame) -> bool {
        match frame {
            Frame::Init(_) => {
                self.is_started = true;
                true
            }
            Frame::Result(result) => {
                let session = result.session_id.as_ref();
                // The CLI starts turns by itself when a background task ends.
                let current = &self.position.session;
                let is_own =
                    result.origin.is_none() && session.is_none_or(|id| id == current || current.is_empty());
                self.is_started && is_own
            }
            _ => self.is_started,
        }
    }

    fn frame(&mut self, frame: &Frame) -> Option<Result<End, BackendError>> {
        if !self.is_own(frame) {
            tracing::debug!("ignoring a message of the Claude Code CLI that does not belong to this turn");
            return None;
        }
        if let Some(message) = frame.message_uuid() {
            self.position.message = Some(message.to_owned());
        }
        if let Frame::PermissionDenied {
            call_id: Some(call_id),
            ..
        } = frame
        {
            self.record_refusal(call_id, CallRefusal::Rejected);
        }
        let mut events = Vec::new();
        let ending = self.translator.observe(frame, &mut |event| events.push(event));
        let mut failed_tool = None;
        for mut event in events {
            match &mut event {
                BackendEvent::SessionStarted { session_id, model } => {
                    self.position.session.clone_from(session_id);
                    if let Some(message) = self.core.other_model(model.as_deref()) {
                        self.emit(BackendEvent::Notice { message });
                    }
                }
                BackendEvent::ToolResult(result) => {
                    let is_this_call = |(call_id, _): &mut (String, Outcome)| *call_id == result.call_id;
                    failed_tool = self.unavailable.take_if(is_this_call).map(|(_, outcome)| outcome);
                    if let Some(known) = self.details.remove(&result.call_id) {
                        result.details = merge(known, &result.details);
                    }
                }
                _ => {}
            }
            self.emit(event);
        }
        if let Some(outcome) = failed_tool {
            // The turn ends without another model call.
            return Some(Ok(End::With(outcome)));
        }
        if let Some((message, calls)) = frame.tool_calls() {
            let total = self.calls.entry(message.to_owned()).or_default();
            *total += calls;
            if *total > MAX_TOOL_CALLS {
                return Some(Ok(End::With(Outcome::too_many_tool_calls())));
            }
        }
        ending.map(|ending| self.conclude(ending))
    }

    /// Records why a call did not run. The first reason counts; later ones are its consequences.
    fn record_refusal(&mut self, call_id: &str, refusal: CallRefusal) {
        let details = self.details.entry(call_id.to_owned()).or_default();
        details.refused.get_or_insert(refusal);
    }

    fn record_decision(&mut self, call_id: &str, decision: &ApprovalDecision) {
        if !decision.is_approved() {
            self.record_refusal(call_id, CallRefusal::Rejected);
        }
        if let ApprovalDecision::Terminate { reason } = decision {
            self.termination = Some(reason.clone());
        }
    }

    fn conclude(&mut self, ending: Ending) -> Result<End, BackendError> {
        if let Some(reason) = self.termination.take() {
            return Ok(End::With(Outcome::Terminated { reason }));
        }
        match ending {
            Ending::Answered {
                stop_reason,
                structured,
            } => {
                let is_refusal = stop_reason.family() == StopFamily::Refusal;
                match self.core.read_structured_output(structured.as_deref()) {
                    Ok(value) => {
                        if let Some(value) = value {
                            self.emit(BackendEvent::StructuredOutput(value));
                        }
                        Ok(End::Answered(stop_reason))
                    }
                    // A refusal does not have to match `response_format`.
                    Err(_) if is_refusal => Ok(End::Answered(stop_reason)),
                    Err(reason) => Ok(End::With(Outcome::Failed { reason })),
                }
            }
            Ending::Ended(outcome) => Ok(End::With(outcome)),
            Ending::Failed(error) => Err(error),
            // An interrupt by this program ends the turn before the CLI reports it.
            Ending::Interrupted => Err(BackendError::session(
                "the Claude Code CLI was interrupted, but not by this program".to_owned(),
            )),
        }
    }

    /// Closes open messages at the end of the CLI's output.
    fn end_of_stream(&mut self) -> Vec<BackendEvent> {
        let mut events = Vec::new();
        self.translator.end_of_stream(&mut |event| events.push(event));
        events
    }

    /// The open call of a server's tool, if there is just one.
    fn only_call_of(&self, server: &str) -> Option<String> {
        let prefix = mcp_tool_name(server, "");
        let mut calls = self
            .open_calls
            .iter()
            .filter(|(_, name)| name.starts_with(&prefix));
        let only = calls.next().map(|(id, _)| id.clone());
        only.filter(|_| calls.next().is_none())
    }

    fn emit_answer(&mut self, call_id: String, decision: ApprovalDecision) {
        self.emit(BackendEvent::ApprovalAnswered { call_id, decision });
        self.questions = self.questions.saturating_sub(1);
        if self.questions == 0 {
            self.emit(BackendEvent::Resumed);
        }
    }

    fn emit(&mut self, event: BackendEvent) {
        match innermost(&event) {
            BackendEvent::ToolCall(call) => {
                self.open_calls.push((call.call_id.clone(), call.name.clone()));
            }
            BackendEvent::ToolResult(result) => self.open_calls.retain(|(id, _)| *id != result.call_id),
            _ => {}
        }
        self.fold.observe(&event);
        self.events.push(event);
    }

    fn finish(self, end: End) -> FinishedTurn {
        let result = match end {
            End::Answered(stop_reason) => self.fold.finish_answered(&stop_reason),
            End::With(outcome) => self.fold.finish(outcome),
        };
        let is_resumable = matches!(result.outcome, Outcome::Completed | Outcome::Refused)
            && !self.position.session.is_empty();
        FinishedTurn {
            position: is_resumable.then_some(self.position),
            result,
        }
    }
}

/// Merges the host's details of a call with those derived from the CLI's output. The host's take precedence.
fn merge(known: CallDetails, derived: &CallDetails) -> CallDetails {
    CallDetails {
        refused: known.refused.or(derived.refused),
        kind: known.kind.or(derived.kind),
        side_effects: known.side_effects.or(derived.side_effects),
        namesakes: derived.namesakes.clone(),
        passages: known.passages,
        redacted: known.redacted,
        reported: false,
        truncated: known.truncated,
    }
}
