//! Executes the writing requests of some sessions in their order, one transaction each, and delivers their events after
//! the commit.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender},
    time::Instant,
};

use super::{
    Own, PATIENCE, Shared, StoreError,
    connection::{Db, Failure},
    statements as sql,
    tables::Work,
};
use crate::store::request::{Cleaning, Done, Job, Reply, Request, Sender};

/// How long to wait before another try.
const PAUSE: Duration = Duration::from_millis(50);

/// The most bytes of a notification that name a session; the server refuses 8,000.
const NOTE: usize = 7_000;

/// A request to the keeper.
pub(super) enum Errand {
    /// Delete these rows.
    Clean(Cleaning, Option<Sender>),
    /// End the runs whose processes are gone.
    Recover(Sender),
    /// End.
    Close(Sender),
}

pub(super) struct Worker {
    shared: Arc<Shared>,
    db: Option<Db>,
}

impl Worker {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, db: None }
    }

    /// Works until the store is closed or its last handle is gone.
    pub(super) async fn run(mut self, mut jobs: UnboundedReceiver<Job>, keeper: UnboundedSender<Errand>) {
        while let Some(Job { request, reply }) = jobs.recv().await {
            if matches!(request, Request::Close) {
                // The senders of later jobs are dropped, which reports that the store is closed.
                drop(jobs);
                if let Some(reply) = reply {
                    let _ = reply.send(Ok(Reply::default()));
                }
                return;
            }
            let result = self.process(&request).await;
            if let Ok(Done {
                cleaning: Some(cleaning),
                ..
            }) = result
            {
                // The keeper answers; if it is gone, the sender is dropped, which reports that the store is closed.
                let _ = keeper.send(Errand::Clean(cleaning, reply));
                continue;
            }
            let opened = result.as_ref().ok().and_then(|done| done.opened.clone());
            let sent = reply.map(|reply| reply.send(result.map(|done| done.reply)));
            // The caller was cancelled: it does not know of its run.
            if let (Some((run_id, _)), Some(Err(_))) = (opened, sent) {
                let session_id = request.session_id().to_owned();
                let _ = self.process(&Request::Abandon { session_id, run_id }).await;
            }
        }
    }

    /// The connection of the latest transaction.
    pub(super) fn connection(&self) -> Option<&Db> {
        self.db.as_ref()
    }

    async fn process(&mut self, request: &Request) -> Result<Done, StoreError> {
        let result = self.transact(Work::Request(request)).await;
        if !matches!(request, Request::Wake) {
            self.shared.hub.failures.observe(result.as_ref().err());
        }
        match (request, &result) {
            (Request::Abandon { run_id, .. }, Err(_)) => {
                self.shared.abandoned().insert(run_id.clone());
            }
            (Request::Abandon { run_id, .. }, Ok(_)) => {
                self.shared.abandoned().remove(run_id);
            }
            // It was taken over or deleted.
            (
                Request::Append(_),
                Err(StoreError::StaleOwner { run_id } | StoreError::RunNotOpen { run_id }),
            ) => {
                self.shared.own().remove(run_id);
            }
            _ => {}
        }
        result
    }

    /// Does work in one transaction, and delivers its events. What was certainly not stored is tried again for a while
    /// if the connection was lost.
    pub(super) async fn transact(&mut self, work: Work<'_>) -> Result<Done, StoreError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.try_transact(work).await {
                Ok(done) => {
                    self.finish(&done);
                    return Ok(done);
                }
                Err(failure) if failure.is_passing() && Instant::now() < deadline => {
                    tokio::time::sleep(PAUSE).await;
                }
                Err(failure) => {
                    if matches!(failure, Failure::Unsure(_)) {
                        // It may be stored: subscribers look.
                        self.shared.hub.wake();
                    }
                    return Err(self.shared.target.error(failure));
                }
            }
        }
    }

    /// The connection is kept only if its transaction ended well: dropping one ends it on the server, with whatever an
    /// error left open.
    async fn try_transact(&mut self, work: Work<'_>) -> Result<Done, Failure> {
        if let Work::Request(Request::Wake | Request::Close) = work {
            return Ok(Done::default());
        }
        let db = match self.db.take() {
            Some(db) if !db.is_closed() => db,
            _ => self.shared.target.connect().await?,
        };
        db.run("BEGIN").await?;
        let done = match self.shared.execute(&db, work).await {
            Ok(done) => done,
            Err(failure) => {
                if matches!(failure, Failure::Refused(_)) && db.run("ROLLBACK").await.is_ok() {
                    self.db = Some(db);
                }
                return Err(failure);
            }
        };
        self.announce(&db, &done).await?;
        db.run("COMMIT").await.map_err(Failure::of_commit)?;
        self.db = Some(db);
        Ok(done)
    }

    /// Lets other processes know, once it is committed.
    async fn announce(&self, db: &Db, done: &Done) -> Result<(), Failure> {
        let stored = done.publish.iter().map(|(session_id, _)| session_id);
        let mut sessions: Vec<_> = stored.chain(&done.deleted).collect();
        sessions.dedup();
        for session_id in sessions {
            let mut note = self.shared.name.clone();
            if session_id.len() <= NOTE {
                note.push(' ');
                note.push_str(session_id);
            }
            db.execute(sql::NOTIFY, &[&self.shared.channel, &note]).await?;
        }
        Ok(())
    }

    /// Delivers what is committed.
    fn finish(&self, done: &Done) {
        let shared = &self.shared;
        if let Some((run_id, epoch)) = &done.opened {
            let own = Own {
                epoch: *epoch,
                next_index: 0,
            };
            shared.own().insert(run_id.clone(), own);
        }
        for (_, events) in &done.publish {
            if let Some(last) = events.last()
                && let Some(run_id) = &last.event().meta.run_id
                && let Some(own) = shared.own().get_mut(run_id)
            {
                own.next_index = last.index().saturating_add(1);
            }
        }
        for run_id in &done.closed {
            shared.own().remove(run_id);
            shared.abandoned().remove(run_id);
        }
        for (session_id, events) in &done.publish {
            shared.hub.publish(session_id, events);
        }
        for session_id in &done.deleted {
            shared.hub.close(session_id);
        }
    }
}
