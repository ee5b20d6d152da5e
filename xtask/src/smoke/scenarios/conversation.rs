//! One process through a conversation: handshake, two turns, an in-process tool, an interrupt, `/clear`, an API error.

use anyhow::Result;
use holodeck_testkit::{AnthropicReply, AnthropicServer};
use serde_json::{Value, json};

use super::{Subject, scripted};
use crate::smoke::conversation::{Conversation, Launch, MODEL, Turn, kind, manifest, prompt};
use crate::smoke::facts::{Facts, listed, text_at};

const SYSTEM: &str = "You are under test.";
const FIRST: &str = "What is 2+2?";
const TOOL: &str = "mcp__holodeck__echo";

pub(super) fn run(subject: &Subject, facts: &mut Facts) -> Result<()> {
    let server = AnthropicServer::answering(|request| match request.index() {
        0 => AnthropicReply::nothing()
            .and_thinking("two and two", "seal")
            .and_text("It is four.")
            .in_pieces(2)
            .tokens(30, 7)
            .cached(20, 10),
        1 => AnthropicReply::text("What two and two is."),
        2 => AnthropicReply::tool_use(TOOL, &json!({"text": "hi"})),
        3 => AnthropicReply::text("It said hi."),
        4 => AnthropicReply::text("never ending").in_pieces(4).hang_after(4),
        5 => AnthropicReply::text("A new start."),
        // Some releases ask again, with less.
        _ => AnthropicReply::error(400, "this is wrong"),
    });
    scripted(server, |server| {
        let launch = Launch::new(&server.url())?.env("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS", "1");
        let system = launch.file("system.md", SYSTEM)?;
        let mut cli = launch
            .args(&[
                "--tools",
                "",
                "--include-partial-messages",
                "--permission-mode",
                "default",
            ])
            .args(&["--allowedTools", TOOL, "--system-prompt-file", &system])
            .start(subject)?;
        let answer = cli.initialize(&json!({
            "sdkMcpServers": ["holodeck"],
            "sdkMcpServerManifests": {"holodeck": manifest()},
        }))?;
        handshake(&answer, facts);
        controls(&mut cli, facts)?;

        let first = match cli.turn(FIRST) {
            Ok(first) => first,
            Err(error) => {
                let came = Turn(std::mem::take(&mut cli.unfinished));
                let last = came.0.last().map(kind).unwrap_or_default();
                let order = listed(order(&came));
                facts.set(
                    "order of frames in a turn",
                    format!("{order}; the last is `{last}`, not `result`"),
                );
                return Err(error);
            }
        };
        let session = text_at(first.result(), "/session_id").to_owned();
        first_turn(&first, facts);
        request(server, facts);

        let second = cli.turn("What did I just ask you?")?;
        let states = [&first, &second].map(|turn| turn.all("system/session_state_changed"));
        let states = states.iter().flatten();
        facts.set(
            "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS",
            listed(states.map(|frame| text_at(frame, "/state"))),
        );
        let same = text_at(second.result(), "/session_id") == session;
        facts.either("two turns: session_id", same, ["stays", "changes"]);
        let requests = server.requests();
        let remembered = requests.get(1).is_some_and(|request| {
            request.texts("user").contains(&FIRST) && request.texts("assistant").contains(&"It is four.")
        });
        facts.either(
            "two turns: history",
            remembered,
            ["the model sees the first turn", "lost"],
        );

        in_process_tool(&mut cli, server, facts)?;
        interrupt(&mut cli, facts)?;
        clear(&mut cli, server, &session, facts)?;

        let asked = server.requests().len();
        let failed = cli.turn("Fail.")?;
        let asked = server.requests().len() - asked;
        facts.set("API error 400: requests", asked);
        facts.set("API error: result", result_ending(failed.result()));
        facts.shape("result (API error)", failed.result());
        let message = failed.first("assistant");
        facts.set("API error: assistant.error", text_at(message, "/error"));
        facts.set(
            "API error: assistant.message.model",
            text_at(message, "/message/model"),
        );
        let ended = cli.close()?;
        facts.set("exit code after an error result", ended.code.unwrap_or(-1));
        Ok(())
    })
}

fn handshake(answer: &Value, facts: &mut Facts) {
    facts.shape("initialize", answer);
    let parked = answer.pointer("/sdk_mcp_manifests_parked/holodeck");
    facts.set(
        "initialize.sdk_mcp_manifests_parked",
        parked.and_then(Value::as_str).unwrap_or("absent"),
    );
}

fn controls(cli: &mut Conversation, facts: &mut Facts) -> Result<()> {
    for request in [
        json!({"subtype": "set_permission_mode", "mode": "acceptEdits"}),
        json!({"subtype": "set_permission_mode", "mode": "plan"}),
        json!({"subtype": "set_permission_mode", "mode": "default"}),
        json!({"subtype": "set_permission_mode", "mode": "acceptAll"}),
        json!({"subtype": "set_max_thinking_tokens", "max_thinking_tokens": 2000}),
        json!({"subtype": "mcp_status"}),
        json!({"subtype": "get_context_usage"}),
        json!({"subtype": "get_session_cost"}),
        json!({"subtype": "get_binary_version"}),
        json!({"subtype": "list_models"}),
        json!({"subtype": "no_such_request"}),
    ] {
        let response = cli.control(&request)?;
        let subtype = text_at(&request, "/subtype");
        let name = match request["mode"].as_str() {
            Some(mode) => format!("{subtype} {mode}"),
            None => subtype.to_owned(),
        };
        let found = match response["error"].as_str() {
            None => text_at(&response, "/subtype").to_owned(),
            Some(_) if response["error_code"].is_string() => {
                format!("error {}", text_at(&response, "/error_code"))
            }
            Some(text) => format!("error: {text}"),
        };
        facts.set(&format!("control {name}"), found);
        if subtype == "mcp_status" {
            facts.shape("mcp_status", &response["response"]["mcpServers"][0]);
            facts.either(
                "mcp_status.mcpServers",
                response["response"]["mcpServers"].is_array(),
                ["array", "absent"],
            );
        }
    }
    Ok(())
}

fn first_turn(turn: &Turn, facts: &mut Facts) {
    let init = turn.first("system/init");
    facts.shape("system/init", init);
    facts.shape("system/init.mcp_servers[]", &init["mcp_servers"][0]);
    let statuses = turn.all("system/status");
    let mut statuses = statuses.iter().filter_map(|frame| frame["status"].as_str());
    facts.set("system/status.status", statuses.next().unwrap_or("absent"));
    let capable = init["capabilities"]
        .as_array()
        .is_some_and(|all| all.iter().any(|capability| capability == "sdk_mcp_manifests"));
    facts.either("capability sdk_mcp_manifests", capable, ["named", "absent"]);
    facts.shape("assistant", turn.first("assistant"));
    facts.shape("stream_event", turn.first("stream_event"));
    let result = turn.result();
    facts.shape("result", result);
    facts.set("normal end: result", result_ending(result));
    facts.set("normal end: result.result", text_at(result, "/result"));
    let usage = [
        "input_tokens",
        "output_tokens",
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
    ];
    facts.set(
        "result.usage counts",
        listed(usage.map(|key| result["usage"][key].to_string())),
    );
    facts.shape("result.modelUsage[]", &result["modelUsage"][MODEL]);
    let blocks = turn.all("assistant").len();
    facts.set(
        "assistant frames of one message",
        format!("{blocks}, one per block"),
    );
    let ids = turn.all("assistant");
    let mut ids: Vec<&str> = ids.iter().map(|frame| text_at(frame, "/message/id")).collect();
    ids.dedup();
    facts.either(
        "message.id of these frames",
        ids.len() == 1,
        ["the same", "different"],
    );
    facts.set("order of frames in a turn", listed(order(turn)));
    let deltas = turn.all("stream_event");
    let mut deltas: Vec<&str> = deltas
        .iter()
        .filter_map(|frame| frame.pointer("/event/delta/type").and_then(Value::as_str))
        .collect();
    deltas.dedup();
    facts.set("stream_event.event.delta.type", listed(deltas));
}

/// The frames that carry the answer, repetitions left out.
fn order(turn: &Turn) -> Vec<String> {
    let frames = turn.0.iter();
    let mut order: Vec<String> = frames
        .filter_map(|frame| match kind(frame).as_str() {
            "stream_event" => Some(text_at(frame, "/event/type").to_owned()),
            own @ ("system/init" | "assistant" | "result") => Some(own.to_owned()),
            _ => None,
        })
        .collect();
    order.dedup();
    order
}

fn request(server: &AnthropicServer, facts: &mut Facts) {
    let requests = server.requests();
    let Some(request) = requests.first() else { return };
    let system = request.system();
    facts.set("--system-prompt-file", system.last().copied().unwrap_or("absent"));
    facts.set("system blocks before it", system.len().saturating_sub(1));
    facts.set(
        "--tools \"\"",
        format!("the model is offered {}", listed(request.tool_names())),
    );
    facts.set("--model MODEL", request.model());
    facts.set(
        "set_max_thinking_tokens 2000",
        format!(
            "thinking.budget_tokens {}",
            request.body()["thinking"]["budget_tokens"]
        ),
    );
    facts.set("the prompt is the last text", request.prompt());
    facts.either(
        "ANTHROPIC_API_KEY",
        request.header("x-api-key") == Some("smoke"),
        ["x-api-key", "absent"],
    );
}

fn in_process_tool(cli: &mut Conversation, server: &AnthropicServer, facts: &mut Facts) -> Result<()> {
    let turn = cli.turn("Use the tool.")?;
    facts.set(
        "handshake of an in-process server, given its manifest",
        methods(cli),
    );
    let messages = cli.asked("mcp_message");
    let calls = messages
        .iter()
        .find(|message| message["message"]["method"] == "tools/call");
    let call = calls.copied().unwrap_or(&Value::Null);
    facts.shape("mcp_message", call);
    let meta = &call["message"]["params"]["_meta"];
    facts.either(
        "tools/call _meta claudecode/toolUseId",
        meta["claudecode/toolUseId"].is_string(),
        ["string", "absent"],
    );
    let answered = turn.first("user");
    facts.shape("user (tool result)", answered);
    let block = &answered["message"]["content"][0];
    facts.shape("user (tool result).message.content[]", block);
    let requests = server.requests();
    let results = requests
        .last()
        .map(holodeck_testkit::AnthropicRequest::tool_results);
    let text = results.and_then(|results| results.first().map(|result| result.text.clone()));
    let text = text.unwrap_or_default();
    facts.either(
        "result of an in-process tool",
        text.starts_with("echo: hi"),
        ["reaches the model", "lost"],
    );
    Ok(())
}

/// The MCP methods asked of the host before the first call, with their number.
fn methods(cli: &Conversation) -> String {
    let messages = cli.asked("mcp_message");
    let methods = messages
        .iter()
        .map(|message| text_at(message, "/message/method"))
        .take_while(|method| *method != "tools/call");
    let mut counted = std::collections::BTreeMap::new();
    for method in methods {
        *counted.entry(method).or_insert(0) += 1;
    }
    listed(counted.iter().map(|(method, times)| format!("{method} ×{times}")))
}

fn interrupt(cli: &mut Conversation, facts: &mut Facts) -> Result<()> {
    cli.send(&prompt(&json!("Go on for ever.")))?;
    cli.until("a piece of text", |frame| {
        frame.pointer("/event/delta/type").and_then(Value::as_str) == Some("text_delta")
    })?;
    let response = cli.control(&json!({"subtype": "interrupt"}))?;
    facts.set("control interrupt", text_at(&response, "/subtype"));
    facts.shape("interrupt", &response["response"]);
    let turn = cli.result()?;
    facts.set("interrupt: result", result_ending(turn.result()));
    facts.shape("result (error)", turn.result());
    Ok(())
}

fn clear(cli: &mut Conversation, server: &AnthropicServer, session: &str, facts: &mut Facts) -> Result<()> {
    let asked = server.requests().len();
    let handshakes = cli.asked("mcp_message").len();
    let mut message = prompt(&json!("/clear"));
    // Taken as it is, it would be a text.
    if let Some(fields) = message.as_object_mut() {
        fields.remove("client_composed");
    }
    let cleared = cli.turn_of(&message)?;
    let result = cleared.result();
    facts.set(
        "/clear: result",
        format!("{}, num_turns {}", result_ending(result), result["num_turns"]),
    );
    let reset = cleared.kinds().contains("conversation_reset");
    facts.either("/clear: conversation_reset", reset, ["sent", "absent"]);
    facts.set("/clear: requests to the model", server.requests().len() - asked);
    let after = cli.turn("Who are you?")?;
    let own = text_at(after.result(), "/session_id");
    facts.either("/clear: session_id", own == session, ["stays", "changes"]);
    let messages = server
        .requests()
        .last()
        .map_or(0, |request| request.texts("assistant").len());
    facts.set("/clear: answers in the history after it", messages);
    let again = cli.asked("mcp_message").len() - handshakes;
    facts.set("/clear: handshakes after it", again);
    Ok(())
}

/// How the turn ended, according to its result.
pub(super) fn result_ending(result: &Value) -> String {
    let status = match &result["api_error_status"] {
        Value::Null => String::new(),
        status => format!(", api_error_status {status}"),
    };
    format!(
        "{}, is_error {}, {}{status}",
        text_at(result, "/subtype"),
        result["is_error"],
        text_at(result, "/terminal_reason")
    )
}
