//! The thread that moves what is deleted from the log of the file to the file, so that no writer waits for the disk.
//! Beside a stream of messages it is always a few pages behind: these the writer moves when the log is long.
//!
//! It must not answer a deletion before its text is gone from the log, unless readers hold it: then it continues after the
//! answer.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicUsize, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::database;
use crate::store::cleaning::Answer;

/// How long a deletion waits for readers before it is answered.
const ANSWER: Duration = Duration::from_millis(200);
/// How long readers may keep what is deleted in the log before the next deletion or commit removes it.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long writers may wait for readers at a time, and the time between two tries.
const TRY: Duration = Duration::from_millis(10);
const PAUSE: Duration = Duration::from_millis(40);

/// Pages after which a log is long, as SQLite has it: the longer its file is, the longer a writer waits when it is cut off.
pub(super) const LONG: i64 = 1_000;

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
    progress: Arc<Progress>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Progress {
    /// Parts of its work that are not done.
    open: AtomicUsize,
    /// Pages of the log when it last moved some, moved ones too.
    pages: AtomicI64,
    /// How often it began to use the file or ceased to: odd while it does.
    turns: AtomicUsize,
}

impl Checkpointer {
    /// Starts the thread. Without one, if the machine has no more, answers are given at once.
    pub(super) fn start(path: PathBuf) -> Self {
        let (errands, received) = mpsc::channel();
        let progress = Arc::<Progress>::default();
        let of_thread = Arc::clone(&progress);
        let thread = thread::Builder::new()
            .name("holodeck-checkpoints".to_owned())
            .spawn(move || work(&path, &received, &of_thread));
        Self {
            errands: thread.is_ok().then_some(errands),
            progress,
            thread: thread.ok(),
        }
    }

    /// Whether pages of an earlier step are still to be moved. What they and another step write would be waited for by
    /// one commit.
    pub(super) fn is_moving(&self) -> bool {
        self.progress.open.load(Ordering::Acquire) > 0
    }

    /// Lets the next commit of the writer start the log again if it is long: while messages are written, the thread alone
    /// never comes to its end. The writer moves only what was written since the thread did.
    pub(super) fn start_over(&self, writer: &Connection) {
        let is_short = self.errands.is_some() && self.progress.pages.load(Ordering::Acquire) < LONG;
        if is_short || writer.busy_timeout(TRY).is_err() {
            return;
        }
        // An error leaves the pages to the next time.
        let _ = checkpoint(writer, "RESTART");
        let _ = writer.busy_timeout(database::PATIENCE);
    }

    fn turns(&self) -> usize {
        self.progress.turns.load(Ordering::Acquire)
    }

    /// Whether the thread used the file since `turns`, or does.
    fn has_used_file(&self, turns: usize) -> bool {
        let now = self.turns();
        now != turns || now % 2 == 1
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
        self.progress.open.fetch_add(1, Ordering::AcqRel);
        let errand = match &self.errands {
            Some(errands) => errands.send(errand).err().map(|unsent| unsent.0),
            None => Some(errand),
        };
        if errand.is_some() {
            self.progress.open.fetch_sub(1, Ordering::AcqRel);
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

/// Begins a transaction of the writer, which has one at a time. It waits for the checkpoints of this process, however slow
/// the disk is, and for another process as long as the connection has patience.
pub(super) fn begin<'a>(
    writer: &'a Connection,
    checkpointer: Option<&Checkpointer>,
) -> Result<Transaction<'a>, rusqlite::Error> {
    loop {
        let turns = checkpointer.map_or(0, Checkpointer::turns);
        match Transaction::new_unchecked(writer, TransactionBehavior::Immediate) {
            Err(error)
                if database::is_busy(&error)
                    && checkpointer.is_some_and(|thread| thread.has_used_file(turns)) => {}
            begun => return begun,
        }
    }
}

fn work(path: &Path, errands: &Receiver<Errand>, progress: &Progress) {
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
        progress.turns.fetch_add(1, Ordering::AcqRel);
        if let Some(connection) = &connection {
            // An error leaves the pages to the next one.
            if let Ok(log) = checkpoint(connection, "PASSIVE") {
                progress.pages.store(log.pages, Ordering::Release);
            }
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
        progress.turns.fetch_add(1, Ordering::AcqRel);
        answers.into_iter().for_each(Answer::send);
        progress.open.fetch_sub(taken, Ordering::AcqRel);
    }
}

/// Tries to empty the log, once or until `end`. Readers may delay this; writers wait for them only for short times. Returns
/// whether it is empty.
fn empty(connection: &Connection, end: Instant) -> bool {
    if connection.busy_timeout(TRY).is_err() {
        return false;
    }
    loop {
        if checkpoint(connection, "TRUNCATE").is_ok_and(|log| log.is_moved) {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        thread::sleep(PAUSE);
        let _ = checkpoint(connection, "PASSIVE");
    }
}

/// The log after a checkpoint.
struct Log {
    pages: i64,
    /// Whether nothing kept the checkpoint from its end.
    is_moved: bool,
}

fn checkpoint(connection: &Connection, mode: &str) -> Result<Log, rusqlite::Error> {
    connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
        Ok(Log {
            pages: row.get(1)?,
            is_moved: row.get::<_, i64>(0)? == 0,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Begins a transaction in a file that another connection keeps for longer than the writer has patience. The
    /// checkpointer has had `turns`, and one more before the file is free.
    fn begin_beside(turns: usize) -> Result<(), rusqlite::Error> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.db");
        let writer = database::connect_writer(&path, None).unwrap();
        writer.busy_timeout(Duration::from_millis(20)).unwrap();
        let other = database::connect(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let checkpointer = Checkpointer::start(path);
        let count = &checkpointer.progress.turns;
        count.store(turns, Ordering::Release);
        thread::scope(|scope| {
            scope.spawn(move || {
                thread::sleep(Duration::from_millis(300));
                other.execute_batch("COMMIT").unwrap();
                count.fetch_add(1, Ordering::AcqRel);
            });
            begin(&writer, Some(&checkpointer)).map(|_| ())
        })
    }

    #[test]
    fn a_message_waits_for_a_checkpoint_of_its_process_and_not_for_ever_for_another_one() {
        begin_beside(1).unwrap();
        let refused = begin_beside(2).unwrap_err();
        assert!(database::is_busy(&refused), "{refused}");
    }
}
