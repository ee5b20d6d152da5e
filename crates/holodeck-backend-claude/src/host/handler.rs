//! Answers one request of the CLI: an approval, a hook, a question of a server, or a call of an own tool.

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::{Arc, Mutex},
};

use futures::FutureExt as _;
use holodeck_backend_api::{
    Approval, ApprovalAsk, ApprovalDecision, Approver, CallDetails, CallRefusal, DecidedBy, Elicitation,
    ElicitationAnswer, Ruling, Zone,
};
use holodeck_model::HOLODECK_SERVER;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::{
    AGENTS, Caller, GOVERNED, Host,
    commands::{command_of, is_allowed_command},
    lock,
};
use crate::{
    Worktrees,
    call_paths::{CallSite, PathResolver},
    home::Home,
    incoming::Incoming,
    wire::{CanUseTool, HostRequest},
};

/// The error result for a sub-agent that cannot start another one.
const NO_SLOT: &str = "the maximum number of agents is already running; do this yourself";

/// The error result for a sub-agent that is to work in a copy of the repository.
const NO_WORKTREE: &str =
    "`isolation` leaves folders behind and is not available in this test; call the agent without it";

/// Answers one request.
pub(super) struct RequestHandler {
    pub(super) host: Arc<Host>,
    pub(super) incoming: mpsc::Sender<Incoming>,
    pub(super) caller: Caller,
    pub(super) home: Arc<Home>,
    pub(super) sites: Arc<Mutex<HashMap<String, CallSite>>>,
    pub(super) cancel: CancellationToken,
    pub(super) agent_slots: Option<Arc<Semaphore>>,
    /// The permits of running sub-agents, by the id of the call that started them.
    pub(super) held_slots: Arc<Mutex<HashMap<String, OwnedSemaphorePermit>>>,
    pub(super) tool_calls: Arc<Semaphore>,
}

impl RequestHandler {
    pub(super) async fn reply(self, request: HostRequest) -> Result<Value, String> {
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
                AGENTS if self.is_refused_worktree(&input) => Ok(pre_tool_use("deny", NO_WORKTREE)),
                AGENTS => Ok(self.reserve_slot(tool_use_id, &input).await),
                GOVERNED => Ok(self.check_call(tool_use_id.unwrap_or_default(), input)),
                // To `WORKTREE` too: without the path of a folder, the CLI makes none and reports that.
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
        let is_unhidden = !self.host.hides_everywhere
            && resolver.may_show(&request.tool_name, &request.input, &self.host.denied_files);
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

    /// Whether a call of a sub-agent asks for a copy of the repository that it does not get.
    fn is_refused_worktree(&self, input: &Value) -> bool {
        let isolation = input.get("tool_input").and_then(|input| input.get("isolation"));
        self.host.worktrees == Worktrees::Refused && isolation.is_some_and(|isolation| !isolation.is_null())
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
