//! Built-in tools: which there are, which run, who is asked.

use anyhow::Result;
use holodeck_testkit::{AnthropicReply, AnthropicServer};
use serde_json::{Value, json};

use super::{Subject, conversation::result_ending, scripted};
use crate::smoke::conversation::{Launch, Turn};
use crate::smoke::facts::{Facts, listed, text_at};

pub(super) fn run(subject: &Subject, facts: &mut Facts) -> Result<()> {
    asked(subject, facts)?;
    unasked(subject, facts)
}

fn bash(command: &str) -> AnthropicReply {
    AnthropicReply::tool_use("Bash", &json!({"command": command, "description": "test"}))
}

fn asked(subject: &Subject, facts: &mut Facts) -> Result<()> {
    let server = AnthropicServer::replies([
        bash("touch made"),
        AnthropicReply::text("Made."),
        bash("touch deny"),
        AnthropicReply::text("Not made."),
        bash("echo fine"),
        AnthropicReply::text("Fine."),
        bash("echo a && rm -f made"),
        AnthropicReply::text("Not removed."),
        bash("echo hooked"),
        AnthropicReply::text("Not run."),
        bash("touch deny-and-stop"),
    ]);
    scripted(server, |server| {
        let mut cli = Launch::new(&server.url())?
            .args(&["--tools", "Bash,Read", "--permission-prompt-tool", "stdio"])
            .args(&[
                "--allowedTools",
                "Bash(echo *)",
                "--disallowedTools",
                "Bash(rm *)",
            ])
            .start(subject)?;
        cli.initialize(
            &json!({"hooks": {"PreToolUse": [{"matcher": "Bash", "hookCallbackIds": ["hook_0"]}]}}),
        )?;
        let made = cli.place.path().join("work/made");

        let allowed = cli.turn("Make it.")?;
        let requests = server.requests();
        let first = requests.first().map(|request| listed(request.tool_names()));
        facts.set(
            "--tools \"Bash,Read\"",
            format!("the model is offered {}", first.unwrap_or_default()),
        );
        facts.set(
            "--permission-prompt-tool stdio",
            listed(
                cli.asked("can_use_tool")
                    .iter()
                    .map(|asked| text_at(asked, "/subtype")),
            ),
        );
        let ask = cli
            .asked("can_use_tool")
            .first()
            .map_or(Value::Null, |ask| (*ask).clone());
        facts.shape("can_use_tool", &ask);
        facts.either(
            "can_use_tool: behavior allow",
            made.exists(),
            ["the tool runs", "it does not run"],
        );
        facts.set("is_error of a good Bash result", &result_of(&allowed)["is_error"]);
        let hook = cli
            .asked("hook_callback")
            .first()
            .map_or(Value::Null, |hook| (*hook).clone());
        facts.shape("hook_callback", &hook);

        let denied = cli.turn("Make another.")?;
        facts.set(
            "can_use_tool: behavior deny",
            text_at(result_of(&denied), "/content"),
        );
        facts.set(
            "can_use_tool: behavior deny, result",
            result_ending(denied.result()),
        );
        facts.shape(
            "result.permission_denials[]",
            &denied.result()["permission_denials"][0],
        );

        let before = cli.asked("can_use_tool").len();
        let echoed = cli.turn("Echo.")?;
        let silent = cli.asked("can_use_tool").len() == before;
        facts.set(
            "--allowedTools \"Bash(echo *)\"",
            format!(
                "{}, {}",
                text_at(result_of(&echoed), "/content"),
                if silent { "unasked" } else { "asked" }
            ),
        );
        let removed = cli.turn("Remove it.")?;
        let silent = cli.asked("can_use_tool").len() == before;
        facts.set(
            "--disallowedTools \"Bash(rm *)\", in a compound command",
            format!(
                "is_error {}, {}, the file is {}",
                result_of(&removed)["is_error"],
                if silent { "unasked" } else { "asked" },
                if made.exists() { "there" } else { "gone" }
            ),
        );
        let hooked = cli.turn("Run it.")?;
        let reason = text_at(result_of(&hooked), "/content");
        facts.set(
            "hook output permissionDecision deny",
            if reason.contains("denied by the hook") {
                "the reason reaches the model"
            } else {
                reason
            },
        );
        let stopped = cli.turn("Make a third.")?;
        facts.set(
            "can_use_tool: deny with interrupt, result",
            result_ending(stopped.result()),
        );
        cli.close()?;
        Ok(())
    })
}

/// Without an approver: denied automatically.
fn unasked(subject: &Subject, facts: &mut Facts) -> Result<()> {
    let server = AnthropicServer::replies([bash("touch made"), AnthropicReply::text("Not made.")]);
    scripted(server, |server| {
        let mut cli = Launch::new(&server.url())?
            .args(&["--tools", "Bash"])
            .start(subject)?;
        cli.initialize(&Value::Null)?;
        let turn = cli.turn("Make it.")?;
        let denied = turn.first("system/permission_denied");
        facts.shape("system/permission_denied", denied);
        let left_out = !cli.place.path().join("work/made").exists();
        facts.either("an ask without an approver", left_out, ["denied", "allowed"]);
        cli.close()?;
        Ok(())
    })
}

/// The block of the first tool result.
fn result_of(turn: &Turn) -> &Value {
    &turn.first("user")["message"]["content"][0]
}
