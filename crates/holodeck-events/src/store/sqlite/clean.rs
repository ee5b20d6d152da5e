//! A step of a deletion: few rows, so that no writer waits for long.

use holodeck_model::events::EventClass;
use rusqlite::params;

use super::{query::Tables, statements as sql};
use crate::store::{
    StoreError,
    columns::{class_code, number, text},
    request::{Cleaning, Done},
};

/// Marks a session as deleted: from now on it does not exist, and the rows that remain are deleted later.
pub(super) fn delete_session(tables: Tables<'_>, session: i64) -> Result<(), StoreError> {
    tables.execute(sql::DELETE_SESSION, [session])?;
    Ok(())
}

/// A session that is marked as deleted and of which rows remain.
pub(super) fn leftovers(tables: Tables<'_>) -> Result<Option<i64>, StoreError> {
    tables.first(sql::LEFTOVERS, [], |row| number(row, 0))
}

/// Deletes up to `rows` rows; says what remains.
pub(super) fn step(tables: Tables<'_>, cleaning: Cleaning, rows: i64) -> Result<Done, StoreError> {
    let mut done = Done::default();
    let is_over = match cleaning {
        Cleaning::Session(session) => empty(tables, session, rows)?,
        Cleaning::Leftovers | Cleaning::Old { .. } => match (leftovers(tables)?, cleaning) {
            (Some(session), _) => {
                empty(tables, session, rows)?;
                false
            }
            (None, Cleaning::Old { sessions, pieces }) => {
                if let Some(limit) = sessions {
                    done.deleted = delete_old(tables, limit, rows)?;
                }
                done.deleted.is_empty() && prune(tables, pieces, rows, &mut done)?
            }
            (None, _) => true,
        },
    };
    done.cleaning = (!is_over).then_some(cleaning);
    Ok(done)
}

/// Deletes up to `rows` rows of a session that is marked as deleted; returns whether none remains.
fn empty(tables: Tables<'_>, session: i64, rows: i64) -> Result<bool, StoreError> {
    for statement in [sql::DELETE_EVENTS, sql::DELETE_APPROVALS, sql::DELETE_RUNS] {
        if tables.execute(statement, [session, rows])? >= count(rows) {
            return Ok(false);
        }
    }
    tables.execute(sql::NO_LEFTOVERS, [session])?;
    Ok(true)
}

/// Marks sessions as deleted whose last event is older; returns their ids.
fn delete_old(tables: Tables<'_>, limit: i64, rows: i64) -> Result<Vec<String>, StoreError> {
    let old = tables.all(sql::OLD_SESSIONS, [limit, rows], |row| {
        Ok((number(row, 0)?, text(row, 1)?))
    })?;
    let mut deleted = Vec::with_capacity(old.len());
    for (session, session_id) in old {
        delete_session(tables, session)?;
        deleted.push(session_id);
    }
    Ok(deleted)
}

/// Deletes pieces of text of runs that ended before; returns whether none remains.
fn prune(tables: Tables<'_>, limit: i64, rows: i64, done: &mut Done) -> Result<bool, StoreError> {
    let class = class_code(EventClass::Journaled);
    let mut left = rows;
    while left > 0 {
        let run = tables.first(sql::UNPRUNED, [limit], |row| {
            Ok((number(row, 0)?, number(row, 1)?, number(row, 2)?, number(row, 3)?))
        })?;
        let Some((run, session, first, last)) = run else {
            return Ok(true);
        };
        let pieces = tables.execute(sql::PRUNE, params![session, first, last, class, left])?;
        done.reply.swept.pieces += pieces;
        if pieces < count(left) {
            tables.execute(sql::PRUNED, [run])?;
        }
        // A run is a row, too.
        left -= i64::try_from(pieces).unwrap_or(i64::MAX).saturating_add(1);
    }
    Ok(false)
}

fn count(rows: i64) -> usize {
    usize::try_from(rows).unwrap_or(usize::MAX)
}
