//! Whether a writer lives. One connection of each store holds an advisory lock, shows a beat, and receives what other
//! processes announce. Only the server's clock takes part in it.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures::{StreamExt as _, channel::mpsc};
use tokio::sync::oneshot;

use super::{
    Shared,
    connection::{Db, Failure},
    statements as sql,
};
use crate::store::columns::RunRow;

/// How long to wait before another try to connect.
const PAUSE: Duration = Duration::from_millis(100);

/// The connection that shows that this store lives.
pub(super) struct Lease {
    db: Db,
    notes: mpsc::UnboundedReceiver<String>,
}

impl Lease {
    /// Connects, takes the lock, and listens. What was announced while there was no such connection is made up for by
    /// one look of every subscriber.
    pub(super) async fn take(shared: &Shared) -> Result<Self, Failure> {
        let (db, notes) = shared.target.connect_with_messages().await?;
        // A new lock each time: the server may still keep the one of a connection that is lost.
        let (key, _) = uuid::Uuid::new_v4().as_u64_pair();
        let key = key.cast_signed();
        db.execute(sql::TAKE_LOCK, &[&key]).await?;
        db.run(&format!("LISTEN {}", shared.channel)).await?;
        shared.lock_key.store(key, Ordering::SeqCst);
        db.execute(
            sql::BEGIN_LEASE,
            &[
                &shared.name,
                &i64::from(std::process::id()),
                &key,
                &shared.validity().as_secs_f64(),
            ],
        )
        .await?;
        shared.hub.wake();
        Ok(Self { db, notes })
    }

    /// Keeps the lease until the store is closed or its last handle is gone.
    pub(super) async fn keep(mut self, shared: Arc<Shared>, mut stop: oneshot::Receiver<()>) {
        let mut beat = tokio::time::interval(shared.options.lease / 5);
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let is_lost = tokio::select! {
                _ = &mut stop => break,
                note = self.notes.next() => match note {
                    Some(note) => {
                        shared.heed(&note);
                        false
                    }
                    None => true,
                },
                _ = beat.tick() => {
                    let shown = tokio::time::timeout(shared.options.lease, self::beat(&shared, &self.db)).await;
                    !matches!(shown, Ok(Ok(())))
                }
            };
            if is_lost {
                let again = tokio::select! {
                    _ = &mut stop => break,
                    again = Self::take_again(&shared) => again,
                };
                self = again;
            }
        }
        self.leave(&shared).await;
    }

    async fn take_again(shared: &Shared) -> Self {
        loop {
            match Self::take(shared).await {
                Ok(lease) => return lease,
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Leaves the store in a state in which others take over at once what is open.
    async fn leave(self, shared: &Shared) {
        shared.hub.close_all();
        let leave = async {
            self.db.execute(sql::LEAVE, &[&shared.name]).await?;
            self.db.execute(sql::END_LEASE, &[&shared.name]).await
        };
        // Without it the lock ends with the connection, which is as good.
        let _ = leave.await;
    }
}

impl Shared {
    /// How long a beat counts: a look of another process later the lease is over.
    fn validity(&self) -> Duration {
        self.options.lease.saturating_sub(self.watch_interval())
    }

    /// How often to look for runs that no process continues.
    pub(super) fn watch_interval(&self) -> Duration {
        (self.options.lease / 10).max(Duration::from_millis(1))
    }

    /// Handles a notification of another process: `writer session`, or `writer` for any.
    fn heed(&self, note: &str) {
        let (writer, session_id) = note.split_once(' ').unwrap_or((note, ""));
        if writer == self.name {
            return;
        }
        if session_id.is_empty() {
            self.hub.wake();
        } else {
            self.hub.wake_session(session_id);
        }
    }
}

/// Shows other processes that this one lives. A run begins with a beat.
pub(super) async fn beat(shared: &Shared, db: &Db) -> Result<(), Failure> {
    db.execute(
        sql::BEAT,
        &[
            &shared.name,
            &i64::from(std::process::id()),
            &shared.lock_key.load(Ordering::SeqCst),
            &shared.validity().as_secs_f64(),
        ],
    )
    .await?;
    Ok(())
}

/// Whether nothing will continue an open run.
pub(super) async fn is_over(shared: &Shared, db: &Db, run: &RunRow) -> Result<bool, Failure> {
    if run.writer == shared.name {
        return Ok(shared.abandoned().contains(&run.id));
    }
    let row = db.query_opt(sql::LEASE, &[&run.writer]).await?;
    let Some(row) = row else {
        return Ok(true);
    };
    if row.try_get(1)? {
        return Ok(true);
    }
    if !row.try_get::<_, bool>(2)? {
        // A restart took its lock. It takes another as long as it lives.
        return Ok(false);
    }
    let key: i64 = row.try_get(0)?;
    let row = db.query_opt(sql::TRY_LOCK, &[&key]).await?;
    match row {
        Some(row) => Ok(row.try_get(0)?),
        None => Ok(false),
    }
}

/// Removes the rows of writers that are gone and have no open run.
pub(super) async fn forget_gone(shared: &Shared, db: &Db) -> Result<(), Failure> {
    db.execute(sql::FORGET_WRITERS, &[&shared.name]).await?;
    Ok(())
}
