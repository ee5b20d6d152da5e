//! One connection to a server after the handshake, over a child process or HTTP.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use holodeck_http::HttpClient;
use holodeck_process::ProcessSpec;
use rmcp::RoleClient;
use rmcp::model::{ProtocolVersion, SubscriptionFilter};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _, Peer, RunningService,
};
use rmcp::transport::Transport;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::handler::Handler;
use crate::client::plan::{Plan, Reach, Remote};
use crate::client::reader::{Mask, Reader, Reported};
use crate::client::sse::SseTransport;
use crate::client::stdio::Process;
use crate::client::watched::{Stale, Watched};
use crate::client::websocket::WebsocketTransport;
use crate::client::{ConnectError, http, words};

/// How long a session may take to end.
const CLOSING: Duration = Duration::from_secs(5);

/// How long a server may leave the first request of the newest revision without an answer; older ones do not know it.
const PROBE: Duration = Duration::from_millis(1500);

/// A start that takes longer is said.
const SAID_AFTER: Duration = Duration::from_secs(1);

/// A server after the handshake.
pub(crate) struct Connection {
    pub(crate) service: RunningService<RoleClient, Handler>,
    pub(crate) stale: Stale,
    process: Option<Mutex<Process>>,
    _listener: Option<AbortOnDropHandle<()>>,
}

/// The HTTP client and the time limit that connections share.
#[derive(Clone)]
pub(crate) struct Surroundings {
    /// The error is the reason why there is no client.
    pub(crate) http: Result<HttpClient, String>,
    pub(crate) startup: Duration,
    /// The time limit of a request.
    pub(crate) request: Duration,
    /// Faults of servers that were reported to a person.
    pub(crate) reported: Reported,
}

impl Surroundings {
    fn http(&self) -> Result<&HttpClient, ConnectError> {
        let refusal = |reason: &String| ConnectError::Config(reason.clone());
        self.http.as_ref().map_err(refusal)
    }
}

impl Connection {
    pub(crate) async fn open(
        plan: &Arc<Plan>,
        handler: Handler,
        surroundings: &Surroundings,
    ) -> Result<Self, ConnectError> {
        let name = handler.server_name.clone();
        let mut opening = Box::pin(Self::open_silently(plan, handler, surroundings));
        if let Ok(opened) = tokio::time::timeout(SAID_AFTER, &mut opening).await {
            return opened;
        }
        tracing::warn!(
            server = name,
            "waiting for an MCP server to {}, for {:.0} s at most",
            match plan.reach {
                Reach::Stdio(_) => "start and answer its handshake",
                _ => "answer its handshake",
            },
            surroundings.startup.saturating_sub(SAID_AFTER).as_secs_f64()
        );
        opening.await
    }

    async fn open_silently(
        plan: &Arc<Plan>,
        handler: Handler,
        surroundings: &Surroundings,
    ) -> Result<Self, ConnectError> {
        let limit = Limit {
            deadline: Instant::now() + surroundings.startup,
            after: surroundings.startup,
            probe: PROBE.min(surroundings.request / 3).min(surroundings.startup / 3),
        };
        let masking = Arc::clone(plan);
        let mask: Mask = Arc::new(move |text| masking.redacted(text));
        let reader = || {
            let reported = Arc::clone(&surroundings.reported);
            Reader::new(&handler.server_name, reported, Arc::clone(&mask))
        };
        match &plan.reach {
            Reach::Stdio(spec) => Self::to_child(spec, handler.clone(), limit, reader).await,
            Reach::Http(remote) => {
                let client = surroundings.http()?;
                let shake_hands = |lifecycle| {
                    let reader = reader();
                    let transport = http::transport(client, remote, reader.clone(), limit.probe);
                    Self::to_remote(handler.clone(), transport, lifecycle, limit, reader)
                };
                let first = shake_hands(newest_first()).await;
                match first {
                    // Servers that accept any first request: retry with the classic handshake.
                    Err(ConnectError::Handshake { .. }) => shake_hands(ClientLifecycleMode::Initialize).await,
                    first => first,
                }
            }
            Reach::Sse(remote) => {
                let reader = reader();
                let opening = SseTransport::open(surroundings.http()?, remote, reader.clone());
                let opened = tokio::time::timeout_at(limit.deadline, opening).await;
                let transport = opened
                    .map_err(|_elapsed| limit.timed_out(String::new()))?
                    .map_err(|error| ConnectError::Start(error.to_string()))?;
                // This combination of transport and missing handshake does not exist.
                let handshake = ClientLifecycleMode::Initialize;
                Self::to_remote(handler.clone(), transport, handshake, limit, reader).await
            }
            Reach::Websocket(remote) => {
                let client = surroundings.http()?;
                let first =
                    Self::to_websocket(client, remote, handler.clone(), newest_first(), limit, reader());
                match first.await {
                    Err(ConnectError::Handshake { .. }) => {
                        let handshake = ClientLifecycleMode::Initialize;
                        Self::to_websocket(client, remote, handler.clone(), handshake, limit, reader()).await
                    }
                    first => first,
                }
            }
        }
    }

    async fn to_websocket(
        client: &HttpClient,
        remote: &Remote,
        handler: Handler,
        lifecycle: ClientLifecycleMode,
        limit: Limit,
        reader: Reader,
    ) -> Result<Self, ConnectError> {
        let opening = WebsocketTransport::open(client, remote, reader.clone());
        let opened = tokio::time::timeout_at(limit.deadline, opening).await;
        let transport = opened
            .map_err(|_elapsed| limit.timed_out(String::new()))?
            .map_err(|error| ConnectError::Start(error.to_string()))?;
        Self::to_remote(handler, transport, lifecycle, limit, reader).await
    }

    /// Servers older than the protocol without handshake answer the first request with an error. Some exit instead, or
    /// stop answering: those are restarted and get the classic handshake.
    async fn to_child(
        spec: &ProcessSpec,
        handler: Handler,
        limit: Limit,
        reader: impl Fn() -> Reader,
    ) -> Result<Self, ConnectError> {
        let first = Self::to_child_as(spec, handler.clone(), limit, newest_first(), reader()).await;
        match first {
            Err(ConnectError::Ended { .. } | ConnectError::Handshake { .. }) => {
                let handshake = ClientLifecycleMode::Initialize;
                Self::to_child_as(spec, handler, limit, handshake, reader()).await
            }
            first => first,
        }
    }

    async fn to_child_as(
        spec: &ProcessSpec,
        handler: Handler,
        limit: Limit,
        lifecycle: ClientLifecycleMode,
        reader: Reader,
    ) -> Result<Self, ConnectError> {
        let (mut process, transport) = Process::start(spec, reader.clone())?;
        tracing::debug!(
            server = handler.server_name,
            pid = process.id(),
            "started an MCP server"
        );
        match shake_hands(handler, transport, lifecycle, limit, reader).await {
            Ok((service, stale)) => Ok(Self::new(service, stale, Some(process))),
            Err(Refused::TimedOut) => Err(limit.timed_out(process.words())),
            Err(Refused::Error(error)) => {
                let (exit, stderr) = process.last_words().await;
                Err(match exit {
                    Some(exit) => ConnectError::Ended { exit, stderr },
                    None => ConnectError::Handshake {
                        reason: words::of_handshake(&error),
                        stderr,
                    },
                })
            }
        }
    }

    async fn to_remote(
        handler: Handler,
        transport: impl Transport<RoleClient> + 'static,
        lifecycle: ClientLifecycleMode,
        limit: Limit,
        reader: Reader,
    ) -> Result<Self, ConnectError> {
        match shake_hands(handler, transport, lifecycle, limit, reader).await {
            Ok((service, stale)) => Ok(Self::new(service, stale, None)),
            Err(Refused::TimedOut) => Err(limit.timed_out(String::new())),
            Err(Refused::Error(error)) if matches!(*error, ClientInitializeError::TransportError { .. }) => {
                Err(ConnectError::Start(words::of_handshake(&error)))
            }
            Err(Refused::Error(error)) => Err(ConnectError::Handshake {
                reason: words::of_handshake(&error),
                stderr: String::new(),
            }),
        }
    }

    fn new(service: RunningService<RoleClient, Handler>, stale: Stale, process: Option<Process>) -> Self {
        Self {
            _listener: listener(&service),
            service,
            stale,
            process: process.map(Mutex::new),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.service.is_closed() || self.service.is_transport_closed()
    }

    /// The process, if it is a child process.
    pub(crate) async fn process_id(&self) -> Option<u32> {
        match &self.process {
            Some(process) => Some(process.lock().await.id()),
            None => None,
        }
    }

    /// How a child exited and the end of its stderr, on separate lines.
    pub(crate) async fn last_words(&self) -> Option<String> {
        let (exit, stderr) = self.process.as_ref()?.lock().await.last_words().await;
        let mut words = exit.unwrap_or_else(|| "it closed its output".to_owned());
        if !stderr.is_empty() {
            let _ = write!(words, "\nstderr: {stderr}");
        }
        Some(words)
    }

    /// Ends the session, then the process.
    pub(crate) async fn close(self) {
        let Self { service, process, .. } = self;
        if tokio::time::timeout(CLOSING, service.cancel()).await.is_err() {
            tracing::debug!("an MCP session did not end in time");
        }
        if let Some(process) = process {
            process.into_inner().close().await;
        }
    }
}

#[derive(Clone, Copy)]
struct Limit {
    deadline: Instant,
    after: Duration,
    /// How long the first request may stay without an answer.
    probe: Duration,
}

impl Limit {
    fn timed_out(self, stderr: String) -> ConnectError {
        ConnectError::TimedOut {
            after: self.after,
            stderr,
        }
    }
}

enum Refused {
    TimedOut,
    Error(Box<ClientInitializeError>),
}

async fn shake_hands(
    handler: Handler,
    transport: impl Transport<RoleClient> + 'static,
    lifecycle: ClientLifecycleMode,
    limit: Limit,
    reader: Reader,
) -> Result<(RunningService<RoleClient, Handler>, Stale), Refused> {
    let stale = Stale::default();
    let transport = Watched::new(transport, Arc::clone(&stale), reader, limit.probe);
    let shaking = handler.serve_with_lifecycle(transport, lifecycle);
    let shaken = tokio::time::timeout_at(limit.deadline, shaking).await;
    match shaken {
        Ok(Ok(service)) => Ok((service, stale)),
        Ok(Err(error)) => Err(Refused::Error(Box::new(error))),
        Err(_elapsed) => Err(Refused::TimedOut),
    }
}

/// The newest revision has no handshake; a server that does not support it negotiates the newest one that has.
fn newest_first() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
    }
}

/// Since the newest revision a server only announces changed lists to clients that subscribed.
fn listener(service: &RunningService<RoleClient, Handler>) -> Option<AbortOnDropHandle<()>> {
    let info = service.peer_info()?;
    if info.protocol_version.has_initialize() {
        return None;
    }
    let capabilities = &info.capabilities;
    let mut filter = SubscriptionFilter::new();
    filter.tools_list_changed = capabilities.tools.as_ref().and_then(|tools| tools.list_changed);
    filter.prompts_list_changed = capabilities
        .prompts
        .as_ref()
        .and_then(|prompts| prompts.list_changed);
    if filter.tools_list_changed != Some(true) && filter.prompts_list_changed != Some(true) {
        return None;
    }
    let listening = listen(service.peer().clone(), filter, service.service().clone());
    Some(AbortOnDropHandle::new(tokio::spawn(listening)))
}

async fn listen(peer: Peer<RoleClient>, filter: SubscriptionFilter, handler: Handler) {
    let mut subscription = match peer.listen(filter).await {
        Ok(subscription) => subscription,
        Err(error) => {
            tracing::debug!(server = handler.server_name, %error, "subscribing to changed lists failed");
            return;
        }
    };
    while let Ok(Some(_changed)) = subscription.next().await {
        let Some(server) = handler.server.upgrade() else {
            return;
        };
        server.refresh_if_stale().await;
    }
}
