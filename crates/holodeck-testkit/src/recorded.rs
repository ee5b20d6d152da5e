//! Records the turns of a backend under test and checks the record against the event contract.

use std::{collections::BTreeSet, sync::Arc};

use holodeck_backend_api::{BackendError, BackendEvent, ExecutionResult, HistoryItem};
use holodeck_events::{
    AgUiOptions, AgUiRun, Clock, Draft, EventStore as _, Ids, MemoryStore, NewRun, RandomIds, RunRecorder,
    StreamChecker, SystemClock, View, execution_result, history,
};
use holodeck_model::events::{AgentEvent, EventBody, EventClass};
use serde_json::Value;

/// A recorded turn of a backend.
pub struct RecordedTurn {
    recorder: RunRecorder,
    store: MemoryStore,
    events: Vec<AgentEvent>,
    problems: Vec<String>,
}

impl RecordedTurn {
    /// Records what a backend reported.
    pub async fn of(items: impl IntoIterator<Item = Result<BackendEvent, BackendError>>) -> Self {
        let mut turn = Self::begin("go").await;
        for item in items {
            turn.add(&item).await;
        }
        turn.over().await;
        turn
    }

    /// The record of a turn that answers `message`.
    pub(crate) async fn begin(message: &str) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let ids: Arc<dyn Ids> = Arc::new(RandomIds);
        let (recorder, first) = RunRecorder::open(NewRun::new("session", message), clock, ids);
        let mut turn = Self {
            recorder,
            store: MemoryStore::new(),
            events: Vec::new(),
            problems: Vec::new(),
        };
        match turn.store.open_run(first).await {
            Ok(first) => turn.events.push(first.event().clone()),
            Err(error) => turn.problems.push(error.to_string()),
        }
        turn
    }

    pub(crate) async fn add(&mut self, item: &Result<BackendEvent, BackendError>) {
        let drafts = match item {
            Ok(event) => self.recorder.observe(event),
            Err(error) => self.recorder.fail(error),
        };
        self.keep(drafts).await;
    }

    /// Ends the record.
    pub(crate) async fn over(&mut self) {
        if self.recorder.result().is_none() {
            let drafts = self.recorder.fail(&BackendError::no_result());
            self.keep(drafts).await;
        }
    }

    async fn keep(&mut self, drafts: Vec<Draft>) {
        match self.store.append(drafts).await {
            Ok(stored) => self
                .events
                .extend(stored.iter().map(|event| event.event().clone())),
            Err(error) => self.problems.push(error.to_string()),
        }
    }

    /// All events.
    pub fn events(&self) -> &[AgentEvent] {
        &self.events
    }

    /// The events that remain when chunks are pruned.
    pub fn kept(&self) -> impl Iterator<Item = &AgentEvent> + Clone {
        let kept = |event: &&AgentEvent| event.body.class() != Some(EventClass::Journaled);
        self.events.iter().filter(kept)
    }

    /// The result of the turn, once it has ended.
    pub fn result(&self) -> Option<&ExecutionResult> {
        self.recorder.result()
    }

    /// The part of the turn that remains when its conversation is opened from the record.
    pub fn history(&self) -> Vec<HistoryItem> {
        history(self.kept())
    }

    /// The events that an AG-UI client receives that reads the record at once, with nested agents or without.
    pub fn agui_events(&self, subagents: bool) -> Vec<Value> {
        let mut options = AgUiOptions::default();
        options.subagents = subagents;
        let events = AgUiRun::start("thread", "run", options).project_all(&self.events);
        let values = events.iter().map(serde_json::to_value);
        values.collect::<Result<_, _>>().unwrap_or_default()
    }

    /// The types of the events, repetitions as one.
    pub fn kinds(&self) -> Vec<&str> {
        let mut kinds: Vec<_> = self.events.iter().map(|event| event.body.kind()).collect();
        kinds.dedup();
        kinds
    }

    /// The problems of the record: broken invariants, events that the recorder had to leave out, or another result than
    /// the backend's own. With `tool_ids`, tool calls must have these ids, or ids made by the backend.
    pub fn problems(&self, tool_ids: Option<&BTreeSet<String>>) -> Vec<String> {
        let over = self.result().is_some();
        let check = |view, events: &mut dyn Iterator<Item = &AgentEvent>| {
            let mut checker = StreamChecker::new(view);
            if let Some(ids) = tool_ids {
                checker = checker.with_tool_ids(ids.iter().cloned());
            }
            events.for_each(|event| checker.observe(event));
            if over {
                checker.finish()
            } else {
                checker.finish_prefix()
            }
        };
        let mut problems = self.problems.clone();
        let live = check(View::Live, &mut self.events.iter());
        let replayed = check(View::Replay, &mut self.kept());
        problems.extend(live.iter().chain(&replayed).map(ToString::to_string));
        let ignored = self.recorder.trajectory().ignored();
        problems.extend(ignored.map(|ignored| format!("the recorder left out: {ignored:?}")));
        let folded = execution_result(self.kept());
        let mut direct = self.result().cloned();
        if let Some(direct) = &mut direct {
            direct.finish_reason = None;
        }
        if over && folded != direct {
            problems.push(format!("the record folds to {folded:?} instead of {direct:?}"));
        }
        problems
    }

    /// Panics if there are [`problems`](Self::problems).
    pub fn assert(&self) {
        let problems = self.problems(None);
        assert!(
            problems.is_empty(),
            "{}\n{:#?}",
            problems.join("\n"),
            self.lines()
        );
    }

    /// Each kept event on a line: its type and relevant fields.
    pub fn lines(&self) -> Vec<String> {
        self.kept().map(line).collect()
    }
}

fn line(event: &AgentEvent) -> String {
    let what = match &event.body {
        EventBody::Thinking(thinking) => {
            let signed = if thinking.signature.is_some() {
                " signed"
            } else {
                ""
            };
            format!("{:?}{signed}", thinking.content)
        }
        EventBody::Message(message) => {
            let cut = if message.partial { " partial" } else { "" };
            format!("{} {:?}{cut}", message.stop_reason, message.content)
        }
        EventBody::ToolUse(call) => {
            let minted = if call.id_source.is_some() { " minted" } else { "" };
            format!("{} {} {}{minted}", call.tool_use_id, call.tool_name, call.args)
        }
        EventBody::ToolResult(result) => {
            let how = match (result.synthetic, result.success) {
                (true, _) => "closed",
                (false, true) => "ok",
                (false, false) => "failed",
            };
            format!("{} {how} {}", result.tool_use_id, result.result)
        }
        EventBody::ApprovalResolved(answer) => answer.approved.to_string(),
        EventBody::Complete(end) => end.reason.to_string(),
        EventBody::Error(error) => format!("{}: {}", error.code, error.error),
        _ => String::new(),
    };
    let nested = match &event.meta.parent_tool_use_id {
        Some(id) => format!(" under {id}"),
        None => String::new(),
    };
    format!("{} {what}{nested}", event.body.kind())
        .trim_end()
        .to_owned()
}
