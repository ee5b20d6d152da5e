//! Applies requests to the tables, inside a transaction.

use holodeck_model::events::{EventBody, EventClass};
use rusqlite::{OptionalExtension as _, Transaction, params};

use super::{
    approvals, lease,
    rows::{
        OpenRun, add, create_session, delete_session, end_run, open_runs, process_of, read_event,
        refuse_repeated, run_row, session_row,
    },
    writer::State,
};
use crate::{
    Draft,
    store::{
        ApprovalAnswer, Retention, StoreError, Swept,
        approvals::{Answered, remembered},
        before,
        columns::class_code,
        interrupted::end_interrupted,
        owner_of,
        request::{Done, Reply, Request},
        run_of, session_of, single_run,
    },
};

impl State {
    /// Executes a request. [`StoreError::Full`] and [`StoreError::Failed`] roll the transaction back; any other error is
    /// returned before anything is written.
    pub(super) fn execute(
        &mut self,
        transaction: &Transaction<'_>,
        request: &Request,
    ) -> Result<Done, StoreError> {
        match request {
            Request::OpenSession { first, owner } => open_session(transaction, first, owner.as_deref()),
            Request::OpenRun(first) => self.open_run(transaction, first),
            Request::Append(drafts) => self.append(transaction, drafts),
            Request::Abandon { run_id, .. } => self.abandon(transaction, run_id),
            Request::Recover => self.recover(transaction),
            Request::Forget { session_id, tool } => approvals::forget(transaction, session_id, tool),
            Request::Fork(copy) => self.fork(transaction, copy),
            Request::Resolve(answer) => self.resolve(transaction, answer),
            Request::Delete { session_id, force } => self.delete(transaction, session_id, *force),
            Request::Sweep(retention) => self.sweep(transaction, *retention),
            Request::Wake | Request::Close => Ok(Done::default()),
        }
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
                refuse_repeated(transaction, session, client_id, message)?;
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
            None => create_session(transaction, first, user)?,
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
        let known = run_row(transaction, session_id, run_id)?;
        let run_id = run_id.to_owned();
        let Some((run, mut session)) = known else {
            return Err(StoreError::RunNotOpen { run_id });
        };
        if run.writer != self.name || (run.is_open && self.own.get(&run_id) != Some(&run.epoch)) {
            return Err(StoreError::StaleOwner { run_id });
        }
        if !run.is_open {
            return Err(StoreError::RunNotOpen { run_id });
        }
        let mut done = Done::default();
        done.reply.events = add(transaction, &mut session, Some(run.number), drafts, &mut done)?;
        if drafts.iter().any(|draft| draft.event.body.is_terminal()) {
            end_run(transaction, run.number, &session, drafts)?;
            done.closed.push(run_id);
        }
        Ok(done)
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
        // A writer without a row has not shown a beat yet, and may hold its lock.
        let stopped = self.observer.has_stopped(&run.writer, beat.unwrap_or(-1), now);
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
        end_run(transaction, run.number, &session, &drafts)?;
        done.closed.push(run.run_id.clone());
        Ok(())
    }

    /// Stores the answer to an approval, also of a run that another process owns.
    fn resolve(&self, transaction: &Transaction<'_>, answer: &ApprovalAnswer) -> Result<Done, StoreError> {
        let not_found = || StoreError::ApprovalNotFound {
            approval_id: answer.approval_id.clone(),
        };
        let approval = approvals::find(transaction, &answer.approval_id)?.ok_or_else(not_found)?;
        let mut done = Done::default();
        let draft = match approval.resolve(answer, &*self.options.clock, &*self.options.ids)? {
            Answered::Before(stored) => {
                done.reply.events.push(stored);
                return Ok(done);
            }
            Answered::Now(draft) => draft,
        };
        let mut session = session_row(transaction, approval.session_id())?.ok_or_else(not_found)?;
        let run = transaction
            .prepare_cached("SELECT number FROM runs WHERE run_id = ? AND last_index IS NULL")?
            .query_row([approval.run_id()], |row| row.get(0))
            .optional()?
            .ok_or_else(|| StoreError::RunNotOpen {
                run_id: approval.run_id().to_owned(),
            })?;
        done.reply.events = add(transaction, &mut session, Some(run), &[*draft], &mut done)?;
        if let Some(scope) = done.reply.events.first().and_then(remembered) {
            approvals::remember(transaction, &approval, &answer.approval_id, scope)?;
        }
        Ok(done)
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
}

fn open_session(
    transaction: &Transaction<'_>,
    first: &Draft,
    owner: Option<&str>,
) -> Result<Done, StoreError> {
    let session_id = session_of(&first.event.meta);
    if let Some(session) = session_row(transaction, session_id)? {
        owner_of(session_id, session.owner.as_deref(), owner, true)?;
        return Ok(Done::default());
    }
    let mut session = create_session(transaction, first, owner)?;
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
