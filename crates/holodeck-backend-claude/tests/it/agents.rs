//! Agents that the agent starts.

use std::{
    collections::HashSet,
    num::NonZeroUsize,
    sync::{Arc, Mutex},
};

use holodeck_backend_api::{BackendEvent, Outcome};
use holodeck_testkit::{AnthropicReply, AnthropicRequest, AnthropicServer, Gate};
use pretty_assertions::assert_eq;
use serde_json::json;
use tempfile::tempdir;

use crate::setup::{ask, installed, options, options_of, told, yes};

const LOOKERS: [&str; 3] = ["look at one", "look at two", "look at three"];

/// The agents that run, as the model's endpoint sees them.
#[derive(Default)]
struct Running {
    now: HashSet<String>,
    done: HashSet<String>,
    most: usize,
}

/// Which of the three asks, if it is none but the main one.
fn looker(request: &AnthropicRequest) -> Option<&'static str> {
    let of_looker = request
        .system()
        .iter()
        .any(|text| text.contains("You look things up."));
    let texts = request.texts("user");
    let asks = |looker: &&&str| texts.iter().any(|text| text.contains(**looker));
    LOOKERS.iter().find(asks).copied().filter(|_| of_looker)
}

/// Three agents at once, each of which reads before it answers, and answers only when `together` of them run or ran.
async fn most_at_once(limit: Option<usize>, together: usize) -> usize {
    let folder = tempdir().unwrap();
    let file = folder.path().join("note.txt");
    std::fs::write(&file, "seen").unwrap();
    let running = Arc::new(Mutex::new(Running::default()));
    let enough = Gate::new();
    let seen = Arc::clone(&running);
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
        let mut running = seen.lock().unwrap();
        running.now.insert(looker.to_owned());
        running.most = running.most.max(running.now.len());
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
        .approver(yes())
        .working_directory(folder.path());
    if let Some(limit) = limit {
        options = options.parallel_agents(NonZeroUsize::new(limit).unwrap());
    }
    let heard = ask(options, "look").await;
    let result = heard.result();
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
        // What happened in it is told as its own.
        let nested: Vec<_> = heard
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
    running.lock().unwrap().most
}

#[tokio::test]
async fn agents_run_at_once() {
    assert_eq!(most_at_once(None, 3).await, 3);
}

#[tokio::test]
async fn no_more_agents_run_at_once_than_may() {
    assert_eq!(most_at_once(Some(2), 2).await, 2);
}

#[tokio::test]
async fn agents_may_run_one_after_the_other() {
    assert_eq!(most_at_once(Some(1), 1).await, 1);
}

/// What an agent says that starts another one, which starts none, where `places` agents may run.
async fn within(version: &str, places: usize) -> String {
    let server = AnthropicServer::answering(|request| {
        let texts = request.texts("user").join(" ");
        if !request.tool_results().is_empty() {
            let (told, _) = told(request).swap_remove(0);
            return AnthropicReply::text(format!("I heard: {told}"));
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
        .parallel_agents(NonZeroUsize::new(places).unwrap())
        .approver(yes());
    let heard = ask(options, "look").await;
    server.finish();
    heard.result().response.clone()
}

#[tokio::test]
async fn an_agent_that_starts_another_does_not_wait_for_its_own_place() {
    let two = within("2.1.330", 2).await;
    assert!(two.contains("all is well"), "{two}");
    for version in ["2.1.330", "2.1.197"] {
        let one = within(version, 1).await;
        let refused = "as many agents run as may run at the same time";
        assert!(
            one.contains(refused) && !one.contains("all is well"),
            "{version}: {one}"
        );
    }
}
