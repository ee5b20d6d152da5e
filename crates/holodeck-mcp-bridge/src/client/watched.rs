//! Observes the messages of a connection for announced changes, for a first request that stays without an answer, and for
//! answers that come too late.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage, ServerNotification,
};
use rmcp::transport::Transport;
use tokio::time::{Instant, timeout_at};

use crate::client::reader::Reader;

/// Whether the lists of a connection have changed since they were read.
pub(crate) type Stale = Arc<AtomicBool>;

/// A transport that observes messages.
///
/// A server that announces changed lists and then answers did so in this order, and the receiver of the answer must see
/// the change too. A server that was slow to start may answer the first request after the client has given up on it and
/// sent the second: that answer is dropped.
pub(crate) struct Watched<T> {
    inner: T,
    stale: Stale,
    reader: Reader,
    /// How long the first request may stay without an answer.
    patience: Duration,
    /// The first request while it has no answer, and until when it is waited for.
    probe: Option<(RequestId, Instant)>,
    discovers: HashSet<RequestId>,
    given_up: bool,
}

impl<T> Watched<T> {
    pub(crate) fn new(inner: T, stale: Stale, reader: Reader, patience: Duration) -> Self {
        Self {
            inner,
            stale,
            reader,
            patience,
            probe: None,
            discovers: HashSet::new(),
            given_up: false,
        }
    }

    /// The next message. Silence after the first request is the refusal of a server that does not know it.
    async fn next(&mut self) -> Option<ServerJsonRpcMessage>
    where
        T: Transport<RoleClient>,
    {
        let Some((id, until)) = self.probe.clone() else {
            return self.inner.receive().await;
        };
        let Ok(message) = timeout_at(until, self.inner.receive()).await else {
            self.probe = None;
            let silence = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "it did not answer", None);
            return Some(ServerJsonRpcMessage::error(silence, Some(id)));
        };
        let answered = match &message {
            Some(JsonRpcMessage::Response(response)) => Some(&response.id),
            Some(JsonRpcMessage::Error(error)) => error.id.as_ref(),
            _ => None,
        };
        if answered == Some(&id) {
            self.probe = None;
        }
        message
    }

    fn is_late(&self, message: &ServerJsonRpcMessage) -> bool {
        let id = match message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        self.given_up && id.is_some_and(|id| self.discovers.contains(id))
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Watched<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.reader.note(&item);
        if let JsonRpcMessage::Request(request) = &item {
            match &request.request {
                ClientRequest::DiscoverRequest(_) => {
                    self.discovers.insert(request.id.clone());
                    self.probe = Some((request.id.clone(), Instant::now() + self.patience));
                }
                ClientRequest::InitializeRequest(_) => self.given_up = true,
                _ => {}
            }
        }
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let message = self.next().await?;
            if self.is_late(&message) {
                continue;
            }
            if let JsonRpcMessage::Notification(notification) = &message
                && matches!(
                    notification.notification,
                    ServerNotification::ToolListChangedNotification(_)
                        | ServerNotification::PromptListChangedNotification(_)
                )
            {
                // One notification is enough until the lists are read again, since each that is passed on triggers a
                // refresh.
                if self.stale.swap(true, Ordering::AcqRel) {
                    continue;
                }
            }
            return Some(message);
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}
