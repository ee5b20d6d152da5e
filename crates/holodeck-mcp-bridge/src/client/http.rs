//! Streamable HTTP with holodeck-http.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::{BoxStream, iter};
use holodeck_http::{Exchange, Headers, HttpClient, HttpError, HttpUrl, SseEvent, Verb};
use http::{HeaderName, HeaderValue};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::Sse;
use tokio::time::timeout;

use crate::client::attentive::Attentive;
use crate::client::caller::{CallError, Caller};
use crate::client::plan::{AtClose, Login, Remote};
use crate::client::reader::{Frame, Reader};

const SESSION: &str = "mcp-session-id";
const LAST_EVENT: &str = "last-event-id";

type Failure = StreamableHttpError<CallError>;
pub(crate) type Events = BoxStream<'static, Result<Sse, SseError>>;

#[derive(Clone)]
pub(crate) struct OurClient {
    caller: Caller,
    reader: Reader,
    /// How long the first request may stay without an answer.
    probe: Duration,
    /// The address to which the server redirected.
    moved: Arc<Mutex<Option<HttpUrl>>>,
}

pub(crate) fn transport(
    http: &HttpClient,
    remote: &Remote,
    reader: Reader,
    probe: Duration,
) -> StreamableHttpClientTransport<OurClient> {
    let client = OurClient {
        caller: Caller::new(http, remote),
        reader,
        probe,
        moved: Arc::default(),
    };
    // The client already has the address; this copy may contain a secret and would appear in errors.
    let config = StreamableHttpClientTransportConfig::with_uri(remote.url.to_string());
    StreamableHttpClientTransport::with_client(client, config)
}

impl OurClient {
    async fn send(
        &self,
        verb: Verb,
        session: Option<&str>,
        last_event: Option<&str>,
        more: HashMap<HeaderName, HeaderValue>,
        body: Option<Vec<u8>>,
    ) -> Result<Exchange, CallError> {
        let mut headers = Headers::new();
        if verb == Verb::Get {
            headers.insert("accept", "text/event-stream")?;
        }
        #[expect(clippy::iter_over_hash_type, reason = "the order of headers means nothing")]
        for (name, value) in &more {
            if let Ok(value) = value.to_str() {
                headers.insert(name.as_str(), value)?;
            }
        }
        insert(&mut headers, SESSION, session)?;
        insert(&mut headers, LAST_EVENT, last_event)?;
        let url = self.url();
        let bytes = || body.clone().map(Into::into);
        let answer = self.caller.exchange(verb, &url, &headers, bytes()).await?;
        if !matches!(answer.status(), 307 | 308) {
            return Ok(answer);
        }
        let Some(target) = answer.header("location").and_then(|to| url.resolve(to).ok()) else {
            return Ok(answer);
        };
        if target.origin() != url.origin() {
            // The headers may contain a key.
            let reason = format!(
                "it answers {} with another host, {target}: write that address if it is right",
                answer.status()
            );
            return Err(HttpError::Request { url, reason }.into());
        }
        let answer = self.caller.exchange(verb, &target, &headers, bytes()).await?;
        if !matches!(answer.status(), 307 | 308) {
            *self.moved.lock().unwrap_or_else(PoisonError::into_inner) = Some(target);
        }
        Ok(answer)
    }

    /// The address of the YAML, or the one of the same server to which it redirects.
    fn url(&self) -> HttpUrl {
        let moved = self.moved.lock().unwrap_or_else(PoisonError::into_inner);
        moved.clone().unwrap_or_else(|| self.remote().url.clone())
    }

    fn remote(&self) -> &Remote {
        self.caller.remote()
    }

    /// The events of an answer to a request, or of a stream of its own.
    fn events(&self, answer: Exchange, to: Option<RequestId>) -> Events {
        let events = Attentive::new(answer.events(), self.remote().url.clone(), self.remote().silence);
        let reader = self.reader.clone();
        events
            .flat_map(move |event| {
                let events = match event {
                    Ok(event) => mended(&reader, event, to.as_ref()).into_iter().map(Ok).collect(),
                    Err(error) => vec![Err(SseError::Body(Box::new(error)))],
                };
                iter(events)
            })
            .boxed()
    }
}

impl StreamableHttpClient for OurClient {
    type Error = CallError;

    async fn post_message(
        &self,
        _: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let body = serde_json::to_vec(&message)?;
        let sent = self.send(Verb::Post, session.as_deref(), None, headers, Some(body));
        let answer = match asked_for_revisions(&message).filter(|_| session.is_none()) {
            Some(id) => match timeout(self.probe, sent).await {
                Ok(answer) => answer,
                Err(_elapsed) => {
                    let silence = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "it did not answer", None);
                    let error = ServerJsonRpcMessage::error(silence, Some(id.clone()));
                    return Ok(StreamableHttpPostResponse::Json(error, None));
                }
            },
            None => sent.await,
        };
        if let (Err(CallError::Login(reason)), Some(id), Login::Tokens { tokens, .. }) = (
            &answer,
            asked_for_revisions(&message).filter(|_| session.is_none()),
            &self.remote().login,
        ) && !tokens.has_login()
        {
            // It may only be that the server refuses what it does not know; the handshake says so.
            let refusal = ErrorData::invalid_request(reason.clone(), None);
            let error = ServerJsonRpcMessage::error(refusal, Some(id.clone()));
            return Ok(StreamableHttpPostResponse::Json(error, None));
        }
        let answer = answer.map_err(StreamableHttpError::Client)?;
        if matches!(answer.status(), 202 | 204) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if answer.status() == 404 && session.is_some() {
            return Err(StreamableHttpError::SessionExpired);
        }
        let new_session = answer.header(SESSION).map(str::to_owned);
        if !answer.is_success() {
            return self
                .refused(&message, session.is_some(), answer, new_session)
                .await;
        }
        if answer.is_event_stream() {
            return Ok(StreamableHttpPostResponse::Sse(
                self.events(answer, id_of(&message).cloned()),
                new_session,
            ));
        }
        let url = self.remote().url.clone();
        let body = answer.bytes().await.map_err(client)?;
        match self.reader.answer(&body, Frame::Message, id_of(&message)) {
            Some(answer) => Ok(StreamableHttpPostResponse::Json(answer, new_session)),
            // A notification gets no answer.
            None if id_of(&message).is_none() => Ok(StreamableHttpPostResponse::Accepted),
            None => Err(StreamableHttpError::UnexpectedServerResponse(
                format!(
                    "{url} answered with something other than an MCP message, which begins with `{}`",
                    self.reader.excerpt(&body)
                )
                .into(),
            )),
        }
    }

    async fn delete_session(
        &self,
        _: Arc<str>,
        session: Arc<str>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failure> {
        if self.remote().at_close == AtClose::LeaveSession {
            return Ok(());
        }
        let sent = self.send(Verb::Delete, Some(&session), None, headers, None);
        let answer = sent.await.map_err(StreamableHttpError::Client)?;
        // Some servers end sessions only by themselves.
        if answer.is_success() || answer.status() == 405 {
            return Ok(());
        }
        Err(client(answer.refusal().await))
    }

    async fn get_stream(
        &self,
        _: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Events, Failure> {
        let sent = self.send(
            Verb::Get,
            session.as_deref(),
            last_event.as_deref(),
            headers,
            None,
        );
        let answer = sent.await.map_err(StreamableHttpError::Client)?;
        if answer.status() == 405 {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        if !answer.is_success() {
            return Err(client(answer.refusal().await));
        }
        if !answer.is_event_stream() {
            let kind = answer.header("content-type").map(str::to_owned);
            return Err(StreamableHttpError::UnexpectedContentType(kind));
        }
        Ok(self.events(answer, None))
    }
}

impl OurClient {
    /// Ends the request that was refused, whatever id the refusal has. A server that does not know the first request refuses it in
    /// any way; the handshake says why.
    async fn refused(
        &self,
        message: &ClientJsonRpcMessage,
        in_session: bool,
        answer: Exchange,
        new_session: Option<String>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let status = answer.status();
        let refusal = answer.refusal().await;
        if let Some(id) = asked_for_revisions(message)
            && !in_session
        {
            let error = ErrorData::invalid_request(refusal.to_string(), None);
            let error = ServerJsonRpcMessage::error(error, Some(id.clone()));
            return Ok(StreamableHttpPostResponse::Json(error, None));
        }
        let body = refusal.body().unwrap_or_default();
        if in_session && status == 400 && body.to_ascii_lowercase().contains("session") {
            // Some servers say so that they do not know it, for example after a restart.
            return Err(StreamableHttpError::SessionExpired);
        }
        if !matches!(status, 401 | 403)
            && let Some(error @ JsonRpcMessage::Error(_)) =
                self.reader
                    .answer(body.as_bytes(), Frame::Refusal, id_of(message))
        {
            return Ok(StreamableHttpPostResponse::Json(error, new_session));
        }
        Err(client(refusal))
    }
}

fn client(error: HttpError) -> Failure {
    StreamableHttpError::Client(error.into())
}

/// An event of a stream with a message that can be read, or one for each if it has several. Others are passed on as they are.
fn mended(reader: &Reader, event: SseEvent, to: Option<&RequestId>) -> Vec<Sse> {
    let name = Some(event.event).filter(|name| !name.is_empty());
    let retry = event.retry.and_then(|wait| u64::try_from(wait.as_millis()).ok());
    let mut texts = reader.texts(event.data.as_bytes(), Frame::Message, to);
    if texts.is_empty() {
        texts.push(event.data);
    }
    let last = texts.len().saturating_sub(1);
    let texts = texts.into_iter().enumerate();
    texts
        .map(|(index, text)| Sse {
            event: name.clone(),
            data: Some(text),
            // A stream is resumed after the whole event.
            id: event.id.clone().filter(|_| index == last),
            retry,
        })
        .collect()
}

fn id_of(message: &ClientJsonRpcMessage) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Request(request) => Some(&request.id),
        _ => None,
    }
}

fn asked_for_revisions(message: &ClientJsonRpcMessage) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Request(request) => match request.request {
            ClientRequest::DiscoverRequest(_) => Some(&request.id),
            _ => None,
        },
        _ => None,
    }
}

fn insert(headers: &mut Headers, name: &str, value: Option<&str>) -> Result<(), HttpError> {
    value.map_or(Ok(()), |value| headers.insert(name, value))
}
