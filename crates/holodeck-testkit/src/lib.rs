//! The shared tools of HoloDeck's tests: scripted servers (OpenAI-compatible, Anthropic's Messages API, Qdrant, OAuth), a real
//! PostgreSQL, a scripted model, backend and set of tools, a misbehaving Claude Code CLI, and the [`conformance`] suite
//! of backends.
//!
//! A development dependency only. It checks requests as strictly as it scripts answers, so that a test of one feature
//! fails when another breaks.

#![allow(
    clippy::indexing_slicing,
    reason = "indexing JSON by a key that is not there gives null, and a test may panic"
)]

mod anthropic;
mod claude_releases;
pub mod conformance;
mod delivery;
mod endpoint_server;
mod fake_claude;
mod gate;
mod invariants;
mod loopback;
mod node_clients;
mod oauth_server;
mod postgres;
mod qdrant;
mod received;
mod recorded;
mod reply;
mod script;
mod scripted_backend;
mod scripted_model;
mod scripted_tools;
mod scripted_turn;
mod server;

pub use anthropic::{AnthropicReply, AnthropicRequest, AnthropicServer, ToolResult, messages_violations};
pub use claude_releases::{OLDER_CLAUDE, PINNED_CLAUDE, claude_cli, claude_releases};
pub use endpoint_server::EndpointServer;
pub use fake_claude::{ClaudeFault, ClaudeStage, FakeClaude};
pub use gate::Gate;
pub use invariants::{body_violations, request_violations};
pub use node_clients::{agui_client, changing_client, foreign_client};
pub use oauth_server::{OauthOptions, OauthServer, browse};
pub use postgres::PostgresServer;
pub use qdrant::QdrantServer;
pub use received::{Received, ReceivedRequest};
pub use recorded::RecordedTurn;
pub use reply::Reply;
pub use scripted_backend::{Asked, ScriptedBackend};
pub use scripted_model::{ModelReply, ScriptedModel};
pub use scripted_tools::{ScriptedTools, red_dot};
pub use scripted_turn::ScriptedTurn;
pub use server::ModelServer;
