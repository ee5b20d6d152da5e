//! Record and replay at the boundary to the model.
//!
//! A cassette is a JSON Lines file: a header, then one entry per model call. The key of an entry is a hash of
//! everything the model saw, so a changed prompt, tool or document misses instead of replaying a stale answer.
//!
//! What tools answered is kept beside it, so that a replay needs none of their programs, servers and indexes.

mod cassette;
mod entry;
mod error;
mod nearest;
mod recorder;
mod replayer;
mod tools;

pub use cassette::{Cassette, Recorded};
pub use entry::{FORMAT_VERSION, request_key};
pub use error::CassetteError;
pub use recorder::{RecordMode, Recorder, Tape};
pub use replayer::Replayer;
pub use tools::{RecordedTools, ReplayedTools, ToolSet};
