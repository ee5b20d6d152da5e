//! The thread that moves what is deleted from the log of the file to the file, so that no writer waits for the disk.
//!
//! It must not answer a deletion before its text is gone from the log, unless readers hold it: then it continues after the
//! answer.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rusqlite::Connection;

use super::database;
use crate::store::cleaning::Answer;

/// How long a deletion waits for readers before it is answered.
const ANSWER: Duration = Duration::from_millis(200);
/// How long readers may keep what is deleted in the log before the next deletion or commit removes it.
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
    /// Parts of its work that are not done.
    open: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    /// Starts the thread. Without one, if the machine has no more, answers are given at once.
    pub(super) fn start(path: PathBuf) -> Self {
        let (errands, received) = mpsc::channel();
        let open = Arc::new(AtomicUsize::new(0));
        let of_thread = Arc::clone(&open);
        let thread = thread::Builder::new()
            .name("holodeck-checkpoints".to_owned())
            .spawn(move || work(&path, &received, &of_thread));
        Self {
            errands: thread.is_ok().then_some(errands),
            open,
            thread: thread.ok(),
        }
    }

    /// Whether pages of an earlier step are still to be moved. What they and another step write would be waited for by
    /// one commit.
    pub(super) fn is_moving(&self) -> bool {
        self.open.load(Ordering::Acquire) > 0
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
        self.open.fetch_add(1, Ordering::AcqRel);
        let errand = match &self.errands {
            Some(errands) => errands.send(errand).err().map(|unsent| unsent.0),
            None => Some(errand),
        };
        if errand.is_some() {
            self.open.fetch_sub(1, Ordering::AcqRel);
        }
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

fn work(path: &Path, errands: &Receiver<Errand>, open: &AtomicUsize) {
    let mut connection = None;
    // Until when the log is to be emptied, if readers held it.
    let mut trying: Option<Instant> = None;
    loop {
        let next = match trying {
            None => errands.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(_) => errands.recv_timeout(PAUSE),
        };
        let first = match next {
            Ok(errand) => Some(errand),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let (mut answers, mut taken) = (Vec::new(), 0);
        for errand in first.into_iter().chain(errands.try_iter()) {
            taken += 1;
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
                let now = Instant::now();
                let is_empty = empty(connection, now + ANSWER);
                trying = (!is_empty).then_some(now + PATIENCE);
            } else if let Some(end) = trying
                && (empty(connection, Instant::now()) || Instant::now() >= end)
            {
                trying = None;
            }
        }
        answers.into_iter().for_each(Answer::send);
        open.fetch_sub(taken, Ordering::AcqRel);
    }
}

/// Tries to empty the log, once or until `end`. Readers may delay this; writers wait for them only for short times. Returns
/// whether it is empty.
fn empty(connection: &Connection, end: Instant) -> bool {
    if connection.busy_timeout(TRY).is_err() {
        return false;
    }
    loop {
        if checkpoint(connection, "TRUNCATE").unwrap_or(false) {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
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
