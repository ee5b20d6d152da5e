//! An imitation of a Qdrant server that rejects everything outside of its published API.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{EndpointServer, Reply, received::ReceivedRequest};

mod api;

use api::Qdrant;

/// Qdrant as its published OpenAPI describes it, on loopback; it rejects everything else.
///
/// A request that violates the contract is answered as by the server, and makes [`finish`](Self::finish) panic.
pub struct QdrantServer {
    endpoint: EndpointServer,
    qdrant: Arc<Mutex<Qdrant>>,
}

impl QdrantServer {
    /// An empty server with this API key.
    pub fn start(key: &str) -> Self {
        let qdrant = Arc::new(Mutex::new(Qdrant::new(key)));
        let answering = Arc::clone(&qdrant);
        let endpoint = EndpointServer::answering(move |request: &ReceivedRequest| {
            let mut qdrant = answering.lock().unwrap_or_else(PoisonError::into_inner);
            let (status, body) = qdrant.answer(request);
            Reply::raw(status, "application/json", body.to_string())
        });
        Self { endpoint, qdrant }
    }

    /// `http://127.0.0.1:PORT`, as used in `connection_string`.
    pub fn url(&self) -> String {
        self.endpoint.url()
    }

    /// Fails after this many further requests.
    pub fn fail_after(&self, requests: usize) {
        self.qdrant().fail_after(requests);
    }

    /// Ends [`fail_after`](Self::fail_after).
    pub fn work_again(&self) {
        self.qdrant().work_again();
    }

    /// Adds a foreign collection.
    pub fn add_foreign(&self, name: &str) {
        self.qdrant().add_foreign(name);
    }

    /// Stops the server and returns the requests. Panics if one violated the contract.
    pub fn finish(self) -> Vec<ReceivedRequest> {
        let Self { endpoint, qdrant } = self;
        let requests = endpoint.finish();
        let qdrant = qdrant.lock().unwrap_or_else(PoisonError::into_inner);
        let violations = qdrant.violations();
        assert!(violations.is_empty(), "{violations:#?}");
        requests
    }

    fn qdrant(&self) -> MutexGuard<'_, Qdrant> {
        self.qdrant.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
