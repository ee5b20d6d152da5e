//! An agent behind a stream of AG-UI events: the whole conversation goes there, text and tool calls come back.

use std::collections::HashMap;

use async_stream::stream;
use futures::StreamExt as _;
use holodeck_backend_api::{BackendError, BackendEvent, TurnRequest};
use holodeck_http::HttpClient;
use holodeck_model::{AgUiTarget, HttpTarget, Location};
use serde_json::{Value, json};

use crate::{
    asker::{Asker, Piece, Pieces},
    conversation::State,
    http::HttpAsker,
    parts::{Parts, ReportedResult},
    reported,
    template::Question,
};

/// An agent that speaks AG-UI.
pub(crate) struct AgUiAsker {
    http: HttpAsker,
}

impl AgUiAsker {
    pub(crate) fn new(
        config: &AgUiTarget,
        client: HttpClient,
        at: Option<Location>,
    ) -> Result<Self, BackendError> {
        let target = json!({"url": config.url, "side_effects": config.side_effects});
        let mut target: HttpTarget = serde_json::from_value(target)
            .map_err(|error| BackendError::config(format!("`target`: {error}")))?;
        target.headers.clone_from(&config.headers);
        Ok(Self {
            http: HttpAsker::new(&target, client, at)?,
        })
    }
}

/// The `RunAgentInput` of a question.
fn input(question: &Question) -> Value {
    let messages = question.messages.iter().enumerate().map(|(place, message)| {
        json!({
            "id": format!("{}-{place}", question.session_id),
            "role": message.get("role"),
            "content": message.get("content"),
        })
    });
    json!({
        "threadId": question.session_id,
        "runId": format!("{}-run-{}", question.session_id, question.messages.len()),
        "state": {},
        "messages": messages.collect::<Vec<_>>(),
        "tools": [],
        "context": [],
        "forwardedProps": {},
    })
}

/// One run, as far as its events are read.
#[derive(Default)]
struct Run {
    text: String,
    /// The calls in their order: id, name, arguments as they arrive.
    calls: Vec<(String, String, String)>,
    places: HashMap<String, usize>,
    results: Vec<ReportedResult>,
}

/// Whether a run is over.
enum Step {
    Goes,
    Finished,
}

impl Run {
    fn read(&mut self, event: &Value) -> Result<Step, String> {
        let text = |name: &str| {
            let found = event.get(name).and_then(Value::as_str);
            found.map(str::to_owned).ok_or_else(|| {
                format!(
                    "an event {} has no `{name}`",
                    event.get("type").unwrap_or(&Value::Null)
                )
            })
        };
        let kind = event
            .get("type")
            .and_then(Value::as_str)
            .ok_or("an event has no `type`")?;
        match kind {
            "TEXT_MESSAGE_START" => self.text.clear(),
            "TEXT_MESSAGE_CONTENT" => self.text.push_str(&text("delta")?),
            "TEXT_MESSAGE_CHUNK" => self.text.push_str(&text("delta").unwrap_or_default()),
            "TOOL_CALL_START" => {
                // The text before a call is not the answer.
                self.text.clear();
                self.begin(text("toolCallId")?, text("toolCallName")?);
            }
            "TOOL_CALL_CHUNK" => {
                let id = text("toolCallId")?;
                if !self.places.contains_key(&id) {
                    self.text.clear();
                    self.begin(id.clone(), text("toolCallName")?);
                }
                self.argue(&id, &text("delta").unwrap_or_default())?;
            }
            "TOOL_CALL_ARGS" => self.argue(&text("toolCallId")?, &text("delta")?)?,
            "TOOL_CALL_RESULT" => self.results.push(ReportedResult {
                call_id: Some(text("toolCallId")?),
                text: text("content")?,
                is_error: false,
            }),
            "RUN_FINISHED" => {
                let outcome = event.pointer("/outcome/type").or_else(|| event.get("outcome"));
                if outcome.and_then(Value::as_str) == Some("interrupt") {
                    return Err("the agent waits for a person, and a test has none".to_owned());
                }
                return Ok(Step::Finished);
            }
            "RUN_ERROR" => {
                let message = text("message").unwrap_or_else(|_| event.to_string());
                return Err(format!("the target reported an error: {message}"));
            }
            // Steps, states and thoughts are no part of the answer.
            _ => {}
        }
        Ok(Step::Goes)
    }

    fn begin(&mut self, id: String, name: String) {
        self.places.insert(id.clone(), self.calls.len());
        self.calls.push((id, name, String::new()));
    }

    fn argue(&mut self, id: &str, delta: &str) -> Result<(), String> {
        let place = self.places.get(id).copied();
        let call = place.and_then(|place| self.calls.get_mut(place));
        let (_, _, arguments) =
            call.ok_or_else(|| format!("an event names the call `{id}`, which has not begun"))?;
        arguments.push_str(delta);
        Ok(())
    }

    fn finish(self) -> Result<Parts, String> {
        let calls = self.calls.into_iter().map(|(id, name, arguments)| {
            reported::call(&json!({"id": id, "name": name, "arguments": arguments}))
        });
        Ok(Parts {
            text: Some(self.text),
            tool_calls: Some(calls.collect::<Result<_, _>>()?),
            tool_results: Some(self.results),
            ..Parts::default()
        })
    }
}

impl Asker for AgUiAsker {
    fn ask<'a>(&'a self, state: &'a mut State, question: Question, _: &TurnRequest) -> Pieces<'a> {
        stream! {
            let sent = self.http.request_with(&question, &input(&question));
            let request = match sent {
                Ok(request) => request,
                Err(error) => {
                    yield Err(error);
                    return;
                }
            };
            let mut retries = 0;
            let exchange = loop {
                let error = match self.http.send(&request, state).await {
                    Ok(exchange) => break exchange,
                    Err(error) => error,
                };
                let Some(wait) = self.http.wait(retries, &error) else {
                    yield Err(self.http.failure(&error));
                    return;
                };
                retries += 1;
                yield Ok(Piece::Event(BackendEvent::Retrying { cause: error.to_string(), wait }));
                tokio::time::sleep(wait).await;
            };
            if !exchange.is_event_stream() {
                yield Err(self.http.no_stream(exchange, &request).await);
                return;
            }
            let mut events = exchange.events();
            let mut run = Run::default();
            while let Some(event) = events.next().await {
                let data = match event {
                    Ok(event) => event.data,
                    Err(error) => {
                        yield Err(self.http.failure(&error));
                        return;
                    }
                };
                if data.trim().is_empty() {
                    continue;
                }
                let read = serde_json::from_str::<Value>(&data)
                    .map_err(|error| format!("an event is no JSON: {error}"))
                    .and_then(|event| run.read(&event));
                match read {
                    Ok(Step::Goes) => {}
                    Ok(Step::Finished) => {
                        let parts = run.finish();
                        yield parts
                            .map(|parts| Piece::Done(Box::new(parts)))
                            .map_err(|problem| self.http.unfit(&problem, data.as_bytes(), &request));
                        return;
                    }
                    Err(problem) => {
                        yield Err(self.http.unfit(&problem, data.as_bytes(), &request));
                        return;
                    }
                }
            }
            yield Err(BackendError::ended_early_by("the stream of the target has no RUN_FINISHED"));
        }
        .boxed()
    }

    fn sends_history(&self) -> bool {
        true
    }

    fn names_session(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(events: &[Value]) -> Result<Parts, String> {
        let mut run = Run::default();
        for event in events {
            if let Step::Finished = run.read(event)? {
                return run.finish();
            }
        }
        Err("not finished".to_owned())
    }

    #[test]
    fn the_last_message_is_the_answer_and_calls_are_whole() {
        let parts = read(&[
            json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r"}),
            json!({"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "assistant"}),
            json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "let me look"}),
            json!({"type": "TEXT_MESSAGE_END", "messageId": "m1"}),
            json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "look_up"}),
            json!({"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "{\"id\":"}),
            json!({"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": " 7}"}),
            json!({"type": "TOOL_CALL_END", "toolCallId": "c"}),
            json!({"type": "TOOL_CALL_RESULT", "messageId": "m2", "toolCallId": "c", "content": "found"}),
            json!({"type": "TEXT_MESSAGE_START", "messageId": "m3", "role": "assistant"}),
            json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m3", "delta": "To"}),
            json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m3", "delta": "morrow."}),
            json!({"type": "STATE_DELTA", "delta": []}),
            json!({"type": "RUN_FINISHED"}),
        ])
        .unwrap();
        assert_eq!(parts.text.as_deref(), Some("Tomorrow."));
        let calls = parts.tool_calls.unwrap();
        assert_eq!((calls.len(), &calls[0].call.arguments), (1, &json!({"id": 7})));
        assert_eq!(parts.tool_results.unwrap()[0].text, "found");
    }

    #[test]
    fn what_is_no_run_is_an_error() {
        for events in [
            vec![json!({"type": "RUN_ERROR", "message": "down"})],
            vec![json!({"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "{}"})],
            vec![json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m"})],
            vec![json!({"delta": "x"})],
            vec![json!({"type": "RUN_FINISHED", "outcome": {"type": "interrupt"}})],
            vec![
                json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f"}),
                json!({"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "{\"id\":"}),
                json!({"type": "RUN_FINISHED"}),
            ],
            vec![json!({"type": "RUN_STARTED"})],
        ] {
            assert!(read(&events).is_err(), "{events:?}");
        }
    }
}
