//! A run that is killed at random moments and resumed repeats nothing, loses nothing, and ends like an uninterrupted
//! one.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Stdio},
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    time::{Duration, Instant, SystemTime},
};

use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::project::Project;

/// How many runs are started and killed; `cargo xtask soak resume` sets more.
pub(crate) const ROUNDS: &str = "HOLODECK_KILL_ROUNDS";
/// The seed of the random numbers, to repeat a failure.
pub(crate) const SEED: &str = "HOLODECK_KILL_SEED";

const CASES: usize = 40;

#[test]
fn a_killed_run_is_resumed_without_loss() {
    let rounds = number_from_env(ROUNDS).unwrap_or(20);
    let seed = number_from_env(SEED).unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        now.unwrap().as_secs()
    });
    let bench = Bench::start(seed);
    let mut kills = 0;
    for round in 0..rounds {
        println!("round {round}; repeat with {SEED}={}", seed + round);
        kills += bench.round(&mut Random(seed + round));
    }
    println!("{kills} kills in {rounds} rounds");
    assert!(kills > 0, "no run was killed before it ended by itself");
}

/// Shared by all rounds: the endpoint, and the result of an uninterrupted run.
struct Bench {
    server: ModelServer,
    /// The question of each request, in order.
    asked: Arc<Mutex<Vec<String>>>,
    uninterrupted: Ending,
    /// Its duration.
    usual: Duration,
}

impl Bench {
    fn start(seed: u64) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let server = ModelServer::answering({
            let asked = Arc::clone(&asked);
            move |request| {
                let question = (*request.texts("user").last().unwrap()).to_owned();
                asked.lock().unwrap().push(question.clone());
                let delay = Random(seed ^ request.index as u64).below(12);
                answer(&question).after(Duration::from_millis(delay))
            }
        });
        let project = project(&server.url());
        let started = Instant::now();
        let run = Running::start(&project).until(None);
        let usual = started.elapsed();
        let code = run.code.expect("the run was not killed");
        Self {
            uninterrupted: Ending::read(&project, code),
            server,
            asked,
            usual,
        }
    }

    /// Starts, kills and resumes a run until it ends by itself. Returns how often it was killed.
    fn round(&self, random: &mut Random) -> usize {
        let project = project(&self.server.url());
        let planned = 1 + random.below(4);
        let mut reported: BTreeMap<u64, Value> = BTreeMap::new();
        let mut kills = 0;
        let code = loop {
            let moment = (kills < planned).then(|| Moment::choose(random, self.usual));
            let asked_before = self.asked.lock().unwrap().len();
            // A recorded case has an answer, whether it was graded or not.
            let answered_before: BTreeSet<u64> = answered(&project).into_keys().collect();
            let run = Running::start(&project).until(moment);
            for result in run.finished {
                let index = result["index"].as_u64().unwrap();
                assert!(
                    reported.insert(index, result).is_none(),
                    "case {index} was reported twice"
                );
            }
            let asked = self.asked.lock().unwrap();
            let again: Vec<_> = asked[asked_before..]
                .iter()
                .filter(|question| answered_before.contains(&index_of(question)))
                .collect();
            assert!(again.is_empty(), "asked again though answered: {again:?}");
            match run.code {
                Some(code) => break code,
                None => kills += 1,
            }
        };
        let recorded = answered(&project);
        for (index, result) in &reported {
            assert_eq!(
                Some(&result["agent_response"]),
                recorded.get(index),
                "case {index}: reported, recorded"
            );
        }
        assert_eq!(code, self.uninterrupted.code, "{}", project.read("stderr.txt"));
        assert_eq!(Ending::read(&project, code), self.uninterrupted);
        usize::try_from(kills).unwrap()
    }
}

/// Right and wrong answers, refused requests, and cases of two turns.
fn answer(question: &str) -> Reply {
    match index_of(question) % 8 {
        3 => Reply::text(format!("I don't know: {question}")),
        // Long enough to be graded on a thread of its own.
        6 => Reply::text("The answer to everything is 42, and so on. ".repeat(400)),
        5 => Reply::openai_error(400, "this question is refused", Some("refused"), None),
        _ => Reply::text(format!("The answer to {question} is 42")).in_pieces(4),
    }
}

/// `case 7, turn 1` → 7.
fn index_of(question: &str) -> u64 {
    let number = question.split([' ', ',']).nth(1);
    number.unwrap().parse().unwrap()
}

/// When a run is killed.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// After some time, in any state of the run.
    Time(Duration),
    /// At once when this many cases are reported: a record may be written or not.
    Reported(usize),
    /// At once when this many answers are recorded: the last one is likely not graded.
    Answered(usize),
}

impl Moment {
    fn choose(random: &mut Random, usual: Duration) -> Self {
        let count = usize::try_from(random.below(30)).unwrap();
        match random.below(3) {
            0 => {
                let micros = u64::try_from(usual.as_micros()).unwrap();
                Self::Time(Duration::from_micros(random.below(micros)))
            }
            1 => Self::Reported(count),
            _ => Self::Answered(count),
        }
    }
}

fn project(endpoint: &str) -> Project {
    let mut agent = format!(
        "name: killed
model: {{provider: openai, name: m, endpoint: \"{endpoint}\"}}
instructions: {{inline: Answer.}}
execution: {{parallel_test_cases: 4}}
evaluations:
  metrics:
    - {{type: standard, metric: contains, value: \"42\"}}
    - {{type: standard, metric: rouge}}
test_cases:
"
    );
    for index in 0..CASES {
        let asked = if index % 8 == 1 {
            format!("turns: [{{input: \"case {index}, turn 1\"}}, {{input: \"case {index}, turn 2\"}}]")
        } else {
            format!("input: \"case {index}, once\"")
        };
        writeln!(agent, "  - {{name: c{index}, {asked}}}").unwrap();
    }
    Project::with(&agent)
}

/// The answers in the journal, each exactly once. A killed run may have left an incomplete line.
fn answered(project: &Project) -> BTreeMap<u64, Value> {
    let mut answers = BTreeMap::new();
    let Some(journal) = project.journals().pop() else {
        return answers;
    };
    let text = fs::read_to_string(journal).unwrap();
    for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
        let line: Value = serde_json::from_str(line).unwrap();
        let Some(turns) = line["ran"]["unit"]["turns"].as_array() else {
            continue;
        };
        let index = index_of(turns[0]["input"].as_str().unwrap());
        let mut answer = turns.iter().rev().map(|turn| &turn["result"]["response"]);
        let answer = answer.find(|answer| **answer != "").cloned();
        assert!(
            answers.insert(index, answer.unwrap_or_default()).is_none(),
            "case {index} was recorded twice"
        );
    }
    answers
}

/// How a run ended: its exit code, and its run file without what differs from run to run.
#[derive(Debug, PartialEq)]
struct Ending {
    code: i32,
    run_file: Value,
}

impl Ending {
    fn read(project: &Project, code: i32) -> Self {
        let mut run_file = project.run_file();
        let cases = run_file["report"]["results"].as_array().map(Vec::len);
        assert_eq!(cases, Some(CASES));
        blank(&mut run_file);
        Self { code, run_file }
    }
}

/// Times, ids, and the command line, which differs for a resumed run.
const VARYING: &[&str] = &[
    "cli_args",
    "created_at",
    "evaluation_time_ms",
    "execution_time_ms",
    "latency_ms",
    "run_id",
    "timestamp",
    "total_duration_ms",
];

fn blank(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if VARYING.contains(&key.as_str()) {
                    *value = Value::Null;
                } else {
                    blank(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(blank),
        _ => {}
    }
}

/// A started `holodeck test`.
struct Running {
    /// Where its journal is, or will be.
    journal: PathBuf,
    child: Child,
    lines: Receiver<String>,
}

/// The output of a run.
struct RunOutput {
    /// Absent when it was killed.
    code: Option<i32>,
    /// The results it reported as finished.
    finished: Vec<Value>,
}

impl Running {
    /// Starts a run, or resumes the existing one.
    fn start(project: &Project) -> Self {
        let arguments: &[&str] = if project.journals().is_empty() {
            &["test", "--live", "--json"]
        } else {
            &["test", "resume", "latest", "--json"]
        };
        let mut child = project
            .command(arguments)
            .env("OPENAI_API_KEY", "dummy")
            .stdout(Stdio::piped())
            .stderr(fs::File::create(project.path("stderr.txt")).unwrap())
            .spawn()
            .unwrap();
        let lines = lines_of(child.stdout.take().unwrap());
        Self {
            journal: project.path(".holodeck/runs"),
            child,
            lines,
        }
    }

    /// Reads the output; kills the run with SIGKILL at `moment`, or lets it end.
    fn until(mut self, moment: Option<Moment>) -> RunOutput {
        let started = Instant::now();
        let mut finished = Vec::new();
        loop {
            let timeout = match moment {
                Some(Moment::Time(time)) => time.saturating_sub(started.elapsed()),
                Some(Moment::Reported(count)) if finished.len() >= count => Duration::ZERO,
                Some(Moment::Answered(count)) if answers_in(&self.journal) >= count => Duration::ZERO,
                Some(Moment::Answered(_)) => Duration::from_micros(100),
                Some(Moment::Reported(_)) | None => Duration::from_mins(1),
            };
            let polls_journal = matches!(moment, Some(Moment::Answered(_))) && !timeout.is_zero();
            match self.lines.recv_timeout(timeout) {
                Ok(line) => finished.extend(finished_case(&line)),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) if polls_journal => {}
                Err(RecvTimeoutError::Timeout) => {
                    assert!(moment.is_some(), "the run does not end");
                    self.child.kill().unwrap();
                    // Lines written before the kill count too.
                    finished.extend(self.lines.iter().filter_map(|line| finished_case(&line)));
                    break;
                }
            }
        }
        let code = self.child.wait().unwrap().code();
        RunOutput { code, finished }
    }
}

/// How many answers the only journal in a folder holds.
fn answers_in(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let texts = entries.filter_map(|entry| fs::read_to_string(entry.path()).ok());
    texts.map(|text| text.matches("{\"ran\":").count()).sum()
}

/// The complete lines of the output; an incomplete last line is dropped.
fn lines_of(stdout: ChildStdout) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(stdout);
        let mut line = String::new();
        while reader.read_line(&mut line).unwrap() > 0 && line.ends_with('\n') {
            if sender.send(std::mem::take(&mut line)).is_err() {
                return;
            }
        }
    });
    lines
}

fn finished_case(line: &str) -> Option<Value> {
    let mut event: Value = serde_json::from_str(line).unwrap();
    (event["event"] == "case_finished").then(|| event["result"].take())
}

/// Numbers that depend only on their seed (splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// Below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % bound
    }
}

pub(crate) fn number_from_env(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap())
}
