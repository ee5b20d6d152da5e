//! Inspects whether an index is missing, up to date, out of date or unreachable. Must not create or change it.

use holodeck_retrieval::{IngestMode, RetrievalError};
use tokio_util::sync::CancellationToken;

use super::{Index, IndexError, IndexErrorKind, IndexStatus, StatusState, report};

impl Index {
    /// Its status. Nothing is created or changed.
    pub async fn status(&self) -> IndexStatus {
        let mut status = IndexStatus {
            tool: self.name().to_owned(),
            state: StatusState::NotBuilt,
            found: "not built yet".to_owned(),
            hint: None,
            source: self.source().to_owned(),
            store: self.place.describe(),
            made: None,
            sources: 0,
            passages: 0,
            bytes: None,
            added: 0,
            changed: 0,
            removed: 0,
        };
        if self.place.is_missing() {
            if let Err(error) = self.sources(&CancellationToken::new()).await {
                status.state = StatusState::Unusable;
                (status.found, status.hint) = (error.explanation.message, error.explanation.hint);
            }
            return status;
        }
        if let Err(error) = self.inspect(&mut status).await {
            status.state = StatusState::Unusable;
            status.hint = error.explanation.hint.or_else(|| {
                let is_mixed = error.kind == IndexErrorKind::Mixed;
                is_mixed.then(|| "`holodeck index build --force` rebuilds it".to_owned())
            });
            status.found = error.explanation.message;
        }
        status
    }

    async fn inspect(&self, status: &mut IndexStatus) -> Result<(), IndexError> {
        let of = |error: RetrievalError| IndexError::of(self.name(), &error);
        let store = self.store().await.map_err(of)?;
        status.store = store.describe();
        let Some(info) = store.info().await.map_err(of)? else {
            return self.sources(&CancellationToken::new()).await.map(|_| ());
        };
        status.made = Some(format!("{} · {}", info.embedder, info.chunker));
        let stats = store.stats().await.map_err(of)?;
        (status.sources, status.passages, status.bytes) = (stats.sources, stats.passages, stats.bytes);
        let never = CancellationToken::new();
        let sources = self.sources(&never).await?;
        let ingestor = self.ingestor(self.writer()).await.map_err(of)?;
        let plan = ingestor
            .plan(&*sources.corpus, IngestMode::Update, &never)
            .await
            .map_err(of)?;
        (status.added, status.changed, status.removed) =
            (plan.added.len(), plan.changed.len(), plan.removed.len());
        let is_ready = plan.added.is_empty() && plan.changed.is_empty() && plan.removed.is_empty();
        status.state = if is_ready {
            StatusState::Ready
        } else {
            StatusState::Stale
        };
        status.found = report::describe_state(&plan, &stats);
        Ok(())
    }
}
