//! Agents on the Claude Code CLI as a child process.
//!
//! The CLI is spoken to in lines of JSON over its standard streams: `framing` cuts the lines, `wire` gives them types,
//! and `translate` turns one turn of them into [`BackendEvent`](holodeck_backend_api::BackendEvent)s. These three are
//! pure and run against recordings.

#![allow(
    dead_code,
    unused_imports,
    reason = "the session that drives these is not part of the crate yet"
)]

mod framing;
mod replay;
mod translate;
mod wire;

#[cfg(test)]
mod recording;

#[doc(hidden)]
pub use replay::{Replay, replay};
