//! Connections to a real server.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod tls;
