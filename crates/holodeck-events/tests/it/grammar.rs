//! The ordering grammar of the contract, row by row, as an independent acceptor: what the recorder tells is held
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

struct Lane {
    state: State,
    turn: Option<u32>,
    open: BTreeSet<String>,
}

/// What of one run's events no row allows.
pub(crate) fn refuse(events: &[AgentEvent]) -> Result<(), String> {
    let mut lanes: HashMap<Option<String>, Lane> = HashMap::new();
    let mut over = true;
    for (at, event) in events.iter().enumerate() {
        let refuse = |why: &str| Err(format!("event {at}, `{}`: {why}", event.body.kind()));
        if matches!(event.body, EventBody::UserMessageConfirmed(_)) {
            if !over {
                return refuse("the run before is not over");
            }
            over = false;
            lanes.clear();
            continue;
        }
        if over {
            return refuse("no run is open");
        }
        if event.body.is_terminal() {
            if let Some(lane) = lanes.values().find(|lane| !lane.open.is_empty()) {
                return refuse(&format!("{:?} are open", lane.open));
            }
            over = true;
            continue;
        }
        let lane = lanes
            .entry(event.meta.parent_tool_use_id.clone())
            .or_insert_with(|| Lane {
                state: State::Open,
                turn: None,
                open: BTreeSet::new(),
            });
        if event.meta.turn != lane.turn && matches!(lane.state, State::Sealed { .. }) {
            lane.state = State::Open;
        }
        lane.turn = event.meta.turn;
        match next(lane, &event.body) {
            Some(state) => lane.state = state,
            None => return refuse(&format!("not in {:?}", lane.state)),
        }
    }
    Ok(())
}

fn next(lane: &mut Lane, body: &EventBody) -> Option<State> {
    match (lane.state, body) {
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
            lane.open.insert(call.tool_use_id.clone());
            Some(State::Tools)
        }
        (State::Tools, EventBody::ApprovalRequested(ask)) => {
            let id = ask.tool_use_id.as_ref()?;
            lane.open.contains(id).then_some(State::Tools)
        }
        (State::Tools, EventBody::ApprovalResolved(_)) => Some(State::Tools),
        (State::Tools, EventBody::ToolResult(result)) => {
            if !lane.open.remove(&result.tool_use_id) {
                return None;
            }
            Some(if lane.open.is_empty() {
                State::Open
            } else {
                State::Tools
            })
        }
        _ => None,
    }
}
