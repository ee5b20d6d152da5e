//! Agents of YAML files on the real CLI.

use std::{path::Path, sync::Arc, time::Duration};

use futures::StreamExt as _;
use holodeck_backend_api::{
    AgentBackend as _, Approval, Approver, BackendError, BackendEvent, EventStream, ExecutionResult, NoTools,
    ToolHost, TurnRequest, collect,
};
use holodeck_backend_claude::{ClaudeBackend, ClaudeOptions, CliVersion, Limits, Reuse};
use holodeck_model::{
    ApprovalContext, ApprovalPolicy, CallPath, Env, MemoryFiles, Occasion, PathAccess, PolicyCall, Presence,
    RulingBasis, SideEffectGate,
};
use holodeck_validators::{ClaudeCli, ClaudeCliKind, ClaudeEnv};
use holodeck_yaml::{LoadedAgent, load_agent};
use serde_json::json;

use crate::{
    PolicyApprover,
    agent::claude::options::{AgentSetup, BuiltinChanges, options},
    approval_policy, protected_files,
};

/// Where programs are, for children of tests.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

pub(super) use holodeck_testkit::{
    OLDER_CLAUDE as OLDER, PINNED_CLAUDE as PINNED, claude_cli as cli, claude_releases as installed,
};

/// No retries: each scripted reply is requested once.
pub(super) fn limits() -> Limits {
    Limits {
        api_retries: 0,
        close: Duration::from_secs(2),
        ..Limits::default()
    }
}

/// The result of a turn.
pub(super) struct Turn {
    pub(super) end: Result<ExecutionResult, BackendError>,
    pub(super) notices: Vec<String>,
    /// The decisions about its calls.
    pub(super) approvals: Vec<Approval>,
}

impl Turn {
    #[track_caller]
    pub(super) fn result(&self) -> &ExecutionResult {
        self.end.as_ref().unwrap()
    }
}

/// One turn in a process of its own.
pub(super) async fn ask(options: ClaudeOptions, message: &str) -> Turn {
    let backend = ClaudeBackend::new(options.reuse(Reuse::Never)).unwrap();
    let (mut notices, mut approvals) = (Vec::new(), Vec::new());
    let events = backend
        .start(TurnRequest::new(message))
        .inspect(|event| match event {
            Ok(BackendEvent::Notice { message }) => notices.push(message.clone()),
            Ok(event) => approvals.extend(event.approval()),
            Err(_) => {}
        });
    let events: EventStream<'_> = Box::pin(events);
    let end = collect(events).await.map_err(|failed| failed.error);
    backend.teardown().await.unwrap();
    Turn {
        end,
        notices,
        approvals,
    }
}

/// An agent file and its surroundings.
pub(super) struct Yaml {
    pub(super) agent: LoadedAgent,
    pub(super) env: Env,
    pub(super) tools: Arc<dyn ToolHost>,
    pub(super) side_effects: BuiltinChanges,
    pub(super) variables: Vec<(String, String)>,
    pub(super) version: CliVersion,
}

/// An agent in `folder` with further lines of `model:` (indented by two) and further blocks.
pub(super) fn agent(folder: &Path, model: &str, rest: &str, env: &[(&str, &str)]) -> Yaml {
    let path = folder.join("agent.yaml");
    let text = format!(
        "name: test\nmodel:\n  provider: anthropic\n{model}\ninstructions:\n  inline: be brief\n{rest}"
    );
    let env: Env = env.iter().copied().chain([("PATH", PATH)]).collect();
    let files = MemoryFiles::new()
        .with(&path, text)
        .with(folder.join("cases.yaml"), "test_cases: [{name: one, input: Hi}]");
    let load = load_agent(&path, &env, &files);
    Yaml {
        agent: load.agent.unwrap_or_else(|| panic!("{:#?}", load.diagnostics)),
        env,
        tools: Arc::new(NoTools),
        side_effects: BuiltinChanges::AsConfigured,
        variables: Vec::new(),
        version: PINNED,
    }
}

/// The same, signed in with a key at `url`.
pub(super) fn agent_at(url: &str, folder: &Path, rest: &str) -> Yaml {
    let model = format!("  name: claude-sonnet-4-5\n  endpoint: {url}");
    agent(folder, &model, rest, &[("ANTHROPIC_API_KEY", "sk-ant-yaml-key")])
}

impl Yaml {
    /// The options of a test with `--allow-side-effects`.
    pub(super) fn options(&self) -> Result<ClaudeOptions, BackendError> {
        self.options_for(Occasion::Test, |policy| Arc::new(policy))
    }

    /// The options for an occasion, with the approver that `approver` makes of the policy.
    pub(super) fn options_for(
        &self,
        occasion: Occasion,
        approver: impl FnOnce(PolicyApprover) -> Arc<dyn Approver>,
    ) -> Result<ClaudeOptions, BackendError> {
        let cli = ClaudeCli {
            path: cli(self.version),
            version: self.version,
            kind: ClaudeCliKind::Native,
        };
        let protected = protected_files(&self.agent, &self.env, occasion);
        let policy = approval_policy(&self.agent, &protected, &self.env);
        let options = options(&AgentSetup {
            managed: std::path::Path::new("/nowhere"),
            agent: &self.agent,
            occasion,
            cli: &cli,
            credentials: &ClaudeEnv::for_agent(&self.agent, &self.env).unwrap(),
            env: &self.env,
            tools: Arc::clone(&self.tools),
            approver: approver(PolicyApprover::new(
                policy.clone(),
                occasion,
                SideEffectGate::Open,
            )),
            policy: &policy,
            side_effects: self.side_effects,
            reuse: Reuse::Never,
            variables: self.variables.clone(),
        })?;
        Ok(options.limits(limits()))
    }
}

/// Whether a rule of the policy denies that a file is read.
pub(super) fn denies(policy: &ApprovalPolicy, file: &Path) -> bool {
    let real = file.canonicalize().unwrap().display().to_string();
    let paths = [CallPath {
        path: Some(real.clone()),
        named: real,
        access: PathAccess::Read,
        is_own_result: false,
    }];
    let arguments = json!({});
    let call = PolicyCall {
        tool: "Read",
        arguments: &arguments,
        paths: &paths,
        reason: None,
    };
    let context = ApprovalContext {
        occasion: Occasion::Chat,
        presence: Presence::Person,
        side_effects: SideEffectGate::Open,
    };
    policy.decide_call(&call, context).basis == RulingBasis::Rule
}
