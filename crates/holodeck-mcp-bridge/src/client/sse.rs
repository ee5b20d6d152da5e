//! HTTP with server-sent events, the transport of the protocol's first revision: one event stream, and an endpoint for
//! messages, which the first event announces.

use std::collections::VecDeque;

use futures::StreamExt as _;
use holodeck_http::{Headers, HttpClient, HttpError, HttpUrl, Verb};
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;

use crate::client::attentive::Attentive;
use crate::client::caller::{CallError, Caller};
use crate::client::plan::Remote;
use crate::client::reader::Reader;

pub(crate) struct SseTransport {
    caller: Caller,
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
    Call(#[from] CallError),
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
        let caller = Caller::new(http, remote);
        let mut headers = Headers::new();
        headers
            .insert("accept", "text/event-stream")
            .map_err(CallError::from)?;
        let answer = caller.exchange(Verb::Get, url, &headers, None).await?;
        if !answer.is_success() {
            return Err(CallError::from(answer.refusal().await).into());
        }
        if !answer.is_event_stream() {
            return Err(SseFailure::NoStream(url.clone()));
        }
        let mut events = Attentive::new(answer.events(), url.clone(), remote.silence);
        while let Some(event) = events.next().await.transpose().map_err(CallError::from)? {
            if event.event != "endpoint" {
                continue;
            }
            let post_to = url.resolve(event.data.trim()).map_err(CallError::from)?;
            // The headers may contain a key.
            if post_to.origin() != url.origin() {
                return Err(SseFailure::Elsewhere {
                    endpoint: post_to,
                    by: url.clone(),
                });
            }
            return Ok(Self {
                caller,
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
    type Error = CallError;

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), CallError>> + Send + 'static {
        let (caller, url) = (self.caller.clone(), self.post_to.clone());
        async move {
            let body = serde_json::to_vec(&item).map_err(|error| HttpError::Request {
                url: url.clone(),
                reason: error.to_string(),
            })?;
            let answer = caller
                .exchange(Verb::Post, &url, &Headers::new(), Some(body.into()))
                .await?;
            if answer.is_success() {
                Ok(())
            } else {
                Err(answer.refusal().await.into())
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

    async fn close(&mut self) -> Result<(), CallError> {
        self.events = None;
        Ok(())
    }
}
