//! What the backend costs over the CLI itself: `cargo xtask bench claude` runs this and writes the figures down.
//!
//! The floor writes the same lines to the same CLI by hand and looks for the end of the turn, nothing else. Floor and
//! backend take turns. The scripted API answers at once and lives in a process of its own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    reason = "a bench"
)]

use std::{
    env, fs,
    io::Write as _,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use holodeck_backend_api::{AgentBackend as _, ToolOutput};
use holodeck_backend_claude::{ClaudeBackend, ClaudeOptions, Reuse, Tools};
use holodeck_process::{ChildEnv, ChildProcess, ProcessSpec};
use holodeck_testkit::{AnthropicReply, AnthropicServer};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{ChildStdin, ChildStdout},
};

const TURNS: usize = 60;
const CASES: usize = 30;
const LIVE: usize = 8;
const SERVE: &str = "--serve";
const TOOL: &str = "mcp__holodeck_tools__echo";

fn main() {
    if env::args().any(|argument| argument == SERVE) {
        return serve();
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(measure());
}

/// Answers every request at once; a question that says `tool` is answered by a call first.
fn serve() {
    let server = AnthropicServer::unchecked(|request| {
        let last = request.messages().last().unwrap();
        let answered = last["content"][0]["type"] == "tool_result";
        if request.prompt().starts_with("tool") && !answered {
            AnthropicReply::tool_use(TOOL, &json!({"text": "x"}))
        } else {
            AnthropicReply::text("four words of answer").in_pieces(4)
        }
    });
    println!("{}", server.url());
    std::io::stdout().flush().unwrap();
    // Until whoever started it is gone.
    let _ = std::io::stdin().read_line(&mut String::new());
}

async fn measure() {
    let (mut server, url) = start_server().await;
    let mut figures = json!({});
    latency(&url, &mut figures).await;
    for (name, reuse, lanes) in [
        ("cold", Reuse::Never, 1),
        ("reused", Reuse::WhereSafe, 1),
        ("reused by two", Reuse::WhereSafe, 2),
    ] {
        figures[name] = isolated(&url, reuse, lanes).await;
    }
    figures["live"] = live(&url).await;
    println!("{figures}");
    server.stop(Duration::from_secs(1)).await.unwrap();
}

async fn start_server() -> (ChildProcess, String) {
    let spec = ProcessSpec::new(env::current_exe().unwrap(), ChildEnv::new()).args([SERVE]);
    let mut server = ChildProcess::spawn(&spec).unwrap();
    let mut lines = BufReader::new(server.take_stdout().unwrap()).lines();
    let url = lines.next_line().await.unwrap().unwrap();
    (server, url)
}

/// Turns of one conversation, with and without a call of an own tool: the floor's and the backend's.
async fn latency(url: &str, figures: &mut Value) {
    let mut floor = Floor::start(url).await;
    let backend = ClaudeBackend::new(options(url)).unwrap();
    let mut session = backend.create_session().await.unwrap();
    for question in ["hello", "tool"] {
        let (mut floors, mut ours) = (Vec::new(), Vec::new());
        for turn in 0..TURNS {
            let question = format!("{question} {turn}");
            let start = Instant::now();
            floor.turn(&question).await;
            floors.push(start.elapsed());
            let start = Instant::now();
            session.send(&question).await.unwrap();
            ours.push(start.elapsed());
        }
        figures[format!("turn: {question}")] =
            json!({"floor_ms": median(floors), "backend_ms": median(ours)});
    }
    session.close().await.unwrap();
    backend.teardown().await.unwrap();
}

/// Conversations of one turn, `lanes` at a time.
async fn isolated(url: &str, reuse: Reuse, lanes: usize) -> Value {
    let before = cpu();
    let backend = Arc::new(ClaudeBackend::new(options(url).reuse(reuse)).unwrap());
    backend.initialize().await.unwrap();
    let start = Instant::now();
    let lanes: Vec<_> = (0..lanes)
        .map(|lane| {
            let backend = Arc::clone(&backend);
            let cases = (lane..CASES).step_by(lanes);
            tokio::spawn(async move {
                for case in cases {
                    backend.invoke_once(&format!("hello {case}"), &[]).await.unwrap();
                }
            })
        })
        .collect();
    for lane in lanes {
        lane.await.unwrap();
    }
    let wall = start.elapsed();
    backend.teardown().await.unwrap();
    let cpu = cpu().saturating_sub(before);
    json!({
        "cases_per_second": CASES as f64 / wall.as_secs_f64(),
        "cpu_ms_per_case": ms(cpu) / CASES as f64,
    })
}

/// This process's own memory with conversations open.
async fn live(url: &str) -> Value {
    let backend = ClaudeBackend::new(options(url)).unwrap();
    let mut sessions = Vec::new();
    for _ in 0..LIVE {
        let mut session = backend.create_session().await.unwrap();
        session.send("hello").await.unwrap();
        sessions.push(session);
    }
    let resident = status("VmRSS");
    for mut session in sessions {
        session.close().await.unwrap();
    }
    backend.teardown().await.unwrap();
    json!({"processes": LIVE, "resident_kb": resident, "peak_kb": status("VmHWM")})
}

fn options(url: &str) -> ClaudeOptions {
    let echo = json!({"type": "object", "properties": {"text": {"type": "string"}}});
    ClaudeOptions::new(cli())
        .env("PATH", env::var("PATH").unwrap())
        .env("ANTHROPIC_API_KEY", "sk-ant-bench")
        .env("ANTHROPIC_BASE_URL", url)
        .model("claude-sonnet-4-5")
        .system_prompt("be brief")
        .tools(Tools::new().with("echo", "Says it again", echo, async |_, _| ToolOutput::ok("x")))
}

fn cli() -> PathBuf {
    let workspace = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    workspace.join(".smoke/claude-2.1.330/node_modules/@anthropic-ai/claude-code-linux-x64/claude")
}

/// The CLI, driven with no more than is needed.
struct Floor {
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    _process: ChildProcess,
    _home: tempfile::TempDir,
}

impl Floor {
    async fn start(url: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let path = env::var("PATH").unwrap();
        let variables = [
            ("PATH", path.as_str()),
            ("HOME", home.path().to_str().unwrap()),
            ("CLAUDE_CONFIG_DIR", home.path().to_str().unwrap()),
            ("ANTHROPIC_API_KEY", "sk-ant-bench"),
            ("ANTHROPIC_BASE_URL", url),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            ("ENABLE_TOOL_SEARCH", "false"),
        ];
        let env: ChildEnv = variables
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        let spec = ProcessSpec::new(cli(), env).current_dir(home.path()).args([
            "--output-format",
            "stream-json",
            "--verbose",
            "--input-format",
            "stream-json",
            "--include-partial-messages",
            "--setting-sources=",
            "--strict-mcp-config",
            "--tools",
            "",
            "--allowedTools",
            TOOL,
            "--thinking",
            "disabled",
            "--model",
            "claude-sonnet-4-5",
            "--system-prompt",
            "be brief",
        ]);
        let mut process = ChildProcess::spawn(&spec).unwrap();
        let mut floor = Self {
            stdin: process.take_stdin().unwrap(),
            lines: BufReader::new(process.take_stdout().unwrap()).lines(),
            _process: process,
            _home: home,
        };
        let tool = json!({"name": "echo", "description": "Says it again", "inputSchema": {"type": "object"}});
        let manifest = json!({
            "initializeResult": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "holodeck_tools", "version": "1"},
            },
            "toolsListResult": {"tools": [tool]},
        });
        floor
            .write(&json!({
                "type": "control_request",
                "request_id": "1",
                "request": {
                    "subtype": "initialize",
                    "hooks": null,
                    "sdkMcpServers": ["holodeck_tools"],
                    "sdkMcpServerManifests": {"holodeck_tools": manifest},
                },
            }))
            .await;
        floor.until("\"type\":\"control_response\"").await;
        floor
    }

    async fn turn(&mut self, question: &str) {
        self.write(&json!({
            "type": "user",
            "message": {"role": "user", "content": question},
            "parent_tool_use_id": null,
            "session_id": "",
            "client_composed": true,
        }))
        .await;
        self.until("\"type\":\"result\"").await;
    }

    async fn write(&mut self, message: &Value) {
        self.stdin
            .write_all(format!("{message}\n").as_bytes())
            .await
            .unwrap();
    }

    async fn until(&mut self, mark: &str) {
        loop {
            let line = self.lines.next_line().await.unwrap().unwrap();
            if line.contains(mark) {
                return;
            }
            if line.contains("\"mcp_message\"") {
                let asked: Value = serde_json::from_str(&line).unwrap();
                let id = &asked["request"]["message"]["id"];
                let result = json!({"content": [{"type": "text", "text": "x"}]});
                let reply = json!({"mcp_response": {"jsonrpc": "2.0", "id": id, "result": result}});
                self.write(&json!({
                    "type": "control_response",
                    "response": {"subtype": "success", "request_id": asked["request_id"], "response": reply},
                }))
                .await;
            }
        }
    }
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    ms(times[times.len() / 2])
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Of this process and of all children that have ended.
fn cpu() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks = fields.split_whitespace().skip(11).take(4);
    let ticks: u64 = ticks.map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    // The kernel tells hundredths of a second, whatever the machine.
    Duration::from_millis(ticks * 10)
}

fn status(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
