//! Every statement that the store in a file executes, but for the tables themselves and the settings of a connection.

use crate::store::statement::statements;

/// The columns of a list of sessions; conditions follow.
macro_rules! session_info {
    ($rest:literal) => {
        concat!(
            "SELECT session_id, owner, next_index, run_id, agent,
                 (SELECT payload FROM events WHERE events.session = sessions.number
                  AND type = 'user_message_confirmed' ORDER BY event_index LIMIT 1),
                 sessions.runs, messages, created_at, last_at
             FROM sessions LEFT JOIN runs ON runs.session = sessions.number AND last_index IS NULL
             WHERE deleted = 0 ",
            $rest
        )
    };
}

/// The columns of an approval; conditions follow.
macro_rules! approval {
    ($rest:literal) => {
        concat!(
            "SELECT owner, agent, asked.payload, asked.event_index, answer.payload, answer.event_index
             FROM approvals
             JOIN sessions ON sessions.number = approvals.session
             JOIN events AS asked ON asked.session = approvals.session AND asked.event_index = requested_index
             LEFT JOIN events AS answer
                 ON answer.session = approvals.session AND answer.event_index = resolved_index
             WHERE deleted = 0 ",
            $rest
        )
    };
}

statements! {
    SESSION = "SELECT number, owner, next_index, next_sequence, ceiling, last_at, 0, deleted
        FROM sessions WHERE session_id = ?";
    /// Whether another user's session has or had the id.
    TAKEN = "SELECT owner IS NOT ?2 FROM sessions WHERE session_id = ?1";
    SESSION_INFO = session_info!("AND session_id = ?");
    SESSIONS = session_info!(
        "AND last_at <= ?1 AND (last_at < ?1 OR session_id > ?2) ORDER BY last_at DESC, session_id LIMIT ?3"
    );
    SESSIONS_OF = session_info!(
        "AND owner = ?4 AND last_at <= ?1 AND (last_at < ?1 OR session_id > ?2)
         ORDER BY last_at DESC, session_id LIMIT ?3"
    );
    /// In its place among the latest ones: in any other, its first event would move it there, over two more pages.
    INSERT_SESSION = "INSERT INTO sessions
            (session_id, owner, agent, created_at, next_index, next_sequence, ceiling, last_at)
        VALUES (?1, ?2, ?3, ?4, 0, 0, 0, ?4)";
    SET_OWNER = "UPDATE sessions SET owner = ? WHERE number = ?";
    NUMBER_EVENTS = "UPDATE sessions SET next_index = ?, ceiling = ?, next_sequence = ?, last_at = ?,
            runs = runs + ?, messages = messages + ? WHERE number = ?";
    /// Without the columns of an index.
    NUMBER_PIECES = "UPDATE sessions SET next_index = ?, ceiling = ? WHERE number = ?";

    RUN = "SELECT sessions.number, owner, next_index, next_sequence, ceiling, last_at, 0, deleted,
            runs.number, run_id, writer, epoch, first_index, last_index IS NULL
        FROM runs JOIN sessions ON sessions.number = session
        WHERE run_id = ? AND session_id = ? AND deleted = 0";
    /// The writer of a run that is open.
    WRITER_OF = "SELECT writer FROM runs WHERE run_id = ? AND last_index IS NULL";
    RUN_INFO = "SELECT session_id, owner, first_index, last_index,
            CASE WHEN last_index IS NULL
            THEN (SELECT process FROM writers WHERE writers.writer = runs.writer) END
        FROM runs JOIN sessions ON sessions.number = session
        WHERE run_id = ? AND deleted = 0";
    RUN_EXISTS = "SELECT 1 FROM runs WHERE run_id = ?";
    OPEN_RUN = "SELECT number, run_id, writer, epoch, first_index, 1
        FROM runs WHERE session = ? AND last_index IS NULL";
    /// Of sessions that exist. `CROSS JOIN` reads the runs first.
    OPEN_RUNS = "SELECT session_id, run_id, writer FROM runs CROSS JOIN sessions ON sessions.number = session
        WHERE last_index IS NULL AND deleted = 0";
    INSERT_RUN = "INSERT INTO runs (run_id, session, writer, epoch, client_message_id, first_index, pruned)
        VALUES (?, ?, ?, 0, ?, ?, ?)";
    TAKE_OVER = "UPDATE runs SET writer = ?, epoch = ? WHERE number = ?";
    END_RUN = "UPDATE runs SET last_index = ?, ended_at = ? WHERE number = ?";
    SENT_BEFORE = "SELECT run_id, payload FROM runs
        JOIN events ON events.session = runs.session AND event_index = first_index
        WHERE runs.session = ? AND client_message_id = ?";

    INSERT_EVENT = "INSERT INTO events
            (session, event_index, sequence_number, event_id, run, tool_use_id, class, type, payload)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
    PAGE = "SELECT payload, event_index, class FROM events
        WHERE session = (SELECT number FROM sessions WHERE session_id = ?1 AND deleted = 0) AND event_index >= ?2
        ORDER BY event_index LIMIT ?3";
    EVENTS = "SELECT payload, event_index, class FROM events WHERE session = ? ORDER BY event_index";
    EVENTS_OF_RUN = "SELECT payload, event_index, class FROM events
        WHERE session = ? AND event_index >= ? AND run = ? ORDER BY event_index";

    WRITERS = "SELECT writer FROM writers";
    PROCESS = "SELECT process FROM writers WHERE writer = ?";
    BEAT = "SELECT beat FROM writers WHERE writer = ?";
    /// A run begins with a beat: an observer must not count the time in which its writer had no run.
    BEGIN_BEAT = "INSERT INTO writers (writer, process, beat) VALUES (?, ?, 0)
        ON CONFLICT DO UPDATE SET beat = beat + 1";
    NEED_SPACE = "INSERT INTO writers (writer, process, beat) VALUES (hex(zeroblob(8192)), 0, 0)";
    FREE_SPACE = "DELETE FROM writers WHERE writer = hex(zeroblob(8192))";
    COUNT_BEAT = "UPDATE writers SET beat = beat + 1 WHERE writer = ?";
    LEAVE = "DELETE FROM writers WHERE writer = ?1
        AND NOT EXISTS (SELECT 1 FROM runs WHERE writer = ?1 AND last_index IS NULL)";
    FORGET_WRITER = "DELETE FROM writers WHERE writer = ?";

    APPROVAL = approval!("AND approval_id = ?");
    PENDING = approval!("AND resolved_index IS NULL AND (?1 IS NULL OR owner = ?1)");
    PENDING_OF = approval!("AND resolved_index IS NULL AND (?1 IS NULL OR owner = ?1) AND session_id = ?2");
    ANSWER = "SELECT payload, event_index FROM approvals
        JOIN events ON events.session = approvals.session AND event_index = resolved_index
        WHERE approval_id = ? AND approvals.session = ?";
    INSERT_APPROVAL = "INSERT INTO approvals (requested_index, session, approval_id) VALUES (?, ?, ?)";
    RESOLVE_APPROVAL = "UPDATE approvals SET resolved_index = ?
        WHERE session = ? AND approval_id = ? AND resolved_index IS NULL";
    APPROVE_TOOL = "UPDATE approvals SET approved_tool = ? WHERE approval_id = ?";
    APPROVE_ALWAYS = "INSERT INTO always_approved (owner, agent, tool) SELECT ?1, ?2, ?3 WHERE NOT EXISTS (
        SELECT 1 FROM always_approved WHERE owner IS ?1 AND agent = ?2 AND tool = ?3)";
    APPROVED_TOOLS = "SELECT approved_tool FROM approvals JOIN sessions ON number = session
        WHERE session_id = ?1 AND deleted = 0 AND approved_tool IS NOT NULL
        UNION
        SELECT tool FROM sessions JOIN always_approved
            ON always_approved.agent = sessions.agent AND always_approved.owner IS sessions.owner
        WHERE session_id = ?1 AND deleted = 0
        ORDER BY 1";
    ALWAYS_APPROVED = "SELECT owner, agent, tool FROM always_approved
        WHERE agent = ?1 AND (?2 IS NULL OR owner = ?2) ORDER BY owner, tool";
    REVOKE_ALWAYS = "DELETE FROM always_approved WHERE owner IS ?1 AND agent = ?2 AND tool = ?3";
    REVOKE_IN_SESSIONS = "UPDATE approvals SET approved_tool = NULL WHERE approved_tool = ?3 AND session IN (
        SELECT number FROM sessions WHERE owner IS ?1 AND agent = ?2 AND deleted = 0)";
    FORGET_TOOL = "UPDATE approvals SET approved_tool = NULL
        WHERE session = (SELECT number FROM sessions WHERE session_id = ?1) AND approved_tool = ?2";
    FORGET_ALWAYS = "DELETE FROM always_approved
        WHERE agent = (SELECT agent FROM sessions WHERE session_id = ?1)
        AND owner IS (SELECT owner FROM sessions WHERE session_id = ?1) AND tool = ?2";

    DELETE_SESSION = "UPDATE sessions SET deleted = 1, leftovers = 1, agent = NULL WHERE number = ?";
    LEFTOVERS = "SELECT number FROM sessions WHERE leftovers = 1 LIMIT 1";
    DELETE_EVENTS = "DELETE FROM events WHERE session = ?1 AND event_index IN (
        SELECT event_index FROM events WHERE session = ?1 ORDER BY event_index LIMIT ?2)";
    DELETE_APPROVALS = "DELETE FROM approvals WHERE approval_id IN (
        SELECT approval_id FROM approvals WHERE session = ?1 LIMIT ?2)";
    DELETE_RUNS = "DELETE FROM runs WHERE number IN (SELECT number FROM runs WHERE session = ?1 LIMIT ?2)";
    NO_LEFTOVERS = "UPDATE sessions SET leftovers = 0 WHERE number = ?";
    OLD_SESSIONS = "SELECT number, session_id FROM sessions WHERE deleted = 0 AND last_at < ?1
        AND NOT EXISTS (SELECT 1 FROM runs WHERE session = sessions.number AND last_index IS NULL)
        ORDER BY last_at LIMIT ?2";
    UNPRUNED = "SELECT number, session, first_index, last_index FROM runs
        WHERE pruned = 0 AND last_index IS NOT NULL AND ended_at < ? ORDER BY ended_at LIMIT 1";
    PRUNE = "DELETE FROM events WHERE session = ?1 AND event_index IN (
        SELECT event_index FROM events WHERE session = ?1 AND event_index BETWEEN ?2 AND ?3 AND class = ?4
        ORDER BY event_index LIMIT ?5)";
    PRUNED = "UPDATE runs SET pruned = 1 WHERE number = ?";
}
