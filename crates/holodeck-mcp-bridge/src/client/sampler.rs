use std::sync::{Arc, Mutex, PoisonError};

use holodeck_backend_api::ToolCx;
use tokio::sync::MutexGuard;
use tokio_util::sync::DropGuard;

use crate::client::{SamplingAnswer, SamplingHost, SamplingRequest};

/// Puts a server's questions to a model, each for the call of a tool that made the server ask.
///
/// The protocol does not say which call that is, so calls of such a server run one after the other.
pub(crate) struct Sampler {
    host: Arc<dyn SamplingHost>,
    one_at_a_time: tokio::sync::Mutex<()>,
    caller: Mutex<Option<ToolCx>>,
}

/// A call that is running. When it is dropped, what the server still asks for it is stopped.
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
            return Err("a model is asked only while a tool of this server is called".to_owned());
        };
        let stop = cx.cancel.clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => Err("the call that this was asked for is over".to_owned()),
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
