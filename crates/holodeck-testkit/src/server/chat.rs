//! Answers requests in the dialect of OpenAI's chat completions.

use std::sync::Arc;

use super::embeddings;
use crate::{
    Reply,
    delivery::Rendered,
    loopback::{Dialect, Log},
    received::ReceivedRequest,
    reply::RequestShape,
    request_violations,
    script::{self, Script},
};

/// OpenAI's chat completions, scripted.
pub(super) struct Scripted(pub(super) Script<ReceivedRequest, Reply>);

impl Dialect for Scripted {
    fn answer(&self, request: ReceivedRequest, log: &Log) -> Arc<Rendered> {
        let shape = RequestShape {
            usage_asked: request.body["stream_options"]["include_usage"] == true,
            log_probs_asked: request.body["logprobs"] == true,
        };
        Arc::new(self.reply(request, log).render(shape))
    }

    fn drain_unused(&self) -> usize {
        self.0.drain()
    }
}

impl Scripted {
    fn reply(&self, mut request: ReceivedRequest, log: &Log) -> Reply {
        if let Some(reply) = embeddings::answer(&request, log) {
            log.keep_other(request);
            return reply;
        }
        if !request.route().ends_with("/chat/completions") {
            let reply = not_found(&request);
            log.keep(request, &[]);
            return reply;
        }
        let violations = request_violations(&request);
        request.index = log.keep(request.clone(), &violations);
        if !violations.is_empty() {
            return invalid(&violations);
        }
        self.0.reply(&request).unwrap_or_else(|| {
            let nothing_left = script::nothing_left(request.index);
            log.add_violation(nothing_left.clone());
            invalid(&[nothing_left])
        })
    }
}

/// The same bytes for every request, which is not read.
pub(super) struct Canned(Arc<Rendered>);

impl Canned {
    pub(super) fn new(reply: &Reply) -> Self {
        Self(Arc::new(reply.render(RequestShape {
            usage_asked: true,
            log_probs_asked: false,
        })))
    }
}

impl Dialect for Canned {
    fn canned(&self) -> Option<Arc<Rendered>> {
        Some(Arc::clone(&self.0))
    }

    fn answer(&self, _request: ReceivedRequest, _log: &Log) -> Arc<Rendered> {
        Arc::clone(&self.0)
    }

    fn drain_unused(&self) -> usize {
        0
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
