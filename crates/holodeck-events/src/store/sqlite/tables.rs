//! Applies requests to the tables, inside a transaction.

use holodeck_model::events::EventBody;
use rusqlite::params;

use super::{
    approvals, clean, lease,
    query::Tables,
    rows::{
        add, create_session, end_run, find_existing, find_run, find_session, insert_run, open_run,
        refuse_repeated,
    },
    space, statements as sql,
    writer::State,
};
use crate::{
    Draft,
    store::{
        ApprovalAnswer, StoreError,
        approvals::{Answered, remembered},
        columns::{RunRow, SessionRow, number, read_event, text},
        interrupted::end_interrupted,
        owner_of,
        request::{Cleaning, Done, Reply, Request},
        run_of, session_of, single_run,
    },
};

impl State {
    /// Executes a request. [`StoreError::Full`] and [`StoreError::Failed`] roll the transaction back; any other error is
    /// returned before anything is written.
    pub(super) fn execute(&mut self, tables: Tables<'_>, request: &Request) -> Result<Done, StoreError> {
        match request {
            Request::OpenSession { first, owner } => open_session(tables, first, owner.as_deref()),
            Request::OpenRun(first) => self.open_run(tables, first),
            Request::Append(drafts) => self.append(tables, drafts),
            Request::Abandon { session_id, run_id } => self.end_abandoned(tables, session_id, run_id),
            Request::Recover => self.recover(tables),
            Request::Forget { session_id, tool } => approvals::forget(tables, session_id, tool),
            Request::Revoke(approved) => approvals::revoke(tables, approved),
            Request::Fork(copy) => self.fork(tables, copy),
            Request::Resolve(answer) => self.resolve(tables, answer),
            Request::Delete { session_id, force } => self.delete(tables, session_id, *force),
            Request::Sweep(retention) => Ok(Done {
                cleaning: Some(Cleaning::of(*retention, self.options.clock.now())),
                ..Done::default()
            }),
            Request::Check => self.check(tables),
            Request::Wake | Request::Close => Ok(Done::default()),
        }
    }

    /// Writes a row that needs new pages, and removes it.
    fn check(&self, tables: Tables<'_>) -> Result<Done, StoreError> {
        space::check(&self.shared.path, self.file, self.options.free_space)?;
        tables.execute(sql::NEED_SPACE, [])?;
        tables.execute(sql::FREE_SPACE, [])?;
        Ok(Done::default())
    }

    fn open_run(&mut self, tables: Tables<'_>, first: &Draft) -> Result<Done, StoreError> {
        let session_id = session_of(&first.event.meta);
        let run_id = run_of(&first.event.meta).to_owned();
        let EventBody::UserMessageConfirmed(message) = &first.event.body else {
            return Err(StoreError::RunNotOpen { run_id });
        };
        let user = message.user_id.as_deref();
        let mut known = find_session(tables, session_id)?;
        let mut done = Done::default();
        let (mut owner, mut open) = (user.map(ToOwned::to_owned), None);
        if let Some(session) = &known {
            let has_runs = session.next_sequence > 0;
            owner = owner_of(session_id, session.owner.as_deref(), user, has_runs)?;
            if let Some(client_id) = &message.client_message_id {
                refuse_repeated(tables, session, client_id, message)?;
            }
            open = open_run(tables, session.number)?;
        }
        if let Some(run) = &open
            && !self.is_over(tables, run)?
        {
            return Err(self.in_progress(tables, session_id, run)?);
        }
        if tables.first(sql::RUN_EXISTS, [&run_id], |_| Ok(()))?.is_some() {
            return Err(StoreError::RunExists { run_id });
        }
        if let (Some(session), Some(run)) = (&mut known, &open) {
            self.take_over(tables, session, run, &mut done)?;
        }
        let mut session = match known {
            Some(session) => session,
            None => create_session(tables, first, user)?,
        };
        tables.execute(sql::SET_OWNER, params![owner, session.number])?;
        tables.execute(sql::BEGIN_BEAT, params![self.name, std::process::id()])?;
        let client_id = message.client_message_id.as_deref();
        let run = insert_run(tables, &session, &run_id, &self.name, client_id, false)?;
        let drafts = std::slice::from_ref(first);
        done.reply.events = add(tables, &mut session, Some(run), drafts, &mut done)?;
        done.opened = Some((run_id, 0));
        Ok(done)
    }

    fn append(&mut self, tables: Tables<'_>, drafts: &[Draft]) -> Result<Done, StoreError> {
        let Some((session_id, run_id)) = single_run(drafts)? else {
            return Ok(Done::default());
        };
        let known = find_run(tables, session_id, run_id)?;
        let run_id = run_id.to_owned();
        let Some((mut session, run)) = known else {
            return Err(StoreError::RunNotOpen { run_id });
        };
        if run.writer != self.name || (run.is_open && self.own.get(&run_id) != Some(&run.epoch)) {
            return Err(StoreError::StaleOwner { run_id });
        }
        if !run.is_open {
            return Err(StoreError::RunNotOpen { run_id });
        }
        let mut done = Done::default();
        done.reply.events = add(tables, &mut session, Some(run.number), drafts, &mut done)?;
        if drafts.iter().any(|draft| draft.event.body.is_terminal()) {
            end_run(tables, run.number, &session, drafts)?;
            done.closed.push(run_id);
        }
        Ok(done)
    }

    fn end_abandoned(
        &mut self,
        tables: Tables<'_>,
        session_id: &str,
        run_id: &str,
    ) -> Result<Done, StoreError> {
        let mut done = Done::default();
        if let Some(mut session) = find_existing(tables, session_id)?
            && let Some(run) = open_run(tables, session.number)?
            && run.id == run_id
            && run.writer == self.name
        {
            self.take_over(tables, &mut session, &run, &mut done)?;
        }
        Ok(done)
    }

    /// Ends each open run that no process continues.
    fn recover(&mut self, tables: Tables<'_>) -> Result<Done, StoreError> {
        let mut done = Done::default();
        let open = self.open_runs(tables)?;
        for (session_id, _, _) in &open {
            if let Some(mut session) = find_existing(tables, session_id)?
                && let Some(run) = open_run(tables, session.number)?
                && self.is_over(tables, &run)?
            {
                self.take_over(tables, &mut session, &run, &mut done)?;
                done.reply.runs.push(run.id);
            }
        }
        for writer in tables.all(sql::WRITERS, [], |row| text(row, 0))? {
            let is_idle = open.iter().all(|(_, _, busy)| *busy != writer);
            // A row is kept as long as its writer lives, so that its beats never begin again.
            if is_idle && writer != self.name && lease::is_gone(&self.shared.path, &writer) {
                tables.execute(sql::FORGET_WRITER, [writer])?;
            }
        }
        Ok(done)
    }

    /// Whether `recover` would end a run. Writes nothing.
    pub(super) fn has_lost_runs(&mut self, tables: Tables<'_>) -> Result<bool, StoreError> {
        for (_, run_id, writer) in self.open_runs(tables)? {
            if self.has_left(tables, &run_id, &writer)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The session, id and writer of each open run. Forgets writers that have none.
    fn open_runs(&mut self, tables: Tables<'_>) -> Result<Vec<(String, String, String)>, StoreError> {
        let open = tables.all(sql::OPEN_RUNS, [], |row| {
            Ok((text(row, 0)?, text(row, 1)?, text(row, 2)?))
        })?;
        let writers: Vec<&str> = open.iter().map(|(_, _, writer)| writer.as_str()).collect();
        self.observer.retain(&writers);
        Ok(open)
    }

    /// Whether nothing will continue an open run.
    fn is_over(&mut self, tables: Tables<'_>, run: &RunRow) -> Result<bool, StoreError> {
        self.has_left(tables, &run.id, &run.writer)
    }

    /// Whether the writer of an open run will not continue it.
    fn has_left(&mut self, tables: Tables<'_>, run_id: &str, writer: &str) -> Result<bool, StoreError> {
        if writer == self.name {
            return Ok(self.abandoned.contains(run_id));
        }
        let beat = tables.first(sql::BEAT, [writer], |row| number(row, 0))?;
        let now = self.options.clock.elapsed();
        // A writer without a row has not shown a beat yet, and may hold its lock.
        let stopped = self.observer.has_stopped(writer, beat.unwrap_or(-1), now);
        Ok(stopped || lease::is_gone(&self.shared.path, writer))
    }

    /// Fences the run's writer and ends the run.
    fn take_over(
        &self,
        tables: Tables<'_>,
        session: &mut SessionRow,
        run: &RunRow,
        done: &mut Done,
    ) -> Result<(), StoreError> {
        tables.execute(sql::TAKE_OVER, params![self.name, run.epoch + 1, run.number])?;
        let values = params![session.number, run.first_index, run.number];
        let events = tables.all(sql::EVENTS_OF_RUN, values, |row| read_event(row))?;
        if run.writer != self.name {
            // A power loss may have dropped pieces of text that were delivered with indices below it.
            session.next_index = session.ceiling;
        }
        let drafts = end_interrupted(&events, &*self.options.clock, &*self.options.ids);
        add(tables, session, Some(run.number), &drafts, done)?;
        end_run(tables, run.number, session, &drafts)?;
        done.closed.push(run.id.clone());
        Ok(())
    }

    /// Stores the answer to an approval, also of a run that another process owns. If that process is gone, its run is
    /// ended first: no process would act on the answer.
    fn resolve(&mut self, tables: Tables<'_>, answer: &ApprovalAnswer) -> Result<Done, StoreError> {
        let not_found = || StoreError::ApprovalNotFound {
            approval_id: answer.approval_id.clone(),
        };
        let approval = approvals::find(tables, &answer.approval_id)?.ok_or_else(not_found)?;
        let mut done = Done::default();
        let draft = match approval.resolve(answer, &*self.options.clock, &*self.options.ids)? {
            Answered::Before(stored) => {
                done.reply.events.push(stored);
                return Ok(done);
            }
            Answered::Now(draft) => draft,
        };
        let mut session = find_session(tables, approval.session_id())?.ok_or_else(not_found)?;
        let run = open_run(tables, session.number)?.filter(|run| run.id == approval.run_id());
        let run = run.ok_or_else(|| StoreError::RunNotOpen {
            run_id: approval.run_id().to_owned(),
        })?;
        if self.is_over(tables, &run)? {
            self.take_over(tables, &mut session, &run, &mut done)?;
            let closed = approvals::find(tables, &answer.approval_id)?.ok_or_else(not_found)?;
            done.reply = Reply::of(closed.closed(answer, &*self.options.clock, &*self.options.ids));
            return Ok(done);
        }
        done.reply.events = add(tables, &mut session, Some(run.number), &[*draft], &mut done)?;
        if let Some(scope) = done.reply.events.first().and_then(remembered) {
            approvals::remember(tables, &approval, &answer.approval_id, scope)?;
        }
        Ok(done)
    }

    fn delete(&mut self, tables: Tables<'_>, session_id: &str, force: bool) -> Result<Done, StoreError> {
        let not_found = || StoreError::SessionNotFound {
            session_id: session_id.to_owned(),
        };
        let session = find_existing(tables, session_id)?.ok_or_else(not_found)?;
        let open = open_run(tables, session.number)?;
        if let Some(run) = &open
            && !force
            && !self.is_over(tables, run)?
        {
            return Err(self.in_progress(tables, session_id, run)?);
        }
        clean::delete_session(tables, session.number)?;
        Ok(Done {
            closed: open.into_iter().map(|run| run.id).collect(),
            deleted: vec![session_id.to_owned()],
            cleaning: Some(Cleaning::Session(session.number)),
            ..Done::default()
        })
    }

    fn in_progress(
        &self,
        tables: Tables<'_>,
        session_id: &str,
        run: &RunRow,
    ) -> Result<StoreError, StoreError> {
        let mut process = None;
        if run.writer != self.name {
            let known = tables.first(sql::PROCESS, [&run.writer], |row| number(row, 0))?;
            process = known.and_then(|process| u32::try_from(process).ok());
        }
        Ok(StoreError::RunInProgress {
            session_id: session_id.to_owned(),
            process,
        })
    }
}

fn open_session(tables: Tables<'_>, first: &Draft, owner: Option<&str>) -> Result<Done, StoreError> {
    let session_id = session_of(&first.event.meta);
    if let Some(session) = find_session(tables, session_id)? {
        owner_of(session_id, session.owner.as_deref(), owner, true)?;
        return Ok(Done::default());
    }
    let mut session = create_session(tables, first, owner)?;
    let mut done = Done::default();
    let drafts = std::slice::from_ref(first);
    done.reply.events = add(tables, &mut session, None, drafts, &mut done)?;
    Ok(done)
}
