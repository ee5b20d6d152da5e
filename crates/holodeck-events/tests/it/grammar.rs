//! The ordering grammar of the contract, row by row, as an independent acceptor: what the recorder emits is held
//! against it, agent by agent.

use std::collections::{BTreeSet, HashMap};

use holodeck_model::events::{AgentEvent, EventBody, StopReason};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Thinking,
    ThoughtDone,
    Text,
    Sealing,
    Sealed { tools: bool },
    Tools,
}

struct AgentState {
    state: State,
    turn: Option<u32>,
    open: BTreeSet<String>,
}

/// Reports the first event that no row allows.
pub(crate) fn check_order(events: &[AgentEvent]) -> Result<(), String> {
    let mut agents: HashMap<Option<String>, AgentState> = HashMap::new();
    let mut over = true;
    for (at, event) in events.iter().enumerate() {
        let refuse = |why: &str| Err(format!("event {at}, `{}`: {why}", event.body.kind()));
        if matches!(event.body, EventBody::UserMessageConfirmed(_)) {
            if !over {
                return refuse("the run before is not over");
            }
            over = false;
            agents.clear();
            continue;
        }
        if over {
            return refuse("no run is open");
        }
        if event.body.is_terminal() {
            if let Some(agent) = agents.values().find(|agent| !agent.open.is_empty()) {
                return refuse(&format!("{:?} are open", agent.open));
            }
            over = true;
            continue;
        }
        let agent = agents
            .entry(event.meta.parent_tool_use_id.clone())
            .or_insert_with(|| AgentState {
                state: State::Open,
                turn: None,
                open: BTreeSet::new(),
            });
        if event.meta.turn != agent.turn && matches!(agent.state, State::Sealed { .. }) {
            agent.state = State::Open;
        }
        agent.turn = event.meta.turn;
        match next(agent, &event.body) {
            Some(state) => agent.state = state,
            None => return refuse(&format!("not in {:?}", agent.state)),
        }
    }
    Ok(())
}

fn next(agent: &mut AgentState, body: &EventBody) -> Option<State> {
    match (agent.state, body) {
        (State::Open | State::Thinking, EventBody::ThinkingChunk(_)) => Some(State::Thinking),
        (State::Thinking, EventBody::ThinkingComplete(_)) => Some(State::ThoughtDone),
        (State::Open | State::ThoughtDone | State::Text, EventBody::MessageChunk(_)) => Some(State::Text),
        (State::Open | State::ThoughtDone | State::Text, EventBody::Thinking(_)) => Some(State::Sealing),
        (State::Open | State::ThoughtDone | State::Text | State::Sealing, EventBody::Message(message)) => {
            Some(State::Sealed {
                tools: message.stop_reason == StopReason::ToolUse,
            })
        }
        (
            State::Open | State::ThoughtDone | State::Sealing | State::Sealed { tools: true } | State::Tools,
            EventBody::ToolUse(call),
        ) => {
            agent.open.insert(call.tool_use_id.clone());
            Some(State::Tools)
        }
        (State::Tools, EventBody::ApprovalRequested(ask)) => {
            let id = ask.tool_use_id.as_ref()?;
            agent.open.contains(id).then_some(State::Tools)
        }
        (State::Tools, EventBody::ApprovalResolved(_)) => Some(State::Tools),
        (State::Tools, EventBody::ToolResult(result)) => {
            if !agent.open.remove(&result.tool_use_id) {
                return None;
            }
            Some(if agent.open.is_empty() {
                State::Open
            } else {
                State::Tools
            })
        }
        _ => None,
    }
}
