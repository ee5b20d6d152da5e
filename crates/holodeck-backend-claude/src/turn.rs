use std::{collections::HashMap, time::Duration};

use async_stream::stream;
use futures::Stream;
use holodeck_backend_api::{
    ApprovalDecision, BackendError, BackendEvent, CallDetails, CallRefusal, ExecutionResult, MAX_TOOL_CALLS,
    Outcome, ResultFold, StopReason, TurnRequest,
};
use serde_json::json;
use tokio::time::timeout;

use crate::{
    connection::{Connection, Incoming},
    core::Core,
    translate::{TranslateOptions, Translator, TurnDone},
    wire::{self, Delivery, Frame},
};

/// What a turn yields.
pub(crate) enum Step {
    Event(BackendEvent),
    Done(Box<Done>),
    /// The turn was cancelled, and the CLI has acknowledged it: where the conversation stands now.
    Interrupted(Option<Stands>),
}

/// What happens to the connection of a turn that is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnCancel {
    /// It is of no further use.
    Leave,
    /// The CLI is interrupted and keeps what it has written, if it says so in time.
    Await,
}

/// The time in which the CLI acknowledges an interrupt, which takes it milliseconds.
const ACKNOWLEDGE: Duration = Duration::from_secs(1);

/// The end of a turn.
pub(crate) struct Done {
    pub(crate) result: ExecutionResult,
    /// Where the conversation stands after it, unless what was said is to be forgotten.
    pub(crate) stands: Option<Stands>,
}

/// A conversation and its last message, by the CLI's own ids.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stands {
    pub(crate) session: String,
    pub(crate) message: Option<String>,
}

/// Says `request` on `connection` and tells what becomes of it. After an error, or when it is dropped before its end,
/// the connection is of no further use.
pub(crate) fn run<'a>(
    core: &'a Core,
    connection: &'a mut Connection,
    request: TurnRequest,
    on_cancel: OnCancel,
) -> impl Stream<Item = Result<Step, BackendError>> + Send + 'a {
    stream! {
        let mut turn = Turn::new(core);
        while let Some(left) = connection.left_over() {
            if let Incoming::Broken(error) = left {
                yield Err(BackendError::Protocol { message: error.to_string() });
                return;
            }
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
                for event in turn.broke_off() {
                    yield Ok(Step::Event(event));
                }
                yield Err(BackendError::Terminated {
                    detail: connection.obituary().await,
                });
                return;
            };
            let end = turn.hear(incoming);
            for event in turn.heard.drain(..) {
                yield Ok(Step::Event(event));
            }
            match end {
                None => {}
                Some(Ok(outcome)) => {
                    yield Ok(Step::Done(Box::new(turn.end(outcome))));
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

/// How the agent's part of a turn ended.
enum End {
    Answered(StopReason),
    With(Outcome),
}

struct Turn<'a> {
    core: &'a Core,
    translator: Translator,
    fold: ResultFold,
    heard: Vec<BackendEvent>,
    stands: Stands,
    /// Whether the CLI has taken up the message. What it says before that is of an earlier one.
    begun: bool,
    /// What is known of calls whose results are still to come.
    details: HashMap<String, CallDetails>,
    /// Tool calls of each message of the model: sub-agents send theirs in between.
    calls: HashMap<String, usize>,
    /// A tool of ours that could not be run, once its result was heard.
    unavailable: Option<(String, String)>,
    /// Questions that a person has not answered yet.
    questions: usize,
    /// Why an approver ended the turn, once it has.
    terminated: Option<String>,
}

impl<'a> Turn<'a> {
    fn new(core: &'a Core) -> Self {
        let heard: Vec<_> = core
            .opening_notices()
            .into_iter()
            .map(|message| BackendEvent::Notice { message })
            .collect();
        Self {
            translator: Translator::new(TranslateOptions {
                structured: core.structured(),
                names: core.options.names.clone(),
            }),
            fold: ResultFold::new(),
            stands: Stands::default(),
            begun: false,
            calls: HashMap::new(),
            unavailable: None,
            details: HashMap::new(),
            questions: 0,
            terminated: None,
            core,
            heard,
        }
    }

    /// Interrupts the CLI and waits for the end of the turn; where the conversation stands then.
    async fn interrupt(mut self, connection: &mut Connection) -> Option<Stands> {
        connection.send(wire::control_request("hd_stop", &json!({"subtype": "interrupt"})));
        let ended = async {
            loop {
                let incoming = connection.next().await?;
                if let Incoming::Broken(_) = incoming {
                    return None;
                }
                if self.hear(incoming).is_some() {
                    return Some(());
                }
            }
        };
        timeout(ACKNOWLEDGE, ended).await.ok().flatten()?;
        let begun = !self.stands.session.is_empty() && self.stands.message.is_some();
        begun.then_some(self.stands)
    }

    fn hear(&mut self, incoming: Incoming) -> Option<Result<End, BackendError>> {
        match incoming {
            Incoming::Frame(frame) => self.frame(&frame),
            Incoming::Decided(approval) => {
                self.decided(&approval.call_id, &approval.decision);
                self.tell(BackendEvent::ApprovalDecided(approval));
                None
            }
            Incoming::Asked(ask) => {
                if self.questions == 0 {
                    self.tell(BackendEvent::Paused);
                }
                self.questions += 1;
                self.tell(BackendEvent::ApprovalAsked(ask));
                None
            }
            Incoming::Details { call_id, details } => {
                self.details.insert(call_id, details);
                None
            }
            Incoming::Answered { call_id, decision } => {
                self.decided(&call_id, &decision);
                self.tell(BackendEvent::ApprovalAnswered { call_id, decision });
                self.questions = self.questions.saturating_sub(1);
                if self.questions == 0 {
                    self.tell(BackendEvent::Resumed);
                }
                None
            }
            Incoming::Unavailable {
                call_id,
                name,
                reason,
            } => {
                tracing::warn!(tool = %name, %reason, "a tool could not be run");
                self.unavailable = Some((call_id, name));
                None
            }
            Incoming::Broken(error) => {
                let rest = self.broke_off();
                self.heard.extend(rest);
                Some(Err(BackendError::Protocol {
                    message: error.to_string(),
                }))
            }
        }
    }

    /// Whether a frame is of this turn.
    fn is_own(&mut self, frame: &Frame) -> bool {
        match frame {
            Frame::Init(_) => {
                self.begun = true;
                true
            }
            Frame::Result(result) => {
                let session = result.session_id.as_ref();
                // The CLI makes turns of its own when something in the background ends.
                let stands = &self.stands.session;
                let own =
                    result.origin.is_none() && session.is_none_or(|own| own == stands || stands.is_empty());
                self.begun && own
            }
            _ => self.begun,
        }
    }

    fn frame(&mut self, frame: &Frame) -> Option<Result<End, BackendError>> {
        if !self.is_own(frame) {
            tracing::debug!("a message of the Claude Code CLI is not of this turn and left out");
            return None;
        }
        if let Some(message) = frame.place() {
            self.stands.message = Some(message.to_owned());
        }
        if let Frame::PermissionDenied {
            call_id: Some(call_id),
            ..
        } = frame
        {
            self.refuse(call_id, CallRefusal::Rejected);
        }
        let mut events = Vec::new();
        let done = self.translator.observe(frame, &mut |event| events.push(event));
        let mut failed_tool = None;
        for mut event in events {
            match &mut event {
                BackendEvent::SessionStarted { session_id, .. } => {
                    self.stands.session.clone_from(session_id);
                }
                // An object that has not the form is none.
                BackendEvent::StructuredOutput(value) if self.core.check_form(Some(&*value)).is_err() => {
                    continue;
                }
                BackendEvent::ToolResult(result) => {
                    let told = |(call_id, _): &mut (String, String)| *call_id == result.call_id;
                    failed_tool = self.unavailable.take_if(told).map(|(_, name)| name);
                    if let Some(known) = self.details.remove(&result.call_id) {
                        result.details = complete(known, &result.details);
                    }
                }
                _ => {}
            }
            self.tell(event);
        }
        if let Some(name) = failed_tool {
            // The model need not be asked what to do about it.
            return Some(Ok(End::With(Outcome::ToolFailed { name })));
        }
        if let Some((message, calls)) = frame.tool_calls() {
            let total = self.calls.entry(message.to_owned()).or_default();
            *total += calls;
            if *total > MAX_TOOL_CALLS {
                return Some(Ok(End::With(Outcome::too_many_tool_calls())));
            }
        }
        done.map(|done| self.done(done))
    }

    /// The first reason counts: what follows from it is none of its own.
    fn refuse(&mut self, call_id: &str, refusal: CallRefusal) {
        let details = self.details.entry(call_id.to_owned()).or_default();
        details.refused.get_or_insert(refusal);
    }

    fn decided(&mut self, call_id: &str, decision: &ApprovalDecision) {
        if !decision.is_approved() {
            self.refuse(call_id, CallRefusal::Rejected);
        }
        if let ApprovalDecision::Terminate { reason } = decision {
            self.terminated = Some(reason.clone());
        }
    }

    fn done(&mut self, done: TurnDone) -> Result<End, BackendError> {
        if let Some(reason) = self.terminated.take() {
            return Ok(End::With(Outcome::Terminated { reason }));
        }
        match done {
            TurnDone::Answered {
                stop_reason,
                structured,
            } => match self.core.check_form(structured.as_ref()) {
                // Who refuses owes no form.
                _ if stop_reason == StopReason::Refusal => Ok(End::Answered(stop_reason)),
                Ok(()) => Ok(End::Answered(stop_reason)),
                Err(reason) => Ok(End::With(Outcome::Failed { reason })),
            },
            TurnDone::Ended(outcome) => Ok(End::With(outcome)),
            TurnDone::Failed(error) => Err(error),
            // Our own interrupt ends the turn before the CLI reports it.
            TurnDone::Interrupted => Err(BackendError::Session {
                message: "the Claude Code CLI was interrupted, but not by this program".to_owned(),
            }),
        }
    }

    /// Nothing more will come: what had arrived is told whole.
    fn broke_off(&mut self) -> Vec<BackendEvent> {
        let mut events = Vec::new();
        self.translator.end_of_stream(&mut |event| events.push(event));
        events
    }

    fn tell(&mut self, event: BackendEvent) {
        self.fold.observe(&event);
        self.heard.push(event);
    }

    fn end(self, end: End) -> Done {
        let result = match end {
            End::Answered(stop_reason) => self.fold.finish_answered(&stop_reason),
            End::With(outcome) => self.fold.finish(outcome),
        };
        let goes_on = matches!(result.outcome, Outcome::Completed | Outcome::Refused)
            && !self.stands.session.is_empty();
        Done {
            stands: goes_on.then_some(self.stands),
            result,
        }
    }
}

/// What the host knows of a call, with what can be told from the CLI's own words where the host knows nothing.
fn complete(known: CallDetails, told: &CallDetails) -> CallDetails {
    CallDetails {
        refused: known.refused.or(told.refused),
        kind: known.kind.or(told.kind),
        side_effects: known.side_effects.or(told.side_effects),
        passages: known.passages,
    }
}
