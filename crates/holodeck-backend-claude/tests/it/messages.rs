//! Messages reach the model unchanged, and its answers are streamed.

use futures::StreamExt as _;
use holodeck_backend_api::{AgentBackend as _, BackendError, BackendEvent, HistoryItem, TurnRequest};
use holodeck_backend_claude::{ClaudeBackend, CliVersion, Reuse};
use holodeck_testkit::{AnthropicReply, AnthropicServer, Gate};
use pretty_assertions::assert_eq;
use tempfile::tempdir;

use crate::setup::{ask, conversation_texts, installed, options, options_of};

#[tokio::test]
async fn text_that_looks_like_a_command_or_a_file_is_text() {
    let folder = tempdir().unwrap();
    std::fs::write(folder.path().join("note.txt"), "CONTENT").unwrap();
    let messages = [
        "What is in @note.txt?",
        "/clear",
        "/cost",
        "  /help me",
        "!ls",
        "# remember",
        "",
    ];
    let server = AnthropicServer::answering(|request| {
        AnthropicReply::text(conversation_texts(request).len().to_string())
    });
    let options = options(&server)
        .builtin_tools(["Read"])
        .working_directory(folder.path());
    let backend = ClaudeBackend::new(options).unwrap();
    let mut session = backend.create_session().await.unwrap();
    for message in messages.iter().filter(|message| !message.is_empty()) {
        session.send(message).await.unwrap();
    }
    session.close().await.unwrap();
    let requests = server.finish();
    let last = requests.last().unwrap();
    for message in messages.iter().filter(|message| !message.is_empty()) {
        assert!(
            last.texts("user").contains(message),
            "{message}: {:?}",
            last.texts("user")
        );
    }
    assert!(!last.body().to_string().contains("CONTENT"));
}

#[tokio::test]
async fn an_older_version_does_not_get_messages_that_it_would_interpret() {
    let server = AnthropicServer::replies([]);
    let old = options_of(&installed("2.1.197"), &server).version(CliVersion::new(2, 1, 197));
    let backend = ClaudeBackend::new(old).unwrap();
    for message in ["read @note.txt", "/clear", "\n/cost"] {
        let error = backend.invoke_once(message, &[]).await.unwrap_err();
        assert!(matches!(error, BackendError::Init { .. }), "{error:?}");
        let text = error.explanation().text();
        assert!(text.contains("2.1.197") && text.contains("2.1.248"), "{text}");
    }
    server.finish();
}

#[tokio::test]
async fn text_arrives_while_it_is_written() {
    let gate = Gate::new();
    let server = AnthropicServer::replies([AnthropicReply::text("first second third ")
        .in_pieces(3)
        .gated_after(3, &gate)
        .tokens(7, 9)]);
    let backend = ClaudeBackend::new(options(&server).reuse(Reuse::Never)).unwrap();
    let mut events = backend.start(TurnRequest::new("go"));
    let mut text = String::new();
    let mut result = None;
    while let Some(event) = events.next().await {
        match event.unwrap() {
            BackendEvent::Text { text: piece } => {
                text.push_str(&piece);
                // The rest is sent only after this piece has arrived.
                gate.open();
            }
            BackendEvent::End(end) => result = Some(end),
            _ => {}
        }
    }
    let result = result.unwrap();
    assert_eq!(
        (text.as_str(), result.response.trim_end()),
        ("first second third ", text.trim_end())
    );
    let usage = result.token_usage.unwrap();
    assert_eq!((usage.prompt_tokens, usage.completion_tokens), (7, 9));
    server.finish();
}

#[tokio::test]
async fn turns_see_earlier_turns_and_cases_do_not() {
    let server =
        AnthropicServer::answering(|request| AnthropicReply::text(conversation_texts(request).join(" | ")));
    let backend = ClaudeBackend::new(options(&server)).unwrap();
    let mut session = backend.create_session().await.unwrap();
    assert_eq!(session.send("one").await.unwrap().response, "one");
    assert_eq!(session.send("two").await.unwrap().response, "one | one | two");
    session.close().await.unwrap();
    let context = [HistoryItem::user("hello"), HistoryItem::assistant("good day")];
    let informed = backend.invoke_once("three", &context).await.unwrap();
    assert_eq!(informed.response, "hello | good day | three");
    for alone in ["four", "five"] {
        assert_eq!(backend.invoke_once(alone, &[]).await.unwrap().response, alone);
    }
    backend.teardown().await.unwrap();
    server.finish();
}

#[tokio::test]
async fn instructions_replace_those_of_claude_code() {
    let server = AnthropicServer::replies([AnthropicReply::text("ok"), AnthropicReply::text("ok")]);
    let long = "All of this. ".repeat(20_000);
    for instructions in [long.trim_end(), ""] {
        let options = options(&server).system_prompt(instructions);
        ask(options, "hi").await.result();
    }
    let requests = server.finish();
    assert!(requests[0].system().contains(&long.trim_end()));
    for request in &requests {
        let own: usize = request
            .system()
            .iter()
            .map(|text| text.len())
            .filter(|length| *length < 100_000)
            .sum();
        assert!(own < 1000, "{:?}", request.system());
    }
}
