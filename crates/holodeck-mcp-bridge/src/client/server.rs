//! A server across reconnections: its tools, and its calls, repeated only if they changed nothing.

mod ask;
pub(crate) mod connection;
mod handler;
pub(crate) mod listing;
mod tools;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use holodeck_backend_api::{CallRefusal, Tool, ToolCx, ToolOutput};
use rmcp::model::{CallToolRequestParams, ErrorCode, GetPromptRequestParams, JsonObject};
use rmcp::service::ServiceError;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::ask::{Ask, Repeat};
use self::connection::{Connection, Surroundings};
use self::handler::Handler;
use self::listing::{ListError, Offer};
use self::tools::ServerTool;
use crate::client::calls::{RunningCall, RunningCalls};
use crate::client::content;
use crate::client::plan::Plan;
use crate::client::sampler::Sampler;
use crate::client::{ConnectError, McpOptions, ServerInfo, words};

/// A server of the YAML, across all its connections.
pub(crate) struct Server {
    /// Its name in the YAML.
    name: String,
    plan: Arc<Plan>,
    offer: Offer,
    options: McpOptions,
    surroundings: Surroundings,
    sampling: Option<Arc<Sampler>>,
    live: tokio::sync::Mutex<Live>,
    listed: Mutex<Listed>,
    refreshing: tokio::sync::Mutex<()>,
    refreshes: TaskTracker,
    calls: RunningCalls,
    closing: CancellationToken,
    /// Lost connections since the last answered request.
    losses: AtomicU64,
}

enum Live {
    /// With its number.
    Open(Arc<Connection>, u64),
    /// The number of the last connection.
    Lost(u64),
    Closed,
}

#[derive(Default)]
struct Listed {
    revision: u64,
    tools: Vec<Arc<ServerTool>>,
    info: ServerInfo,
}

/// Why there was no answer.
enum NoAnswer {
    /// The connection was lost.
    Lost(String),
    /// The server wants a login, and did nothing.
    Refused(String),
}

impl AsRef<Self> for Server {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl Server {
    pub(crate) fn new(
        name: String,
        plan: Plan,
        offer: Offer,
        options: McpOptions,
        surroundings: Surroundings,
        sampling: Option<Arc<Sampler>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            name,
            plan: Arc::new(plan),
            offer,
            options,
            surroundings,
            sampling,
            live: tokio::sync::Mutex::new(Live::Lost(0)),
            listed: Mutex::default(),
            refreshing: tokio::sync::Mutex::default(),
            refreshes: TaskTracker::new(),
            calls: RunningCalls::default(),
            closing: CancellationToken::new(),
            losses: AtomicU64::new(0),
        })
    }

    /// Connects for the first time.
    pub(crate) async fn start(self: &Arc<Self>) -> Result<(), ConnectError> {
        let mut live = self.live.lock().await;
        self.open(&mut live, 0).await?;
        Ok(())
    }

    /// Sends a request, over a new connection if the last one is lost. An error is the reason why connecting failed.
    pub(crate) fn ask<'a>(
        self: &'a Arc<Self>,
        ask: &'a Ask,
        arguments: &'a JsonObject,
        cx: &'a ToolCx,
    ) -> BoxFuture<'a, Result<ToolOutput, String>> {
        Box::pin(self.ask_unboxed(ask, arguments, cx))
    }

    async fn ask_unboxed(
        self: &Arc<Self>,
        ask: &Ask,
        arguments: &JsonObject,
        cx: &ToolCx,
    ) -> Result<ToolOutput, String> {
        let _calling = match &self.sampling {
            Some(sampler) => Some(sampler.begin(cx).await),
            None => None,
        };
        let _running = self.calls.begin(cx);
        let (connection, number) = self
            .connection(None)
            .await
            .map_err(|error| self.redacted_error(&error))?;
        let lost = match self.answer(&connection, ask, arguments).await {
            Ok(output) => return Ok(output),
            Err(NoAnswer::Refused(reason)) => return Err(self.refusal(&reason)),
            Err(NoAnswer::Lost(lost)) => self.words_of(&connection, lost).await,
        };
        if self.losses.fetch_add(1, Ordering::AcqRel) > 0 {
            self.forget(number).await;
            return Err(format!("its MCP server `{}` was lost again: {lost}", self.name));
        }
        let again = self.connection(Some(number)).await;
        let (connection, _) = again.map_err(|error| {
            let error = self.redacted_error(&error);
            format!(
                "its MCP server `{}` was lost: {lost}; connecting again: {error}",
                self.name
            )
        })?;
        if matches!(
            ask,
            Ask::Tool {
                repeat: Repeat::Unknown,
                ..
            }
        ) {
            return Ok(ToolOutput::error(format!(
                "the MCP server `{}` went away during this call and was connected again; whether the call had an \
                 effect is not known: {lost}",
                self.name
            )));
        }
        match self.answer(&connection, ask, arguments).await {
            Ok(output) => Ok(output),
            Err(NoAnswer::Refused(reason)) => Err(self.refusal(&reason)),
            Err(NoAnswer::Lost(lost)) => {
                let lost = self.words_of(&connection, lost).await;
                Err(format!("its MCP server `{}` was lost again: {lost}", self.name))
            }
        }
    }

    async fn answer(
        self: &Arc<Self>,
        connection: &Connection,
        ask: &Ask,
        arguments: &JsonObject,
    ) -> Result<ToolOutput, NoAnswer> {
        let answer = match ask {
            Ask::Tool { name, .. } => {
                let params = CallToolRequestParams::new(name.clone()).with_arguments(arguments.clone());
                connection.service.call_tool(params).await.map(content::of_call)
            }
            Ask::Prompt { name } => {
                let params = GetPromptRequestParams::new(name.clone()).with_arguments(arguments.clone());
                connection
                    .service
                    .get_prompt(params)
                    .await
                    .map(content::of_prompt)
            }
        };
        let output = match answer {
            Ok(output) => output,
            // The server does not have the tool, or rejects these arguments.
            Err(ServiceError::McpError(error)) if error.code == ErrorCode::INVALID_PARAMS => {
                ToolOutput::refused(CallRefusal::InvalidArguments, error.message.into_owned())
            }
            Err(ServiceError::McpError(error)) => ToolOutput::error(error.message.into_owned()),
            Err(ServiceError::TransportClosed) => {
                return Err(NoAnswer::Lost("the connection was closed".to_owned()));
            }
            Err(ServiceError::TransportSend(error)) => {
                return Err(match words::of_login(&error) {
                    Some(reason) => NoAnswer::Refused(reason),
                    None => NoAnswer::Lost(words::of_transport(&error)),
                });
            }
            Err(other) => ToolOutput::error(other.to_string()),
        };
        let output = self.masked(output);
        self.losses.store(0, Ordering::Release);
        // The model's next message must see the changes of this call.
        self.refresh_if_stale().await;
        Ok(output)
    }

    fn refusal(&self, reason: &str) -> String {
        format!(
            "its MCP server `{}` refused the call: {}",
            self.name,
            self.plan.redacted(reason)
        )
    }

    /// An answer without the token of the login, which a careless server repeats.
    fn masked(&self, mut output: ToolOutput) -> ToolOutput {
        if let Some(text) = self
            .plan
            .reach
            .tokens()
            .and_then(|tokens| tokens.masked(&output.text))
        {
            output.text = text;
        }
        output
    }

    /// The running call, if just one runs.
    pub(crate) fn only_call(&self) -> Option<RunningCall> {
        self.calls.only()
    }

    /// The live connection; opened if it was lost or has the number of a lost one.
    async fn connection(self: &Arc<Self>, lost: Option<u64>) -> Result<(Arc<Connection>, u64), ConnectError> {
        let mut live = self.live.lock().await;
        let last = match &*live {
            Live::Open(connection, number) if lost != Some(*number) && !connection.is_closed() => {
                return Ok((Arc::clone(connection), *number));
            }
            Live::Open(_, number) | Live::Lost(number) => *number,
            Live::Closed => return Err(ConnectError::Config("it was closed".to_owned())),
        };
        tracing::info!(server = self.name, "connecting to an MCP server again");
        *live = Live::Lost(last);
        self.open(&mut live, last).await
    }

    async fn open(
        self: &Arc<Self>,
        live: &mut Live,
        last: u64,
    ) -> Result<(Arc<Connection>, u64), ConnectError> {
        let handler = Handler {
            server_name: self.name.clone(),
            server: Arc::downgrade(self),
            sampling: self.sampling.clone(),
            elicitation: self.options.elicitation.clone(),
            roots: self.options.roots.clone(),
        };
        let connection = Connection::open(&self.plan, handler, &self.surroundings).await?;
        if let Err(error) = self.list(&connection).await {
            let words = connection.last_words().await;
            return Err(ConnectError::Handshake {
                reason: format!("listing its tools failed: {error}"),
                stderr: words.unwrap_or_default(),
            });
        }
        let connection = Arc::new(connection);
        *live = Live::Open(Arc::clone(&connection), last + 1);
        Ok((connection, last + 1))
    }

    async fn forget(&self, lost: u64) {
        let mut live = self.live.lock().await;
        if matches!(&*live, Live::Open(_, number) if *number == lost) {
            *live = Live::Lost(lost);
        }
    }

    /// As [`refresh_if_stale`](Self::refresh_if_stale), in a task that [`close`](Self::close) ends and awaits.
    pub(crate) fn refresh_later(self: &Arc<Self>) {
        let (server, closing) = (Arc::clone(self), self.closing.clone());
        self.refreshes.spawn(async move {
            closing.run_until_cancelled(server.refresh_if_stale()).await;
        });
    }

    /// Lists again if the server has announced changes.
    pub(crate) async fn refresh_if_stale(self: &Arc<Self>) {
        let _one_at_a_time = self.refreshing.lock().await;
        let connection = match &*self.live.lock().await {
            Live::Open(connection, _) => Arc::clone(connection),
            _ => return,
        };
        if connection.stale.swap(false, Ordering::AcqRel)
            && let Err(error) = self.list(&connection).await
        {
            tracing::warn!(server = self.name, %error, "listing the changed tools of an MCP server failed");
        }
    }

    async fn list(self: &Arc<Self>, connection: &Connection) -> Result<(), ListError> {
        let us = Arc::downgrade(self);
        let listing = self.offer.list(connection.service.peer(), &us);
        let limit = self.surroundings.startup;
        let tools = tokio::time::timeout(limit, listing)
            .await
            .map_err(|_elapsed| ServiceError::Timeout { timeout: limit })??;
        let process = connection.process_id().await;
        let peer = connection.service.peer_info();
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        let same = listed.tools.len() == tools.len()
            && listed
                .tools
                .iter()
                .zip(&tools)
                .all(|(old, new)| old.spec() == new.spec());
        if !same {
            listed.revision += 1;
            listed.tools = tools.into_iter().map(Arc::new).collect();
        }
        listed.info = ServerInfo::of(&self.name, peer.as_deref(), process);
        Ok(())
    }

    /// The server's description from its last connection.
    pub(crate) fn info(&self) -> ServerInfo {
        self.listed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .info
            .clone()
    }

    pub(crate) fn revision(&self) -> u64 {
        self.listed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .revision
    }

    pub(crate) fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        let tools = listed.tools.iter();
        tools.map(|tool| Arc::clone(tool) as Arc<dyn Tool>).collect()
    }

    /// Ends the session and the process.
    pub(crate) async fn close(&self) {
        let last = std::mem::replace(&mut *self.live.lock().await, Live::Closed);
        self.closing.cancel();
        self.refreshes.close();
        self.refreshes.wait().await;
        let Live::Open(connection, _) = last else { return };
        match Arc::try_unwrap(connection) {
            Ok(connection) => connection.close().await,
            // A call is still waiting: it ends with the connection.
            Err(connection) => connection.service.cancellation_token().cancel(),
        }
    }

    async fn words_of(&self, connection: &Connection, lost: String) -> String {
        let words = connection.last_words().await;
        self.plan.redacted(&words.unwrap_or(lost))
    }

    /// The error text without secrets.
    pub(crate) fn redacted_error(&self, error: &ConnectError) -> String {
        self.plan.redacted(&error.to_string())
    }
}
