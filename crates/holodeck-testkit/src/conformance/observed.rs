//! Observes a turn completely, so that checks can compare events with the result.

use std::sync::Arc;

use futures::StreamExt as _;
use holodeck_backend_api::{
    AgentBackend, BackendError, BackendEvent, EventStream, ExecutionResult, NoTools, ResultFold, ToolResult,
};

use super::{Outcome, Prepared, Scenario, Subject, same};
use crate::ScriptedTools;

/// Everything that a turn reported.
#[derive(Debug)]
pub(super) struct ObservedTurn {
    pub(super) events: Vec<BackendEvent>,
    pub(super) error: Option<BackendError>,
}

pub(super) async fn observe(mut stream: EventStream<'_>) -> ObservedTurn {
    let mut observed = ObservedTurn {
        events: Vec::new(),
        error: None,
    };
    while let Some(event) = stream.next().await {
        match event {
            Ok(event) => observed.events.push(event),
            Err(error) => {
                observed.error = Some(error);
                break;
            }
        }
    }
    observed
}

impl ObservedTurn {
    pub(super) fn result(&self) -> Result<&ExecutionResult, String> {
        match (self.events.last(), &self.error) {
            (Some(BackendEvent::End(result)), None) => Ok(result),
            (last, error) => Err(format!("the turn ends with {last:?} and error {error:?}")),
        }
    }

    pub(super) fn text(&self) -> String {
        let texts = self.events.iter().filter_map(|event| match event {
            BackendEvent::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    pub(super) fn results(&self) -> Vec<&ToolResult> {
        let results = self.events.iter().filter_map(|event| match event {
            BackendEvent::ToolResult(result) => Some(result),
            _ => None,
        });
        results.collect()
    }

    /// The kinds of events, repetitions as one.
    pub(super) fn kinds(&self) -> Vec<&'static str> {
        let kinds = self.events.iter().filter_map(|event| match event {
            BackendEvent::Thinking { .. } => Some("thinking"),
            BackendEvent::Text { .. } => Some("text"),
            BackendEvent::ToolCall(_) => Some("tool call"),
            BackendEvent::ToolResult(_) => Some("tool result"),
            BackendEvent::Usage(_) => Some("usage"),
            BackendEvent::TurnEnd { .. } => Some("turn end"),
            BackendEvent::StructuredOutput(_) => Some("structured output"),
            BackendEvent::End(_) => Some("end"),
            _ => None,
        });
        let mut kinds: Vec<_> = kinds.collect();
        kinds.dedup();
        kinds
    }

    /// The result is what the events fold to.
    pub(super) fn folds(&self) -> Outcome {
        let result = self.result()?;
        let mut fold = ResultFold::new();
        for event in &self.events {
            fold.observe(event);
        }
        same(
            "the fold of the events",
            &fold.finish(result.outcome.clone()),
            result,
        )
    }
}

/// A backend for `scenario` without tools.
pub(super) async fn plain(subject: &dyn Subject, scenario: Scenario) -> Prepared {
    subject.backend(scenario, Arc::new(NoTools)).await
}

/// A backend for `scenario` with the testkit's tools.
pub(super) async fn equipped(subject: &dyn Subject, scenario: Scenario) -> (Prepared, Arc<ScriptedTools>) {
    let tools = Arc::new(ScriptedTools::default());
    (subject.backend(scenario, Arc::clone(&tools) as _).await, tools)
}

/// One turn of `scenario`.
pub(super) async fn ask(backend: &dyn AgentBackend, message: &str) -> ObservedTurn {
    observe(backend.start(holodeck_backend_api::TurnRequest::new(message))).await
}
