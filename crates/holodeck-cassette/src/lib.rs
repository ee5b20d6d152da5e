//! Record and replay at the boundary to the model.
//!
//! A cassette is a JSON Lines file: a header, then one entry per model call, or per turn where the model is called by
//! someone else (an agent's own program). The key of an entry is a hash of everything the model saw, so a changed prompt,
//! tool or document misses instead of replaying a stale answer.
//!
//! What tools answered is kept beside model calls, and is a part of turns, so that a replay needs none of their programs,
//! servers and indexes.

mod agent;
mod cassette;
mod choices;
mod digest;
mod entry;
mod error;
mod nearest;
mod recorder;
mod replayer;
mod tools;
mod turn_events;

pub use agent::{AgentSeen, RecordedAgent, ReplayedAgent};
pub use cassette::{Cassette, Recorded};
pub use choices::{RecordedChoices, ReplayedChoices};
pub use digest::{digest, file_digest};
pub use entry::{FORMAT_VERSION, request_key};
pub use error::CassetteError;
pub use recorder::{RecordMode, Recorder, Tape};
pub use replayer::Replayer;
pub use tools::{RecordedTools, ReplayedTools, ToolFiles, ToolSet};
