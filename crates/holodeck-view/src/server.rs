//! The server of a view: it listens on the loopback interface only.

use std::{io, net::Ipv4Addr, path::Path, sync::Arc, time::Duration};

use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{net::TcpListener, task::JoinSet, time::sleep};

use crate::{CaseFiles, Catalogue, Conversations, access::Access, app::App, routes};

/// A view that listens.
#[derive(Debug)]
pub struct View {
    listener: TcpListener,
    app: App,
}

/// Why a view cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ViewError {
    /// The folder cannot be read.
    #[error("`{path}`: {}", holodeck_model::io_reason(source))]
    Folder {
        /// The folder.
        path: String,
        /// The cause.
        source: io::Error,
    },
    /// The port cannot be used.
    #[error("cannot listen on port {port}: {}", holodeck_model::io_reason(source))]
    Listen {
        /// The port.
        port: u16,
        /// The cause.
        source: io::Error,
    },
}

/// Time for the head of a request.
const HEAD_LIMIT: Duration = Duration::from_secs(10);

/// Connections at a time.
const MAX_CONNECTIONS: usize = 64;

/// Pause after the machine has no more file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

impl View {
    /// Listens on this port, or on a free one for 0. If it is only read, nothing is written below the folder.
    pub async fn open(
        folder: &Path,
        port: u16,
        is_read_only: bool,
        case_files: Arc<dyn CaseFiles>,
    ) -> Result<Self, ViewError> {
        let catalogue = Catalogue::new(folder, is_read_only).map_err(|source| ViewError::Folder {
            path: folder.display().to_string(),
            source,
        })?;
        let failed = |source| ViewError::Listen { port, source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .await
            .map_err(failed)?;
        let access = Access::new(listener.local_addr().map_err(failed)?.port());
        Ok(Self {
            listener,
            app: App::new(catalogue, access, case_files),
        })
    }

    /// Shows the conversations of the agents too; without this, no page has any.
    #[must_use]
    pub fn with_conversations(mut self, conversations: Arc<dyn Conversations>) -> Self {
        self.app.show_conversations(conversations);
        self
    }

    /// The address that opens it, with a token that works once.
    pub fn link(&self) -> String {
        self.app.access().link()
    }

    /// The folder whose runs it shows.
    pub fn folder(&self) -> &Path {
        self.app.catalogue().folder()
    }

    /// Serves until it is dropped.
    pub async fn run(self) -> std::convert::Infallible {
        let router = routes::router(&self.app);
        let mut connections = JoinSet::new();
        loop {
            while connections.len() >= MAX_CONNECTIONS {
                connections.join_next().await;
            }
            while connections.try_join_next().is_some() {}
            let stream = match self.listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::debug!(%error, "a connection was not accepted");
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let service = TowerToHyperService::new(router.clone());
            connections.spawn(async move {
                let mut http = http1::Builder::new();
                http.timer(TokioTimer::new()).header_read_timeout(HEAD_LIMIT);
                // How a client leaves does not matter.
                let _ = http.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    }
}
