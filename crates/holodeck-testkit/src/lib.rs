//! What the tests of HoloDeck share: a scripted OpenAI-compatible server.
//!
//! A development dependency only. It checks what it receives as strictly as it scripts what it answers, so that a
//! test about one thing fails when another breaks.

#![allow(
    clippy::indexing_slicing,
    reason = "indexing JSON by a key that is not there gives null, and a test may panic"
)]

mod gate;
mod invariants;
mod reply;
mod server;

pub use gate::Gate;
pub use invariants::{body_violations, request_violations};
pub use reply::Reply;
pub use server::{ModelServer, Received, ReceivedRequest};
