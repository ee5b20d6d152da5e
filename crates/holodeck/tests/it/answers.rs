//! Tests of recording and replaying a whole run: replays need no endpoint, are marked as such, and never invent an
//! answer.

use holodeck::{AnswerSource, OpenOptions, TestOptions};
use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;

use crate::support::Project;

const CASES: &str = "  - {input: capital of France, ground_truth: Paris}\n\
                     \x20 - turns: [{input: hello, ground_truth: Paris}, {input: again, ground_truth: Paris}]\n";

fn record(project: &Project) -> TestOptions {
    TestOptions {
        open: OpenOptions {
            record: Some(project.path("c.jsonl")),
            ..OpenOptions::default()
        },
        ..TestOptions::default()
    }
}

fn replay(project: &Project) -> TestOptions {
    TestOptions {
        open: OpenOptions {
            answers: AnswerSource::Replay(project.path("c.jsonl")),
            ..OpenOptions::default()
        },
        ..TestOptions::default()
    }
}

#[tokio::test]
async fn a_recorded_run_replays_without_the_endpoint_and_says_so() {
    let server = ModelServer::answering(|_| Reply::text("It is Paris."));
    let project = Project::asking(&server.url(), CASES);
    let live = project.test(record(&project)).await.unwrap();
    assert_eq!((live.exit.code(), live.head.replayed.clone()), (0, None));
    assert_eq!(server.finish().len(), 3);

    let replayed = project.test(replay(&project)).await.unwrap();
    assert_eq!(replayed.exit.code(), 0);
    assert!(
        replayed
            .head
            .replayed
            .as_ref()
            .unwrap()
            .describe()
            .starts_with("replayed, recorded 20")
    );
    assert_eq!(replayed.head.summary.token_usage, live.head.summary.token_usage);
}

#[tokio::test]
async fn a_changed_prompt_misses_and_is_an_error() {
    let server = ModelServer::answering(|_| Reply::text("It is Paris."));
    let project = Project::asking(&server.url(), CASES);
    project.test(record(&project)).await.unwrap();
    let yaml = std::fs::read_to_string(project.path("agent.yaml")).unwrap();
    std::fs::write(project.path("agent.yaml"), yaml.replace("Be kind.", "Be brief.")).unwrap();
    let missed = project.test(replay(&project)).await.unwrap();
    assert_eq!(missed.exit.code(), 3);
    missed.with_view(|view| {
        let case = view.cases().next().unwrap().unwrap();
        let text = &case.failures()[0].text;
        assert!(text.contains("\"Be kind.\", now \"Be brief.\""), "{text}");
    });
}

#[tokio::test]
async fn the_yaml_may_name_the_recording_and_live_overrides_it() {
    let server = ModelServer::answering(|_| Reply::text("It is Paris."));
    let project = Project::asking(&server.url(), CASES);
    project.test(record(&project)).await.unwrap();
    let yaml = std::fs::read_to_string(project.path("agent.yaml")).unwrap();
    std::fs::write(
        project.path("agent.yaml"),
        format!("{yaml}execution: {{replay: c.jsonl}}\n"),
    )
    .unwrap();
    assert!(
        project
            .test(TestOptions::default())
            .await
            .unwrap()
            .head
            .replayed
            .is_some()
    );
    let live = TestOptions {
        open: OpenOptions {
            answers: AnswerSource::Live,
            ..OpenOptions::default()
        },
        ..TestOptions::default()
    };
    assert!(project.test(live).await.unwrap().head.replayed.is_none());
    assert_eq!(server.finish().len(), 6);
}

#[tokio::test]
async fn recording_some_cases_keeps_the_others() {
    let server = ModelServer::answering(|_| Reply::text("It is Paris."));
    let project = Project::asking(&server.url(), CASES);
    project.test(record(&project)).await.unwrap();
    project
        .test(TestOptions {
            limit: Some(1),
            ..record(&project)
        })
        .await
        .unwrap();
    assert_eq!(project.test(replay(&project)).await.unwrap().exit.code(), 0);
}

#[tokio::test]
async fn a_key_in_the_environment_reaches_the_endpoint_and_no_file() {
    let key = "not-a-real-key-0000";
    let server = ModelServer::answering(move |request| {
        Reply::text(format!(
            "Paris, says {}",
            request.header("authorization").unwrap_or("none")
        ))
    });
    let mut project = Project::asking(&server.url(), "  - {input: q, ground_truth: Paris}\n");
    project.env.set("OPENAI_API_KEY", key);
    let outcome = project.test(record(&project)).await.unwrap();
    assert_eq!(outcome.exit.code(), 0);
    let requests = server.finish();
    assert_eq!(
        requests[0].header("authorization"),
        Some(format!("Bearer {key}").as_str())
    );
    for file in [
        project.path("c.jsonl"),
        outcome.journal_path().to_owned(),
        outcome.run_file.clone(),
    ] {
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(!text.contains(key), "{} contains the key", file.display());
    }
}
