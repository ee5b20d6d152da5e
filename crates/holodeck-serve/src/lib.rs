#![doc = include_str!("../README.md")]

mod answering;
mod app;
mod approvals;
mod auth;
mod awp;
mod branch;
mod chat;
mod completion_request;
mod completions;
mod connection;
mod cors;
mod extract;
mod files;
mod form_limits;
mod guard;
mod idempotency;
mod log;
mod markdown;
mod masking;
mod messages;
mod metrics;
mod openai_errors;
mod openai_fields;
mod operation;
mod options;
mod outlet;
mod own_ids;
mod page;
mod picture;
mod pieces;
mod problem;
mod reader_bytes;
mod repeats;
mod response_request;
mod responses;
mod run_events;
mod runs;
mod server;
mod sessions;
mod socket;
mod stream;
mod threads;
mod whole;

pub use app::App;
pub use auth::{Access, Token};
pub use options::{
    AnswerSettings, OnDisconnect, Protocols, ServeOptions, ServedAgent, ServedTool, UnattendedService,
};
pub use server::serve;

#[doc(no_inline)]
pub use {holodeck_chat as conversation, holodeck_events as events};
