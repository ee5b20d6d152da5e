//! The copy of a session, in one transaction.

use rusqlite::{Transaction, params};

use super::{
    rows::{add, create_session, end_run, read_event, session_info, session_row},
    writer::State,
};
use crate::store::{
    StoreError,
    fork::{check_owner, fork},
    request::{Copy, Done},
};

impl State {
    pub(super) fn fork(&self, transaction: &Transaction<'_>, copy: &Copy) -> Result<Done, StoreError> {
        if session_row(transaction, &copy.session_id)?.is_some() {
            return Err(StoreError::SessionExists {
                session_id: copy.session_id.clone(),
            });
        }
        let origin = match session_row(transaction, &copy.from) {
            Ok(Some(origin)) => origin,
            Ok(None) | Err(StoreError::SessionDeleted { .. }) => {
                return Err(StoreError::SessionNotFound {
                    session_id: copy.from.clone(),
                });
            }
            Err(error) => return Err(error),
        };
        check_owner(&copy.from, origin.owner.as_deref(), copy.owner.as_deref())?;
        let events: Vec<_> = transaction
            .prepare_cached(
                "SELECT payload, event_index, class FROM events WHERE session = ? ORDER BY event_index",
            )?
            .query_map([origin.number], read_event)?
            .collect::<Result<Result<_, _>, _>>()??;
        let sources = (&*self.options.clock, &*self.options.ids);
        let fork = fork(&events, &copy.from, copy.after_index, &copy.session_id, sources)?;
        let mut done = Done::default();
        let mut session = create_session(transaction, &fork.start, copy.owner.as_deref())?;
        add(transaction, &mut session, None, &[fork.start], &mut done)?;
        for (run_id, drafts) in &fork.runs {
            transaction
                .prepare_cached(
                    "INSERT INTO runs (run_id, session, writer, epoch, first_index, pruned)
                     VALUES (?, ?, ?, 0, ?, 1)",
                )?
                .execute(params![run_id, session.number, self.name, session.next_index])?;
            let run = transaction.last_insert_rowid();
            add(transaction, &mut session, Some(run), drafts, &mut done)?;
            end_run(transaction, run, &session, drafts)?;
        }
        done.reply.session = session_info(transaction, &copy.session_id)?.map(Box::new);
        Ok(done)
    }
}
