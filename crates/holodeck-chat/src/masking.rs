//! Masks secrets in a stream of events before anything is stored or delivered, even if a secret arrives in pieces.

use std::{collections::HashMap, mem, sync::Arc};

use async_stream::stream;
use futures::StreamExt as _;
use holodeck_backend_api::{
    BackendError, BackendEvent, EventStream, ExecutionResult, Outcome, ProviderFields, ToolResult,
};
use holodeck_model::{ExecutorRecord, RedactedStream, Redactor};
use serde_json::Value;

/// The events of `events` with secrets masked. A piece of text that may be the beginning of a secret is held back until
/// that is clear.
pub fn mask_events<'a>(events: EventStream<'a>, redactor: &Arc<Redactor>) -> EventStream<'a> {
    let mut masking = Masking::new(Arc::clone(redactor));
    let mut events = events;
    Box::pin(stream! {
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    for masked in masking.mask(event) {
                        yield Ok(masked);
                    }
                }
                Err(error) => {
                    for rest in masking.finish_all() {
                        yield Ok(rest);
                    }
                    yield Err(masking.mask_error(error));
                }
            }
        }
    })
}

/// The agent that writes: `None` is the run's own, else the call that started it.
type Agent = Option<String>;

struct Masking {
    redactor: Arc<Redactor>,
    /// The unfinished text of each agent.
    open: HashMap<Agent, Open>,
}

/// The text that an agent is writing.
struct Open {
    kind: Kind,
    text: RedactedStream,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Answer,
    Reasoning,
}

impl Masking {
    fn new(redactor: Arc<Redactor>) -> Self {
        Self {
            redactor,
            open: HashMap::new(),
        }
    }

    fn mask(&mut self, event: BackendEvent) -> Vec<BackendEvent> {
        let ends_all = matches!(event, BackendEvent::End(_));
        let mut masked = if ends_all { self.finish_all() } else { Vec::new() };
        masked.extend(self.mask_of(None, event));
        masked
    }

    fn mask_of(&mut self, agent: Agent, event: BackendEvent) -> Vec<BackendEvent> {
        match event {
            BackendEvent::Text { text } => self.push(agent, Kind::Answer, &text),
            BackendEvent::Thinking { text } => self.push(agent, Kind::Reasoning, &text),
            BackendEvent::Nested {
                parent_call_id,
                event,
            } => {
                let inner = self.mask_of(Some(parent_call_id.clone()), *event);
                inner
                    .into_iter()
                    .map(|event| nested(&parent_call_id, event))
                    .collect()
            }
            // These do not end a text.
            other @ (BackendEvent::Usage(_)
            | BackendEvent::OtherUsage { .. }
            | BackendEvent::Cost { .. }
            | BackendEvent::Paused
            | BackendEvent::Resumed
            | BackendEvent::LimitLifted
            | BackendEvent::Replayed { .. }
            | BackendEvent::NumberOdds(_)) => vec![other],
            mut other => {
                let mut masked: Vec<_> = self.finish(&agent).into_iter().collect();
                self.mask_whole(&mut other);
                masked.push(other);
                masked
            }
        }
    }

    /// Returns the events that may be shown after another piece of a text.
    fn push(&mut self, agent: Agent, kind: Kind, piece: &str) -> Vec<BackendEvent> {
        let mut masked = Vec::new();
        if self.open.get(&agent).is_some_and(|open| open.kind != kind) {
            masked.extend(self.finish(&agent));
        }
        let open = self.open.entry(agent).or_insert_with(|| Open {
            kind,
            text: RedactedStream::new(Arc::clone(&self.redactor)),
        });
        masked.extend(kind.event(open.text.push(piece)));
        masked
    }

    /// Returns the rest of an agent's text that was held back.
    fn finish(&mut self, agent: &Agent) -> Option<BackendEvent> {
        let mut open = self.open.remove(agent)?;
        open.kind.event(open.text.finish())
    }

    /// Returns the rest of all texts that was held back.
    fn finish_all(&mut self) -> Vec<BackendEvent> {
        let rest = mem::take(&mut self.open);
        let events = rest.into_iter().filter_map(|(agent, mut open)| {
            let event = open.kind.event(open.text.finish())?;
            Some(match agent {
                Some(parent) => nested(&parent, event),
                None => event,
            })
        });
        events.collect()
    }

    /// Masks an event that is not a piece of text.
    fn mask_whole(&self, event: &mut BackendEvent) {
        match event {
            BackendEvent::ToolCall(call) => {
                self.value(&mut call.arguments);
                let fields = call.provider_fields.as_deref_mut();
                fields
                    .into_iter()
                    .flat_map(ProviderFields::values_mut)
                    .for_each(|value| self.value(value));
            }
            BackendEvent::ToolResult(result) => self.result(result),
            BackendEvent::ApprovalAsked(ask) => {
                self.value(&mut ask.arguments);
                ask.answer_schema
                    .as_deref_mut()
                    .into_iter()
                    .for_each(|schema| self.value(schema));
                ask.description.iter_mut().for_each(|text| self.text(text));
            }
            BackendEvent::ApprovalDecided(approval) => self.decision(&mut approval.decision),
            BackendEvent::ApprovalAnswered { decision, .. } => self.decision(decision),
            BackendEvent::StructuredOutput(value) => self.value(value),
            BackendEvent::Retrying { cause: text, .. } | BackendEvent::Notice { message: text } => {
                self.text(text);
            }
            BackendEvent::Executed(execution) => self.execution(execution),
            BackendEvent::End(result) => self.whole_result(result),
            _ => {}
        }
    }

    fn execution(&self, execution: &mut ExecutorRecord) {
        let texts = execution
            .reason
            .iter_mut()
            .chain(&mut execution.selection_problem);
        texts.for_each(|text| self.text(text));
    }

    fn whole_result(&self, result: &mut ExecutionResult) {
        if let Some(execution) = &mut result.execution {
            self.execution(execution);
        }
        self.text(&mut result.response);
        result.thinking.iter_mut().for_each(|text| self.text(text));
        result
            .structured_output
            .iter_mut()
            .for_each(|value| self.value(value));
        for call in &mut result.tool_calls {
            self.value(&mut call.arguments);
        }
        for answer in &mut result.tool_results {
            self.result(answer);
        }
        match &mut result.outcome {
            Outcome::Failed { reason }
            | Outcome::Terminated { reason }
            | Outcome::ToolFailed {
                reason: Some(reason), ..
            } => self.text(reason),
            _ => {}
        }
    }

    fn result(&self, result: &mut ToolResult) {
        self.text(&mut result.result);
        result.details.texts_mut().for_each(|text| self.text(text));
    }

    fn decision(&self, decision: &mut holodeck_backend_api::ApprovalDecision) {
        let (arguments, reason) = decision.parts_mut();
        if let Some(value) = arguments {
            self.value(value);
        }
        if let Some(text) = reason {
            self.text(text);
        }
    }

    fn text(&self, text: &mut String) {
        self.redactor.mask_text(text);
    }

    fn value(&self, value: &mut Value) {
        self.redactor.mask_value(value);
    }

    /// An error whose text has a secret is replaced by its masked text.
    fn mask_error(&self, error: BackendError) -> BackendError {
        let mut text = error.to_string();
        if self.redactor.mask_text(&mut text) {
            BackendError::session(text)
        } else {
            error
        }
    }
}

impl Kind {
    fn event(self, text: String) -> Option<BackendEvent> {
        (!text.is_empty()).then(|| match self {
            Self::Answer => BackendEvent::Text { text },
            Self::Reasoning => BackendEvent::Thinking { text },
        })
    }
}

fn nested(parent: &str, event: BackendEvent) -> BackendEvent {
    BackendEvent::Nested {
        parent_call_id: parent.to_owned(),
        event: Box::new(event),
    }
}

#[cfg(test)]
mod tests {
    use futures::stream::iter;
    use holodeck_backend_api::{ToolCall, TurnRequest};
    use holodeck_testkit::ScriptedTurn;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    const SECRET: &str = "hunter2-is-long";

    fn text(text: &str) -> BackendEvent {
        BackendEvent::Text {
            text: text.to_owned(),
        }
    }

    async fn masked(
        events: Vec<Result<BackendEvent, BackendError>>,
    ) -> Vec<Result<BackendEvent, BackendError>> {
        let redactor = Arc::new(Redactor::new([SECRET.to_owned()]));
        mask_events(Box::pin(iter(events)), &redactor).collect().await
    }

    fn texts(events: &[Result<BackendEvent, BackendError>]) -> String {
        let mut all = String::new();
        for event in events {
            match event {
                Ok(BackendEvent::Text { text }) => all.push_str(text),
                Ok(other) => all.push_str(&serde_json::to_string(other).unwrap()),
                Err(error) => all.push_str(&error.to_string()),
            }
        }
        all
    }

    #[tokio::test]
    async fn a_secret_is_masked_wherever_the_text_is_cut() {
        for cut in 1..SECRET.len() {
            let (begin, end) = SECRET.split_at(cut);
            let events = masked(vec![
                Ok(text("the password is ")),
                Ok(text(begin)),
                Ok(BackendEvent::Usage(holodeck_backend_api::TokenUsage::new(1, 1))),
                Ok(text(end)),
                Ok(text(" today")),
                Err(BackendError::Cancelled),
            ])
            .await;
            let all = texts(&events);
            assert!(!all.contains(SECRET) && all.contains(" today"), "{all}");
        }
    }

    #[tokio::test]
    async fn text_before_the_end_is_not_lost_and_keeps_its_place() {
        let events = masked(vec![
            Ok(text("a word hunter2")),
            Ok(BackendEvent::ToolCall(ToolCall {
                name: "log_in".to_owned(),
                arguments: json!({"password": SECRET}),
                call_id: "c".to_owned(),
                provider_fields: None,
            })),
            Ok(text("half")),
            Err(BackendError::session(format!("refused {SECRET}"))),
        ])
        .await;
        let order: String = events
            .iter()
            .map(|event| match event {
                Ok(BackendEvent::Text { text }) => text.as_str(),
                Ok(BackendEvent::ToolCall(_)) => "|call|",
                Ok(_) => "other",
                Err(_) => "|error",
            })
            .collect();
        assert_eq!(order, "a word hunter2|call|half|error");
        assert!(!texts(&events).contains(SECRET));
    }

    #[tokio::test]
    async fn nothing_of_a_whole_turn_has_a_secret() {
        let turn = ScriptedTurn::nothing()
            .and_thinking(&format!("hm {SECRET}"))
            .and_called("look", json!({"q": SECRET}), &format!("found {SECRET}"))
            .and_text(&format!("It is {SECRET}."));
        let backend = holodeck_testkit::ScriptedBackend::answering(move |_| turn.clone());
        let redactor = Arc::new(Redactor::new([SECRET.to_owned()]));
        let events = holodeck_backend_api::AgentBackend::start(&backend, TurnRequest::new("go"));
        let events: Vec<_> = mask_events(events, &redactor).collect().await;
        assert!(matches!(events.last(), Some(Ok(BackendEvent::End(_)))));
        assert!(!format!("{events:?}").contains(SECRET));
    }
}
