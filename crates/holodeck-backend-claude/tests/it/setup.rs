use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use holodeck_backend_api::{BackendError, BackendEvent, EventStream};
use holodeck_backend_claude::{ClaudeOptions, Limits};
use holodeck_process::{ChildEnv, ProcessSpec};
use holodeck_testkit::{AnthropicRequest, AnthropicServer, FakeClaude};
use tokio_util::sync::CancellationToken;

/// Where programs are, for children of tests.
pub(crate) const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The CLI this version is built for, as `cargo xtask smoke` installs it.
pub(crate) fn cli() -> PathBuf {
    installed("2.1.330")
}

/// A version of the CLI. Its absence is a failure: a test that can't run has not passed.
pub(crate) fn installed(version: &str) -> PathBuf {
    let place = format!(".smoke/claude-{version}/node_modules/@anthropic-ai/claude-code-linux-x64/claude");
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let cli = workspace.join(place);
    assert!(
        cli.exists(),
        "the Claude Code CLI {version} is not installed; `cargo xtask smoke` installs it"
    );
    cli
}

/// Options for the CLI with `server` as its API.
pub(crate) fn options(server: &AnthropicServer) -> ClaudeOptions {
    options_of(&cli(), server)
}

pub(crate) fn options_of(cli: &Path, server: &AnthropicServer) -> ClaudeOptions {
    ClaudeOptions::new(cli)
        .env("PATH", PATH)
        .env("ANTHROPIC_API_KEY", "sk-ant-test-key")
        .env("ANTHROPIC_BASE_URL", server.url())
        .model("claude-sonnet-4-5")
        .system_prompt("be brief")
        .limits(Limits {
            api_retries: 0,
            close: Duration::from_secs(2),
            ..Limits::default()
        })
}

/// Everything a turn tells, and what it ends with.
pub(crate) async fn hear(mut stream: EventStream<'_>) -> (Vec<BackendEvent>, Option<BackendError>) {
    use futures::StreamExt as _;

    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        match event {
            Ok(event) => events.push(event),
            Err(error) => return (events, Some(error)),
        }
    }
    (events, None)
}

/// What people and the model said, without what the CLI adds.
pub(crate) fn said(request: &AnthropicRequest) -> Vec<String> {
    let texts = request
        .messages()
        .iter()
        .flat_map(|message| match &message["content"] {
            serde_json::Value::String(text) => vec![text.clone()],
            blocks => blocks
                .as_array()
                .unwrap()
                .iter()
                .filter_map(|block| Some(block.get("text")?.as_str()?.to_owned()))
                .collect(),
        });
    texts
        .filter(|text| {
            let added = ["<system-reminder>", "<local-command-", "<command-name>"];
            !added.iter().any(|tag| text.starts_with(tag))
        })
        .collect()
}

/// Ids of the processes that this one started and whose program is called `name`.
pub(crate) fn children_named(name: &str) -> Vec<i32> {
    let own = std::process::id().to_string();
    let processes = std::fs::read_dir("/proc").unwrap();
    processes
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            let (_, rest) = stat.rsplit_once(')')?;
            let mut fields = rest.split_whitespace();
            let state = fields.next()?;
            let parent = fields.next()?;
            let named = stat.contains(&format!("({name})"));
            (parent == own && named && state != "Z").then(|| entry.file_name().to_str()?.parse().ok())?
        })
        .collect()
}

pub(crate) async fn kill_children_named(name: &str) {
    let children = children_named(name);
    assert!(!children.is_empty(), "no child is called `{name}`");
    let env: ChildEnv = [("PATH".into(), PATH.into())].into_iter().collect();
    let ids = children.iter().map(ToString::to_string);
    let kill = ProcessSpec::new("kill", env).args(std::iter::once("-9".to_owned()).chain(ids));
    holodeck_process::run(&kill, &CancellationToken::new())
        .await
        .unwrap();
}

/// Ends every process of a group.
pub(crate) async fn kill_group(group: u32) {
    let env: ChildEnv = [("PATH".into(), PATH.into())].into_iter().collect();
    let kill = ProcessSpec::new("kill", env).args(["-9".to_owned(), "--".to_owned(), format!("-{group}")]);
    let _ = holodeck_process::run(&kill, &CancellationToken::new()).await;
}

/// Waits until nothing runs of what a fake was or had started, by id and by process group.
pub(crate) async fn no_orphans(fake: &FakeClaude) {
    let pids = fake.pids();
    let gone = async {
        while !members(&pids).is_empty() {
            tokio::task::yield_now().await;
        }
    };
    let gone = tokio::time::timeout(Duration::from_secs(10), gone).await;
    assert!(gone.is_ok(), "still running: {:?}", members(&pids));
}

/// Processes that are one of `groups` or belong to one, and have not ended.
pub(crate) fn members(groups: &[u32]) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap();
    processes
        .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("stat")).ok())
        .filter(|stat| {
            let Some((head, rest)) = stat.rsplit_once(')') else {
                return false;
            };
            let mut fields = rest.split_whitespace();
            let (state, group) = (fields.next(), fields.nth(1));
            let is = |text: Option<&str>| {
                text.and_then(|text| text.parse().ok())
                    .is_some_and(|id| groups.contains(&id))
            };
            state != Some("Z") && (is(head.split_whitespace().next()) || is(group))
        })
        .collect()
}
