//! Answers the CLI's requests during a turn: approvals of tool calls, calls of own tools, and hooks.

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::FutureExt as _;
use holodeck_backend_api::{
    Approval, ApprovalAsk, ApprovalDecision, Approver, AskReason, BackendError, CallDetails, CallRefusal,
    Conversation, DecidedBy, Elicitation, ElicitationAnswer, Ruling, Spending, ToolCx, ToolNames,
    TurnRequest, Zone,
};
use holodeck_model::{
    ClaudeConfig, CliVersion, Glob, HOLODECK_SERVER, ToolAccess, mcp_tool_name, tools_with_paths,
};
use serde_json::{Map, Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    ClaudeOptions, McpServer,
    call_paths::{CallSite, PathResolver},
    connection::Incoming,
    control::Outgoing,
    home::Home,
    in_process::InProcessServer,
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
/// How long a sub-agent may wait for a slot: in practice, until the turn's time limit.
const HOOK_SECONDS: u32 = 24 * 60 * 60;

/// The error result for a sub-agent that cannot start another one.
const NO_SLOT: &str = "the maximum number of agents is already running; do this yourself";

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
    agents: Option<usize>,
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

/// The turn on whose behalf a process calls tools.
#[derive(Clone, Default)]
pub(crate) struct Caller(Arc<Mutex<TurnContext>>);

#[derive(Clone, Default)]
struct TurnContext {
    unit: Option<String>,
    trial: u32,
    conversation: Conversation,
    spending: Spending,
    approver: Option<Arc<dyn Approver>>,
}

impl Caller {
    pub(crate) fn set(&self, request: &TurnRequest, conversation: Conversation) {
        *lock(&self.0) = TurnContext {
            unit: request.unit.clone(),
            trial: request.trial,
            conversation,
            spending: request.spending.clone(),
            approver: request.approver.clone(),
        };
    }

    fn cx(&self, cancel: CancellationToken) -> ToolCx {
        let context = lock(&self.0).clone();
        ToolCx {
            cancel,
            unit: context.unit,
            trial: context.trial,
            conversation: context.conversation,
            spending: context.spending,
            elicitation: None,
        }
    }

    fn approver(&self) -> Option<Arc<dyn Approver>> {
        lock(&self.0).approver.clone()
    }
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
            agents: options.parallel_agents.map(std::num::NonZeroUsize::get),
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
        }
    }

    fn hooks(&self) -> Value {
        let mut before = Vec::new();
        if self.agents.is_some() {
            before.push(json!({
                "matcher": "Agent|Task",
                "hookCallbackIds": [AGENTS],
                "timeout": HOOK_SECONDS,
            }));
        }
        if !self.checked.is_empty() {
            before.push(json!({"matcher": self.checked.join("|"), "hookCallbackIds": [GOVERNED]}));
        }
        if before.is_empty() {
            return Value::Null;
        }
        json!({ "PreToolUse": before })
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

/// Answers one request.
struct RequestHandler {
    host: Arc<Host>,
    incoming: mpsc::Sender<Incoming>,
    caller: Caller,
    home: Arc<Home>,
    sites: Arc<Mutex<HashMap<String, CallSite>>>,
    cancel: CancellationToken,
    agent_slots: Option<Arc<Semaphore>>,
    /// The permits of running sub-agents, by the id of the call that started them.
    held_slots: Arc<Mutex<HashMap<String, OwnedSemaphorePermit>>>,
    tool_calls: Arc<Semaphore>,
}

impl RequestHandler {
    async fn reply(self, request: HostRequest) -> Result<Value, String> {
        match request {
            HostRequest::CanUseTool(ask) => Ok(self.decide_permission(ask).await),
            HostRequest::McpMessage { server_name, message } => {
                self.call_own_server(&server_name, &message).await
            }
            HostRequest::HookCallback {
                callback_id,
                tool_use_id,
                input,
            } => match callback_id.as_str() {
                AGENTS => Ok(self.reserve_slot(tool_use_id, &input).await),
                GOVERNED => Ok(self.check_call(tool_use_id.unwrap_or_default(), input)),
                _ => Ok(json!({})),
            },
            HostRequest::Elicitation(question) => Ok(self.elicit(question).await),
            HostRequest::Other { subtype, .. } => Err(format!("unsupported request `{subtype}`")),
        }
    }

    /// Whether the CLI must ask about a call, although it may allow it by itself: if the approver rejects it, if a rule
    /// names the tool, or if its files are not simply in the agent's folders.
    fn check_call(&self, call_id: String, mut input: Value) -> Value {
        let text = |input: &Value, name: &str| input.get(name).and_then(Value::as_str).map(ToOwned::to_owned);
        let site = CallSite {
            folder: text(&input, "cwd").map(PathBuf::from),
            session: text(&input, "session_id"),
            agent: text(&input, "agent_type"),
        };
        lock(&self.sites).insert(call_id.clone(), site);
        let resolver = self.resolver(Some(&call_id));
        let tool_name = text(&input, "tool_name").unwrap_or_default();
        let is_governed = self.host.governed.contains(&tool_name);
        let request = CanUseTool {
            tool_name,
            input: input.get_mut("tool_input").map(Value::take).unwrap_or_default(),
            tool_use_id: Some(call_id),
            agent_id: text(&input, "agent_id"),
            ..CanUseTool::default()
        };
        let is_withheld = self.withholds(&request, &resolver);
        let ask = self.host.approval_ask(request, &resolver);
        let approver = self.approver();
        let is_harmless = approver.is_some_and(|approver| {
            let zone = catch_unwind(AssertUnwindSafe(|| approver.zone(&ask)));
            let ruling = catch_unwind(AssertUnwindSafe(|| approver.decide(&ask)));
            matches!(zone, Ok(Zone::Inside))
                && ruling.is_ok_and(|ruling| ruling.is_none_or(|ruling| ruling.decision.is_approved()))
        });
        if is_governed {
            pre_tool_use("ask", "an approval rule names this tool")
        } else if is_harmless && !is_withheld {
            json!({})
        } else {
            pre_tool_use("ask", "the policy of the agent decides about this call")
        }
    }

    /// Whether the YAML excludes the requested call, or gives the tool only to other agents, or whether the CLI would show
    /// in it what it must not read.
    fn withholds(&self, request: &CanUseTool, resolver: &PathResolver<'_>) -> bool {
        let agent = resolver.site.agent.as_deref();
        let tools = &self.host.subagent_tools;
        let commands = tools.commands(agent).filter(|_| request.tool_name == "Bash");
        let is_unhidden =
            !self.host.hides_everywhere && resolver.searches_elsewhere(&request.tool_name, &request.input);
        is_unhidden
            || self.host.withholds(request)
            || !tools.may_call(agent, &request.tool_name)
            || commands.is_some_and(|commands| !is_allowed_command(command_of(request), commands))
    }

    fn approver(&self) -> Option<Arc<dyn Approver>> {
        self.caller.approver().or_else(|| self.host.approver.clone())
    }

    fn resolver(&self, call_id: Option<&str>) -> PathResolver<'_> {
        let site = call_id.and_then(|id| lock(&self.sites).get(id).cloned());
        PathResolver {
            home: &self.home,
            site: site.unwrap_or_default(),
        }
    }

    /// The question with the paths of its arguments, as seen from where the CLI is.
    fn resolve_again(&self, mut ask: ApprovalAsk) -> ApprovalAsk {
        let blocked = ask.reason.as_ref().and_then(|reason| reason.path.as_deref());
        let resolver = self.resolver(Some(&ask.call_id));
        ask.paths = resolver.paths_of(&ask.tool_name, &ask.arguments, blocked);
        ask
    }

    async fn decide_permission(&self, request: CanUseTool) -> Value {
        let resolver = self.resolver(request.tool_use_id.as_deref());
        let withheld = self.withholds(&request, &resolver);
        let mut ask = self.host.approval_ask(request, &resolver);
        if let Some(approver) = self.approver() {
            // A policy that fails is as strict as one without paths.
            let zone = catch_unwind(AssertUnwindSafe(|| approver.zone(&ask)));
            ask.zone = zone.unwrap_or(Zone::Unresolved);
        }
        match self.decide(&ask, withheld).await {
            ApprovalDecision::Approve { arguments } => json!({
                "behavior": "allow",
                "updatedInput": arguments.unwrap_or(ask.arguments),
            }),
            ApprovalDecision::Reject { reason } => json!({"behavior": "deny", "message": reason}),
            ApprovalDecision::Terminate { reason } => {
                json!({"behavior": "deny", "message": reason, "interrupt": true})
            }
            ApprovalDecision::Withdrawn => json!({"behavior": "deny", "message": "withdrawn"}),
        }
    }

    async fn decide(&self, ask: &ApprovalAsk, withheld: bool) -> ApprovalDecision {
        let failed = || ApprovalDecision::reject("the approval failed");
        let approver = self.approver();
        let decided = match &approver {
            _ if withheld => {
                let details = CallDetails {
                    refused: Some(CallRefusal::NotAllowed),
                    ..CallDetails::default()
                };
                self.send_details(&ask.call_id, details).await;
                let reason = format!("this agent is not allowed to use `{}` in this way", ask.tool_name);
                Some(Ruling::new(ApprovalDecision::reject(reason), DecidedBy::Rule))
            }
            Some(approver) => catch_unwind(AssertUnwindSafe(|| approver.decide(ask)))
                .unwrap_or_else(|_panic| Some(Ruling::new(failed(), DecidedBy::Mode))),
            None => Some(Ruling::new(
                ApprovalDecision::reject("no approver is configured"),
                DecidedBy::Mode,
            )),
        };
        if let Some(ruling) = decided {
            self.send(Incoming::Decided(Approval::ruled(ask, &ruling))).await;
            return ruling.decision;
        }
        let Some(approver) = approver else { return failed() };
        self.send(Incoming::Asked(ask.clone())).await;
        let mut guard = WithdrawalGuard {
            incoming: self.incoming.clone(),
            call_id: Some(ask.call_id.clone()),
        };
        let decision = AssertUnwindSafe(approver.ask(ask, &self.cancel))
            .catch_unwind()
            .await;
        let mut decision = decision.unwrap_or_else(|_panic| failed());
        if let ApprovalDecision::Approve {
            arguments: Some(changed),
        } = &decision
        {
            decision = self.check_change(ask, changed, &*approver).unwrap_or(decision);
        }
        guard.call_id = None;
        self.send(Incoming::Answered {
            call_id: ask.call_id.clone(),
            decision: decision.clone(),
        })
        .await;
        decision
    }

    /// Why a call may not run with the arguments that a person gave it, if it may not.
    fn check_change(
        &self,
        ask: &ApprovalAsk,
        changed: &Value,
        approver: &dyn Approver,
    ) -> Option<ApprovalDecision> {
        let mut ask = ask.clone();
        ask.arguments.clone_from(changed);
        ask.reason = None;
        let ask = self.resolve_again(ask);
        let request = CanUseTool {
            tool_name: ask.tool_name.clone(),
            input: changed.clone(),
            ..CanUseTool::default()
        };
        if self.withholds(&request, &self.resolver(Some(&ask.call_id))) {
            let reason = format!("this agent is not allowed to use `{}` in this way", ask.tool_name);
            return Some(ApprovalDecision::reject(reason));
        }
        let ruling = catch_unwind(AssertUnwindSafe(|| approver.decide(&ask)));
        match ruling {
            Ok(ruling) => ruling
                .map(|ruling| ruling.decision)
                .filter(|decision| !decision.is_approved()),
            Err(_panic) => Some(ApprovalDecision::reject("the approval failed")),
        }
    }

    /// Passes the question of a server to the person.
    async fn elicit(&self, question: Option<Elicitation>) -> Value {
        let declined = json!({"action": "decline"});
        let approver = self.caller.approver().or_else(|| self.host.approver.clone());
        let (Some(question), Some(approver)) = (question, approver.filter(|approver| approver.has_person()))
        else {
            return declined;
        };
        let mut ask = ApprovalAsk::from(&question);
        let (call, named) = oneshot::channel();
        let server = question.server;
        let asked = Box::new(ask.clone());
        self.send(Incoming::Elicited {
            ask: asked,
            server,
            call,
        })
        .await;
        let Ok(call_id) = named.await else { return declined };
        ask.call_id.clone_from(&call_id);
        let mut guard = WithdrawalGuard {
            incoming: self.incoming.clone(),
            call_id: Some(call_id.clone()),
        };
        let decision = AssertUnwindSafe(approver.ask(&ask, &self.cancel))
            .catch_unwind()
            .await;
        guard.call_id = None;
        let decision = decision.unwrap_or(ApprovalDecision::Withdrawn);
        self.send(Incoming::ElicitationAnswered {
            call_id,
            decision: decision.clone(),
        })
        .await;
        match decision.into_answer(ask.arguments) {
            ElicitationAnswer::Accept(content) => json!({"action": "accept", "content": content}),
            ElicitationAnswer::Decline => declined,
            ElicitationAnswer::Cancel => json!({"action": "cancel"}),
        }
    }

    async fn call_own_server(&self, server_name: &str, message: &Value) -> Result<Value, String> {
        let mut own = self.host.own_servers.iter();
        let Some(server) = own.find(|server| server.name() == server_name) else {
            return Err(format!("unknown MCP server `{server_name}`"));
        };
        let is_call = message.get("method").is_some_and(|method| method == "tools/call");
        // The semaphore is never closed, and a withdrawn call stops waiting.
        let _permit = if is_call {
            self.tool_calls.acquire().await.ok()
        } else {
            None
        };
        let cx = self.caller.cx(self.cancel.clone());
        let reply = server.handle(message, cx).await;
        if let Some((call_id, details)) = reply.details {
            self.send_details(&call_id, details).await;
        }
        if let Some(failed) = reply.failed {
            let name = if server_name == HOLODECK_SERVER {
                failed.name
            } else {
                server.model_name(&failed.name)
            };
            self.send(Incoming::Unavailable {
                call_id: failed.call_id,
                name,
                reason: failed.reason,
            })
            .await;
        }
        Ok(json!({ "mcp_response": reply.message }))
    }

    /// Reserves a slot for a sub-agent. A nested sub-agent cannot wait for one: the sub-agent that starts it holds its
    /// own slot until the nested one ends.
    async fn reserve_slot(&self, call_id: Option<String>, input: &Value) -> Value {
        let Some(slots) = self.agent_slots.clone() else {
            return json!({});
        };
        let is_nested = input.get("agent_id").is_some_and(Value::is_string);
        let permit = if is_nested {
            slots.try_acquire_owned().ok()
        } else {
            slots.acquire_owned().await.ok()
        };
        match permit {
            Some(permit) => {
                lock(&self.held_slots).insert(call_id.unwrap_or_default(), permit);
                json!({})
            }
            None => pre_tool_use("deny", NO_SLOT),
        }
    }

    /// Sends details of a call. Must happen before the answer, so that they arrive before the call's result.
    async fn send_details(&self, call_id: &str, details: CallDetails) {
        let call_id = call_id.to_owned();
        self.send(Incoming::Details { call_id, details }).await;
    }

    /// Ignores that the turn may already have ended.
    async fn send(&self, incoming: Incoming) {
        let _ = self.incoming.send(incoming).await;
    }
}

/// Reports a question as withdrawn if it is dropped before its answer.
struct WithdrawalGuard {
    incoming: mpsc::Sender<Incoming>,
    call_id: Option<String>,
}

impl Drop for WithdrawalGuard {
    fn drop(&mut self) {
        if let Some(call_id) = self.call_id.take() {
            let _ = self.incoming.try_send(Incoming::Answered {
                call_id,
                decision: ApprovalDecision::Withdrawn,
            });
        }
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

/// The answer of a hook before a tool call.
fn pre_tool_use(decision: &str, reason: &str) -> Value {
    json!({
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": decision,
            "permissionDecisionReason": reason,
        }
    })
}

/// The command of a call of the shell.
fn command_of(request: &CanUseTool) -> &str {
    let command = request.input.get("command");
    command.and_then(Value::as_str).unwrap_or_default()
}

/// Whether a command is a single program call that a pattern allows. Shell syntax is refused.
fn is_allowed_command(command: &str, patterns: &[String]) -> bool {
    let is_plain = !command.contains([';', '|', '&', '$', '`', '<', '>', '(', ')', '{', '}', '\n', '\\']);
    is_plain
        && patterns.iter().any(|pattern| match pattern.strip_suffix(":*") {
            Some(prefix) => {
                let rest = command.strip_prefix(prefix);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
            }
            None => Glob::new(pattern).matches(command.trim()),
        })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
