//! The cost of the stores: `cargo xtask bench events` runs this and saves the figures. `append` measures appends beside
//! the same transactions by hand, `append-postgres` those in a database; the name of a store the way of a piece of text to
//! each subscriber; `history` and `history-postgres` what a store of 100,000 runs costs beside an empty one; each in its own
//! process, so that memory is measured separately.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::disallowed_methods,
    reason = "a bench"
)]

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{env, fs};

use holodeck_events::api::{
    ApprovalAsk, ApprovalDecision, BackendEvent, CallDetails, StopReason, ToolCall, ToolResult,
};
use holodeck_events::{
    Clock, Draft, EventStore, Ids, MemoryStore, NewRun, PostgresOptions, PostgresStore, RandomIds, Retention,
    RunRecorder, SqliteOptions, SqliteStore, SystemClock,
};
use rusqlite::Connection;
use serde_json::{Value, json};

/// Appends of pieces of text, and of what must reach the disk.
const PIECES: usize = 3_000;
const CALLS: usize = 300;
/// The pieces of text that a subscriber receives, and the time between them.
const CHUNKS: usize = 100;
const INTERVAL: Duration = Duration::from_millis(20);
/// As long as the events whose transactions are compared.
const PAYLOAD: usize = 300;

fn main() {
    let arguments: Vec<String> = env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    let Some([what, place]) = arguments.first_chunk() else {
        return;
    };
    let folder = Path::new(place);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let count = arguments.get(2).map_or(0, |count| count.parse().unwrap());
    let figures = runtime.block_on(async {
        match what.as_str() {
            "history" => history(folder).await,
            "history-postgres" => history_in_database(place).await,
            "append" => append(folder).await,
            "append-postgres" => append_to_database(&connect(place).await).await,
            "postgres" => fan_out(Arc::new(connect(place).await), count).await,
            "memory" => fan_out(Arc::new(MemoryStore::new()), count).await,
            "sqlite" => fan_out(Arc::new(open(folder).await), count).await,
            other => panic!("{other}"),
        }
    });
    println!("{figures}");
}

async fn open(folder: &Path) -> SqliteStore {
    SqliteStore::open(folder.join("events.db"), SqliteOptions::default())
        .await
        .unwrap()
}

async fn connect(url: &str) -> PostgresStore {
    PostgresStore::open(url, PostgresOptions::default())
        .await
        .unwrap()
}

/// Opens a run of a session.
async fn begin(store: &dyn EventStore) -> RunRecorder {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let ids: Arc<dyn Ids> = Arc::new(RandomIds);
    let (recorder, first) = RunRecorder::open(NewRun::new("s", "go"), clock, ids);
    store.open_run(first).await.unwrap();
    recorder
}

fn text(text: &str) -> BackendEvent {
    BackendEvent::Text {
        text: text.to_owned(),
    }
}

/// Appends of each class, and the same transactions by hand, in turns.
async fn append(folder: &Path) -> Value {
    let store = open(folder).await;
    let mut recorder = begin(&store).await;
    let mut normal = ByHand::open(folder, "normal", 2).await;
    let mut full = ByHand::open(folder, "full", 0).await;
    let [mut pieces, mut contents, mut questions] = [(); 3].map(|()| Times::default());
    let piece = "x".repeat(20);
    for _ in 0..PIECES {
        pieces.append(&store, recorder.observe(&text(&piece))).await;
        pieces.by_hand.push(normal.transact());
    }
    for number in 0..CALLS {
        let [call, ask, answer, result] = call(&format!("call_{number}"));
        store.append(recorder.observe(&call)).await.unwrap();
        store.append(recorder.observe(&stop())).await.unwrap();
        questions.append(&store, recorder.observe(&ask)).await;
        questions.by_hand.push(full.transact());
        store.append(recorder.observe(&answer)).await.unwrap();
        contents.append(&store, recorder.observe(&result)).await;
        contents.by_hand.push(full.transact());
    }
    json!({
        "journaled": pieces.figures(),
        "durable": questions.figures(),
        "stored": contents.figures(),
        "memory_kib": memory("VmHWM"),
    })
}

/// Appends of each class in a database.
async fn append_to_database(store: &PostgresStore) -> Value {
    let mut recorder = begin(store).await;
    let [mut pieces, mut contents, mut questions] = [(); 3].map(|()| Vec::new());
    let piece = "x".repeat(20);
    for _ in 0..PIECES {
        pieces.push(time(store, recorder.observe(&text(&piece))).await);
    }
    for number in 0..CALLS {
        let [call, ask, answer, result] = call(&format!("call_{number}"));
        store.append(recorder.observe(&call)).await.unwrap();
        store.append(recorder.observe(&stop())).await.unwrap();
        questions.push(time(store, recorder.observe(&ask)).await);
        store.append(recorder.observe(&answer)).await.unwrap();
        contents.push(time(store, recorder.observe(&result)).await);
    }
    json!({
        "journaled": {"append": spread(pieces)},
        "durable": {"append": spread(questions)},
        "stored": {"append": spread(contents)},
    })
}

async fn time(store: &dyn EventStore, drafts: Vec<Draft>) -> Duration {
    let begin = Instant::now();
    store.append(drafts).await.unwrap();
    begin.elapsed()
}

/// The times of appends of one class.
#[derive(Default)]
struct Times {
    whole: Vec<Duration>,
    /// The part of it on the thread that writes.
    transaction: Vec<Duration>,
    /// The rest: the way to that thread, and back.
    hand_over: Vec<Duration>,
    by_hand: Vec<Duration>,
}

impl Times {
    async fn append(&mut self, store: &SqliteStore, drafts: Vec<Draft>) {
        let whole = time(store, drafts).await;
        let transaction = store.transaction_time();
        self.whole.push(whole);
        self.transaction.push(transaction);
        self.hand_over.push(whole.saturating_sub(transaction));
    }

    fn figures(self) -> Value {
        json!({
            "append": spread(self.whole),
            "transaction": spread(self.transaction),
            "hand_over": spread(self.hand_over),
            "by_hand": spread(self.by_hand),
        })
    }
}

/// A call, the question about it, its answer and its result of about [`PAYLOAD`] bytes of JSON.
fn call(id: &str) -> [BackendEvent; 4] {
    let arguments = json!({"q": "refunds"});
    [
        BackendEvent::ToolCall(ToolCall {
            name: "search".to_owned(),
            arguments: arguments.clone(),
            call_id: id.to_owned(),
            provider_fields: None,
        }),
        BackendEvent::ApprovalAsked(Box::new(ApprovalAsk {
            tool_name: "search".to_owned(),
            arguments,
            call_id: id.to_owned(),
            description: None,
            agent_id: None,
            answer_schema: None,
            paths: Vec::new(),
            reason: None,
            zone: holodeck_model::Zone::Inside,
            tool_digest: None,
            scopes: None,
            is_followed: false,
        })),
        BackendEvent::ApprovalAnswered {
            call_id: id.to_owned(),
            decision: ApprovalDecision::approve(),
        },
        BackendEvent::ToolResult(ToolResult {
            call_id: id.to_owned(),
            name: "search".to_owned(),
            result: "30 days".to_owned(),
            is_error: false,
            duration_ms: Some(5),
            details: CallDetails::default(),
        }),
    ]
}

fn stop() -> BackendEvent {
    BackendEvent::TurnEnd {
        stop_reason: StopReason::ToolUse,
        message_id: None,
        model: None,
    }
}

/// The transaction of an append, written by hand, in a file with the same tables and settings: the numbers of the session,
/// and one event.
struct ByHand {
    connection: Connection,
    class: u8,
    next: u64,
    payload: String,
}

impl ByHand {
    async fn open(folder: &Path, synchronous: &str, class: u8) -> Self {
        let folder = folder.join(synchronous);
        let store = open(&folder).await;
        begin(&store).await;
        store.close().await.unwrap();
        let connection = Connection::open(folder.join("events.db")).unwrap();
        for (name, value) in [
            ("synchronous", synchronous),
            ("foreign_keys", "on"),
            ("secure_delete", "on"),
        ] {
            connection.pragma_update(None, name, value).unwrap();
        }
        Self {
            connection,
            class,
            next: 1,
            payload: "x".repeat(PAYLOAD),
        }
    }

    fn transact(&mut self) -> Duration {
        let (id, index) = (RandomIds.next(), self.next);
        self.next += 1;
        let is_content = self.class == 0;
        let tool_use_id = is_content.then(|| format!("call_{index}"));
        let begin = Instant::now();
        let statement = |sql| self.connection.prepare_cached(sql).unwrap();
        statement("BEGIN IMMEDIATE").execute([]).unwrap();
        statement("UPDATE sessions SET next_index = ?, next_sequence = ?, ceiling = ?, last_at = ? WHERE number = 1")
            .execute((index + 1, index + 1, 100_000, index))
            .unwrap();
        statement(
            "INSERT INTO events
                 (session, event_index, sequence_number, event_id, run, tool_use_id, class, type, payload)
             VALUES (1, ?, ?, ?, 1, ?, ?, 'tool_result', ?)",
        )
        .execute((
            index,
            is_content.then_some(index),
            id.as_bytes(),
            tool_use_id,
            self.class,
            &self.payload,
        ))
        .unwrap();
        statement("COMMIT").execute([]).unwrap();
        begin.elapsed()
    }
}

/// The time from the append of a piece to its receipt, by each of `count` subscribers.
async fn fan_out(store: Arc<dyn EventStore>, count: usize) -> Value {
    let mut recorder = begin(&*store).await;
    let idle = memory("VmRSS");
    let sent: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let mut subscribers = Vec::new();
    for _ in 0..count {
        let mut subscription = store.subscribe("s", Some(0)).await.unwrap();
        let sent = Arc::clone(&sent);
        subscribers.push(tokio::spawn(async move {
            let mut latencies = Vec::with_capacity(CHUNKS);
            for piece in 0..CHUNKS {
                let event = subscription.next().await.unwrap().unwrap();
                let received = Instant::now();
                assert_eq!(event.index(), piece as u64 + 1);
                latencies.push(received - sent.lock().unwrap()[piece]);
            }
            latencies
        }));
    }
    let mut interval = tokio::time::interval(INTERVAL);
    for _ in 0..CHUNKS {
        interval.tick().await;
        let drafts = recorder.observe(&text("a piece of the answer "));
        sent.lock().unwrap().push(Instant::now());
        store.append(drafts).await.unwrap();
    }
    let mut latencies = Vec::new();
    for subscriber in subscribers {
        latencies.extend(subscriber.await.unwrap());
    }
    json!({
        "latency": spread(latencies),
        "idle_kib": idle,
        "memory_kib": memory("VmHWM"),
    })
}

/// Runs of a conversation, and conversations: 100,000 runs of ten events each, and one conversation to delete.
const RUNS: usize = 10;
const SESSIONS: usize = 9_900;
const DELETED: usize = 1_000;
/// Messages whose cost is compared, and lists.
const MESSAGES: usize = 400;

/// A store in a file with a long history, beside an empty one.
async fn history(folder: &Path) -> Value {
    let large = folder.join("large");
    open(&large).await.close().await.unwrap();
    let path = large.join("events.db");
    let file = Connection::open(&path).unwrap();
    file.pragma_update(None, "synchronous", "off").unwrap();
    let numbers = |last: usize| {
        format!(
            "WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < {last})"
        )
    };
    let (sessions, runs) = (SESSIONS + 1, SESSIONS * RUNS + DELETED);
    let events = runs * EVENTS.len();
    let (kinds, classes) = (kinds(), classes());
    file.execute_batch(&format!(
        "BEGIN;
         {} INSERT INTO sessions (number, session_id, owner, agent, next_index, next_sequence, ceiling, last_at, created_at)
             SELECT n + 1, 's-' || n, 'user-' || (n % 100), 'agent', 1000000, 1000000, 1000000, 1000 + n, n FROM numbers;
         {} INSERT INTO runs (number, run_id, session, writer, epoch, first_index, last_index, ended_at, pruned)
             SELECT n + 1, 'r-' || n, 1 + min(n / {RUNS}, {SESSIONS}), 'w', 0, n * 10, n * 10 + 9, n, 0 FROM numbers;
         {} INSERT INTO events (session, event_index, event_id, run, class, type, payload)
             SELECT 1 + min(n / 10 / {RUNS}, {SESSIONS}), n, randomblob(16), 1 + n / 10,
                 CASE n % 10 {classes} END, CASE n % 10 {kinds} END,
                 '{PAYLOAD_BEGIN}' || n || '{PAYLOAD_END}' FROM numbers;
         COMMIT;",
        numbers(sessions),
        numbers(runs),
        numbers(events),
    ))
    .unwrap();
    // As the version before this one left it.
    file.execute_batch(
        "DROP INDEX leftovers; ALTER TABLE sessions DROP COLUMN leftovers; DROP INDEX latest; DROP INDEX latest_of;
         DROP INDEX runs_of; DROP INDEX running; DROP INDEX events_of; DROP INDEX approved;
         PRAGMA user_version = 2; PRAGMA wal_checkpoint(TRUNCATE);",
    )
    .unwrap_or_else(|error| panic!("{error}"));
    drop(file);
    let empty: Arc<dyn EventStore> = Arc::new(open(&folder.join("empty")).await);
    let begin = Instant::now();
    let large: Arc<dyn EventStore> = Arc::new(open(&large).await);
    compare(empty, large, begin.elapsed()).await
}

/// The same in a database.
async fn history_in_database(url: &str) -> Value {
    let in_schema = |schema: &str| format!("{url}?options=-c%20search_path%3D{schema}");
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
        .batch_execute("CREATE SCHEMA empty; CREATE SCHEMA large")
        .await
        .unwrap();
    connect(&in_schema("large")).await.close().await.unwrap();
    let (sessions, runs) = (SESSIONS + 1, SESSIONS * RUNS + DELETED);
    let events = runs * EVENTS.len();
    let (kinds, classes) = (kinds(), classes());
    let build = format!(
        "SET search_path = large;
         INSERT INTO holodeck_sessions (session_id, owner, agent, next_index, next_sequence, ceiling, last_at, created_at,
                 server)
             SELECT 's-' || n, 'user-' || (n % 100), 'agent', 1000000, 1000000, 1000000, 1000 + n, n, 0
             FROM generate_series(0, {}) AS n;
         INSERT INTO holodeck_runs (run_id, session, writer, epoch, first_index, last_index, ended_at)
             SELECT 'r-' || n, 1 + least(n / {RUNS}, {SESSIONS}), 'w', 0, n * 10, n * 10 + 9, n
             FROM generate_series(0, {}) AS n;
         INSERT INTO holodeck_events (session, event_index, event_id, run, class, type, payload)
             SELECT 1 + least(n / 10 / {RUNS}, {SESSIONS}), n, decode(md5(n::text), 'hex'), 1 + n / 10,
                 CASE n % 10 {classes} END, CASE n % 10 {kinds} END, '{PAYLOAD_BEGIN}' || n || '{PAYLOAD_END}'
             FROM generate_series(0, {}) AS n;
         DROP INDEX holodeck_leftovers; ALTER TABLE holodeck_sessions DROP COLUMN leftovers;
         DROP INDEX holodeck_latest_of; DROP INDEX holodeck_runs_of; DROP INDEX holodeck_running;
         DROP INDEX holodeck_events_of; DROP INDEX holodeck_approved; UPDATE holodeck_version SET version = 1;",
        sessions - 1,
        runs - 1,
        events - 1,
    );
    client
        .batch_execute(&build)
        .await
        .unwrap_or_else(|error| panic!("{error:?}"));
    // Each by itself: the server refuses the first inside a transaction.
    for settle in ["VACUUM ANALYZE", "CHECKPOINT"] {
        client.batch_execute(settle).await.unwrap();
    }
    let empty: Arc<dyn EventStore> = Arc::new(connect(&in_schema("empty")).await);
    let begin = Instant::now();
    let large: Arc<dyn EventStore> = Arc::new(connect(&in_schema("large")).await);
    compare(empty, large, begin.elapsed()).await
}

/// The events of a run, with their classes: half of them are pieces of text.
const EVENTS: [(&str, u8); 10] = [
    ("user_message_confirmed", 0),
    ("message_chunk", 2),
    ("message_chunk", 2),
    ("message_chunk", 2),
    ("message_chunk", 2),
    ("message_chunk", 2),
    ("tool_use", 0),
    ("tool_result", 0),
    ("message", 0),
    ("complete", 1),
];

/// A message whose JSON is valid and about [`PAYLOAD`] bytes long; its number is its id.
const PAYLOAD_BEGIN: &str = r#"{"type":"user_message_confirmed","timestamp":"2026-11-21T20:00:00.120Z","eventId":"b0000000-0000-4000-8000-000000000000","persistenceState":"persisted","eventIndex":1,"sequenceNumber":0,"sessionId":"s-1","runId":"r-1","content":"What changed in the policy of refunds in May?","userId":"user-1","messageId":"m-"#;
const PAYLOAD_END: &str = r#""}"#;

fn kinds() -> String {
    let events = EVENTS.iter().enumerate();
    let kinds: Vec<_> = events
        .map(|(at, (kind, _))| format!("WHEN {at} THEN '{kind}'"))
        .collect();
    kinds.join(" ")
}

fn classes() -> String {
    let events = EVENTS.iter().enumerate();
    let classes: Vec<_> = events
        .map(|(at, (_, class))| format!("WHEN {at} THEN {class}"))
        .collect();
    classes.join(" ")
}

/// Messages and lists of both stores in turns, then deletions in the large one while another conversation writes.
async fn compare(empty: Arc<dyn EventStore>, large: Arc<dyn EventStore>, opened: Duration) -> Value {
    let [mut of_empty, mut of_large, mut lists] = [(); 3].map(|()| Vec::new());
    for number in 0..MESSAGES {
        of_empty.push(message(&*empty, number).await);
        of_large.push(message(&*large, number).await);
        let begin = Instant::now();
        let page = large.sessions_page(Some("user-7"), None, 50).await.unwrap();
        lists.push(begin.elapsed());
        assert_eq!((page.len(), page[0].first_message.is_some()), (50, true));
    }
    let conversation = format!("s-{SESSIONS}");
    let begin = Instant::now();
    let deletion = writes_during(&large, async {
        large.delete_session(&conversation, false).await.unwrap();
    })
    .await;
    // Without a deletion, for as long: the longest of more messages is longer.
    let took = begin.elapsed();
    let alone = writes_during(&large, tokio::time::sleep(took)).await;
    let sweep = writes_during(&large, async {
        let retention = Retention {
            resume_window: Duration::from_hours(1),
            sessions: Some(Duration::from_hours(1)),
        };
        let swept = large.sweep(retention).await.unwrap();
        assert!(swept.sessions >= SESSIONS, "{swept:?}");
    })
    .await;
    json!({
        "open_ms": opened.as_secs_f64() * 1e3,
        "empty": spread(of_empty),
        "large": spread(of_large),
        "list": spread(lists),
        "alone": alone,
        "deletion": deletion,
        "sweep": sweep,
    })
}

/// The conversations of a writer.
static NEXT: AtomicUsize = AtomicUsize::new(MESSAGES);

/// The time of a message and its answer in a conversation of its own.
async fn message(store: &dyn EventStore, number: usize) -> Duration {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let ids: Arc<dyn Ids> = Arc::new(RandomIds);
    let begin = Instant::now();
    let run = NewRun::new(format!("new-{number}"), "go");
    let (mut recorder, first) = RunRecorder::open(run, clock, ids);
    store.open_run(first).await.unwrap();
    store.append(recorder.observe(&text("a piece"))).await.unwrap();
    let stop = BackendEvent::TurnEnd {
        stop_reason: StopReason::EndTurn,
        message_id: None,
        model: None,
    };
    let mut end = recorder.observe(&stop);
    end.extend(recorder.complete(holodeck_events::api::ExecutionResult::default()));
    store.append(end).await.unwrap();
    begin.elapsed()
}

/// How long `work` took, and the messages meanwhile.
async fn writes_during(store: &Arc<dyn EventStore>, work: impl Future<Output = ()>) -> Value {
    let (stop, mut stopped) = tokio::sync::oneshot::channel();
    let writer = {
        let store = Arc::clone(store);
        tokio::spawn(async move {
            let mut times = Vec::new();
            while stopped.try_recv().is_err() {
                let number = NEXT.fetch_add(1, Ordering::Relaxed);
                times.push(message(&*store, number).await);
            }
            times
        })
    };
    let begin = Instant::now();
    work.await;
    let took = begin.elapsed();
    stop.send(()).unwrap();
    let times = writer.await.unwrap();
    let longest = times.iter().max().copied().unwrap_or_default();
    json!({
        "ms": took.as_secs_f64() * 1e3,
        "messages": times.len(),
        "message": spread(times),
        "longest_ms": longest.as_secs_f64() * 1e3,
    })
}

/// Median and 99th percentile, in microseconds.
fn spread(mut times: Vec<Duration>) -> Value {
    times.sort_unstable();
    let at = |share: f64| {
        let place = ((times.len() - 1) as f64 * share).round() as usize;
        times[place].as_secs_f64() * 1e6
    };
    json!({"p50_us": at(0.5), "p99_us": at(0.99)})
}

fn memory(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let digits = line.map(|line| line.chars().filter(char::is_ascii_digit).collect::<String>());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}
