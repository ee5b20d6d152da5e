//! Clients that others wrote against a real `holodeck serve` with a scripted model, on loopback. Each is a script of
//! `xtask/clients` that runs named checks; the outcomes are stored for `docs/compatibility.md`.

use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use holodeck_testkit::{ModelServer, ReceivedRequest, Reply};
use serde_json::{Value, json};

use super::outcomes::{Outcome, store, version_of};
use crate::served::{Profile, Served, build};
use crate::{host, workspace};

mod agui;
mod openai;
mod proxies;
mod sockets;

pub(super) use self::{
    agui::check as agui, openai::check as openai, proxies::check as proxies, sockets::check as sockets,
};

const TOKEN: &str = "tok-0123456789abcdef";

/// Where the scripts are.
const SCRIPTS: &str = "xtask/clients";

/// Longer than the scripts wait for an answer before they ask again.
const SLOW: Duration = Duration::from_millis(2_500);

/// A server, and the scripted model behind it.
struct Desk {
    _model: ModelServer,
    served: Served,
    folder: PathBuf,
}

impl Desk {
    /// An agent with a tool that leaves a line, and one about which a person is asked.
    fn open(program: &Path, more: &str) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("holodeck-desk-").tempdir()?;
        let path = folder.path().to_owned();
        let asked = path.join("asked.txt");
        let model = ModelServer::answering(move |request| answer(request, &asked));
        let url = model.url();
        let agent = format!(
            "name: desk
model: {{provider: openai, name: m, endpoint: \"{url}/v1\", api_key: sk-desk}}
instructions: {{inline: Answer briefly.}}
tools:
  - {{type: function, name: note, description: Notes., command: tee, args: [-a, notes.txt], parameters: {{text: {{type: string, description: What.}}}}}}
  - {{type: function, name: refund, description: Refunds., command: tee, args: [-a, notes.txt], parameters: {{text: {{type: string, description: What.}}}}}}
approvals:
  non_interactive: reject
  rules:
    - {{tools: note, decision: approve}}
    - {{tools: '*', approver: human}}
{more}"
        );
        fs::write(path.join("agent.yaml"), agent)?;
        let served = Served::start_in(program, folder, &[], &[("HOLODECK_TOKEN", TOKEN)])?;
        Ok(Self {
            _model: model,
            served,
            folder: path,
        })
    }

    /// The facts that every script is given.
    fn given(&self) -> Value {
        json!({ "url": self.served.url(), "token": TOKEN, "folder": self.folder })
    }
}

/// The model's answer. The first words of a message say what to do; each is written down once.
fn answer(request: &ReceivedRequest, asked: &Path) -> Reply {
    let questions = request.texts("user");
    let question = questions.last().copied().unwrap_or_default();
    let last = request.messages().last();
    let result = last
        .filter(|last| last.get("role").is_some_and(|role| role == "tool"))
        .map(|_| request.texts("tool").last().copied().unwrap_or_default());
    if result.is_none() {
        let file = OpenOptions::new().create(true).append(true).open(asked);
        let written = file.and_then(|mut file| writeln!(file, "{question}"));
        if let Err(error) = written {
            return Reply::openai_error(
                400,
                &format!("cannot write down the question: {error}"),
                None,
                None,
            );
        }
    }
    let begins = |words: &str| question.starts_with(words);
    match result {
        None if begins("refund twice") => ["one", "two"].iter().fold(Reply::nothing(), |reply, number| {
            let text = json!({ "text": format!("{number} {question}") });
            reply.and_tool_call(
                &format!("call-{number}-{}", request.index),
                "refund",
                &text.to_string(),
            )
        }),
        None if begins("note") || begins("refund") => {
            let tool = if begins("note") { "note" } else { "refund" };
            Reply::tool_call(
                &format!("call-{}", request.index),
                tool,
                &json!({ "text": question }),
            )
        }
        None if begins("explain and note") => Reply::text("I write it down.").and_tool_call(
            &format!("call-{}", request.index),
            "note",
            &json!({ "text": question }).to_string(),
        ),
        None if begins("fail") => Reply::openai_error(400, "the model fails", None, None),
        None if begins("hang") => Reply::text("so far and no further").in_pieces(4).hang_after(3),
        None => Reply::text(questions.join("+")).in_pieces(3),
        Some(_) if begins("note, then fail") => Reply::openai_error(400, "the model fails", None, None),
        Some(result) if begins("note, then wait") => Reply::text(format!("It said {result}.")).after(SLOW),
        Some(result) => Reply::text(format!("It said {result}.")).in_pieces(3),
    }
}

/// A client to try: a row of the table.
struct Client {
    program: String,
    over: &'static str,
    on: String,
    command: Command,
    /// The checks of its script. All must be there, and no other.
    checks: &'static [&'static str],
}

impl Client {
    /// Runs the script, and returns the checks that failed, with their reasons.
    fn failures(&mut self) -> Result<Vec<String>> {
        let line = host::show(&self.command);
        let mut child = self
            .command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("failed to start `{line}`"))?;
        let stdout = child.stdout.take().context("the script has no output")?;
        let (mut seen, mut failures) = (Vec::new(), Vec::new());
        for line in BufReader::new(stdout).lines() {
            let line = line?;
            let Ok(outcome) = serde_json::from_str::<Value>(&line) else {
                println!("      {line}");
                continue;
            };
            let text = |field: &str| outcome.get(field).and_then(Value::as_str).map(str::to_owned);
            let Some(check) = text("check") else { continue };
            if let Some(error) = text("error") {
                failures.push(format!("{check}: {error}"));
            }
            seen.push(check);
        }
        let status = child.wait()?;
        ensure!(
            status.success(),
            "the script ended with {status}; it got to {seen:?}"
        );
        ensure!(
            seen == self.checks,
            "the script checked {seen:?} instead of {:?}",
            self.checks
        );
        Ok(failures)
    }
}

/// Tries clients one after the other, and stores what worked if all did.
fn try_all(part: &str, clients: impl IntoIterator<Item = Client>) -> Result<()> {
    let (mut outcomes, mut failed) = (Vec::new(), Vec::new());
    for mut client in clients {
        let title = format!("{} over {} on {}", client.program, client.over, client.on);
        let failures = client.failures().with_context(|| title.clone())?;
        if failures.is_empty() {
            println!("ok    {title}: {}", client.checks.join("; "));
            outcomes.push(Outcome {
                program: client.program,
                over: client.over,
                spoke: String::new(),
                on: client.on,
                works: client.checks.iter().map(|check| (*check).to_owned()).collect(),
                adapted: Vec::new(),
            });
        } else {
            println!("FAIL  {title}:\n      {}", failures.join("\n      "));
            failed.push(title);
        }
    }
    if !failed.is_empty() {
        bail!(
            "these do not work, so that nothing was stored: {}",
            failed.join("; ")
        );
    }
    ensure!(!outcomes.is_empty(), "no client was tried");
    store(part, &outcomes)
}

/// A script of `xtask/clients`, copied with what it imports to where Node finds the packages.
fn node_script(folder: &Path, script: &str) -> Result<PathBuf> {
    let scripts = workspace::root().join(SCRIPTS);
    for entry in fs::read_dir(scripts)? {
        let entry = entry?;
        if entry.path().extension().is_some_and(|end| end == "mjs") {
            fs::copy(entry.path(), folder.join(entry.file_name()))?;
        }
    }
    Ok(folder.join(script))
}

/// Adds facts to those that a script is given.
fn merge(given: &mut Value, more: Value) -> Result<()> {
    let given = given.as_object_mut().context("no object")?;
    if let Value::Object(more) = more {
        given.extend(more);
    }
    Ok(())
}

fn on_node() -> String {
    format!("Node {}", version_of("node"))
}

/// The program under test.
fn program() -> Result<PathBuf> {
    build(Profile::Dev)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::outcomes::stored;

    #[test]
    fn every_stored_client_is_tried_and_every_client_that_is_tried_has_an_outcome() {
        for (part, rows) in [
            ("agui", super::agui::rows()),
            ("openai", super::openai::rows()),
            ("proxies", super::proxies::rows()),
            ("sockets", super::sockets::rows()),
        ] {
            assert_eq!(stored(part), rows, "{part}");
            assert_eq!(rows.iter().collect::<BTreeSet<_>>().len(), rows.len(), "{part}");
        }
    }
}
