//! Tests of the limits around calls: unknown tools, wrong arguments, panics, time-outs and long results.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use holodeck_backend_api::{
    CallRefusal, SideEffects, Tool, ToolCx, ToolError, ToolHost, ToolOutput, ToolSpec,
};
use holodeck_tools::Toolbox;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::agent::{Agent, call, plain};

/// A tool that behaves as its name says.
struct Fake(ToolSpec);

impl Fake {
    fn with_name(name: &str) -> Arc<dyn Tool> {
        Arc::new(Self(ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            parameters: json!({"type": "object", "properties": {"id": {"type": "integer"}}}),
            side_effects: SideEffects::None,
        }))
    }
}

#[async_trait]
impl Tool for Fake {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn call(&self, arguments: Value, cx: ToolCx) -> Result<ToolOutput, ToolError> {
        match self.0.name.as_str() {
            "panic" => panic!("at the disco"),
            "stubborn" => std::future::pending().await,
            "obedient" => {
                cx.cancel.cancelled().await;
                Err(ToolError::Cancelled)
            }
            "long" => Ok(ToolOutput::error("é".repeat(200_000))),
            _ => Ok(ToolOutput::ok(arguments.to_string())),
        }
    }
}

fn toolbox(names: &[&str]) -> Toolbox {
    let mut toolbox = Toolbox::new();
    for name in names {
        toolbox
            .add(Fake::with_name(name), Duration::from_secs(30))
            .unwrap();
    }
    toolbox
}

#[tokio::test]
async fn an_unknown_tool_is_answered_with_the_known_ones() {
    let answer = toolbox(&["a", "b"])
        .call(&call("c", json!({})), ToolCx::default())
        .await
        .unwrap();
    assert_eq!(
        answer,
        ToolOutput::refused(CallRefusal::Unknown, "there is no tool `c`; there are `a`, `b`")
    );
    let answer = Toolbox::new()
        .call(&call("c", json!({})), ToolCx::default())
        .await
        .unwrap();
    assert_eq!(
        answer,
        ToolOutput::refused(CallRefusal::Unknown, "there is no tool `c`; this agent has none")
    );
}

#[tokio::test]
async fn wrong_arguments_never_reach_the_tool() {
    let toolbox = toolbox(&["panic"]);
    let answer = toolbox
        .call(&call("panic", json!({"id": "x"})), ToolCx::default())
        .await
        .unwrap();
    assert_eq!(
        plain(answer),
        ToolOutput::refused(
            CallRefusal::InvalidArguments,
            "invalid arguments: `id`: \"x\" is not of type \"integer\""
        )
    );
}

#[tokio::test]
async fn a_panic_is_contained() {
    let error = toolbox(&["panic"])
        .call(&call("panic", json!({})), ToolCx::default())
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "tool `panic` could not be run: it panicked");
}

#[tokio::test(start_paused = true)]
async fn a_time_out_applies_even_if_the_tool_ignores_cancellation() {
    let toolbox = toolbox(&["stubborn", "obedient"]);
    for (name, longest) in [("obedient", 30), ("stubborn", 32)] {
        let started = tokio::time::Instant::now();
        let answer = toolbox
            .call(&call(name, json!({})), ToolCx::default())
            .await
            .unwrap();
        assert_eq!(answer.details.side_effects, Some(SideEffects::None));
        assert_eq!(plain(answer), ToolOutput::error("no answer within 30 s"));
        // Virtual time.
        assert_eq!(started.elapsed().as_secs(), longest);
    }
}

#[tokio::test(start_paused = true)]
async fn cancelling_ends_a_call() {
    let toolbox = toolbox(&["stubborn", "obedient", "echo"]);
    for name in ["stubborn", "obedient", "echo"] {
        let cx = ToolCx::from(CancellationToken::new());
        cx.cancel.cancel();
        assert!(matches!(
            toolbox.call(&call(name, json!({})), cx).await,
            Err(ToolError::Cancelled)
        ));
        let cx = ToolCx::default();
        let cancel = cx.cancel.clone();
        let call = call(name, json!({}));
        let (result, ()) = tokio::join!(toolbox.call(&call, cx), async { cancel.cancel() });
        assert_eq!(result.is_ok(), name == "echo", "{name}");
    }
}

#[tokio::test]
async fn a_long_answer_is_truncated_at_a_character() {
    let answer = toolbox(&["long"])
        .call(&call("long", json!({})), ToolCx::default())
        .await
        .unwrap();
    assert!(answer.is_error && answer.details.truncated);
    assert!(
        answer
            .text
            .ends_with("é\n[truncated: the result is longer than 256 KiB]")
    );
    assert_eq!(answer.text.chars().filter(|c| *c == 'é').count(), 128 * 1024);
}

#[tokio::test]
async fn a_slow_process_has_ended_when_its_time_out_is_reported() {
    let agent = Agent::new().file(
        "slow.py",
        "import os, time\ndef f():\n    open('pid', 'w').write(str(os.getpid()))\n    time.sleep(600)\n",
    );
    let tool = json!({"file": "slow.py", "function": "f", "parameters": {}, "timeout_ms": 700});
    let answer = agent.call(tool, json!({})).await;
    assert_eq!(answer, ToolOutput::error("no answer within 0.7 s"));
    let pid = fs::read_to_string(agent.path().join("pid")).unwrap();
    assert!(!fs::exists(format!("/proc/{pid}")).unwrap());
}

#[tokio::test]
async fn calls_run_at_the_same_time() {
    // Each program waits for a file that the other one writes.
    let text = "touch $1; until [ -e $2 ]; do :; done; echo met";
    let agent = Agent::new();
    let tool = |name: &str, mine: &str, other: &str| json!({"name": name, "command": "sh", "args": ["-c", text, "sh", mine, other]});
    let toolbox = agent
        .toolbox(&[tool("a", "one", "two"), tool("b", "two", "one")])
        .await
        .unwrap();
    let (a, b) = (call("a", json!({})), call("b", json!({})));
    let (a, b) = tokio::join!(
        toolbox.call(&a, ToolCx::default()),
        toolbox.call(&b, ToolCx::default())
    );
    assert_eq!(
        (a.unwrap().text, b.unwrap().text),
        ("met".to_owned(), "met".to_owned())
    );
}
