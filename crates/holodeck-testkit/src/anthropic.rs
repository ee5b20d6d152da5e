//! A scripted server for Anthropic's Messages API that checks every request.

use crate::{
    loopback::Loopback,
    received::{Received, ReceivedRequest},
    script::Script,
};

mod dialect;
mod message;
mod reply;
mod request;
mod violations;

pub use self::{
    reply::AnthropicReply,
    request::{AnthropicRequest, ToolResult},
    violations::messages_violations,
};

/// A scripted server on loopback for Anthropic's Messages API.
///
/// Only requests to `/v1/messages` (or Vertex's `:streamRawPredict`) count; replies are streamed, or sent as one object
/// if the request does not stream. Token counts are invented; any other request gets a 404 and is kept in
/// [`others`](Self::others). The server runs on its own thread, so it works with any kind of test and stops when
/// dropped. Each request is checked (see [`messages_violations`]); a violation is answered with a 400 and makes
/// [`finish`](Self::finish), or the drop, panic.
///
/// ```
/// use holodeck_testkit::{AnthropicReply, AnthropicServer, Gate};
/// use serde_json::json;
///
/// let gate = Gate::new();
/// let server = AnthropicServer::replies([
///     AnthropicReply::text("Let me look.")
///         .and_tool_use("mcp__holodeck__search", &json!({"query": "x"})),
///     AnthropicReply::nothing()
///         .and_thinking("Hm.", "signature")
///         .and_text("It is x.")
///         .in_pieces(4)
///         .gated_after(5, &gate)
///         .tokens(1200, 30),
///     AnthropicReply::error(529, "Overloaded"),
/// ]);
/// let environment = [("ANTHROPIC_BASE_URL", server.url()), ("ANTHROPIC_API_KEY", "k".to_owned())];
/// # let _ = environment;
/// # gate.open();
/// // … let the client talk, then look at what the model was shown:
/// # let asked = server.finish_unchecked();
/// # assert_eq!(asked.violations.len(), 1);
/// ```
///
/// After a run, `server.finish()` gives the [`AnthropicRequest`]s: `system()`, `tools()`, `prompt()`,
/// `tool_results()`, `header("x-api-key")`, `body()["thinking"]`.
pub struct AnthropicServer(Loopback);

impl AnthropicServer {
    /// Answers the n-th request with the n-th reply. A request without a reply and an unused reply are violations.
    pub fn replies(replies: impl IntoIterator<Item = AnthropicReply>) -> Self {
        Self(Loopback::start(dialect::Scripted(Script::list(replies))))
    }

    /// Answers each request by calling `script`: for requests without a fixed order, such as those of subagents.
    pub fn answering(script: impl Fn(&AnthropicRequest) -> AnthropicReply + Send + Sync + 'static) -> Self {
        Self(Loopback::start(dialect::Scripted(Script::Closure(Box::new(
            script,
        )))))
    }

    /// Answers each request by calling `script` without checking or keeping requests: for benches.
    pub fn unchecked(script: impl Fn(&AnthropicRequest) -> AnthropicReply + Send + Sync + 'static) -> Self {
        Self(Loopback::start(dialect::Unchecked(Box::new(script))))
    }

    /// `http://127.0.0.1:PORT`, as used in `ANTHROPIC_BASE_URL`.
    pub fn url(&self) -> String {
        self.0.url()
    }

    /// The message requests so far.
    pub fn requests(&self) -> Vec<AnthropicRequest> {
        let requests = self.0.state().log().received().requests;
        requests.into_iter().map(AnthropicRequest::new).collect()
    }

    /// All other requests so far: token counts, probes and unsupported paths.
    pub fn others(&self) -> Vec<ReceivedRequest> {
        self.0.state().log().others()
    }

    /// Number of requests in progress.
    pub fn open(&self) -> usize {
        self.0.state().open()
    }

    /// Waits until `count` requests are in progress.
    pub async fn until_open(&self, count: usize) {
        self.0.state().until_open(count).await;
    }

    /// Waits until `count` message requests have arrived, answered or not.
    pub async fn until_asked(&self, count: usize) {
        self.0.state().log().until_kept(count).await;
    }

    /// Stops the server and returns the message requests. Panics if one broke a rule or replies are left.
    pub fn finish(mut self) -> Vec<AnthropicRequest> {
        self.0.shut_down();
        let received = self.0.state().take();
        received.assert();
        received.requests.into_iter().map(AnthropicRequest::new).collect()
    }

    /// Stops the server and returns the requests and violations: for tests of wrong requests, and of clients that are
    /// killed with replies left.
    pub fn finish_unchecked(mut self) -> Received {
        self.0.shut_down();
        self.0.state().take()
    }
}
