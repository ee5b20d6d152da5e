//! Classifies errors of the server: lost connection, missing table, or an error with a hint.

use holodeck_postgres::{describe_error, is_io_error};
use tokio_postgres::error::SqlState;

use super::target::Target;
use crate::RetrievalError;

/// Why work on a connection failed.
#[derive(Debug)]
pub(super) enum Failure {
    Server(tokio_postgres::Error),
    Ours(RetrievalError),
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Server(error)
    }
}

impl From<RetrievalError> for Failure {
    fn from(error: RetrievalError) -> Self {
        Self::Ours(error)
    }
}

impl Failure {
    /// The connection is lost; the same work may succeed on a new one.
    pub(super) fn is_lost(&self) -> bool {
        match self {
            Self::Server(error) => match error.code() {
                Some(code) => [
                    SqlState::ADMIN_SHUTDOWN,
                    SqlState::CRASH_SHUTDOWN,
                    SqlState::CONNECTION_FAILURE,
                    SqlState::CONNECTION_EXCEPTION,
                    SqlState::CONNECTION_DOES_NOT_EXIST,
                ]
                .contains(code),
                None => is_io_error(error),
            },
            Self::Ours(_) => false,
        }
    }

    /// There is no table yet: the index was never written.
    pub(super) fn is_missing_table(&self) -> bool {
        match self {
            Self::Server(error) => [
                Some(&SqlState::UNDEFINED_TABLE),
                Some(&SqlState::INVALID_SCHEMA_NAME),
            ]
            .contains(&error.code()),
            Self::Ours(_) => false,
        }
    }

    /// An actionable error. It never contains the password: the server does not repeat it.
    pub(super) fn into_retrieval_error(self, target: &Target) -> RetrievalError {
        let error = match self {
            Self::Ours(error) => return error,
            Self::Server(error) => error,
        };
        let reason = match error.as_db_error() {
            Some(answer) => {
                let hint = hint(answer.code(), answer.message(), target);
                let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
                format!("{}{hint}", answer.message())
            }
            None => describe_error(&error),
        };
        target.error(reason)
    }
}

fn hint(code: &SqlState, message: &str, target: &Target) -> Option<String> {
    Some(match code {
        &SqlState::INVALID_PASSWORD | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            "check the user and the password of `connection_string`".to_owned()
        }
        &SqlState::INVALID_CATALOG_NAME => "create the database or name another one".to_owned(),
        &SqlState::UNDEFINED_FILE | &SqlState::FEATURE_NOT_SUPPORTED if message.contains("vector") => {
            "pgvector is not installed on the server: its package is `postgresql-<version>-pgvector`, its image \
             `pgvector/pgvector`"
                .to_owned()
        }
        &SqlState::INSUFFICIENT_PRIVILEGE if message.contains("extension") => {
            "have an administrator run `CREATE EXTENSION vector` in this database".to_owned()
        }
        &SqlState::INSUFFICIENT_PRIVILEGE => format!(
            "the user must be allowed to create tables in schema {} or own the tables of this index",
            target.names.schema
        ),
        &SqlState::LOCK_NOT_AVAILABLE => "another process has been writing to this index for a minute".to_owned(),
        &SqlState::TOO_MANY_CONNECTIONS => "the server accepts no more connections".to_owned(),
        _ => return None,
    })
}
