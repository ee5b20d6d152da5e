//! Progress as JSON events for programs.

use std::io::Write;

use holodeck::{
    reports::test_result,
    runner::{RunEvent, RunSink},
};
use serde_json::{Value, json};

use crate::terminal::{add_combination, json_line};

/// Writes one line of JSON for each event. The field names are a contract: `docs/cli.md`.
pub(super) struct Json<W> {
    out: W,
    to_terminal: bool,
    combination: Option<Value>,
}

impl<W: Write + Send> Json<W> {
    pub(super) fn new(out: W, to_terminal: bool, combination: Option<Value>) -> Self {
        Self {
            out,
            to_terminal,
            combination,
        }
    }
}

impl<W: Write + Send> RunSink for Json<W> {
    fn on(&mut self, event: &RunEvent) {
        let Some(mut value) = event_json(event) else {
            return;
        };
        add_combination(&mut value, self.combination.as_ref());
        // A closed stdout must not stop the run: its journal and its exit code are still needed.
        let _ = self.out.write_all(json_line(value, self.to_terminal).as_bytes());
        let _ = self.out.flush();
    }
}

fn event_json(event: &RunEvent) -> Option<Value> {
    Some(match event {
        RunEvent::Started {
            run_id,
            agent_name,
            model,
            total,
            trials,
            already,
            concurrency,
            replayed,
        } => json!({
            "event": "started",
            "version": env!("CARGO_PKG_VERSION"),
            "run_id": run_id,
            "agent_name": agent_name,
            "model": model,
            "total": total,
            "trials": trials,
            "already": already,
            "concurrency": concurrency,
            "replayed": replayed,
        }),
        RunEvent::CaseStarted { index, label, trial } => {
            let mut event = json!({
                "event": "case_started",
                "index": index,
                "label": label,
            });
            if let (Some(trial), Some(fields)) = (trial, event.as_object_mut()) {
                fields.insert("trial".to_owned(), json!(trial));
            }
            event
        }
        RunEvent::CaseAnswered { index, trial } => {
            let mut event = json!({"event": "case_answered", "index": index});
            if let (Some(trial), Some(fields)) = (trial, event.as_object_mut()) {
                fields.insert("trial".to_owned(), json!(trial));
            }
            event
        }
        RunEvent::TrialFinished { index, trial, state } => json!({
            "event": "trial_finished",
            "index": index,
            "trial": trial,
            "state": state,
        }),
        RunEvent::CaseFinished { finished, case } => json!({
            "event": "case_finished",
            "finished": finished,
            "result": test_result(case),
        }),
        RunEvent::Notice { message } => json!({"event": "notice", "message": message}),
        RunEvent::Draining {
            reason,
            running,
            judging,
        } => json!({
            "event": "draining",
            "reason": reason,
            "running": running,
            "judging": judging,
        }),
        // The command writes the last event, as it has the list of written files.
        _ => return None,
    })
}
