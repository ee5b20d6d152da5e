//! WebSocket clients of Node and Python, and curl.

use anyhow::Result;

use super::super::outcomes::version_of;
use super::{Client, Desk, SCRIPTS, node_script, on_node, program, try_all};
use crate::{host, services, smoke, workspace};

#[derive(Clone, Copy)]
enum Runs {
    Node(&'static str),
    Python(&'static str),
    Curl,
}

const CLIENTS: &[Runs] = &[
    Runs::Node("8.18.3"),
    Runs::Node("8.23.0"),
    Runs::Python("15.0.1"),
    Runs::Python("17.4"),
    Runs::Curl,
];

const SOCKETS: &[&str] = &[
    "a token as a subprotocol",
    "messages, a tool and a question",
    "a stop",
    "a conversation that is followed after the last event",
    "errors as frames",
];

const CURL: &[&str] = &[
    "a message and its result",
    "events in pieces, with -N",
    "a file",
    "errors with -f",
];

fn title(runs: Runs) -> String {
    match runs {
        Runs::Node(version) => format!("`ws` {version}"),
        Runs::Python(version) => format!("`websockets` of Python {version}"),
        Runs::Curl => "curl".to_owned(),
    }
}

fn over(runs: Runs) -> &'static str {
    match runs {
        Runs::Node(_) | Runs::Python(_) => "WebSocket",
        Runs::Curl => "REST and SSE",
    }
}

/// The rows of the table.
#[cfg(test)]
pub(super) fn rows() -> Vec<(String, String)> {
    let each = CLIENTS.iter();
    each.map(|runs| (title(*runs), over(*runs).to_owned())).collect()
}

/// Tries every client.
pub(in crate::soak) fn check() -> Result<()> {
    let desk = Desk::open(&program()?, "")?;
    let given = desk.given().to_string();
    let clients = CLIENTS
        .iter()
        .map(|runs| {
            let (on, mut command, checks) = match runs {
                Runs::Node(version) => {
                    let folder = smoke::node_package("ws", version)?;
                    let mut command = host::command("node");
                    command.arg(node_script(&folder, "sockets-node.mjs")?);
                    (on_node(), command, SOCKETS)
                }
                Runs::Python(version) => {
                    let mut command = host::command(services::python_of_client("websockets", version)?);
                    command.arg(workspace::root().join(SCRIPTS).join("websockets_client.py"));
                    command.env("PYTHONDONTWRITEBYTECODE", "1");
                    (version_of("python3"), command, SOCKETS)
                }
                Runs::Curl => {
                    let mut command = host::command("node");
                    command.arg(workspace::root().join(SCRIPTS).join("curl.mjs"));
                    let on = version_of("curl")
                        .split_whitespace()
                        .take(2)
                        .collect::<Vec<_>>()
                        .join(" ");
                    (on, command, CURL)
                }
            };
            command.arg(&given);
            let (program, over) = (title(*runs), over(*runs));
            Ok(Client {
                program,
                over,
                on,
                command,
                checks,
            })
        })
        .collect::<Result<Vec<_>>>()?;
    try_all("sockets", clients)
}
