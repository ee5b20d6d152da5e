//! Structured output, and thinking switched off.

use std::path::Path;

use anyhow::Result;
use holodeck_testkit::{AnthropicReply, AnthropicServer};
use serde_json::{Value, json};

use super::{Subject, conversation::result_ending, scripted};
use crate::smoke::conversation::Launch;
use crate::smoke::facts::{Facts, listed, text_at};

const TOOL: &str = "StructuredOutput";

pub(super) fn run(subject: &Subject, facts: &mut Facts) -> Result<()> {
    let wrong = || AnthropicReply::tool_use(TOOL, &json!({"answer": "four"}));
    let mut replies = vec![
        wrong(),
        AnthropicReply::tool_use(TOOL, &json!({"answer": 4})),
        AnthropicReply::text("Four."),
        AnthropicReply::text("Four, I said."),
    ];
    replies.extend((0..5).map(|_| wrong()));
    let server = AnthropicServer::replies(replies);
    scripted(server, |server| {
        let schema = json!({
            "type": "object", "properties": {"answer": {"type": "integer"}}, "required": ["answer"],
            "additionalProperties": false,
        });
        let mut cli = Launch::new(&server.url())?
            .args(&[
                "--tools",
                "",
                "--no-session-persistence",
                "--thinking",
                "disabled",
                "--json-schema",
                &schema.to_string(),
            ])
            .start(subject)?;
        cli.initialize(&Value::Null)?;
        let good = cli.turn("What is 2+2?")?;
        facts.set(
            "result.structured_output",
            good.result()["structured_output"].to_string(),
        );
        facts.set("result.result beside it", text_at(good.result(), "/result"));
        let requests = server.requests();
        facts.set(
            "structured output: requests after the valid call",
            requests.len() - 2,
        );
        if let Some(first) = requests.first() {
            facts.set(
                "--json-schema",
                format!("the model is offered {}", listed(first.tool_names())),
            );
            let own = first
                .tool(TOOL)
                .map_or(&Value::Null, |tool| &tool["input_schema"]["properties"]);
            facts.either(
                "input of StructuredOutput",
                *own == schema["properties"],
                ["the schema", "another"],
            );
            facts.set("--thinking disabled", text_at(first.body(), "/thinking/type"));
        }
        let never = cli.turn("What is 2+2?")?;
        let found = never.result().get("structured_output");
        facts.set(
            "structured output never called",
            format!(
                "{}, structured_output {}",
                result_ending(never.result()),
                if found.is_some() { "there" } else { "absent" }
            ),
        );
        facts.set("nudges for structured output", server.requests().len() - 3);
        let exhausted = cli.turn("What is 2+2?")?;
        facts.set("structured output never valid", result_ending(exhausted.result()));
        let place = std::sync::Arc::clone(&cli.place);
        cli.close()?;
        let kept = keeps_a_session(&place.path().join("config/projects"));
        facts.either(
            "--no-session-persistence",
            kept,
            ["sessions are kept", "nothing is kept"],
        );
        Ok(())
    })
}

/// Whether a conversation was written below this folder: `PROJECT/SESSION.jsonl`.
fn keeps_a_session(projects: &Path) -> bool {
    let below = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten();
    below(projects)
        .flat_map(|project| below(&project.path()).collect::<Vec<_>>())
        .any(|file| {
            file.path()
                .extension()
                .is_some_and(|extension| extension == "jsonl")
        })
}
