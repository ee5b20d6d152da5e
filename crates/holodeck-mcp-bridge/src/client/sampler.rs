//! Answers a server's sampling requests with the agent's model, as part of the call that caused them.

use std::sync::{Arc, Mutex, PoisonError};

use holodeck_backend_api::ToolCx;
use tokio::sync::MutexGuard;
use tokio_util::sync::DropGuard;

use crate::client::{SamplingAnswer, SamplingHost, SamplingRequest};

/// Samples a model for a server, as part of the tool call that caused it.
///
/// The protocol does not identify that call, so calls of such a server run one at a time.
pub(crate) struct Sampler {
    host: Arc<dyn SamplingHost>,
    one_at_a_time: tokio::sync::Mutex<()>,
    caller: Mutex<Option<ToolCx>>,
}

/// A running call. Dropping it stops the server's pending sampling requests.
pub(crate) struct Calling<'a> {
    sampler: &'a Sampler,
    _turn: MutexGuard<'a, ()>,
    _stop: DropGuard,
}

impl Sampler {
    pub(crate) fn new(host: Arc<dyn SamplingHost>) -> Arc<Self> {
        Arc::new(Self {
            host,
            one_at_a_time: tokio::sync::Mutex::default(),
            caller: Mutex::default(),
        })
    }

    /// Waits until no other call runs.
    pub(crate) async fn begin(&self, cx: &ToolCx) -> Calling<'_> {
        let turn = self.one_at_a_time.lock().await;
        let cancel = cx.cancel.child_token();
        self.set(Some(ToolCx {
            cancel: cancel.clone(),
            ..cx.clone()
        }));
        Calling {
            sampler: self,
            _turn: turn,
            _stop: cancel.drop_guard(),
        }
    }

    pub(crate) async fn sample(&self, request: SamplingRequest) -> Result<SamplingAnswer, String> {
        let caller = self.caller.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(cx) = caller else {
            return Err("sampling is only allowed during a call of this server's tools".to_owned());
        };
        let stop = cx.cancel.clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => Err("the call that requested this has ended".to_owned()),
            answer = self.host.sample(request, cx) => answer,
        }
    }

    fn set(&self, caller: Option<ToolCx>) {
        *self.caller.lock().unwrap_or_else(PoisonError::into_inner) = caller;
    }
}

impl Drop for Calling<'_> {
    fn drop(&mut self) {
        self.sampler.set(None);
    }
}
