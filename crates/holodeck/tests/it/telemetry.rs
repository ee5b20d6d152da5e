use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use holodeck::{AnswerSource, OpenOptions, TestOptions, model::Severity};
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
        let requests = self.requests.lock().unwrap();
        requests.iter().any(|request| {
            request
                .windows(words.len())
                .any(|window| window == words.as_bytes())
        })
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
async fn d01_a_collector_that_cannot_be_reached_changes_no_verdict() {
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
    assert_eq!(found, [(message, Some(8))]);
}
