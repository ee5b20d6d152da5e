use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{EndpointServer, Reply, received::ReceivedRequest};

mod api;

use api::Qdrant;

/// Qdrant as its published OpenAPI describes it, on loopback: what it takes is all that may be sent.
///
/// A request that breaks the contract is answered as the server would, and makes [`finish`](Self::finish) panic.
pub struct QdrantServer {
    endpoint: EndpointServer,
    qdrant: Arc<Mutex<Qdrant>>,
}

impl QdrantServer {
    /// An empty server that answers whoever has this key.
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

    /// `http://127.0.0.1:PORT`, as one writes it into `connection_string`.
    pub fn url(&self) -> String {
        self.endpoint.url()
    }

    /// After so many more requests it is out of order.
    pub fn fail_after(&self, requests: usize) {
        self.qdrant().fail_after(requests);
    }

    /// Ends [`fail_after`](Self::fail_after).
    pub fn work_again(&self) {
        self.qdrant().work_again();
    }

    /// Adds a collection that is not ours.
    pub fn add_foreign(&self, name: &str) {
        self.qdrant().add_foreign(name);
    }

    /// Stops the server and returns the requests. Panics when one broke the contract.
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
