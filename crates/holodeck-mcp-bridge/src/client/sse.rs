//! HTTP with server-sent events, the transport of the protocol's first revision: one event stream, and an endpoint for
//! messages, which the first event announces.

use std::collections::VecDeque;

use futures::StreamExt as _;
use holodeck_http::{Headers, HttpClient, HttpError, HttpUrl, Verb};
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;

use crate::client::attentive::Attentive;
use crate::client::plan::Remote;
use crate::client::reader::Reader;

pub(crate) struct SseTransport {
    http: HttpClient,
    headers: Headers,
    post_to: HttpUrl,
    events: Option<Attentive>,
    reader: Reader,
    /// Messages of an event that had several.
    waiting: VecDeque<ServerJsonRpcMessage>,
}

/// Why there is no stream.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SseFailure {
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("{0} is not an event stream")]
    NoStream(HttpUrl),
    #[error("{0} announced no endpoint for messages")]
    NoEndpoint(HttpUrl),
    #[error("{by} announced a message endpoint on another host: {endpoint}")]
    Elsewhere { endpoint: HttpUrl, by: HttpUrl },
}

impl SseTransport {
    pub(crate) async fn open(http: &HttpClient, remote: &Remote, reader: Reader) -> Result<Self, SseFailure> {
        let url = &remote.url;
        let mut headers = remote.headers.clone();
        headers.insert("accept", "text/event-stream")?;
        let answer = http.exchange(Verb::Get, url, &headers, None).await?;
        if !answer.is_success() {
            return Err(answer.refusal().await.into());
        }
        if !answer.is_event_stream() {
            return Err(SseFailure::NoStream(url.clone()));
        }
        let mut events = Attentive::new(answer.events(), url.clone(), remote.silence);
        while let Some(event) = events.next().await.transpose()? {
            if event.event != "endpoint" {
                continue;
            }
            let post_to = url.resolve(event.data.trim()).map_err(HttpError::from)?;
            // The headers may contain a key.
            if post_to.origin() != url.origin() {
                return Err(SseFailure::Elsewhere {
                    endpoint: post_to,
                    by: url.clone(),
                });
            }
            return Ok(Self {
                http: http.clone(),
                headers: remote.headers.clone(),
                post_to,
                events: Some(events),
                reader,
                waiting: VecDeque::new(),
            });
        }
        Err(SseFailure::NoEndpoint(url.clone()))
    }
}

impl Transport<RoleClient> for SseTransport {
    type Error = HttpError;

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), HttpError>> + Send + 'static {
        let (http, headers, url) = (self.http.clone(), self.headers.clone(), self.post_to.clone());
        async move {
            let body = serde_json::to_vec(&item).map_err(|error| HttpError::Request {
                url: url.clone(),
                reason: error.to_string(),
            })?;
            let answer = http
                .exchange(Verb::Post, &url, &headers, Some(body.into()))
                .await?;
            if answer.is_success() {
                Ok(())
            } else {
                Err(answer.refusal().await)
            }
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            if let Some(message) = self.waiting.pop_front() {
                return Some(message);
            }
            let event = match self.events.as_mut()?.next().await? {
                Ok(event) => event,
                Err(error) => {
                    tracing::debug!(%error, "the event stream of an MCP server was interrupted");
                    self.events = None;
                    return None;
                }
            };
            if !matches!(event.event.as_str(), "" | "message") {
                continue;
            }
            self.waiting.extend(self.reader.messages(event.data.as_bytes()));
        }
    }

    async fn close(&mut self) -> Result<(), HttpError> {
        self.events = None;
        Ok(())
    }
}
