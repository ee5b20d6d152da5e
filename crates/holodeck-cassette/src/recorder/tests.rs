//! Tests that recordings replay exactly, contain no secret, and survive interruptions and merging.

use std::{fs, sync::Arc, time::Duration};

use futures::TryStreamExt as _;
use holodeck_backend_api::{RecordedCall, StopReason, TokenUsage, ToolCall};
use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::{Replayer, request_key};

/// Answers every request with its own last message.
struct Echo;

#[async_trait]
impl ModelCalls for Echo {
    async fn call(&self, request: &ModelRequest, _: &CancellationToken) -> Result<ModelStream, BackendError> {
        let text = request.body["messages"][0]["content"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        Ok(Box::pin(futures::stream::iter(
            answer(&text, None).into_iter().map(Ok),
        )))
    }
}

fn answer(text: &str, recorded: Option<RecordedCall>) -> Vec<ModelDelta> {
    vec![
        ModelDelta::Text(format!("you said {text}")),
        ModelDelta::ToolCall(ToolCall {
            name: "f".to_owned(),
            arguments: json!({"b": 1, "a": [2]}),
            call_id: "c1".to_owned(),
            provider_fields: None,
        }),
        ModelDelta::Usage(TokenUsage {
            prompt_tokens: 3,
            completion_tokens: 4,
            total_tokens: 7,
            ..Default::default()
        }),
        ModelDelta::Finish {
            stop_reason: StopReason::Other("odd".to_owned()),
            message_id: Some("m1".to_owned()),
            model: Some("echo-1".to_owned()),
            recorded,
        },
    ]
}

fn request(content: &str, unit: Option<&str>) -> ModelRequest {
    ModelRequest {
        provider: "openai".to_owned(),
        model: "echo".to_owned(),
        body: json!({"messages": [{"role": "user", "content": content}]}).into(),
        unit: unit.map(str::to_owned),
    }
}

async fn ask(calls: &dyn ModelCalls, request: &ModelRequest) -> Result<Vec<ModelDelta>, BackendError> {
    calls
        .call(request, &CancellationToken::new())
        .await?
        .try_collect()
        .await
}

fn recorder(path: &Path) -> Recorder {
    Recorder::create(
        path,
        Arc::new(Redactor::new(["hunter2-secret".to_owned()])),
        Arc::new(Echo),
    )
    .unwrap()
}

fn replayer(path: &Path) -> Replayer {
    let redactor = Arc::new(Redactor::new(["hunter2-secret".to_owned()]));
    Replayer::new(Arc::new(Cassette::open(path).unwrap()), redactor)
}

#[tokio::test]
async fn a_recorded_answer_is_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep/er/c.jsonl");
    let recorder = recorder(&path);
    ask(&recorder, &request("hi", None)).await.unwrap();
    assert_eq!(recorder.finish(RecordMode::Replace).unwrap(), 1);

    let mut replayed = ask(&replayer(&path), &request("hi", None)).await.unwrap();
    let Some(ModelDelta::Finish { recorded, .. }) = replayed.last_mut() else {
        panic!("no finish")
    };
    assert!(recorded.take().is_some());
    assert_eq!(replayed, answer("hi", None));
    assert_eq!(Cassette::open(&path).unwrap().info().models, ["echo-1"]);
    assert!(Cassette::is_cassette(&path) && !Cassette::is_cassette(dir.path()));
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn a_changed_request_misses_and_the_error_shows_the_change() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.jsonl");
    let recorder = recorder(&path);
    ask(&recorder, &request("hi", None)).await.unwrap();
    recorder.finish(RecordMode::Replace).unwrap();
    let error = ask(&replayer(&path), &request("ho", None)).await.unwrap_err();
    assert!(matches!(error, BackendError::ReplayMiss { .. }));
    assert!(
        error
            .to_string()
            .contains(r#"messages[0].content: recorded "hi", now "ho""#),
        "{error}"
    );
}

#[tokio::test]
async fn secrets_stay_out_of_the_file_and_the_key() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.jsonl");
    let recorder = recorder(&path);
    ask(&recorder, &request("my password is hunter2-secret", None))
        .await
        .unwrap();
    recorder.finish(RecordMode::Replace).unwrap();
    assert!(!fs::read_to_string(&path).unwrap().contains("hunter2"));
    ask(&replayer(&path), &request("my password is hunter2-secret", None))
        .await
        .unwrap();
}

#[tokio::test]
async fn merging_keeps_calls_that_were_not_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.jsonl");
    for (mode, content) in [
        (RecordMode::Replace, "one"),
        (RecordMode::Merge, "two"),
        (RecordMode::Merge, "one"),
    ] {
        let recorder = recorder(&path);
        ask(&recorder, &request(content, None)).await.unwrap();
        recorder.finish(mode).unwrap();
    }
    assert_eq!(Cassette::open(&path).unwrap().entries().count(), 2);
    let recorder = recorder(&path);
    ask(&recorder, &request("two", None)).await.unwrap();
    recorder.finish(RecordMode::Replace).unwrap();
    assert_eq!(Cassette::open(&path).unwrap().entries().count(), 1);
}

#[tokio::test]
async fn an_interrupted_recording_leaves_the_old_one_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.jsonl");
    let first = recorder(&path);
    ask(&first, &request("one", None)).await.unwrap();
    first.finish(RecordMode::Replace).unwrap();
    let second = recorder(&path);
    ask(&second, &request("two", None)).await.unwrap();
    drop(second);
    ask(&replayer(&path), &request("one", None)).await.unwrap();
    assert_eq!(Cassette::open(&partial_path(&path)).unwrap().entries().count(), 1);
}

#[tokio::test]
async fn equal_requests_of_two_units_keep_their_own_answers() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.jsonl");
    let mut text = serde_json::to_string(&Header {
        holodeck_cassette: FORMAT_VERSION,
    })
    .unwrap();
    for (unit, answer) in [("a", "first"), ("b", "second")] {
        let request = request("same", Some(unit));
        let response = Response {
            text: answer.to_owned(),
            stop_reason: "end_turn".to_owned(),
            ..Response::default()
        };
        let entry = Entry {
            key: request_key(&request),
            recorded_at: Timestamp::UNIX_EPOCH,
            latency_ms: 1,
            request,
            response,
        };
        text = format!("{text}\n{}", serde_json::to_string(&entry).unwrap());
    }
    fs::write(&path, text).unwrap();
    let replayer = replayer(&path);
    for (unit, answer) in [("b", "second"), ("a", "first"), ("b", "second")] {
        let deltas = ask(&replayer, &request("same", Some(unit))).await.unwrap();
        assert_eq!(deltas[0], ModelDelta::Text(answer.to_owned()), "unit {unit}");
    }
    // A third unit has no answer of its own, and the two recorded ones differ.
    ask(&replayer, &request("same", Some("c"))).await.unwrap_err();
}

#[tokio::test]
async fn an_edited_request_does_not_replay() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.jsonl");
    let recorder = recorder(&path);
    ask(&recorder, &request("one", None)).await.unwrap();
    recorder.finish(RecordMode::Replace).unwrap();
    let text = fs::read_to_string(&path)
        .unwrap()
        .replacen(r#""content":"one""#, r#""content":"two""#, 1);
    fs::write(&path, text).unwrap();
    let error = ask(&replayer(&path), &request("one", None)).await.unwrap_err();
    assert!(error.to_string().contains("was edited"), "{error}");
}

#[test]
fn other_files_are_rejected_with_the_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.jsonl");
    for (content, message) in [
        ("", "line 1: expected a header"),
        ("hello", "line 1: expected a header"),
        (
            "{\"holodeck_cassette\": 1}\n",
            "has format version 1; this holodeck reads version 2",
        ),
        ("{\"holodeck_cassette\": 2}\n", "holds no recorded call"),
        ("{\"holodeck_cassette\": 2}\n{\"key\": 3}\n", "line 2"),
    ] {
        fs::write(&path, content).unwrap();
        let error = Cassette::open(&path).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

/// Pauses for a minute before the call, and answers after two seconds.
struct Paced;

#[async_trait]
impl ModelCalls for Paced {
    async fn call(&self, _: &ModelRequest, _: &CancellationToken) -> Result<ModelStream, BackendError> {
        Ok(Box::pin(async_stream::stream! {
            yield Ok(ModelDelta::Paused);
            tokio::time::sleep(Duration::from_mins(1)).await;
            yield Ok(ModelDelta::Resumed);
            tokio::time::sleep(Duration::from_secs(2)).await;
            for delta in answer("x", None) {
                yield Ok(delta);
            }
        }))
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_the_configured_rate_limit_is_not_latency() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.jsonl");
    let redactor = Arc::new(Redactor::default());
    let recorder = Recorder::create(&path, redactor, Arc::new(Paced)).unwrap();
    ask(&recorder, &request("x", None)).await.unwrap();
    recorder.finish(RecordMode::Replace).unwrap();
    let deltas = ask(&replayer(&path), &request("x", None)).await.unwrap();
    let Some(ModelDelta::Finish {
        recorded: Some(recorded),
        ..
    }) = deltas.last()
    else {
        panic!("{deltas:?}");
    };
    assert_eq!(recorded.latency, Duration::from_secs(2));
}

#[tokio::test]
async fn a_recording_that_cannot_be_written_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.jsonl");
    let recorder = recorder(&path);
    assert!(partial_path(&path).exists());
    recorder.tape.state.lock().unwrap().file = fs::File::options().write(true).open("/dev/full").unwrap();
    ask(&recorder, &request("one", None)).await.unwrap();
    recorder.finish(RecordMode::Replace).unwrap_err();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_recording_that_cannot_be_sorted_keeps_its_calls_and_leaves_no_second_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.jsonl");
    let recorder = recorder(&path);
    ask(&recorder, &request("one", None)).await.unwrap();
    fs::create_dir(&path).unwrap();
    recorder.finish(RecordMode::Replace).unwrap_err();
    let names = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.collect();
    names.sort();
    assert_eq!(names, ["c.jsonl", "c.jsonl.partial"]);
    assert_eq!(Cassette::open(&partial_path(&path)).unwrap().entries().count(), 1);
}
