//! Makes one model call and turns its deltas into the events and the message of an answer.

use std::time::Duration;

use async_stream::try_stream;
use futures::{Stream, StreamExt as _};
use holodeck_backend_api::{
    Adaptation, BackendError, BackendEvent, ModelDelta, RecordedCall, Redactions, StopFamily, StopReason,
    ToolCall,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::core::{CallContext, Core};

/// A longer wait for the next attempt is reported as a notice.
const NOTICE_WAIT: Duration = Duration::from_secs(2);

/// An event of a streamed message, or the whole message at its end.
pub(crate) enum MessageStep {
    Event(BackendEvent),
    End(Message),
}

/// The result of one model call.
#[derive(Debug, Default)]
pub(crate) struct Message {
    pub(crate) text: String,
    pub(crate) calls: Vec<ToolCall>,
    pub(crate) stop_reason: Option<StopReason>,
}

/// Makes one model call and streams its answer.
pub(crate) fn call_model<'a>(
    core: &'a Core,
    conversation: &'a [Value],
    context: CallContext<'a>,
) -> impl Stream<Item = Result<MessageStep, BackendError>> + Send + 'a {
    try_stream! {
        let mut message = Message::default();
        let request = core.request(conversation, &context);
        let call = core.calls.call(&request, context.cancel);
        let deltas = unless_cancelled(context.cancel, call).await?;
        let mut deltas = deltas.map_err(|error| core.explain(error))?;
        while let Some(delta) = unless_cancelled(context.cancel, deltas.next()).await? {
            let delta = delta.map_err(|error| core.explain(error))?;
            for event in message.apply(core, conversation, delta) {
                yield MessageStep::Event(event);
            }
            if message.stop_reason.is_some() {
                yield MessageStep::End(message);
                return;
            }
        }
        Err(BackendError::ended_early())?;
    }
}

/// Waits for `work` unless the turn is cancelled.
pub(crate) async fn unless_cancelled<F: Future>(
    cancel: &CancellationToken,
    work: F,
) -> Result<F::Output, BackendError> {
    cancel
        .run_until_cancelled(work)
        .await
        .ok_or(BackendError::Cancelled)
}

/// The events of a retry, with a notice if the wait is long.
fn retry_events(cause: String, wait: Duration) -> Vec<BackendEvent> {
    let notice = (wait > NOTICE_WAIT).then(|| BackendEvent::Notice {
        message: format!(
            "{}; retrying in {} s",
            cause.lines().next().unwrap_or_default(),
            wait.as_secs()
        ),
    });
    let mut events = vec![BackendEvent::Retrying { cause, wait }];
    events.extend(notice);
    events
}

impl Message {
    /// Adds a delta to the message and returns its events.
    fn apply(&mut self, core: &Core, conversation: &[Value], delta: ModelDelta) -> Vec<BackendEvent> {
        match delta {
            ModelDelta::Paused => vec![BackendEvent::Paused],
            ModelDelta::Resumed => vec![BackendEvent::Resumed],
            ModelDelta::Retrying { cause, wait } => retry_events(cause, wait),
            ModelDelta::Adapted(Adaptation { note: notice, .. }) | ModelDelta::Notice(notice) => {
                let notice = core.notice_once(notice);
                notice
                    .map(|message| BackendEvent::Notice { message })
                    .into_iter()
                    .collect()
            }
            ModelDelta::Reasoning(text) => vec![BackendEvent::Thinking { text }],
            ModelDelta::Text(text) | ModelDelta::Refusal(text) => {
                self.text.push_str(&text);
                vec![BackendEvent::Text { text }]
            }
            ModelDelta::TextWasReasoning => self.turn_text_into_reasoning(core),
            ModelDelta::ToolCall(mut call) => {
                call.call_id = self.unique_id(conversation, call.call_id);
                self.calls.push(call.clone());
                vec![BackendEvent::ToolCall(call)]
            }
            ModelDelta::NumberOdds(odds) => vec![BackendEvent::NumberOdds(odds)],
            ModelDelta::Usage(usage) => vec![BackendEvent::Usage(usage)],
            ModelDelta::Finish {
                stop_reason,
                message_id,
                model,
                recorded,
            } => {
                self.stop_reason = Some(stop_reason.clone());
                let replay = recorded.map(|recorded| self.replay_event(&recorded));
                let fallback = model.as_deref().and_then(|model| fallback_notice(core, model));
                let notices = fallback.into_iter().chain(reason_notice(core, &stop_reason));
                let notices = notices.map(|message| BackendEvent::Notice { message });
                let end = BackendEvent::TurnEnd {
                    stop_reason,
                    message_id,
                    model,
                };
                replay.into_iter().chain(notices).chain([end]).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Ends the message of the text, as if the model had given it up: the same text follows as reasoning.
    fn turn_text_into_reasoning(&mut self, core: &Core) -> Vec<BackendEvent> {
        let text = std::mem::take(&mut self.text);
        if text.is_empty() {
            return Vec::new();
        }
        let notice = core.notice_once(
            "the endpoint sends reasoning as text and ends it with `</think>`: the text before it is not the answer"
                .to_owned(),
        );
        let end = BackendEvent::TurnEnd {
            stop_reason: StopReason::aborted(),
            message_id: None,
            model: None,
        };
        let notice = notice.map(|message| BackendEvent::Notice { message });
        let reasoning = BackendEvent::Thinking { text };
        [end].into_iter().chain(notice).chain([reasoning]).collect()
    }

    fn replay_event(&self, recorded: &RecordedCall) -> BackendEvent {
        let calls = recorded.redacted_calls.iter();
        let calls = calls.filter_map(|index| self.calls.get(*index));
        BackendEvent::Replayed {
            latency: recorded.latency,
            redacted: Redactions {
                answer: recorded.redacted,
                arguments: calls.map(|call| call.call_id.clone()).collect(),
                ..Redactions::default()
            },
        }
    }

    /// The id of a call, or a generated one if the server sent none or a duplicate. Generated ids are numbered, not
    /// random, because a recording must match them.
    fn unique_id(&self, conversation: &[Value], id: String) -> String {
        let used = |id: &str| {
            let earlier = conversation
                .iter()
                .filter_map(|message| message.get("tool_calls")?.as_array());
            let mut earlier = earlier.flatten().filter_map(|call| call.get("id")?.as_str());
            earlier.any(|used| used == id) || self.calls.iter().any(|call| call.call_id == id)
        };
        if !id.is_empty() && !used(&id) {
            return id;
        }
        let stem = if id.is_empty() { "call" } else { id.as_str() };
        let mut candidates =
            (1_u32..).map(|number| format!("{}{stem}_{number}", ToolCall::GENERATED_ID_PREFIX));
        candidates.find(|id| !used(id)).unwrap_or_default()
    }
}

/// An unknown or missing reason must be visible.
fn reason_notice(core: &Core, stop_reason: &StopReason) -> Option<String> {
    if stop_reason.is_not_reported() {
        let notice = "the endpoint sent no finish_reason; the answer counts as complete";
        return core.notice_once(notice.to_owned());
    }
    let is_unknown = stop_reason.family() == StopFamily::Unknown;
    let notice = || {
        let notice = "the endpoint ended an answer with the unknown finish_reason";
        format!("{notice} `{stop_reason}`; the answer counts as truncated")
    };
    is_unknown
        .then(notice)
        .and_then(|notice| core.notice_once(notice))
}

/// A verdict must not silently be about another model.
fn fallback_notice(core: &Core, answered: &str) -> Option<String> {
    let fallback = core.fallback_model.as_deref()?;
    // Servers answer with a dated name, and each of the two names may be a prefix of the other.
    let own = answered.starts_with(&core.model) && core.model.len() >= fallback.len();
    if fallback == core.model || own || !answered.starts_with(fallback) {
        return None;
    }
    core.notice_once(format!(
        "`{}` failed; the fallback model `{fallback}` answered instead",
        core.model
    ))
}
