//! The invariants that hold after every fault: the end of each run, the tools that ran, and the logs.
#![allow(
    clippy::indexing_slicing,
    reason = "indexing JSON by a key that is not there gives null"
)]

use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::fleet::ask;
use super::{ANSWER, NOTES, PATIENCE, Rounds, SESSIONS, Sent, Tally, end_of};
use crate::host;
use crate::served::client::{Event, Events};

impl Rounds {
    /// The invariants.
    pub(super) fn check_after(&mut self, all: &[Sent], tally: &mut Tally) -> Result<()> {
        self.until_idle()?;
        let notes = fs::read_to_string(self.folder.path().join(NOTES)).unwrap_or_default();
        for sent in all {
            let stored = self.stored(sent.session)?;
            let end = end_of(&stored, &sent.run).with_context(|| format!("`{}` has no end", sent.mark))?;
            let is_answered = end["type"] == "complete";
            *if is_answered {
                &mut tally.answered
            } else {
                &mut tally.interrupted
            } += 1;
            let ran = notes.matches(&sent.mark).count();
            ensure!(ran <= 1, "the tool ran {ran} times for `{}`", sent.mark);
            let is_called = !sent.mark.starts_with("say");
            ensure!(
                !is_answered || !is_called || ran == 1,
                "`{}` is answered, and its tool did not run; the notes are {notes}\n{}",
                sent.mark,
                stored
                    .iter()
                    .map(|event| event.data.as_str())
                    .filter(|data| data.contains(&sent.run) && !data.contains("message_chunk"))
                    .collect::<Vec<_>>()
                    .join("\n")
            );
            self.check_log(sent, &stored)?;
            tally.events = tally.events.max(stored.len());
        }
        self.fleet.ensure_no_growth()
    }

    /// No question is open, and nothing runs, at any process.
    fn until_idle(&self) -> Result<()> {
        let started = Instant::now();
        loop {
            let mut busy = Vec::new();
            for process in 0..self.fleet.len() {
                let address = self.fleet.addresses.get(process);
                for session in SESSIONS {
                    let path = format!("/v1/sessions/{session}");
                    let Some((200, session)) = ask(&address, "GET", &path, None, ANSWER) else {
                        busy.push(format!("{session} at {process}: no answer"));
                        continue;
                    };
                    if !session["openRun"].is_null() {
                        busy.push(format!("{session} at {process}"));
                    }
                }
                let open = ask(&address, "GET", "/v1/approvals", None, ANSWER);
                if !open
                    .as_ref()
                    .is_some_and(|(_, open)| open["approvals"] == json!([]))
                {
                    busy.push(format!("at {process}: {open:?}"));
                }
            }
            if busy.is_empty() {
                return Ok(());
            }
            ensure!(started.elapsed() < PATIENCE, "not idle: {}", busy.join("; "));
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// The stored events, the same at all processes.
    fn stored(&self, session: &str) -> Result<Vec<Event>> {
        let at = |process: usize| Events::stored(&self.fleet.addresses.get(process), session);
        let first = at(0)?;
        for process in 1..self.fleet.len() {
            ensure!(
                at(process)? == first,
                "processes 0 and {process} have other events of `{session}`"
            );
        }
        Ok(first)
    }

    /// The log is well formed, has one message of the person, and is what each reader got live.
    fn check_log(&self, sent: &Sent, stored: &[Event]) -> Result<()> {
        let lines: Vec<&str> = stored.iter().map(|event| event.data.as_str()).collect();
        let file = self.folder.path().join("events.jsonl");
        fs::write(&file, lines.join("\n"))?;
        let mut check = host::command(&self.program);
        let checked = check
            .args(["events", "check"])
            .arg(&file)
            .stdin(Stdio::null())
            .output()?;
        let said = String::from_utf8_lossy(&checked.stdout);
        ensure!(checked.status.success(), "the log of `{}`: {said}", sent.session);
        let messages = stored.iter().filter(|event| {
            event.is("user_message_confirmed")
                && event
                    .json()
                    .is_ok_and(|event| event["content"] == sent.mark.as_str())
        });
        let messages = messages.count();
        ensure!(messages == 1, "`{}` is stored {messages} times", sent.mark);
        for (number, (session, reader)) in self.readers.iter().enumerate() {
            if *session == sent.session {
                let received = reader.received();
                ensure!(
                    *received == stored,
                    "reader {number} of `{session}` got {} events live, which are not the {} stored ones",
                    received.len(),
                    stored.len()
                );
            }
        }
        Ok(())
    }
}
