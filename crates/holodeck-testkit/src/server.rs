use crate::{
    Reply,
    loopback::Loopback,
    received::{Received, ReceivedRequest},
    script::Script,
};

mod chat;
mod embeddings;

/// An OpenAI-compatible server on loopback that says what a test tells it to.
///
/// It runs on a thread of its own, so it serves any kind of test and stops with the value. Each request is checked
/// (see [`request_violations`](crate::request_violations)); what is wrong with one is answered with a 400 and makes
/// [`finish`](Self::finish), or the drop, panic.
///
/// Requests for embeddings (`/embeddings`, and Ollama's `/api/embed`) are answered by themselves, with vectors of the
/// words of each text; they take no reply from the script.
pub struct ModelServer(Loopback);

impl ModelServer {
    /// Answers the n-th request with the n-th reply. A request beyond the last and a reply never asked for are
    /// violations.
    pub fn replies(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self(Loopback::start(chat::Scripted(Script::list(replies))))
    }

    /// Answers each request as `script` says.
    pub fn answering(script: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static) -> Self {
        Self(Loopback::start(chat::Scripted(Script::Closure(Box::new(script)))))
    }

    /// Answers every request alike, from bytes made once. Nothing is checked or kept: for benches.
    pub fn canned(reply: &Reply) -> Self {
        Self(Loopback::start(chat::Canned::new(reply)))
    }

    /// `http://127.0.0.1:PORT`, as one writes it into `model.endpoint`.
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

    /// Requests that are being answered at this moment.
    pub fn open(&self) -> usize {
        self.0.state().open()
    }

    /// Waits until `count` requests are being answered.
    pub async fn until_open(&self, count: usize) {
        self.0.state().until_open(count).await;
    }

    /// Stops the server and returns the requests. Panics when one broke a rule or the script was not used up.
    pub fn finish(mut self) -> Vec<ReceivedRequest> {
        self.0.shut_down();
        let received = self.0.state().take();
        received.assert();
        received.requests
    }

    /// Stops the server and returns the requests and what was wrong with them, for tests of wrong requests.
    pub fn finish_unchecked(mut self) -> Received {
        self.0.shut_down();
        self.0.state().take()
    }
}
