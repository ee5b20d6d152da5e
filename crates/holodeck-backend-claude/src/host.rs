//! Answers to what the CLI asks of us while a turn runs: may this tool run, run one of ours, what do the hooks say.

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::FutureExt as _;
use holodeck_backend_api::{
    Approval, ApprovalAsk, ApprovalDecision, Approver, BackendError, Conversation, DecidedBy, Spending,
    ToolCx, TurnRequest,
};
use holodeck_mcp_bridge::{HOLODECK_SERVER, InProcessServer, model_name};
use serde_json::{Map, Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    ClaudeOptions, McpServer,
    connection::Incoming,
    control::Outgoing,
    wire::{self, CanUseTool, HostRequest},
};

/// Hook that lets sub-agents wait for their place.
const AGENTS: &str = "agents";
/// Hook that makes the CLI ask about a tool.
const GOVERNED: &str = "governed";
/// A sub-agent may wait this long for its place: until the turn's own limit.
const HOOK_SECONDS: u32 = 24 * 60 * 60;

/// What the model of a sub-agent is told that wants to start another one.
const NO_PLACE: &str = "as many agents run as may run at the same time; do this yourself";

/// What all processes of a backend share in answering.
pub(crate) struct Host {
    approver: Option<Arc<dyn Approver>>,
    own_servers: Vec<InProcessServer>,
    governed: Vec<String>,
    servers: Vec<McpServer>,
    agents: Option<usize>,
    tool_calls: usize,
}

/// The answering side of one process.
pub(crate) struct Answering {
    host: Arc<Host>,
    outgoing: Outgoing,
    incoming: mpsc::Sender<Incoming>,
    stop: CancellationToken,
    caller: Caller,
    running: Arc<Mutex<HashMap<String, CancellationToken>>>,
    places: Option<Arc<Semaphore>>,
    taken: Arc<Mutex<HashMap<String, OwnedSemaphorePermit>>>,
    tasks: TaskTracker,
    /// Places for calls of our own tools.
    tool_calls: Arc<Semaphore>,
}

/// Whose turn runs in a process, for the tools it calls.
#[derive(Clone, Default)]
pub(crate) struct Caller(Arc<Mutex<Serving>>);

#[derive(Clone, Default)]
struct Serving {
    unit: Option<String>,
    conversation: Conversation,
    spending: Spending,
    approver: Option<Arc<dyn Approver>>,
}

impl Caller {
    pub(crate) fn set(&self, request: &TurnRequest, conversation: Conversation) {
        *lock(&self.0) = Serving {
            unit: request.unit.clone(),
            conversation,
            spending: request.spending.clone(),
            approver: request.approver.clone(),
        };
    }

    fn cx(&self, cancel: CancellationToken) -> ToolCx {
        let serving = lock(&self.0).clone();
        ToolCx {
            cancel,
            unit: serving.unit,
            conversation: serving.conversation,
            spending: serving.spending,
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
        let own_servers = own_servers.map_err(|error| BackendError::Init {
            message: error.to_string(),
        })?;
        Ok(Self {
            approver: options.approver.clone(),
            own_servers,
            governed: options.governed_tools.clone(),
            servers: options.mcp_servers.servers.clone(),
            agents: options.parallel_agents.map(std::num::NonZeroUsize::get),
            tool_calls: options.limits.tool_calls.get(),
        })
    }

    /// The request with which a conversation with the CLI begins.
    pub(crate) fn initialize(&self, agents: &Map<String, Value>) -> Value {
        let mut request = json!({"subtype": "initialize", "hooks": self.hooks()});
        if let Some(request) = request.as_object_mut() {
            if !agents.is_empty() {
                request.insert("agents".to_owned(), Value::Object(agents.clone()));
                request.insert("forwardSubagentText".to_owned(), json!(true));
            }
            if !self.own_servers.is_empty() {
                let names: Vec<_> = self.own_servers.iter().map(InProcessServer::name).collect();
                let manifests = self.own_servers.iter();
                let manifests = manifests.map(|server| (server.name().to_owned(), server.manifest()));
                // With the manifest the CLI need not ask for our tools; older ones ask.
                request.insert("sdkMcpServers".to_owned(), json!(names));
                request.insert(
                    "sdkMcpServerManifests".to_owned(),
                    Value::Object(manifests.collect()),
                );
            }
        }
        request
    }

    /// Whether the YAML leaves a tool of an external server out.
    fn withholds(&self, tool: &str) -> bool {
        let of_tool = |server: &&McpServer| tool.starts_with(&model_name(&server.name, ""));
        // The longest name: `a` must not speak for the tools of `a__b`.
        let server = self
            .servers
            .iter()
            .filter(of_tool)
            .max_by_key(|server| server.name.len());
        server.is_some_and(|server| match &server.allowed_tools {
            Some(allowed) => !allowed.iter().any(|name| model_name(&server.name, name) == tool),
            None => false,
        })
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
        if !self.governed.is_empty() {
            before.push(json!({"matcher": self.governed.join("|"), "hookCallbackIds": [GOVERNED]}));
        }
        if before.is_empty() {
            return Value::Null;
        }
        json!({ "PreToolUse": before })
    }

    pub(crate) fn answering(
        self: &Arc<Self>,
        outgoing: Outgoing,
        incoming: mpsc::Sender<Incoming>,
        stop: CancellationToken,
        caller: Caller,
        tasks: TaskTracker,
    ) -> Answering {
        Answering {
            host: Arc::clone(self),
            outgoing,
            incoming,
            stop,
            caller,
            running: Arc::default(),
            places: self.agents.map(|places| Arc::new(Semaphore::new(places))),
            taken: Arc::default(),
            tasks,
            tool_calls: Arc::new(Semaphore::new(self.tool_calls)),
        }
    }
}

impl Answering {
    /// Answers in the background, so that nothing else of the CLI's output waits.
    pub(crate) fn answer(&self, request_id: String, request: HostRequest) {
        let cancel = self.stop.child_token();
        lock(&self.running).insert(request_id.clone(), cancel.clone());
        let one = One {
            host: Arc::clone(&self.host),
            incoming: self.incoming.clone(),
            caller: self.caller.clone(),
            cancel: cancel.clone(),
            places: self.places.clone(),
            taken: Arc::clone(&self.taken),
            tool_calls: Arc::clone(&self.tool_calls),
        };
        let (outgoing, running) = (self.outgoing.clone(), Arc::clone(&self.running));
        self.tasks.spawn(async move {
            let reply = tokio::select! {
                biased;
                // Withdrawn: nothing is to be sent.
                () = cancel.cancelled() => None,
                reply = AssertUnwindSafe(one.reply(request)).catch_unwind() => Some(reply),
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

    /// The CLI takes a request back.
    pub(crate) fn withdraw(&self, request_id: &str) {
        if let Some(cancel) = lock(&self.running).remove(request_id) {
            cancel.cancel();
        }
    }

    /// A call has its result; if it was a sub-agent, its place is free.
    pub(crate) fn finished(&self, call_id: &str) {
        lock(&self.taken).remove(call_id);
    }

    /// A turn is over; nothing of it runs any more.
    pub(crate) fn turn_over(&self) {
        lock(&self.taken).clear();
    }
}

/// The answering of one request.
struct One {
    host: Arc<Host>,
    incoming: mpsc::Sender<Incoming>,
    caller: Caller,
    cancel: CancellationToken,
    places: Option<Arc<Semaphore>>,
    taken: Arc<Mutex<HashMap<String, OwnedSemaphorePermit>>>,
    tool_calls: Arc<Semaphore>,
}

impl One {
    async fn reply(self, request: HostRequest) -> Result<Value, String> {
        match request {
            HostRequest::CanUseTool(ask) => Ok(self.permission(ask).await),
            HostRequest::McpMessage { server_name, message } => self.own_server(&server_name, &message).await,
            HostRequest::HookCallback {
                callback_id,
                tool_use_id,
                input,
            } => match callback_id.as_str() {
                AGENTS => Ok(self.place(tool_use_id, &input).await),
                GOVERNED => Ok(before_tool("ask", "an approval rule names this tool")),
                _ => Ok(json!({})),
            },
            HostRequest::Other { subtype, .. } => Err(format!("this host does not answer `{subtype}`")),
        }
    }

    async fn permission(&self, request: CanUseTool) -> Value {
        let ask = ask(&request);
        match self.decision(&ask).await {
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

    async fn decision(&self, ask: &ApprovalAsk) -> ApprovalDecision {
        let failed = || ApprovalDecision::reject("the approval failed");
        let approver = self.caller.approver().or_else(|| self.host.approver.clone());
        let decided = match &approver {
            _ if self.host.withholds(&ask.tool_name) => {
                let decision = ApprovalDecision::reject("this agent may not call this tool of the server");
                Some((decision, DecidedBy::Rule))
            }
            Some(approver) => catch_unwind(AssertUnwindSafe(|| approver.decide(ask)))
                .unwrap_or_else(|_panic| Some((failed(), DecidedBy::Mode))),
            None => Some((
                ApprovalDecision::reject("no approver is configured"),
                DecidedBy::Mode,
            )),
        };
        if let Some((decision, by)) = decided {
            self.tell(Incoming::Decided(Approval {
                call_id: ask.call_id.clone(),
                decision: decision.clone(),
                by,
            }))
            .await;
            return decision;
        }
        let Some(approver) = approver else { return failed() };
        self.tell(Incoming::Asked(ask.clone())).await;
        let mut told = Told {
            incoming: self.incoming.clone(),
            call_id: Some(ask.call_id.clone()),
        };
        let decision = AssertUnwindSafe(approver.ask(ask, &self.cancel))
            .catch_unwind()
            .await;
        let decision = decision.unwrap_or_else(|_panic| failed());
        told.call_id = None;
        self.tell(Incoming::Answered {
            call_id: ask.call_id.clone(),
            decision: decision.clone(),
        })
        .await;
        decision
    }

    async fn own_server(&self, server_name: &str, message: &Value) -> Result<Value, String> {
        let mut own = self.host.own_servers.iter();
        let Some(server) = own.find(|server| server.name() == server_name) else {
            return Err(format!("there is no MCP server `{server_name}` here"));
        };
        let is_call = message.get("method").is_some_and(|method| method == "tools/call");
        // It is never closed; a call that is withdrawn does not wait any longer.
        let _place = if is_call {
            self.tool_calls.acquire().await.ok()
        } else {
            None
        };
        let cx = self.caller.cx(self.cancel.clone());
        let reply = server.handle(message, cx).await;
        if let Some(failed) = reply.failed {
            let name = if server_name == HOLODECK_SERVER {
                failed.name
            } else {
                server.model_name(&failed.name)
            };
            self.tell(Incoming::Unavailable {
                call_id: failed.call_id,
                name,
                reason: failed.reason,
            })
            .await;
        }
        Ok(json!({ "mcp_response": reply.message }))
    }

    /// Takes a place for a sub-agent. One that another sub-agent starts can't wait for it: that one keeps its own
    /// until this one is done.
    async fn place(&self, call_id: Option<String>, input: &Value) -> Value {
        let Some(places) = self.places.clone() else {
            return json!({});
        };
        let is_nested = input.get("agent_id").is_some_and(Value::is_string);
        let place = if is_nested {
            places.try_acquire_owned().ok()
        } else {
            places.acquire_owned().await.ok()
        };
        match place {
            Some(place) => {
                lock(&self.taken).insert(call_id.unwrap_or_default(), place);
                json!({})
            }
            None => before_tool("deny", NO_PLACE),
        }
    }

    /// A turn that is over hears nothing any more.
    async fn tell(&self, incoming: Incoming) {
        let _ = self.incoming.send(incoming).await;
    }
}

/// Tells that an ask was withdrawn, if it is dropped before it was answered.
struct Told {
    incoming: mpsc::Sender<Incoming>,
    call_id: Option<String>,
}

impl Drop for Told {
    fn drop(&mut self) {
        if let Some(call_id) = self.call_id.take() {
            let _ = self.incoming.try_send(Incoming::Answered {
                call_id,
                decision: ApprovalDecision::Withdrawn,
            });
        }
    }
}

/// A hook's answer about a call that is to begin.
fn before_tool(decision: &str, reason: &str) -> Value {
    json!({
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": decision,
            "permissionDecisionReason": reason,
        }
    })
}

fn ask(request: &CanUseTool) -> ApprovalAsk {
    let own = model_name(HOLODECK_SERVER, "");
    let name = request.tool_name.strip_prefix(&own).unwrap_or(&request.tool_name);
    ApprovalAsk {
        tool_name: name.to_owned(),
        arguments: request.input.clone(),
        call_id: request.tool_use_id.clone().unwrap_or_default(),
        description: request.description.clone(),
        agent_id: request.agent_id.clone(),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
