//! A scripted OpenAI-compatible server that checks every request and also answers embeddings.

use crate::{
    Reply,
    loopback::Loopback,
    received::{Received, ReceivedRequest},
    script::Script,
};

mod chat;
mod embeddings;

/// A scripted OpenAI-compatible server on loopback.
///
/// It runs on its own thread, so it works with any kind of test and stops when dropped. Each request is checked (see
/// [`request_violations`](crate::request_violations)); a violation is answered with a 400 and makes
/// [`finish`](Self::finish), or the drop, panic.
///
/// Requests for embeddings (`/embeddings`, and Ollama's `/api/embed`) are answered automatically with vectors of the
/// words of each text; they use no reply of the script.
pub struct ModelServer(Loopback);

impl ModelServer {
    /// Answers the n-th request with the n-th reply. A request without a reply and an unused reply are violations.
    pub fn replies(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self(Loopback::start(chat::Scripted(Script::list(replies))))
    }

    /// Answers each request by calling `script`.
    pub fn answering(script: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static) -> Self {
        Self(Loopback::start(chat::Scripted(Script::Closure(Box::new(script)))))
    }

    /// Answers every request with the same prepared bytes. Nothing is checked or kept: for benches.
    pub fn canned(reply: &Reply) -> Self {
        Self(Loopback::start(chat::Canned::new(reply)))
    }

    /// `http://127.0.0.1:PORT`, as used in `model.endpoint`.
    pub fn url(&self) -> String {
        self.0.url()
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.0.state().log().received().requests
    }

    /// The requests for embeddings so far.
    pub fn embedding_requests(&self) -> Vec<ReceivedRequest> {
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

    /// Stops the server and returns the requests. Panics if one broke a rule or replies are left.
    pub fn finish(mut self) -> Vec<ReceivedRequest> {
        self.0.shut_down();
        let received = self.0.state().take();
        received.assert();
        received.requests
    }

    /// Stops the server and returns the requests and violations, for tests of wrong requests.
    pub fn finish_unchecked(mut self) -> Received {
        self.0.shut_down();
        self.0.state().take()
    }
}
