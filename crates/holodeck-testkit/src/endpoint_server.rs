use std::sync::Arc;

use crate::{
    Reply,
    delivery::Rendered,
    loopback::{Dialect, Log, Loopback},
    received::ReceivedRequest,
    reply::RequestShape,
    script::{self, Script},
};

/// A server on loopback that answers any request as a test tells it to, for endpoints that are no chat: embeddings,
/// reranking. It keeps every request and checks none.
pub struct EndpointServer(Loopback);

impl EndpointServer {
    /// Answers the n-th request with the n-th reply. A request beyond the last and a reply never asked for are
    /// violations.
    pub fn replies(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self(Loopback::start(Any(Script::list(replies))))
    }

    /// Answers each request as `script` says.
    pub fn answering(script: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static) -> Self {
        Self(Loopback::start(Any(Script::Closure(Box::new(script)))))
    }

    /// `http://127.0.0.1:PORT`, as one writes it into `endpoint`.
    pub fn url(&self) -> String {
        self.0.url()
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.0.state().log().received().requests
    }

    /// Requests that are being answered at this moment.
    pub fn open(&self) -> usize {
        self.0.state().open()
    }

    /// Waits until `count` requests are being answered.
    pub async fn until_open(&self, count: usize) {
        self.0.state().until_open(count).await;
    }

    /// Waits until there have been `count` requests, answered or not.
    pub async fn until_asked(&self, count: usize) {
        self.0.state().log().until_kept(count).await;
    }

    /// Stops the server and returns the requests. Panics when the script was not used up, or not enough.
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
        Arc::new(reply.render(RequestShape { usage_asked: false }))
    }

    fn drain_unused(&self) -> usize {
        self.0.drain()
    }
}
