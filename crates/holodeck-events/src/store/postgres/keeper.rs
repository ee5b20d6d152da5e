//! The task for work that no message may wait for: deletions in steps, and the end of runs whose processes are gone.

use std::{sync::Arc, time::Instant};

use tokio::{sync::mpsc::UnboundedReceiver, time::MissedTickBehavior};

use super::{
    Shared, StoreError, clean, lease, statements as sql,
    tables::Work,
    worker::{Errand, Worker},
};
use crate::store::{
    cleaning::Chores,
    columns::text,
    request::{Cleaning, Done, Reply},
};

pub(super) struct Keeper {
    shared: Arc<Shared>,
    worker: Worker,
    chores: Chores,
}

impl Keeper {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            worker: Worker::new(Arc::clone(&shared)),
            shared,
            chores: Chores::default(),
        }
    }

    /// Works until the store is closed or its last handle is gone.
    pub(super) async fn run(mut self, mut errands: UnboundedReceiver<Errand>) {
        let mut watch = tokio::time::interval(self.shared.watch_interval());
        watch.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // A process that deleted them may have been killed.
        if self.has_leftovers().await {
            self.chores.add(Cleaning::Leftovers, None);
        }
        loop {
            let has_chores = !self.chores.is_empty();
            tokio::select! {
                biased;
                errand = errands.recv() => match errand {
                    Some(Errand::Clean(cleaning, sender)) => self.chores.add(cleaning, sender),
                    Some(Errand::Recover(sender)) => {
                        let _ = sender.send(self.recover().await);
                    }
                    Some(Errand::Close(sender)) => {
                        self.chores.leave();
                        drop(errands);
                        let _ = sender.send(Ok(Reply::default()));
                        return;
                    }
                    None => return,
                },
                _ = watch.tick(), if self.shared.options.watches => {
                    // What cannot be ended now is tried again at the next tick.
                    let _ = self.recover().await;
                }
                () = std::future::ready(()), if has_chores => self.step().await,
            }
        }
    }

    /// Ends each open run that no process continues, each in a transaction of its own.
    async fn recover(&mut self) -> Result<Reply, StoreError> {
        let mut reply = Reply::default();
        for session_id in self.lost_runs().await? {
            let done = self.worker.transact(Work::EndOrphan(&session_id)).await?;
            reply.runs.extend(done.reply.runs);
        }
        if !reply.runs.is_empty()
            && let Some(db) = self.worker.connection()
        {
            // Only tidiness.
            let _ = lease::forget_gone(&self.shared, db).await;
        }
        Ok(reply)
    }

    async fn has_leftovers(&self) -> bool {
        let found = self
            .shared
            .read(&|db| Box::pin(async move { clean::leftovers(&db).await }));
        matches!(found.await, Ok(Some(_)))
    }

    /// The sessions of open runs that no process continues.
    async fn lost_runs(&self) -> Result<Vec<String>, StoreError> {
        let abandoned: Vec<String> = self.shared.abandoned().iter().cloned().collect();
        let (own, abandoned) = (&self.shared.name, &abandoned);
        self.shared
            .read(&|db| {
                Box::pin(async move {
                    let rows = db.query(sql::LOST_RUNS, &[own, abandoned]).await?;
                    rows.iter().map(|row| text(row, 0)).collect()
                })
            })
            .await
    }

    /// Does the next step of a deletion.
    async fn step(&mut self) {
        let Some((cleaning, rows)) = self.chores.next() else {
            return;
        };
        let begin = Instant::now();
        let step: Result<Done, StoreError> = self.worker.transact(Work::Clean { cleaning, rows }).await;
        if let Some(answer) = self.chores.observe(step.as_ref(), begin.elapsed()) {
            answer.send();
        }
    }
}
