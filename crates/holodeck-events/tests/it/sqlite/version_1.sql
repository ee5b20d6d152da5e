-- A file of the first version of the tables, as that version left it. It never changes.
-- A deleted session keeps its row without its owner, so that its id and numbers are never used again.
CREATE TABLE sessions (
    number INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL UNIQUE,
    owner TEXT,
    next_index INTEGER NOT NULL,
    next_sequence INTEGER NOT NULL,
    -- Every index that was ever delivered is below it, also after a power loss.
    ceiling INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    deleted INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE runs (
    number INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL UNIQUE,
    session INTEGER NOT NULL REFERENCES sessions (number),
    writer TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    client_message_id TEXT,
    first_index INTEGER NOT NULL,
    last_index INTEGER,
    ended_at INTEGER,
    pruned INTEGER NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX open_runs ON runs (session) WHERE last_index IS NULL;
CREATE UNIQUE INDEX sent ON runs (session, client_message_id) WHERE client_message_id IS NOT NULL;
CREATE INDEX unpruned ON runs (ended_at) WHERE pruned = 0;
CREATE TABLE events (
    session INTEGER NOT NULL REFERENCES sessions (number),
    event_index INTEGER NOT NULL,
    sequence_number INTEGER,
    event_id BLOB NOT NULL UNIQUE,
    run INTEGER REFERENCES runs (number),
    tool_use_id TEXT,
    class INTEGER NOT NULL,
    type TEXT NOT NULL,
    payload TEXT NOT NULL,
    PRIMARY KEY (session, event_index)
);
CREATE UNIQUE INDEX content ON events (session, sequence_number) WHERE sequence_number IS NOT NULL;
CREATE UNIQUE INDEX tools ON events (run, tool_use_id, type) WHERE tool_use_id IS NOT NULL;
-- `beat` grows while the writer lives.
CREATE TABLE writers (
    writer TEXT PRIMARY KEY,
    process INTEGER NOT NULL,
    beat INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO sessions (number, session_id, owner, next_index, next_sequence, ceiling, last_at)
VALUES (1, 's', 'alice', 4, 2, 1025, 1795464000300);
INSERT INTO runs (number, run_id, session, writer, epoch, first_index, last_index, ended_at)
VALUES (1, 'r', 1, 'w', 0, 0, 3, 1795464000300);
INSERT INTO events (session, event_index, sequence_number, event_id, run, tool_use_id, class, type, payload) VALUES
(1, 0, 0, x'a0000000000040008000000000000001', 1, NULL, 0, 'user_message_confirmed',
 '{"type":"user_message_confirmed","timestamp":"2026-11-23T20:00:00.000Z","eventId":"a0000000-0000-4000-8000-000000000001","persistenceState":"persisted","eventIndex":0,"sequenceNumber":0,"sessionId":"s","runId":"r","messageId":"m-1","content":"go","userId":"alice","later":{"kept":true}}'),
(1, 1, NULL, x'a0000000000040008000000000000002', 1, NULL, 2, 'message_chunk',
 '{"type":"message_chunk","timestamp":"2026-11-23T20:00:00.100Z","eventId":"a0000000-0000-4000-8000-000000000002","persistenceState":"transient","eventIndex":1,"sessionId":"s","runId":"r","turn":1,"content":"done","blockIndex":0}'),
(1, 2, 1, x'a0000000000040008000000000000003', 1, NULL, 0, 'message',
 '{"type":"message","timestamp":"2026-11-23T20:00:00.200Z","eventId":"a0000000-0000-4000-8000-000000000003","persistenceState":"persisted","eventIndex":2,"sequenceNumber":1,"sessionId":"s","runId":"r","turn":1,"messageId":"m-2","role":"assistant","content":"done","stopReason":"end_turn"}'),
(1, 3, NULL, x'a0000000000040008000000000000004', 1, NULL, 1, 'complete',
 '{"type":"complete","timestamp":"2026-11-23T20:00:00.300Z","eventId":"a0000000-0000-4000-8000-000000000004","persistenceState":"transient","eventIndex":3,"sessionId":"s","runId":"r","reason":"success"}');
PRAGMA application_id = 1212441974;
PRAGMA user_version = 1;
