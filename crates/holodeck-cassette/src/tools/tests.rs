//! Tests that tool results are replayed without running the tools, and that a change behind a tool changes the key.

use std::{path::Path, sync::Mutex};

use pretty_assertions::assert_eq;
use serde_json::json;

use holodeck_backend_api::{TokenUsage, ToolUsage};

use super::*;
use crate::RecordMode;

fn place(unit: &str, message: u32) -> RequestPlace<'_> {
    RequestPlace {
        unit: Some(unit),
        trial: 0,
        message,
    }
}

/// Counts its calls and answers by the tool's name.
#[derive(Default)]
struct Live {
    specs: Vec<ToolSpec>,
    calls: Mutex<Vec<String>>,
}

impl Live {
    fn with(names: &[&str]) -> Arc<Self> {
        let specs = names.iter().map(|name| ToolSpec {
            name: (*name).to_owned(),
            description: format!("Does {name}."),
            parameters: json!({"type": "object"}),
            side_effects: SideEffects::None,
        });
        Arc::new(Self {
            specs: specs.collect(),
            calls: Mutex::default(),
        })
    }

    fn call_names(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }
}

#[async_trait]
impl ToolHost for Live {
    fn specs(&self) -> &[ToolSpec] {
        &self.specs
    }

    async fn call(&self, call: &ToolCall, cx: ToolCx) -> Result<ToolOutput, ToolError> {
        let nth = {
            let mut calls = self.calls.lock().unwrap();
            calls.push(call.name.clone());
            calls.len()
        };
        let name = call.name.clone();
        match name.as_str() {
            "asks" => {
                cx.spending.add(spending());
                Ok(ToolOutput::ok("a model said so"))
            }
            "fails" => Ok(ToolOutput::error("it failed")),
            "gone" => Err(ToolError::Unavailable {
                name,
                reason: "no server".to_owned(),
            }),
            "slow" => Err(ToolError::TimedOut {
                name,
                after: Duration::from_secs(9),
            }),
            "stopped" => Err(ToolError::Cancelled),
            "picture" => Ok(ToolOutput {
                images: vec![Image {
                    media_type: "image/png".to_owned(),
                    base64: "AAAA".into(),
                }],
                ..ToolOutput::ok("look")
            }),
            _ => Ok(ToolOutput::ok(format!("{nth} hunter2-secret {}", call.arguments))),
        }
    }
}

/// The usage of the tool `asks` in a call.
fn spending() -> ToolUsage {
    ToolUsage {
        cost_usd: None,
        model: "m".to_owned(),
        answered_by: None,
        usage: Some(TokenUsage::new(10, 5)),
    }
}

fn redactor() -> Arc<Redactor> {
    Arc::new(Redactor::new(["hunter2-secret".to_owned()]))
}

fn set(own: &[&str]) -> ToolSet {
    ToolSet {
        declared: json!([{"name": "kb", "type": "vectorstore", "key": "hunter2-secret"}]),
        own: own.iter().map(|name| (*name).to_owned()).collect(),
        ..ToolSet::default()
    }
}

async fn ask(host: &dyn ToolHost, name: &str, arguments: Value, unit: &str) -> String {
    let call = ToolCall {
        name: name.to_owned(),
        arguments,
        call_id: "c".to_owned(),
        provider_fields: None,
    };
    let cx = ToolCx {
        unit: Some(unit.to_owned()),
        ..ToolCx::default()
    };
    match host.call(&call, cx).await {
        Ok(output) => {
            let error = if output.is_error { "error: " } else { "" };
            format!("{error}{} {}", output.text, output.images.len())
        }
        Err(error) => error.to_string(),
    }
}

/// Records the results of calls of each tool in two units.
async fn record(path: &Path, names: &[&str], own: &[&str]) -> Vec<String> {
    let tape = Tape::create(path, redactor()).unwrap();
    let host = RecordedTools::new(Live::with(names), Arc::clone(&tape), set(own));
    let mut results = Vec::new();
    for unit in ["a", "b"] {
        for name in names {
            for _ in 0..2 {
                results.push(ask(&host, name, json!({"q": "hunter2-secret"}), unit).await);
            }
        }
    }
    // Without a model call no recording is written.
    let request = ModelRequest {
        provider: "openai".to_owned(),
        model: "m".to_owned(),
        body: json!({}).into(),
        unit: None,
    };
    tape.record(&request, Response::default(), 1);
    assert_eq!(tape.finish(RecordMode::Replace).unwrap(), 1);
    results
}

#[tokio::test]
async fn tool_results_are_replayed_without_the_tools() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.jsonl");
    let names = ["echo", "fails", "gone", "slow", "picture"];
    let recorded = record(&path, &names, &[]).await;
    let cassette = Arc::new(Cassette::open(&path).unwrap());
    assert!(cassette.has_tools());
    assert_eq!(cassette.info().models, ["m"]);
    assert!(ReplayedTools::has_tool_list(&cassette, &redactor(), &set(&[])));

    let nothing = Live::with(&[]);
    let replayed = ReplayedTools::new(cassette, redactor(), nothing.clone(), set(&[]));
    assert_eq!(replayed.specs(), Live::with(&names).specs());
    let mut again = Vec::new();
    for unit in ["a", "b"] {
        for name in names {
            for _ in 0..2 {
                again.push(ask(&replayed, name, json!({"q": "hunter2-secret"}), unit).await);
            }
        }
    }
    let recorded: Vec<_> = recorded
        .iter()
        .map(|text| {
            redactor()
                .text(text)
                .into_owned()
                .replace("within 9 s", "within 0 s")
        })
        .collect();
    assert_eq!(again, recorded);
    assert_eq!(nothing.call_names(), Vec::<String>::new());
    assert_eq!(
        ask(&replayed, "echo", json!({"q": "other"}), "a").await,
        format!(
            "tool `echo` could not be run: `{}` holds no result for these arguments; record again",
            path.display()
        )
    );
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains("hunter2"), "{text}");
}

#[tokio::test]
async fn tools_without_external_resources_run_in_a_replay() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.jsonl");
    record(&path, &["kb_search", "mocked"], &["mocked"]).await;
    let cassette = Arc::new(Cassette::open(&path).unwrap());
    let live = Live::with(&["mocked", "new"]);
    let replayed = ReplayedTools::new(cassette, redactor(), live.clone(), set(&["mocked", "new"]));
    let names: Vec<_> = replayed.specs().iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(names, ["kb_search", "mocked", "new"]);
    ask(&replayed, "mocked", json!({}), "a").await;
    ask(&replayed, "kb_search", json!({"q": "hunter2-secret"}), "a").await;
    assert_eq!(live.call_names(), ["mocked"]);
}

#[tokio::test]
async fn tools_of_a_changed_yaml_are_the_current_ones() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.jsonl");
    record(&path, &["echo"], &[]).await;
    let cassette = Arc::new(Cassette::open(&path).unwrap());
    let other = ToolSet {
        declared: json!([{"name": "kb", "top_k": 9}]),
        ..ToolSet::default()
    };
    assert!(!ReplayedTools::has_tool_list(&cassette, &redactor(), &other));
    let live = Live::with(&["current"]);
    let replayed = ReplayedTools::new(cassette, redactor(), live.clone(), other);
    assert_eq!(replayed.specs(), live.specs());
    let result = ask(&replayed, "current", json!({}), "a").await;
    assert!(result.contains("record again"), "{result}");
}

#[tokio::test]
async fn a_cancelled_call_is_not_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.jsonl");
    record(&path, &["stopped"], &[]).await;
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains("\"holodeck:tool\""), "{text}");
}

#[tokio::test]
async fn changed_files_behind_a_tool_change_the_key() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.jsonl");
    let of = |digest: &str| ToolSet {
        files: vec![
            ToolFiles {
                tool: "echo".to_owned(),
                shown: "echo".to_owned(),
                digests: [("a.md".to_owned(), digest.to_owned())].into(),
                declare: true,
            },
            ToolFiles {
                tool: "garden".to_owned(),
                shown: "garden__".to_owned(),
                digests: [("garden.py".to_owned(), "same".to_owned())].into(),
                declare: true,
            },
        ],
        ..set(&[])
    };
    let replayed = |digest: &str| {
        let cassette = Arc::new(Cassette::open(&path).unwrap());
        ReplayedTools::new(cassette, redactor(), Live::with(&[]), of(digest))
    };
    let tape = Tape::create(&path, redactor()).unwrap();
    let host = RecordedTools::new(Live::with(&["echo"]), Arc::clone(&tape), of("1"));
    let result = ask(&host, "echo", json!({}), "a").await;
    let request = ModelRequest {
        provider: "openai".to_owned(),
        model: "m".to_owned(),
        body: json!({}).into(),
        unit: None,
    };
    tape.record(&request, Response::default(), 1);
    tape.finish(RecordMode::Replace).unwrap();
    assert_eq!(
        ask(&replayed("1"), "echo", json!({}), "a").await,
        redactor().text(&result)
    );
    let miss = ask(&replayed("2"), "echo", json!({}), "a").await;
    assert!(
        miss.contains("for these arguments and files (tool echo: a.md changed); record again"),
        "{miss}"
    );
    let cassette = Cassette::open(&path).unwrap();
    let changed = |digest: &str| ReplayedTools::changed_files(&cassette, &redactor(), &of(digest));
    assert_eq!(changed("1"), [""; 0]);
    assert_eq!(changed("2"), ["tool echo: a.md"]);
    // With another declaration, the files are not compared.
    assert_eq!(
        ReplayedTools::changed_files(
            &cassette,
            &redactor(),
            &ToolSet {
                declared: json!([]),
                ..of("2")
            }
        ),
        [""; 0]
    );
    assert_eq!(
        of("1").files_of("garden__plant"),
        json!({"garden": {"garden.py": "same"}})
    );
    assert_eq!(of("1").files_of("echoes"), json!({}));
}

#[tokio::test]
async fn another_model_behind_a_tool_changes_the_key() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.jsonl");
    let of = |model: Option<&str>| ToolSet {
        models: model
            .map(|model| ("echo".to_owned(), json!({"name": model})))
            .into_iter()
            .collect(),
        ..set(&[])
    };
    for recorded in [Some("ranker"), None] {
        let tape = Tape::create(&path, redactor()).unwrap();
        let host = RecordedTools::new(Live::with(&["echo"]), Arc::clone(&tape), of(recorded));
        let result = ask(&host, "echo", json!({"query": "q"}), "a").await;
        let request = ModelRequest {
            provider: "openai".to_owned(),
            model: "m".to_owned(),
            body: json!({}).into(),
            unit: None,
        };
        tape.record(&request, Response::default(), 1);
        tape.finish(RecordMode::Replace).unwrap();
        for model in [Some("ranker"), Some("other"), None] {
            let cassette = Arc::new(Cassette::open(&path).unwrap());
            let replayed = ReplayedTools::new(cassette, redactor(), Live::with(&[]), of(model));
            let answer = ask(&replayed, "echo", json!({"query": "q"}), "a").await;
            if model == recorded {
                assert_eq!(answer, redactor().text(&result));
            } else {
                assert!(
                    answer.contains(
                        "for these arguments with this model of the tool (`reranker_model` changed)"
                    ),
                    "{answer}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_replay_reports_the_model_usage_of_a_tool() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.jsonl");
    record(&path, &["asks"], &[]).await;
    let cassette = Arc::new(Cassette::open(&path).unwrap());
    let replayed = ReplayedTools::new(cassette, redactor(), Live::with(&[]), set(&[]));
    let cx = ToolCx {
        unit: Some("a".to_owned()),
        ..ToolCx::default()
    };
    let call = ToolCall {
        name: "asks".to_owned(),
        arguments: json!({"q": "hunter2-secret"}),
        call_id: "c".to_owned(),
        provider_fields: None,
    };
    replayed.call(&call, cx.clone()).await.unwrap();
    assert_eq!(cx.spending.take(), [spending()]);
}

#[tokio::test]
async fn a_replay_shows_each_message_its_recorded_tools() {
    /// Has an additional tool from the second message on.
    struct Growing {
        first: Vec<ToolSpec>,
        grown: Vec<ToolSpec>,
    }

    #[async_trait]
    impl ToolHost for Growing {
        fn specs(&self) -> &[ToolSpec] {
            &self.first
        }

        fn specs_for_request(&self, request: RequestPlace<'_>) -> Cow<'_, [ToolSpec]> {
            if request.message == 0 {
                Cow::Borrowed(&self.first)
            } else {
                Cow::Owned(self.grown.clone())
            }
        }

        async fn call(&self, _: &ToolCall, _: ToolCx) -> Result<ToolOutput, ToolError> {
            Ok(ToolOutput::ok("done"))
        }
    }

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.jsonl");
    let growing = Growing {
        first: Live::with(&["seed"]).specs.clone(),
        grown: Live::with(&["seed", "tree"]).specs.clone(),
    };
    let tape = Tape::create(&path, redactor()).unwrap();
    let grown = growing.grown.clone();
    let host = RecordedTools::new(Arc::new(growing), Arc::clone(&tape), set(&[]));
    for (unit, message) in [("a", 0), ("a", 1), ("b", 0)] {
        host.specs_for_request(place(unit, message));
    }
    let request = call_request(
        &ToolCall {
            name: "m".to_owned(),
            arguments: json!({}),
            call_id: "c".to_owned(),
            provider_fields: None,
        },
        None,
        &set(&[]),
    );
    tape.record(
        &ModelRequest {
            provider: "openai".to_owned(),
            ..request
        },
        Response::default(),
        1,
    );
    tape.finish(RecordMode::Replace).unwrap();

    let cassette = Arc::new(Cassette::open(&path).unwrap());
    let replayed = ReplayedTools::new(cassette, redactor(), Live::with(&[]), set(&[]));
    assert_eq!(replayed.specs_for_request(place("a", 0)).len(), 1);
    assert_eq!(*replayed.specs_for_request(place("a", 1)), *grown);
    assert_eq!(replayed.specs_for_request(place("b", 1)).len(), 1);
}
