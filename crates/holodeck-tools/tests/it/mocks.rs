//! Tools that answer from the YAML.

use std::time::Duration;

use holodeck_backend_api::{Conversation, ToolCx, ToolError, ToolHost, ToolKind, ToolOutput, ToolSpec};
use holodeck_model::{Env, MemoryFiles, ToolNames};
use holodeck_tools::{FunctionTool, Toolbox};
use holodeck_yaml::load_agent;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::agent::{call, plain};

fn toolbox(tools: &str) -> Toolbox {
    let text = format!(
        "name: a\nmodel: {{provider: openai, name: m}}\ninstructions: {{inline: Hi}}\ntools:\n{tools}\n"
    );
    let files = MemoryFiles::new().with("agent.yaml", text);
    let load = load_agent("agent.yaml".as_ref(), &Env::empty(), &files);
    let agent = load.agent.unwrap_or_else(|| panic!("{:#?}", load.diagnostics));
    let mut toolbox = Toolbox::new();
    toolbox
        .add_mocks(&agent.config.tools, &ToolNames::of(&agent.config))
        .unwrap();
    toolbox
}

/// A function tool `f` with this mock.
fn mocked_toolbox(mock: &str) -> Toolbox {
    toolbox(&format!(
        "  - {{type: function, name: f, description: d, mock: {mock}}}"
    ))
}

async fn ask(toolbox: &Toolbox, conversation: &Conversation, arguments: Value) -> String {
    let cx = ToolCx {
        conversation: conversation.clone(),
        ..ToolCx::default()
    };
    match toolbox.call(&call("f", arguments), cx).await {
        Ok(ToolOutput { text, is_error, .. }) if is_error => format!("error: {text}"),
        Ok(output) => output.text,
        Err(error) => format!("unavailable: {error}"),
    }
}

async fn ask_all(mock: &str, arguments: &[Value]) -> Vec<String> {
    let (toolbox, conversation) = (mocked_toolbox(mock), Conversation::new());
    let mut answers = Vec::new();
    for arguments in arguments {
        answers.push(ask(&toolbox, &conversation, arguments.clone()).await);
    }
    answers
}

#[tokio::test]
async fn a_single_answer_is_used_for_every_call() {
    let twice = [json!({}), json!({"x": 1})];
    for (mock, expected) in [
        ("sunny", "sunny"),
        ("7.50", "7.50"),
        ("{result: {a: [1, true]}}", r#"{"a":[1,true]}"#),
        ("{result: 7}", "7"),
        ("{error: no such order}", "error: no such order"),
        (
            "{unavailable: gone}",
            "unavailable: tool `f` could not be run: gone",
        ),
    ] {
        assert_eq!(ask_all(mock, &twice).await, [expected, expected], "{mock}");
    }
}

#[tokio::test]
async fn a_script_returns_the_first_matching_answer_that_is_not_used_up() {
    let mock =
        "[{args: {id: 7}, result: seven, times: 2}, {args: {id: {gte: 100}}, error: unknown}, other, last]";
    let calls = [
        json!({"id": 7}),
        json!({"id": 250}),
        json!({"id": 7.0}),
        json!({"id": 7}),
        json!({"id": 250}),
        json!({"id": 1}),
    ];
    insta::assert_snapshot!(ask_all(mock, &calls).await.join("\n"), @r#"
    seven
    error: unknown
    seven
    other
    last
    unavailable: tool `f` could not be run: its mock has no answer left for {"id":1}
    "#);
}

#[tokio::test]
async fn a_used_up_script_follows_when_used_up() {
    let calls = || [json!({}), json!({}), json!({}), json!({}), json!({})];
    assert_eq!(
        ask_all("{script: [a, b], when_used_up: repeat_last}", &calls()).await,
        ["a", "b", "b", "b", "b"]
    );
    assert_eq!(
        ask_all("{script: [a, b], when_used_up: restart}", &calls()).await,
        ["a", "b", "a", "b", "a"]
    );
    assert_eq!(
        ask_all("[a]", &calls()[..2]).await,
        [
            "a",
            "unavailable: tool `f` could not be run: its mock has no answer left for a call without arguments"
        ]
    );
    // A call that matches no answer gets none, even if answers repeat.
    for rule in ["repeat_last", "restart"] {
        let mock = format!("{{script: [{{args: {{x: 1}}, result: a}}], when_used_up: {rule}}}");
        let answers = ask_all(&mock, &[json!({"x": 2})]).await;
        assert!(answers[0].starts_with("unavailable"), "{answers:?}");
    }
}

#[tokio::test]
async fn the_script_starts_over_for_each_conversation() {
    let toolbox = mocked_toolbox("[a, b, c]");
    let (one, other) = (Conversation::new(), Conversation::new());
    let mut answers = Vec::new();
    for conversation in [&one, &other, &one, &one, &other] {
        answers.push(ask(&toolbox, conversation, json!({})).await);
    }
    assert_eq!(answers, ["a", "a", "b", "c", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_answer_takes_its_time_and_can_be_stopped() {
    let toolbox = mocked_toolbox("{result: late, delay_ms: 20000}");
    let start = tokio::time::Instant::now();
    assert_eq!(ask(&toolbox, &Conversation::new(), json!({})).await, "late");
    assert_eq!(start.elapsed(), Duration::from_secs(20));
    let stop = CancellationToken::new();
    let waiting = call("f", json!({}));
    let (stopped, ()) = tokio::join!(toolbox.call(&waiting, ToolCx::from(stop.clone())), async {
        stop.cancel();
    });
    assert!(matches!(stopped, Err(ToolError::Cancelled)), "{stopped:?}");
    // The time limit of the real tool applies to its mock.
    let toolbox = mocked_toolbox("{result: late, delay_ms: 20000}, timeout_ms: 1500");
    assert_eq!(
        ask(&toolbox, &Conversation::new(), json!({})).await,
        "error: no answer within 1.5 s"
    );
    // The delay of a script applies to every answer without its own.
    let (toolbox, conversation) = (
        mocked_toolbox("{script: [a, {result: b, delay_ms: 1}], delay_ms: 3000}"),
        Conversation::new(),
    );
    let start = tokio::time::Instant::now();
    for _ in 0..2 {
        ask(&toolbox, &conversation, json!({})).await;
    }
    assert_eq!(start.elapsed(), Duration::from_millis(3001));
}

#[tokio::test]
async fn the_model_sees_what_it_would_see_of_the_real_tools() {
    let toolbox = toolbox(
        "  - {type: vectorstore, name: kb, description: Handbook., source: none/, mock: a}
  - {type: hierarchical_document, name: law, description: Law., source: none/, mock: a}
  - {type: function, name: f, description: A function., parameters: {id: {type: integer}}, mock: a}
  - {type: prompt, name: p, description: A prompt., parameters: {x: {type: string, default: y}}, mock: a}
  - type: mcp
    name: weather
    description: The weather.
    config: {allowed_tools: [today, later]}
    mock:
      tools:
        today: sunny
        later: {description: Later., parameters: {day: {type: string}}, result: rain}
        hidden: none",
    );
    insta::assert_debug_snapshot!(toolbox.specs());
    let output = toolbox
        .call(
            &call("mcp__weather__later", json!({"day": "Monday"})),
            ToolCx::default(),
        )
        .await
        .unwrap();
    assert_eq!(output.details.kind, Some(ToolKind::Mcp));
    assert_eq!(plain(output), ToolOutput::ok("rain"));
    let wrong = toolbox
        .call(&call("kb_search", json!({"q": "x"})), ToolCx::default())
        .await
        .unwrap();
    assert!(
        wrong.is_error,
        "arguments are checked as for real tools: {wrong:?}"
    );
}

/// The model sees the same of a function with and without its mock.
#[tokio::test]
async fn a_mocked_function_looks_like_the_real_one() {
    let yaml = "{type: function, name: f, description: d, command: cat, parameters: {id: {type: integer, optional: true}}";
    let mocked = toolbox(&format!("  - {yaml}, mock: a}}"));
    let text = format!(
        "name: a\nmodel: {{provider: openai, name: m}}\ninstructions: {{inline: Hi}}\ntools:\n  - {yaml}}}\n"
    );
    let files = MemoryFiles::new().with("agent.yaml", text);
    let load = load_agent("agent.yaml".as_ref(), &Env::empty(), &files);
    let agent = load.agent.unwrap();
    let holodeck_model::ToolConfig::Function(config) = &agent.config.tools[0] else {
        panic!("not a function")
    };
    let mut real = Toolbox::new();
    let tool = FunctionTool::prepare(config, &Env::empty(), &CancellationToken::new())
        .await
        .unwrap();
    real.add(std::sync::Arc::new(tool), Duration::from_secs(1))
        .unwrap();
    let specs: [&[ToolSpec]; 2] = [mocked.specs(), real.specs()];
    assert_eq!(specs[0], specs[1]);
}
