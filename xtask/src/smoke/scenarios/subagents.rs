//! Lets the model start a subagent in the foreground and observes the frames of the CLI.

use std::collections::BTreeSet;

use anyhow::Result;
use holodeck_testkit::{AnthropicReply, AnthropicServer};
use serde_json::json;

use super::{Subject, conversation::result_ending, scripted};
use crate::smoke::conversation::{Launch, kind};
use crate::smoke::facts::{Facts, listed, text_at};

const ROLE: &str = "You count things.";

pub(super) fn run(subject: &Subject, facts: &mut Facts) -> Result<()> {
    let server = AnthropicServer::answering(|request| {
        if request.system().concat().contains(ROLE) {
            AnthropicReply::text("Seven.")
        } else if request.tool_results().is_empty() {
            AnthropicReply::tool_use(
                "Agent",
                &json!({"description": "count", "prompt": "Count.", "subagent_type": "counter"}),
            )
        } else {
            AnthropicReply::text("There are seven.")
        }
    });
    scripted(server, |server| {
        let mut cli = Launch::new(&server.url())?
            .args(&["--tools", "Agent", "--allowedTools", "Agent"])
            .env("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1")
            .start(subject)?;
        cli.initialize(&json!({
            "agents": {"counter": {"description": "Counts.", "prompt": ROLE}},
            "forwardSubagentText": true,
        }))?;
        let turn = cli.turn("How many?")?;
        facts.set(
            "--tools Agent: system/init.tools",
            listed(
                turn.first("system/init")["tools"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(|name| name.as_str()),
            ),
        );
        let requests = server.requests();
        let first = requests.first();
        facts.set(
            "--tools Agent",
            format!(
                "the model is offered {}",
                listed(first.map(|request| request.tool_names()).unwrap_or_default())
            ),
        );
        let own = requests
            .iter()
            .any(|request| request.system().concat().contains(ROLE));
        facts.either("initialize.agents{}.prompt", own, ["its system prompt", "absent"]);
        facts.set(
            "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS",
            result_ending(turn.result()),
        );
        let inner: Vec<_> = turn
            .0
            .iter()
            .filter(|frame| frame["parent_tool_use_id"].is_string())
            .collect();
        let kinds: BTreeSet<String> = inner.iter().map(|frame| kind(frame)).collect();
        facts.set("frames with parent_tool_use_id", listed(kinds));
        if let Some(message) = inner.iter().find(|frame| kind(frame) == "assistant") {
            facts.shape("assistant (subagent)", message);
            facts.set("forwardSubagentText", text_at(message, "/message/content/0/text"));
        }
        facts.shape("system/task_started", turn.first("system/task_started"));
        facts.shape("system/task_notification", turn.first("system/task_notification"));
        let ended = cli.close()?;
        let results = ended
            .frames
            .iter()
            .filter(|frame| frame["type"] == "result")
            .count();
        facts.set("results after the first", results);
        Ok(())
    })
}
