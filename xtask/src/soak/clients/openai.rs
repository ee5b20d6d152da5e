//! OpenAI's libraries of Python and of JavaScript, the latter also in a page of another origin.

use anyhow::Result;
use serde_json::{Value, json};

use super::super::child::free_port;
use super::super::outcomes::version_of;
use super::{Client, Desk, SCRIPTS, merge, node_script, on_node, program, try_all};
use crate::browser::{self, Browser};
use crate::{host, services, smoke, workspace};

/// Where a release of a library runs.
#[derive(Clone, Copy)]
enum Place {
    Python,
    Node,
    Page,
}

use Place::{Node, Page, Python};

const LIBRARIES: &[(Place, &str)] = &[
    (Python, "2.8.1"),
    (Python, "3.57.0"),
    (Node, "6.9.1"),
    (Node, "7.57.0"),
    (Page, "6.9.1"),
    (Page, "7.57.0"),
];

const OVER: &str = "OpenAI's interfaces";

const MODELS: &str = "models";
const CHAT: &str = "chat completions, whole and streamed";
const RESPONSES: &str = "responses, whole, streamed and continued";
const TOOLS: &str = "a tool, and one that needs a person";
const ERRORS: &str = "errors by class";
const ONCE: &str = "one call when an answer fails after a tool ran";
const KEYED: &str = "with a key, retries run no tool twice";
const LEFT: &str = "a stream that is left";

const IN_JAVASCRIPT: &[&str] = &[MODELS, CHAT, RESPONSES, TOOLS, ERRORS, ONCE, KEYED, LEFT];
const IN_PYTHON: &[&str] = &[
    MODELS,
    CHAT,
    RESPONSES,
    "several streams at once",
    TOOLS,
    ERRORS,
    ONCE,
    KEYED,
    LEFT,
];

fn title(place: Place, version: &str) -> String {
    match place {
        Python => format!("OpenAI's library of Python (`openai`) {version}"),
        Node => format!("OpenAI's library of JavaScript (`openai`) {version}"),
        Page => format!("OpenAI's library of JavaScript (`openai`) {version}, in a page of another origin"),
    }
}

/// The rows of the table.
#[cfg(test)]
pub(super) fn rows() -> Vec<(String, String)> {
    let each = LIBRARIES.iter();
    each.map(|(place, version)| (title(*place, version), OVER.to_owned()))
        .collect()
}

/// Tries every release in every place.
pub(in crate::soak) fn check() -> Result<()> {
    let program = program()?;
    let port = free_port()?;
    // The pages of both releases have the same origin, one after the other.
    let desk = Desk::open(
        &program,
        &format!("serve: {{cors_origins: [\"http://127.0.0.1:{port}\"]}}\n"),
    )?;
    let given = desk.given();
    let clients = LIBRARIES
        .iter()
        .map(|(place, version)| client(*place, version, &given, port))
        .collect::<Result<Vec<_>>>()?;
    try_all("openai", clients)
}

fn client(place: Place, version: &str, given: &Value, port: u16) -> Result<Client> {
    let program = title(place, version);
    let (on, command, checks) = match place {
        Python => {
            let mut command = host::command(services::python_of_client("openai", version)?);
            command
                .arg(workspace::root().join(SCRIPTS).join("openai_library.py"))
                .arg(given.to_string());
            // Nothing is written beside the scripts.
            command.env("PYTHONDONTWRITEBYTECODE", "1");
            (version_of("python3"), command, IN_PYTHON)
        }
        Node => {
            let folder = smoke::node_package("openai", version)?;
            let mut command = host::command("node");
            command
                .arg(node_script(&folder, "openai-node.mjs")?)
                .arg(given.to_string());
            (on_node(), command, IN_JAVASCRIPT)
        }
        Page => {
            let library = smoke::node_package("openai", version)?.join("node_modules/openai");
            let browser = Browser::install()?;
            let mut given = given.clone();
            merge(
                &mut given,
                json!({
                    "library": library, "port": port, "scripts": workspace::root().join(SCRIPTS), "chromium": browser::program(),
                }),
            )?;
            let mut command = host::command("node");
            command
                .arg(node_script(browser.folder(), "openai-page.mjs")?)
                .arg(given.to_string());
            (browser::version()?, command, IN_JAVASCRIPT)
        }
    };
    Ok(Client {
        program,
        over: OVER,
        on,
        command,
        checks,
    })
}
