//! The rules of AG-UI, checked by an acceptor of its own on random runs.

use std::collections::{BTreeMap, BTreeSet};

use holodeck_events::{AgUiEvent, AgUiOptions, AgUiRun};
use holodeck_model::events::{AgentEvent, EventBody};
use proptest::{collection::vec, prelude::*};
use serde_json::Value;

use super::{all, interrupts, json, thread};
use crate::{
    property::{tame, wild},
    session::TestSession,
};

/// The state of a thread in a client.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Client {
    /// Ids, owners and texts, in the order of their first start.
    pub(super) texts: Vec<(String, Option<String>, String)>,
    pub(super) reasoning: Vec<(String, Option<String>, String)>,
    /// Ids, names, arguments, messages.
    pub(super) calls: Vec<[String; 4]>,
    /// Ids of messages and calls, results.
    pub(super) results: Vec<[String; 3]>,
}

/// Reports the first rule that a thread breaks.
pub(super) fn client_of(runs: &[Vec<AgUiEvent>]) -> Result<Client, String> {
    let mut client = Client::default();
    let mut finished = BTreeSet::new();
    for (at, run) in runs.iter().enumerate() {
        let mut open = Open {
            finished: std::mem::take(&mut finished),
            ..Open::default()
        };
        for (index, event) in run.iter().enumerate() {
            let event = json(event);
            let place = format!("run {at}, event {index}, {event}");
            let step = open.step(&event, index + 1 == run.len(), &mut client);
            step.map_err(|why| format!("{place}: {why}"))?;
        }
        if !open.is_over {
            return Err(format!("run {at} does not end"));
        }
        finished = open.finished;
        finished.extend(open.closed_subagents);
    }
    Ok(client)
}

#[derive(Default)]
struct Open {
    is_started: bool,
    is_over: bool,
    /// By the family of the events and the id.
    ids: BTreeMap<(String, String), Option<String>>,
    subagents: BTreeSet<String>,
    closed_subagents: BTreeSet<String>,
    /// In earlier runs: what they still write is theirs.
    finished: BTreeSet<String>,
}

impl Open {
    fn step(&mut self, event: &Value, is_last: bool, client: &mut Client) -> Result<(), String> {
        let text = |key: &str| event[key].as_str().map(str::to_owned);
        let kind = text("type").ok_or("no type")?;
        let agent = text("subagentRunId");
        if self.is_started == (kind == "RUN_STARTED") {
            return Err("RUN_STARTED is not the one first event".to_owned());
        }
        self.is_started = true;
        let is_terminal = matches!(kind.as_str(), "RUN_FINISHED" | "RUN_ERROR");
        if is_terminal != is_last {
            return Err("the terminal event is not the one last event".to_owned());
        }
        self.is_over = is_terminal;
        if is_terminal && !(self.ids.is_empty() && self.subagents.is_empty()) {
            return Err(format!("{:?} {:?} are open", self.ids, self.subagents));
        }
        if is_terminal && agent.is_some() {
            return Err("the run has no agent".to_owned());
        }
        if let ("SUBAGENT_STARTED" | "SUBAGENT_FINISHED" | "SUBAGENT_ERROR", Some(agent)) =
            (kind.as_str(), &agent)
        {
            return self.subagent(&kind, agent);
        }
        if let Some(agent) = &agent
            && !self.subagents.contains(agent)
            && !self.closed_subagents.contains(agent)
            && !self.finished.contains(agent)
        {
            return Err("the agent is not started".to_owned());
        }
        let Some((family, step)) = kind.rsplit_once('_') else {
            return Ok(());
        };
        if !family.starts_with("TEXT_MESSAGE") && !family.starts_with("REASONING") && family != "TOOL_CALL" {
            return Ok(());
        }
        let is_call = family == "TOOL_CALL";
        let id = text(if is_call { "toolCallId" } else { "messageId" }).ok_or("no id")?;
        let key = (family.to_owned(), id.clone());
        match step {
            "START" if self.ids.insert(key.clone(), agent.clone()).is_some() => Err("it is open".to_owned()),
            "START" => {
                if is_call {
                    let of = [text("toolCallName"), Some(String::new()), text("parentMessageId")];
                    let [name, args, message] = of.map(Option::unwrap);
                    client.calls.push([id, name, args, message]);
                } else if let Some(list) = client.list(family)
                    && !list.iter().any(|known| known.0 == id)
                {
                    list.push((id, agent, String::new()));
                }
                Ok(())
            }
            "END" => match self.ids.remove(&key) {
                Some(owner) if owner == agent => Ok(()),
                _ => Err("it is not open".to_owned()),
            },
            "CONTENT" | "ARGS" => {
                let delta = text("delta")
                    .filter(|delta| !delta.is_empty())
                    .ok_or("no delta")?;
                if self.ids.get(&key) != Some(&agent) {
                    return Err("it is not open".to_owned());
                }
                if is_call {
                    let calls = client.calls.iter_mut().rev();
                    calls
                        .filter(|call| call[0] == id)
                        .take(1)
                        .for_each(|call| call[2] += &delta);
                } else if let Some(list) = client.list(family) {
                    let known = list.iter_mut().find(|known| known.0 == id).ok_or("unknown")?;
                    known.2 += &delta;
                }
                Ok(())
            }
            "RESULT" => {
                if !client.calls.iter().any(|call| call[0] == id) {
                    return Err("there is no call".to_owned());
                }
                let of = [text("messageId"), Some(id), text("content")];
                client.results.push(of.map(Option::unwrap));
                Ok(())
            }
            _ => Err("a new type".to_owned()),
        }
    }

    fn subagent(&mut self, kind: &str, agent: &str) -> Result<(), String> {
        let is_right = if kind == "SUBAGENT_STARTED" {
            !self.closed_subagents.contains(agent) && self.subagents.insert(agent.to_owned())
        } else {
            self.closed_subagents.insert(agent.to_owned());
            self.subagents.remove(agent)
        };
        is_right.then_some(()).ok_or_else(|| "out of order".to_owned())
    }
}

impl Client {
    fn list(&mut self, family: &str) -> Option<&mut Vec<(String, Option<String>, String)>> {
        match family {
            "TEXT_MESSAGE" => Some(&mut self.texts),
            "REASONING_MESSAGE" => Some(&mut self.reasoning),
            _ => None,
        }
    }
}

/// The contents of the stored events of a kind, of the agents that the client sees.
fn stored(
    events: &[AgentEvent],
    options: AgUiOptions,
    pick: fn(&EventBody) -> Option<String>,
) -> Vec<String> {
    let seen = events
        .iter()
        .filter(|event| options.subagents || event.meta.parent_tool_use_id.is_none());
    let contents = seen.filter_map(|event| pick(&event.body));
    let mut contents: Vec<_> = contents.filter(|text| !text.is_empty()).collect();
    contents.sort();
    contents
}

fn texts(list: &[(String, Option<String>, String)]) -> Vec<String> {
    let mut texts: Vec<_> = list.iter().map(|known| known.2.clone()).collect();
    texts.sort();
    texts
}

fn session(runs: Vec<Vec<crate::backend_events::Emitted>>) -> TestSession {
    let mut session = TestSession::new();
    for emitted in runs {
        session.run("go", emitted);
    }
    session
}

proptest! {
    #[test]
    fn any_run_keeps_the_rules_and_loses_nothing(
        runs in vec(prop_oneof![wild(), tame()], 1..4),
        subagents in any::<bool>(),
        late in 0..5_usize,
    ) {
        let session = session(runs);
        let events = session.events();
        let mut options = AgUiOptions::default();
        options.subagents = subagents;
        let client = client_of(&thread(&events, options, late)).map_err(TestCaseError::fail)?;
        let messages = stored(&events, options, |body| match body {
            EventBody::Message(message) => Some(message.content.clone()),
            _ => None,
        });
        prop_assert_eq!(texts(&client.texts), messages);
        let reasoning = stored(&events, options, |body| match body {
            EventBody::Thinking(thinking) => Some(thinking.content.clone()),
            _ => None,
        });
        prop_assert_eq!(texts(&client.reasoning), reasoning);
        let results = stored(&events, options, |body| match body {
            EventBody::ToolResult(result) => Some(result.tool_use_id.clone()),
            _ => None,
        });
        prop_assert_eq!(client.results.len(), results.len());
        prop_assert_eq!(client.calls.len(), results.len());

        // The same without chunks: texts, ids and owners.
        let replayed = client_of(&thread(&session.pruned(), options, late)).map_err(TestCaseError::fail)?;
        prop_assert_eq!(sorted(replayed), sorted(client));
    }

    #[test]
    fn a_run_that_is_cut_off_anywhere_can_be_failed(emitted in wild(), cut in any::<prop::sample::Index>()) {
        let session = session(vec![emitted]);
        let events = session.events();
        let mut run = AgUiRun::start("s", "ag", all());
        let mut projected = run.project_all(&events[..cut.index(events.len())]);
        let was_over = run.is_over();
        let failed = run.fail("the server stops", "STOPPED");
        prop_assert_eq!(failed.is_empty(), was_over);
        projected.extend(failed);
        prop_assert!(run.is_over());
        client_of(&[projected]).map_err(TestCaseError::fail)?;
        // Nothing follows.
        prop_assert_eq!(run.project_all(&events), vec![]);
        prop_assert_eq!(run.fail("again", "AGAIN"), vec![]);
    }

    #[test]
    fn every_event_reaches_a_client_that_wants_all(emitted in wild()) {
        let session = session(vec![emitted]);
        let events = session.events();
        let mut options = AgUiOptions::default();
        options.events = true;
        let runs = thread(&events, options, 0);
        client_of(&runs).map_err(TestCaseError::fail)?;
        let custom = runs.iter().flatten().filter(|event| json(event)["type"] == "CUSTOM");
        // A question that stays open while another one is answered is asked again.
        let asks = |run: &&Vec<_>| run.last().is_some_and(|end| json(end)["outcome"]["interrupts"].is_array());
        let asked: BTreeSet<String> = runs.iter().filter(asks).flat_map(|run| interrupts(run)).collect();
        let without_type = events.iter().filter(|event| match event.body {
            EventBody::ApprovalRequested(_) | EventBody::ApprovalResolved(_) | EventBody::SessionStart(_) => true,
            _ => event.meta.parent_tool_use_id.is_some(),
        });
        prop_assert_eq!(custom.count() + asked.len(), without_type.count());
    }
}

/// Agents that stream at the same time begin in another order without chunks.
fn sorted(mut client: Client) -> Client {
    client.texts.sort();
    client.reasoning.sort();
    client.calls.sort();
    client.results.sort();
    client
}
