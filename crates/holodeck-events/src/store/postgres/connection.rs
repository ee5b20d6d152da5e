//! Where the database is, and connections to it.

use std::{
    collections::HashMap,
    error::Error as _,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use futures::{StreamExt as _, channel::mpsc as channel};
use tokio_postgres::{
    AsyncMessage, Client, Config, NoTls, Row, Statement,
    config::{Host, SslMode},
    error::SqlState,
    types::ToSql,
};

use super::StoreError;

/// How long a connection is awaited.
const CONNECT: Duration = Duration::from_secs(10);

/// What a connection needs, whatever the server's administrator chose: a process that is stopped inside a transaction
/// must not stop others, and what is delivered must be on the disk first.
const SETTINGS: &str = "
    SET lock_timeout = '15s';
    SET idle_in_transaction_session_timeout = '10s';
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'";

/// A database, and how to connect to it.
pub(super) struct Target {
    config: Config,
    /// The servers and the database, without a user and a password.
    pub(super) place: String,
}

impl Target {
    pub(super) fn new(url: &str) -> Result<Self, StoreError> {
        let refused =
            |reason: &str| StoreError::failed(format_args!("the URL of the PostgreSQL database {reason}"));
        let url = url.trim();
        let rest = url
            .strip_prefix("postgresql://")
            .or_else(|| url.strip_prefix("postgres://"));
        let Some(rest) = rest else {
            return Err(refused("must begin with postgresql://"));
        };
        if rest.split('?').next().unwrap_or_default().matches('@').count() > 1 {
            // Otherwise a part of the password would become the host name, which is shown.
            return Err(refused(
                "has several `@`; write one in a user or a password as %40",
            ));
        }
        let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
            let cause = error.source().map(|cause| format!(": {cause}"));
            refused(&format!("can't be read{}", cause.unwrap_or_default()))
        })?;
        if config.get_hosts().is_empty() {
            return Err(refused("names no host (postgresql://user@host:5432/database)"));
        }
        if !is_local(&config) && config.get_ssl_mode() != SslMode::Disable {
            return Err(refused(
                "names another machine, and the store of events has no TLS; use a tunnel or a private network, and add `sslmode=disable`",
            ));
        }
        config.ssl_mode(SslMode::Disable);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        if config.get_application_name().is_none() {
            config.application_name("holodeck");
        }
        config.keepalives_idle(Duration::from_secs(30));
        config.tcp_user_timeout(Duration::from_secs(20));
        let place = place(&config);
        Ok(Self { config, place })
    }

    /// A new connection.
    pub(super) async fn connect(&self) -> Result<Db, Failure> {
        let (db, _) = self.connect_with_messages().await?;
        Ok(db)
    }

    /// A new connection, and the notifications that it receives. They end with it.
    pub(super) async fn connect_with_messages(
        &self,
    ) -> Result<(Db, channel::UnboundedReceiver<String>), Failure> {
        let (client, mut connection) = self.config.connect(NoTls).await?;
        let (sender, receiver) = channel::unbounded();
        tokio::spawn(async move {
            let mut messages = futures::stream::poll_fn(move |context| connection.poll_message(context));
            // An error is also that of every request that waits for an answer.
            while let Some(Ok(message)) = messages.next().await {
                if let AsyncMessage::Notification(note) = message {
                    let _ = sender.unbounded_send(note.payload().to_owned());
                }
            }
        });
        let db = Db {
            client,
            statements: Mutex::default(),
        };
        db.run(SETTINGS).await?;
        Ok((db, receiver))
    }

    /// An error without a password: neither the place nor the server repeats it.
    pub(super) fn error(&self, failure: Failure) -> StoreError {
        let error = match failure {
            Failure::Refused(error) => return error,
            Failure::Unsure(error) => {
                let reason = causes(&error);
                let place = &self.place;
                return StoreError::failed(format_args!(
                    "PostgreSQL {place}: the connection ended while it stored them ({reason})"
                ));
            }
            Failure::Server(error) => error,
        };
        if error.code() == Some(&SqlState::DISK_FULL) {
            return StoreError::Full;
        }
        let reason = match error.as_db_error() {
            Some(answer) => {
                let hint = hint(answer.code()).map(|hint| format!("; {hint}"));
                format!("{}{}", answer.message(), hint.unwrap_or_default())
            }
            None => causes(&error),
        };
        StoreError::failed(format_args!("PostgreSQL {}: {reason}", self.place))
    }
}

/// A connection with its prepared statements.
pub(super) struct Db {
    client: Client,
    statements: Mutex<HashMap<&'static str, Statement>>,
}

/// The values of a statement.
pub(super) type Values<'a> = &'a [&'a (dyn ToSql + Sync)];

impl Db {
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Executes statements without values.
    pub(super) async fn run(&self, sql: &str) -> Result<(), Failure> {
        Ok(self.client.batch_execute(sql).await?)
    }

    pub(super) async fn query(&self, sql: &'static str, values: Values<'_>) -> Result<Vec<Row>, Failure> {
        let statement = self.prepare(sql).await?;
        Ok(self.client.query(&statement, values).await?)
    }

    pub(super) async fn query_opt(
        &self,
        sql: &'static str,
        values: Values<'_>,
    ) -> Result<Option<Row>, Failure> {
        let statement = self.prepare(sql).await?;
        Ok(self.client.query_opt(&statement, values).await?)
    }

    /// Returns the number of rows that it wrote.
    pub(super) async fn execute(&self, sql: &'static str, values: Values<'_>) -> Result<u64, Failure> {
        let statement = self.prepare(sql).await?;
        Ok(self.client.execute(&statement, values).await?)
    }

    async fn prepare(&self, sql: &'static str) -> Result<Statement, Failure> {
        let statements = || self.statements.lock().unwrap_or_else(PoisonError::into_inner);
        let known = statements().get(sql).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self.client.prepare(sql).await?;
        statements().insert(sql, statement.clone());
        Ok(statement)
    }
}

/// Why work on a connection failed.
pub(super) enum Failure {
    /// The store refuses it.
    Refused(StoreError),
    /// Nothing of it is stored.
    Server(tokio_postgres::Error),
    /// The connection ended during the commit.
    Unsure(tokio_postgres::Error),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Server(error)
    }
}

impl Failure {
    /// Nothing is stored, and the same may succeed later: the connection was lost, the server restarts, or other
    /// transactions were in the way.
    pub(super) fn is_passing(&self) -> bool {
        let Self::Server(error) = self else {
            return false;
        };
        match error.code() {
            Some(code) => is_lost_code(code) || is_conflict(code),
            None => is_lost(error),
        }
    }

    /// The failure of a commit.
    pub(super) fn of_commit(self) -> Self {
        match self {
            Self::Server(error) if error.code().map_or_else(|| is_lost(&error), is_lost_code) => {
                Self::Unsure(error)
            }
            failure => failure,
        }
    }
}

fn is_lost(error: &tokio_postgres::Error) -> bool {
    let is_io = |cause: &(dyn std::error::Error + 'static)| cause.is::<std::io::Error>();
    error.is_closed() || error.source().is_some_and(is_io)
}

fn is_lost_code(code: &SqlState) -> bool {
    [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::CONNECTION_FAILURE,
        SqlState::CONNECTION_EXCEPTION,
        SqlState::CONNECTION_DOES_NOT_EXIST,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
    ]
    .contains(code)
}

fn is_conflict(code: &SqlState) -> bool {
    [
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
    ]
    .contains(code)
}

fn causes(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let reason = match cause.downcast_ref::<std::io::Error>() {
            Some(error) => holodeck_model::io_reason(error),
            None => cause.to_string(),
        };
        if !text.contains(&reason) {
            text.push_str(": ");
            text.push_str(&reason);
        }
        next = cause.source();
    }
    text
}

fn hint(code: &SqlState) -> Option<&'static str> {
    Some(match code {
        &SqlState::INVALID_PASSWORD | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            "check the user and the password of its URL"
        }
        &SqlState::INVALID_CATALOG_NAME => "create the database or name another one",
        &SqlState::INSUFFICIENT_PRIVILEGE => {
            "the user must be allowed to create tables in the schema, or to write the tables holodeck_*"
        }
        &SqlState::LOCK_NOT_AVAILABLE => "another process keeps a session locked",
        &SqlState::TOO_MANY_CONNECTIONS => "the server accepts no more connections",
        &SqlState::UNIQUE_VIOLATION => "an event of the append is stored already",
        _ => return None,
    })
}

fn is_local(config: &Config) -> bool {
    config.get_hosts().iter().all(|host| match host {
        Host::Tcp(name) => {
            let address = name.parse::<std::net::IpAddr>();
            name == "localhost" || address.is_ok_and(|address| address.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    })
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
