//! An HTTP server on loopback, on its own thread, for any protocol on top.

use std::{
    net::{SocketAddr, TcpListener},
    sync::Arc,
    thread::JoinHandle,
};

use tokio_util::sync::CancellationToken;

mod connection;
mod state;

pub(crate) use self::state::{Dialect, Log, State};

/// Serves until it is shut down or dropped.
pub(crate) struct Loopback {
    address: SocketAddr,
    state: Arc<State>,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Loopback {
    #[expect(clippy::expect_used, reason = "without a server there is no test")]
    pub(crate) fn start(dialect: impl Dialect + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free loopback port");
        listener
            .set_nonblocking(true)
            .expect("a socket that can be polled");
        let address = listener.local_addr().expect("a bound socket has an address");
        let state = Arc::new(State::new(Box::new(dialect)));
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
                    // Open requests are dropped with the runtime.
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

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    pub(crate) fn shut_down(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !std::thread::panicking() {
                assert!(ended.is_ok(), "the scripted server panicked");
            }
        }
    }
}

impl Drop for Loopback {
    /// A violation fails the test even if the test did not check for it.
    fn drop(&mut self) {
        self.shut_down();
        if !std::thread::panicking() {
            self.state.take().assert();
        }
    }
}
