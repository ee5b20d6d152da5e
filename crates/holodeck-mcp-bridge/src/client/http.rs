//! Streamable HTTP with holodeck-http.

use std::collections::HashMap;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use holodeck_http::{Exchange, Headers, HttpClient, HttpError, Verb};
use http::{HeaderName, HeaderValue};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::Sse;

use crate::client::attentive::Attentive;
use crate::client::plan::{AtClose, Remote};

const SESSION: &str = "mcp-session-id";
const LAST_EVENT: &str = "last-event-id";

type Failure = StreamableHttpError<HttpError>;
pub(crate) type Events = BoxStream<'static, Result<Sse, SseError>>;

#[derive(Clone)]
pub(crate) struct OurClient {
    http: HttpClient,
    remote: Remote,
}

pub(crate) fn transport(http: &HttpClient, remote: &Remote) -> StreamableHttpClientTransport<OurClient> {
    let client = OurClient {
        http: http.clone(),
        remote: remote.clone(),
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
    ) -> Result<Exchange, HttpError> {
        let mut headers = self.remote.headers.clone();
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
        let body = body.map(Into::into);
        self.http.exchange(verb, &self.remote.url, &headers, body).await
    }

    fn events(&self, answer: Exchange) -> Events {
        let events = Attentive::new(answer.events(), self.remote.url.clone(), self.remote.silence);
        events
            .map(|event| match event {
                Ok(event) => Ok(Sse {
                    event: Some(event.event).filter(|name| !name.is_empty()),
                    data: Some(event.data),
                    id: event.id,
                    retry: event.retry.and_then(|wait| u64::try_from(wait.as_millis()).ok()),
                }),
                Err(error) => Err(SseError::Body(Box::new(error))),
            })
            .boxed()
    }
}

impl StreamableHttpClient for OurClient {
    type Error = HttpError;

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
        let answer = sent.await.map_err(StreamableHttpError::Client)?;
        if matches!(answer.status(), 202 | 204) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if answer.status() == 404 && session.is_some() {
            return Err(StreamableHttpError::SessionExpired);
        }
        let new_session = answer.header(SESSION).map(str::to_owned);
        if !answer.is_success() {
            return refused(&message, session.is_some(), answer, new_session).await;
        }
        if answer.is_event_stream() {
            return Ok(StreamableHttpPostResponse::Sse(self.events(answer), new_session));
        }
        let url = self.remote.url.clone();
        let body = answer.bytes().await.map_err(StreamableHttpError::Client)?;
        match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
            Ok(answer) => Ok(StreamableHttpPostResponse::Json(answer, new_session)),
            // A notification gets no answer.
            Err(_) if !matches!(message, JsonRpcMessage::Request(_)) => {
                Ok(StreamableHttpPostResponse::Accepted)
            }
            Err(error) => Err(StreamableHttpError::UnexpectedServerResponse(
                format!("{url} answered with something other than an MCP message: {error}").into(),
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
        if self.remote.at_close == AtClose::LeaveSession {
            return Ok(());
        }
        let sent = self.send(Verb::Delete, Some(&session), None, headers, None);
        let answer = sent.await.map_err(StreamableHttpError::Client)?;
        // Some servers end sessions only by themselves.
        if answer.is_success() || answer.status() == 405 {
            return Ok(());
        }
        Err(StreamableHttpError::Client(answer.refusal().await))
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
            return Err(StreamableHttpError::Client(answer.refusal().await));
        }
        if !answer.is_event_stream() {
            let kind = answer.header("content-type").map(str::to_owned);
            return Err(StreamableHttpError::UnexpectedContentType(kind));
        }
        Ok(self.events(answer))
    }
}

/// A refusal may contain an MCP error; a server that does not support the first request refuses it in various ways.
async fn refused(
    message: &ClientJsonRpcMessage,
    in_session: bool,
    answer: Exchange,
    new_session: Option<String>,
) -> Result<StreamableHttpPostResponse, Failure> {
    let status = answer.status();
    let refusal = answer.refusal().await;
    if matches!(status, 401 | 403) {
        return Err(StreamableHttpError::Client(refusal));
    }
    let error = serde_json::from_str::<ServerJsonRpcMessage>(refusal.body().unwrap_or_default());
    let error = error
        .ok()
        .filter(|message| matches!(message, JsonRpcMessage::Error(_)));
    if let Some(id) = asked_for_revisions(message)
        && !in_session
        && (400..500).contains(&status)
    {
        // The error often carries another request id.
        let error = match error {
            Some(JsonRpcMessage::Error(message)) => message.error,
            _ => ErrorData::invalid_request(refusal.to_string(), None),
        };
        let error = ServerJsonRpcMessage::error(error, Some(id.clone()));
        return Ok(StreamableHttpPostResponse::Json(error, None));
    }
    match error {
        Some(error) => Ok(StreamableHttpPostResponse::Json(error, new_session)),
        None => Err(StreamableHttpError::Client(refusal)),
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
