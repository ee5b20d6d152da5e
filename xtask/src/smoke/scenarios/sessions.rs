//! Sessions kept on disk.

use std::sync::Arc;

use anyhow::Result;
use holodeck_testkit::{AnthropicReply, AnthropicServer};
use serde_json::Value;
use tempfile::TempDir;

use super::{Subject, conversation::result_ending, exit_of, scripted};
use crate::smoke::conversation::{Launch, prompt};
use crate::smoke::facts::{Facts, text_at};

const ID: &str = "6f1c0a52-9b0e-4b8e-8f57-0d1b2a3c4d5e";
const OTHER: &str = "6f1c0a52-9b0e-4b8e-8f57-0d1b2a3c4d5f";

pub(super) fn run(subject: &Subject, facts: &mut Facts) -> Result<()> {
    let server = AnthropicServer::answering(|_| AnthropicReply::text("Noted."));
    scripted(server, |server| {
        let place = {
            let mut cli = Launch::new(&server.url())?
                .args(&["--tools", "", &format!("--session-id={ID}")])
                .start(subject)?;
            cli.initialize(&Value::Null)?;
            let turn = cli.turn("Remember seven.")?;
            facts.set("--session-id=UUID", same(text_at(turn.result(), "/session_id")));
            let place = Arc::clone(&cli.place);
            cli.close()?;
            place
        };
        let (id, history) = resumed(subject, server, &place, &[&format!("--resume={ID}")])?;
        facts.set("--resume=ID", format!("{}, {history}", same(&id)));
        let (id, history) = resumed(
            subject,
            server,
            &place,
            &[&format!("--resume={ID}"), "--fork-session"],
        )?;
        facts.set("--fork-session", format!("{}, {history}", same(&id)));

        let mut cli = Launch::new(&server.url())?
            .at(&place)
            .args(&["--tools", "", &format!("--resume={OTHER}")])
            .start(subject)?;
        cli.send(&prompt(&Value::from("Hello?")))?;
        let missing = cli.result()?;
        facts.set(
            "--resume of an unknown id: result",
            result_ending(missing.result()),
        );
        let ended = cli.close()?;
        facts.set("--resume of an unknown id", exit_of(&ended));
        Ok(())
    })
}

fn same(id: &str) -> &'static str {
    if id == ID { "this id" } else { "a new id" }
}

fn resumed(
    subject: &Subject,
    server: &AnthropicServer,
    place: &Arc<TempDir>,
    args: &[&str],
) -> Result<(String, &'static str)> {
    let mut cli = Launch::new(&server.url())?
        .at(place)
        .args(&["--tools", ""])
        .args(args)
        .start(subject)?;
    cli.initialize(&Value::Null)?;
    let turn = cli.turn("Which number?")?;
    let id = text_at(turn.result(), "/session_id").to_owned();
    cli.close()?;
    let requests = server.requests();
    let remembered = requests
        .last()
        .is_some_and(|request| request.texts("user").contains(&"Remember seven."));
    Ok((
        id,
        if remembered {
            "with its history"
        } else {
            "without history"
        },
    ))
}
