use std::collections::HashMap;

use async_stream::stream;
use futures::Stream;
use holodeck_backend_api::{
    ApprovalDecision, BackendError, BackendEvent, ExecutionResult, MAX_TOOL_CALLS, Outcome, ResultFold,
    StopReason, TurnRequest,
};
use holodeck_mcp_bridge::HOLODECK_SERVER;

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
}

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
                own_server: Some(HOLODECK_SERVER.to_owned()),
            }),
            fold: ResultFold::new(),
            stands: Stands::default(),
            begun: false,
            calls: HashMap::new(),
            unavailable: None,
            questions: 0,
            terminated: None,
            core,
            heard,
        }
    }

    fn hear(&mut self, incoming: Incoming) -> Option<Result<End, BackendError>> {
        match incoming {
            Incoming::Frame(frame) => self.frame(&frame),
            Incoming::Decided(approval) => {
                self.decided(&approval.decision);
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
            Incoming::Answered { call_id, decision } => {
                self.decided(&decision);
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
        let mut events = Vec::new();
        let done = self.translator.observe(frame, &mut |event| events.push(event));
        let mut failed_tool = None;
        for event in events {
            match &event {
                BackendEvent::SessionStarted { session_id, .. } => {
                    self.stands.session.clone_from(session_id);
                }
                // An object that has not the form is none.
                BackendEvent::StructuredOutput(value) if self.core.check_form(Some(value)).is_err() => {
                    continue;
                }
                BackendEvent::ToolResult(result) => {
                    let told = |(call_id, _): &mut (String, String)| *call_id == result.call_id;
                    failed_tool = self.unavailable.take_if(told).map(|(_, name)| name);
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

    fn decided(&mut self, decision: &ApprovalDecision) {
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
