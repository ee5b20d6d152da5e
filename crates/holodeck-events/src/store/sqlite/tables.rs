//! What requests do to the tables, inside a transaction.

use holodeck_model::events::{EventBody, EventClass};
use jiff::Timestamp;
use rusqlite::{OptionalExtension as _, Row, Transaction, params};

use super::{
    lease,
    writer::{Done, Reply, Request, State},
};
use crate::{
    Draft,
    store::{
        Retention, SessionInfo, StoreError, StoredEvent, Swept, before, interrupted::end_interrupted,
        owner_of, run_of, session_of, single_run,
    },
};

/// Indices between two durable ceilings.
const BLOCK: u64 = 1024;

/// The row of a session.
struct Session {
    number: i64,
    session_id: String,
    owner: Option<String>,
    next_index: u64,
    next_sequence: u64,
    ceiling: u64,
}

/// An open run.
struct OpenRun {
    number: i64,
    run_id: String,
    session_id: String,
    writer: String,
    epoch: i64,
    first_index: u64,
}

impl State {
    /// Executes a request. [`StoreError::Full`] and [`StoreError::Failed`] roll the transaction back; any other error is
    /// returned before anything is written.
    pub(super) fn execute(
        &mut self,
        transaction: &Transaction<'_>,
        request: &Request,
    ) -> Result<Done, StoreError> {
        match request {
            Request::OpenSession { first, owner } => self.open_session(transaction, first, owner.as_deref()),
            Request::OpenRun(first) => self.open_run(transaction, first),
            Request::Append(drafts) => self.append(transaction, drafts),
            Request::Abandon { run_id } => self.abandon(transaction, run_id),
            Request::Recover => self.recover(transaction),
            Request::Delete { session_id, force } => self.delete(transaction, session_id, *force),
            Request::Sweep(retention) => self.sweep(transaction, *retention),
            Request::Wake | Request::Close => Ok(Done::default()),
        }
    }

    fn open_session(
        &mut self,
        transaction: &Transaction<'_>,
        first: &Draft,
        owner: Option<&str>,
    ) -> Result<Done, StoreError> {
        let session_id = session_of(&first.event.meta);
        if let Some(session) = session_row(transaction, session_id)? {
            owner_of(session_id, session.owner.as_deref(), owner, true)?;
            return Ok(Done::default());
        }
        let mut session = create_session(transaction, session_id, owner)?;
        let mut done = Done::default();
        add(
            transaction,
            &mut session,
            None,
            std::slice::from_ref(first),
            &mut done,
        )?;
        done.reply.events = done
            .publish
            .iter()
            .flat_map(|(_, events)| events.clone())
            .collect();
        Ok(done)
    }

    fn open_run(&mut self, transaction: &Transaction<'_>, first: &Draft) -> Result<Done, StoreError> {
        let session_id = session_of(&first.event.meta);
        let run_id = run_of(&first.event.meta).to_owned();
        let EventBody::UserMessageConfirmed(message) = &first.event.body else {
            return Err(StoreError::RunNotOpen { run_id });
        };
        let user = message.user_id.as_deref();
        let known = session_row(transaction, session_id)?;
        let mut done = Done::default();
        let (mut owner, mut open) = (user.map(ToOwned::to_owned), None);
        if let Some(session) = &known {
            let has_runs = session.next_sequence > 0;
            owner = owner_of(session_id, session.owner.as_deref(), user, has_runs)?;
            if let Some(client_id) = &message.client_message_id {
                refuse_repeated(transaction, session, client_id, &message.content)?;
            }
            open = open_runs(transaction, Some(session_id))?.pop();
        }
        if let Some(run) = &open
            && !self.is_over(transaction, run)?
        {
            let process = (run.writer != self.name).then(|| process_of(transaction, &run.writer));
            return Err(StoreError::RunInProgress {
                session_id: session_id.to_owned(),
                process: process.transpose()?.flatten(),
            });
        }
        let exists = "SELECT 1 FROM runs WHERE run_id = ?";
        if transaction.prepare_cached(exists)?.exists([&run_id])? {
            return Err(StoreError::RunExists { run_id });
        }
        if let Some(run) = &open {
            self.take_over(transaction, run, &mut done)?;
        }
        let mut session = match session_row(transaction, session_id)? {
            Some(session) => session,
            None => create_session(transaction, session_id, user)?,
        };
        transaction
            .prepare_cached("UPDATE sessions SET owner = ? WHERE number = ?")?
            .execute(params![owner, session.number])?;
        // A run begins with a beat: an observer must not count the time in which this writer had no run.
        transaction
            .prepare_cached(
                "INSERT INTO writers (writer, process, beat) VALUES (?, ?, 0)
                 ON CONFLICT DO UPDATE SET beat = beat + 1",
            )?
            .execute(params![self.name, std::process::id()])?;
        let epoch = 0;
        transaction
            .prepare_cached(
                "INSERT INTO runs (run_id, session, writer, epoch, client_message_id, first_index)
                 VALUES (?, ?, ?, ?, ?, ?)",
            )?
            .execute(params![
                run_id,
                session.number,
                self.name,
                epoch,
                message.client_message_id,
                session.next_index
            ])?;
        let run = transaction.last_insert_rowid();
        let stored = add(
            transaction,
            &mut session,
            Some(run),
            std::slice::from_ref(first),
            &mut done,
        )?;
        done.reply.events = stored;
        done.opened = Some((run_id, epoch));
        Ok(done)
    }

    fn append(&mut self, transaction: &Transaction<'_>, drafts: &[Draft]) -> Result<Done, StoreError> {
        let Some((session_id, run_id)) = single_run(drafts)? else {
            return Ok(Done::default());
        };
        let run = transaction
            .prepare_cached(
                "SELECT runs.number, writer, epoch, last_index IS NULL
                 FROM runs JOIN sessions ON sessions.number = session
                 WHERE run_id = ? AND session_id = ?",
            )?
            .query_row([run_id, session_id], |row| {
                Ok((
                    row.get::<_, i64>(0)?,
                    row.get::<_, String>(1)?,
                    row.get::<_, i64>(2)?,
                    row.get::<_, bool>(3)?,
                ))
            })
            .optional()?;
        let run_id = run_id.to_owned();
        let Some((number, writer, epoch, is_open)) = run else {
            return Err(StoreError::RunNotOpen { run_id });
        };
        if writer != self.name || (is_open && self.own.get(&run_id) != Some(&epoch)) {
            return Err(StoreError::StaleOwner { run_id });
        }
        let Some(mut session) = session_row(transaction, session_id)?.filter(|_| is_open) else {
            return Err(StoreError::RunNotOpen { run_id });
        };
        let mut done = Done::default();
        done.reply.events = add(transaction, &mut session, Some(number), drafts, &mut done)?;
        if drafts.iter().any(|draft| draft.event.body.is_terminal()) {
            self.end_run(transaction, number, &session)?;
            done.closed.push(run_id);
        }
        Ok(done)
    }

    fn end_run(&self, transaction: &Transaction<'_>, run: i64, session: &Session) -> Result<(), StoreError> {
        transaction
            .prepare_cached("UPDATE runs SET last_index = ?, ended_at = ? WHERE number = ?")?
            .execute(params![session.next_index.saturating_sub(1), self.now(), run])?;
        Ok(())
    }

    fn abandon(&mut self, transaction: &Transaction<'_>, run_id: &str) -> Result<Done, StoreError> {
        let mut done = Done::default();
        let own = open_runs(transaction, None)?
            .into_iter()
            .find(|run| run.run_id == run_id && run.writer == self.name);
        if let Some(run) = own {
            self.take_over(transaction, &run, &mut done)?;
        }
        Ok(done)
    }

    /// Ends each open run that no process continues.
    fn recover(&mut self, transaction: &Transaction<'_>) -> Result<Done, StoreError> {
        let mut done = Done::default();
        let runs = open_runs(transaction, None)?;
        let writers: Vec<String> = runs.iter().map(|run| run.writer.clone()).collect();
        self.observer.retain(&writers);
        for run in runs {
            if self.is_over(transaction, &run)? {
                self.take_over(transaction, &run, &mut done)?;
                done.reply.runs.push(run.run_id);
            }
        }
        let idle: Vec<String> = transaction
            .prepare_cached(
                "SELECT writer FROM writers WHERE NOT EXISTS (
                     SELECT 1 FROM runs WHERE runs.writer = writers.writer AND last_index IS NULL)",
            )?
            .query_map([], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        for writer in idle {
            // A row is kept as long as its writer lives, so that its beats never begin again.
            if writer != self.name && lease::is_gone(&self.shared.path, &writer) {
                transaction
                    .prepare_cached("DELETE FROM writers WHERE writer = ?")?
                    .execute([writer])?;
            }
        }
        Ok(done)
    }

    /// Whether nothing will continue an open run.
    fn is_over(&mut self, transaction: &Transaction<'_>, run: &OpenRun) -> Result<bool, StoreError> {
        if run.writer == self.name {
            return Ok(self.abandoned.contains(&run.run_id));
        }
        let beat = transaction
            .prepare_cached("SELECT beat FROM writers WHERE writer = ?")?
            .query_row([&run.writer], |row| row.get(0))
            .optional()?;
        let now = self.options.clock.elapsed();
        let stopped = beat.is_none_or(|beat| self.observer.has_stopped(&run.writer, beat, now));
        // The lock's file of a stopped process remains while it is locked.
        Ok(stopped || lease::is_gone(&self.shared.path, &run.writer))
    }

    /// Fences the run's writer and ends the run.
    fn take_over(
        &self,
        transaction: &Transaction<'_>,
        run: &OpenRun,
        done: &mut Done,
    ) -> Result<(), StoreError> {
        let Some(mut session) = session_row(transaction, &run.session_id)? else {
            return Ok(());
        };
        transaction
            .prepare_cached("UPDATE runs SET writer = ?, epoch = ? WHERE number = ?")?
            .execute(params![self.name, run.epoch + 1, run.number])?;
        let events: Vec<_> = transaction
            .prepare_cached(
                "SELECT payload, event_index, class FROM events
                 WHERE session = ? AND event_index >= ? AND run = ? ORDER BY event_index",
            )?
            .query_map(params![session.number, run.first_index, run.number], read_event)?
            .collect::<Result<Result<_, _>, _>>()??;
        if run.writer != self.name {
            // A power loss may have dropped pieces of text that were delivered with indices below it.
            session.next_index = session.ceiling;
        }
        let drafts = end_interrupted(&events, &*self.options.clock, &*self.options.ids);
        add(transaction, &mut session, Some(run.number), &drafts, done)?;
        self.end_run(transaction, run.number, &session)?;
        done.closed.push(run.run_id.clone());
        Ok(())
    }

    fn delete(
        &mut self,
        transaction: &Transaction<'_>,
        session_id: &str,
        force: bool,
    ) -> Result<Done, StoreError> {
        let not_found = || StoreError::SessionNotFound {
            session_id: session_id.to_owned(),
        };
        let session = match session_row(transaction, session_id) {
            Ok(Some(session)) => session,
            Ok(None) | Err(StoreError::SessionDeleted { .. }) => return Err(not_found()),
            Err(error) => return Err(error),
        };
        let open = open_runs(transaction, Some(session_id))?;
        for run in &open {
            if !force && !self.is_over(transaction, run)? {
                let process = (run.writer != self.name).then(|| process_of(transaction, &run.writer));
                return Err(StoreError::RunInProgress {
                    session_id: session_id.to_owned(),
                    process: process.transpose()?.flatten(),
                });
            }
        }
        delete_session(transaction, session.number)?;
        Ok(Done {
            closed: open.into_iter().map(|run| run.run_id).collect(),
            deleted: vec![session_id.to_owned()],
            ..Done::default()
        })
    }

    fn sweep(&mut self, transaction: &Transaction<'_>, retention: Retention) -> Result<Done, StoreError> {
        let now = self.options.clock.now();
        let mut done = Done::default();
        if let Some(age) = retention.sessions {
            let old: Vec<(i64, String)> = transaction
                .prepare_cached(
                    "SELECT number, session_id FROM sessions WHERE deleted = 0 AND last_at < ?
                     AND NOT EXISTS (SELECT 1 FROM runs WHERE session = sessions.number AND last_index IS NULL)",
                )?
                .query_map([before(now, age).as_millisecond()], |row| {
                    Ok((row.get(0)?, row.get(1)?))
                })?
                .collect::<Result<_, _>>()?;
            for (number, session_id) in old {
                delete_session(transaction, number)?;
                done.deleted.push(session_id);
            }
        }
        let limit = before(now, retention.resume_window).as_millisecond();
        let runs: Vec<(i64, i64, u64, u64)> = transaction
            .prepare_cached(
                "SELECT number, session, first_index, last_index FROM runs
                 WHERE pruned = 0 AND last_index IS NOT NULL AND ended_at < ?",
            )?
            .query_map([limit], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            })?
            .collect::<Result<_, _>>()?;
        let mut swept = Swept {
            sessions: done.deleted.len(),
            pieces: 0,
        };
        for (number, session, first, last) in runs {
            swept.pieces += transaction
                .prepare_cached(
                    "DELETE FROM events
                     WHERE session = ? AND event_index BETWEEN ? AND ? AND class = ?",
                )?
                .execute(params![session, first, last, class_code(EventClass::Journaled)])?;
            transaction
                .prepare_cached("UPDATE runs SET pruned = 1 WHERE number = ?")?
                .execute([number])?;
        }
        done.reply = Reply {
            swept,
            ..Reply::default()
        };
        Ok(done)
    }

    fn now(&self) -> i64 {
        self.options.clock.now().as_millisecond()
    }
}

/// Numbers events and inserts them; the row of the session is written first.
fn add(
    transaction: &Transaction<'_>,
    session: &mut Session,
    run: Option<i64>,
    drafts: &[Draft],
    done: &mut Done,
) -> Result<Vec<StoredEvent>, StoreError> {
    let mut stored = Vec::with_capacity(drafts.len());
    for draft in drafts {
        let number = (draft.class == EventClass::Stored).then_some(session.next_sequence);
        stored.push(StoredEvent::number(draft, session.next_index, number)?);
        session.next_index += 1;
        session.next_sequence += u64::from(number.is_some());
    }
    if session.next_index > session.ceiling {
        session.ceiling = session.next_index.saturating_add(BLOCK);
        done.raised = true;
    }
    let last_at = stored.last().map(|event| event.event().meta.timestamp);
    transaction
        .prepare_cached(
            "UPDATE sessions SET next_index = ?, next_sequence = ?, ceiling = ?, last_at = max(last_at, ?)
             WHERE number = ?",
        )?
        .execute(params![
            session.next_index,
            session.next_sequence,
            session.ceiling,
            last_at.map_or(0, Timestamp::as_millisecond),
            session.number
        ])?;
    let mut insert = transaction.prepare_cached(
        "INSERT INTO events
             (session, event_index, sequence_number, event_id, run, tool_use_id, class, type, payload)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?;
    for event in &stored {
        let body = &event.event().body;
        let tool_use_id = match body {
            EventBody::ToolUse(call) => Some(&call.tool_use_id),
            EventBody::ToolResult(result) => Some(&result.tool_use_id),
            _ => None,
        };
        insert.execute(params![
            session.number,
            event.index(),
            event.event().meta.sequence_number,
            event.event().meta.event_id.as_bytes(),
            run,
            tool_use_id,
            class_code(event.class()),
            body.kind(),
            event.json()
        ])?;
    }
    done.publish.push((session.session_id.clone(), stored.clone()));
    Ok(stored)
}

fn session_row(transaction: &Transaction<'_>, session_id: &str) -> Result<Option<Session>, StoreError> {
    let row = transaction
        .prepare_cached(
            "SELECT number, owner, next_index, next_sequence, ceiling, deleted
             FROM sessions WHERE session_id = ?",
        )?
        .query_row([session_id], |row| {
            let session = Session {
                number: row.get(0)?,
                session_id: session_id.to_owned(),
                owner: row.get(1)?,
                next_index: row.get(2)?,
                next_sequence: row.get(3)?,
                ceiling: row.get(4)?,
            };
            Ok((session, row.get::<_, bool>(5)?))
        })
        .optional()?;
    match row {
        Some((_, true)) => Err(StoreError::SessionDeleted {
            session_id: session_id.to_owned(),
        }),
        row => Ok(row.map(|(session, _)| session)),
    }
}

fn create_session(
    transaction: &Transaction<'_>,
    session_id: &str,
    owner: Option<&str>,
) -> Result<Session, StoreError> {
    transaction
        .prepare_cached(
            "INSERT INTO sessions (session_id, owner, next_index, next_sequence, ceiling, last_at)
             VALUES (?, ?, 0, 0, 0, 0)",
        )?
        .execute(params![session_id, owner])?;
    Ok(Session {
        number: transaction.last_insert_rowid(),
        session_id: session_id.to_owned(),
        owner: owner.map(ToOwned::to_owned),
        next_index: 0,
        next_sequence: 0,
        ceiling: 0,
    })
}

fn delete_session(transaction: &Transaction<'_>, session: i64) -> Result<(), StoreError> {
    for sql in [
        "DELETE FROM events WHERE session = ?",
        "DELETE FROM runs WHERE session = ?",
        "UPDATE sessions SET deleted = 1, owner = NULL WHERE number = ?",
    ] {
        transaction.prepare_cached(sql)?.execute([session])?;
    }
    Ok(())
}

/// Refuses a message whose client's id was sent before in this session.
fn refuse_repeated(
    transaction: &Transaction<'_>,
    session: &Session,
    client_message_id: &str,
    content: &str,
) -> Result<(), StoreError> {
    let sent: Option<(String, String)> = transaction
        .prepare_cached(
            "SELECT run_id, payload FROM runs
             JOIN events ON events.session = runs.session AND event_index = first_index
             WHERE runs.session = ? AND client_message_id = ?",
        )?
        .query_row(params![session.number, client_message_id], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    let Some((run_id, payload)) = sent else {
        return Ok(());
    };
    let event: holodeck_model::events::AgentEvent =
        serde_json::from_str(&payload).map_err(StoreError::failed)?;
    let same = matches!(&event.body, EventBody::UserMessageConfirmed(sent) if sent.content == content);
    Err(if same {
        StoreError::AlreadySent { run_id }
    } else {
        StoreError::MessageIdReused { run_id }
    })
}

fn open_runs(transaction: &Transaction<'_>, session_id: Option<&str>) -> Result<Vec<OpenRun>, StoreError> {
    let runs = transaction
        .prepare_cached(
            "SELECT runs.number, run_id, session_id, writer, epoch, first_index
             FROM runs JOIN sessions ON sessions.number = session
             WHERE last_index IS NULL AND (?1 IS NULL OR session_id = ?1) ORDER BY runs.number",
        )?
        .query_map([session_id], |row| {
            Ok(OpenRun {
                number: row.get(0)?,
                run_id: row.get(1)?,
                session_id: row.get(2)?,
                writer: row.get(3)?,
                epoch: row.get(4)?,
                first_index: row.get(5)?,
            })
        })?
        .collect::<Result<_, _>>()?;
    Ok(runs)
}

fn process_of(transaction: &Transaction<'_>, writer: &str) -> Result<Option<u32>, StoreError> {
    let process = transaction
        .prepare_cached("SELECT process FROM writers WHERE writer = ?")?
        .query_row([writer], |row| row.get(0))
        .optional()?;
    Ok(process)
}

fn class_code(class: EventClass) -> i64 {
    match class {
        EventClass::Stored => 0,
        EventClass::Durable => 1,
        EventClass::Journaled => 2,
    }
}

/// An event of `payload, event_index, class`.
pub(super) fn read_event(row: &Row<'_>) -> rusqlite::Result<Result<StoredEvent, StoreError>> {
    let class = match row.get(2)? {
        0 => EventClass::Stored,
        1 => EventClass::Durable,
        _ => EventClass::Journaled,
    };
    Ok(StoredEvent::read(row.get(0)?, row.get(1)?, class))
}

/// The columns that [`read_session`] reads.
pub(super) const SESSION: &str = "SELECT session_id, owner, next_index, run_id
    FROM sessions LEFT JOIN runs ON runs.session = sessions.number AND last_index IS NULL
    WHERE deleted = 0";

/// A session of the columns of [`SESSION`].
pub(super) fn read_session(row: &Row<'_>) -> rusqlite::Result<SessionInfo> {
    let next_index: u64 = row.get(2)?;
    Ok(SessionInfo {
        session_id: row.get(0)?,
        owner: row.get(1)?,
        head: next_index.checked_sub(1),
        open_run: row.get(3)?,
    })
}
