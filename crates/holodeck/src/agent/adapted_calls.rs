//! Collects what was adapted in the answers of a model, live or recorded.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt as _;
use holodeck_backend_api::{Adaptations, BackendError, ModelCalls, ModelDelta, ModelRequest, ModelStream};
use tokio_util::sync::CancellationToken;

/// Passes calls on and collects what was adapted.
pub(super) struct AdaptedCalls {
    pub(super) inner: Arc<dyn ModelCalls>,
    pub(super) adaptations: Adaptations,
}

#[async_trait]
impl ModelCalls for AdaptedCalls {
    async fn call(
        &self,
        request: &ModelRequest,
        cancel: &CancellationToken,
    ) -> Result<ModelStream, BackendError> {
        let adaptations = self.adaptations.clone();
        let deltas = self.inner.call(request, cancel).await?;
        Ok(Box::pin(deltas.inspect(move |delta| {
            if let Ok(ModelDelta::Adapted(adaptation)) = delta {
                adaptations.add(adaptation);
            }
        })))
    }
}
