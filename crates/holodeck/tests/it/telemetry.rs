//! Tests of exported traces and metrics, received by an OTLP collector on loopback.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use holodeck::{AnswerSource, OpenOptions, TestOptions, model::Severity, runner::RunControl};
use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;

use crate::support::Project;

const CASES: &str = "  - {name: first, input: PRIVATE, ground_truth: Paris}\n";

/// Stores the requests that it receives.
struct Collector {
    url: String,
    requests: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let received = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let received = Arc::clone(&received);
                thread::spawn(move || serve(stream.unwrap(), &received));
            }
        });
        Self { url, requests }
    }

    fn paths(&self) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        let line = |request: &Vec<u8>| {
            String::from_utf8_lossy(request)
                .split(' ')
                .nth(1)
                .unwrap()
                .to_owned()
        };
        let mut paths: Vec<String> = requests.iter().map(line).collect();
        paths.sort_unstable();
        paths
    }

    fn contains(&self, words: &str) -> bool {
        self.count(words) > 0
    }

    fn count(&self, words: &str) -> usize {
        let requests = self.requests.lock().unwrap();
        let windows = requests.iter().flat_map(|request| request.windows(words.len()));
        windows.filter(|window| *window == words.as_bytes()).count()
    }
}

fn serve(mut stream: TcpStream, received: &Mutex<Vec<Vec<u8>>>) {
    let mut request = Vec::new();
    let mut buffer = [0; 8192];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        request.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&request).to_ascii_lowercase();
        let Some((head, _)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let (_, length) = head.split_once("content-length: ").unwrap();
        let length: usize = length.lines().next().unwrap().trim().parse().unwrap();
        if request.len() == head.len() + 4 + length {
            received.lock().unwrap().push(std::mem::take(&mut request));
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                .unwrap();
        }
    }
}

fn project(server: &ModelServer, observability: &str) -> Project {
    let project = Project::asking(&server.url(), CASES);
    let yaml = std::fs::read_to_string(project.path("agent.yaml")).unwrap();
    project.write("agent.yaml", &format!("{yaml}observability: {observability}\n"));
    project
}

fn otlp(collector: &Collector) -> String {
    format!(
        "{{enabled: true, exporters: {{otlp: {{endpoint: \"{}\"}}}}}}",
        collector.url
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_exported_at_its_end_but_not_if_it_is_only_prepared_or_replayed() {
    let server = ModelServer::answering(|_| Reply::text("It is Paris."));
    let collector = Collector::start();
    let project = project(&server, &otlp(&collector));
    let options = TestOptions::default();
    let prepared = holodeck::prepare_test(project.agent(), &project.env, &options).await;
    drop(prepared.unwrap());
    let recording = TestOptions {
        open: OpenOptions {
            record: Some(project.path("c.jsonl")),
            ..OpenOptions::default()
        },
        ..TestOptions::default()
    };
    assert_eq!(project.test(recording).await.unwrap().exit.code(), 0);
    assert_eq!(collector.paths(), ["/v1/metrics", "/v1/traces"]);
    for words in ["invoke_agent a", "holodeck test", "first"] {
        assert!(collector.contains(words), "{words}");
    }
    assert!(!collector.contains("PRIVATE") && !collector.contains("Paris"));
    let replay = TestOptions {
        open: OpenOptions {
            answers: AnswerSource::Replay(project.path("c.jsonl")),
            ..OpenOptions::default()
        },
        ..TestOptions::default()
    };
    assert_eq!(project.test(replay).await.unwrap().exit.code(), 0);
    assert_eq!(collector.paths().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_cannot_be_reached_changes_no_verdict() {
    let server = ModelServer::answering(|_| Reply::text("It is Paris."));
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for exporter in [
        format!("endpoint: \"http://{closed}\""),
        format!("protocol: grpc, endpoint: \"http://{closed}\", insecure: true"),
        format!("protocol: grpc, endpoint: \"{closed}\", insecure: false"),
        "endpoint: \"ftp://nowhere\"".to_owned(),
        "endpoint: \"http://\"".to_owned(),
        "headers: {\"a b\": c}".to_owned(),
    ] {
        let observability = format!("{{enabled: true, exporters: {{otlp: {{{exporter}}}}}}}");
        let outcome = project(&server, &observability)
            .test(TestOptions::default())
            .await
            .unwrap();
        assert_eq!(outcome.exit.code(), 0, "{exporter}");
    }
}

#[test]
fn loading_reports_what_has_no_effect() {
    let server = ModelServer::answering(|_| Reply::text("x"));
    let load = |observability: &str| {
        let project = project(&server, observability);
        let load = holodeck::load(&project.path("agent.yaml"), &project.env);
        let found = load
            .diagnostics
            .iter()
            .filter(|found| found.severity < Severity::Note);
        let found: Vec<_> = found
            .map(|found| (found.message.clone(), found.primary.as_ref().map(|at| at.line)))
            .collect();
        (load.agent.is_some(), found)
    };
    let (sound, found) = load("\n  enabled: true\n  exporters:\n    otlp: {protocol: grpc}");
    assert!(sound);
    assert_eq!(found, []);
    let (sound, found) = load("\n  enabled: true\n  exporters:\n    prometheus: {enabled: true}");
    assert!(sound);
    let message = "of `observability`, `exporters.prometheus` has no effect".to_owned();
    // The line of the exporter itself.
    assert_eq!(found, [(message, Some(10))]);
}

const GRADED: &str = "  - {name: one, input: q, ground_truth: Paris, trials: 2}\n  - name: many\n    turns: \
                      [{input: q1, ground_truth: Paris}, {input: q2, ground_truth: Rome}]\n    \
                      conversation_evaluations: [{type: standard, metric: contains, value: is}]\n";

#[tokio::test(flavor = "multi_thread")]
async fn every_metric_of_a_run_is_an_event() {
    let server = ModelServer::answering(|_| Reply::text("It is Paris."));
    for (traces, has_reasons) in [("{}", false), ("{capture_evaluation_content: true}", true)] {
        let collector = Collector::start();
        let project = Project::asking(&server.url(), GRADED);
        let yaml = std::fs::read_to_string(project.path("agent.yaml")).unwrap();
        let observability =
            otlp(&collector).replace("{enabled: true,", &format!("{{enabled: true, traces: {traces},"));
        project.write("agent.yaml", &format!("{yaml}observability: {observability}\n"));
        assert_eq!(project.test(TestOptions::default()).await.unwrap().exit.code(), 1);
        // Two trials, two turns, and one conversation.
        assert_eq!(collector.count("gen_ai.evaluation.result"), 5);
        assert_eq!((collector.count("passed"), collector.count("failed")), (4, 1));
        assert_eq!(collector.contains("gen_ai.evaluation.explanation"), has_reasons);
        assert_eq!(collector.contains("Rome"), has_reasons);
        assert!(!collector.contains("It is Paris."));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_metric_without_a_score_is_an_error_in_its_event() {
    let server = ModelServer::answering(|_| Reply::text("It is Paris."));
    let collector = Collector::start();
    let cases = "  - {name: one, input: q}\n";
    let project = Project::asking(&server.url(), cases);
    let yaml = std::fs::read_to_string(project.path("agent.yaml")).unwrap();
    project.write(
        "agent.yaml",
        &format!("{yaml}observability: {}\n", otlp(&collector)),
    );
    assert_eq!(project.test(TestOptions::default()).await.unwrap().exit.code(), 4);
    assert_eq!(collector.count("evaluation_error"), 1);
    assert!(!collector.contains("gen_ai.evaluation.score"));
}

/// A judged metric and a check; the judge is behind `judge`.
const JUDGED: &str = "evaluations:\n  model: {provider: openai, name: judging-model, endpoint: \"JUDGE\"}\n  metrics:\n    \
                      - {type: geval, name: Right, criteria: Is it right?, evaluation_steps: [Look.]}\n    \
                      - {type: standard, metric: contains}\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_regrade_exports_its_judges_and_metrics() {
    let server = ModelServer::answering(|_| Reply::text("It is Paris."));
    let judge = ModelServer::answering(|_| Reply::text("{\"reason\": \"fine\", \"score\": 10}"));
    let collector = Collector::start();
    let project = Project::asking(&server.url(), CASES);
    let yaml = project.read("agent.yaml").replace(
        "evaluations: {metrics: [{type: standard, metric: contains}]}\n",
        &JUDGED.replace("JUDGE", &judge.url()),
    );
    project.write("agent.yaml", &yaml);
    // The run itself is not observed.
    assert_eq!(project.test(TestOptions::default()).await.unwrap().exit.code(), 0);
    assert!(collector.paths().is_empty());
    project.write(
        "agent.yaml",
        &format!("{yaml}observability: {}\n", otlp(&collector)),
    );
    let regrade = async |options: TestOptions, run: &str| {
        let renew = holodeck::runner::Renew::All;
        let prepared = holodeck::prepare_regrade(project.agent(), &project.env, &options, run, renew);
        let outcome = prepared.unwrap().run(&RunControl::new(), &mut ()).await.unwrap();
        assert_eq!(outcome.exit.code(), 0);
    };
    let journals = || {
        let files = std::fs::read_dir(project.path(".holodeck/runs")).unwrap();
        let files = files.map(|entry| entry.unwrap().path());
        let journals = files.filter(|file| file.extension().is_some_and(|extension| extension == "jsonl"));
        let names = journals.map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned());
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        names
    };
    let first = journals()[0].clone();
    regrade(TestOptions::default(), "latest").await;
    assert_eq!(collector.paths(), ["/v1/metrics", "/v1/traces"]);
    for words in [
        "holodeck test regrade",
        "holodeck.regraded_run",
        "invoke_agent a",
        "first · Right",
        "chat judging-model",
        &first,
    ] {
        assert!(collector.contains(words), "{words}");
    }
    assert_eq!(collector.count("gen_ai.evaluation.result"), 2);
    assert!(!collector.contains("PRIVATE") && !collector.contains("Paris"));
    // The run whose answers these are, also if it is named by its regrade.
    let second = journals()[1].clone();
    let marks = collector.count(&first);
    regrade(TestOptions::default(), &second).await;
    assert_eq!(
        (collector.count(&first), collector.count(&second)),
        (2 * marks, 0)
    );
    // Without judges there are still results.
    let unjudged = project.read("agent.yaml").replace(
        "    - {type: geval, name: Right, criteria: Is it right?, evaluation_steps: [Look.]}\n",
        "",
    );
    project.write("agent.yaml", &unjudged);
    let judged = judge.finish().len();
    regrade(TestOptions::default(), &first).await;
    assert_eq!((judged, collector.count("gen_ai.evaluation.result")), (3, 5));
    server.finish();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replayed_regrade_exports_nothing() {
    let server = ModelServer::answering(|_| Reply::text("It is Paris."));
    let judge = ModelServer::answering(|_| Reply::text("{\"reason\": \"fine\", \"score\": 10}"));
    let collector = Collector::start();
    let project = Project::asking(&server.url(), CASES);
    let yaml = project.read("agent.yaml").replace(
        "evaluations: {metrics: [{type: standard, metric: contains}]}\n",
        &JUDGED.replace("JUDGE", &judge.url()),
    );
    project.write("agent.yaml", &yaml);
    let with = |record, answers| TestOptions {
        open: OpenOptions {
            record,
            answers,
            ..OpenOptions::default()
        },
        ..TestOptions::default()
    };
    let cassette = project.path("c.jsonl");
    let recording = with(Some(cassette.clone()), AnswerSource::default());
    assert_eq!(project.test(recording).await.unwrap().exit.code(), 0);
    project.write(
        "agent.yaml",
        &format!("{yaml}observability: {}\n", otlp(&collector)),
    );
    let renew = holodeck::runner::Renew::All;
    let replay = with(None, AnswerSource::Replay(cassette));
    let prepared = holodeck::prepare_regrade(project.agent(), &project.env, &replay, "latest", renew);
    let outcome = prepared.unwrap().run(&RunControl::new(), &mut ()).await.unwrap();
    assert_eq!(outcome.exit.code(), 0);
    assert_eq!(judge.finish().len(), 1);
    assert!(collector.paths().is_empty());
    server.finish();
}
