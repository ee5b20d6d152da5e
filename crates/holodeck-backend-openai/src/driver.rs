//! Sends requests over HTTP and decodes the streamed answer, with retries, pacing and the fallback model.
//!
//! The only part of this crate that uses the network; a recording replaces it.

mod call;
mod reading;
mod sent;

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use async_stream::{stream, try_stream};
use async_trait::async_trait;
use futures::{Stream, StreamExt as _};
use holodeck_backend_api::{
    BackendError, ModelCalls, ModelDelta, ModelRequest, ModelStream, RequestBody, StopReason,
};
use holodeck_http::{
    Beginning, CallOptions, HttpClient, HttpError, Pacer, Response, RetryPolicy, decode_sse,
};
use holodeck_model::{Env, Location, ModelConfig, ReasoningInContent, ResolvedAgent};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use self::{
    call::{Call, Failed, Next},
    reading::{Event, Piece, Reading, Source},
};
use crate::{
    Endpoint,
    assemble::{Assembler, Tags},
    dialect::Learnt,
    failure::{self, ErrorDetails},
    json::parse_shown,
    wire::{Chunk, Object},
};

/// Sends model calls to an endpoint over HTTP.
#[derive(Clone, Debug)]
pub struct HttpModelCalls(Arc<Driver>);

/// How model calls are sent.
#[derive(Clone, Debug, Default)]
pub struct DriverOptions {
    /// When to resend a call whose response has not started.
    pub retry: RetryPolicy,
    /// Maximum number of requests per minute.
    pub rpm: Option<NonZeroU32>,
    /// The model to try once when the first one answers 429 or 5xx.
    pub fallback_model: Option<String>,
    /// Whether reasoning in the content is separated from the answer.
    pub reasoning_in_content: ReasoningInContent,
}

impl DriverOptions {
    /// The options in the agent's YAML.
    pub fn of_agent(agent: &ResolvedAgent, model: &ModelConfig) -> Self {
        let openai = agent.config.openai.as_ref();
        Self {
            retry: RetryPolicy::default(),
            rpm: model.rpm.and_then(NonZeroU32::new),
            fallback_model: openai.and_then(|openai| openai.fallback_model.clone()),
            reasoning_in_content: model.reasoning_in_content.unwrap_or_default(),
        }
    }
}

#[derive(Debug)]
struct Driver {
    client: HttpClient,
    endpoint: Endpoint,
    retry: RetryPolicy,
    pacer: Option<Pacer>,
    fallback_model: Option<String>,
    /// The endpoint was reached before, so a refused connection may be temporary.
    reached: AtomicBool,
    /// The forms of requests that it accepts.
    learnt: Learnt,
    reasoning_in_content: ReasoningInContent,
    /// The model ended reasoning that it had not begun, so the beginning of its next answers may be reasoning too.
    ends_reasoning_only: AtomicBool,
}

impl HttpModelCalls {
    /// Sends calls to `endpoint` through `client`.
    pub fn new(client: HttpClient, endpoint: Endpoint, options: DriverOptions) -> Self {
        Self(Arc::new(Driver {
            client,
            endpoint,
            retry: options.retry,
            pacer: options.rpm.map(Pacer::per_minute),
            fallback_model: options.fallback_model,
            reached: AtomicBool::new(false),
            learnt: Learnt::default(),
            reasoning_in_content: options.reasoning_in_content,
            ends_reasoning_only: AtomicBool::new(false),
        }))
    }

    /// Sends the calls of `agent` to `model`, with endpoint and key from the YAML and `env`. `block` and `at` are as for
    /// [`Endpoint::resolve`].
    pub fn for_agent(
        client: HttpClient,
        agent: &ResolvedAgent,
        model: &ModelConfig,
        block: &str,
        at: Option<&Location>,
        env: &Env,
    ) -> Result<Self, BackendError> {
        let endpoint = Endpoint::resolve(model, block, at, env)?;
        Ok(Self::new(client, endpoint, DriverOptions::of_agent(agent, model)))
    }

    /// Decodes a streamed answer; the target for fuzzing.
    #[doc(hidden)]
    pub fn decode(&self, answer: &[u8]) -> Result<Vec<ModelDelta>, BackendError> {
        let mut assembler = Assembler::new(self.0.reasoning_in_content, false, Tags::default());
        let mut deltas = Vec::new();
        for event in decode_sse(answer) {
            match self.0.parse_event(&Piece::of(event))? {
                Event::Chunk(chunk) => assembler.push(*chunk, &mut deltas),
                Event::Nothing => {}
                Event::Noise => assembler.push_noise(),
                Event::Done => {
                    assembler.mark_done();
                    break;
                }
            }
        }
        deltas.extend(assembler.finish()?);
        Ok(deltas)
    }

    /// The endpoint that receives the calls.
    pub fn endpoint(&self) -> &Endpoint {
        &self.0.endpoint
    }
}

#[async_trait]
impl ModelCalls for HttpModelCalls {
    async fn call(
        &self,
        request: &ModelRequest,
        cancel: &CancellationToken,
    ) -> Result<ModelStream, BackendError> {
        // Boxed because it is large and the surrounding future is moved.
        let mut deltas = Box::pin(stream_answer(Arc::clone(&self.0), request.clone()));
        let cancel = cancel.clone();
        Ok(Box::pin(stream! {
            loop {
                match cancel.run_until_cancelled(deltas.next()).await {
                    Some(Some(delta)) => yield delta,
                    Some(None) => break,
                    None => {
                        yield Err(BackendError::Cancelled);
                        break;
                    }
                }
            }
        }))
    }
}

/// Sends one request and streams its answer. Dropping the stream closes the connection.
///
/// The only loop over attempts: whatever an attempt fails of, and wherever, [`Call::after`] decides about the next one.
fn stream_answer(
    driver: Arc<Driver>,
    request: ModelRequest,
) -> impl Stream<Item = Result<ModelDelta, BackendError>> + Send {
    try_stream! {
        let span = tracing::debug_span!("chat", gen_ai.request.model = request.model);
        let mut call = Call::new(&driver, &request);
        loop {
            if let Some(pacer) = &driver.pacer {
                yield ModelDelta::Paused;
                pacer.wait().await;
                yield ModelDelta::Resumed;
            }
            let mut has_begun = false;
            let mut deltas = Vec::new();
            let failed = match driver.open(&call).instrument(span.clone()).await {
                Err(failed) => failed,
                Ok(mut reading) => loop {
                    let more = match reading.next(&driver, &mut deltas).await {
                        Ok(more) => more,
                        Err(error) if has_begun || !deltas.is_empty() => Err(error)?,
                        Err(error) => break Failed::in_answer(error, reading.broken(), &driver),
                    };
                    if !(has_begun || deltas.is_empty() && more) {
                        has_begun = true;
                        driver.learnt.remember(&call.model, &call.attempts.form);
                        for adaptation in call.adaptations(&driver.endpoint) {
                            yield ModelDelta::Adapted(adaptation);
                        }
                    }
                    for delta in deltas.drain(..) {
                        yield call.mark(delta);
                    }
                    if !more {
                        return;
                    }
                },
            };
            if let Some(message) = failed.refusal_of_filter {
                yield ModelDelta::Refusal(message);
                yield ModelDelta::Finish {
                    stop_reason: StopReason::Refusal,
                    message_id: None,
                    model: None,
                    recorded: None,
                };
                return;
            }
            match call.after(&driver, failed) {
                Next::Attempt => {}
                Next::AttemptAfter { cause, wait } => {
                    yield ModelDelta::Retrying { cause, wait };
                    tokio::time::sleep(wait).await;
                }
                Next::End(error) => Err(*error)?,
            }
        }
    }
}

impl Driver {
    /// Sends a request once, until an answer begins.
    async fn open(&self, call: &Call) -> Result<Reading, Failed> {
        let options = CallOptions {
            timeout: None,
            retry: RetryPolicy::none(),
            pacer: None,
        };
        let (url, headers) = (&self.endpoint.url, &self.endpoint.headers);
        let failed = |error: HttpError| Failed::before_answer(error, self, &call.body);
        let sent = sent::text(&call.model, &call.attempts.form, &call.body).map_err(|reason| {
            failed(HttpError::Request {
                url: url.clone(),
                reason,
            })
        })?;
        let answer = self.client.post_bytes(url, headers, sent.into(), &options).await;
        let response = answer.map_err(failed)?;
        self.reached.store(true, Ordering::Relaxed);
        self.read(response, &call.body)
            .await
            .map_err(|error| Failed::in_answer(error, None, self))
    }

    /// Begins to read an answer: its first byte decides whether it is a stream, whatever its content type says.
    async fn read(&self, response: Response, body: &RequestBody) -> Result<Reading, BackendError> {
        let beginning = response.beginning();
        let first = response
            .first_bytes()
            .iter()
            .find(|byte| !byte.is_ascii_whitespace());
        let is_whole = match first {
            Some(b'{' | b'[') => true,
            Some(_) | None => is_json(&response) && !response.begins_as_events(),
        };
        let retry_after = response.retry_after();
        let holds_text = is_whole || self.ends_reasoning_only.load(Ordering::Relaxed);
        let tags = Tags::of_request(body.own());
        let assembler = Assembler::new(self.reasoning_in_content, holds_text, tags);
        let source = if is_whole {
            Source::Whole(Box::new(response))
        } else {
            let events = response.events().await;
            Source::Events(Box::pin(events.map_err(|error| self.explain(&error, body))?))
        };
        Ok(Reading::new(
            source,
            assembler,
            beginning,
            retry_after,
            body.clone(),
        ))
    }

    fn parse_event<'a>(&self, event: &'a Piece) -> Result<Event<'a>, BackendError> {
        let data = event.data.trim();
        if data.is_empty() {
            return Ok(Event::Nothing);
        }
        if data == "[DONE]" {
            return Ok(Event::Done);
        }
        let name = event.name.to_ascii_lowercase();
        if ["error", "exception", "fail", "fault"]
            .iter()
            .any(|word| name.contains(word))
        {
            let error = parse_shown(event.sent()).unwrap_or_else(|| Value::from(event.sent()));
            return Err(failure::in_stream(&error, &self.endpoint));
        }
        // What has the form of an object and cannot be read may hide a call.
        let list = data.strip_prefix('[').map(str::trim_start);
        let may_hide = data.starts_with(['{', '<']) || list.is_some_and(|list| list.starts_with(['{', '[']));
        if !may_hide {
            return Ok(Event::Noise);
        }
        let Ok(Object(chunk)) = serde_json::from_str::<Object<Chunk<'_>>>(data) else {
            return Err(self.no_chunk(event.sent()));
        };
        let chunk = self.reject_error(chunk, || parse_shown(event.sent()))?;
        if chunk.choices.is_none() {
            match parse_shown(event.sent()) {
                Some(value) if is_error(&value) => return Err(failure::in_stream(&value, &self.endpoint)),
                _ if chunk.is_unknown_beside_choices() => return Ok(Event::Noise),
                _ => {}
            }
        }
        Ok(Event::Chunk(Box::new(chunk)))
    }

    /// The error for a text that is no chunk: the one that it reports, if it is one.
    fn no_chunk(&self, data: &str) -> BackendError {
        match parse_shown(data) {
            Some(value) if is_error(&value) => failure::in_stream(&value, &self.endpoint),
            _ => self.invalid_chunk(data),
        }
    }

    /// The error for a line that is no field of an event stream.
    fn foreign_line(&self, line: &str) -> BackendError {
        let start = line.find(['{', '[']).and_then(|at| line.get(at..));
        self.no_chunk(start.unwrap_or(line))
    }

    fn parse_whole<'a>(
        &self,
        text: &'a str,
        value: &Value,
        beginning: &Beginning,
    ) -> Result<Chunk<'a>, BackendError> {
        let no_answer = || {
            let what = format!(
                "{} answered with JSON that is not a chat completion\n  it {beginning}",
                self.endpoint
            );
            failure::incompatible(&what, &self.endpoint)
        };
        let Ok(Object(chunk)) = serde_json::from_str::<Object<Chunk<'_>>>(text) else {
            return Err(if is_error(value) {
                failure::in_stream(value, &self.endpoint)
            } else {
                no_answer()
            });
        };
        let chunk = self.reject_error(chunk, || Some(value.clone()))?;
        if chunk.choices.as_ref().is_none_or(Vec::is_empty) {
            return Err(if is_error(value) {
                failure::in_stream(value, &self.endpoint)
            } else {
                no_answer()
            });
        }
        Ok(chunk)
    }

    /// Returns the chunk unless it is an error, or its `error` or that of a choice is set. `parse` gives the whole of it in the
    /// form in which it may be shown.
    fn reject_error<'a>(
        &self,
        chunk: Chunk<'a>,
        parse: impl FnOnce() -> Option<Value>,
    ) -> Result<Chunk<'a>, BackendError> {
        let is_set = |error: &Option<Value>| error.as_ref().is_some_and(|error| !error.is_null());
        let place = if is_set(&chunk.error) || chunk.object.as_deref() == Some("error") {
            // What stands beside it may be its status.
            Some(String::new())
        } else if let Some(at) = chunk
            .choices
            .iter()
            .flatten()
            .position(|choice| is_set(&choice.0.error))
        {
            Some(format!("/choices/{at}/error"))
        } else {
            let code = chunk
                .base_resp
                .as_ref()
                .and_then(|response| response.get("status_code"));
            let is_failure = code.and_then(Value::as_i64).is_some_and(|code| code != 0);
            is_failure.then(|| "/base_resp".to_owned())
        };
        let Some(place) = place else { return Ok(chunk) };
        let value = parse().unwrap_or_default();
        let error = value.pointer(&place).cloned().unwrap_or_default();
        let error = if place == "/base_resp" {
            json!({ "base_resp": error })
        } else {
            error
        };
        Err(failure::in_stream(&error, &self.endpoint))
    }

    fn invalid_chunk(&self, data: &str) -> BackendError {
        let start = self.endpoint.excerpt(data);
        let what = format!(
            "{} sent data that is not a chunk of an answer: `{start}`",
            self.endpoint
        );
        failure::incompatible(&what, &self.endpoint)
    }

    fn explain(&self, error: &HttpError, body: &Value) -> BackendError {
        failure::of_http(error, &self.endpoint, body)
    }
}

/// Whether an object without an answer reports an error, in one of the usual shapes.
fn is_error(value: &Value) -> bool {
    ErrorDetails::of(value).message.is_some()
}

fn is_json(response: &Response) -> bool {
    response.header("content-type").is_some_and(|value| {
        value
            .trim_start()
            .to_ascii_lowercase()
            .starts_with("application/json")
    })
}
