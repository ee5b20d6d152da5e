#![doc = include_str!("../README.md")]

mod app;
mod approvals;
mod auth;
mod awp;
mod chat;
mod completions;
mod cors;
mod extract;
mod files;
mod guard;
mod messages;
mod metrics;
mod operation;
mod options;
mod page;
mod problem;
mod runs;
mod server;
mod sessions;
mod socket;
mod stream;

pub use app::App;
pub use auth::{Access, Token};
pub use options::{OnDisconnect, Protocols, ServeOptions, ServedAgent, ServedTool, UnstoredService};
pub use server::serve;

#[doc(no_inline)]
pub use {holodeck_chat as conversation, holodeck_events as events};
