//! Applies requests to the tables, inside a transaction. The row of the session is locked first, and is the only one of
//! its kind that the transaction locks.

use holodeck_model::events::EventBody;

use super::{
    Shared, StoreError, approvals, clean,
    connection::{Db, Failure},
    lease,
    rows::{
        add, create_session, end_run, find_run, insert_run, lock_existing, lock_session, open_run,
        refuse_repeated, session_info,
    },
    statements as sql,
};
use crate::{
    Draft,
    store::{
        ApprovalAnswer, StoredEvent,
        approvals::{Answered, remembered},
        columns::{RunRow, SessionRow, number, read_event},
        fork::{check_owner, fork},
        interrupted::end_interrupted,
        owner_of,
        request::{Cleaning, Copy, Done, Reply, Request},
        run_of, session_of, single_run,
    },
};

/// The work of a transaction.
#[derive(Clone, Copy)]
pub(super) enum Work<'a> {
    Request(&'a Request),
    /// Ends the open run of a session if nothing continues it.
    EndOrphan(&'a str),
    /// Deletes up to this number of rows.
    Clean {
        cleaning: Cleaning,
        rows: i64,
    },
}

impl Shared {
    /// Does the work. Any error rolls the transaction back.
    pub(super) async fn execute(&self, db: &Db, work: Work<'_>) -> Result<Done, Failure> {
        match work {
            Work::EndOrphan(session_id) => self.end_orphan(db, session_id).await,
            Work::Clean { cleaning, rows } => clean::step(db, cleaning, rows).await,
            Work::Request(request) => match request {
                Request::OpenSession { first, owner } => open_session(db, first, owner.as_deref()).await,
                Request::OpenRun(first) => self.open_run(db, first).await,
                Request::Append(drafts) => self.append(db, drafts).await,
                Request::Abandon { session_id, run_id } => self.end_abandoned(db, session_id, run_id).await,
                Request::Forget { session_id, tool } => approvals::forget(db, session_id, tool).await,
                Request::Revoke(approved) => approvals::revoke(db, approved).await,
                Request::Fork(copy) => self.fork(db, copy).await,
                Request::Resolve(answer) => self.resolve(db, answer).await,
                Request::Delete { session_id, force } => self.delete(db, session_id, *force).await,
                // The keeper does the first two, a reader the third.
                Request::Recover | Request::Sweep(_) | Request::Check | Request::Wake | Request::Close => {
                    Ok(Done::default())
                }
            },
        }
    }

    async fn open_run(&self, db: &Db, first: &Draft) -> Result<Done, Failure> {
        let session_id = session_of(&first.event.meta);
        let run_id = run_of(&first.event.meta).to_owned();
        let EventBody::UserMessageConfirmed(message) = &first.event.body else {
            return Err(StoreError::RunNotOpen { run_id }.into());
        };
        let user = message.user_id.as_deref();
        let mut done = Done::default();
        let (mut session, mut open) = (self.lock_or_create(db, first, user).await?, None);
        let has_runs = session.next_sequence > 0;
        let owner = owner_of(session_id, session.owner.as_deref(), user, has_runs)?;
        if let Some(client_id) = &message.client_message_id {
            refuse_repeated(db, &session, client_id, message).await?;
        }
        if session.next_index > 0 {
            open = open_run(db, session.number).await?;
        }
        if let Some(run) = &open
            && !lease::is_over(self, db, run).await?
        {
            return Err(self.in_progress(db, session_id, run).await?.into());
        }
        if db.query_opt(sql::RUN_EXISTS, &[&run_id]).await?.is_some() {
            return Err(StoreError::RunExists { run_id }.into());
        }
        if let Some(run) = &open {
            self.take_over(db, &mut session, run, &mut done).await?;
        }
        db.execute(sql::SET_OWNER, &[&owner, &session.number]).await?;
        lease::beat(self, db).await?;
        let client_id = message.client_message_id.as_deref();
        let run = insert_run(db, &session, &run_id, &self.name, client_id, false).await?;
        let drafts = std::slice::from_ref(first);
        done.reply.events = add(db, &mut session, Some(run), drafts, &mut done).await?;
        done.opened = Some((run_id, 0));
        Ok(done)
    }

    async fn lock_or_create(
        &self,
        db: &Db,
        first: &Draft,
        user: Option<&str>,
    ) -> Result<SessionRow, Failure> {
        let session_id = session_of(&first.event.meta);
        if let Some(session) = lock_session(db, session_id).await? {
            return Ok(session);
        }
        // Another process may create it at the same time.
        if let Some(session) = create_session(db, first, user).await? {
            return Ok(session);
        }
        let session = lock_session(db, session_id).await?;
        Ok(session.ok_or_else(|| StoreError::SessionNotFound {
            session_id: session_id.to_owned(),
        })?)
    }

    async fn append(&self, db: &Db, drafts: &[Draft]) -> Result<Done, Failure> {
        let Some((session_id, run_id)) = single_run(drafts)? else {
            return Ok(Done::default());
        };
        let not_open = || StoreError::RunNotOpen {
            run_id: run_id.to_owned(),
        };
        let mut session = match lock_session(db, session_id).await {
            Ok(Some(session)) => session,
            Ok(None) | Err(Failure::Refused(StoreError::SessionDeleted { .. })) => {
                return Err(not_open().into());
            }
            Err(error) => return Err(error),
        };
        let run = find_run(db, session.number, run_id).await?.ok_or_else(not_open)?;
        let own = self.own().get(run_id).copied();
        if run.writer != self.name || (run.is_open && own.map(|own| own.epoch) != Some(run.epoch)) {
            return Err(StoreError::StaleOwner {
                run_id: run_id.to_owned(),
            }
            .into());
        }
        if !run.is_open {
            return Err(not_open().into());
        }
        skip_lost(&mut session, own.map_or(0, |own| own.next_index));
        let mut done = Done::default();
        done.reply.events = add(db, &mut session, Some(run.number), drafts, &mut done).await?;
        if drafts.iter().any(|draft| draft.event.body.is_terminal()) {
            end_run(db, run.number, &session, drafts).await?;
            done.closed.push(run_id.to_owned());
        }
        Ok(done)
    }

    async fn end_abandoned(&self, db: &Db, session_id: &str, run_id: &str) -> Result<Done, Failure> {
        let mut done = Done::default();
        let Some(mut session) = lock_existing(db, session_id).await? else {
            return Ok(done);
        };
        if let Some(run) = open_run(db, session.number).await?
            && run.id == run_id
            && run.writer == self.name
        {
            self.take_over(db, &mut session, &run, &mut done).await?;
        }
        Ok(done)
    }

    async fn end_orphan(&self, db: &Db, session_id: &str) -> Result<Done, Failure> {
        let mut done = Done::default();
        let Some(mut session) = lock_existing(db, session_id).await? else {
            return Ok(done);
        };
        if let Some(run) = open_run(db, session.number).await?
            && lease::is_over(self, db, &run).await?
        {
            self.take_over(db, &mut session, &run, &mut done).await?;
            done.reply.runs.push(run.id);
        }
        Ok(done)
    }

    /// Fences the run's writer and ends the run.
    async fn take_over(
        &self,
        db: &Db,
        session: &mut SessionRow,
        run: &RunRow,
        done: &mut Done,
    ) -> Result<(), Failure> {
        db.execute(sql::TAKE_OVER, &[&self.name, &(run.epoch + 1), &run.number])
            .await?;
        let events = db
            .query(
                sql::EVENTS_OF_RUN,
                &[&session.number, &run.first_index, &run.number],
            )
            .await?;
        let events: Vec<StoredEvent> = events.iter().map(read_event).collect::<Result<_, _>>()?;
        if run.writer != self.name {
            // A server that took over may have lost what was delivered with indices below it.
            session.next_index = session.ceiling;
        }
        let own = self.own().get(&run.id).copied();
        skip_lost(session, own.map_or(0, |own| own.next_index));
        let drafts = end_interrupted(&events, &*self.options.clock, &*self.options.ids);
        add(db, session, Some(run.number), &drafts, done).await?;
        end_run(db, run.number, session, &drafts).await?;
        done.closed.push(run.id.clone());
        Ok(())
    }

    /// Stores the answer to an approval, also of a run that another process owns. If that process is gone, its run is
    /// ended first: no process would act on the answer.
    async fn resolve(&self, db: &Db, answer: &ApprovalAnswer) -> Result<Done, Failure> {
        let not_found = || StoreError::ApprovalNotFound {
            approval_id: answer.approval_id.clone(),
        };
        let known = approvals::find(db, &answer.approval_id)
            .await?
            .ok_or_else(not_found)?;
        let mut session = lock_existing(db, known.session_id())
            .await?
            .ok_or_else(not_found)?;
        // Again: another process may have answered it before the lock was had.
        let approval = approvals::find(db, &answer.approval_id)
            .await?
            .ok_or_else(not_found)?;
        let mut done = Done::default();
        let draft = match approval.resolve(answer, &*self.options.clock, &*self.options.ids)? {
            Answered::Before(stored) => {
                done.reply.events.push(stored);
                return Ok(done);
            }
            Answered::Now(draft) => draft,
        };
        let run = find_run(db, session.number, approval.run_id()).await?;
        let run = run
            .filter(|run| run.is_open)
            .ok_or_else(|| StoreError::RunNotOpen {
                run_id: approval.run_id().to_owned(),
            })?;
        if lease::is_over(self, db, &run).await? {
            self.take_over(db, &mut session, &run, &mut done).await?;
            let closed = approvals::find(db, &answer.approval_id)
                .await?
                .ok_or_else(not_found)?;
            done.reply = Reply::of(closed.closed(answer, &*self.options.clock, &*self.options.ids));
            return Ok(done);
        }
        let own = self.own().get(&run.id).copied();
        skip_lost(&mut session, own.map_or(0, |own| own.next_index));
        done.reply.events = add(db, &mut session, Some(run.number), &[*draft], &mut done).await?;
        if let Some(scope) = done.reply.events.first().and_then(remembered) {
            approvals::remember(db, &approval, &answer.approval_id, scope).await?;
        }
        Ok(done)
    }

    async fn delete(&self, db: &Db, session_id: &str, force: bool) -> Result<Done, Failure> {
        let Some(session) = lock_existing(db, session_id).await? else {
            return Err(StoreError::SessionNotFound {
                session_id: session_id.to_owned(),
            }
            .into());
        };
        let open = open_run(db, session.number).await?;
        if let Some(run) = &open
            && !force
            && !lease::is_over(self, db, run).await?
        {
            return Err(self.in_progress(db, session_id, run).await?.into());
        }
        clean::delete_session(db, session.number).await?;
        Ok(Done {
            closed: open.into_iter().map(|run| run.id).collect(),
            deleted: vec![session_id.to_owned()],
            cleaning: Some(Cleaning::Session(session.number)),
            ..Done::default()
        })
    }

    async fn fork(&self, db: &Db, copy: &Copy) -> Result<Done, Failure> {
        let not_found = || StoreError::SessionNotFound {
            session_id: copy.from.clone(),
        };
        // A refusal of an id that was used before comes first, as in the other stores.
        if session_exists(db, &copy.session_id).await? {
            return Err(StoreError::SessionExists {
                session_id: copy.session_id.clone(),
            }
            .into());
        }
        let origin = lock_existing(db, &copy.from).await?.ok_or_else(not_found)?;
        check_owner(&copy.from, origin.owner.as_deref(), copy.owner.as_deref())?;
        let events = db.query(sql::EVENTS, &[&origin.number]).await?;
        let events: Vec<StoredEvent> = events.iter().map(read_event).collect::<Result<_, _>>()?;
        let sources = (&*self.options.clock, &*self.options.ids);
        let fork = fork(&events, &copy.from, copy.after_index, &copy.session_id, sources)?;
        let session = create_session(db, &fork.start, copy.owner.as_deref()).await?;
        let mut session = session.ok_or_else(|| StoreError::SessionExists {
            session_id: copy.session_id.clone(),
        })?;
        let mut done = Done::default();
        add(db, &mut session, None, &[fork.start], &mut done).await?;
        for (run_id, drafts) in &fork.runs {
            let run = insert_run(db, &session, run_id, &self.name, None, true).await?;
            add(db, &mut session, Some(run), drafts, &mut done).await?;
            end_run(db, run, &session, drafts).await?;
        }
        done.reply.session = session_info(db, &copy.session_id).await?.map(Box::new);
        Ok(done)
    }

    async fn in_progress(&self, db: &Db, session_id: &str, run: &RunRow) -> Result<StoreError, Failure> {
        let mut process = None;
        if run.writer != self.name
            && let Some(row) = db.query_opt(sql::PROCESS, &[&run.writer]).await?
        {
            process = u32::try_from(number(&row, 0)?).ok();
        }
        Ok(StoreError::RunInProgress {
            session_id: session_id.to_owned(),
            process,
        })
    }
}

/// Continues above every number that was delivered, also where a standby that took over lost the last commits.
fn skip_lost(session: &mut SessionRow, delivered: u64) {
    if session.is_restarted || session.next_index < delivered {
        session.next_index = session.next_index.max(session.ceiling).max(delivered);
    }
}

/// Whether a session exists. An error if it was deleted.
async fn session_exists(db: &Db, session_id: &str) -> Result<bool, Failure> {
    match db.query_opt(sql::SESSION_EXISTS, &[&session_id]).await? {
        Some(row) if row.try_get(0)? => Err(StoreError::SessionDeleted {
            session_id: session_id.to_owned(),
        }
        .into()),
        row => Ok(row.is_some()),
    }
}

async fn open_session(db: &Db, first: &Draft, owner: Option<&str>) -> Result<Done, Failure> {
    let session_id = session_of(&first.event.meta);
    let Some(mut session) = create_session(db, first, owner).await? else {
        if let Some(session) = lock_session(db, session_id).await? {
            owner_of(session_id, session.owner.as_deref(), owner, true)?;
        }
        return Ok(Done::default());
    };
    let mut done = Done::default();
    let drafts = std::slice::from_ref(first);
    done.reply.events = add(db, &mut session, None, drafts, &mut done).await?;
    Ok(done)
}
