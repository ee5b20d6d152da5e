//! Measures the backend's overhead over the CLI itself. `cargo xtask bench claude` runs it and records the results.
//!
//! The floor writes the same lines directly to the same CLI and only waits for the end of the turn. Floor and backend
//! alternate. The scripted API answers at once and runs in a separate process.
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

/// Answers every request at once; a question that starts with `tool` is first answered by a call.
fn serve() {
    let server = AnthropicServer::unchecked(|request| {
        let last = request.messages().last().unwrap();
        let has_result = last["content"][0]["type"] == "tool_result";
        if request.prompt().starts_with("tool") && !has_result {
            AnthropicReply::tool_use(TOOL, &json!({"text": "x"}))
        } else {
            AnthropicReply::text("four words of answer").in_pieces(4)
        }
    });
    println!("{}", server.url());
    std::io::stdout().flush().unwrap();
    // Run until the parent process closes the input.
    let _ = std::io::stdin().read_line(&mut String::new());
}

async fn measure() {
    let (mut server, url) = start_server().await;
    let mut figures = json!({});
    measure_latency(&url, &mut figures).await;
    for (name, reuse, workers) in [
        ("cold", Reuse::Never, 1),
        ("reused", Reuse::WhereSafe, 1),
        ("reused by two", Reuse::WhereSafe, 2),
    ] {
        figures[name] = measure_isolated(&url, reuse, workers).await;
    }
    figures["live"] = measure_live(&url).await;
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

/// Measures turns of one conversation, with and without a call of an own tool, of the floor and of the backend.
async fn measure_latency(url: &str, figures: &mut Value) {
    let mut floor = Floor::start(url).await;
    let backend = ClaudeBackend::new(options(url)).unwrap();
    let mut session = backend.create_session().await.unwrap();
    for question in ["hello", "tool"] {
        let (mut floor_times, mut backend_times) = (Vec::new(), Vec::new());
        for turn in 0..TURNS {
            let question = format!("{question} {turn}");
            let start = Instant::now();
            floor.turn(&question).await;
            floor_times.push(start.elapsed());
            let start = Instant::now();
            session.send(&question).await.unwrap();
            backend_times.push(start.elapsed());
        }
        figures[format!("turn: {question}")] =
            json!({"floor_ms": median(floor_times), "backend_ms": median(backend_times)});
    }
    session.close().await.unwrap();
    backend.teardown().await.unwrap();
}

/// Measures conversations of one turn, `workers` at a time.
async fn measure_isolated(url: &str, reuse: Reuse, workers: usize) -> Value {
    let before = cpu();
    let backend = Arc::new(ClaudeBackend::new(options(url).reuse(reuse)).unwrap());
    backend.initialize().await.unwrap();
    let start = Instant::now();
    let tasks: Vec<_> = (0..workers)
        .map(|worker| {
            let backend = Arc::clone(&backend);
            let cases = (worker..CASES).step_by(workers);
            tokio::spawn(async move {
                for case in cases {
                    backend.invoke_once(&format!("hello {case}"), &[]).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let wall = start.elapsed();
    backend.teardown().await.unwrap();
    let cpu = cpu().saturating_sub(before);
    json!({
        "cases_per_second": CASES as f64 / wall.as_secs_f64(),
        "cpu_ms_per_case": ms(cpu) / CASES as f64,
    })
}

/// Measures the memory of this process with open conversations.
async fn measure_live(url: &str) -> Value {
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
        .tools(Tools::new().with("echo", "Repeats the text", echo, async |_, _| ToolOutput::ok("x")))
}

fn cli() -> PathBuf {
    let workspace = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    workspace.join(".smoke/claude-2.1.330/node_modules/@anthropic-ai/claude-code-linux-x64/claude")
}

/// The CLI, driven with the minimum of messages.
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
        let tool =
            json!({"name": "echo", "description": "Repeats the text", "inputSchema": {"type": "object"}});
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
                let request: Value = serde_json::from_str(&line).unwrap();
                let id = &request["request"]["message"]["id"];
                let result = json!({"content": [{"type": "text", "text": "x"}]});
                let reply = json!({"mcp_response": {"jsonrpc": "2.0", "id": id, "result": result}});
                self.write(&json!({
                    "type": "control_response",
                    "response": {"subtype": "success", "request_id": request["request_id"], "response": reply},
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

/// The CPU time of this process and of all children that have ended.
fn cpu() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks = fields.split_whitespace().skip(11).take(4);
    let ticks: u64 = ticks.map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    // The kernel reports hundredths of a second on every machine.
    Duration::from_millis(ticks * 10)
}

fn status(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
