//! Processes that write to a store and are killed, at random moments or at a chosen one.

#![allow(
    clippy::disallowed_methods,
    reason = "a test starts itself, configured by its environment"
)]

use std::{
    collections::{BTreeMap, HashSet},
    env,
    ffi::OsStr,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::Arc,
    time::{Duration, SystemTime},
};

use holodeck_backend_api::{BackendEvent, StopReason};
use holodeck_events::{
    ApprovalAnswer, Clock, Delivery, EventStore, Ids, NewRun, RandomIds, RecordError, Recording, Resolution,
    RunRecorder, SqliteOptions, SqliteStore, StoreError, StoredEvent, SystemClock, View,
};
use holodeck_model::events::{AgentEvent, EventBody};
use pretty_assertions::assert_eq;

use crate::{
    backend_events::{Emitted, answer, answered, ask, call, result, stop, text, thinking},
    contract::{ManualClock, numbers_of},
    session::check,
};

/// Rounds; `cargo xtask soak events` sets more.
const ROUNDS: &str = "HOLODECK_KILL_ROUNDS";
/// Seed of the random choices, to repeat a failure.
const SEED: &str = "HOLODECK_KILL_SEED";
/// The variable with the task of a child, its name, and the store.
const TASK: &str = "HOLODECK_TEST_TASK";
const NAME: &str = "HOLODECK_TEST_WRITER";
const PLACE: &str = "HOLODECK_TEST_EVENTS";
/// Its lease in milliseconds, if it has another one than usual.
const LEASE: &str = "HOLODECK_TEST_LEASE";

/// Rounds after which the next file begins.
const ROUNDS_PER_FILE: u64 = 8;

#[tokio::test(flavor = "multi_thread")]
async fn what_was_delivered_survives_kills_at_random_moments() {
    let wanted = number_from_env(ROUNDS).unwrap_or(20);
    let seed = number_from_env(SEED).unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        now.unwrap().as_secs()
    });
    let (mut rounds, mut file, mut delivered) = (0, 0, 0);
    while rounds < wanted {
        println!("file {file}; repeat with {SEED}={} {ROUNDS}=1", seed + file);
        let random = &mut Random(seed + file);
        let (log, mut log_delivered) = (Log::new(), Delivered::default());
        for round in 1..=ROUNDS_PER_FILE {
            log_delivered.kill_two_writers(log.path(), random);
            rounds += 1;
            // The next two writers may have to end the runs of these themselves, both at the same time.
            if round == ROUNDS_PER_FILE || random.below(3) > 0 {
                let store = SqliteStore::open(log.path(), SqliteOptions::default()).await;
                let store = store.unwrap();
                log_delivered.check(&store).await;
                store.close().await.unwrap();
            }
        }
        delivered += log_delivered.0.len();
        file += 1;
    }
    println!("{} kills, {delivered} events delivered before them", 2 * rounds);
    assert!(
        delivered as u64 > 10 * rounds,
        "hardly anything was delivered: {delivered}"
    );
}

/// A file.
struct Log {
    folder: tempfile::TempDir,
}

impl Log {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("events.db")
    }
}

/// The events that writers delivered before they were killed, by session and index.
#[derive(Default)]
pub(crate) struct Delivered(pub(crate) BTreeMap<(String, u64), String>);

impl Delivered {
    /// Starts two writers to the store at `place` and kills them.
    pub(crate) fn kill_two_writers(&mut self, place: impl AsRef<OsStr>, random: &mut Random) {
        let place = place.as_ref();
        let victims: Vec<_> = ["one", "two"]
            .into_iter()
            .map(|name| {
                let moment = Moment::choose(random);
                let victim = Victim::start("write", name, place);
                std::thread::spawn(move || victim.kill_at(moment))
            })
            .collect();
        for victim in victims {
            for json in victim.join().unwrap() {
                let event: AgentEvent = serde_json::from_str(&json).unwrap();
                let key = (event.meta.session_id.unwrap(), event.meta.event_index.unwrap());
                let before = self.0.insert(key, json.clone());
                assert_eq!(before, None, "a number was given twice: {json}");
            }
        }
    }

    /// Checks that the store has them, and that no run is open.
    pub(crate) async fn check(&self, store: &dyn EventStore) {
        let (mut found, mut cut) = (0, HashSet::new());
        for session in store.sessions(None).await.unwrap() {
            assert_eq!(session.open_run, None);
            let stored = store.read_after(&session.session_id, None).await.unwrap();
            let events: Vec<_> = stored.iter().map(|event| event.event().clone()).collect();
            assert_eq!(check(View::Live, &events), []);
            let numbers = numbers_of(&stored);
            assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
            for event in &events {
                let EventBody::ApprovalResolved(answer) = &event.body else {
                    continue;
                };
                let known = store.approval(&answer.approval_id).await.unwrap().unwrap();
                assert_eq!(known.resolved.as_ref(), Some(answer));
            }
            for event in &stored {
                let run = event.event().meta.run_id.clone();
                let key = (session.session_id.clone(), event.index());
                if let Some(json) = self.0.get(&key) {
                    found += 1;
                    assert_eq!(json, event.json());
                    assert!(
                        !cut.contains(&run),
                        "an event before it was not delivered: {json}"
                    );
                } else {
                    // Committed and not delivered, or written by a recovery.
                    cut.insert(run);
                }
            }
        }
        assert_eq!(store.approvals(None, None).await.unwrap(), []);
        assert_eq!(found, self.0.len(), "what was delivered is lost");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_while_a_person_is_asked_leaves_the_call_unapproved() {
    let log = Log::new();
    ask_and_die(&log.path());
    let stored = recovered(&log.path()).await;
    let bodies: Vec<_> = stored.iter().map(|event| &event.event().body).collect();
    let [
        ..,
        EventBody::ApprovalRequested(asked),
        EventBody::ApprovalResolved(resolved),
        EventBody::ToolResult(closed),
        EventBody::Error(end),
    ] = &bodies[..]
    else {
        panic!("{bodies:?}");
    };
    assert_eq!(asked.approval_id, resolved.approval_id);
    assert!(!resolved.approved);
    let store = SqliteStore::open(log.path(), SqliteOptions::default())
        .await
        .unwrap();
    assert_eq!(store.approvals(None, None).await.unwrap(), []);
    let known = store.approval(&asked.approval_id).await.unwrap().unwrap();
    assert_eq!(known.resolved.as_ref(), Some(resolved));
    let late = ApprovalAnswer::new(asked.approval_id.as_str(), Resolution::Approve);
    let late = store.resolve_approval(late).await;
    assert!(
        matches!(late, Err(StoreError::AlreadyResolved { .. })),
        "{late:?}"
    );
    assert_eq!((closed.tool_use_id.as_str(), closed.success), ("a", false));
    assert_eq!(end.code, "RUN_INTERRUPTED");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_that_is_killed_is_as_one_that_is_not() {
    let crashed = Log::new();
    ask_and_die(&crashed.path());
    let copy = || {
        let log = Log::new();
        copy_folder(crashed.folder.path(), log.folder.path());
        log
    };
    let expected = normalized(&recovered(&copy().path()).await);
    let random = &mut Random(39);
    for _ in 0..6 {
        let log = copy();
        for _ in 0..2 {
            // Before it opens the file, while it does, or when it has.
            let victim = Victim::start("recover", "one", log.path());
            victim.kill_at(Moment {
                lines: 1,
                turns: random.below(1_000_000),
            });
        }
        assert_eq!(normalized(&recovered(&log.path()).await), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_that_is_killed_is_complete_or_does_not_exist() {
    let log = Log::new();
    let store = SqliteStore::open(log.path(), SqliteOptions::default())
        .await
        .unwrap();
    let (clock, ids): (Arc<dyn Clock>, Arc<dyn Ids>) =
        (Arc::new(SystemClock::default()), Arc::new(RandomIds));
    for _ in 0..5 {
        let stream = Box::pin(futures::stream::iter(script()));
        let recording = Recording::new(&store, &clock, &ids);
        recording.record(NewRun::new("s", "go"), stream).await.unwrap();
    }
    let random = &mut Random(4);
    for _ in 0..6 {
        let victim = Victim::start("fork", "one", log.path());
        victim.kill_at(Moment {
            lines: 1 + random.below(5),
            turns: random.below(2_000_000),
        });
    }
    let mut forks = 0;
    for session in store.sessions(None).await.unwrap() {
        if session.session_id == "s" {
            continue;
        }
        forks += 1;
        let stored = store.read_after(&session.session_id, None).await.unwrap();
        let events: Vec<_> = stored.iter().map(|event| event.event().clone()).collect();
        assert_eq!(check(View::Replay, &events), []);
        assert_eq!((session.runs, session.open_run), (5, None));
        // A beginning, and of each run its message, reasoning, two messages, a call, a question with its answer, a
        // result and the end.
        assert_eq!(stored.len(), 1 + 5 * 9);
    }
    assert!(forks >= 6, "{forks}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_decisions_at_once_from_two_processes_one_is_stored() {
    let log = Log::new();
    let store = SqliteStore::open(log.path(), SqliteOptions::default())
        .await
        .unwrap();
    let mut recorder = begin(&store).await;
    let mut deciders = ["one", "two"].map(|name| Victim::start("decide", name, log.path()));
    for decider in &mut deciders {
        decider.wait_for("ready");
    }
    for round in 0..20 {
        let id = format!("call_{round}");
        for event in [call(&id, "f"), ask(&id, "f")] {
            store.append(recorder.observe(&event)).await.unwrap();
        }
        for decider in &mut deciders {
            decider.resume();
        }
        let mut lines: Vec<_> = deciders
            .iter_mut()
            .map(|decider| decider.next_line().unwrap())
            .collect();
        lines.sort_by_key(|line| line == "decided");
        assert!(lines[0].contains("was already resolved"), "{lines:?}");
        assert_eq!(lines[1], "decided");
        let decision = holodeck_backend_api::ApprovalDecision::approve();
        for event in [answer(&id, decision), result(&id, "f", "1")] {
            store.append(recorder.observe(&event)).await.unwrap();
        }
    }
    let stored = store.read_after("s", None).await.unwrap();
    let answers = |event: &&StoredEvent| matches!(event.event().body, EventBody::ApprovalResolved(_));
    assert_eq!(stored.iter().filter(answers).count(), 20);
    for decider in deciders {
        decider.kill_at(Moment::NOW);
    }
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_was_stopped_over_its_lease_cannot_write() {
    use rustix::process::{Pid, Signal, kill_process};

    let log = Log::new();
    let mut zombie = Victim::start("step", "one", log.path());
    zombie.wait_for("began");
    let pid = Pid::from_child(&zombie.child);
    kill_process(pid, Signal::STOP).unwrap();
    let clock = ManualClock::new();
    let mut options = SqliteOptions::default();
    options.clock = clock.clone();
    options.watches = false;
    let lease = options.lease;
    let store = SqliteStore::open(log.path(), options).await.unwrap();
    // It holds its lock: only a lease that was watched completely counts.
    let process = |error: StoreError| match error {
        StoreError::RunInProgress { process, .. } => process,
        error => panic!("{error}"),
    };
    let busy = store.delete_session("s", false).await.unwrap_err();
    assert_eq!(process(busy), Some(zombie.child.id()));
    clock.advance(lease);
    assert_eq!(store.recover().await.unwrap().len(), 1);
    let before = store.read_after("s", None).await.unwrap();
    kill_process(pid, Signal::CONT).unwrap();
    zombie.resume();
    let refused = zombie.next_line().unwrap();
    assert!(refused.contains("no longer owned"), "{refused}");
    assert_eq!(store.read_after("s", None).await.unwrap(), before);
    zombie.kill_at(Moment::NOW);
}

/// A process that streams text, asks a person, and is killed while it waits.
fn ask_and_die(path: &Path) {
    let mut victim = Victim::start("ask", "one", path);
    victim.wait_for("asked");
    victim.kill_at(Moment::NOW);
}

/// The session after a recovery in this process, without a violation.
async fn recovered(path: &Path) -> Vec<StoredEvent> {
    let store = SqliteStore::open(path, SqliteOptions::default()).await.unwrap();
    let stored = store.read_after("s", None).await.unwrap();
    store.close().await.unwrap();
    let events: Vec<_> = stored.iter().map(|event| event.event().clone()).collect();
    assert_eq!(check(View::Live, &events), []);
    stored
}

/// Events without what is new in each recovery: ids and times.
fn normalized(events: &[StoredEvent]) -> Vec<serde_json::Value> {
    let read = |event: &StoredEvent| {
        let mut event: serde_json::Value = serde_json::from_str(event.json()).unwrap();
        let fields = event.as_object_mut().unwrap();
        for key in ["eventId", "timestamp", "messageId"] {
            fields.remove(key);
        }
        event
    };
    events.iter().map(read).collect()
}

fn copy_folder(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&target).unwrap();
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// When a process is killed: by its progress, not by the clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// After this number of lines.
    lines: u64,
    /// And this number of busy-loop iterations.
    turns: u64,
}

impl Moment {
    pub(crate) const NOW: Self = Self { lines: 0, turns: 0 };

    fn choose(random: &mut Random) -> Self {
        Self {
            // The first line comes before the file is opened.
            lines: random.below(4).min(1) * random.below(300),
            turns: random.below(2_000_000),
        }
    }
}

/// The mark of a line that is meant for the process that kills.
const MARK: &str = "event: ";

pub(crate) struct Victim {
    pub(crate) child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Victim {
    /// The store is the file of this path, or the database of this URL.
    pub(crate) fn start(task: &str, name: &str, place: impl AsRef<OsStr>) -> Self {
        Self::start_with(task, name, place, &[])
    }

    pub(crate) fn with_lease(task: &str, place: impl AsRef<OsStr>, lease: Duration) -> Self {
        Self::start_with(task, "one", place, &[(LEASE, lease.as_millis().to_string())])
    }

    fn start_with(task: &str, name: &str, place: impl AsRef<OsStr>, env: &[(&str, String)]) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .envs(env.iter().map(|(name, value)| (name, value)))
            .args(["--exact", "kill::child", "--ignored", "--nocapture"])
            .env(TASK, task)
            .env(NAME, name)
            .env(PLACE, place.as_ref())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    /// Its next complete line.
    pub(crate) fn next_line(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            self.output.read_line(&mut line).unwrap();
            if !line.ends_with('\n') {
                return None;
            }
            if let Some((_, line)) = line.trim_end().split_once(MARK) {
                return Some(line.to_owned());
            }
        }
    }

    pub(crate) fn wait_for(&mut self, line: &str) {
        while self.next_line().unwrap() != line {}
    }

    pub(crate) fn resume(&mut self) {
        self.input.write_all(b"\n").unwrap();
    }

    /// Kills it; returns the events that it delivered.
    pub(crate) fn kill_at(mut self, moment: Moment) -> Vec<String> {
        let mut lines = Vec::new();
        for _ in 0..moment.lines {
            lines.push(self.next_line().expect("it writes until it is killed"));
        }
        for turn in 0..moment.turns {
            std::hint::black_box(turn);
        }
        self.child.kill().unwrap();
        lines.extend(std::iter::from_fn(|| self.next_line()));
        let end = self.child.wait().unwrap();
        assert!(!end.success(), "it ended by itself");
        lines.retain(|line| line.starts_with('{'));
        lines
    }
}

pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// `SplitMix64`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

fn number_from_env(name: &str) -> Option<u64> {
    env::var(name).ok().map(|number| number.parse().unwrap())
}

/// The process that is killed; the environment configures it.
#[test]
#[ignore = "a part of the others"]
fn child() {
    let Some(place) = env::var_os(PLACE) else {
        return;
    };
    let name = env::var(NAME).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        say("opens");
        let lease = number_from_env(LEASE).map_or(SqliteOptions::default().lease, Duration::from_millis);
        let store = open(&place, lease).await;
        match env::var(TASK).unwrap().as_str() {
            "write" => write(&store, &name).await,
            "recover" => {}
            "ask" => drop(ask_a_person(&*store).await),
            "ask-and-step" => {
                let recorder = ask_a_person(&*store).await;
                append_when_told(&*store, recorder, result("a", "f", "1")).await;
            }
            "step" => step(&*store).await,
            "fork" => fork(&*store).await,
            "decide" => decide(&*store, &name).await,
            task => panic!("{task}"),
        }
        // Until it is killed.
        std::future::pending::<()>().await;
    });
}

pub(crate) async fn open(place: &OsStr, lease: Duration) -> Arc<dyn EventStore> {
    #[cfg(feature = "postgres")]
    if let Some(url) = place.to_str().filter(|place| place.starts_with("postgresql://")) {
        let mut options = holodeck_events::PostgresOptions::default();
        options.lease = lease;
        let store = holodeck_events::PostgresStore::open(url, options).await;
        return Arc::new(store.unwrap());
    }
    let mut options = SqliteOptions::default();
    options.lease = lease;
    Arc::new(SqliteStore::open(place, options).await.unwrap())
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{MARK}{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// Records runs for ever, in a session of its own and in one of all writers, and reports each event that is delivered.
async fn write(store: &Arc<dyn EventStore>, name: &str) {
    let sessions = [format!("of-{name}"), "of-all".to_owned()];
    let tasks: [tokio::task::JoinHandle<()>; 2] = sessions.map(|session| {
        let store = Arc::clone(store);
        tokio::spawn(async move {
            let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
            let ids: Arc<dyn Ids> = Arc::new(RandomIds);
            let sink = |event: Delivery| match event {
                Delivery::Stored(event) => say(event.json()),
                Delivery::Transient(event) => panic!("{event:?}"),
            };
            loop {
                let recording = Recording::new(&*store, &clock, &ids).with_sink(&sink);
                let stream = Box::pin(futures::stream::iter(script()));
                match recording
                    .record(NewRun::new(session.as_str(), "go"), stream)
                    .await
                {
                    // The other process has a run.
                    Ok(_) | Err(RecordError::NotOpened(StoreError::RunInProgress { .. })) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        })
    });
    for task in tasks {
        task.await.unwrap();
    }
}

fn script() -> Vec<Emitted> {
    let mut events = vec![thinking("hm"), text("let me look")];
    events.extend([call("a", "f"), stop(StopReason::ToolUse, "msg_1"), ask("a", "f")]);
    events.push(answer("a", holodeck_backend_api::ApprovalDecision::approve()));
    events.push(result("a", "f", "1"));
    events.extend((0..20).map(|piece| text(&format!("piece {piece} "))));
    events.push(stop(StopReason::EndTurn, "msg_2"));
    answered(events)
}

/// Opens a run.
async fn begin(store: &dyn EventStore) -> RunRecorder {
    let (recorder, first) = RunRecorder::open(
        NewRun::new("s", "go"),
        Arc::new(SystemClock::default()),
        Arc::new(RandomIds),
    );
    store.open_run(first).await.unwrap();
    recorder
}

async fn ask_a_person(store: &dyn EventStore) -> RunRecorder {
    let mut recorder = begin(store).await;
    for event in [text("let me "), text("look"), call("a", "f"), ask("a", "f")] {
        store.append(recorder.observe(&event)).await.unwrap();
    }
    say("asked");
    recorder
}

/// Appends when told to.
async fn step(store: &dyn EventStore) {
    let mut recorder = begin(store).await;
    store.append(recorder.observe(&text("x"))).await.unwrap();
    say("began");
    append_when_told(store, recorder, text("late")).await;
}

async fn append_when_told(store: &dyn EventStore, mut recorder: RunRecorder, event: BackendEvent) {
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let appended = store.append(recorder.observe(&event)).await;
    say(&appended.unwrap_err().to_string());
}

/// Answers the question that is pending, each time it is told to.
async fn decide(store: &dyn EventStore, name: &str) {
    say("ready");
    loop {
        std::io::stdin().read_line(&mut String::new()).unwrap();
        let asked = last_question(store).await;
        let decision = match name {
            "one" => Resolution::Approve,
            _ => Resolution::Reject,
        };
        match store.resolve_approval(ApprovalAnswer::new(asked, decision)).await {
            Ok(_) => say("decided"),
            Err(error) => say(&error.to_string()),
        }
    }
}

/// Answered or not: the other process may be faster.
async fn last_question(store: &dyn EventStore) -> String {
    let events = store.read_after("s", None).await.unwrap();
    let asked = events.iter().rev().find_map(|event| match &event.event().body {
        EventBody::ApprovalRequested(request) => Some(request.approval_id.clone()),
        _ => None,
    });
    asked.unwrap()
}

/// Copies a session for ever.
async fn fork(store: &dyn EventStore) {
    loop {
        let id = RandomIds.next().to_string();
        store.fork_session("s", None, &id, None).await.unwrap();
        say("forked");
    }
}
