//! What goes into an index: sources that fail, building anew, being stopped in the middle.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use holodeck_testkit::{EndpointServer, Gate, ModelServer, ReceivedRequest, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::project::{Project, Ran, assert_seen};

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

fn knowing() -> ModelServer {
    ModelServer::answering(|_| Reply::text("Paris."))
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
    let server = knowing();
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
    assert_seen!(ran);
    let run = project.run_file();
    let warning = run["report"]["warnings"][0].as_str().unwrap();
    assert!(
        warning.starts_with("index `docs` is not whole: 1 source could not be taken in: `docs/locked.pdf`: "),
        "{warning}"
    );
    for report in ["report.md", "report.xml", "report.html"] {
        let report = project.read(report);
        assert!(
            report.contains("is not whole") && report.contains("docs/locked.pdf"),
            "{report}"
        );
    }
    // So it is each time, and with each way to look at it.
    let json = project.run(&["test", "--json"]).exits(0);
    let last: Value = serde_json::from_str(json.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(last["report"]["warnings"], json!([warning]));
    let regraded = project.run(&["test", "regrade", "latest"]).exits(0);
    assert!(regraded.stdout.contains("is not whole"), "{}", regraded.all());
    let asked = project.run(&["run", "The capital of France?"]).exits(0);
    assert_eq!(asked.stdout, "Paris.\n");
    assert!(
        asked
            .stderr
            .contains("warning: index `docs`: `docs/locked.pdf`: "),
        "{}",
        asked.all()
    );
    // Whoever asks for the index alone, asks for all of it.
    project.run(&["index", "build"]).exits(3).says("docs/locked.pdf");

    std::fs::remove_file(project.path("docs/locked.pdf")).unwrap();
    let ran = project.run(&["test"]).exits(0);
    assert!(!ran.all().contains("warning"), "{}", ran.all());
    assert_eq!(project.run_file()["report"].get("warnings"), None);
    server.finish();
}

#[test]
fn an_index_without_any_source_is_searched_by_nobody() {
    let server = knowing();
    let project = offline(&server.url());
    std::fs::remove_file(project.path("docs/refunds.md")).unwrap();
    project.write("docs/locked.pdf", "this is no pdf");
    assert_seen!(project.run(&["test"]).exits(3));
    project.run(&["run", "The capital?"]).exits(3).says("is empty");
    assert!(server.finish().is_empty());
}

#[test]
fn a_run_that_is_gone_on_with_tells_what_it_began_with() {
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
        .says("is not whole");
    std::fs::remove_file(project.path("docs/locked.pdf")).unwrap();
    project
        .run(&["test", "resume", "latest"])
        .exits(2)
        .says("tool docs: docs/locked.pdf");
    project
        .run(&["test", "resume", "latest", "--accept-changes"])
        .exits(0)
        .says("2 passed")
        .says("is not whole");
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
fn whoever_builds_anew_has_everything_embedded_anew() {
    let server = knowing();
    let project = Project::with(&agent(&server.url(), &server.url()));
    project.write("docs/a.md", "# A\n\nOne.\n");
    project.write("docs/b.md", "# B\n\nTwo.\n");
    // Besides the question how long vectors are.
    let texts = |server: &ModelServer| {
        let texts = embedded(&server.embedding_requests());
        texts.iter().filter(|text| *text != "dimensions").count()
    };
    project.run(&["index", "build"]).exits(0);
    assert_eq!(texts(&server), 2);
    // What was embedded once is not when the index is lost, but it is when somebody asks for it.
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

/// Of which file a text is.
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

/// Files of 300, 300 and 100 records: the last is embedded when the others are done.
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

/// How many requests a build takes that nobody disturbs.
fn undisturbed() -> usize {
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
async fn stopped_by(name: &str) -> (Ran, Project) {
    let all = undisturbed();
    let gate = Gate::new();
    let server = stuck(&gate);
    let project = large(&server.url());
    let child = start(&project);
    server.until_asked(all).await;
    let id = child.id().to_string();
    assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    let ended = Ran::of(&child.wait_with_output().unwrap());
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
        let (ended, _) = stopped_by(name).await;
        let ended = ended.exits(code);
        assert!(ended.stdout.is_empty(), "{}", ended.all());
        assert!(
            ended
                .stderr
                .contains("what is finished is kept; the next build goes on from there"),
            "{}",
            ended.all()
        );
    }
}

#[tokio::test]
async fn what_was_embedded_before_a_kill_is_kept() {
    let (ended, _) = stopped_by("-KILL").await;
    assert_eq!(ended.code, None, "{}", ended.all());
}

/// Without a terminal: a line when it begins, one every few seconds, and one when it is done.
#[tokio::test]
async fn a_build_tells_how_far_it_is() {
    let gate = Gate::new();
    let server = stuck(&gate);
    let project = large(&server.url());
    let mut child = start(&project);
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    // While the embedder has not answered.
    let mut told = vec![lines.next().unwrap().unwrap()];
    gate.open();
    told.extend(lines.map(Result::unwrap));
    let ran = Ran::of(&child.wait_with_output().unwrap()).exits(0);
    // What comes every few seconds is not a matter of this test.
    let last = told.len() - 1;
    insta::assert_snapshot!(format!("{}\n{}", told[0], told[last]));
    assert!(
        ran.stdout.contains("3 sources, 700 passages (3 added)"),
        "{}",
        ran.all()
    );
    server.finish();
}
