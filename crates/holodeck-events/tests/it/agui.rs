//! Runs as AG-UI streams.

use std::collections::BTreeMap;

use holodeck_events::{AgUiEvent, AgUiOptions, AgUiRun};
use holodeck_events::{ApprovalAnswer, Resolution};
use holodeck_model::events::{AgentEvent, EventBody};
use serde_json::Value;

mod golden;
mod input;
mod official;
mod rules;

/// The options of clients since 1.0.
fn all() -> AgUiOptions {
    let mut options = AgUiOptions::default();
    options.subagents = true;
    options
}

fn approve(ask: &AgentEvent) -> Option<ApprovalAnswer> {
    match &ask.body {
        EventBody::ApprovalRequested(ask) => {
            Some(ApprovalAnswer::new(ask.approval_id.as_str(), Resolution::Approve))
        }
        _ => None,
    }
}

/// A session as a client sees it that answers each question: one list per AG-UI run. The events arrive one by one; after
/// a question, the client comes back when `late` further events are recorded, and at least when it is answered.
fn thread(events: &[AgentEvent], options: AgUiOptions, late: usize) -> Vec<Vec<AgUiEvent>> {
    let mut runs = Vec::new();
    let mut rest = 0..events.len();
    let new_run = |runs: &Vec<_>| AgUiRun::start("s", format!("ag-{}", runs.len()), options);
    let mut run = new_run(&runs);
    let mut projected = Vec::new();
    while let Some(at) = rest.next() {
        projected.extend(run.project(&events[at]));
        while run.is_interrupted() {
            runs.push(std::mem::take(&mut projected));
            let answer = approve(&events[rest.start - 1]).expect("a question interrupted");
            let id = answer.approval_id.clone();
            let is_answer = |event: &AgentEvent| match &event.body {
                EventBody::ApprovalResolved(resolved) => resolved.approval_id == id,
                _ => false,
            };
            let answered = events.iter().position(is_answer).expect("an answer");
            let end_of_run = events[rest.start..]
                .iter()
                .position(|event| event.body.is_terminal());
            let end_of_run = rest.start + end_of_run.expect("the run ends");
            let seen = (answered + late).min(end_of_run);
            let run_id = format!("ag-{}", runs.len());
            let recorded = &events[..=seen];
            (run, projected) = AgUiRun::resume("s", run_id, options, recorded, &[answer]).unwrap();
            if run.is_interrupted() {
                // The question that interrupted is among them.
                let ids = interrupts(&projected);
                let asked =
                    |event: &AgentEvent| approve(event).is_some_and(|ask| ids.contains(&ask.approval_id));
                rest.start = events.iter().rposition(asked).unwrap() + 1;
            } else {
                rest.start = seen + 1;
            }
        }
        if run.is_over() {
            runs.push(std::mem::take(&mut projected));
            run = new_run(&runs);
        }
    }
    assert_eq!(projected, []);
    runs
}

fn interrupts(events: &[AgUiEvent]) -> Vec<String> {
    let last = json(events.last().unwrap());
    let interrupts = last["outcome"]["interrupts"].as_array().unwrap().iter();
    interrupts
        .map(|one| one["id"].as_str().unwrap().to_owned())
        .collect()
}

fn json(event: &AgUiEvent) -> Value {
    serde_json::to_value(event).unwrap()
}

/// One line per event, without ids of runs and times.
fn lines(events: &[AgUiEvent], run: &str) -> String {
    let line = |event: &AgUiEvent| {
        let mut fields: BTreeMap<String, Value> = serde_json::from_value(json(event)).unwrap();
        let kind = fields.remove("type").unwrap();
        for noise in ["timestamp", "role", "threadId", "protocolVersion"] {
            fields.remove(noise);
        }
        let fields = serde_json::to_string(&fields).unwrap();
        format!("{} {fields}", kind.as_str().unwrap()).replace(run, "R")
    };
    events.iter().map(line).collect::<Vec<_>>().join("\n")
}
