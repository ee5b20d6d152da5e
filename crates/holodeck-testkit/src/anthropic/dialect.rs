//! Answers requests in the dialect of the Messages API, scripted or unchecked.

use std::sync::Arc;

use serde_json::json;

use super::{
    AnthropicReply, AnthropicRequest, messages_violations,
    reply::{Form, Shape},
};
use crate::{
    delivery::Rendered,
    loopback::{Dialect, Log},
    received::ReceivedRequest,
    script::{self, Script},
};

/// The Messages API, scripted.
pub(super) struct Scripted(pub(super) Script<AnthropicRequest, AnthropicReply>);

impl Dialect for Scripted {
    fn answer(&self, mut request: ReceivedRequest, log: &Log) -> Arc<Rendered> {
        let shape = shape(&request);
        if !asks_for_a_message(&request) {
            let reply = aside(&request);
            log.keep_other(request);
            return Arc::new(reply.render(&shape));
        }
        let violations = messages_violations(&request);
        request.index = log.keep(request.clone(), &violations);
        let reply = if violations.is_empty() {
            let request = AnthropicRequest::new(request);
            self.0.reply(&request).unwrap_or_else(|| {
                let nothing_left = script::nothing_left(request.index());
                log.add_violation(nothing_left.clone());
                AnthropicReply::error(400, &nothing_left)
            })
        } else {
            AnthropicReply::error(400, &violations.join("; "))
        };
        Arc::new(reply.render(&shape))
    }

    fn drain_unused(&self) -> usize {
        self.0.drain()
    }
}

/// The Messages API for benches: nothing is checked or kept.
pub(super) struct Unchecked(pub(super) Box<dyn Fn(&AnthropicRequest) -> AnthropicReply + Send + Sync>);

impl Dialect for Unchecked {
    fn answer(&self, request: ReceivedRequest, _log: &Log) -> Arc<Rendered> {
        let shape = shape(&request);
        let reply = if asks_for_a_message(&request) {
            (self.0)(&AnthropicRequest::new(request))
        } else {
            aside(&request)
        };
        Arc::new(reply.render(&shape))
    }

    fn drain_unused(&self) -> usize {
        0
    }
}

fn asks_for_a_message(request: &ReceivedRequest) -> bool {
    let route = request.route();
    route.ends_with("/v1/messages") || route.ends_with(":streamRawPredict") || route.ends_with(":rawPredict")
}

fn shape(request: &ReceivedRequest) -> Shape {
    Shape {
        model: request.body["model"].as_str().unwrap_or("scripted-1").to_owned(),
        form: if request.body["stream"] == true {
            Form::Stream
        } else {
            Form::Object
        },
    }
}

/// Other requests of clients.
fn aside(request: &ReceivedRequest) -> AnthropicReply {
    let route = request.route();
    if route.ends_with("/v1/messages/count_tokens") {
        // Four bytes per token is a good enough estimate.
        let tokens = request.body.to_string().len() / 4;
        let body = json!({"input_tokens": tokens}).to_string();
        return AnthropicReply::raw(200, "application/json", body);
    }
    if request.method == "HEAD" || route == "/" {
        return AnthropicReply::raw(200, "application/json", "{}");
    }
    AnthropicReply::error(
        404,
        &format!("no such route: {} {}", request.method, request.path),
    )
}
