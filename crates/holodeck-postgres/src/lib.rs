#![doc = include_str!("../README.md")]

mod connection_string;
mod error;
mod target;
mod tls;

pub use connection_string::ConnectionString;
pub use error::{TargetError, describe_error, is_io_error};
pub use target::{Messages, Target};
pub use tokio_postgres;
