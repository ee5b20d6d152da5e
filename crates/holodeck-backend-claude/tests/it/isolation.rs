//! Conversations that share a process do not see each other, and those that could do not share one.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use holodeck_backend_api::{
    AgentBackend as _, ApprovalAsk, ApprovalDecision, Approver, BackendEvent, DecidedBy, Ruling, ToolOutput,
    TurnRequest,
};
use holodeck_backend_claude::{
    ClaudeBackend, ClaudeOptions, McpServer, McpServers, Reuse, ServerNeed, Tools,
};
use holodeck_testkit::{AnthropicReply, AnthropicServer};
use pretty_assertions::assert_eq;
use serde_json::json;
use tempfile::TempDir;

use crate::setup::{cli, collect_events, conversation_texts, installed, options_of};

/// The CLI behind a script that logs each start.
struct LoggedCli {
    folder: TempDir,
}

impl LoggedCli {
    fn new(cli: &std::path::Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let logged = Self { folder };
        let script = format!(
            "#!/bin/sh\nprintf '%s\\n' \"$*\" >>'{}'\nexec '{}' \"$@\"\n",
            logged.file().display(),
            cli.display()
        );
        fs::write(logged.path(), script).unwrap();
        fs::set_permissions(logged.path(), fs::Permissions::from_mode(0o755)).unwrap();
        logged
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("claude")
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("starts")
    }

    /// The ids of the conversations with which processes were started.
    fn sessions(&self) -> Vec<String> {
        let starts = fs::read_to_string(self.file()).unwrap_or_default();
        let ids = starts
            .split_whitespace()
            .filter_map(|word| word.strip_prefix("--session-id="));
        ids.map(str::to_owned).collect()
    }
}

fn session(events: &[BackendEvent]) -> String {
    let id = events.iter().find_map(|event| match event {
        BackendEvent::SessionStarted { session_id, .. } => Some(session_id.clone()),
        _ => None,
    });
    id.unwrap()
}

struct ApproveAll;

#[async_trait]
impl Approver for ApproveAll {
    fn decide(&self, _: &ApprovalAsk) -> Option<Ruling> {
        Some(Ruling::new(ApprovalDecision::approve(), DecidedBy::Mode))
    }
}

#[tokio::test]
async fn cases_that_share_a_process_do_not_see_each_other() {
    for version in ["2.1.330", "2.1.197"] {
        let logged = LoggedCli::new(&installed(version));
        let server = AnthropicServer::answering(|request| {
            let prompt = conversation_texts(request).join(" | ");
            match request.tool_results().first() {
                Some(_) => AnthropicReply::text(prompt),
                None => AnthropicReply::tool_use(
                    "mcp__holodeck_tools__note",
                    &json!({"text": format!("noted-{prompt}")}),
                ),
            }
        });
        let calls = Arc::new(AtomicUsize::new(0));
        let called = Arc::clone(&calls);
        let parameters = json!({"type": "object", "properties": {"text": {"type": "string"}}});
        let tools = Tools::new().with("note", "Notes a text.", parameters, move |arguments, _| {
            called.fetch_add(1, Ordering::SeqCst);
            async move { ToolOutput::ok(format!("kept-{}", arguments["text"])) }
        });
        let options = options_of(&logged.path(), &server).tools(tools);
        let backend = ClaudeBackend::new(options).unwrap();
        let secrets = ["alpha-7714", "beta-2093", "gamma-5508"];
        let mut sessions = Vec::new();
        let mut usages = Vec::new();
        for secret in secrets {
            let (events, error) = collect_events(backend.start(TurnRequest::new(secret))).await;
            assert!(error.is_none(), "{version}: {error:?}");
            let Some(BackendEvent::End(result)) = events.last() else {
                panic!("{events:?}");
            };
            assert_eq!(
                (result.response.as_str(), result.tool_calls.len()),
                (secret, 1),
                "{version}"
            );
            usages.push((result.token_usage, result.num_turns));
            sessions.push(session(&events));
        }
        backend.teardown().await.unwrap();
        assert_eq!(logged.sessions().len(), 1, "{version}: not shared");
        assert_eq!(calls.load(Ordering::SeqCst), 3);
        usages.dedup();
        assert_eq!(
            usages.len(),
            1,
            "{version}: the counts were not reset: {usages:?}"
        );
        let requests = server.finish();
        assert_eq!(requests.len(), 6, "{version}");
        for (index, request) in requests.iter().enumerate() {
            let body = request.body().to_string();
            for (other, secret) in secrets.iter().enumerate() {
                assert_eq!(
                    body.contains(secret),
                    other == index / 2,
                    "{version}: {secret} in request {index}: {body}"
                );
            }
            let id = &sessions[index / 2];
            assert!(
                body.contains(id.as_str()),
                "{version}: not part of conversation {id}: {body}"
            );
        }
        sessions.dedup();
        assert_eq!(sessions.len(), 3, "{version}");
        // Every case shows the model the same, including the first.
        let shown: Vec<_> = requests
            .iter()
            .step_by(2)
            .map(|request| request.messages().len())
            .collect();
        assert_eq!(shown, [shown[0]; 3], "{version}");
    }
}

/// A stdio MCP server that counts the calls of its tool.
const COUNTER: &str = r#"#!/bin/sh
calls=0
while IFS= read -r line; do
  id=${line#*'"id":'}
  id=${id%%[,\}]*}
  case $line in
  *'"method":"initialize"'*)
    result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"counter","version":"1"}}'
    ;;
  *'"method":"tools/list"'*)
    result='{"tools":[{"name":"count","description":"Counts.","inputSchema":{"type":"object"}}]}'
    ;;
  *'"method":"tools/call"'*)
    calls=$((calls + 1))
    result="{\"content\":[{\"type\":\"text\",\"text\":\"call $calls\"}]}"
    ;;
  *'"method":"notifications/'*) continue ;;
  *) result='{}' ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

fn counter(folder: &TempDir) -> McpServers {
    let script = folder.path().join("counter");
    fs::write(&script, COUNTER).unwrap();
    let server = json!({"type": "stdio", "command": "/bin/sh", "args": [script]});
    McpServers {
        document: Some(json!({"mcpServers": {"counter": server}}).to_string().into()),
        servers: vec![McpServer {
            name: "counter".to_owned(),
            need: ServerNeed::Required,
            allowed_tools: None,
        }],
    }
}

/// A model that calls the counter once and repeats its result.
fn counting_model() -> AnthropicServer {
    AnthropicServer::answering(|request| {
        let newest = request.messages().last().unwrap().to_string();
        match request.tool_results().last() {
            // The CLI adds the number of remaining tokens.
            Some(result) if newest.contains("tool_result") => {
                AnthropicReply::text(result.text.lines().next().unwrap())
            }
            _ => AnthropicReply::tool_use("mcp__counter__count", &json!({})),
        }
    })
}

#[tokio::test]
async fn the_state_of_a_server_does_not_reach_the_next_case() {
    let folder = tempfile::tempdir().unwrap();
    let logged = LoggedCli::new(&cli());
    let server = counting_model();
    let options = options_of(&logged.path(), &server)
        .mcp_servers(counter(&folder))
        .approver(Arc::new(ApproveAll));
    let backend = ClaudeBackend::new(options).unwrap();
    for _ in 0..3 {
        assert_eq!(
            backend.invoke_once("Count.", &[]).await.unwrap().response,
            "call 1"
        );
    }
    // The server has state: within one conversation it continues to count.
    let mut conversation = backend.create_session().await.unwrap();
    assert_eq!(conversation.send("Count.").await.unwrap().response, "call 1");
    assert_eq!(conversation.send("Count.").await.unwrap().response, "call 2");
    conversation.close().await.unwrap();
    backend.teardown().await.unwrap();
    server.finish();
}

/// Each of two cases has the conversation with which its process was started: no process was cleared.
async fn check_own_processes(change: impl FnOnce(ClaudeOptions) -> ClaudeOptions) {
    let logged = LoggedCli::new(&cli());
    let server = AnthropicServer::answering(|_| AnthropicReply::text("yes"));
    let backend = ClaudeBackend::new(change(options_of(&logged.path(), &server))).unwrap();
    let mut sessions = Vec::new();
    for _ in 0..2 {
        let (events, error) = collect_events(backend.start(TurnRequest::new("Hi."))).await;
        assert!(error.is_none(), "{error:?}");
        sessions.push(session(&events));
    }
    backend.teardown().await.unwrap();
    let started = logged.sessions();
    assert_ne!(sessions[0], sessions[1]);
    for session in &sessions {
        assert!(started.contains(session), "{session} of {started:?}");
    }
    server.finish();
}

/// A test for each setting: together they start twenty processes of the CLI, more than one test has time for on a busy
/// machine.
macro_rules! cases_get_processes_of_their_own {
    ($($name:ident: $change:expr;)*) => {$(
        #[tokio::test]
        async fn $name() {
            check_own_processes($change).await;
        }
    )*};
}

cases_get_processes_of_their_own! {
    each_case_gets_a_process_with_a_shell: |options| options.builtin_tools(["Bash"]);
    each_case_gets_a_process_if_it_may_write: |options| options.builtin_tools(["Read", "Write"]);
    each_case_gets_a_process_if_it_may_edit: |options| options.builtin_tools(["Edit"]);
    each_case_gets_a_process_if_it_may_start_agents: |options| options.builtin_tools(["Agent"]);
    each_case_gets_a_process_with_agents_of_its_own:
        |options| options.agent("helper", json!({"description": "Helps.", "prompt": "Help."}));
    each_case_gets_a_process_with_settings_of_the_machine: |options| options.setting_sources(["project"]);
    each_case_gets_a_process_if_reuse_is_off: |options| options.reuse(Reuse::Never);
}

#[tokio::test]
async fn reading_files_and_own_tools_share_a_process() {
    let logged = LoggedCli::new(&cli());
    let server = AnthropicServer::answering(|_| AnthropicReply::text("yes"));
    let options = options_of(&logged.path(), &server).builtin_tools(["Read", "Glob", "Grep", "WebSearch"]);
    let backend = ClaudeBackend::new(options).unwrap();
    for _ in 0..3 {
        backend.invoke_once("Hi.", &[]).await.unwrap();
    }
    backend.teardown().await.unwrap();
    assert_eq!(logged.sessions().len(), 1);
    server.finish();
}
