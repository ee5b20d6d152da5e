//! A model without an endpoint, for tests of backends without a wire.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use futures::{Stream, StreamExt as _};
use holodeck_backend_api::{
    BackendError, ModelCalls, ModelDelta, ModelRequest, ModelStream, StopReason, TokenUsage, ToolCall,
};
use tokio_util::sync::CancellationToken;

use crate::body_violations;

/// A model without an endpoint: scripted [`ModelCalls`] for tests without a wire. Requests are checked like those to
/// the scripted server.
pub struct ScriptedModel {
    script: Script,
    seen: Mutex<Seen>,
}

enum Script {
    List(Mutex<VecDeque<ModelReply>>),
    Closure(Box<dyn Fn(&ModelRequest) -> ModelReply + Send + Sync>),
}

#[derive(Default)]
struct Seen {
    requests: Vec<ModelRequest>,
    violations: Vec<String>,
}

/// The scripted answer to one call.
#[derive(Clone, Debug)]
pub struct ModelReply {
    before: Duration,
    deltas: Vec<ModelDelta>,
    ending: Ending,
}

#[derive(Clone, Debug)]
enum Ending {
    Complete,
    Hang,
    Error(BackendError),
    /// The call itself fails, before any stream.
    Refused(BackendError),
}

impl ScriptedModel {
    /// Answers the n-th call with the n-th reply.
    pub fn replies(replies: impl IntoIterator<Item = ModelReply>) -> Arc<Self> {
        Self::new(Script::List(Mutex::new(replies.into_iter().collect())))
    }

    /// Answers each call by calling `script`.
    pub fn answering(script: impl Fn(&ModelRequest) -> ModelReply + Send + Sync + 'static) -> Arc<Self> {
        Self::new(Script::Closure(Box::new(script)))
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.lock().requests.clone()
    }

    fn new(script: Script) -> Arc<Self> {
        Arc::new(Self {
            script,
            seen: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reply(&self, request: &ModelRequest) -> ModelReply {
        let mut violations = body_violations(&request.body);
        for key in ["model", "stream", "stream_options"] {
            if request.body.get(key).is_some() {
                violations.push(format!("`{key}` belongs to the transport"));
            }
        }
        let reply = match &self.script {
            Script::Closure(script) => Some(script(request)),
            Script::List(replies) => replies.lock().unwrap_or_else(PoisonError::into_inner).pop_front(),
        };
        let mut seen = self.lock();
        seen.requests.push(request.clone());
        if reply.is_none() {
            violations.push("the script has no reply left".to_owned());
        }
        let number = seen.requests.len();
        let named = violations.iter().map(|text| format!("call {number}: {text}"));
        seen.violations.extend(named.collect::<Vec<_>>());
        match reply {
            Some(reply) if violations.is_empty() => reply,
            _ => ModelReply::refused(BackendError::protocol(violations.join("; "))),
        }
    }
}

#[async_trait]
impl ModelCalls for ScriptedModel {
    async fn call(
        &self,
        request: &ModelRequest,
        cancel: &CancellationToken,
    ) -> Result<ModelStream, BackendError> {
        let reply = self.reply(request);
        if let Ending::Refused(error) = reply.ending {
            return Err(error);
        }
        let deltas = reply.stream();
        let stopped = futures::stream::iter([Err(BackendError::Cancelled)]);
        let cancelled = cancel.clone().cancelled_owned();
        Ok(Box::pin(deltas.take_until(cancelled).chain(stopped)))
    }
}

impl Drop for ScriptedModel {
    fn drop(&mut self) {
        let seen = self.lock();
        assert!(
            std::thread::panicking() || seen.violations.is_empty(),
            "the scripted model got calls it can't accept:\n- {}",
            seen.violations.join("\n- ")
        );
    }
}

impl ModelReply {
    /// An answer of text.
    pub fn text(text: &str) -> Self {
        Self::of([ModelDelta::Text(text.to_owned())], StopReason::EndTurn)
    }

    /// A message that calls tools.
    pub fn tool_calls(calls: impl IntoIterator<Item = ToolCall>) -> Self {
        Self::of(calls.into_iter().map(ModelDelta::ToolCall), StopReason::ToolUse)
    }

    /// These deltas, and then the end.
    pub fn of(deltas: impl IntoIterator<Item = ModelDelta>, stop_reason: StopReason) -> Self {
        let mut deltas: Vec<_> = deltas.into_iter().collect();
        deltas.push(ModelDelta::Usage(TokenUsage::new(10, 5)));
        deltas.push(ModelDelta::Finish {
            stop_reason,
            message_id: None,
            model: Some("scripted-1".to_owned()),
            recorded: None,
        });
        Self {
            before: Duration::ZERO,
            deltas,
            ending: Ending::Complete,
        }
    }

    /// A call that fails before any answer.
    pub fn refused(error: BackendError) -> Self {
        Self {
            ending: Ending::Refused(error),
            ..Self::hangs_after([])
        }
    }

    /// These deltas, and then an error.
    pub fn fails_after(deltas: impl IntoIterator<Item = ModelDelta>, error: BackendError) -> Self {
        Self {
            ending: Ending::Error(error),
            ..Self::hangs_after(deltas)
        }
    }

    /// These deltas, and then silence.
    pub fn hangs_after(deltas: impl IntoIterator<Item = ModelDelta>) -> Self {
        Self {
            before: Duration::ZERO,
            deltas: deltas.into_iter().collect(),
            ending: Ending::Hang,
        }
    }

    /// Waits first.
    pub fn after(mut self, delay: Duration) -> Self {
        self.before = delay;
        self
    }

    fn stream(self) -> impl Stream<Item = Result<ModelDelta, BackendError>> + Send {
        let wait =
            futures::stream::once(tokio::time::sleep(self.before)).filter_map(|()| std::future::ready(None));
        let deltas = futures::stream::iter(self.deltas.into_iter().map(Ok));
        let end: Pin<Box<dyn Stream<Item = _> + Send>> = match self.ending {
            Ending::Complete => Box::pin(futures::stream::empty()),
            Ending::Hang => Box::pin(futures::stream::pending()),
            Ending::Error(error) | Ending::Refused(error) => Box::pin(futures::stream::iter([Err(error)])),
        };
        wait.chain(deltas).chain(end)
    }
}
