//! The copy of a session, in one transaction.

use super::{
    query::Tables,
    rows::{add, create_session, end_run, find_existing, find_session, insert_run, session_info},
    statements as sql,
    writer::State,
};
use crate::store::{
    StoreError,
    columns::read_event,
    fork::{check_owner, fork},
    request::{Copy, Done},
};

impl State {
    pub(super) fn fork(&self, tables: Tables<'_>, copy: &Copy) -> Result<Done, StoreError> {
        // A refusal of an id that was used before comes first, as in the other stores.
        if find_session(tables, &copy.session_id)?.is_some() {
            return Err(StoreError::SessionExists {
                session_id: copy.session_id.clone(),
            });
        }
        let not_found = || StoreError::SessionNotFound {
            session_id: copy.from.clone(),
        };
        let origin = find_existing(tables, &copy.from)?.ok_or_else(not_found)?;
        check_owner(&copy.from, origin.owner.as_deref(), copy.owner.as_deref())?;
        let events = tables.all(sql::EVENTS, [origin.number], |row| read_event(row))?;
        let sources = (&*self.options.clock, &*self.options.ids);
        let fork = fork(&events, &copy.from, copy.after_index, &copy.session_id, sources)?;
        let mut done = Done::default();
        let mut session = create_session(tables, &fork.start, copy.owner.as_deref())?;
        add(tables, &mut session, None, &[fork.start], &mut done)?;
        for (run_id, drafts) in &fork.runs {
            let run = insert_run(tables, &session, run_id, &self.name, None, true)?;
            add(tables, &mut session, Some(run), drafts, &mut done)?;
            end_run(tables, run, &session, drafts)?;
        }
        done.reply.session = session_info(tables, &copy.session_id)?.map(Box::new);
        Ok(done)
    }
}
