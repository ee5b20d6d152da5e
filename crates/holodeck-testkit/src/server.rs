use std::{
    net::{SocketAddr, TcpListener},
    sync::Arc,
    thread::JoinHandle,
};

use tokio_util::sync::CancellationToken;

use crate::Reply;

mod connection;
mod received;
mod script;

pub use received::{Received, ReceivedRequest};

use self::script::{Script, State};

/// An OpenAI-compatible server on loopback that says what a test tells it to.
///
/// It runs on a thread of its own, so it serves any kind of test and stops with the value. Each request is checked
/// (see [`request_violations`](crate::request_violations)); what is wrong with one is answered with a 400 and makes
/// [`finish`](Self::finish), or the drop, panic.
pub struct ModelServer {
    address: SocketAddr,
    state: Arc<State>,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl ModelServer {
    /// Answers the n-th request with the n-th reply. A request beyond the last and a reply never asked for are
    /// violations.
    pub fn replies(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::start(Script::list(replies))
    }

    /// Answers each request as `script` says.
    pub fn answering(script: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static) -> Self {
        Self::start(Script::Closure(Box::new(script)))
    }

    /// Answers every request alike, from bytes made once. Nothing is checked or kept: for benches.
    pub fn canned(reply: &Reply) -> Self {
        Self::start(Script::canned(reply))
    }

    /// `http://127.0.0.1:PORT`, as one writes it into `model.endpoint`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.state.received().requests
    }

    /// Requests that are being answered at this moment.
    pub fn open(&self) -> usize {
        self.state.open()
    }

    /// Waits until `count` requests are being answered.
    pub async fn until_open(&self, count: usize) {
        self.state.until_open(count).await;
    }

    /// Stops the server and returns the requests. Panics when one broke a rule or the script was not used up.
    pub fn finish(mut self) -> Vec<ReceivedRequest> {
        self.shut_down();
        let received = self.state.take();
        received.assert();
        received.requests
    }

    /// Stops the server and returns the requests and what was wrong with them, for tests of wrong requests.
    pub fn finish_unchecked(mut self) -> Received {
        self.shut_down();
        self.state.take()
    }

    #[expect(clippy::expect_used, reason = "without a server there is no test")]
    fn start(script: Script) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free loopback port");
        listener
            .set_nonblocking(true)
            .expect("a socket that can be polled");
        let address = listener.local_addr().expect("a bound socket has an address");
        let state = Arc::new(State::new(script));
        let stop = CancellationToken::new();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let thread = std::thread::spawn({
            let (state, stop) = (Arc::clone(&state), stop.clone());
            move || {
                runtime.block_on(async {
                    let serve = connection::serve(listener, state);
                    // Whatever still hangs is dropped with the runtime.
                    stop.run_until_cancelled(serve).await
                });
            }
        });
        Self {
            address,
            state,
            stop,
            thread: Some(thread),
        }
    }

    fn shut_down(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !std::thread::panicking() {
                assert!(ended.is_ok(), "the scripted server panicked");
            }
        }
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.shut_down();
        if !std::thread::panicking() {
            self.state.take().assert();
        }
    }
}
