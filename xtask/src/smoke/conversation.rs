//! One running CLI: its arguments, its input and its output.

use std::collections::{BTreeSet, VecDeque};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::subject::Subject;
use crate::host;

/// The model that everything is asked of: one with thinking budgets, known to every release.
pub(super) const MODEL: &str = "claude-sonnet-4-5";

/// How a process is started: nothing is inherited but the search path, and nothing but loopback can be reached.
pub(super) struct Launch {
    args: Vec<String>,
    env: Vec<(String, String)>,
    place: Arc<TempDir>,
}

impl Launch {
    pub(super) fn new(server: &str) -> Result<Self> {
        let args = [
            "--output-format",
            "stream-json",
            "--verbose",
            "--input-format",
            "stream-json",
            "--setting-sources=",
            "--strict-mcp-config",
            "--model",
            MODEL,
        ];
        let mut launch = Self::bare(&args)?;
        for (name, value) in [
            ("ANTHROPIC_BASE_URL", server),
            ("ANTHROPIC_API_KEY", "smoke"),
            ("CLAUDE_CODE_MAX_RETRIES", "1"),
        ] {
            launch = launch.env(name, value);
        }
        Ok(launch)
    }

    /// These arguments and no server.
    pub(super) fn bare(args: &[&str]) -> Result<Self> {
        let place = tempfile::tempdir().context("failed to make a folder for the CLI")?;
        std::fs::create_dir(place.path().join("work"))?;
        let launch = Self {
            args: Vec::new(),
            env: Vec::new(),
            place: Arc::new(place),
        };
        Ok(launch
            .args(args)
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"))
    }

    pub(super) fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(|arg| (*arg).to_owned()));
        self
    }

    pub(super) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(super) fn without_env(mut self, name: &str) -> Self {
        self.env.retain(|(own, _)| own != name);
        self
    }

    /// Takes home and working folder of another process.
    pub(super) fn at(mut self, place: &Arc<TempDir>) -> Self {
        self.place = Arc::clone(place);
        self
    }

    /// Writes a file into the working folder and returns its path.
    pub(super) fn file(&self, name: &str, text: &str) -> Result<String> {
        let path = self.work().join(name);
        std::fs::write(&path, text)?;
        Ok(path.to_string_lossy().into_owned())
    }

    fn work(&self) -> std::path::PathBuf {
        self.place.path().join("work")
    }

    pub(super) fn start(self, subject: &Subject) -> Result<Conversation> {
        let work = self.work();
        let mut command = host::command(&subject.cli);
        command
            .args(&self.args)
            .current_dir(&work)
            .env_clear()
            .env("PATH", host::env("PATH").unwrap_or_default())
            .env("HOME", self.place.path())
            .env("CLAUDE_CONFIG_DIR", self.place.path().join("config"))
            .env("PWD", &work)
            .envs(self.env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .with_context(|| format!("failed to start {}", subject.cli.display()))?;
        let (Some(stdin), Some(stdout), Some(mut stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            bail!("the CLI has no pipes");
        };
        let (sender, frames) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if let Ok(frame) = serde_json::from_str::<Value>(&line)
                    && sender.send(frame).is_err()
                {
                    break;
                }
            }
        });
        let errors = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = stderr.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        Ok(Conversation {
            child,
            stdin: Some(stdin),
            frames,
            errors: Some(errors),
            asked: Vec::new(),
            requests: 0,
            held: VecDeque::new(),
            unfinished: Vec::new(),
            patience: subject.patience,
            place: self.place,
        })
    }
}

/// A running process, ended when dropped.
pub(super) struct Conversation {
    child: Child,
    stdin: Option<ChildStdin>,
    frames: Receiver<Value>,
    errors: Option<JoinHandle<String>>,
    /// The control requests it sent, all of them answered.
    pub(super) asked: Vec<Value>,
    requests: u32,
    /// Frames that arrived while an answer to a control request was awaited.
    held: VecDeque<Value>,
    /// Frames that arrived before a wait ended without the expected frame.
    pub(super) unfinished: Vec<Value>,
    patience: Duration,
    pub(super) place: Arc<TempDir>,
}

/// The frames between a prompt and its result.
pub(super) struct Turn(pub(super) Vec<Value>);

/// How a process ended.
pub(super) struct Ended {
    pub(super) code: Option<i32>,
    pub(super) errors: String,
    /// Its output since the last call.
    pub(super) frames: Vec<Value>,
}

impl Conversation {
    /// Sends `initialize` with these fields and returns its answer.
    pub(super) fn initialize(&mut self, fields: &Value) -> Result<Value> {
        let mut request = json!({"subtype": "initialize", "hooks": null});
        for (name, value) in fields.as_object().into_iter().flatten() {
            request[name.as_str()] = value.clone();
        }
        let response = self.control(&request)?;
        Ok(response["response"].clone())
    }

    /// Sends a control request and returns the `response` to it.
    pub(super) fn control(&mut self, request: &Value) -> Result<Value> {
        self.requests += 1;
        let id = format!("req_{}", self.requests);
        self.send(&json!({"type": "control_request", "request_id": id, "request": request}))?;
        let (before, answer) = self.until(&format!("an answer to {request}"), |frame| {
            frame["type"] == "control_response" && frame["response"]["request_id"] == id.as_str()
        })?;
        self.held.extend(before);
        Ok(answer["response"].clone())
    }

    /// Sends a literal text and waits for the result.
    pub(super) fn turn(&mut self, text: &str) -> Result<Turn> {
        self.turn_of(&prompt(&json!(text)))
    }

    /// Sends a message and waits for the result.
    pub(super) fn turn_of(&mut self, message: &Value) -> Result<Turn> {
        self.send(message)?;
        self.result()
    }

    pub(super) fn result(&mut self) -> Result<Turn> {
        let (mut frames, result) = self.until("a result", |frame| frame["type"] == "result")?;
        frames.push(result);
        Ok(Turn(frames))
    }

    pub(super) fn send(&mut self, message: &Value) -> Result<()> {
        self.send_line(&message.to_string())
    }

    pub(super) fn send_line(&mut self, line: &str) -> Result<()> {
        let stdin = self.stdin.as_mut().context("the input is closed")?;
        writeln!(stdin, "{line}").and_then(|()| stdin.flush())?;
        Ok(())
    }

    /// Listens until a frame is the one wanted; gives what came before it, and it.
    pub(super) fn until(
        &mut self,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<(Vec<Value>, Value)> {
        let mut before = Vec::new();
        loop {
            let frame = match self.held.pop_front() {
                Some(frame) => Some(frame),
                None => match self.next() {
                    Ok(frame) => frame,
                    Err(error) => {
                        self.unfinished = before;
                        return Err(error.context(format!("waiting for {what}")));
                    }
                },
            };
            let Some(frame) = frame else {
                self.unfinished = before;
                let ended = self.end()?;
                bail!(
                    "the CLI ended with {:?} before {what}: {}",
                    ended.code,
                    ended.errors.trim()
                );
            };
            if wanted(&frame) {
                return Ok((before, frame));
            }
            before.push(frame);
        }
    }

    /// Closes the input and waits for the end.
    pub(super) fn close(mut self) -> Result<Ended> {
        self.end()
    }

    fn end(&mut self) -> Result<Ended> {
        self.stdin = None;
        let mut frames = Vec::new();
        while let Some(frame) = self.next()? {
            frames.push(frame);
        }
        let code = self.child.wait()?.code();
        let errors = self.errors.take().and_then(|errors| errors.join().ok());
        Ok(Ended {
            code,
            errors: errors.unwrap_or_default(),
            frames,
        })
    }

    /// The next frame that is not a control request; those are answered here. Nothing at the end of the output.
    fn next(&mut self) -> Result<Option<Value>> {
        loop {
            let frame = match self.frames.recv_timeout(self.patience) {
                Ok(frame) => frame,
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => bail!("no message of the CLI within {:?}", self.patience),
            };
            if frame["type"] != "control_request" {
                return Ok(Some(frame));
            }
            let answer = answer(&frame["request"]);
            let response =
                json!({"subtype": "success", "request_id": frame["request_id"], "response": answer});
            self.asked.push(frame["request"].clone());
            if self.stdin.is_some() {
                self.send(&json!({"type": "control_response", "response": response}))?;
            }
        }
    }

    /// The control requests of one subtype so far.
    pub(super) fn asked(&self, subtype: &str) -> Vec<&Value> {
        let asked = self.asked.iter();
        asked.filter(|request| request["subtype"] == subtype).collect()
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        // It may have ended already; there is nothing left to do then.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Turn {
    /// The last frame: the result.
    pub(super) fn result(&self) -> &Value {
        self.0.last().unwrap_or(&Value::Null)
    }

    /// The first frame of a kind, as [`kind`] names it.
    pub(super) fn first(&self, wanted: &str) -> &Value {
        let mut frames = self.0.iter();
        frames.find(|frame| kind(frame) == wanted).unwrap_or(&Value::Null)
    }

    pub(super) fn all(&self, wanted: &str) -> Vec<&Value> {
        self.0.iter().filter(|frame| kind(frame) == wanted).collect()
    }

    /// The kinds of frames, each once.
    pub(super) fn kinds(&self) -> BTreeSet<String> {
        self.0.iter().map(kind).collect()
    }
}

/// `type`, or `system/subtype`.
pub(super) fn kind(frame: &Value) -> String {
    let name = frame["type"].as_str().unwrap_or_default();
    match frame["subtype"].as_str() {
        Some(subtype) if name == "system" => format!("{name}/{subtype}"),
        _ => name.to_owned(),
    }
}

/// A user's message that is taken as it is.
pub(super) fn prompt(content: &Value) -> Value {
    json!({
        "type": "user",
        "message": {"role": "user", "content": content},
        "parent_tool_use_id": null,
        "session_id": "",
        "client_composed": true,
    })
}

/// The one server here, in the forms of `--mcp-config` and of `sdkMcpServerManifests`.
pub(super) fn manifest() -> Value {
    json!({"initializeResult": initialize_result(), "toolsListResult": tools_list()})
}

fn initialize_result() -> Value {
    json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "holodeck", "version": "1.0.0"},
    })
}

fn tools_list() -> Value {
    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
    json!({"tools": [{"name": "echo", "description": "Repeats the text.", "inputSchema": schema}]})
}

/// The host: tools run unless their input contains `deny`, and one MCP server has one tool.
fn answer(request: &Value) -> Value {
    let input = |key: &str| request[key].to_string();
    match request["subtype"].as_str() {
        Some("can_use_tool") if input("input").contains("deny-and-stop") => {
            json!({"behavior": "deny", "message": "denied by the host", "interrupt": true})
        }
        Some("can_use_tool") if input("input").contains("deny") => {
            json!({"behavior": "deny", "message": "denied by the host"})
        }
        Some("can_use_tool") => json!({"behavior": "allow", "updatedInput": request["input"]}),
        Some("hook_callback") if input("input").contains("hooked") => json!({"hookSpecificOutput": {
            "hookEventName": "PreToolUse", "permissionDecision": "deny",
            "permissionDecisionReason": "denied by the hook",
        }}),
        Some("mcp_message") => {
            let message = &request["message"];
            let result = match message["method"].as_str() {
                Some("initialize") => initialize_result(),
                Some("tools/list") => tools_list(),
                Some("tools/call") => {
                    let text = message["params"]["arguments"]["text"]
                        .as_str()
                        .unwrap_or_default();
                    json!({"content": [{"type": "text", "text": format!("echo: {text}")}]})
                }
                _ => json!({}),
            };
            let mut reply = json!({"jsonrpc": "2.0", "result": result});
            if !message["id"].is_null() {
                reply["id"] = message["id"].clone();
            }
            json!({"mcp_response": reply})
        }
        _ => json!({}),
    }
}
