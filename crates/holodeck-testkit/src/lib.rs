//! What the tests of HoloDeck share: a scripted OpenAI-compatible server, a scripted model, backend and set of tools,
//! and the [`conformance`] suite of backends.
//!
//! A development dependency only. It checks what it receives as strictly as it scripts what it answers, so that a
//! test about one thing fails when another breaks.

#![allow(
    clippy::indexing_slicing,
    reason = "indexing JSON by a key that is not there gives null, and a test may panic"
)]

pub mod conformance;
mod gate;
mod invariants;
mod reply;
mod scripted_backend;
mod scripted_model;
mod scripted_tools;
mod scripted_turn;
mod server;

pub use gate::Gate;
pub use invariants::{body_violations, request_violations};
pub use reply::Reply;
pub use scripted_backend::{Asked, ScriptedBackend};
pub use scripted_model::{ModelReply, ScriptedModel};
pub use scripted_tools::ScriptedTools;
pub use scripted_turn::ScriptedTurn;
pub use server::{ModelServer, Received, ReceivedRequest};
