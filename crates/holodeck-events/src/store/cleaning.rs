//! Deletions in steps: each step is a short transaction, so that a writer waits for one step at most.
//!
//! The tables say which rows remain to be deleted, so that any process continues after a crash.

use std::{collections::VecDeque, time::Duration};

use super::{
    StoreError,
    request::{Cleaning, Done, Reply, Sender},
};

/// How many rows a step deletes: as many as a writer can wait for, by how long the steps before took.
#[derive(Clone, Copy, Debug)]
struct StepSize(i64);

impl StepSize {
    /// The time of a step.
    const AIM: Duration = Duration::from_millis(4);
    const FIRST: i64 = 64;
    const LEAST: i64 = 16;
    /// A row has its id in a page of its own, and what a step writes must reach the disk before the next commit of a
    /// message does: this many are about a megabyte.
    const MOST: i64 = 256;

    fn observe(&mut self, took: Duration) {
        if took > Self::AIM {
            self.0 /= 2;
        } else if took < Self::AIM / 3 {
            self.0 *= 2;
        }
        self.0 = self.0.clamp(Self::LEAST, Self::MOST);
    }
}

/// The cleanings that are not over, in the order in which they are done.
pub(in crate::store) struct Chores {
    waiting: VecDeque<Chore>,
    size: StepSize,
}

struct Chore {
    cleaning: Cleaning,
    /// The effects of its steps so far.
    reply: Reply,
    sender: Option<Sender>,
}

/// The answer to a request whose last step is done.
pub(in crate::store) struct Answer {
    result: Result<Reply, StoreError>,
    sender: Option<Sender>,
}

impl Answer {
    /// Gives it to those that wait.
    pub(in crate::store) fn send(self) {
        if let Some(sender) = self.sender {
            let _ = sender.send(self.result);
        }
    }
}

impl Default for Chores {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            size: StepSize(StepSize::FIRST),
        }
    }
}

impl Chores {
    pub(in crate::store) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Adds one. A person waits for a deletion: it comes before every sweep.
    pub(in crate::store) fn add(&mut self, cleaning: Cleaning, sender: Option<Sender>) {
        let chore = Chore {
            cleaning,
            reply: Reply::default(),
            sender,
        };
        let is_session = |chore: &&Chore| matches!(chore.cleaning, Cleaning::Session(_));
        if is_session(&&chore) {
            let before = self.waiting.iter().take_while(is_session).count();
            self.waiting.insert(before, chore);
        } else {
            self.waiting.push_back(chore);
        }
    }

    /// The next step, and how many rows it may delete.
    pub(in crate::store) fn next(&self) -> Option<(Cleaning, i64)> {
        Some((self.waiting.front()?.cleaning, self.size.0))
    }

    /// Takes in a step that took so long. After the last one, the answer to the request.
    pub(in crate::store) fn observe(
        &mut self,
        step: Result<&Done, &StoreError>,
        took: Duration,
    ) -> Option<Answer> {
        self.size.observe(took);
        let mut chore = self.waiting.pop_front()?;
        let result = match step {
            Ok(done) => {
                chore.reply.swept.sessions += done.deleted.len();
                chore.reply.swept.pieces += done.reply.swept.pieces;
                if done.cleaning.is_some() {
                    self.waiting.push_front(chore);
                    return None;
                }
                Ok(chore.reply)
            }
            // A session that is marked as deleted is: the next sweep or start deletes what is left of it.
            Err(error) => match chore.cleaning {
                Cleaning::Old { .. } => Err(error.clone()),
                Cleaning::Session(_) | Cleaning::Leftovers => Ok(chore.reply),
            },
        };
        Some(Answer {
            result,
            sender: chore.sender,
        })
    }

    /// Answers those that wait; the next start continues with the rest.
    pub(in crate::store) fn leave(&mut self) {
        for chore in self.waiting.drain(..) {
            if let Some(sender) = chore.sender {
                let _ = sender.send(Ok(chore.reply));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_grow_and_shrink_with_the_time_that_they_take() {
        let mut size = StepSize(StepSize::FIRST);
        for _ in 0..20 {
            size.observe(Duration::from_millis(1));
        }
        assert_eq!(size.0, 256);
        size.observe(Duration::from_millis(3));
        assert_eq!(size.0, 256);
        size.observe(Duration::from_millis(5));
        assert_eq!(size.0, 128);
        for _ in 0..20 {
            size.observe(Duration::from_millis(50));
        }
        assert_eq!(size.0, 16);
    }

    #[test]
    fn a_deletion_does_not_wait_for_a_sweep() {
        let mut chores = Chores::default();
        let old = Cleaning::Old {
            sessions: None,
            pieces: 0,
        };
        for cleaning in [old, Cleaning::Session(1), Cleaning::Session(2)] {
            chores.add(cleaning, None);
        }
        let mut order = Vec::new();
        while let Some((cleaning, _)) = chores.next() {
            order.push(format!("{cleaning:?}"));
            chores.observe(Ok(&Done::default()), Duration::ZERO);
        }
        assert_eq!(order[..2], ["Session(1)", "Session(2)"]);
        assert!(order[2].starts_with("Old"));
    }
}
