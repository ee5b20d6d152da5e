//! A step of a deletion: few rows in a transaction of its own, which locks one session at most.

use holodeck_model::events::EventClass;

use super::{
    connection::{Db, Failure},
    rows::{lock_existing, open_run},
    statements as sql,
};
use crate::store::{
    columns::{class_code, number, text},
    request::{Cleaning, Done},
};

/// Marks a session as deleted: from now on it does not exist, and the rows that remain are deleted later.
pub(super) async fn delete_session(db: &Db, session: i64) -> Result<(), Failure> {
    db.execute(sql::DELETE_SESSION, &[&session]).await?;
    Ok(())
}

/// A session that is marked as deleted and of which rows remain.
pub(super) async fn leftovers(db: &Db) -> Result<Option<i64>, Failure> {
    let row = db.query_opt(sql::LEFTOVERS, &[]).await?;
    row.map(|row| number(&row, 0)).transpose()
}

/// Deletes up to `rows` rows; says what remains.
pub(super) async fn step(db: &Db, cleaning: Cleaning, rows: i64) -> Result<Done, Failure> {
    let mut done = Done::default();
    let is_over = match cleaning {
        Cleaning::Session(session) => empty(db, session, rows).await?,
        Cleaning::Leftovers | Cleaning::Old { .. } => match (leftovers(db).await?, cleaning) {
            (Some(session), _) => {
                empty(db, session, rows).await?;
                false
            }
            (None, Cleaning::Old { sessions, pieces }) => {
                if let Some(limit) = sessions {
                    done.deleted.extend(delete_oldest(db, limit).await?);
                }
                done.deleted.is_empty() && prune(db, pieces, rows, &mut done).await?
            }
            (None, _) => true,
        },
    };
    done.cleaning = (!is_over).then_some(cleaning);
    Ok(done)
}

/// Deletes up to `rows` rows of a session that is marked as deleted; returns whether none remains.
async fn empty(db: &Db, session: i64, rows: i64) -> Result<bool, Failure> {
    for statement in [sql::DELETE_EVENTS, sql::DELETE_APPROVALS, sql::DELETE_RUNS] {
        if db.execute(statement, &[&session, &rows]).await? >= rows.unsigned_abs() {
            return Ok(false);
        }
    }
    db.execute(sql::NO_LEFTOVERS, &[&session]).await?;
    Ok(true)
}

/// Marks the session with the oldest last event as deleted, if that is older; returns its id.
async fn delete_oldest(db: &Db, limit: i64) -> Result<Option<String>, Failure> {
    let Some(row) = db.query_opt(sql::OLD_SESSION, &[&limit]).await? else {
        return Ok(None);
    };
    let session_id = text(&row, 0)?;
    // Again: it may have continued before the lock was had.
    if let Some(session) = lock_existing(db, &session_id).await?
        && session.last_at < limit
        && open_run(db, session.number).await?.is_none()
    {
        delete_session(db, session.number).await?;
        return Ok(Some(session_id));
    }
    Ok(None)
}

/// Deletes pieces of text of runs that ended before; returns whether none remains.
async fn prune(db: &Db, limit: i64, rows: i64, done: &mut Done) -> Result<bool, Failure> {
    let class = class_code(EventClass::Journaled);
    let mut left = rows;
    while left > 0 {
        let Some(row) = db.query_opt(sql::UNPRUNED, &[&limit]).await? else {
            return Ok(true);
        };
        let (run, session) = (number(&row, 0)?, number(&row, 1)?);
        let (first, last) = (number(&row, 2)?, number(&row, 3)?);
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
            [&session, &first, &last, &class, &left];
        let pieces = db.execute(sql::PRUNE, &values).await?;
        done.reply.swept.pieces += usize::try_from(pieces).unwrap_or(usize::MAX);
        if pieces < left.unsigned_abs() {
            db.execute(sql::PRUNED, &[&run]).await?;
        }
        // A run is a row, too.
        left -= i64::try_from(pieces).unwrap_or(i64::MAX).saturating_add(1);
    }
    Ok(false)
}
