use std::time::Duration;

use async_stream::try_stream;
use futures::{Stream, StreamExt as _};
use holodeck_backend_api::{BackendError, BackendEvent, ModelDelta, StopReason, ToolCall};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    answer_format::{AnswerFormat, Telling, refuses_format},
    core::Core,
};

/// A longer wait for the next attempt draws a notice.
const NOTICED: Duration = Duration::from_secs(2);

/// A model message being written, and then the whole of it.
pub(crate) enum Writing {
    Event(BackendEvent),
    Whole(Message),
}

/// What one model call came to.
#[derive(Debug, Default)]
pub(crate) struct Message {
    pub(crate) text: String,
    pub(crate) calls: Vec<ToolCall>,
    pub(crate) stop_reason: Option<StopReason>,
}

/// Who asks and how to stop.
#[derive(Clone, Copy)]
pub(crate) struct Asking<'a> {
    /// The tools the model is shown, as they are sent.
    pub(crate) tools: &'a [Value],
    pub(crate) unit: Option<&'a str>,
    pub(crate) cancel: &'a CancellationToken,
}

/// Makes one model call and tells its answer as it is written.
pub(crate) fn write<'a>(
    core: &'a Core,
    conversation: &'a [Value],
    asking: Asking<'a>,
) -> impl Stream<Item = Result<Writing, BackendError>> + Send + 'a {
    try_stream! {
        let mut telling = core.format.as_ref().map(AnswerFormat::telling);
        // A recording keeps only what was answered, so a refusal shows as a miss when it is replayed.
        let mut missed = None;
        let mut message = Message::default();
        'call: loop {
            let request = core.request(conversation, telling, asking.tools, asking.unit);
            let call = core.calls.call(&request, asking.cancel);
            let mut deltas = match until(asking.cancel, call).await? {
                Ok(deltas) => deltas,
                Err(error) => match retold(&error, telling, &mut missed) {
                    Some(next) => {
                        telling = Some(next);
                        continue 'call;
                    }
                    None => Err(core.explained(missed.take().unwrap_or(error)))?,
                },
            };
            let mut begun = false;
            while let Some(delta) = until(asking.cancel, deltas.next()).await? {
                let delta = match delta {
                    Ok(delta) => delta,
                    Err(error) => {
                        let next = if begun { None } else { retold(&error, telling, &mut missed) };
                        if next.is_some() {
                            telling = next;
                            continue 'call;
                        }
                        Err(core.explained(missed.take().unwrap_or(error)))?
                    }
                };
                let waits = matches!(
                    delta,
                    ModelDelta::Paused | ModelDelta::Resumed | ModelDelta::Retrying { .. }
                );
                if !begun && !waits {
                    begun = true;
                    missed = None;
                    if let Some(notice) = settle(core, telling) {
                        yield Writing::Event(BackendEvent::Notice { message: notice });
                    }
                }
                for event in message.take(core, conversation, delta) {
                    yield Writing::Event(event);
                }
                if message.stop_reason.is_some() {
                    yield Writing::Whole(message);
                    return;
                }
            }
            Err(BackendError::ended_early())?;
        }
    }
}

/// Waits, unless the turn is stopped.
pub(crate) async fn until<F: Future>(cancel: &CancellationToken, work: F) -> Result<F::Output, BackendError> {
    cancel
        .run_until_cancelled(work)
        .await
        .ok_or(BackendError::Cancelled)
}

/// Another way to tell the form of the answer, when the one tried was refused.
fn retold(
    error: &BackendError,
    tried: Option<Telling>,
    missed: &mut Option<BackendError>,
) -> Option<Telling> {
    if tried != Some(Telling::Native) {
        return None;
    }
    if matches!(error, BackendError::ReplayMiss { .. }) {
        *missed = Some(error.clone());
        return Some(Telling::Instructed);
    }
    refuses_format(error).then_some(Telling::Instructed)
}

/// Keeps to the way that worked; says so the first time.
fn settle(core: &Core, telling: Option<Telling>) -> Option<String> {
    let format = core.format.as_ref()?;
    if telling != Some(Telling::Instructed) || format.telling() == Telling::Instructed {
        return None;
    }
    format.instruct();
    core.say_once(
        "the endpoint does not take `response_format`; the schema is given to the model as instructions"
            .to_owned(),
    )
}

/// A retry, and a notice of it where the wait would make a person wonder.
fn retrying(cause: String, wait: Duration) -> Vec<BackendEvent> {
    let notice = (wait > NOTICED).then(|| BackendEvent::Notice {
        message: format!(
            "{}; asking again in {} s",
            cause.lines().next().unwrap_or_default(),
            wait.as_secs()
        ),
    });
    let mut events = vec![BackendEvent::Retrying { cause, wait }];
    events.extend(notice);
    events
}

impl Message {
    /// Takes in a delta and tells it as events.
    fn take(&mut self, core: &Core, conversation: &[Value], delta: ModelDelta) -> Vec<BackendEvent> {
        match delta {
            ModelDelta::Paused => vec![BackendEvent::Paused],
            ModelDelta::Resumed => vec![BackendEvent::Resumed],
            ModelDelta::Retrying { cause, wait } => retrying(cause, wait),
            ModelDelta::Reasoning(text) => vec![BackendEvent::Thinking { text }],
            ModelDelta::Text(text) | ModelDelta::Refusal(text) => {
                self.text.push_str(&text);
                vec![BackendEvent::Text { text }]
            }
            ModelDelta::ToolCall(mut call) => {
                call.call_id = self.free_id(conversation, call.call_id);
                self.calls.push(call.clone());
                vec![BackendEvent::ToolCall(call)]
            }
            ModelDelta::Usage(usage) => vec![BackendEvent::Usage(usage)],
            ModelDelta::Finish {
                stop_reason,
                message_id,
                model,
                recorded,
            } => {
                self.stop_reason = Some(stop_reason.clone());
                let replayed = recorded.map(|recorded| BackendEvent::Replayed {
                    latency: recorded.latency,
                });
                let fallback = model.as_deref().and_then(|model| fallback_notice(core, model));
                let notices = fallback.into_iter().chain(unknown_reason(core, &stop_reason));
                let notices = notices.map(|message| BackendEvent::Notice { message });
                let end = BackendEvent::TurnEnd {
                    stop_reason,
                    message_id,
                    model,
                };
                replayed.into_iter().chain(notices).chain([end]).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The id of a call, or one of our own where the server gave none or gave it before. Counted, not random: a
    /// recording must find it again.
    fn free_id(&self, conversation: &[Value], id: String) -> String {
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
        let mut candidates = (1_u32..).map(|number| format!("{}{stem}_{number}", ToolCall::MINTED));
        candidates.find(|id| !used(id)).unwrap_or_default()
    }
}

/// The answer counts, but a reader should know that its end was not understood.
fn unknown_reason(core: &Core, stop_reason: &StopReason) -> Option<String> {
    let StopReason::Other(word) = stop_reason else {
        return None;
    };
    core.say_once(format!(
        "the endpoint ended an answer with the unknown finish_reason `{word}`; the answer is accepted"
    ))
}

/// A verdict about one model must not silently be another one's.
fn fallback_notice(core: &Core, answered: &str) -> Option<String> {
    let fallback = core.fallback_model.as_deref()?;
    // Servers answer with a dated name, and either name may begin the other.
    let own = answered.starts_with(&core.model) && core.model.len() >= fallback.len();
    if fallback == core.model || own || !answered.starts_with(fallback) {
        return None;
    }
    core.say_once(format!(
        "`{}` failed; the fallback model `{fallback}` answered instead",
        core.model
    ))
}
