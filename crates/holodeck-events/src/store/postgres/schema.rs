//! Creates the tables of the store and migrates older ones. Migrations are only ever appended.

use super::{
    StoreError,
    connection::{Db, Failure, Target},
    statements as sql,
};

/// Guards the creation of the tables: two processes may open the store at once.
const LOCK: i64 = 0x4844_6576;

/// Migrations from each version of the tables to the next. Only ever append.
const MIGRATIONS: &[&str] = &[
    "
    -- A deleted session keeps its row with its owner, so that its id and numbers are never used again.
    CREATE TABLE holodeck_sessions (
        number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        session_id TEXT COLLATE \"C\" NOT NULL UNIQUE,
        owner TEXT,
        agent TEXT,
        -- The numbers of the next event: they are taken inside the transaction that stores it, never from a sequence.
        next_index BIGINT NOT NULL DEFAULT 0,
        next_sequence BIGINT NOT NULL DEFAULT 0,
        -- Every index that was ever delivered is below it, also where a server that takes over lost the last commits.
        ceiling BIGINT NOT NULL DEFAULT 0,
        -- The start of the server that last gave a number.
        server BIGINT NOT NULL,
        runs BIGINT NOT NULL DEFAULT 0,
        messages BIGINT NOT NULL DEFAULT 0,
        created_at BIGINT NOT NULL,
        last_at BIGINT NOT NULL DEFAULT 0,
        deleted BOOLEAN NOT NULL DEFAULT false
    );
    CREATE INDEX holodeck_latest ON holodeck_sessions (last_at DESC, session_id) WHERE NOT deleted;
    CREATE TABLE holodeck_runs (
        number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        run_id TEXT COLLATE \"C\" NOT NULL UNIQUE,
        session BIGINT NOT NULL REFERENCES holodeck_sessions (number),
        writer TEXT NOT NULL,
        epoch BIGINT NOT NULL,
        client_message_id TEXT,
        first_index BIGINT NOT NULL,
        last_index BIGINT,
        ended_at BIGINT,
        pruned BOOLEAN NOT NULL DEFAULT false
    );
    CREATE UNIQUE INDEX holodeck_open_runs ON holodeck_runs (session) WHERE last_index IS NULL;
    CREATE UNIQUE INDEX holodeck_sent ON holodeck_runs (session, client_message_id)
        WHERE client_message_id IS NOT NULL;
    CREATE INDEX holodeck_unpruned ON holodeck_runs (ended_at) WHERE NOT pruned;
    CREATE TABLE holodeck_events (
        session BIGINT NOT NULL REFERENCES holodeck_sessions (number),
        event_index BIGINT NOT NULL,
        sequence_number BIGINT,
        event_id BYTEA NOT NULL UNIQUE,
        run BIGINT REFERENCES holodeck_runs (number),
        tool_use_id TEXT,
        class SMALLINT NOT NULL,
        type TEXT NOT NULL,
        payload TEXT NOT NULL,
        PRIMARY KEY (session, event_index)
    );
    CREATE UNIQUE INDEX holodeck_content ON holodeck_events (session, sequence_number)
        WHERE sequence_number IS NOT NULL;
    CREATE UNIQUE INDEX holodeck_tools ON holodeck_events (run, tool_use_id, type) WHERE tool_use_id IS NOT NULL;
    CREATE INDEX holodeck_said ON holodeck_events (session, event_index) WHERE type = 'user_message_confirmed';
    CREATE TABLE holodeck_approvals (
        approval_id TEXT COLLATE \"C\" PRIMARY KEY,
        session BIGINT NOT NULL REFERENCES holodeck_sessions (number),
        requested_index BIGINT NOT NULL,
        -- The event that resolved it; NULL while it is pending.
        resolved_index BIGINT,
        -- The tool, if the answer approves it for the rest of the session.
        approved_tool TEXT COLLATE \"C\"
    );
    CREATE INDEX holodeck_approvals_of ON holodeck_approvals (session);
    CREATE INDEX holodeck_pending ON holodeck_approvals (session) WHERE resolved_index IS NULL;
    -- Tools that an owner approved for all sessions with an agent. They do not belong to a session.
    CREATE TABLE holodeck_always_approved (
        owner TEXT,
        agent TEXT NOT NULL,
        tool TEXT COLLATE \"C\" NOT NULL
    );
    CREATE INDEX holodeck_always ON holodeck_always_approved (agent, tool);
    -- A writer lives until `expires_at`, by the server's clock, as long as it holds the advisory lock `lock_key` or the
    -- server, whose end takes all locks, has started since it took this one.
    CREATE TABLE holodeck_writers (
        writer TEXT PRIMARY KEY,
        process BIGINT NOT NULL,
        lock_key BIGINT NOT NULL,
        server BIGINT NOT NULL,
        expires_at TIMESTAMPTZ NOT NULL
    );
",
    "
    -- No query reads a whole table, however much was ever stored; the references between tables do not, either. Others
    -- can read meanwhile, but not write.
    LOCK TABLE holodeck_sessions, holodeck_runs, holodeck_events, holodeck_approvals IN SHARE MODE;
    CREATE INDEX holodeck_latest_of ON holodeck_sessions (owner, last_at DESC, session_id) WHERE NOT deleted;
    CREATE INDEX holodeck_runs_of ON holodeck_runs (session);
    CREATE INDEX holodeck_running ON holodeck_runs (writer) WHERE last_index IS NULL;
    CREATE INDEX holodeck_events_of ON holodeck_events (run);
    CREATE INDEX holodeck_approved ON holodeck_approvals (session) WHERE approved_tool IS NOT NULL;
    DROP INDEX holodeck_always;
    CREATE INDEX holodeck_always ON holodeck_always_approved (agent, (coalesce(owner, '')), tool);
    -- The session is deleted, and rows of it remain.
    ALTER TABLE holodeck_sessions ADD COLUMN leftovers BOOLEAN NOT NULL DEFAULT false;
    CREATE INDEX holodeck_leftovers ON holodeck_sessions (number) WHERE leftovers;
",
];

/// How often the tables are tried to be created: who writes meanwhile may be in the way.
const TRIES: usize = 5;

/// Creates the tables of this version, or checks that they are. Returns a connection.
pub(super) async fn prepare(target: &Target) -> Result<Db, Failure> {
    let mut tries = 1;
    loop {
        let db = target.connect().await?;
        match prepare_once(&db, target).await {
            Err(failure) if failure.is_passing() && tries < TRIES => tries += 1,
            Err(failure) => return Err(failure),
            Ok(()) => return Ok(db),
        }
    }
}

async fn prepare_once(db: &Db, target: &Target) -> Result<(), Failure> {
    db.run("BEGIN").await?;
    db.execute(sql::LOCK_TABLES, &[&LOCK]).await?;
    let row = db.query_opt(sql::HAS_VERSION, &[]).await?;
    let Some(row) = row else {
        return Err(StoreError::failed(format_args!(
            "PostgreSQL {}: the search_path names no schema that exists",
            target.place()
        ))
        .into());
    };
    let mut version = 0;
    if row.try_get(0)? {
        let row = db.query_opt(sql::VERSION, &[]).await?;
        version = match row {
            Some(row) => row.try_get::<_, Option<i64>>(0)?.unwrap_or(0),
            None => 0,
        };
    } else {
        db.run("CREATE TABLE holodeck_version (version BIGINT NOT NULL)")
            .await?;
    }
    let known = usize::try_from(version)
        .ok()
        .filter(|version| *version <= MIGRATIONS.len());
    let Some(known) = known else {
        return Err(StoreError::Newer {
            path: format!("PostgreSQL {}", target.place()),
        }
        .into());
    };
    for (migration, next) in MIGRATIONS.iter().zip(1_i64..).skip(known) {
        db.run(migration).await?;
        db.run("DELETE FROM holodeck_version").await?;
        db.execute(sql::SET_VERSION, &[&next]).await?;
    }
    db.run("COMMIT").await
}
