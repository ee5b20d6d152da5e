//! Where the database is, and connections to it.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use futures::{StreamExt as _, channel::mpsc as channel};
use holodeck_postgres::{ConnectionString, describe_error, is_io_error};
use tokio_postgres::{AsyncMessage, Client, Row, Statement as Prepared, error::SqlState, types::ToSql};

use super::{StoreError, statements::Statement};
use crate::store::columns::Columns;

/// The settings of a connection, whatever the server's administrator chose: a process that is stopped inside a
/// transaction must not stop others, and what is delivered must be on the disk first.
const SETTINGS: &str = "
    SET lock_timeout = '15s';
    SET idle_in_transaction_session_timeout = '10s';
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'";

/// A database, and how to connect to it.
pub(super) struct Target {
    database: holodeck_postgres::Target,
}

impl Target {
    pub(super) fn new(url: &str) -> Result<Self, StoreError> {
        let refused = |error| StoreError::failed(format_args!("the URL of the PostgreSQL database {error}"));
        let mut connection = ConnectionString::parse(url).map_err(refused)?;
        let config = connection.config_mut();
        config.keepalives_idle(Duration::from_secs(30));
        config.tcp_user_timeout(Duration::from_secs(20));
        let database = connection.into_target().map_err(refused)?;
        Ok(Self { database })
    }

    /// The servers and the database, without a user and a password.
    pub(super) fn place(&self) -> &str {
        self.database.place()
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
        let (client, mut messages) = self.database.connect().await?;
        let (sender, receiver) = channel::unbounded();
        tokio::spawn(async move {
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
                let reason = describe_error(&error);
                let place = self.database.place();
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
            None => describe_error(&error),
        };
        StoreError::failed(format_args!("PostgreSQL {}: {reason}", self.database.place()))
    }
}

/// A connection with its prepared statements.
pub(super) struct Db {
    client: Client,
    statements: Mutex<HashMap<&'static str, Prepared>>,
}

/// The values of a statement.
pub(super) type Values<'a> = &'a [&'a (dyn ToSql + Sync)];

impl Db {
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Executes what is no statement of the list: the tables, the settings, and the limits of a transaction.
    pub(super) async fn run(&self, sql: &str) -> Result<(), Failure> {
        Ok(self.client.batch_execute(sql).await?)
    }

    pub(super) async fn query(&self, statement: Statement, values: Values<'_>) -> Result<Vec<Row>, Failure> {
        let statement = self.prepare(statement).await?;
        Ok(self.client.query(&statement, values).await?)
    }

    pub(super) async fn query_opt(
        &self,
        statement: Statement,
        values: Values<'_>,
    ) -> Result<Option<Row>, Failure> {
        let statement = self.prepare(statement).await?;
        Ok(self.client.query_opt(&statement, values).await?)
    }

    /// Returns the number of rows that it wrote.
    pub(super) async fn execute(&self, statement: Statement, values: Values<'_>) -> Result<u64, Failure> {
        let statement = self.prepare(statement).await?;
        Ok(self.client.execute(&statement, values).await?)
    }

    async fn prepare(&self, statement: Statement) -> Result<Prepared, Failure> {
        let sql = statement.sql();
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
pub(in crate::store) enum Failure {
    /// The store refuses it.
    Refused(StoreError),
    /// Nothing of it is stored.
    Server(tokio_postgres::Error),
    /// The connection ended during the commit.
    Unsure(tokio_postgres::Error),
}

/// The number as the database has it.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl Columns for Row {
    type Error = Failure;

    fn text(&self, column: usize) -> Result<Option<String>, Failure> {
        Ok(self.try_get(column)?)
    }

    fn number(&self, column: usize) -> Result<Option<i64>, Failure> {
        Ok(self.try_get(column)?)
    }

    fn flag(&self, column: usize) -> Result<bool, Failure> {
        Ok(self.try_get(column)?)
    }
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
            None => is_io_error(error),
        }
    }

    /// The failure of a commit.
    pub(super) fn of_commit(self) -> Self {
        match self {
            Self::Server(error) if error.code().map_or_else(|| is_io_error(&error), is_lost_code) => {
                Self::Unsure(error)
            }
            failure => failure,
        }
    }
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
