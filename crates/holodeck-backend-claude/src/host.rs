//! Answers the CLI's requests during a turn: approvals of tool calls, calls of own tools, and hooks.

mod caller;
mod commands;
mod handler;

use std::{
    collections::HashMap,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::FutureExt as _;
use holodeck_backend_api::{ApprovalAsk, Approver, AskReason, BackendError, ToolNames, Zone};
use holodeck_model::{
    ClaudeConfig, CliText, CliVersion, HOLODECK_SERVER, ToolAccess, mcp_tool_name, tools_with_paths,
};
use serde_json::{Map, Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(crate) use caller::Caller;
use commands::{command_of, is_allowed_command};
use handler::RequestHandler;

use crate::{
    ClaudeOptions, McpServer, Worktrees,
    call_paths::{CallSite, PathResolver},
    control::Outgoing,
    home::Home,
    in_process::InProcessServer,
    incoming::Incoming,
    subagents::SubagentTools,
    wire::{self, CanUseTool, HostRequest},
};

/// The hook that makes sub-agents wait for a free slot.
const AGENTS: &str = "agents";
/// The hook that decides whether the CLI must ask about a call that it may allow by itself.
const GOVERNED: &str = "governed";
/// The first release that was seen to apply its deny rules to a search of a folder that is not its working directory;
/// 2.1.197 does not.
const HIDES_EVERYWHERE: CliVersion = CliVersion::new(2, 1, 330);
/// The hook that makes the folder of a sub-agent that works in a copy of the repository.
const WORKTREE: &str = "worktree";
/// How long a sub-agent may wait for a slot: in practice, until the turn's time limit.
const HOOK_SECONDS: u32 = 24 * 60 * 60;

/// The settings for answering, which all processes of a backend share.
pub(crate) struct Host {
    approver: Option<Arc<dyn Approver>>,
    own_servers: Vec<InProcessServer>,
    /// Tools about which the approver always decides.
    governed: Vec<String>,
    /// These, and the tools whose calls name paths: every call passes a hook.
    checked: Vec<String>,
    servers: Vec<McpServer>,
    names: ToolNames,
    access: ToolAccess,
    /// The commands that the shell may run; `None` allows all.
    commands: Option<Vec<String>>,
    /// Whether the CLI hides what it must not read from a search of every folder, or only of its working directory.
    hides_everywhere: bool,
    /// The rules by which an older CLI, which searches with another syntax of patterns, is to hide files.
    denied_files: Vec<CliText>,
    agents: Option<usize>,
    worktrees: Worktrees,
    subagent_tools: SubagentTools,
    tool_calls: usize,
}

/// Answers the requests of one process.
pub(crate) struct Responder {
    host: Arc<Host>,
    outgoing: Outgoing,
    incoming: mpsc::Sender<Incoming>,
    stop: CancellationToken,
    caller: Caller,
    home: Arc<Home>,
    /// Where the CLI was when it called a tool, by the id of the call.
    sites: Arc<Mutex<HashMap<String, CallSite>>>,
    running: Arc<Mutex<HashMap<String, CancellationToken>>>,
    agent_slots: Option<Arc<Semaphore>>,
    /// The permits of running sub-agents, by the id of the call that started them.
    held_slots: Arc<Mutex<HashMap<String, OwnedSemaphorePermit>>>,
    tasks: TaskTracker,
    /// Slots for calls of own tools.
    tool_calls: Arc<Semaphore>,
}

impl Host {
    pub(crate) fn new(options: &ClaudeOptions) -> Result<Self, BackendError> {
        let own = options.tools.iter().map(|tools| (HOLODECK_SERVER, tools));
        let others = options.tool_servers.iter();
        let own_servers = own
            .chain(others.map(|(name, tools)| (name.as_str(), tools)))
            .filter(|(_, tools)| !tools.specs().is_empty())
            .map(|(name, tools)| InProcessServer::new(name, Arc::clone(tools)))
            .collect::<Result<_, _>>();
        let own_servers = own_servers.map_err(|error| BackendError::init(error.to_string()))?;
        Ok(Self {
            approver: options.approver.clone(),
            own_servers,
            checked: checked_tools(options),
            governed: options.governed_tools.clone(),
            servers: options.mcp_servers.servers.clone(),
            names: options.names.clone(),
            access: options.access.clone(),
            commands: options.allowed_commands.clone(),
            hides_everywhere: options.version.is_none_or(|version| version >= HIDES_EVERYWHERE),
            denied_files: options.denied_files.clone(),
            agents: options.parallel_agents.map(std::num::NonZeroUsize::get),
            worktrees: options.worktrees,
            subagent_tools: SubagentTools::of(options),
            tool_calls: options.limits.tool_calls.get(),
        })
    }

    /// The handshake request, which is the first one to the CLI.
    pub(crate) fn initialize_request(&self, agents: Map<String, Value>) -> Value {
        let mut request = json!({"subtype": "initialize", "hooks": self.hooks()});
        if let Some(request) = request.as_object_mut() {
            if !agents.is_empty() {
                request.insert("agents".to_owned(), Value::Object(agents));
                request.insert("forwardSubagentText".to_owned(), json!(true));
            }
            if !self.own_servers.is_empty() {
                let names: Vec<_> = self.own_servers.iter().map(InProcessServer::name).collect();
                let manifests = self.own_servers.iter();
                let manifests = manifests.map(|server| (server.name().to_owned(), server.manifest()));
                // With the manifests, the CLI does not request the tools; older versions do.
                request.insert("sdkMcpServers".to_owned(), json!(names));
                request.insert(
                    "sdkMcpServerManifests".to_owned(),
                    Value::Object(manifests.collect()),
                );
            }
        }
        request
    }

    /// The servers of this process, by name. A request that sets the servers must name them, or the CLI drops them.
    pub(crate) fn own_servers(&self) -> Map<String, Value> {
        let names = self.own_servers.iter().map(InProcessServer::name);
        names
            .map(|name| (name.to_owned(), json!({"type": "sdk", "name": name})))
            .collect()
    }

    /// Whether the YAML excludes the requested call.
    fn withholds(&self, request: &CanUseTool) -> bool {
        let tool = request.tool_name.as_str();
        if self.is_unknown(tool) {
            return true;
        }
        if tool == "Bash"
            && let Some(commands) = &self.commands
        {
            return !is_allowed_command(command_of(request), commands);
        }
        self.withholds_tool(tool)
    }

    /// Whether the YAML excludes a tool.
    pub(crate) fn withholds_tool(&self, tool: &str) -> bool {
        if !self.access.allows_call(&self.names, tool) {
            return true;
        }
        let has_tool = |server: &&McpServer| tool.starts_with(&mcp_tool_name(&server.name, ""));
        // The longest name wins: `a` must not match the tools of `a__b`.
        let server = self
            .servers
            .iter()
            .filter(has_tool)
            .max_by_key(|server| server.name.len());
        server.is_some_and(|server| match &server.allowed_tools {
            Some(allowed) => !allowed
                .iter()
                .any(|name| mcp_tool_name(&server.name, name) == tool),
            None => false,
        })
    }

    /// Whether a tool is one of the CLI that is not known here. It may touch anything.
    fn is_unknown(&self, tool: &str) -> bool {
        !tool.starts_with("mcp__")
            && !ClaudeConfig::CLI_TOOLS.contains(&tool)
            && self.names.identify(tool).is_none()
    }

    fn approval_ask(&self, request: CanUseTool, resolver: &PathResolver<'_>) -> ApprovalAsk {
        let blocked = request.blocked_path.as_deref();
        let paths = resolver.paths_of(&request.tool_name, &request.input, blocked);
        let tool = self.names.identify(&request.tool_name);
        ApprovalAsk {
            tool_name: tool.map_or(request.tool_name, |tool| tool.shown_to_model),
            arguments: request.input,
            call_id: request.tool_use_id.unwrap_or_default(),
            description: request.description,
            agent_id: request.agent_id,
            answer_schema: None,
            paths,
            reason: request.decision_reason_type.map(|kind| AskReason {
                kind,
                path: request.blocked_path,
            }),
            zone: Zone::Inside,
            tool_digest: None,
            scopes: None,
            is_followed: false,
        }
    }

    fn hooks(&self) -> Value {
        let mut before = Vec::new();
        let refuses_worktrees = self.worktrees == Worktrees::Refused;
        if self.agents.is_some() || refuses_worktrees {
            before.push(json!({
                "matcher": "Agent|Task",
                "hookCallbackIds": [AGENTS],
                "timeout": HOOK_SECONDS,
            }));
        }
        if !self.checked.is_empty() {
            before.push(json!({"matcher": self.checked.join("|"), "hookCallbackIds": [GOVERNED]}));
        }
        let mut hooks = Map::new();
        if !before.is_empty() {
            hooks.insert("PreToolUse".to_owned(), json!(before));
        }
        if refuses_worktrees {
            // Takes the place of `git worktree`, also where the definition of an agent asks for one.
            hooks.insert(
                "WorktreeCreate".to_owned(),
                json!([{"hookCallbackIds": [WORKTREE]}]),
            );
        }
        if hooks.is_empty() {
            Value::Null
        } else {
            Value::Object(hooks)
        }
    }

    pub(crate) fn responder(
        self: &Arc<Self>,
        outgoing: Outgoing,
        incoming: mpsc::Sender<Incoming>,
        stop: CancellationToken,
        caller: Caller,
        home: Arc<Home>,
        tasks: TaskTracker,
    ) -> Responder {
        Responder {
            host: Arc::clone(self),
            home,
            sites: Arc::default(),
            outgoing,
            incoming,
            stop,
            caller,
            running: Arc::default(),
            agent_slots: self.agents.map(|limit| Arc::new(Semaphore::new(limit))),
            held_slots: Arc::default(),
            tasks,
            tool_calls: Arc::new(Semaphore::new(self.tool_calls)),
        }
    }
}

impl Responder {
    /// Answers in the background, so that the CLI's output is still read.
    pub(crate) fn respond(&self, request_id: String, request: HostRequest) {
        let cancel = self.stop.child_token();
        lock(&self.running).insert(request_id.clone(), cancel.clone());
        let handler = RequestHandler {
            host: Arc::clone(&self.host),
            incoming: self.incoming.clone(),
            caller: self.caller.clone(),
            home: Arc::clone(&self.home),
            sites: Arc::clone(&self.sites),
            cancel: cancel.clone(),
            agent_slots: self.agent_slots.clone(),
            held_slots: Arc::clone(&self.held_slots),
            tool_calls: Arc::clone(&self.tool_calls),
        };
        let (outgoing, running) = (self.outgoing.clone(), Arc::clone(&self.running));
        self.tasks.spawn(async move {
            let reply = tokio::select! {
                biased;
                // A withdrawn request gets no answer.
                () = cancel.cancelled() => None,
                reply = AssertUnwindSafe(handler.reply(request)).catch_unwind() => Some(reply),
            };
            lock(&running).remove(&request_id);
            match reply {
                Some(Ok(Ok(reply))) => outgoing.line(wire::control_success(&request_id, &reply)),
                Some(Ok(Err(refusal))) => outgoing.line(wire::control_error(&request_id, &refusal)),
                Some(Err(_)) => {
                    outgoing.line(wire::control_error(&request_id, "the handler failed"));
                }
                None => {}
            }
        });
    }

    /// Cancels a request that the CLI withdraws.
    pub(crate) fn withdraw(&self, request_id: &str) {
        if let Some(cancel) = lock(&self.running).remove(request_id) {
            cancel.cancel();
        }
    }

    /// Releases the slot of a sub-agent whose call has its result.
    pub(crate) fn release_slot(&self, call_id: &str) {
        lock(&self.held_slots).remove(call_id);
    }

    /// Releases all slots at the end of a turn.
    pub(crate) fn release_all_slots(&self) {
        lock(&self.held_slots).clear();
        lock(&self.sites).clear();
    }
}

/// The tools whose every call passes a hook.
fn checked_tools(options: &ClaudeOptions) -> Vec<String> {
    let has_builtins = !options.builtin_tools.is_empty() || !options.agents.is_empty();
    let with_paths = tools_with_paths().filter(|_| has_builtins);
    let mut others: Vec<&str> = with_paths.collect();
    others.extend(options.subagent_tools.iter().map(String::as_str));
    if !options.subagent_commands.is_empty() {
        others.push("Bash");
    }
    let mut checked = options.governed_tools.clone();
    for tool in others {
        if !checked.iter().any(|known| known == tool) {
            checked.push(tool.to_owned());
        }
    }
    checked
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
