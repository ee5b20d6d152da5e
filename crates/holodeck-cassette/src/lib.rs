//! Record and replay at the boundary to the model.
//!
//! A cassette is a JSON Lines file: a header, then one entry per model call, or per turn where an agent's own program
//! calls the model. The key of an entry is a hash of everything the model sees, so a changed prompt, tool or document
//! misses instead of replaying a stale answer.
//!
//! Tool results are recorded beside model calls, or as part of turns, so that a replay needs no tool's program, server
//! or index. This crate must not know a provider's wire format, an endpoint or a key, and must never invent an answer.
//!
//! Start reading at [`Recorder`] and [`Replayer`].

mod agent;
mod cassette;
mod choices;
mod digest;
mod entry;
mod error;
mod nearest;
mod recorder;
mod replayer;
mod similarities;
mod tools;
mod turn_events;

#[doc(no_inline)]
pub use {holodeck_backend_api as api, holodeck_model as model};

pub use agent::{AgentContext, RecordedAgent, ReplayedAgent};
pub use cassette::Cassette;
pub use choices::{RecordedChoices, ReplayedChoices};
pub use digest::{digest, file_digest};
pub use entry::{FORMAT_VERSION, request_key};
pub use error::CassetteError;
pub use recorder::{RecordMode, Recorder, Tape};
pub use replayer::Replayer;
pub use similarities::{RecordedSimilarity, ReplayedSimilarity};
pub use tools::{RecordedTools, ReplayedTools, ToolFiles, ToolSet};
