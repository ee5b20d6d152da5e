//! Tests that sub-agents run at the same time up to the configured limit.

use std::{
    collections::HashSet,
    num::NonZeroUsize,
    sync::{Arc, Mutex},
};

use holodeck_backend_api::{BackendEvent, Outcome};
use holodeck_backend_claude::Worktrees;
use holodeck_process::{ChildEnv, ProcessSpec};
use holodeck_testkit::{AnthropicReply, AnthropicRequest, AnthropicServer, Gate};
use pretty_assertions::assert_eq;
use serde_json::json;
use tempfile::tempdir;
use tokio_util::sync::CancellationToken;

use crate::setup::{PATH, approve_all, ask, installed, options, options_of};

const LOOKERS: [&str; 3] = ["look at one", "look at two", "look at three"];

/// The agents that the model's endpoint gets requests from.
#[derive(Default)]
struct Running {
    now: HashSet<String>,
    done: HashSet<String>,
    max: usize,
}

/// The sub-agent that sent a request; `None` for the main agent.
fn looker(request: &AnthropicRequest) -> Option<&'static str> {
    let of_looker = request
        .system()
        .iter()
        .any(|text| text.contains("You look things up."));
    let texts = request.texts("user");
    let asks = |looker: &&&str| texts.iter().any(|text| text.contains(**looker));
    LOOKERS.iter().find(asks).copied().filter(|_| of_looker)
}

/// Starts three agents that read a file before they answer, and answer only after `together` of them have started.
/// Returns the maximum number that ran at the same time.
async fn max_at_once(limit: Option<usize>, together: usize) -> usize {
    let folder = tempdir().unwrap();
    let file = folder.path().join("note.txt");
    std::fs::write(&file, "seen").unwrap();
    let running = Arc::new(Mutex::new(Running::default()));
    let enough = Gate::new();
    let observed = Arc::clone(&running);
    let server = AnthropicServer::answering(move |request| {
        let Some(looker) = looker(request) else {
            if !request.tool_results().is_empty() {
                return AnthropicReply::text("all seen");
            }
            return LOOKERS.iter().fold(AnthropicReply::nothing(), |reply, looker| {
                let input = json!({"description": "look", "prompt": looker, "subagent_type": "looker"});
                reply.and_tool_use_as(
                    &format!("call {looker}").replace(' ', "_"),
                    "Agent",
                    &input.to_string(),
                )
            });
        };
        let mut running = observed.lock().unwrap();
        running.now.insert(looker.to_owned());
        running.max = running.max.max(running.now.len());
        if running.now.len() + running.done.len() >= together {
            enough.open();
        }
        if request.tool_results().is_empty() {
            return AnthropicReply::tool_use("Read", &json!({"file_path": file})).behind(&enough);
        }
        running.now.remove(looker);
        running.done.insert(looker.to_owned());
        AnthropicReply::text(format!("I did {looker}"))
    });
    let mut options = options(&server)
        .builtin_tools(["Agent", "Read"])
        .agent(
            "looker",
            json!({"description": "Looks.", "prompt": "You look things up.", "tools": ["Read"]}),
        )
        .approver(approve_all())
        .working_directory(folder.path());
    if let Some(limit) = limit {
        options = options.parallel_agents(NonZeroUsize::new(limit).unwrap());
    }
    let log = ask(options, "look").await;
    let result = log.result();
    assert_eq!(
        (result.outcome.clone(), result.response.as_str()),
        (Outcome::Completed, "all seen")
    );
    assert_eq!(result.tool_calls.len(), 3);
    assert_eq!(running.lock().unwrap().done.len(), 3);
    for (call, looker) in result.tool_calls.iter().zip(LOOKERS) {
        assert_eq!(call.name, "Agent");
        let answer = result
            .tool_results
            .iter()
            .find(|answer| answer.call_id == call.call_id);
        let answer = &answer.unwrap().result;
        assert!(answer.contains(&format!("I did {looker}")), "{answer}");
        // Its events are nested under its call.
        let nested: Vec<_> = log
            .events
            .iter()
            .filter_map(|event| match event {
                BackendEvent::Nested {
                    parent_call_id,
                    event,
                } if *parent_call_id == call.call_id => Some(&**event),
                _ => None,
            })
            .collect();
        let reads = nested
            .iter()
            .filter(|event| matches!(event, BackendEvent::ToolCall(call) if call.name == "Read"));
        assert_eq!(reads.count(), 1, "{nested:?}");
    }
    let requests = server.finish();
    assert!(requests[0].body().to_string().contains("looker: Looks."));
    let of_looker = requests.iter().find(|request| looker(request).is_some()).unwrap();
    assert_eq!(of_looker.tool_names(), ["Read"]);
    running.lock().unwrap().max
}

#[tokio::test]
async fn agents_run_at_once() {
    assert_eq!(max_at_once(None, 3).await, 3);
}

#[tokio::test]
async fn no_more_agents_run_at_once_than_allowed() {
    assert_eq!(max_at_once(Some(2), 2).await, 2);
}

#[tokio::test]
async fn agents_may_run_one_after_the_other() {
    assert_eq!(max_at_once(Some(1), 1).await, 1);
}

/// The answer of an agent that starts a nested one, if `limit` agents may run.
async fn run_nested(version: &str, limit: usize) -> String {
    let server = AnthropicServer::answering(|request| {
        let texts = request.texts("user").join(" ");
        if !request.tool_results().is_empty() {
            let (result, _) = request.last_results().swap_remove(0);
            return AnthropicReply::text(format!("I got: {result}"));
        }
        let next = match (texts.contains("INNER"), texts.contains("OUTER")) {
            (true, _) => return AnthropicReply::text("all is well"),
            (_, true) => "INNER",
            _ => "OUTER",
        };
        let input = json!({"description": "look", "prompt": next, "subagent_type": "looker"});
        AnthropicReply::tool_use("Agent", &input)
    });
    let options = options_of(&installed(version), &server)
        .builtin_tools(["Agent"])
        .agent(
            "looker",
            json!({"description": "Looks.", "prompt": "You look things up."}),
        )
        .parallel_agents(NonZeroUsize::new(limit).unwrap())
        .approver(approve_all());
    let log = ask(options, "look").await;
    server.finish();
    log.result().response.clone()
}

#[tokio::test]
async fn an_agent_that_starts_another_does_not_wait_for_its_own_slot() {
    let two = run_nested("2.1.330", 2).await;
    assert!(two.contains("all is well"), "{two}");
    for version in ["2.1.330", "2.1.197"] {
        let one = run_nested(version, 1).await;
        let refused = "the maximum number of agents is already running";
        assert!(
            one.contains(refused) && !one.contains("all is well"),
            "{version}: {one}"
        );
    }
}

/// A test without `--allow-side-effects` leaves no folder in the repository of the agent.
#[tokio::test]
async fn no_sub_agent_gets_a_copy_of_the_repository_that_is_refused() {
    for version in ["2.1.330", "2.1.197"] {
        for by in ["argument", "definition"] {
            let folder = tempdir().unwrap();
            let git = |arguments: &[&str]| {
                let env: ChildEnv = [
                    ("PATH".into(), PATH.into()),
                    ("HOME".into(), folder.path().into()),
                ]
                .into_iter()
                .collect();
                let git = ProcessSpec::new("git", env).args(arguments.iter().copied());
                let git = git.current_dir(folder.path());
                async move {
                    holodeck_process::run(&git, &CancellationToken::new())
                        .await
                        .unwrap()
                }
            };
            git(&["init", "-q"]).await;
            let who = ["-c", "user.name=a", "-c", "user.email=a@b"];
            git(&[&who[..], &["commit", "-q", "--allow-empty", "-m", "one"]].concat()).await;
            let server = AnthropicServer::answering(move |request| {
                if request
                    .system()
                    .iter()
                    .any(|text| text.contains("You look things up."))
                {
                    return AnthropicReply::text("it ran");
                }
                if !request.tool_results().is_empty() {
                    let (result, is_error) = request.last_results().swap_remove(0);
                    return AnthropicReply::text(format!("{is_error}: {result}"));
                }
                let mut input = json!({"description": "look", "prompt": "look", "subagent_type": "looker"});
                if by == "argument" {
                    input["isolation"] = json!("worktree");
                }
                AnthropicReply::tool_use("Agent", &input)
            });
            let mut looker = json!({"description": "Looks.", "prompt": "You look things up."});
            if by == "definition" {
                looker["isolation"] = json!("worktree");
            }
            let options = options_of(&installed(version), &server)
                .builtin_tools(["Agent"])
                .agent("looker", looker)
                .approver(approve_all())
                .worktrees(Worktrees::Refused)
                .working_directory(folder.path());
            let log = ask(options, "look").await;
            server.finish();
            let answer = &log.result().response;
            assert!(answer.starts_with("true: "), "{version} {by}: {answer}");
            let left: Vec<_> = std::fs::read_dir(folder.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name())
                .collect();
            assert_eq!(left, [".git"], "{version} {by}");
        }
    }
}
