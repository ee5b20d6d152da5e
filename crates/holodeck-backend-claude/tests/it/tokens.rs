//! Tests that each token is counted once, for the model that used it: the sums of the events are what the scripted API
//! gave out.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use holodeck_backend_api::{AgentBackend as _, BackendEvent, Opening, TokenUsage, TurnRequest};
use holodeck_backend_claude::{ClaudeBackend, ClaudeOptions};
use holodeck_model::CliVersion;
use holodeck_testkit::{
    AnthropicReply, AnthropicRequest, AnthropicServer, OLDER_CLAUDE, PINNED_CLAUDE, claude_cli,
};
use pretty_assertions::assert_eq;
use serde_json::json;
use tempfile::tempdir;

use crate::setup::{TurnLog, approve_all, options_of, turn};

/// Prompt and answer tokens by model.
pub(crate) type ByModel = BTreeMap<String, (u64, u64)>;

fn add(sums: &mut ByModel, model: &str, input: u64, output: u64) {
    let (prompt, completion) = sums.entry(model.to_owned()).or_default();
    *prompt += input;
    *completion += output;
}

/// The tokens in the events, by model: messages of the agent, and everything else.
fn counted(events: &[BackendEvent]) -> ByModel {
    let mut sums = ByModel::new();
    let mut open = TokenUsage::default();
    for event in events {
        match event {
            BackendEvent::Usage(usage) => open += *usage,
            BackendEvent::TurnEnd { model, .. } => {
                let usage = std::mem::take(&mut open);
                if usage.total_tokens > 0 {
                    let model = model.as_deref().unwrap();
                    add(&mut sums, model, usage.prompt_tokens, usage.completion_tokens);
                }
            }
            BackendEvent::OtherUsage { model, usage } => {
                let model = model.as_deref().unwrap();
                add(&mut sums, model, usage.prompt_tokens, usage.completion_tokens);
            }
            BackendEvent::Nested { event, .. } => {
                assert!(!matches!(**event, BackendEvent::Usage(_)), "{event:?}");
            }
            _ => {}
        }
    }
    assert_eq!(open, TokenUsage::default(), "tokens of no message");
    sums
}

/// Answers so that the agent starts two sub-agents, each of which reads a file, and counts what it gives out.
fn server(note: std::path::PathBuf, given: Arc<Mutex<ByModel>>) -> AnthropicServer {
    AnthropicServer::answering(move |request| {
        let is_helper = request
            .system()
            .iter()
            .any(|text| text.contains("You look things up."));
        let (input, output) = match (is_helper, request.tool_results().is_empty()) {
            (true, true) => (1_000, 11),
            (true, false) => (20_000, 13),
            (false, true) => (300, 17),
            (false, false) => (4_000, 19),
        };
        add(&mut given.lock().unwrap(), request.model(), input, output);
        reply(request, is_helper, &note).tokens(input, output)
    })
}

fn reply(request: &AnthropicRequest, is_helper: bool, note: &std::path::Path) -> AnthropicReply {
    if !request.tool_results().is_empty() {
        return AnthropicReply::text("seen");
    }
    if is_helper {
        return AnthropicReply::text("I look").and_tool_use("Read", &json!({"file_path": note}));
    }
    let input = |prompt: &str| {
        json!({"description": "look", "prompt": prompt, "subagent_type": "looker"}).to_string()
    };
    let id = |name: &str| format!("call_{name}_{}", request.index());
    AnthropicReply::nothing()
        .and_tool_use_as(&id("one"), "Agent", &input("look at one"))
        .and_tool_use_as(&id("two"), "Agent", &input("look at two"))
}

fn options(version: CliVersion, helper: &str, server: &AnthropicServer) -> ClaudeOptions {
    let looker = json!({
        "description": "Looks.", "prompt": "You look things up.", "tools": ["Read"], "model": helper,
    });
    options_of(&claude_cli(version), server)
        .version(version)
        .builtin_tools(["Agent", "Read"])
        .agent("looker", looker)
        .approver(approve_all())
}

fn check(version: CliVersion, log: &TurnLog, given: &Mutex<ByModel>) {
    let given = std::mem::take(&mut *given.lock().unwrap());
    assert_eq!(counted(&log.events), given, "{version}: {:?}", log.events);
    let all: u64 = given.values().map(|(input, output)| input + output).sum();
    let usage = log.result().token_usage.unwrap();
    assert_eq!(usage.total_tokens, all, "{version}");
}

/// Two turns of a session with sub-agents on `helper`: each counts what was given out during it.
pub(crate) async fn check_release(version: CliVersion, helper: &str) {
    let folder = tempdir().unwrap();
    let note = folder.path().join("note.txt");
    std::fs::write(&note, "x").unwrap();
    let given = Arc::new(Mutex::new(ByModel::new()));
    let server = server(note, Arc::clone(&given));
    let options = options(version, helper, &server).working_directory(folder.path());
    let backend = ClaudeBackend::new(options).unwrap();
    let mut session = backend.open_session(Opening::default()).await.unwrap();
    for message in ["look", "and once more"] {
        let log = turn(session.turn(TurnRequest::new(message))).await;
        check(version, &log, &given);
    }
    session.close().await.unwrap();
    backend.teardown().await.unwrap();
    let requests = server.finish();
    let mut helpers = requests
        .iter()
        .filter(|request| request.model() == "claude-haiku-4-5");
    assert_eq!(helpers.next().is_some(), helper != "inherit", "{version}");
}

#[tokio::test]
async fn tokens_of_sub_agents_count_once_and_for_their_model() {
    for version in [PINNED_CLAUDE, OLDER_CLAUDE] {
        for helper in ["claude-haiku-4-5", "inherit"] {
            check_release(version, helper).await;
        }
    }
}

/// An endpoint may answer with a dated id, or with a name of its own.
#[tokio::test]
async fn tokens_count_once_if_the_endpoint_calls_its_model_otherwise() {
    for (name, expected) in [
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5-20250929"),
        ("acme-large", "acme-large"),
    ] {
        let server = AnthropicServer::replies([AnthropicReply::text("ok").model(name).tokens(700, 3)]);
        let options = options_of(&claude_cli(PINNED_CLAUDE), &server);
        let backend = ClaudeBackend::new(options).unwrap();
        let log = turn(backend.start(TurnRequest::new("hi"))).await;
        backend.teardown().await.unwrap();
        server.finish();
        assert_eq!(
            counted(&log.events),
            ByModel::from([(expected.to_owned(), (700, 3))])
        );
    }
}
