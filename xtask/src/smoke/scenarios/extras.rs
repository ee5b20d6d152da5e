//! Prompts that look like commands, images, settings of the user, telemetry.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::Result;
use holodeck_testkit::{AnthropicReply, AnthropicServer};
use serde_json::{Value, json};

use super::{Subject, scripted};
use crate::smoke::conversation::{Conversation, Launch, prompt};
use crate::smoke::facts::{Facts, listed, text_at};

/// How long telemetry may take.
const PATIENCE: Duration = Duration::from_secs(20);
const NOTE: &str = "The note says nine.";
const OTHER_MODEL: &str = "claude-haiku-4-5";
const COMMAND: &str = "/cost of @note.txt";

pub(super) fn run(subject: &Subject, facts: &mut Facts) -> Result<()> {
    prompts(subject, facts)?;
    telemetry(subject, facts)
}

fn prompts(subject: &Subject, facts: &mut Facts) -> Result<()> {
    let server = AnthropicServer::answering(|_| AnthropicReply::text("Fine."));
    scripted(server, |server| {
        let launch = Launch::new(&server.url())?;
        launch.file("note.txt", NOTE)?;
        launch.file("CLAUDE.md", "Always rhyme.")?;
        let mut cli = launch
            .args(&["--tools", "", "--system-prompt", "S", "--add-dir", "."])
            .start(subject)?;
        cli.initialize(&Value::Null)?;
        let answer = cli.control(&json!({"subtype": "set_model", "model": OTHER_MODEL}))?;
        let asked = server.requests().len();
        facts.set(
            "control set_model",
            format!("{}, requests to the model: {asked}", text_at(&answer, "/subtype")),
        );
        cli.turn(COMMAND)?;
        facts.set("client_composed: /command", verbatim(server, COMMAND, asked));
        let asked = server.requests().len();
        cli.turn("Read @note.txt")?;
        let model = server.requests().last().map(|request| request.model().to_owned());
        facts.set("model asked after set_model", model.unwrap_or_default());
        facts.set(
            "client_composed: @file",
            verbatim(server, "Read @note.txt", asked),
        );
        let rhymes = server
            .requests()
            .iter()
            .any(|request| request.body().to_string().contains("Always rhyme."));
        facts.either("--setting-sources= and CLAUDE.md", rhymes, ["read", "not read"]);
        let image = json!([
            {"type": "text", "text": "What is this?"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        ]);
        cli.turn_of(&prompt(&image))?;
        let last = server
            .requests()
            .last()
            .map(|request| request.messages().to_vec());
        let seen = last.unwrap_or_default().iter().any(|message| {
            let blocks = message["content"].as_array().into_iter().flatten();
            blocks.into_iter().any(|block| block["type"] == "image")
        });
        facts.either("an image in the content", seen, ["reaches the model", "lost"]);
        composed(&mut cli, server, facts)?;
        cli.close()?;
        Ok(())
    })
}

/// Without `client_composed` the CLI reads files and takes commands.
fn composed(cli: &mut Conversation, server: &AnthropicServer, facts: &mut Facts) -> Result<()> {
    let asked = server.requests().len();
    let mut message = prompt(&json!("Look at @note.txt"));
    if let Some(fields) = message.as_object_mut() {
        fields.remove("client_composed");
    }
    cli.turn_of(&message)?;
    facts.set(
        "@file without client_composed",
        verbatim(server, "Look at @note.txt", asked),
    );
    Ok(())
}

/// The form of a prompt in the requests from `from` on.
fn verbatim(server: &AnthropicServer, text: &str, from: usize) -> &'static str {
    let requests = server.requests();
    let Some(request) = requests.get(from) else {
        return "taken as a command";
    };
    let body = request
        .messages()
        .last()
        .map(Value::to_string)
        .unwrap_or_default();
    if body.contains(NOTE) || request.body().to_string().matches(NOTE).count() > 0 {
        "the file is read in"
    } else if request.texts("user").contains(&text) {
        "delivered as text"
    } else {
        "changed"
    }
}

/// One white pixel.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mP8/x8AAwMCAO+ip1sAAAAASUVORK5CYII=";

fn telemetry(subject: &Subject, facts: &mut Facts) -> Result<()> {
    let server = AnthropicServer::answering(|_| AnthropicReply::text("Fine."));
    scripted(server, |server| {
        let mut launch = Launch::new(&server.url())?.args(&["--tools", ""]);
        for (name, value) in [
            ("CLAUDE_CODE_ENABLE_TELEMETRY", "1"),
            ("CLAUDE_CODE_ENHANCED_TELEMETRY_BETA", "1"),
            ("OTEL_METRICS_EXPORTER", "otlp"),
            ("OTEL_LOGS_EXPORTER", "otlp"),
            ("OTEL_TRACES_EXPORTER", "otlp"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &server.url()),
            ("OTEL_METRIC_EXPORT_INTERVAL", "200"),
            ("OTEL_LOGS_EXPORT_INTERVAL", "200"),
        ] {
            launch = launch.env(name, value);
        }
        let mut cli = launch.start(subject)?;
        cli.initialize(&Value::Null)?;
        cli.turn("A private question.")?;
        // A slow machine may end before everything is flushed: it leaves in its own time.
        let patient_until = Instant::now() + PATIENCE;
        while exported_names(server).len() < KNOWN.len() && Instant::now() < patient_until {
            std::thread::sleep(Duration::from_millis(20));
        }
        cli.close()?;
        let others = server.others();
        let mut paths: Vec<&str> = others
            .iter()
            .map(holodeck_testkit::ReceivedRequest::route)
            .filter(|path| path.starts_with("/v1/"))
            .collect();
        paths.sort_unstable();
        paths.dedup();
        facts.set("OTEL_{METRICS,LOGS,TRACES}_EXPORTER=otlp", listed(paths));
        let private = others
            .iter()
            .any(|other| other.body.to_string().contains("A private question."));
        facts.either(
            "prompts in telemetry by default",
            private,
            ["exported", "not exported"],
        );
        facts.set("telemetry names", listed(exported_names(server)));
        Ok(())
    })
}

/// The names that the project's documentation promises.
const KNOWN: &[&str] = &[
    "claude_code.api_request",
    "claude_code.cost.usage",
    "claude_code.interaction",
    "claude_code.llm_request",
    "claude_code.session.count",
    "claude_code.token.usage",
    "claude_code.user_prompt",
];

/// Those of them that were exported so far.
fn exported_names(server: &AnthropicServer) -> BTreeSet<String> {
    let others = server.others();
    let all = others
        .iter()
        .flat_map(|other| names(&other.body.to_string(), "claude_code."));
    all.filter(|name| KNOWN.contains(&name.as_str())).collect()
}

fn names(text: &str, prefix: &str) -> Vec<String> {
    text.match_indices(prefix)
        .filter_map(|(at, _)| text.get(at..))
        .map(|rest| {
            rest.chars()
                .take_while(|c| c.is_ascii_lowercase() || *c == '_' || *c == '.')
                .collect()
        })
        .collect()
}
