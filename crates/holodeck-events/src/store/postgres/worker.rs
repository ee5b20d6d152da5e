//! Executes the writing requests of some sessions in their order, one transaction each, and delivers their events after
//! the commit.

use std::{sync::Arc, time::Duration};

use tokio::{sync::mpsc::UnboundedReceiver, time::Instant};

use super::{
    Own, PATIENCE, Shared, StoreError,
    connection::{Db, Failure},
    lease,
    tables::Work,
};
use crate::store::{
    Retention, before,
    request::{Done, Job, Reply, Request},
};

/// How long to wait before another try.
const PAUSE: Duration = Duration::from_millis(50);

/// The most bytes of a notification that name a session; the server refuses 8,000.
const NOTE: usize = 7_000;

pub(super) struct Worker {
    shared: Arc<Shared>,
    db: Option<Db>,
}

impl Worker {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, db: None }
    }

    /// Works until the store is closed or its last handle is gone.
    pub(super) async fn run(mut self, mut jobs: UnboundedReceiver<Job>) {
        while let Some(Job { request, reply }) = jobs.recv().await {
            if matches!(request, Request::Close) {
                // The senders of later jobs are dropped, which reports that the store is closed.
                drop(jobs);
                if let Some(reply) = reply {
                    let _ = reply.send(Ok(Reply::default()));
                }
                return;
            }
            let (result, opened) = self.process(&request).await;
            let sent = reply.map(|reply| reply.send(result));
            // The caller was cancelled: it does not know of its run.
            if let (Some(run_id), Some(Err(_))) = (opened, sent) {
                let session_id = request.session_id().to_owned();
                let _ = self.process(&Request::Abandon { session_id, run_id }).await;
            }
        }
    }

    /// Executes a request; also returns the run that it opened.
    async fn process(&mut self, request: &Request) -> (Result<Reply, StoreError>, Option<String>) {
        let result = match request {
            Request::Recover => self.recover().await,
            Request::Sweep(retention) => self.sweep(*retention).await,
            Request::Wake | Request::Close => Ok(Done::default()),
            request => self.transact(Work::Request(request)).await,
        };
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
        match result {
            Ok(done) => {
                let opened = done.opened.map(|(run_id, _)| run_id);
                (Ok(done.reply), opened)
            }
            Err(error) => (Err(error), None),
        }
    }

    /// Ends each open run that no process continues, each in a transaction of its own.
    async fn recover(&mut self) -> Result<Done, StoreError> {
        let open = "SELECT session_id FROM holodeck_runs AS runs
            JOIN holodeck_sessions AS sessions ON sessions.number = runs.session
            WHERE last_index IS NULL ORDER BY runs.number";
        let mut all = Done::default();
        for session_id in self.names(open, None).await? {
            let mut done = self.transact(Work::EndOrphan(&session_id)).await?;
            all.reply.runs.append(&mut done.reply.runs);
        }
        if let Some(db) = &self.db {
            // Only tidiness.
            let _ = lease::forget_gone(&self.shared, db).await;
        }
        Ok(all)
    }

    async fn sweep(&mut self, retention: Retention) -> Result<Done, StoreError> {
        let now = self.shared.options.clock.now();
        let mut all = Done::default();
        if let Some(age) = retention.sessions {
            let limit = before(now, age).as_millisecond();
            let old = "SELECT session_id FROM holodeck_sessions AS sessions
                WHERE NOT deleted AND last_at < $1 AND NOT EXISTS (
                    SELECT 1 FROM holodeck_runs WHERE session = sessions.number AND last_index IS NULL)";
            for session_id in self.names(old, Some(limit)).await? {
                let session_id = session_id.as_str();
                let done = self.transact(Work::DeleteOld { session_id, limit }).await?;
                all.reply.swept.sessions += done.deleted.len();
            }
        }
        let limit = before(now, retention.resume_window).as_millisecond();
        let done = self.transact(Work::Prune { limit }).await?;
        all.reply.swept.pieces = done.reply.swept.pieces;
        Ok(all)
    }

    /// The first column of all rows.
    async fn names(&self, sql: &'static str, value: Option<i64>) -> Result<Vec<String>, StoreError> {
        self.shared
            .read(&|db| {
                Box::pin(async move {
                    let rows = match &value {
                        Some(value) => db.query(sql, &[value]).await?,
                        None => db.query(sql, &[]).await?,
                    };
                    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
                })
            })
            .await
    }

    /// Does work in one transaction, and delivers its events. What was certainly not stored is tried again for a while
    /// if the connection was lost.
    async fn transact(&mut self, work: Work<'_>) -> Result<Done, StoreError> {
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
            db.execute("SELECT pg_notify($1, $2)", &[&self.shared.channel, &note])
                .await?;
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
