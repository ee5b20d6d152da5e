//! A scripted server for endpoints other than chat. It keeps requests and checks none.

use std::sync::Arc;

use crate::{
    Reply,
    delivery::Rendered,
    loopback::{Dialect, Log, Loopback},
    received::ReceivedRequest,
    reply::RequestShape,
    script::{self, Script},
};

/// A scripted server on loopback that answers any request, for endpoints other than chat: embeddings, reranking. It
/// keeps every request and checks none.
pub struct EndpointServer(Loopback);

impl EndpointServer {
    /// Answers the n-th request with the n-th reply. A request without a reply and an unused reply are violations.
    pub fn replies(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self(Loopback::start(Any(Script::list(replies))))
    }

    /// Answers each request by calling `script`.
    pub fn answering(script: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static) -> Self {
        Self(Loopback::start(Any(Script::Closure(Box::new(script)))))
    }

    /// `http://127.0.0.1:PORT`, as used in `endpoint`.
    pub fn url(&self) -> String {
        self.0.url()
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.0.state().log().received().requests
    }

    /// Number of requests in progress.
    pub fn open(&self) -> usize {
        self.0.state().open()
    }

    /// Waits until `count` requests are in progress.
    pub async fn until_open(&self, count: usize) {
        self.0.state().until_open(count).await;
    }

    /// Waits until there have been `count` requests, answered or not.
    pub async fn until_asked(&self, count: usize) {
        self.0.state().log().until_kept(count).await;
    }

    /// Stops the server and returns the requests. Panics if the number of requests and replies differs.
    pub fn finish(mut self) -> Vec<ReceivedRequest> {
        self.0.shut_down();
        let received = self.0.state().take();
        received.assert();
        received.requests
    }
}

struct Any(Script<ReceivedRequest, Reply>);

impl Dialect for Any {
    fn answer(&self, mut request: ReceivedRequest, log: &Log) -> Arc<Rendered> {
        request.index = log.keep(request.clone(), &[]);
        let reply = self.0.reply(&request).unwrap_or_else(|| {
            let nothing_left = script::nothing_left(request.index);
            log.add_violation(nothing_left.clone());
            Reply::raw(400, "text/plain", nothing_left)
        });
        Arc::new(reply.render(RequestShape {
            usage_asked: false,
            log_probs_asked: false,
        }))
    }

    fn drain_unused(&self) -> usize {
        self.0.drain()
    }
}
