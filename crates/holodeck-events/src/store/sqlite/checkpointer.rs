//! The thread that moves what is deleted from the log of the file to the file, so that no writer waits for the disk.
//!
//! It must not answer a deletion before its text is gone from the log, unless readers hold it for too long.

use std::{
    path::{Path, PathBuf},
    sync::mpsc::{self, Receiver, Sender},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rusqlite::Connection;

use super::database;
use crate::store::cleaning::Answer;

/// How long readers may keep what is deleted in the log.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long writers may wait for readers at a time, and the time between two tries.
const TRY: Duration = Duration::from_millis(10);
const PAUSE: Duration = Duration::from_millis(40);

/// A part of its work.
enum Errand {
    /// Moves what can be moved while others write.
    Move,
    /// Empties the log, then answers.
    Empty(Answer),
}

/// The thread, as the writer sees it. Dropping it waits for its end.
pub(super) struct Checkpointer {
    errands: Option<Sender<Errand>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    /// Starts the thread. Without one, if the machine has no more, answers are given at once.
    pub(super) fn start(path: PathBuf) -> Self {
        let (errands, received) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("holodeck-checkpoints".to_owned())
            .spawn(move || work(&path, &received));
        Self {
            errands: thread.is_ok().then_some(errands),
            thread: thread.ok(),
        }
    }

    /// Moves what can be moved while others write.
    pub(super) fn move_pages(&self) {
        self.send(Errand::Move);
    }

    /// Empties the log, then gives the answer.
    pub(super) fn empty(&self, answer: Answer) {
        self.send(Errand::Empty(answer));
    }

    fn send(&self, errand: Errand) {
        let errand = match &self.errands {
            Some(errands) => errands.send(errand).err().map(|unsent| unsent.0),
            None => Some(errand),
        };
        if let Some(Errand::Empty(answer)) = errand {
            answer.send();
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        drop(self.errands.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn work(path: &Path, errands: &Receiver<Errand>) {
    let mut connection = None;
    while let Ok(errand) = errands.recv() {
        let mut answers = Vec::new();
        for errand in std::iter::once(errand).chain(errands.try_iter()) {
            if let Errand::Empty(answer) = errand {
                answers.push(answer);
            }
        }
        if connection.is_none() {
            connection = database::connect(path).ok();
        }
        if let Some(connection) = &connection {
            // An error leaves the pages to the next one.
            let _ = checkpoint(connection, "PASSIVE");
            if !answers.is_empty() {
                empty(connection);
            }
        }
        answers.into_iter().for_each(Answer::send);
    }
}

/// Empties the log. Readers may delay this; writers wait for them only for short times.
fn empty(connection: &Connection) {
    if connection.busy_timeout(TRY).is_err() {
        return;
    }
    let end = Instant::now() + PATIENCE;
    while !checkpoint(connection, "TRUNCATE").unwrap_or(false) && Instant::now() < end {
        thread::sleep(PAUSE);
        let _ = checkpoint(connection, "PASSIVE");
    }
}

/// Returns whether nothing kept it from its end.
fn checkpoint(connection: &Connection, mode: &str) -> Result<bool, rusqlite::Error> {
    connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
        Ok(row.get::<_, i64>(0)? == 0)
    })
}
