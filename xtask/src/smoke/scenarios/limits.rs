//! Limits of turns, money, thinking and retries.

use anyhow::Result;
use holodeck_testkit::{AnthropicReply, AnthropicServer};
use serde_json::{Value, json};

use super::{Subject, conversation::result_ending, scripted};
use crate::smoke::conversation::Launch;
use crate::smoke::facts::{Facts, text_at};

pub(super) fn run(subject: &Subject, facts: &mut Facts) -> Result<()> {
    turns(subject, facts)?;
    money(subject, facts)?;
    retries(subject, facts)
}

fn turns(subject: &Subject, facts: &mut Facts) -> Result<()> {
    let call = || AnthropicReply::tool_use("Bash", &json!({"command": "echo hi"}));
    let server = AnthropicServer::replies([call(), AnthropicReply::text("Fine.")]);
    scripted(server, |server| {
        let mut cli = Launch::new(&server.url())?
            .args(&["--tools", "Bash", "--allowedTools", "Bash", "--max-turns", "1"])
            .args(&[
                "--max-thinking-tokens",
                "3000",
                "--system-prompt",
                "S",
                "--append-system-prompt",
                "And more.",
            ])
            .start(subject)?;
        cli.initialize(&Value::Null)?;
        let over = cli.turn("Call.")?;
        facts.set("--max-turns exceeded", result_ending(over.result()));
        let text = text_at(over.result(), "/errors/0");
        facts.set("--max-turns exceeded: errors[0]", text);
        let fine = cli.turn("Say.")?;
        facts.set("the turn after it", result_ending(fine.result()));
        if let Some(request) = server.requests().first() {
            facts.set(
                "--max-thinking-tokens 3000",
                format!("budget_tokens {}", request.body()["thinking"]["budget_tokens"]),
            );
            let system = request.system().concat();
            facts.either(
                "--append-system-prompt",
                system.contains("And more."),
                ["appended", "absent"],
            );
        }
        cli.close()?;
        Ok(())
    })
}

fn money(subject: &Subject, facts: &mut Facts) -> Result<()> {
    let server = AnthropicServer::replies([
        AnthropicReply::tool_use("Bash", &json!({"command": "echo hi"})).tokens(1_000_000, 1000)
    ]);
    scripted(server, |server| {
        let mut cli = Launch::new(&server.url())?
            .args(&[
                "--tools",
                "Bash",
                "--allowedTools",
                "Bash",
                "--max-budget-usd",
                "0.01",
            ])
            // The last one counts.
            .args(&[
                "--model",
                "sonnet",
                "--effort",
                "low",
                "--fallback-model",
                "haiku",
                "--thinking",
                "adaptive",
            ])
            .start(subject)?;
        cli.initialize(&Value::Null)?;
        let over = cli.turn("Call.")?;
        facts.set("--max-budget-usd exceeded", result_ending(over.result()));
        if let Some(request) = server.requests().first() {
            facts.set("--model sonnet", request.model());
            facts.set("--effort low", text_at(request.body(), "/output_config/effort"));
            facts.set("--thinking adaptive", text_at(request.body(), "/thinking/type"));
        }
        cli.close()?;
        Ok(())
    })
}

fn retries(subject: &Subject, facts: &mut Facts) -> Result<()> {
    let server = AnthropicServer::replies([
        AnthropicReply::error(401, "invalid x-api-key"),
        AnthropicReply::text("After all."),
        AnthropicReply::text("Cut short.").in_pieces(3).cut_after(3),
        AnthropicReply::text("Whole."),
        AnthropicReply::error(529, "Overloaded"),
        AnthropicReply::error(529, "Overloaded"),
    ]);
    scripted(server, |server| {
        let mut cli = Launch::new(&server.url())?
            .args(&["--tools", ""])
            .start(subject)?;
        cli.initialize(&Value::Null)?;
        let retried = cli.turn("Go.")?;
        let notice = retried.first("system/api_retry");
        facts.shape("system/api_retry", notice);
        facts.set(
            "401 is retried",
            format!(
                "{} {}, attempt {} of {}",
                notice["error_status"],
                text_at(notice, "/error"),
                notice["attempt"],
                notice["max_retries"]
            ),
        );
        let cut = cli.turn("Go.")?;
        let texts = cut.all("assistant").len();
        facts.set(
            "a stream that breaks off",
            format!("{}, {texts} assistant frame", result_ending(cut.result())),
        );
        let status = &cut.first("system/api_retry")["error_status"];
        facts.set("a stream that breaks off: error_status", status);
        let overloaded = cli.turn("Go.")?;
        facts.set("retries used up", result_ending(overloaded.result()));
        cli.close()?;
        Ok(())
    })
}
