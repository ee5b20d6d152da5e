//! Conversations on the real CLI.

use holodeck_testkit::{AnthropicReply, AnthropicServer};

use super::{Bench, fixtures::fixture};

/// A new process opens the conversation from the stored events, and the model sees all of it.
#[test]
fn a_conversation_continues_in_another_process() {
    let server = AnthropicServer::answering(|request| {
        let asked = request.texts("user").join(" ");
        let seen = ["apple", "banana", "cherry"]
            .into_iter()
            .filter(|word| asked.contains(word));
        AnthropicReply::text(format!("I was told {}.", seen.collect::<Vec<_>>().join(", ")))
    });
    let bench = Bench::new(&fixture("claude_minimal_agent.yaml"), server);
    for (message, answer) in [
        ("apple", "I was told apple.\n"),
        ("banana", "I was told apple, banana.\n"),
        ("cherry", "I was told apple, banana, cherry.\n"),
    ] {
        let ran = bench
            .run(&["chat", "--session", "s-1", "--once", message])
            .exits(0);
        assert_eq!(ran.stdout, answer, "{}", ran.all());
    }
    bench
        .run(&["events", "check", "s-1"])
        .exits(0)
        .says("no violation");
    bench.server.finish();
}
