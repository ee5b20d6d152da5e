//! Sends requests over HTTP and decodes the streamed answer, with retries, pacing and the fallback model.
//!
//! The only part of this crate that uses the network; a recording replaces it.

mod reading;
mod sent;

use std::{
    num::NonZeroU32,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use async_stream::{stream, try_stream};
use async_trait::async_trait;
use futures::{Stream, StreamExt as _};
use holodeck_backend_api::{
    Adaptation, BackendError, ModelCalls, ModelDelta, ModelRequest, ModelStream, StopReason,
};
use holodeck_http::{
    Beginning, CallOptions, HttpClient, HttpError, Pacer, Response, Retry, RetryPolicy, SseEvent, decode_sse,
};
use holodeck_model::{Env, Location, ReasoningInContent, ResolvedAgent};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use self::reading::{Event, Reading, Source, mend_event};
use crate::{
    Endpoint,
    assemble::{Assembler, Tags},
    dialect::{Attempts, Learnt, Refusal},
    failure::{self, ErrorDetails},
    parameters,
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
    pub fn of_agent(agent: &ResolvedAgent) -> Self {
        let openai = agent.config.openai.as_ref();
        Self {
            retry: RetryPolicy::default(),
            rpm: agent.config.model.rpm.and_then(NonZeroU32::new),
            fallback_model: openai.and_then(|openai| openai.fallback_model.clone()),
            reasoning_in_content: agent.config.model.reasoning_in_content.unwrap_or_default(),
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

    /// Sends the calls of `agent`, with endpoint and key from the YAML and `env`. `block` and `at` are as for
    /// [`Endpoint::resolve`].
    pub fn for_agent(
        client: HttpClient,
        agent: &ResolvedAgent,
        block: &str,
        at: Option<&Location>,
        env: &Env,
    ) -> Result<Self, BackendError> {
        let endpoint = Endpoint::resolve(&agent.config.model, block, at, env)?;
        Ok(Self::new(client, endpoint, DriverOptions::of_agent(agent)))
    }

    /// Decodes a streamed answer; the target for fuzzing.
    #[doc(hidden)]
    pub fn decode(&self, answer: &[u8]) -> Result<Vec<ModelDelta>, BackendError> {
        let mut assembler = Assembler::new(self.0.reasoning_in_content, false, Tags::default());
        let mut deltas = Vec::new();
        for event in decode_sse(answer) {
            match self.0.parse_event(&mend_event(event))? {
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
fn stream_answer(
    driver: Arc<Driver>,
    request: ModelRequest,
) -> impl Stream<Item = Result<ModelDelta, BackendError>> + Send {
    try_stream! {
        if let Some(pacer) = &driver.pacer {
            yield ModelDelta::Paused;
            pacer.wait().await;
            yield ModelDelta::Resumed;
        }
        let span = tracing::debug_span!("chat", gen_ai.request.model = request.model);
        let mut call = Call::new(&driver, &request);
        'attempt: loop {
            let (listener, mut retries) = mpsc::unbounded_channel();
            let opening_result = {
                let mut opening = pin!(driver.open(&call, listener).instrument(span.clone()));
                loop {
                    let retry = tokio::select! {
                        biased;
                        Some(retry) = retries.recv() => retry,
                        result = &mut opening => break result,
                    };
                    let Retry { cause, wait } = retry;
                    yield ModelDelta::Retrying { cause, wait };
                }
            };
            let response = match opening_result {
                Ok(response) => response,
                Err(error) => {
                    if let Some(message) = failure::refused_by_filter(&error) {
                        yield ModelDelta::Refusal(message);
                        yield ModelDelta::Finish {
                            stop_reason: StopReason::Refusal,
                            message_id: None,
                            model: None,
                            recorded: None,
                        };
                        return;
                    }
                    let explained = driver.explain(&error, &call.body);
                    if call.change(Refusal::of_http(&error), &explained)
                        || call.fall_back(&driver, &error, &explained)
                    {
                        continue 'attempt;
                    }
                    Err(call.first_error(explained))?
                }
            };
            let mut reading = driver.read(response, &request).await?;
            let mut has_begun = false;
            let mut deltas = Vec::new();
            loop {
                let more = reading.next(&driver, &mut deltas).await;
                let more = match more {
                    Ok(more) => more,
                    Err(error) if has_begun || !deltas.is_empty() => Err(error)?,
                    Err(error) => {
                        if call.change(Refusal::of_answer(&error), &error) {
                            continue 'attempt;
                        }
                        if let Some(as_status) = failure::as_status(&error, &driver.endpoint) {
                            if let Some(Retry { cause, wait }) = call.retry_answer(&driver, &as_status, &error) {
                                yield ModelDelta::Retrying { cause, wait };
                                tokio::time::sleep(wait).await;
                                continue 'attempt;
                            }
                            if call.fall_back(&driver, &as_status, &error) {
                                continue 'attempt;
                            }
                        }
                        Err(call.first_error(error))?
                    }
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
            }
        }
    }
}

impl Driver {
    /// Sends a request, with retries, until an answer begins.
    async fn open(&self, call: &Call, listener: mpsc::UnboundedSender<Retry>) -> Result<Response, HttpError> {
        let form = &call.attempts.form;
        let may_change = call.may_change();
        let reached = self.reached.load(Ordering::Relaxed);
        let retry = if call.is_fallback {
            RetryPolicy::none()
        } else {
            RetryPolicy {
                listener: Some(listener),
                never: match (reached, may_change) {
                    (false, false) => |error| failure::is_no_reason_to_retry(error, false, false),
                    (false, true) => |error| failure::is_no_reason_to_retry(error, false, true),
                    (true, false) => |error| failure::is_no_reason_to_retry(error, true, false),
                    (true, true) => |error| failure::is_no_reason_to_retry(error, true, true),
                },
                ..self.retry.clone()
            }
        };
        let options = CallOptions {
            timeout: None,
            retry,
            pacer: None,
        };
        let (url, headers) = (&self.endpoint.url, &self.endpoint.headers);
        let sent = sent::text(&call.model, form, &call.body).map_err(|error| HttpError::Request {
            url: url.clone(),
            reason: error.to_string(),
        })?;
        let answer = self.client.post_bytes(url, headers, sent.into(), &options).await;
        if !matches!(answer, Err(HttpError::Connect { .. })) {
            self.reached.store(true, Ordering::Relaxed);
        }
        answer
    }

    /// Begins to read an answer: its first byte decides whether it is a stream, whatever its content type says.
    async fn read(&self, response: Response, request: &ModelRequest) -> Result<Reading, BackendError> {
        let encoding = response.header("content-encoding").unwrap_or("identity");
        if !encoding.eq_ignore_ascii_case("identity") {
            let what = format!(
                "{} answered with the content-encoding `{encoding}`, which was not asked for",
                self.endpoint
            );
            return Err(failure::incompatible(&what, &self.endpoint));
        }
        let first = response
            .first_bytes()
            .iter()
            .find(|byte| !byte.is_ascii_whitespace());
        let is_whole = match first {
            Some(b'{' | b'[') => true,
            Some(_) | None => is_json(&response) && !response.begins_as_events(),
        };
        let beginning = response.beginning();
        let retry_after = response.retry_after();
        let holds_text = is_whole || self.ends_reasoning_only.load(Ordering::Relaxed);
        let tags = Tags::of_request(&request.body);
        let assembler = Assembler::new(self.reasoning_in_content, holds_text, tags);
        let source = if is_whole {
            Source::Whole(Box::new(response))
        } else {
            let events = response.events().await;
            Source::Events(Box::pin(
                events.map_err(|error| self.explain(&error, &request.body))?,
            ))
        };
        Ok(Reading {
            source,
            assembler,
            beginning,
            retry_after,
            noise: None,
            body: Arc::clone(&request.body),
        })
    }

    fn parse_event<'a>(&self, event: &'a SseEvent) -> Result<Event<'a>, BackendError> {
        let data = event.data.trim();
        if data.is_empty() {
            return Ok(Event::Nothing);
        }
        if data == "[DONE]" {
            return Ok(Event::Done);
        }
        let name = event.event.to_ascii_lowercase();
        if ["error", "exception", "fail", "fault"]
            .iter()
            .any(|word| name.contains(word))
        {
            let error = serde_json::from_str(data).unwrap_or_else(|_text| Value::from(data));
            return Err(failure::in_stream(&error, &self.endpoint));
        }
        // What has the form of an object and cannot be read may hide a call.
        let list = data.strip_prefix('[').map(str::trim_start);
        let may_hide = data.starts_with(['{', '<']) || list.is_some_and(|list| list.starts_with(['{', '[']));
        if !may_hide {
            return Ok(Event::Noise);
        }
        let Ok(Object(chunk)) = serde_json::from_str::<Object<Chunk<'_>>>(data) else {
            return Err(self.no_chunk(data));
        };
        let chunk = self.reject_error(chunk, || serde_json::from_str(data))?;
        if chunk.choices.is_none() {
            match serde_json::from_str(data) {
                Ok(value) if is_error(&value) => return Err(failure::in_stream(&value, &self.endpoint)),
                _ if chunk.is_unknown_beside_choices() => return Ok(Event::Noise),
                _ => {}
            }
        }
        Ok(Event::Chunk(Box::new(chunk)))
    }

    /// The error for a text that is no chunk: the one that it reports, if it is one.
    fn no_chunk(&self, data: &str) -> BackendError {
        match serde_json::from_str(data) {
            Ok(value) if is_error(&value) => failure::in_stream(&value, &self.endpoint),
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
        let chunk = self.reject_error(chunk, || Ok(value.clone()))?;
        if chunk.choices.as_ref().is_none_or(Vec::is_empty) {
            return Err(if is_error(value) {
                failure::in_stream(value, &self.endpoint)
            } else {
                no_answer()
            });
        }
        Ok(chunk)
    }

    /// Returns the chunk unless it is an error, or its `error` or that of a choice is set.
    fn reject_error<'a>(
        &self,
        chunk: Chunk<'a>,
        parse: impl FnOnce() -> serde_json::Result<Value>,
    ) -> Result<Chunk<'a>, BackendError> {
        if chunk.error.as_ref().is_some_and(|error| !error.is_null()) {
            // What stands beside it may be its status.
            let error = parse().ok().or(chunk.error).unwrap_or_default();
            return Err(failure::in_stream(&error, &self.endpoint));
        }
        let mut of_choices = chunk
            .choices
            .iter()
            .flatten()
            .filter_map(|choice| choice.0.error.as_ref());
        if let Some(error) = of_choices.find(|error| !error.is_null()) {
            return Err(failure::in_stream(error, &self.endpoint));
        }
        if let Some(response) = &chunk.base_resp
            && response
                .get("status_code")
                .and_then(Value::as_i64)
                .is_some_and(|code| code != 0)
        {
            let error = json!({ "base_resp": response });
            return Err(failure::in_stream(&error, &self.endpoint));
        }
        if chunk.object.as_deref() == Some("error") {
            let error = parse().unwrap_or_default();
            return Err(failure::in_stream(&error, &self.endpoint));
        }
        Ok(chunk)
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

/// One call of a model through its attempts.
struct Call {
    model: String,
    body: Arc<Value>,
    attempts: Attempts,
    /// The error of the first attempt, which is reported if no other form is answered.
    first: Option<BackendError>,
    is_fallback: bool,
    /// How often an answer that began with 200 was an error that passes.
    retries: u32,
}

impl Call {
    fn new(driver: &Driver, request: &ModelRequest) -> Self {
        Self {
            attempts: driver.learnt.attempts(&request.model),
            model: request.model.clone(),
            body: Arc::clone(&request.body),
            first: None,
            is_fallback: false,
            retries: 0,
        }
    }

    /// Whether another form of the request is left to be tried where the server does not say what it refuses.
    fn may_change(&self) -> bool {
        self.attempts.may_change(&self.body)
    }

    /// Changes to the next form after a refusal; returns whether to ask again.
    fn change(&mut self, refusal: Option<Refusal>, error: &BackendError) -> bool {
        let Some(refusal) = refusal else { return false };
        let changes = self.attempts.change(refusal, &self.body);
        if changes {
            self.first.get_or_insert_with(|| error.clone());
        }
        changes
    }

    /// Changes to the fallback model if the first one is busy or failed; returns whether to ask it.
    fn fall_back(&mut self, driver: &Driver, error: &HttpError, explained: &BackendError) -> bool {
        let Some(fallback) = driver.fallback_model.as_ref().filter(|_| !self.is_fallback) else {
            return false;
        };
        if !matches!(error.status(), Some(429 | 500..=599)) {
            return false;
        }
        tracing::warn!(error = %explained, model = self.model, fallback, "trying the fallback model");
        self.first.get_or_insert_with(|| explained.clone());
        self.is_fallback = true;
        self.body = Arc::new(parameters::adapt_to(fallback, &self.body));
        self.attempts = driver.learnt.attempts(fallback);
        self.model.clone_from(fallback);
        true
    }

    /// The wait before the request is sent again because its answer, which began with 200, is an error that passes.
    fn retry_answer(
        &mut self,
        driver: &Driver,
        as_status: &HttpError,
        error: &BackendError,
    ) -> Option<Retry> {
        let policy = (!self.is_fallback).then_some(&driver.retry)?;
        let wait = policy.wait(self.retries, as_status, 0.5)?;
        self.retries += 1;
        Some(Retry {
            cause: error.to_string(),
            wait,
        })
    }

    /// The parts of the request in another form.
    fn adaptations(&self, endpoint: &Endpoint) -> Vec<Adaptation> {
        let changes = self.attempts.form.changes(&self.body);
        let adaptations = changes.map(|change| Adaptation {
            endpoint: endpoint.url(),
            model: self.model.clone(),
            part: change.part().to_owned(),
            note: change.note().to_owned(),
        });
        adaptations.collect()
    }

    fn first_error(&mut self, error: BackendError) -> BackendError {
        self.first.take().unwrap_or(error)
    }

    /// Says which model sent the fields that go back with a call.
    fn mark(&self, mut delta: ModelDelta) -> ModelDelta {
        if let ModelDelta::ToolCall(call) = &mut delta
            && let Some(fields) = &mut call.provider_fields
        {
            fields.model.clone_from(&self.model);
        }
        delta
    }
}

fn is_json(response: &Response) -> bool {
    response.header("content-type").is_some_and(|value| {
        value
            .trim_start()
            .to_ascii_lowercase()
            .starts_with("application/json")
    })
}
