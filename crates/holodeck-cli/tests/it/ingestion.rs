//! Building an index: sources that fail, forced builds, interrupted builds.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use holodeck_testkit::{EndpointServer, Gate, ModelServer, ReceivedRequest, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::project::{CommandOutput, Project, assert_output};

/// An agent that searches `docs/`, whose passages are embedded at `embedder`.
fn agent(model: &str, embedder: &str) -> String {
    format!(
        "name: shop\n\
         model: {{provider: openai, name: test-model, endpoint: \"{model}\", temperature: 0, max_tokens: 9}}\n\
         embedding_provider: {{provider: openai, name: small, endpoint: \"{embedder}\"}}\n\
         instructions: {{inline: Look it up.}}\n\
         evaluations: {{metrics: [{{type: standard, metric: contains}}]}}\n\
         test_cases: [{{input: \"The capital of France?\", ground_truth: Paris}}]\n\
         tools:\n  - {{type: vectorstore, name: docs, description: Articles., source: docs/}}\n"
    )
}

fn offline(model: &str) -> Project {
    let yaml = agent(model, "http://127.0.0.1:9");
    let line = yaml
        .lines()
        .find(|line| line.starts_with("embedding_provider"))
        .unwrap();
    let project = Project::with(&yaml.replace(line, "embedding_provider: {provider: hash}"));
    project.write("docs/refunds.md", "# Refunds\n\nWithin 30 days of delivery.\n");
    project
}

fn correct_server() -> ModelServer {
    ModelServer::answering(|_| Reply::text("Paris."))
}

#[test]
fn nothing_is_indexed_for_no_case() {
    let project = offline("http://127.0.0.1:9");
    for args in [&["test", "--filter", "refunds"][..], &["test", "--tag", "slow"]] {
        let ran = project.run(args).exits(5).says("no test case to run");
        assert!(!ran.stderr.contains("index"), "{}", ran.all());
        assert!(!project.path(".holodeck/index").exists());
    }
    project.run(&["index", "build"]).exits(0);
    assert!(project.path(".holodeck/index").exists());
}

#[test]
fn nothing_is_indexed_for_a_model_that_has_no_key() {
    for (model, key) in [
        ("{provider: openai, name: gpt-4o-mini}", "OPENAI_API_KEY"),
        (
            "{provider: anthropic, name: claude-sonnet-4-5}",
            "ANTHROPIC_API_KEY",
        ),
    ] {
        let embedder = EndpointServer::answering(|_| panic!("nothing is embedded"));
        let yaml = agent("http://127.0.0.1:9", &embedder.url());
        let line = yaml.lines().find(|line| line.starts_with("model")).unwrap();
        let project = Project::with(&yaml.replace(line, &format!("model: {model}")));
        project.write("docs/refunds.md", "# Refunds\n\nWithin 30 days of delivery.\n");
        for command in [&["test"][..], &["run", "The capital of France?"]] {
            let ran = project.run(command).exits(3).says(key);
            assert!(!ran.stderr.contains("index"), "{}", ran.all());
        }
        assert!(!project.path(".holodeck/index").exists());
    }
}

#[test]
fn a_source_that_fails_is_told_with_every_verdict() {
    let server = correct_server();
    let project = offline(&server.url());
    project.write("docs/locked.pdf", "this is no pdf");
    let report = [
        "test",
        "--output",
        "report.md",
        "--report",
        "junit=report.xml",
        "--report",
        "html=report.html",
    ];
    let ran = project.run(&report).exits(0);
    assert_output!(ran);
    let run = project.run_file();
    let warning = run["report"]["warnings"][0].as_str().unwrap();
    assert!(
        warning.starts_with("index `docs` is incomplete: 1 source could not be indexed: `docs/locked.pdf`: "),
        "{warning}"
    );
    for report in ["report.md", "report.xml", "report.html"] {
        let report = project.read(report);
        assert!(
            report.contains("is incomplete") && report.contains("docs/locked.pdf"),
            "{report}"
        );
    }
    // Every output of every later run reports it too.
    let json = project.run(&["test", "--json"]).exits(0);
    let last: Value = serde_json::from_str(json.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(last["report"]["warnings"], json!([warning]));
    let regraded = project.run(&["test", "regrade", "latest"]).exits(0);
    assert!(regraded.stdout.contains("is incomplete"), "{}", regraded.all());
    let asked = project.run(&["run", "The capital of France?"]).exits(0);
    assert_eq!(asked.stdout, "Paris.\n");
    assert!(
        asked
            .stderr
            .contains("warning: index `docs`: `docs/locked.pdf`: "),
        "{}",
        asked.all()
    );
    // `index build` fails if a source is missing.
    project.run(&["index", "build"]).exits(3).says("docs/locked.pdf");

    std::fs::remove_file(project.path("docs/locked.pdf")).unwrap();
    let ran = project.run(&["test"]).exits(0);
    assert!(!ran.all().contains("warning"), "{}", ran.all());
    assert_eq!(project.run_file()["report"].get("warnings"), None);
    server.finish();
}

#[test]
fn an_index_without_any_source_is_searched_by_nobody() {
    let server = correct_server();
    let project = offline(&server.url());
    std::fs::remove_file(project.path("docs/refunds.md")).unwrap();
    project.write("docs/locked.pdf", "this is no pdf");
    assert_output!(project.run(&["test"]).exits(3));
    project.run(&["run", "The capital?"]).exits(3).says("is empty");
    assert!(server.finish().is_empty());
}

#[test]
fn a_resumed_run_keeps_the_warnings_it_began_with() {
    let server = ModelServer::answering(|request| match request.index {
        0 => Reply::text("Paris."),
        _ => Reply::text("12"),
    });
    let project = offline(&server.url());
    let yaml = project.read("agent.yaml");
    let two = "test_cases:\n  - {input: \"The capital of France?\", ground_truth: Paris}\n  \
               - {input: 7 + 5?, ground_truth: \"12\"}";
    let case = yaml.lines().find(|line| line.starts_with("test_cases")).unwrap();
    project.write("agent.yaml", yaml.replace(case, two));
    project.write("docs/locked.pdf", "this is no pdf");
    project
        .run(&["test", "-j", "1", "--max-tokens-total", "1"])
        .exits(6)
        .says("is incomplete");
    std::fs::remove_file(project.path("docs/locked.pdf")).unwrap();
    project
        .run(&["test", "resume", "latest"])
        .exits(2)
        .says("tool docs: docs/locked.pdf");
    project
        .run(&["test", "resume", "latest", "--accept-changes"])
        .exits(0)
        .says("2 passed")
        .says("is incomplete");
    server.finish();
}

/// The texts that were sent to be embedded, in order.
fn embedded(requests: &[ReceivedRequest]) -> Vec<String> {
    let texts = requests
        .iter()
        .flat_map(|request| request.body["input"].as_array().unwrap());
    texts.map(|text| text.as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_forced_build_embeds_everything_again() {
    let server = correct_server();
    let project = Project::with(&agent(&server.url(), &server.url()));
    project.write("docs/a.md", "# A\n\nOne.\n");
    project.write("docs/b.md", "# B\n\nTwo.\n");
    // Without the request that determines the dimensions.
    let texts = |server: &ModelServer| {
        let texts = embedded(&server.embedding_requests());
        texts.iter().filter(|text| *text != "dimensions").count()
    };
    project.run(&["index", "build"]).exits(0);
    assert_eq!(texts(&server), 2);
    // Cached vectors are reused when the index is lost, but not by a forced build.
    std::fs::remove_dir_all(project.path(".holodeck/index")).unwrap();
    project.run(&["index", "build"]).exits(0);
    assert_eq!(texts(&server), 2);
    project.run(&["index", "build", "--force"]).exits(0);
    assert_eq!(texts(&server), 4);
    project.run(&["test", "--force-ingest"]).exits(0);
    assert_eq!(texts(&server), 6);
    project.run(&["test"]).exits(0);
    assert_eq!(texts(&server), 6);
    server.finish();
}

/// Identifies the texts of the last file.
const LAST: &str = "of file 2";

/// Embeds like a model that gets stuck: texts of the last file wait until the gate is opened.
fn stuck(gate: &Gate) -> EndpointServer {
    let gate = gate.clone();
    EndpointServer::answering(move |request| {
        let texts = embedded(std::slice::from_ref(request));
        let data: Vec<Value> = (0..texts.len())
            .map(|index| json!({"index": index, "embedding": [0.6, 0.8]}))
            .collect();
        let reply = Reply::raw(200, "application/json", json!({"data": data}).to_string());
        if texts.iter().any(|text| text.contains(LAST)) {
            return reply.behind(&gate);
        }
        reply
    })
}

/// Files of 300, 300 and 100 records; the last one is embedded after the others.
fn large(embedder: &str) -> Project {
    let yaml = agent("http://127.0.0.1:9", embedder);
    let project =
        Project::with(&yaml.replace("source: docs/", "source: docs/, id_field: id, vector_field: text"));
    for (file, records) in [300, 300, 100].into_iter().enumerate() {
        let lines: Vec<String> = (0..records)
            .map(|id| json!({"id": id, "text": format!("Record {id} of file {file}.")}).to_string())
            .collect();
        project.write(&format!("docs/{file}.jsonl"), lines.join("\n"));
    }
    project
}

fn start(project: &Project) -> Child {
    project
        .command(&["index", "build"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The number of requests of an uninterrupted build.
fn requests_of_full_build() -> usize {
    let gate = Gate::new();
    gate.open();
    let server = stuck(&gate);
    large(&server.url())
        .run(&["index", "build"])
        .exits(0)
        .says("700 passages");
    server.finish().len()
}

/// Ends a build with a signal while its last file is being embedded, and builds again.
async fn stop_with(name: &str) -> (CommandOutput, Project) {
    let all = requests_of_full_build();
    let gate = Gate::new();
    let server = stuck(&gate);
    let project = large(&server.url());
    let child = start(&project);
    server.until_asked(all).await;
    let id = child.id().to_string();
    assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    let ended = CommandOutput::of(&child.wait_with_output().unwrap());
    gate.open();
    let before = server.requests();
    let texts = embedded(&before);
    let in_flight = texts.iter().filter(|text| text.contains(LAST)).count();
    assert_eq!((before.len(), in_flight), (all, 100));

    project.run(&["index", "build"]).exits(0).says("700 passages");
    let again = embedded(&server.finish()[all..]);
    assert_eq!(again.len(), 100, "{again:?}");
    assert!(again.iter().all(|text| text.contains(LAST)), "{again:?}");
    project.run(&["index", "status"]).exits(0);
    (ended, project)
}

#[tokio::test]
async fn what_was_embedded_before_an_interrupt_is_kept() {
    for (name, code) in [("-INT", 130), ("-TERM", 143)] {
        let (ended, _) = stop_with(name).await;
        let ended = ended.exits(code);
        assert!(ended.stdout.is_empty(), "{}", ended.all());
        assert!(
            ended
                .stderr
                .contains("finished work is kept; the next build continues from there"),
            "{}",
            ended.all()
        );
    }
}

#[tokio::test]
async fn what_was_embedded_before_a_kill_is_kept() {
    let (ended, _) = stop_with("-KILL").await;
    assert_eq!(ended.code, None, "{}", ended.all());
}

/// Without a terminal: a line at the start, one every few seconds, and one at the end.
#[tokio::test]
async fn a_build_tells_how_far_it_is() {
    let gate = Gate::new();
    let server = stuck(&gate);
    let project = large(&server.url());
    let mut child = start(&project);
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    // The embedder has not answered yet.
    let mut messages = vec![lines.next().unwrap().unwrap()];
    gate.open();
    messages.extend(lines.map(Result::unwrap));
    let ran = CommandOutput::of(&child.wait_with_output().unwrap()).exits(0);
    // The lines between them depend on the time.
    let last = messages.len() - 1;
    insta::assert_snapshot!(format!("{}\n{}", messages[0], messages[last]));
    assert!(
        ran.stdout.contains("3 sources, 700 passages (3 added)"),
        "{}",
        ran.all()
    );
    server.finish();
}
