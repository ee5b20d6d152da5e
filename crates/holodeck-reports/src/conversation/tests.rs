//! Tests of the pages of conversations: every state has its word, hostile text is text, and a form is where one belongs.

use holodeck_backend_api::{ExecutionResult, Outcome, ToolCall, ToolResult};
use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

const HOSTILE: &str = "</pre><script>alert(1)</script>\u{1b}[2J\u{202e}";

fn about(state: TurnState) -> ListedConversation {
    ListedConversation {
        session: "../../session".to_owned(),
        first_message: Some(format!("first {HOSTILE}")),
        agent: Some("helper".to_owned()),
        file: Some("desk.yaml".to_owned()),
        last_at: "2026-01-02T03:04:05Z".to_owned(),
        messages: 7,
        runs: 3,
        state,
    }
}

fn turn(question: &str, answer: &str, outcome: Outcome, state: TurnState) -> ConversationTurn {
    let result = ExecutionResult {
        response: answer.to_owned(),
        outcome,
        ..ExecutionResult::default()
    };
    ConversationTurn {
        record: TurnRecord::of_result(
            question.to_owned(),
            result,
            TurnRecord::default().trajectory,
            1_500,
        ),
        state,
        run_id: "run-of-turn".to_owned(),
        at: "2026-01-02T03:04:05Z".to_owned(),
        files: Vec::new(),
        waiting: Vec::new(),
    }
}

fn page(turns: &[ConversationTurn], state: TurnState, usage: PageUse) -> String {
    let save = |turn: usize| format!("/conversation/x/turn/{turn}/save");
    let page = ConversationPage {
        links: &[],
        conversation: &about(state),
        turns,
        shown: (0, turns.len()),
        around: (None, None),
        save: (usage == PageUse::Served).then_some(&save),
        notes: &[],
    };
    let mut out = Vec::new();
    write_conversation(&page, usage, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    text.replace(STYLE, "")
        .replace(HISTORY_STYLE, "")
        .replace(VIEW_SCRIPT, "")
}

#[test]
fn only_a_completed_turn_has_a_form_and_no_state_is_green() {
    let failed = Outcome::Failed {
        reason: "the endpoint is gone".to_owned(),
    };
    let turns = [
        turn("one", "re: one", Outcome::Completed, TurnState::Over),
        turn("two", "half", failed, TurnState::Over),
        turn("three", "so far", Outcome::Completed, TurnState::Running),
        turn("four", "lost", Outcome::Completed, TurnState::Orphaned),
        turn("five", " ", Outcome::Completed, TurnState::Over),
    ];
    let shown = page(&turns, TurnState::Running, PageUse::Served);
    let forms: Vec<&str> = shown.split("<form method=\"get\" action=\"").skip(1).collect();
    assert_eq!(forms.len(), 1);
    assert!(
        forms[0].starts_with("/conversation/x/turn/1/save\""),
        "{}",
        forms[0]
    );
    for (number, state) in [(1, "completed"), (2, "failed"), (3, "running"), (4, "not ended")] {
        let heading = shown.split(&format!("<h3>Turn {number} ")).nth(1).unwrap();
        let badge = heading.split("</h3>").next().unwrap();
        assert!(badge.contains(&format!(">{state}</span>")), "{badge}");
        assert!(!badge.contains("passed"), "{badge}");
    }
    for text in [
        "the endpoint is gone",
        "half",
        "so far",
        "the process that answered ended",
        "run run-of-turn",
    ] {
        assert!(shown.contains(text), "{text} in {shown}");
    }
    let exported = page(&turns, TurnState::Running, PageUse::File);
    assert!(
        !exported.contains("<form") && !exported.contains("<script"),
        "{exported}"
    );
    assert!(!exported.contains("data-again"), "{exported}");
}

#[test]
fn calls_thinking_files_and_questions_are_shown_as_text() {
    let mut turn = turn(HOSTILE, HOSTILE, Outcome::Completed, TurnState::Over);
    let result = &mut turn.record.result;
    result.thinking = Some(format!("thinking {HOSTILE}"));
    result.tool_calls.push(ToolCall {
        name: format!("tool {HOSTILE}"),
        arguments: json!({"query": format!("argument {HOSTILE}")}),
        call_id: "c".to_owned(),
        provider_fields: None,
    });
    result.tool_results.push(ToolResult {
        call_id: "c".to_owned(),
        name: "tool".to_owned(),
        result: format!("result {HOSTILE}"),
        is_error: true,
        duration_ms: None,
        details: holodeck_model::CallDetails::default(),
    });
    turn.files = vec![format!("file {HOSTILE}")];
    turn.waiting = vec![format!("waiting {HOSTILE}")];
    let shown = page(&[turn], TurnState::Over, PageUse::Served);
    for raw in ["<script>alert", "\u{1b}", "\u{202e}", "</pre><script"] {
        assert!(!shown.contains(raw), "{raw:?} in {shown}");
    }
    for text in [
        "thinking &lt;/pre&gt;",
        "tool &lt;",
        "argument &lt;",
        "result &lt;",
        "file &lt;",
        "waiting &lt;",
    ] {
        assert!(shown.contains(text), "{text} in {shown}");
    }
    assert!(shown.contains("../../session"), "{shown}");
}

#[test]
fn a_list_has_conversations_and_the_errors_of_stores() {
    let entry = |conversation| ConversationEntry {
        page: Some("/conversation/x".to_owned()),
        store: "a/.holodeck/events.db".to_owned(),
        conversation,
    };
    let write = |entries: &[ConversationEntry], number| {
        let list = ConversationList {
            links: &[],
            folder: "work",
            entries,
            number,
            around: (None, Some("/conversations?page=2")),
        };
        let mut out = Vec::new();
        write_conversations(&list, PageUse::Served, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let shown = write(
        &[
            entry(Ok(about(TurnState::Orphaned))),
            entry(Err(format!("damaged {HOSTILE}"))),
        ],
        1,
    );
    for text in [
        ">not ended</span>",
        "<a href=\"/conversation/x\">first &lt;/pre&gt;",
        "helper<p class=\"dim\">desk.yaml</p>",
        "class=\"figure\">7</td><td data-name=\"Runs\" class=\"figure\">3</td>",
        ">cannot be read</span>",
        "damaged &lt;",
        "href=\"/conversations?page=2\"",
    ] {
        assert!(shown.contains(text), "{text} in {shown}");
    }
    assert!(
        !shown.contains("<script>alert") && !shown.contains('\u{202e}'),
        "{shown}"
    );
    assert!(write(&[], 1).contains("No conversations yet."));
    assert!(write(&[], 7).contains("No conversations yet on this page."));
}
