//! AG-UI's client, whose messages are the history, and a chat that is built on it, in a page of another origin.

use anyhow::Result;
use serde_json::{Value, json};

use super::super::child::free_port;
use super::{Client, Desk, SCRIPTS, merge, node_script, on_node, program, try_all};
use crate::browser::{self, Browser};
use crate::{host, smoke, workspace};

const PACKAGE: &str = "@ag-ui/client";
const OVER: &str = "AG-UI";

const CHECKS: &[&str] = &[
    "messages, and a tool",
    "a question about a tool",
    "a question that another page answers",
    "a stop, after which the thread continues",
    "an answer asked for again",
    "a message that was changed",
    "a run that is sent again",
    "errors",
    "no warning",
];

/// Those that need no `resume`, which came with release 1.0.
const WITHOUT_RESUME: &[&str] = &[
    "messages, and a tool",
    "a question that another page answers",
    "a stop, after which the thread continues",
    "an answer asked for again",
    "a message that was changed",
    "a run that is sent again",
    "errors",
    "no warning",
];

const RELEASES: &[(&str, &[&str])] = &[("0.0.42", WITHOUT_RESUME), ("1.0.0", CHECKS)];

/// The chat, and what it is built with. Its release 0.0.58 asks for one of AG-UI's client that does not exist. The
/// packages after it are those that its ranges would let grow.
const CHAT: &[(&str, &str)] = &[
    ("@assistant-ui/react-ag-ui", "0.0.57"),
    ("@assistant-ui/react", "0.15.22"),
    (PACKAGE, "0.0.58"),
    ("@assistant-ui/core", "0.3.35"),
    ("@assistant-ui/store", "0.3.23"),
    ("@assistant-ui/tap", "0.9.25"),
    ("assistant-stream", "0.3.57"),
    ("react", "19.3.1"),
    ("react-dom", "19.3.1"),
    ("esbuild", "0.28.2"),
];

const IN_CHAT: &[&str] = &[
    "a message and its answer in pieces",
    "a tool and its result shown",
    "a question about a tool, answered yes and no",
    "two questions, one after the other",
    "a stop, after which the thread continues",
    "an answer asked for again (reload)",
    "an answer after a tool asked for again",
    "a message that was edited (branch)",
    "no error in the console",
];

fn title(version: &str) -> String {
    format!("AG-UI's client (`{PACKAGE}`) {version}")
}

fn chat_title() -> String {
    let named = CHAT.iter().take(3);
    let packages: Vec<_> = named
        .map(|(name, version)| format!("`{name}` {version}"))
        .collect();
    format!(
        "assistant-ui ({}), in a page of another origin",
        packages.join(", ")
    )
}

/// The rows of the table.
#[cfg(test)]
pub(super) fn rows() -> Vec<(String, String)> {
    let clients = RELEASES.iter().map(|(version, _)| title(version));
    clients
        .chain([chat_title()])
        .map(|title| (title, OVER.to_owned()))
        .collect()
}

/// Tries every release, and the chat.
pub(in crate::soak) fn check() -> Result<()> {
    let port = free_port()?;
    let origins = format!("serve: {{cors_origins: [\"http://127.0.0.1:{port}\"]}}\n");
    let desk = Desk::open(&program()?, &origins)?;
    let mut clients = RELEASES
        .iter()
        .map(|(version, checks)| {
            let folder = smoke::node_package(PACKAGE, version)?;
            let mut command = host::command("node");
            let mut given = desk.given();
            merge(&mut given, json!({ "checks": checks }))?;
            command
                .arg(node_script(&folder, "agui-node.mjs")?)
                .arg(given.to_string());
            Ok(Client {
                program: title(version),
                over: OVER,
                on: on_node(),
                command,
                checks,
            })
        })
        .collect::<Result<Vec<_>>>()?;
    clients.push(chat(desk.given(), port)?);
    try_all("agui", clients)
}

/// The chat in a browser. Its page is bundled when it is tried.
fn chat(mut given: Value, port: u16) -> Result<Client> {
    let packages = smoke::node_packages(CHAT)?;
    let browser = Browser::install()?;
    merge(
        &mut given,
        json!({
            "packages": packages, "port": port, "scripts": workspace::root().join(SCRIPTS), "chromium": browser::program(),
        }),
    )?;
    let mut command = host::command("node");
    command
        .arg(node_script(browser.folder(), "assistant-ui.mjs")?)
        .arg(given.to_string());
    Ok(Client {
        program: chat_title(),
        over: OVER,
        on: browser::version()?,
        command,
        checks: IN_CHAT,
    })
}
