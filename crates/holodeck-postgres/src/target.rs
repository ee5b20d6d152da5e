//! A database and how to connect to it, shown without user and password.

use std::{fmt, pin::Pin};

use futures::{Stream, future::BoxFuture};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, config::Host};

use crate::tls::Maker;

/// A database, and how to connect to it.
pub struct Target {
    pub(crate) config: Config,
    /// TLS; `None` disables it.
    pub(crate) tls: Option<Maker>,
    place: String,
}

/// Messages that a server sends besides answers. A connection works only while this is polled, and ends with it.
pub type Messages = Pin<Box<dyn Stream<Item = Result<AsyncMessage, tokio_postgres::Error>> + Send>>;

impl Target {
    pub(crate) fn new(config: Config, tls: Option<Maker>) -> Self {
        let place = place(&config);
        Self { config, tls, place }
    }

    /// The settings of connections.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The servers and the database, without a user and a password.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// A new connection.
    pub fn connect(&self) -> BoxFuture<'_, Result<(Client, Messages), tokio_postgres::Error>> {
        Box::pin(async move {
            Ok(if let Some(tls) = &self.tls {
                let (client, connection) = self.config.connect(tls.clone()).await?;
                (client, messages(connection))
            } else {
                let (client, connection) = self.config.connect(NoTls).await?;
                (client, messages(connection))
            })
        })
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place)
    }
}

fn messages<S, T>(mut connection: Connection<S, T>) -> Messages
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    Box::pin(futures::stream::poll_fn(move |context| {
        connection.poll_message(context)
    }))
}

fn place(config: &Config) -> String {
    let ports = config.get_ports();
    let hosts = config.get_hosts().iter().enumerate().map(|(at, host)| {
        let port = ports.get(at).or(ports.first()).copied().unwrap_or(5432);
        match host {
            Host::Tcp(name) => format!("{name}:{port}"),
            #[cfg(unix)]
            Host::Unix(path) => format!("{}:{port}", path.display()),
        }
    });
    let hosts: Vec<String> = hosts.collect();
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("{}/{database}", hosts.join(","))
}
