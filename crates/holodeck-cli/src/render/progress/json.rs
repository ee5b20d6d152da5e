use std::io::Write;

use holodeck::runner::{RunEvent, RunSink};
use serde_json::{Value, json};

use crate::terminal::json_line;

/// One line of JSON for each event, as it happens. Its words are a contract: `docs/cli.md`.
pub(super) struct Json<W> {
    out: W,
    to_terminal: bool,
}

impl<W: Write + Send> Json<W> {
    pub(super) fn new(out: W, to_terminal: bool) -> Self {
        Self { out, to_terminal }
    }
}

impl<W: Write + Send> RunSink for Json<W> {
    fn on(&mut self, event: &RunEvent) {
        let Some(value) = told(event) else { return };
        // A reader who leaves stops no run: its journal and its exit code are for others.
        let _ = self.out.write_all(json_line(value, self.to_terminal).as_bytes());
        let _ = self.out.flush();
    }
}

fn told(event: &RunEvent) -> Option<Value> {
    Some(match event {
        RunEvent::Started {
            run_id,
            agent_name,
            model,
            total,
            already,
            concurrency,
            replayed,
        } => json!({
            "event": "started",
            "run_id": run_id,
            "agent_name": agent_name,
            "model": model,
            "total": total,
            "already": already,
            "concurrency": concurrency,
            "replayed": replayed,
        }),
        RunEvent::CaseStarted { index, label } => json!({
            "event": "case_started",
            "index": index,
            "label": label,
        }),
        RunEvent::CaseFinished { finished, result } => json!({
            "event": "case_finished",
            "finished": finished,
            "result": &**result,
        }),
        RunEvent::Notice { message } => json!({"event": "notice", "message": message}),
        RunEvent::Draining { reason, running } => json!({
            "event": "draining",
            "reason": reason,
            "running": running,
        }),
        // The end is told by the command, which knows the files that were written.
        _ => return None,
    })
}
