//! Two and three processes of `holodeck serve` on one store, with clients at work on all, of which some are killed and frozen at
//! random. After each fault every log is well formed and the same for everybody, every reader got the end of its run, no tool ran
//! twice for a message, and no process grew.
//!
//! The first process is frozen but never killed, so that one lives through all faults.
#![allow(
    clippy::indexing_slicing,
    reason = "indexing JSON by a key that is not there gives null"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result, bail, ensure};
use holodeck_testkit::{ModelServer, PostgresServer, ReceivedRequest, Reply};
use serde_json::{Value, json};

use self::fleet::{Fleet, ask};
use self::readers::Reader;
use crate::served::client::{Event, Events};
use crate::served::{Profile, build};
use crate::services;

mod fleet;
mod invariants;
mod readers;

/// Options of `soak deaths`.
#[derive(clap::Args)]
pub(super) struct Faults {
    /// How often `deaths` kills or freezes a process.
    #[arg(long, default_value_t = 60)]
    count: u32,
    /// The seed of `deaths`, to see the same faults again.
    #[arg(long)]
    seed: Option<u64>,
}

const SESSIONS: [&str; 4] = ["a", "b", "c", "d"];

/// The tool leaves a line for each call.
const NOTES: &str = "notes.txt";

/// A process that shows no sign of life for ten seconds loses its runs; this is longer than that, and than its notice.
const LONG: Duration = Duration::from_millis(13_500);

/// For everything that is to happen at last.
const PATIENCE: Duration = Duration::from_secs(45);

/// One answer. A frozen process gives none.
const ANSWER: Duration = Duration::from_secs(4);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Kill,
    /// Shorter than the lease.
    Freeze(Duration),
    FreezeForLong,
}

/// Numbers that are the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end.max(1)
    }

    fn index(&mut self, end: usize) -> usize {
        usize::try_from(self.below(end as u64)).unwrap_or_default()
    }

    fn fault(&mut self) -> Fault {
        match self.below(10) {
            0..6 => Fault::Kill,
            6..9 => Fault::Freeze(Duration::from_millis(100 + self.below(2_400))),
            _ => Fault::FreezeForLong,
        }
    }
}

/// The faults of all rounds, counted, and what came of them.
#[derive(Default)]
struct Tally {
    kills: u32,
    freezes: u32,
    long: u32,
    /// Long freezes during which the process kept the SQLite file locked.
    locked: u32,
    answered: u32,
    interrupted: u32,
    refused: u32,
    events: usize,
    growth: u64,
}

/// Kills and freezes on both stores.
pub(super) fn check(args: &Faults) -> Result<()> {
    let seed = args.seed.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        now.map_or(1, |now| u64::from(now.subsec_nanos()) | 1)
    });
    println!("seed {seed} (`--seed {seed}` shows the same faults again)");
    let program = build(Profile::Dev)?;
    services::postgres()?;
    let mut random = Random(seed.max(1));
    let places = [("SQLite", 2), ("SQLite", 3), ("PostgreSQL", 2), ("PostgreSQL", 3)];
    for (number, (store, processes)) in (0..).zip(places) {
        let rounds = args.count / 4 + u32::from(number < args.count % 4);
        let started = Instant::now();
        let mut tally = Tally::default();
        let all = Rounds::start(&program, store == "PostgreSQL", processes)
            .and_then(|mut all| all.run(rounds, &mut random, &mut tally));
        all.with_context(|| format!("{processes} processes on {store}, seed {seed}"))?;
        println!(
            "ok    {processes} processes on {store}: {} kills, {} short and {} long freezes ({} with the file locked); {} runs \
             answered, {} interrupted, {} late approvals refused; {} events, each reader got all of them; grew by {:.1} MB at \
             most; {} s",
            tally.kills,
            tally.freezes,
            tally.long,
            tally.locked,
            tally.answered,
            tally.interrupted,
            tally.refused,
            tally.events,
            tally.growth as f64 / 1e6,
            started.elapsed().as_secs()
        );
    }
    Ok(())
}

/// The model's answer: a tool for a message that names one, and some text.
fn answer(request: &ReceivedRequest) -> Reply {
    let questions = request.texts("user");
    let question = questions.last().copied().unwrap_or_default();
    let last = request.messages().last();
    let is_result = last.is_some_and(|last| last.get("role").is_some_and(|role| role == "tool"));
    let tool = ["note", "refund"]
        .into_iter()
        .find(|tool| question.starts_with(tool));
    match tool {
        Some(tool) if !is_result => Reply::tool_call(
            &format!("call-{}", request.index),
            tool,
            &json!({ "text": question }),
        ),
        _ => Reply::text("a word ".repeat(40))
            .in_pieces(40)
            .between_pieces(Duration::from_millis(4)),
    }
}

/// A message, and what is known of its run.
struct Sent {
    session: &'static str,
    mark: String,
    needs_person: bool,
    /// The process that accepted it, if the first one that was asked did.
    owner: Option<usize>,
    run: String,
    /// Whether the question was answered, or can't be any more.
    is_decided: bool,
}

/// The rounds on one store.
struct Rounds {
    program: PathBuf,
    folder: tempfile::TempDir,
    fleet: Fleet,
    /// One for each process in each conversation.
    readers: Vec<(&'static str, Reader)>,
    round: u32,
    _model: ModelServer,
    _database: Option<PostgresServer>,
}

impl Rounds {
    fn start(program: &Path, in_postgres: bool, processes: usize) -> Result<Self> {
        let model = ModelServer::answering(answer);
        let database = in_postgres.then(PostgresServer::start);
        let folder = tempfile::Builder::new().prefix("holodeck-deaths-").tempdir()?;
        let (url, tool) = (model.url(), format!("command: sh, args: [-c, 'cat >> {NOTES}']"));
        let parameters = "parameters: {text: {type: string, description: What.}}";
        let events = if in_postgres {
            "events: {store: postgres, url_env: EVENTS_DB}\n"
        } else {
            ""
        };
        let agent = format!(
            "name: desk
model: {{provider: openai, name: m, endpoint: \"{url}/v1\", api_key: sk-desk}}
instructions: {{inline: Answer briefly.}}
tools:
  - {{type: function, name: note, description: Notes., {tool}, {parameters}}}
  - {{type: function, name: refund, description: Refunds., {tool}, {parameters}}}
approvals:
  rules:
    - {{tools: note, decision: approve}}
    - {{tools: '*', approver: human}}
{events}"
        );
        fs::write(folder.path().join("agent.yaml"), agent)?;
        let env: Vec<_> = database
            .iter()
            .map(|database| ("EVENTS_DB", database.url()))
            .collect();
        let fleet = Fleet::start(program, folder.path(), &env, processes)?;
        let mut readers = Vec::new();
        for session in SESSIONS {
            let body = json!({ "sessionId": session });
            let created = ask(
                &fleet.addresses.get(0),
                "POST",
                "/v1/sessions",
                Some(&body),
                PATIENCE,
            );
            ensure!(
                created.as_ref().is_some_and(|(status, _)| *status == 201),
                "{session}: {created:?}"
            );
            for process in 0..processes {
                readers.push((session, Reader::start(&fleet.addresses, session, process)));
            }
        }
        Ok(Self {
            program: program.to_owned(),
            folder,
            fleet,
            readers,
            round: 0,
            _model: model,
            _database: database,
        })
    }

    fn run(&mut self, rounds: u32, random: &mut Random, tally: &mut Tally) -> Result<()> {
        for round in 0..rounds {
            self.round = round;
            // Each store has at least one, the last.
            let fault = if round + 1 == rounds {
                Fault::FreezeForLong
            } else {
                random.fault()
            };
            // A process that is never killed shows what grows.
            let victim = match fault {
                Fault::Kill => 1 + random.index(self.fleet.len() - 1),
                Fault::Freeze(_) | Fault::FreezeForLong => random.index(self.fleet.len()),
            };
            self.round(fault, victim, random, tally).with_context(|| {
                format!(
                    "round {round}: {fault:?} of process {victim}; {}",
                    self.log_ends()
                )
            })?;
        }
        tally.growth = self.fleet.growth()?;
        for (_, reader) in &self.readers {
            reader.finish();
        }
        Ok(())
    }

    fn round(&mut self, fault: Fault, victim: usize, random: &mut Random, tally: &mut Tally) -> Result<()> {
        let targets: Vec<(usize, u64)> = SESSIONS
            .iter()
            .map(|_| (random.index(self.fleet.len()), random.below(3)))
            .collect();
        let delay = Duration::from_millis(random.below(350));
        let posts: Vec<_> = SESSIONS
            .into_iter()
            .zip(targets)
            .map(|(session, (target, kind))| {
                let words = ["say", "note", "refund"];
                let kind = words
                    .get(usize::try_from(kind).unwrap_or_default())
                    .copied()
                    .unwrap_or("say");
                let mark = format!("{kind} {session}-{}-end", self.round);
                let (addresses, text) = (self.fleet.addresses.clone(), mark.clone());
                let sent = thread::spawn(move || {
                    let address = addresses.get(target);
                    let body = json!({ "message": text, "clientMessageId": text });
                    ask(
                        &address,
                        "POST",
                        &format!("/v1/sessions/{session}/messages"),
                        Some(&body),
                        ANSWER,
                    )
                });
                (session, target, kind, mark, sent)
            })
            .collect();
        thread::sleep(delay);
        let frozen_until = self.begin(fault, victim, tally)?;
        let mut all = Vec::new();
        for (session, target, kind, mark, sent) in posts {
            let first = sent.join().ok().flatten();
            let (owner, run) = match first {
                Some((202, accepted)) => (Some(target), accepted["runId"].clone()),
                _ => (None, self.send_again(session, &mark, victim, fault)?),
            };
            all.push(Sent {
                session,
                mark,
                needs_person: kind == "refund",
                owner,
                run: run.as_str().context("a message without a run")?.to_owned(),
                is_decided: false,
            });
        }
        self.until_ends(&mut all, fault, victim, frozen_until, tally)?;
        if fault == Fault::Kill {
            self.fleet.restart(victim)?;
        }
        self.check_after(&all, tally)
    }

    /// Does it. Returns until when the process is frozen.
    fn begin(&mut self, fault: Fault, victim: usize, tally: &mut Tally) -> Result<Option<Instant>> {
        let wait = match fault {
            Fault::Kill => {
                tally.kills += 1;
                self.fleet.kill(victim)?;
                return Ok(None);
            }
            Fault::Freeze(wait) => {
                tally.freezes += 1;
                wait
            }
            Fault::FreezeForLong => {
                tally.long += 1;
                LONG
            }
        };
        self.fleet.signal(victim, "-STOP")?;
        Ok(Some(Instant::now() + wait))
    }

    /// Sends a message again, as a client does that got no answer: the same one, to another process.
    fn send_again(&self, session: &str, mark: &str, victim: usize, fault: Fault) -> Result<Value> {
        let body = json!({ "message": mark, "clientMessageId": mark });
        let path = format!("/v1/sessions/{session}/messages");
        let started = Instant::now();
        let mut last = None;
        for process in (0..).filter(|process| process % self.fleet.len() != victim) {
            let answer = ask(
                &self.fleet.addresses.get(process),
                "POST",
                &path,
                Some(&body),
                ANSWER,
            );
            if let Some((200 | 202, accepted)) = &answer {
                return Ok(accepted["runId"].clone());
            }
            last = answer.or(last);
            // With a file that a frozen process keeps locked, nothing can be stored.
            if matches!(fault, Fault::Freeze(_) | Fault::FreezeForLong) && self.fleet.holds_lock(victim)? {
                self.fleet.signal(victim, "-CONT")?;
            }
            if started.elapsed() > PATIENCE {
                break;
            }
            thread::sleep(Duration::from_millis(100));
        }
        bail!("`{mark}` was not accepted by any process: {last:?}")
    }

    /// Waits until every reader got the end of every run, and answers questions about tools.
    fn until_ends(
        &self,
        all: &mut [Sent],
        fault: Fault,
        victim: usize,
        mut frozen_until: Option<Instant>,
        tally: &mut Tally,
    ) -> Result<()> {
        let started = Instant::now();
        loop {
            if frozen_until.is_some_and(|until| Instant::now() >= until) {
                let is_late = fault == Fault::FreezeForLong && !self.have_ended_elsewhere(all, victim)?;
                let holds_lock = self.fleet.holds_lock(victim)?;
                self.fleet.signal(victim, "-CONT")?;
                frozen_until = None;
                if is_late && holds_lock {
                    tally.locked += 1;
                } else if is_late {
                    bail!(
                        "a process was frozen for {LONG:?}, and readers of others got no end: {}",
                        self.open(all)
                    );
                }
            }
            let is_frozen = frozen_until.is_some();
            for sent in all.iter_mut() {
                self.decide(sent, fault, victim, is_frozen, tally)?;
            }
            if !is_frozen && self.have_ended(all, None) {
                return Ok(());
            }
            ensure!(
                started.elapsed() < PATIENCE + LONG,
                "readers without an end: {}",
                self.open(all)
            );
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Whether every reader, but those at a process, got the end of the runs.
    fn have_ended(&self, all: &[Sent], except: Option<usize>) -> bool {
        all.iter().all(|sent| {
            let mut readers = self.readers.iter().filter(|(session, reader)| {
                *session == sent.session && Some(reader.process(self.fleet.len())) != except
            });
            readers.all(|(_, reader)| end_of(&reader.received(), &sent.run).is_some())
        })
    }

    /// Whether a reader got the end of a run.
    fn has_end(&self, sent: &Sent) -> bool {
        let mut readers = self
            .readers
            .iter()
            .filter(|(session, _)| *session == sent.session);
        readers.any(|(_, reader)| end_of(&reader.received(), &sent.run).is_some())
    }

    /// Whether all runs have an end at a process that is not frozen, and for the readers there.
    fn have_ended_elsewhere(&self, all: &[Sent], frozen: usize) -> Result<bool> {
        let other = (0..self.fleet.len())
            .find(|process| *process != frozen)
            .context("one process")?;
        for sent in all {
            let stored = Events::stored(&self.fleet.addresses.get(other), sent.session)?;
            if end_of(&stored, &sent.run).is_none() {
                return Ok(false);
            }
        }
        Ok(self.have_ended(all, Some(frozen)))
    }

    /// The readers that wait for an end.
    fn open(&self, all: &[Sent]) -> String {
        let mut open = Vec::new();
        for sent in all {
            for (number, (session, reader)) in self.readers.iter().enumerate() {
                let received = reader.received();
                if *session == sent.session && end_of(&received, &sent.run).is_none() {
                    let last = received.last().map(|event| event.data.clone());
                    open.push(format!(
                        "reader {number} of `{}` (owner {:?}) has {last:?}",
                        sent.mark, sent.owner
                    ));
                }
            }
        }
        open.join("\n")
    }

    /// Answers the question about a tool, if there is one, and checks that the answer is true.
    fn decide(
        &self,
        sent: &mut Sent,
        fault: Fault,
        victim: usize,
        is_frozen: bool,
        tally: &mut Tally,
    ) -> Result<()> {
        if sent.is_decided || !sent.needs_person {
            return Ok(());
        }
        let Some(approval) = self.question(sent) else {
            return Ok(());
        };
        let is_victims = sent.owner == Some(victim);
        let has_ended = self.has_end(sent);
        // Of a frozen process: when its run is over, or when it woke up.
        if is_victims && is_frozen && !has_ended {
            return Ok(());
        }
        let asked = (0..self.fleet.len())
            .find(|process| *process != victim)
            .unwrap_or_default();
        let path = format!("/v1/approvals/{approval}");
        let body = json!({ "decision": "approve" });
        let Some((status, said)) = ask(
            &self.fleet.addresses.get(asked),
            "POST",
            &path,
            Some(&body),
            ANSWER,
        ) else {
            return Ok(());
        };
        if status == 503 {
            return Ok(());
        }
        let must_refuse = has_ended || (is_victims && fault == Fault::Kill);
        let may_refuse = must_refuse || sent.owner.is_none() || is_victims || self.has_end(sent);
        match status {
            409 if may_refuse => {
                ensure!(said["code"] == "ALREADY_RESOLVED", "`{}`: {said}", sent.mark);
                tally.refused += 1;
            }
            200 if !must_refuse => {}
            _ => bail!(
                "approving `{}` of a run with owner {:?} answered {status}: {said}",
                sent.mark,
                sent.owner
            ),
        }
        sent.is_decided = true;
        Ok(())
    }

    /// The open question of a run, as any reader knows it.
    fn question(&self, sent: &Sent) -> Option<String> {
        let readers = self
            .readers
            .iter()
            .filter(|(session, _)| *session == sent.session);
        for (_, reader) in readers {
            let received = reader.received();
            let own = received
                .iter()
                .rev()
                .filter(|event| event.is("approval_requested"));
            for event in own {
                let Ok(event) = event.json() else { continue };
                if event["runId"] == sent.run.as_str() {
                    return event["approvalId"].as_str().map(str::to_owned);
                }
            }
        }
        None
    }

    /// The last lines of what the processes logged.
    fn log_ends(&self) -> String {
        let ends = (0..self.fleet.len()).map(|number| {
            let log =
                fs::read_to_string(self.folder.path().join(format!("log-{number}"))).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let skipped = lines.len().saturating_sub(6);
            let lines: Vec<&str> = lines.into_iter().skip(skipped).collect();
            format!("process {number} logged at last:\n{}", lines.join("\n"))
        });
        ends.collect::<Vec<_>>().join("\n")
    }
}

/// The end of a run among events.
fn end_of(events: &[Event], run: &str) -> Option<Value> {
    let ends = events
        .iter()
        .rev()
        .filter(|event| event.is("complete") || event.is("error"));
    ends.filter_map(|event| event.json().ok())
        .find(|event| event["runId"] == run)
}
