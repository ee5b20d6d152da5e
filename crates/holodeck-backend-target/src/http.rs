//! A service behind a URL: requests from templates, answers as JSON or as a stream of events.

mod failure;
mod send;

use std::sync::Mutex;

use async_stream::stream;
use bytes::Bytes;
use futures::StreamExt as _;
use holodeck_backend_api::{BackendError, BackendEvent, TurnRequest};
use holodeck_http::{Exchange, Headers, HttpClient, HttpUrl, RetryPolicy, Verb};
use holodeck_model::{HttpMethod, HttpTarget, Location, ResponsePath, ResponsePaths, SideEffects};
use secrecy::ExposeSecret as _;
use serde_json::Value;

use crate::{
    asker::{Asker, Piece, Pieces},
    conversation::State,
    cookies::Cookies,
    parts::Parts,
    paths::{PartPath, Paths, Wanted},
    template::{Question, Renderer, names},
};

/// A service as the YAML describes it.
pub(crate) struct HttpAsker {
    client: HttpClient,
    config: HttpTarget,
    paths: Paths,
    stream: Option<EventForm>,
    /// The parts of an answer, or of its events, that the paths look at.
    wanted: Wanted,
    /// The cookies of all conversations, if they share them.
    shared: Option<Mutex<Cookies>>,
    sends_history: bool,
    names_session: bool,
    retry: RetryPolicy,
    /// Where the YAML has the target.
    at: Option<Location>,
}

/// The form of a stream.
struct EventForm {
    text: PartPath,
    done: Done,
}

/// The last event of a stream.
enum Done {
    /// Its data.
    Data(String),
    /// A path that matches only in it.
    Path(Box<PartPath>),
}

/// A request that is ready to be sent.
pub(crate) struct Request {
    verb: Verb,
    url: HttpUrl,
    headers: Headers,
    body: Option<Bytes>,
}

impl HttpAsker {
    pub(crate) fn new(
        config: &HttpTarget,
        client: HttpClient,
        at: Option<Location>,
    ) -> Result<Self, BackendError> {
        let invalid = |field: String, problem: String| {
            BackendError::config(format!("`target.{field}` is no JSONPath: {problem}"))
        };
        let paths = config.response.clone().unwrap_or_default();
        let paths =
            Paths::new(&paths).map_err(|(name, problem)| invalid(format!("response.{name}"), problem))?;
        let stream = config.stream.as_ref().map(|stream| {
            let path = |name: &str, text: &str| {
                PartPath::new(&ResponsePath::Path(text.to_owned()))
                    .map_err(|problem| invalid(format!("stream.{name}"), problem))
            };
            Ok::<_, BackendError>(EventForm {
                text: path("text", &stream.text)?,
                done: if stream.done.trim_start().starts_with('$') {
                    Done::Path(Box::new(path("done", &stream.done)?))
                } else {
                    Done::Data(stream.done.trim().to_owned())
                },
            })
        });
        let stream = stream.transpose()?;
        let mut wanted = Wanted::default();
        for (_, path) in config.response.iter().flat_map(ResponsePaths::each) {
            wanted.add(path.path());
        }
        if let Some(form) = &stream {
            form.text.want(&mut wanted);
            if let Done::Path(path) = &form.done {
                path.want(&mut wanted);
            }
        }
        let used = used_names(config);
        let uses = |name: &str| used.iter().any(|used| used == name);
        Ok(Self {
            client,
            sends_history: uses("messages"),
            names_session: uses("session_id"),
            shared: config.share.map(|_| Mutex::default()),
            stream,
            wanted,
            paths,
            config: config.clone(),
            retry: RetryPolicy::default(),
            at,
        })
    }

    /// A request with a body that is not made of a template.
    pub(crate) fn request_with(&self, question: &Question, body: &Value) -> Result<Request, BackendError> {
        let mut request = self.request(question).map_err(|error| self.placed(error))?;
        request.body = Some(Bytes::from(body.to_string()));
        Ok(request)
    }

    fn request(&self, question: &Question) -> Result<Request, BackendError> {
        let renderer = Renderer::new(question);
        let failed = |field: &str| {
            let field = field.to_owned();
            move |problem: String| BackendError::config(format!("`target.{field}`: {problem}"))
        };
        let url = renderer.url(&self.config.url).map_err(failed("url"))?;
        let mut url = HttpUrl::parse(&url).map_err(|error| failed("url")(error.to_string()))?;
        for (name, template) in &self.config.query {
            let value = renderer.text(template).map_err(failed("query"))?;
            url = url.with_query(name, &value);
        }
        let mut headers = Headers::new();
        for (name, template) in &self.config.headers {
            let value = renderer
                .text(template.expose_secret())
                .map_err(failed("headers"))?;
            headers
                .insert_secret(name, &value.into())
                .map_err(|error| failed("headers")(error.to_string()))?;
        }
        let body = match &self.config.body {
            Some(template) => {
                let body = renderer.json(template).map_err(failed("body"))?;
                Some(Bytes::from(body.to_string()))
            }
            None => None,
        };
        let verb = match self.config.method.unwrap_or_default() {
            HttpMethod::Get => Verb::Get,
            HttpMethod::Post => Verb::Post,
            HttpMethod::Put => Verb::Put,
            HttpMethod::Patch => Verb::Patch,
        };
        Ok(Request {
            verb,
            url,
            headers,
            body,
        })
    }

    /// Whether a request may be sent again although it may have had an effect.
    fn is_harmless(&self) -> bool {
        self.config.side_effects == Some(SideEffects::None)
    }

    /// The parts of an answer that is one JSON value.
    async fn read_json(&self, exchange: Exchange, request: &Request) -> Result<Parts, BackendError> {
        let bytes = exchange.bytes().await.map_err(|error| self.failure(&error))?;
        let answer = self
            .wanted
            .read(&bytes)
            .map_err(|error| self.no_json(&bytes, &error.to_string(), request))?;
        let parts = self.paths.parts(&answer);
        parts.map_err(|problem| self.unfit(&problem, &bytes, request))
    }
}

impl Asker for HttpAsker {
    fn ask<'a>(&'a self, state: &'a mut State, question: Question, _: &TurnRequest) -> Pieces<'a> {
        stream! {
            let request = match self.request(&question) {
                Ok(request) => request,
                Err(error) => {
                    yield Err(self.placed(error));
                    return;
                }
            };
            let mut retries = 0;
            let exchange = loop {
                let error = match self.send(&request, state).await {
                    Ok(exchange) => break exchange,
                    Err(error) => error,
                };
                let Some(wait) = self.wait(retries, &error) else {
                    yield Err(self.failure(&error));
                    return;
                };
                retries += 1;
                yield Ok(Piece::Event(BackendEvent::Retrying { cause: error.to_string(), wait }));
                tokio::time::sleep(wait).await;
            };
            let Some(form) = &self.stream else {
                match self.read_json(exchange, &request).await {
                    Ok(parts) => yield finished(self, parts),
                    Err(error) => yield Err(error),
                }
                return;
            };
            if !exchange.is_event_stream() {
                yield Err(self.no_stream(exchange, &request).await);
                return;
            }
            let mut events = exchange.events();
            let mut parts = Parts::default();
            while let Some(event) = events.next().await {
                let event = match event {
                    Ok(event) => event,
                    Err(error) => {
                        yield Err(self.failure(&error));
                        return;
                    }
                };
                match self.read_event(form, event.data.trim(), &request) {
                    Ok(Read::Nothing) => {}
                    Ok(Read::Done(mut last)) => {
                        if let Some(text) = last.text.take() {
                            yield Ok(Piece::Text(text));
                        }
                        parts.add(last);
                        yield finished(self, parts);
                        return;
                    }
                    Ok(Read::Part(mut part)) => {
                        if let Some(text) = part.text.take() {
                            yield Ok(Piece::Text(text));
                        }
                        parts.add(part);
                        if parts.error.is_some() {
                            yield finished(self, parts);
                            return;
                        }
                    }
                    Err(error) => {
                        yield Err(error);
                        return;
                    }
                }
            }
            let error = BackendError::ended_early_by("the stream of the target has no last event as `stream.done` names it");
            yield Err(self.placed(error));
        }
        .boxed()
    }

    fn sends_history(&self) -> bool {
        self.sends_history
    }

    fn unmatched(&self) -> Vec<String> {
        self.paths.unmatched()
    }

    fn names_session(&self) -> bool {
        self.names_session
    }
}

/// An answer that is complete, or the error that it reports.
fn finished(asker: &HttpAsker, parts: Parts) -> Result<Piece, BackendError> {
    match parts.error {
        Some(error) => Err(asker.reported(&error)),
        None => Ok(Piece::Done(Box::new(parts))),
    }
}

/// One event of a stream.
enum Read {
    Nothing,
    Part(Parts),
    Done(Parts),
}

impl HttpAsker {
    fn read_event(&self, form: &EventForm, data: &str, request: &Request) -> Result<Read, BackendError> {
        if data.is_empty() {
            return Ok(Read::Nothing);
        }
        if matches!(&form.done, Done::Data(done) if done == data) {
            return Ok(Read::Done(Parts::default()));
        }
        let event = self
            .wanted
            .read(data.as_bytes())
            .map_err(|error| self.no_json(data.as_bytes(), &error.to_string(), request))?;
        let unfit = |problem: String| self.unfit(&problem, data.as_bytes(), request);
        let mut parts = self.paths.parts_but_text(&event, false).map_err(unfit)?;
        if parts.error.is_none() {
            parts.text = form.text.piece(&event).map_err(unfit)?;
        }
        Ok(match &form.done {
            Done::Path(path) if path.holds(&event) => Read::Done(parts),
            _ => Read::Part(parts),
        })
    }
}

/// The names that the templates of a request use.
fn used_names(config: &HttpTarget) -> Vec<String> {
    fn of_json(value: &Value, texts: &mut Vec<String>) {
        match value {
            Value::String(text) => texts.push(text.clone()),
            Value::Array(items) => items.iter().for_each(|item| of_json(item, texts)),
            Value::Object(fields) => fields.values().for_each(|field| of_json(field, texts)),
            _ => {}
        }
    }
    let mut texts = vec![config.url.clone()];
    texts.extend(config.query.values().cloned());
    texts.extend(
        config
            .headers
            .values()
            .map(|value| value.expose_secret().to_owned()),
    );
    if let Some(body) = &config.body {
        of_json(body, &mut texts);
    }
    texts
        .iter()
        .flat_map(|text| names(text).unwrap_or_default())
        .collect()
}
