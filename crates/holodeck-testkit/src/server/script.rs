use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use super::received::{Received, ReceivedRequest};
use crate::{
    Reply,
    reply::{Rendered, RequestShape},
    request_violations,
};

type Closure = Box<dyn Fn(&ReceivedRequest) -> Reply + Send + Sync>;

/// Where replies come from.
pub(super) enum Script {
    List(Mutex<VecDeque<Reply>>),
    Closure(Closure),
    Canned(Arc<Rendered>),
}

impl Script {
    pub(super) fn list(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::List(Mutex::new(replies.into_iter().collect()))
    }

    pub(super) fn canned(reply: &Reply) -> Self {
        Self::Canned(Arc::new(reply.render(RequestShape { usage_asked: true })))
    }
}

/// What the server's thread and its owner share.
pub(super) struct State {
    script: Script,
    received: Mutex<Received>,
    open: watch::Sender<usize>,
}

impl State {
    pub(super) fn new(script: Script) -> Self {
        Self {
            script,
            received: Mutex::default(),
            open: watch::Sender::new(0),
        }
    }

    pub(super) fn received(&self) -> Received {
        self.lock().clone()
    }

    /// Everything so far; a script that was not used up is one more violation.
    pub(super) fn take(&self) -> Received {
        let mut received = std::mem::take(&mut *self.lock());
        if let Script::List(replies) = &self.script {
            let mut left = replies.lock().unwrap_or_else(PoisonError::into_inner);
            if !left.is_empty() {
                received
                    .violations
                    .push(format!("{} scripted replies were never asked for", left.len()));
                left.clear();
            }
        }
        received
    }

    /// The reply that needs no look at the request.
    pub(super) fn canned(&self) -> Option<Arc<Rendered>> {
        match &self.script {
            Script::Canned(rendered) => Some(Arc::clone(rendered)),
            _ => None,
        }
    }

    /// Checks and keeps `request` and finds its reply.
    pub(super) fn reply(&self, mut request: ReceivedRequest) -> Rendered {
        let shape = RequestShape {
            usage_asked: request.body["stream_options"]["include_usage"] == true,
        };
        let path = request.path.split('?').next().unwrap_or_default();
        if !path.ends_with("/chat/completions") {
            let reply = not_found(&request);
            self.keep(request, &[]);
            return reply.render(shape);
        }
        let violations = request_violations(&request);
        request.index = self.keep(request.clone(), &violations);
        if !violations.is_empty() {
            return invalid(&violations).render(shape);
        }
        let reply = match &self.script {
            Script::List(replies) => replies.lock().unwrap_or_else(PoisonError::into_inner).pop_front(),
            // A panic here would only close the connection, and the test might go on.
            Script::Closure(script) => catch_unwind(AssertUnwindSafe(|| script(&request))).ok(),
            Script::Canned(_) => None,
        };
        let Some(reply) = reply else {
            let nothing_left = format!(
                "request {}: the script has no reply left, or panicked",
                request.index + 1
            );
            self.lock().violations.push(nothing_left.clone());
            return invalid(&[nothing_left]).render(shape);
        };
        reply.render(shape)
    }

    pub(super) fn open(&self) -> usize {
        *self.open.borrow()
    }

    pub(super) async fn until_open(&self, count: usize) {
        let mut open = self.open.subscribe();
        // The sender lives as long as `self`.
        let _ = open.wait_for(|open| *open == count).await;
    }

    fn keep(&self, mut request: ReceivedRequest, violations: &[String]) -> usize {
        let mut received = self.lock();
        let index = received.requests.len();
        request.index = index;
        let named = violations
            .iter()
            .map(|text| format!("request {}: {text}", index + 1));
        received.violations.extend(named);
        received.requests.push(request);
        index
    }

    fn lock(&self) -> MutexGuard<'_, Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a request as open until it is dropped.
pub(super) struct OpenRequest(Arc<State>);

impl OpenRequest {
    pub(super) fn new(state: &Arc<State>) -> Self {
        state.open.send_modify(|open| *open += 1);
        Self(Arc::clone(state))
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.open.send_modify(|open| *open -= 1);
    }
}

fn invalid(violations: &[String]) -> Reply {
    Reply::error(
        400,
        &serde_json::json!({"error": {
            "message": violations.join("; "),
            "type": "invalid_request_error",
            "code": "scripted_server",
        }}),
    )
}

fn not_found(request: &ReceivedRequest) -> Reply {
    Reply::error(
        404,
        &serde_json::json!({"error": {
            "message": format!("Invalid URL ({} {})", request.method, request.path),
            "type": "invalid_request_error",
            "param": null,
            "code": null,
        }}),
    )
}
