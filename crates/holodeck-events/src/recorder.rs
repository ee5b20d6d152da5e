use std::sync::Arc;

use holodeck_backend_api::{BackendError, BackendEvent, ExecutionResult, ResultFold, ToolResult};
use holodeck_model::events::{EventBody, UserMessage};

use crate::{
    Clock, Draft, Ids,
    book::{Book, Place},
    lane::{End, Lane},
    terminal::{interruption, terminal},
};

/// A run to record.
#[derive(Clone, Debug, Default)]
pub struct NewRun {
    /// The session it belongs to.
    pub session_id: String,
    /// What the person says.
    pub message: String,
    /// Its id; made when there is none.
    pub run_id: Option<String>,
    /// Who says it.
    pub user_id: Option<String>,
    /// The client's own id of the message.
    pub client_message_id: Option<String>,
}

impl NewRun {
    /// A run of `session_id` that answers `message`.
    pub fn new(session_id: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            session_id: session_id.into(),
            message: message.into(),
            ..Self::default()
        }
    }
}

/// What a backend told that does not belong into the record: it would break an invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ignored {
    /// A call that is known already.
    RepeatedCall {
        /// Its id.
        id: String,
    },
    /// A second result of a call.
    RepeatedResult {
        /// The call.
        id: String,
    },
    /// A result of a call nobody made.
    ResultWithoutCall {
        /// The call.
        id: String,
    },
    /// A second question while one is open.
    RepeatedAsk {
        /// The call.
        id: String,
    },
    /// A question about no call in particular.
    AskWithoutId,
    /// A question about a call that has its result.
    AskAfterResult {
        /// The call.
        id: String,
    },
    /// An answer to no question.
    AnswerWithoutAsk {
        /// The call.
        id: String,
    },
    /// Anything after the end.
    AfterEnd,
}

/// Turns what a backend tells during one turn into events. A pure state machine: the same input, clock and ids give
/// the same events, and whatever the input, they hold the invariants.
pub struct RunRecorder {
    book: Book,
    main: Lane,
    /// Agents that the run's own agent started, in the order they spoke first.
    nested: Vec<Lane>,
    fold: ResultFold,
    backend_session: Option<String>,
    result: Option<ExecutionResult>,
}

impl RunRecorder {
    /// A recorder, and the first event of its run.
    pub fn open(run: NewRun, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> (Self, Draft) {
        let run_id = run.run_id.unwrap_or_else(|| ids.next().to_string());
        let book = Book::new(run.session_id, run_id, clock, ids);
        let message = UserMessage {
            message_id: book.new_id(),
            content: run.message,
            user_id: run.user_id,
            client_message_id: run.client_message_id,
        };
        let first = book.draft(Place::RUN, EventBody::UserMessageConfirmed(message));
        let recorder = Self {
            book,
            main: Lane::default(),
            nested: Vec::new(),
            fold: ResultFold::new(),
            backend_session: None,
            result: None,
        };
        (recorder, first)
    }

    /// Takes in one thing the backend told, and gives the events it comes to.
    pub fn observe(&mut self, event: &BackendEvent) -> Vec<Draft> {
        if self.result.is_some() {
            self.book.ignore(Ignored::AfterEnd);
            return Vec::new();
        }
        self.fold.observe(event);
        match event {
            BackendEvent::End(result) => self.end((**result).clone(), None),
            BackendEvent::SessionStarted { session_id, .. } => {
                self.backend_session = Some(session_id.clone());
            }
            other => self.hear(None, other),
        }
        self.book.take_drafts()
    }

    /// Ends the run with what the backend failed with.
    pub fn fail(&mut self, error: &BackendError) -> Vec<Draft> {
        if self.result.is_some() {
            self.book.ignore(Ignored::AfterEnd);
            return Vec::new();
        }
        let partial = std::mem::take(&mut self.fold).finish_failed(error);
        self.end(partial, Some(error));
        self.book.take_drafts()
    }

    /// What the run came to, once it is over.
    pub fn result(&self) -> Option<&ExecutionResult> {
        self.result.as_ref()
    }

    /// The run.
    pub fn run_id(&self) -> &str {
        self.book.run_id()
    }

    /// The session.
    pub fn session_id(&self) -> &str {
        self.book.session_id()
    }

    /// The other side's own id of the conversation, when it told one.
    pub fn backend_session_id(&self) -> Option<&str> {
        self.backend_session.as_deref()
    }

    /// What the backend told and the record leaves out.
    pub fn ignored(&self) -> &[Ignored] {
        self.book.ignored()
    }

    /// `agent` is the call that started the agent that speaks.
    fn hear(&mut self, agent: Option<&str>, event: &BackendEvent) {
        if let BackendEvent::Nested {
            parent_call_id,
            event,
        } = event
        {
            let (lane, book) = self.lane_of_call(parent_call_id, None);
            lane.tell_written(parent_call_id, book);
            self.hear(Some(parent_call_id), event);
            return;
        }
        match event {
            BackendEvent::ToolResult(result) if result.call_id.is_empty() => {
                if let Some(call_id) = self.book.open_without_id(agent, &result.name) {
                    let result = ToolResult {
                        call_id,
                        ..result.clone()
                    };
                    self.hear(agent, &BackendEvent::ToolResult(result));
                    return;
                }
            }
            BackendEvent::ApprovalAsked(ask) if ask.call_id.is_empty() => {
                self.book.ignore(Ignored::AskWithoutId);
                return;
            }
            _ => {}
        }
        let (lane, book) = match event {
            // About a call, whoever tells it.
            BackendEvent::ToolResult(result) => self.lane_of_call(&result.call_id, agent),
            BackendEvent::ApprovalAsked(ask) => self.lane_of_call(&ask.call_id, agent),
            BackendEvent::ApprovalAnswered { call_id, .. } => self.lane_of_call(call_id, agent),
            _ => self.lane(agent),
        };
        lane.hear(event, book);
    }

    /// The agent that made this call, else `agent`.
    fn lane_of_call(&mut self, call_id: &str, agent: Option<&str>) -> (&mut Lane, &mut Book) {
        let own = self.book.call(call_id).map(|call| call.agent.clone());
        match own {
            Some(own) => self.lane(own.as_deref()),
            None => self.lane(agent),
        }
    }

    fn lane(&mut self, agent: Option<&str>) -> (&mut Lane, &mut Book) {
        let Some(id) = agent else {
            return (&mut self.main, &mut self.book);
        };
        let known = self.nested.iter().position(|lane| lane.agent() == agent);
        let at = known.unwrap_or_else(|| {
            self.nested.push(Lane::of(id));
            self.nested.len() - 1
        });
        #[expect(clippy::indexing_slicing, reason = "found or just pushed")]
        (&mut self.nested[at], &mut self.book)
    }

    fn end(&mut self, result: ExecutionResult, error: Option<&BackendError>) {
        let reason = result.error_reason().unwrap_or("the run ended".into());
        let end = End {
            reason: &reason,
            interruption: interruption(&result, error),
        };
        // The latest first: an agent's own agents before it.
        for lane in self.nested.iter_mut().rev() {
            lane.close(&end, &mut self.book);
        }
        self.main.close(&end, &mut self.book);
        let last = terminal(&result, error, self.main.last_stop(), self.book.duration_ms());
        self.book.write(Place::RUN, last);
        self.result = Some(result);
    }
}
