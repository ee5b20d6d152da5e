//! Servers on the SDKs of the Model Context Protocol, old and new, each over every transport that it offers: its tools are listed,
//! and every call gets its own result.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use holodeck_testkit::{ModelServer, ReceivedRequest, Reply};
use serde_json::Value;

use super::child::{Listening, free_port};
use super::{Outcome, Tested, store, version_of};
use crate::served::{Profile, build};
use crate::{host, services, smoke, workspace};

/// An interpreter with its packages may be slow to load.
const PATIENCE: Duration = Duration::from_mins(1);

/// A server that this project did not write the protocol of.
struct Server {
    /// As a reader knows it.
    name: &'static str,
    version: &'static str,
    runs: Runs,
    transports: &'static [Transport],
    calls: &'static [Call],
}

/// How it is installed and started.
enum Runs {
    /// A script of `xtask/servers` on what `PACKAGE-VERSION.txt` there pins.
    Python {
        package: &'static str,
        script: &'static str,
    },
    /// A script of `xtask/servers` beside a package.
    Node {
        package: &'static str,
        script: &'static str,
    },
    /// The reference server of `cargo xtask smoke`.
    Everything,
}

#[derive(Clone, Copy)]
enum Transport {
    Stdio,
    Sse,
    Http,
}

use Transport::{Http, Sse, Stdio};

impl Transport {
    /// In the YAML, and to our scripts.
    fn word(self) -> &'static str {
        match self {
            Stdio => "stdio",
            Sse => "sse",
            Http => "http",
        }
    }

    /// To a reader.
    fn title(self) -> &'static str {
        match self {
            Stdio => "stdio",
            Sse => "SSE",
            Http => "streamable HTTP",
        }
    }
}

/// A call of a tool.
struct Call {
    tool: &'static str,
    arguments: &'static str,
    kind: Kind,
    /// A part of its result that no other call's has.
    says: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Error,
    Structured,
}

const fn call(tool: &'static str, arguments: &'static str, kind: Kind, says: &'static str) -> Call {
    Call {
        tool,
        arguments,
        kind,
        says,
    }
}

const SUN: Call = call("sun", r#"{"city": "Rome"}"#, Kind::Text, "sun in Rome");
const RAIN: Call = call("rain", r#"{"city": "Oslo"}"#, Kind::Text, "rain in Oslo");
const FAIL: Call = call(
    "fail",
    r#"{"city": "Bern"}"#,
    Kind::Error,
    "the station is closed",
);
const READ: Call = call("read", r#"{"city": "Lima"}"#, Kind::Structured, "21");

/// The tools of our scripts.
const STATION: &[Call] = &[SUN, RAIN, FAIL];
const STATION_WITH_STRUCTURE: &[Call] = &[SUN, RAIN, FAIL, READ];

const EVERYTHING: &[Call] = &[
    call("echo", r#"{"message": "gingerbread"}"#, Kind::Text, "gingerbread"),
    call("get-sum", r#"{"a": 40, "b": 2}"#, Kind::Text, "42"),
    call(
        "get-resource-reference",
        r#"{"resourceType": "Text", "resourceId": 1.5}"#,
        Kind::Error,
        "Must be a finite positive integer",
    ),
    call(
        "get-structured-content",
        r#"{"location": "New York"}"#,
        Kind::Structured,
        "temperature",
    ),
];

const PYTHON: &str = "Python SDK (`mcp`)";
const TYPESCRIPT: &str = "TypeScript SDK (`@modelcontextprotocol/sdk`)";

/// The servers that are tried. Each row of the table in `docs/compatibility.md` is one of these over one transport.
const SERVERS: &[Server] = &[
    Server::python(PYTHON, "mcp", "1.0.0", "python1.py", &[Stdio, Sse], STATION),
    Server::python(PYTHON, "mcp", "1.6.0", "python1.py", &[Stdio, Sse], STATION),
    Server::python(PYTHON, "mcp", "1.9.4", "python1.py", &[Stdio, Sse, Http], STATION),
    Server::python(
        PYTHON,
        "mcp",
        "2.3.0",
        "python2.py",
        &[Stdio, Sse, Http],
        STATION_WITH_STRUCTURE,
    ),
    Server::python(
        "FastMCP of Python (`fastmcp`)",
        "fastmcp",
        "4.2.3",
        "fast.py",
        &[Stdio, Sse, Http],
        STATION_WITH_STRUCTURE,
    ),
    Server::node(
        TYPESCRIPT,
        "@modelcontextprotocol/sdk",
        "1.0.4",
        "sdk.mjs",
        &[Stdio, Sse],
        STATION,
    ),
    Server::node(
        TYPESCRIPT,
        "@modelcontextprotocol/sdk",
        "1.12.3",
        "sdk.mjs",
        &[Stdio, Sse, Http],
        STATION_WITH_STRUCTURE,
    ),
    Server::node(
        TYPESCRIPT,
        "@modelcontextprotocol/sdk",
        "1.32.2",
        "sdk.mjs",
        &[Stdio, Sse, Http],
        STATION_WITH_STRUCTURE,
    ),
    Server::node(
        "FastMCP of TypeScript (`fastmcp`)",
        "fastmcp",
        "4.20.16",
        "fast.mjs",
        &[Stdio, Sse, Http],
        STATION_WITH_STRUCTURE,
    ),
    Server {
        name: "`@modelcontextprotocol/server-everything`",
        version: smoke::EVERYTHING_VERSION,
        runs: Runs::Everything,
        transports: &[Stdio, Sse, Http],
        calls: EVERYTHING,
    },
];

/// The rows of the table: program and transport.
#[cfg(test)]
pub(super) fn rows() -> Vec<(String, &'static str)> {
    let each = SERVERS.iter().flat_map(|server| {
        let transports = server.transports.iter();
        transports.map(|transport| (server.title(), transport.title()))
    });
    each.collect()
}

/// Tries every server over every transport; all that fail are named.
pub(in crate::soak) fn check() -> Result<()> {
    let program = build(Profile::Dev)?;
    let (mut outcomes, mut failed) = (Vec::new(), Vec::new());
    for server in SERVERS {
        let installed = server.install()?;
        for transport in server.transports {
            let (title, over) = (server.title(), transport.title());
            match server.tried(&program, &installed, *transport) {
                Ok((outcome, start)) => {
                    println!(
                        "ok    {title} over {over}: {}, started after {:.1} s",
                        outcome.spoke,
                        start.as_secs_f64()
                    );
                    outcomes.push(outcome);
                }
                Err(error) => {
                    println!("FAIL  {title} over {over}: {error:#}");
                    failed.push(format!("{title} over {over}"));
                }
            }
        }
    }
    if !failed.is_empty() {
        bail!(
            "these do not work, so that nothing was stored: {}",
            failed.join("; ")
        );
    }
    store("servers", &outcomes)
}

/// An installed server: the program, and its first argument.
struct Installed {
    program: PathBuf,
    script: PathBuf,
    on: String,
}

impl Server {
    const fn python(
        name: &'static str,
        package: &'static str,
        version: &'static str,
        script: &'static str,
        transports: &'static [Transport],
        calls: &'static [Call],
    ) -> Self {
        let runs = Runs::Python { package, script };
        Self {
            name,
            version,
            runs,
            transports,
            calls,
        }
    }

    const fn node(
        name: &'static str,
        package: &'static str,
        version: &'static str,
        script: &'static str,
        transports: &'static [Transport],
        calls: &'static [Call],
    ) -> Self {
        let runs = Runs::Node { package, script };
        Self {
            name,
            version,
            runs,
            transports,
            calls,
        }
    }

    fn title(&self) -> String {
        format!("{} {}", self.name, self.version)
    }

    fn install(&self) -> Result<Installed> {
        let scripts = workspace::root().join("xtask/servers");
        let node = || (PathBuf::from("node"), format!("Node {}", version_of("node")));
        let (script, (program, on)) = match self.runs {
            Runs::Python { package, script } => {
                let python = services::python_of_server(package, self.version)?;
                (scripts.join(script), (python, version_of("python3")))
            }
            Runs::Node { package, script } => {
                let folder = smoke::node_package(package, self.version)?;
                // Where Node looks for what it imports.
                let there = folder.join(script);
                std::fs::copy(scripts.join(script), &there)?;
                (there, node())
            }
            Runs::Everything => (smoke::everything()?, node()),
        };
        Ok(Installed { program, script, on })
    }

    /// The parts that worked, and how long it took until the model was asked.
    fn tried(
        &self,
        program: &Path,
        installed: &Installed,
        transport: Transport,
    ) -> Result<(Outcome, Duration)> {
        let listening = match transport {
            Stdio => None,
            Sse | Http => Some(self.listen(installed, transport)?),
        };
        let asked = Arc::new(Mutex::new(None));
        let calls = self.calls;
        let model = ModelServer::answering({
            let asked = Arc::clone(&asked);
            move |request| {
                let mut asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
                asked.get_or_insert_with(Instant::now);
                next(request, calls)
            }
        });
        let reached = match &listening {
            None => format!(
                "command: \"{}\", args: [\"{}\", stdio]",
                installed.program.display(),
                installed.script.display()
            ),
            Some(listening) => {
                let path = if matches!(transport, Sse) { "sse" } else { "mcp" };
                format!(
                    "transport: {}, url: \"{}/{path}\"",
                    transport.word(),
                    listening.url()
                )
            }
        };
        let agent = format!(
            "name: station\nmodel: {{provider: openai, name: m, endpoint: \"{}/v1\", api_key: sk-field}}\n\
             instructions: {{inline: Answer briefly.}}\n\
             tools:\n  - {{type: mcp, name: s, description: The station., {reached}}}\n\
             test_cases:\n  - {{name: station, input: How is it?, evaluations: [{{metric: contains, value: Done}}]}}\n",
            model.url()
        );
        let folder = tempfile::tempdir()?;
        let began = Instant::now();
        let tested = Tested::new(program, folder.path(), &agent, &[]);
        let tested = tested.and_then(|tested| tested.ensure_passed().map(|()| tested));
        let tested = tested.with_context(|| match &listening {
            Some(listening) => format!("the server said:\n{}", listening.log()),
            None => "no case passed".to_owned(),
        })?;
        let requests = model.finish();
        self.compare(requests.first().context("the model was not asked")?, &tested)?;
        let asked = *asked.lock().unwrap_or_else(PoisonError::into_inner);
        let start = asked.map_or(Duration::ZERO, |asked| asked.duration_since(began));
        let revision = &tested.run["metadata"]["mcp_servers"][0]["protocol"];
        let outcome = Outcome {
            program: self.title(),
            over: transport.title(),
            spoke: revision
                .as_str()
                .context("the run has no revision of the protocol")?
                .to_owned(),
            on: installed.on.clone(),
            works: self.works(),
            adapted: Vec::new(),
        };
        Ok((outcome, start))
    }

    fn listen(&self, installed: &Installed, transport: Transport) -> Result<Listening> {
        let port = free_port()?;
        let mut command: Command = host::command(&installed.program);
        command.arg(&installed.script);
        if let Runs::Everything = self.runs {
            let word = if matches!(transport, Sse) {
                "sse"
            } else {
                "streamableHttp"
            };
            command.arg(word).env("PORT", port.to_string());
        } else {
            command.args([transport.word(), &port.to_string()]);
        }
        Listening::start(command, tempfile::tempdir()?, port, PATIENCE)
    }

    /// Every tool is offered, and every call ran once, in order, with its own result.
    fn compare(&self, first: &ReceivedRequest, tested: &Tested) -> Result<()> {
        let tools = first.body["tools"].as_array().into_iter().flatten();
        let offered: Vec<&str> = tools
            .filter_map(|tool| tool["function"]["name"].as_str())
            .collect();
        for call in self.calls {
            let name = name_of(call);
            ensure!(
                offered.contains(&name.as_str()),
                "`{name}` is not offered: {offered:?}"
            );
        }
        let ran = tested.calls();
        let wanted: Vec<&Call> = self.calls.iter().chain(again(self.calls)).collect();
        ensure!(
            ran.len() == wanted.len(),
            "{} calls instead of {}: {ran:#?}",
            ran.len(),
            wanted.len()
        );
        for (call, (name, arguments, result, is_error)) in wanted.into_iter().zip(ran) {
            let others = self
                .calls
                .iter()
                .filter(|other| other.says != call.says)
                .any(|other| result.contains(other.says));
            let right = name == name_of(call)
                && arguments == serde_json::from_str::<Value>(call.arguments)?
                && result.contains(call.says)
                && !others
                && is_error == (call.kind == Kind::Error);
            ensure!(
                right,
                "`{} {}` became {name} {arguments}: {result:?}, error: {is_error}",
                call.tool,
                call.arguments
            );
        }
        Ok(())
    }

    fn works(&self) -> Vec<String> {
        let has = |kind| self.calls.iter().any(|call| call.kind == kind);
        let kinds = [
            (Kind::Text, "results of parallel calls"),
            (Kind::Structured, "structured content"),
            (Kind::Error, "an error of a tool"),
        ];
        let works = kinds.into_iter().filter(|(kind, _)| has(*kind));
        std::iter::once("tools listed")
            .chain(works.map(|(_, words)| words))
            .map(str::to_owned)
            .collect()
    }
}

/// As the model knows the tool.
fn name_of(call: &Call) -> String {
    format!("mcp__s__{}", call.tool)
}

/// The first two calls once more, the other way round.
fn again(calls: &[Call]) -> impl Iterator<Item = &Call> {
    calls.iter().take(2).rev()
}

/// The next message of the model: all calls at once, two of them in another order, an answer.
fn next(request: &ReceivedRequest, calls: &[Call]) -> Reply {
    let messages = request.messages().iter();
    let results = messages.filter(|message| message["role"] == "tool").count();
    let ask = |calls: &mut dyn Iterator<Item = &Call>| {
        calls.enumerate().fold(Reply::nothing(), |reply, (index, call)| {
            reply.and_tool_call(
                &format!("call_{}", results + index),
                &name_of(call),
                call.arguments,
            )
        })
    };
    if results == 0 {
        ask(&mut calls.iter())
    } else if results == calls.len() {
        ask(&mut again(calls))
    } else {
        Reply::text("Done.")
    }
}
