//! AG-UI's client, whose messages are the history, and a chat that is built on it.

use anyhow::Result;
use serde_json::json;

use super::{Client, Desk, merge, node_script, on_node, program, try_all};
use crate::{host, smoke};

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

fn title(version: &str) -> String {
    format!("AG-UI's client (`{PACKAGE}`) {version}")
}

/// The rows of the table.
#[cfg(test)]
pub(super) fn rows() -> Vec<(String, String)> {
    let each = RELEASES.iter();
    each.map(|(version, _)| (title(version), OVER.to_owned()))
        .collect()
}

/// Tries every release.
pub(in crate::soak) fn check() -> Result<()> {
    let desk = Desk::open(&program()?, "")?;
    let clients = RELEASES
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
    try_all("agui", clients)
}
