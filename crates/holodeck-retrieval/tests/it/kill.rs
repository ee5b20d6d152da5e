//! An ingest that is killed at random moments and restarted produces the same index as an undisturbed one, and repeats
//! only requests that were in flight.

use std::{
    collections::HashMap,
    env, fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::SystemTime,
};

use holodeck_http::{HttpClient, HttpOptions};
use holodeck_model::{EmbeddingProvider, EmbeddingSettings, Env};
use holodeck_retrieval::{
    CachedEmbedder, EmbeddedStore, EndpointOptions, HashEmbedder, IngestEvent, IngestMode, Ingestor,
    ModelCache, embedder,
};
use holodeck_testkit::{EndpointServer, ReceivedRequest, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::corpus::{MemoryCorpus, dump};

/// Number of kills; `cargo xtask soak ingest` sets more.
const ROUNDS: &str = "HOLODECK_KILL_ROUNDS";
/// Seed of the random choices, to repeat a failure.
const SEED: &str = "HOLODECK_KILL_SEED";
/// Where a child finds its corpus and the server.
const FOLDER: &str = "HOLODECK_TEST_INGEST";
const SERVER: &str = "HOLODECK_TEST_SERVER";

/// Texts of one step: the most that a kill may cost.
const IN_FLIGHT: usize = 512;

#[tokio::test]
async fn a_killed_ingest_continues_without_loss() {
    let wanted = number_from_env(ROUNDS).unwrap_or(12);
    let seed = number_from_env(SEED).unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        now.unwrap().as_secs()
    });
    let server = Server::start();
    let undisturbed = Index::new(&corpus(1));
    assert_eq!(undisturbed.run(&server, Moment::Never), End::ByItself);
    let expected = undisturbed.dump().await;
    assert!(expected.lines().count() > 1000);
    let whole = server.work_done(&undisturbed);
    let updated = Index::new(&corpus(0));
    assert_eq!(updated.run(&server, Moment::Never), End::ByItself);
    updated.write(&corpus(1));
    assert_eq!(updated.run(&server, Moment::Never), End::ByItself);
    assert!(updated.dump().await == expected, "an update differs");
    let update = server.work_done(&updated);
    let mut kills = 0;
    let mut round = 0;
    while kills < wanted {
        println!("index {round}; repeat with {SEED}={} {ROUNDS}=1", seed + round);
        let random = &mut Random(seed + round);
        // From nothing, or from an older state of the same files.
        let index = Index::new(&corpus(random.below(2)));
        let mut usual = whole;
        if index.is_old() {
            usual = update;
            assert_eq!(index.run(&server, Moment::Never), End::ByItself);
            index.write(&corpus(1));
        }
        server.paid.lock().unwrap().clear();
        let planned = 2 + random.below(4);
        let mut own = 0;
        while own < planned {
            // Less work remains each time.
            let (events, requests) = usual;
            let moment = Moment::choose(random, events / (1 + own), requests / (1 + own));
            match index.run(&server, moment) {
                End::ByItself => break,
                End::Killed => own += 1,
            }
        }
        assert_eq!(index.run(&server, Moment::Never), End::ByItself);
        let paid = server.paid.lock().unwrap().clone();
        let again: usize = paid.values().map(|times| times - 1).sum();
        let bound = own * IN_FLIGHT;
        assert!(
            again <= bound,
            "{again} texts were paid for again after {own} kills"
        );
        assert!(index.dump().await == expected, "the index differs; see {SEED}");
        kills += own as u64;
        round += 1;
        assert!(
            round < 10 * wanted,
            "hardly any ingest is killed before it ends by itself"
        );
    }
    println!("{kills} kills of {round} indexes");
}

/// The test process that is killed; the environment configures it.
#[test]
#[ignore = "a part of the other one"]
fn child() {
    let Some(folder) = env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    let server = env::var(SERVER).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let corpus = fs::read(folder.join("corpus.json")).unwrap();
        let corpus: MemoryCorpus = serde_json::from_slice(&corpus).unwrap();
        let settings = EmbeddingSettings {
            provider: EmbeddingProvider::Openai,
            model: "any".to_owned(),
            endpoint: Some(server),
            api_key: None,
            api_version: None,
            rpm: None,
            dimensions: None,
            block: "embedding_provider",
        };
        let client = HttpClient::new(&HttpOptions::default()).unwrap();
        let embedder = embedder(&settings, &client, &Env::empty(), &EndpointOptions::default()).unwrap();
        let cache = ModelCache::open(folder.join("cache.db")).await.unwrap();
        let store = EmbeddedStore::open(folder.join("index.db")).await.unwrap();
        let ingestor = Ingestor::new(Arc::new(store), Arc::new(CachedEmbedder::new(embedder, cache)));
        let progress = |event: IngestEvent| {
            let line = match event {
                IngestEvent::Stored { done, .. } => format!("stored {done}"),
                other => format!("{other:?}").chars().take(20).collect(),
            };
            let mut out = std::io::stdout().lock();
            writeln!(out, "event {line}").unwrap();
            out.flush().unwrap();
            // The reader of this pipe kills this process or lets it continue.
            std::io::stdin().read_line(&mut String::new()).unwrap();
        };
        let report = ingestor
            .ingest(
                Arc::new(corpus),
                IngestMode::Update,
                &progress,
                &CancellationToken::new(),
            )
            .await
            .unwrap();
        assert_eq!(report.failed, []);
    });
}

/// When a process is killed: by its progress, not by the clock.
#[derive(Clone, Copy, Debug)]
enum Moment {
    Never,
    /// After this number of events.
    Event(usize),
    /// After this number of requests, before the answer.
    Request(usize),
    /// After this number of busy-loop iterations following an event.
    After(usize, usize),
}

impl Moment {
    fn choose(random: &mut Random, events: usize, requests: usize) -> Self {
        match random.below(3) {
            0 => Self::Event(random.below(events)),
            1 => Self::Request(1 + random.below(requests)),
            _ => Self::After(random.below(events), random.below(500_000)),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    ByItself,
    Killed,
}

struct Index {
    folder: tempfile::TempDir,
    /// Of the last run.
    events: AtomicUsize,
}

impl Index {
    fn new(corpus: &MemoryCorpus) -> Self {
        let index = Self {
            folder: tempfile::tempdir().unwrap(),
            events: AtomicUsize::new(0),
        };
        index.write(corpus);
        index
    }

    fn write(&self, corpus: &MemoryCorpus) {
        let path = self.folder.path().join("corpus.json");
        fs::write(path, serde_json::to_vec(corpus).unwrap()).unwrap();
    }

    fn is_old(&self) -> bool {
        let written = fs::read(self.folder.path().join("corpus.json")).unwrap();
        serde_json::from_slice::<MemoryCorpus>(&written).unwrap() == corpus(0)
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    async fn dump(&self) -> String {
        dump(&self.path().join("index.db")).await
    }

    /// Runs an ingest in its own process until `moment`, or until it ends.
    fn run(&self, server: &Server, moment: Moment) -> End {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "kill::child", "--ignored", "--nocapture"])
            .env(FOLDER, self.path())
            .env(SERVER, server.url())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut resume = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let victim = Arc::new(Victim {
            child: Mutex::new(child),
            killed: AtomicBool::new(false),
            moment,
        });
        *server.victim.lock().unwrap() = Some(Arc::clone(&victim));
        server.requests.store(0, Ordering::Relaxed);
        let mut events = 0;
        for line in lines.map_while(Result::ok) {
            if line.contains("event ") {
                victim.on_event(events, || {
                    // It may have ended already.
                    let _ = resume.write_all(b"\n");
                });
                events += 1;
            }
        }
        *server.victim.lock().unwrap() = None;
        self.events.store(events, Ordering::Relaxed);
        let mut child = victim.child.lock().unwrap();
        let ended = child.wait().unwrap();
        if ended.success() {
            return End::ByItself;
        }
        let mut output = String::new();
        child.stderr.take().unwrap().read_to_string(&mut output).unwrap();
        assert!(victim.killed.load(Ordering::Relaxed), "{output}");
        End::Killed
    }
}

/// A process that may be killed; not by SIGTERM, so it prints nothing at the end.
struct Victim {
    child: Mutex<Child>,
    killed: AtomicBool,
    moment: Moment,
}

impl Victim {
    /// Called for each event, after `before` earlier ones, while the process waits.
    fn on_event(&self, before: usize, resume: impl FnOnce()) {
        match self.moment {
            Moment::Event(at) if before == at => self.kill(),
            Moment::After(at, turns) if before == at => {
                resume();
                for turn in 0..turns {
                    std::hint::black_box(turn);
                }
                self.kill();
            }
            _ => resume(),
        }
    }

    /// Called for the request of this number.
    fn on_request(&self, number: usize) {
        if matches!(self.moment, Moment::Request(at) if at == number) {
            self.kill();
        }
    }

    fn kill(&self) {
        self.killed.store(true, Ordering::Relaxed);
        self.child.lock().unwrap().kill().unwrap();
    }
}

/// Embeds with hashes, counts the texts, and kills the process at the chosen request.
struct Server {
    endpoint: EndpointServer,
    /// How often each text was requested and answered.
    paid: Arc<Mutex<HashMap<String, usize>>>,
    requests: Arc<AtomicUsize>,
    victim: Arc<Mutex<Option<Arc<Victim>>>>,
}

impl Server {
    fn start() -> Self {
        let paid = Arc::new(Mutex::new(HashMap::new()));
        let requests = Arc::new(AtomicUsize::new(0));
        let victim = Arc::new(Mutex::new(None::<Arc<Victim>>));
        let endpoint = EndpointServer::answering({
            let (paid, requests, victim) = (Arc::clone(&paid), Arc::clone(&requests), Arc::clone(&victim));
            move |request| {
                let number = requests.fetch_add(1, Ordering::Relaxed) + 1;
                let victim = victim.lock().unwrap().clone();
                if let Some(victim) = victim {
                    victim.on_request(number);
                }
                answer(request, &paid)
            }
        });
        Self {
            endpoint,
            paid,
            requests,
            victim,
        }
    }

    /// Events and requests of an index's last run.
    fn work_done(&self, index: &Index) -> (usize, usize) {
        (
            index.events.load(Ordering::Relaxed),
            self.requests.load(Ordering::Relaxed),
        )
    }

    fn url(&self) -> String {
        self.endpoint.url()
    }
}

fn answer(request: &ReceivedRequest, paid: &Mutex<HashMap<String, usize>>) -> Reply {
    let embedder = HashEmbedder::new(32);
    let texts = request.body["input"].as_array().unwrap();
    let mut paid = paid.lock().unwrap();
    let data: Vec<Value> = texts
        .iter()
        .enumerate()
        .map(|(index, text)| {
            let text = text.as_str().unwrap();
            *paid.entry(text.to_owned()).or_default() += 1;
            json!({"index": index, "embedding": embedder.vector(text)})
        })
        .collect();
    Reply::raw(200, "application/json", json!({"data": data}).to_string())
}

/// The files before (0) and after (1) edits, removals, renames and additions.
fn corpus(state: usize) -> MemoryCorpus {
    let mut corpus = MemoryCorpus::of(&[]);
    for source in 0..40_u64 {
        let large = if source == 11 { 1300 } else { 0 };
        let count = (source * 37) % 80 + large;
        let edited = state == 1 && source % 4 != 0;
        let pieces: Vec<String> = (0..count)
            .map(|piece| {
                let version = if edited && piece % 3 == 0 { " (edited)" } else { "" };
                format!("source {source} describes piece {piece}{version}")
            })
            .collect();
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        let name = match (state, source) {
            (0, 17) => "old-name.md".to_owned(),
            (0, 23) | (1, 29) => continue,
            _ => format!("{source:02}.md"),
        };
        corpus.set(&name, &pieces);
    }
    corpus
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % end.max(1) as u64).unwrap()
    }
}

fn number_from_env(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}
