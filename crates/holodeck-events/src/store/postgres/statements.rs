//! Every statement that the store in a database executes, but for the tables themselves, the settings of a connection and
//! the limits of a transaction.

use crate::store::statement::statements;

/// The columns of a list of sessions; conditions follow.
macro_rules! session_info {
    ($rest:literal) => {
        concat!(
            "SELECT session_id, owner, next_index, run_id, agent,
                 (SELECT payload FROM holodeck_events AS said WHERE said.session = sessions.number
                  AND type = 'user_message_confirmed' ORDER BY event_index LIMIT 1),
                 sessions.runs, messages, created_at, last_at
             FROM holodeck_sessions AS sessions
             LEFT JOIN holodeck_runs AS open ON open.session = sessions.number AND last_index IS NULL
             WHERE NOT deleted ",
            $rest
        )
    };
}

/// The columns of an approval; conditions follow.
macro_rules! approval {
    ($rest:literal) => {
        concat!(
            "SELECT owner, agent, asked.payload, asked.event_index, answer.payload, answer.event_index
             FROM holodeck_approvals AS approvals
             JOIN holodeck_sessions AS sessions ON sessions.number = approvals.session
             JOIN holodeck_events AS asked
                 ON asked.session = approvals.session AND asked.event_index = requested_index
             LEFT JOIN holodeck_events AS answer
                 ON answer.session = approvals.session AND answer.event_index = resolved_index
             WHERE NOT deleted ",
            $rest
        )
    };
}

/// The columns of a run; conditions follow.
macro_rules! run {
    ($rest:literal) => {
        concat!(
            "SELECT number, run_id, writer, epoch, first_index, last_index IS NULL FROM holodeck_runs ",
            $rest
        )
    };
}

/// The start of the server, as a number.
macro_rules! server {
    () => {
        "(extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint"
    };
}

statements! {
    LOCK_TABLES = "SELECT pg_advisory_xact_lock($1)";
    HAS_VERSION = "SELECT to_regclass(quote_ident(current_schema()) || '.holodeck_version') IS NOT NULL
        WHERE current_schema() IS NOT NULL";
    VERSION = "SELECT max(version) FROM holodeck_version";
    SET_VERSION = "INSERT INTO holodeck_version VALUES ($1)";
    SCHEMA = "SELECT current_schema()::regnamespace::oid::bigint";
    NOTIFY = "SELECT pg_notify($1, $2)";

    /// Locks it until the end of the transaction.
    SESSION = concat!(
        "SELECT number, owner, next_index, next_sequence, ceiling, last_at, server <> ", server!(), ", deleted
         FROM holodeck_sessions WHERE session_id = $1 FOR UPDATE"
    );
    SESSION_EXISTS = "SELECT deleted FROM holodeck_sessions WHERE session_id = $1";
    /// Whether another user's session has or had the id.
    TAKEN = "SELECT owner IS DISTINCT FROM $2 FROM holodeck_sessions WHERE session_id = $1";
    SESSION_INFO = session_info!("AND session_id = $1");
    SESSIONS = session_info!(
        "AND last_at <= $1 AND (last_at < $1 OR session_id > $2) ORDER BY last_at DESC, session_id LIMIT $3"
    );
    SESSIONS_OF = session_info!(
        "AND owner = $4 AND last_at <= $1 AND (last_at < $1 OR session_id > $2)
         ORDER BY last_at DESC, session_id LIMIT $3"
    );
    INSERT_SESSION = concat!(
        "INSERT INTO holodeck_sessions (session_id, owner, agent, created_at, last_at, server)
         VALUES ($1, $2, $3, $4, $4, ", server!(), ") ON CONFLICT (session_id) DO NOTHING RETURNING number"
    );
    SET_OWNER = "UPDATE holodeck_sessions SET owner = $1 WHERE number = $2";
    NUMBER_EVENTS = concat!(
        "UPDATE holodeck_sessions SET next_index = $1, ceiling = $2, next_sequence = $3, last_at = $4,
             runs = runs + $5, messages = messages + $6, server = ", server!(), " WHERE number = $7"
    );
    /// Without the columns of an index.
    NUMBER_PIECES = concat!(
        "UPDATE holodeck_sessions SET next_index = $1, ceiling = $2, server = ", server!(), " WHERE number = $3"
    );

    RUN = run!("WHERE run_id = $1 AND session = $2");
    RUN_INFO = "SELECT session_id, owner, first_index, last_index, NULL::bigint FROM holodeck_runs AS runs
        JOIN holodeck_sessions AS sessions ON sessions.number = session
        WHERE run_id = $1 AND NOT deleted";
    RUN_EXISTS = "SELECT 1 FROM holodeck_runs WHERE run_id = $1";
    OPEN_RUN = run!("WHERE session = $1 AND last_index IS NULL");
    INSERT_RUN = "INSERT INTO holodeck_runs
            (run_id, session, writer, epoch, client_message_id, first_index, pruned)
        VALUES ($1, $2, $3, 0, $4, $5, $6) RETURNING number";
    TAKE_OVER = "UPDATE holodeck_runs SET writer = $1, epoch = $2 WHERE number = $3";
    END_RUN = "UPDATE holodeck_runs SET last_index = $1, ended_at = $2 WHERE number = $3";
    SENT_BEFORE = "SELECT run_id, payload FROM holodeck_runs AS runs
        JOIN holodeck_events AS events ON events.session = runs.session AND event_index = first_index
        WHERE runs.session = $1 AND client_message_id = $2";
    /// The sessions of open runs that no process continues: those of other writers that are gone, and these own ones.
    LOST_RUNS = concat!(
        "SELECT session_id FROM holodeck_runs AS runs
         JOIN holodeck_sessions AS sessions ON sessions.number = runs.session
         LEFT JOIN holodeck_writers AS writers ON writers.writer = runs.writer
         WHERE last_index IS NULL AND NOT deleted AND (
             runs.writer = $1 AND run_id = ANY($2)
             OR runs.writer <> $1 AND (
                 writers.writer IS NULL OR expires_at < clock_timestamp()
                 OR writers.server = ", server!(), " AND NOT EXISTS (
                     SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1
                     AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
                     AND classid::bigint = lock_key >> 32 & 4294967295
                     AND objid::bigint = lock_key & 4294967295)))
         ORDER BY runs.number"
    );

    /// Inserts events in one statement.
    INSERT_EVENTS = "INSERT INTO holodeck_events
            (session, run, event_index, sequence_number, event_id, tool_use_id, class, type, payload)
        SELECT $1, $2, * FROM unnest(
            $3::bigint[], $4::bigint[], $5::bytea[], $6::text[], $7::smallint[], $8::text[], $9::text[])";
    /// The server ends it where its bytes are too many.
    PAGE = "SELECT payload, event_index, class FROM (
            SELECT payload, event_index, class::bigint,
                sum(octet_length(payload)) OVER place AS bytes, row_number() OVER place AS nth
            FROM (SELECT payload, event_index, class FROM holodeck_events
                WHERE session = (SELECT number FROM holodeck_sessions WHERE session_id = $1 AND NOT deleted)
                    AND event_index >= $2
                ORDER BY event_index LIMIT $3) AS later
            WINDOW place AS (ORDER BY event_index)) AS page
        WHERE bytes <= $4::bigint OR nth = 1 ORDER BY event_index";
    EVENTS = "SELECT payload, event_index, class::bigint FROM holodeck_events
        WHERE session = $1 ORDER BY event_index";
    EVENTS_OF_RUN = "SELECT payload, event_index, class::bigint FROM holodeck_events
        WHERE session = $1 AND event_index >= $2 AND run = $3 ORDER BY event_index";

    TAKE_LOCK = "SELECT pg_advisory_lock($1)";
    TRY_LOCK = "SELECT pg_try_advisory_xact_lock($1)";
    BEGIN_LEASE = concat!(
        "INSERT INTO holodeck_writers (writer, process, lock_key, server, expires_at)
         VALUES ($1, $2, $3, ", server!(), ", clock_timestamp() + make_interval(secs => $4))
         ON CONFLICT (writer) DO UPDATE SET lock_key = excluded.lock_key, server = excluded.server,
             expires_at = excluded.expires_at"
    );
    BEAT = concat!(
        "INSERT INTO holodeck_writers (writer, process, lock_key, server, expires_at)
         VALUES ($1, $2, $3, ", server!(), ", clock_timestamp() + make_interval(secs => $4))
         ON CONFLICT (writer) DO UPDATE SET expires_at = excluded.expires_at"
    );
    LEASE = concat!(
        "SELECT lock_key, expires_at < clock_timestamp(), server = ", server!(),
        " FROM holodeck_writers WHERE writer = $1"
    );
    PROCESS = "SELECT process FROM holodeck_writers WHERE writer = $1";
    LEAVE = "DELETE FROM holodeck_writers WHERE writer = $1 AND NOT EXISTS (
        SELECT 1 FROM holodeck_runs AS runs WHERE runs.writer = $1 AND last_index IS NULL)";
    END_LEASE = "UPDATE holodeck_writers SET expires_at = '-infinity' WHERE writer = $1";
    FORGET_WRITERS = "DELETE FROM holodeck_writers AS writers WHERE writer <> $1 AND expires_at < clock_timestamp()
        AND NOT EXISTS (
            SELECT 1 FROM holodeck_runs AS runs WHERE runs.writer = writers.writer AND last_index IS NULL)";

    APPROVAL = approval!("AND approval_id = $1");
    PENDING = approval!(
        "AND resolved_index IS NULL AND ($1::text IS NULL OR owner = $1)
         ORDER BY approvals.session, requested_index"
    );
    PENDING_OF = approval!(
        "AND resolved_index IS NULL AND ($1::text IS NULL OR owner = $1) AND session_id = $2
         ORDER BY approvals.session, requested_index"
    );
    ANSWER = "SELECT payload, event_index FROM holodeck_approvals AS approvals
        JOIN holodeck_events AS events ON events.session = approvals.session AND event_index = resolved_index
        WHERE approval_id = $1 AND approvals.session = $2";
    INSERT_APPROVAL = "INSERT INTO holodeck_approvals (requested_index, session, approval_id) VALUES ($1, $2, $3)";
    RESOLVE_APPROVAL = "UPDATE holodeck_approvals SET resolved_index = $1
        WHERE session = $2 AND approval_id = $3 AND resolved_index IS NULL";
    APPROVE_TOOL = "UPDATE holodeck_approvals SET approved_tool = $1 WHERE approval_id = $2";
    APPROVE_ALWAYS = "INSERT INTO holodeck_always_approved (owner, agent, tool)
        SELECT $1::text, $2::text, $3::text WHERE NOT EXISTS (
            SELECT 1 FROM holodeck_always_approved WHERE agent = $2 AND coalesce(owner, '') = coalesce($1, '')
            AND owner IS NOT DISTINCT FROM $1 AND tool = $3)";
    APPROVED_TOOLS = "SELECT approved_tool FROM holodeck_approvals JOIN holodeck_sessions ON number = session
        WHERE session_id = $1 AND NOT deleted AND approved_tool IS NOT NULL
        UNION
        SELECT tool FROM holodeck_always_approved AS always JOIN holodeck_sessions AS sessions
            ON always.agent = sessions.agent AND coalesce(always.owner, '') = coalesce(sessions.owner, '')
            AND always.owner IS NOT DISTINCT FROM sessions.owner
        WHERE session_id = $1 AND NOT deleted
        ORDER BY 1";
    ALWAYS_APPROVED = "SELECT owner, agent, tool FROM holodeck_always_approved
        WHERE agent = $1 AND ($2::text IS NULL OR owner = $2) ORDER BY owner COLLATE \"C\" NULLS FIRST, tool";
    REVOKE_ALWAYS = "DELETE FROM holodeck_always_approved WHERE agent = $2 AND coalesce(owner, '') = coalesce($1::text, '')
        AND owner IS NOT DISTINCT FROM $1 AND tool = $3";
    REVOKE_IN_SESSIONS = "UPDATE holodeck_approvals SET approved_tool = NULL WHERE approved_tool = $3 AND session IN (
        SELECT number FROM holodeck_sessions WHERE owner = $1 AND agent = $2 AND NOT deleted)";
    REVOKE_IN_UNOWNED = "UPDATE holodeck_approvals SET approved_tool = NULL WHERE approved_tool = $2 AND session IN (
        SELECT number FROM holodeck_sessions WHERE owner IS NULL AND agent = $1 AND NOT deleted)";
    FORGET_TOOL = "UPDATE holodeck_approvals SET approved_tool = NULL
        WHERE session = (SELECT number FROM holodeck_sessions WHERE session_id = $1) AND approved_tool = $2";
    FORGET_ALWAYS = "DELETE FROM holodeck_always_approved AS always USING holodeck_sessions AS sessions
        WHERE session_id = $1 AND always.agent = sessions.agent
        AND coalesce(always.owner, '') = coalesce(sessions.owner, '')
        AND always.owner IS NOT DISTINCT FROM sessions.owner AND tool = $2";

    DELETE_SESSION = "UPDATE holodeck_sessions SET deleted = true, leftovers = true, agent = NULL
        WHERE number = $1";
    LEFTOVERS = "SELECT number FROM holodeck_sessions WHERE leftovers LIMIT 1";
    DELETE_EVENTS = "DELETE FROM holodeck_events WHERE session = $1 AND event_index = ANY(ARRAY(
        SELECT event_index FROM holodeck_events WHERE session = $1 ORDER BY event_index LIMIT $2))";
    DELETE_APPROVALS = "DELETE FROM holodeck_approvals WHERE approval_id = ANY(ARRAY(
        SELECT approval_id FROM holodeck_approvals WHERE session = $1 LIMIT $2))";
    DELETE_RUNS = "DELETE FROM holodeck_runs WHERE number = ANY(ARRAY(
        SELECT number FROM holodeck_runs WHERE session = $1 LIMIT $2))";
    NO_LEFTOVERS = "UPDATE holodeck_sessions SET leftovers = false WHERE number = $1";
    /// The oldest one.
    OLD_SESSION = "SELECT session_id FROM holodeck_sessions AS sessions
        WHERE NOT deleted AND last_at < $1 AND NOT EXISTS (
            SELECT 1 FROM holodeck_runs WHERE session = sessions.number AND last_index IS NULL)
        ORDER BY last_at LIMIT 1";
    UNPRUNED = "SELECT number, session, first_index, last_index FROM holodeck_runs
        WHERE NOT pruned AND last_index IS NOT NULL AND ended_at < $1 ORDER BY ended_at LIMIT 1";
    PRUNE = "DELETE FROM holodeck_events WHERE session = $1 AND event_index = ANY(ARRAY(
        SELECT event_index FROM holodeck_events
        WHERE session = $1 AND event_index BETWEEN $2 AND $3 AND class = $4 ORDER BY event_index LIMIT $5))";
    PRUNED = "UPDATE holodeck_runs SET pruned = true WHERE number = $1";
}
