//! Sends requests over HTTP and decodes the streamed answer, with retries, pacing and the fallback model.
//!
//! The only part of this crate that uses the network; a recording replaces it.

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
use holodeck_backend_api::{BackendError, ModelCalls, ModelDelta, ModelRequest, ModelStream};
use holodeck_http::{
    CallOptions, HttpClient, HttpError, Pacer, Response, Retry, RetryPolicy, SseEvent, decode_sse,
};
use holodeck_model::{Env, Location, ReasoningInContent, ResolvedAgent, mend_json, parse_json_strictly};
use serde::{Deserialize as _, Serialize};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::{Endpoint, assemble::Assembler, failure, parameters, wire::Chunk};

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
    /// The endpoint does not support `stream_options`.
    plain_stream: AtomicBool,
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
            plain_stream: AtomicBool::new(false),
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
        let mut assembler = Assembler::new(self.0.reasoning_in_content, false);
        let mut deltas = Vec::new();
        for event in decode_sse(answer) {
            match self.0.parse_event(&mend_event(event))? {
                Event::Chunk(chunk) => assembler.push(*chunk, &mut deltas),
                Event::Nothing => {}
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
        let (listener, mut retries) = mpsc::unbounded_channel();
        let mut opening = pin!(driver.open(&request, listener).instrument(span));
        let opening_result = loop {
            let retry = tokio::select! {
                biased;
                Some(retry) = retries.recv() => retry,
                result = &mut opening => break result,
            };
            let Retry { cause, wait } = retry;
            yield ModelDelta::Retrying { cause, wait };
        };
        let response = opening_result?;
        let is_whole = is_json(&response);
        let holds_text = is_whole || driver.ends_reasoning_only.load(Ordering::Relaxed);
        let mut assembler = Assembler::new(driver.reasoning_in_content, holds_text);
        let mut deltas = Vec::new();
        if is_whole {
            let whole = response.json_by(parse_lenient).await;
            let whole = whole.map_err(|error| driver.explain(&error, &request))?;
            assembler.push_whole(driver.parse_whole(&whole)?, &mut deltas);
        } else {
            let events = response.events().await;
            let mut events = events.map_err(|error| driver.explain(&error, &request))?;
            while let Some(event) = events.next().await {
                let event = match event {
                    Ok(event) => mend_event(event),
                    // The answer is complete; only data after it was lost.
                    Err(_broken) if assembler.is_finished() => break,
                    Err(error) => {
                        Err(failure::of_stream(&error, &driver.endpoint, &request.body))?;
                        break;
                    }
                };
                match driver.parse_event(&event)? {
                    Event::Chunk(chunk) => assembler.push(*chunk, &mut deltas),
                    Event::Nothing => {}
                    Event::Done => {
                        assembler.mark_done();
                        break;
                    }
                }
                for delta in deltas.drain(..) {
                    yield delta;
                }
            }
        }
        for delta in deltas {
            yield delta;
        }
        if assembler.has_lone_close() {
            driver.ends_reasoning_only.store(true, Ordering::Relaxed);
        }
        for delta in assembler.finish()? {
            yield delta;
        }
    }
}

enum Event<'a> {
    Chunk(Box<Chunk<'a>>),
    Nothing,
    Done,
}

impl Driver {
    /// Sends the request, with retries and the fallback model, until an answer begins.
    async fn open(
        &self,
        request: &ModelRequest,
        listener: mpsc::UnboundedSender<Retry>,
    ) -> Result<Response, BackendError> {
        let retry = RetryPolicy {
            listener: Some(listener),
            ..self.retry()
        };
        let error = match self.send(&request.model, &request.body, retry).await {
            Ok(response) => return Ok(response),
            Err(error) => error,
        };
        if let Some(fallback) = &self.fallback_model
            && matches!(error.status(), Some(429 | 500..=599))
        {
            tracing::warn!(%error, model = request.model, fallback, "trying the fallback model");
            let body = parameters::adapt_to(fallback, &request.body);
            if let Ok(response) = self.send(fallback, &body, RetryPolicy::none()).await {
                return Ok(response);
            }
        }
        Err(self.explain(&error, request))
    }

    /// Posts one request. If the server rejects `stream_options`, posts it again without.
    async fn send(&self, model: &str, body: &Value, retry: RetryPolicy) -> Result<Response, HttpError> {
        let options = CallOptions {
            timeout: None,
            retry,
            pacer: None,
        };
        let with_usage = !self.plain_stream.load(Ordering::Relaxed);
        let mut wire = WireBody {
            model,
            stream: true,
            stream_options: with_usage.then_some(StreamOptions { include_usage: true }),
            body,
        };
        let (url, headers) = (&self.endpoint.url, &self.endpoint.headers);
        let answer = self.client.post_json(url, headers, &wire, &options).await;
        let answer = match answer {
            Err(error) if with_usage && refuses_stream_options(&error) => {
                self.plain_stream.store(true, Ordering::Relaxed);
                wire.stream_options = None;
                self.client.post_json(url, headers, &wire, &options).await
            }
            answer => answer,
        };
        if !matches!(answer, Err(HttpError::Connect { .. })) {
            self.reached.store(true, Ordering::Relaxed);
        }
        answer
    }

    fn retry(&self) -> RetryPolicy {
        let never = if self.reached.load(Ordering::Relaxed) {
            failure::is_final
        } else {
            failure::is_final_at_first
        };
        RetryPolicy {
            never,
            ..self.retry.clone()
        }
    }

    fn parse_event<'a>(&self, event: &'a SseEvent) -> Result<Event<'a>, BackendError> {
        let data = event.data.trim();
        if data.is_empty() {
            return Ok(Event::Nothing);
        }
        if data == "[DONE]" {
            return Ok(Event::Done);
        }
        let chunk = if event.event == "error" {
            Err(failure::in_stream(
                &serde_json::from_str(data).unwrap_or_else(|_text| Value::from(data)),
                &self.endpoint,
            ))
        } else {
            let chunk = serde_json::from_str::<Chunk<'_>>(data).map_err(|_error| self.invalid_chunk(data));
            chunk.and_then(|chunk| self.reject_error(chunk, || serde_json::from_str(data)))
        };
        chunk.map(|chunk| Event::Chunk(Box::new(chunk)))
    }

    fn parse_whole<'a>(&self, value: &'a Value) -> Result<Chunk<'a>, BackendError> {
        let what = || {
            format!(
                "{} answered with JSON that is not a chat completion",
                self.endpoint
            )
        };
        let chunk =
            Chunk::deserialize(value).map_err(|_error| failure::incompatible(&what(), &self.endpoint))?;
        let chunk = self.reject_error(chunk, || Ok(value.clone()))?;
        if chunk.choices.as_ref().is_none_or(Vec::is_empty) {
            return Err(failure::incompatible(&what(), &self.endpoint));
        }
        Ok(chunk)
    }

    /// Returns the chunk unless it is an error, or its `error` or that of a choice is set.
    fn reject_error<'a>(
        &self,
        chunk: Chunk<'a>,
        parse: impl FnOnce() -> serde_json::Result<Value>,
    ) -> Result<Chunk<'a>, BackendError> {
        let of_choices = chunk.choices.iter().flatten().map(|choice| &choice.error);
        let mut errors = std::iter::once(&chunk.error).chain(of_choices).flatten();
        if let Some(error) = errors.find(|error| !error.is_null()) {
            return Err(failure::in_stream(error, &self.endpoint));
        }
        if chunk.object.as_deref() == Some("error") {
            let error = parse().unwrap_or_default();
            return Err(failure::in_stream(&error, &self.endpoint));
        }
        Ok(chunk)
    }

    fn invalid_chunk(&self, data: &str) -> BackendError {
        let start: String = data.chars().take(120).collect();
        let what = format!(
            "{} sent data that is not a chunk of an answer: `{start}`",
            self.endpoint
        );
        failure::incompatible(&what, &self.endpoint)
    }

    fn explain(&self, error: &HttpError, request: &ModelRequest) -> BackendError {
        failure::of_http(error, &self.endpoint, &request.body)
    }
}

/// Repairs the event's data so that strict parsers accept it.
fn mend_event(mut event: SseEvent) -> SseEvent {
    if event.data.contains("\\u")
        && let Some(data) = mend_json(event.data.as_bytes())
    {
        event.data = data;
    }
    event
}

/// Parses JSON, even if it contains unpaired surrogates.
pub(crate) fn parse_lenient(json: &[u8]) -> Option<Value> {
    let strict = serde_json::from_slice(json).ok();
    strict.or_else(|| serde_json::from_str(&mend_json(json)?).ok())
}

/// Parses JSON that decides about a verdict, even if it contains unpaired surrogates. A key that appears twice in an
/// object is an error.
pub(crate) fn parse_deciding(json: &str) -> serde_json::Result<Value> {
    parse_json_strictly(json)
        .or_else(|error| mend_json(json.as_bytes()).map_or(Err(error), |mended| parse_json_strictly(&mended)))
}

fn is_json(response: &Response) -> bool {
    response.header("content-type").is_some_and(|value| {
        value
            .trim_start()
            .to_ascii_lowercase()
            .starts_with("application/json")
    })
}

/// The request as sent: the flags of the transport, and what the model sees.
#[derive(Serialize)]
struct WireBody<'a> {
    model: &'a str,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(flatten)]
    body: &'a Value,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

fn refuses_stream_options(error: &HttpError) -> bool {
    matches!(error.status(), Some(400 | 422))
        && error
            .body()
            .is_some_and(|body| body.contains("stream_options") || body.contains("include_usage"))
}
