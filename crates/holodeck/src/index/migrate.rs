//! Copies a tool's index from one vector store to another, without computing embeddings again.

use holodeck_retrieval::{MoveProgress, RetrievalError};
use tokio_util::sync::CancellationToken;

use super::{
    Index, IndexError, IndexEvent, IndexSink, Migration,
    place::{Place, collection},
};

impl Index {
    /// Copies an index from one store to another; the default for both is the tool's own store.
    pub async fn migrate(
        &self,
        from: Option<&str>,
        to: Option<&str>,
        sink: &IndexSink,
        cancel: &CancellationToken,
    ) -> Result<Migration, IndexError> {
        let place = |name: Option<&str>| match name {
            Some(name) => Place::named(&self.agent, &self.tool, name),
            None => Ok(self.place.clone()),
        };
        let (from, to) = (place(from)?, place(to)?);
        if from.is_missing() {
            return Err(IndexError::config(format!(
                "there is no index of tool `{}` at {}",
                self.name(),
                from.describe()
            )));
        }
        let of = |error: RetrievalError| IndexError::of(self.name(), &error);
        let collection = collection(&self.agent, &self.tool);
        if from.describe() == to.describe() {
            return Err(IndexError::config(format!(
                "the index of tool `{}` is already at {}",
                self.name(),
                to.describe()
            ))
            .with_hint("`--from` and `--to` name stores; the default for both is the tool's own store"));
        }
        let client = self.client().map_err(of)?;
        let from = from.open(&collection, &client).await.map_err(of)?;
        let to = to.open(&collection, &client).await.map_err(of)?;
        let on = |progress: MoveProgress| {
            sink.emit(&IndexEvent::Progress {
                tool: self.name().to_owned(),
                done: progress.done,
                total: progress.sources,
                passages: progress.passages,
                source: None,
            });
        };
        let copy = holodeck_retrieval::migrate(&*from, &*to, &on, cancel)
            .await
            .map_err(of)?;
        Ok(Migration {
            tool: self.name().to_owned(),
            from: from.describe(),
            to: to.describe(),
            sources: copy.stats.sources,
            passages: copy.stats.passages,
        })
    }
}
