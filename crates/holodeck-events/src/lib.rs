#![doc = include_str!("../README.md")]

mod agent_log;
mod agui;
mod check;
mod chunks;
mod citations;
mod draft;
mod fold;
mod ignored;
mod recorder;
mod recording;
mod run_log;
mod source;
mod store;
mod terminal;
mod timed_stream;
mod trajectory;
mod turns;

#[doc(no_inline)]
pub use {holodeck_backend_api as api, holodeck_model as model};

pub use holodeck_model::{Clock, SystemClock};

pub use agui::{AgUiEvent, AgUiMetadata, AgUiOptions, AgUiRequest, AgUiRun, RunAgentInput};
pub use check::{Invariant, StreamChecker, View, Violation, replay_violations};
pub use draft::Draft;
pub use fold::{agent_execution_result, execution_result, history};
pub use ignored::Ignored;
pub use recorder::{EXECUTION_FIELD, NewRun, RunRecorder};
pub use recording::{Delivery, EventSink, RecordError, RecordedRun, Recording, RunNote};
pub use source::{Ids, RandomIds};
pub use store::{
    AlwaysApproved, ApprovalAnswer, ApprovalInfo, EventStore, MemoryStore, Resolution, Retention, RunInfo,
    SessionCursor, SessionInfo, StoreError, StoredEvent, Subscription, Swept, approval_decision,
};
#[cfg(feature = "postgres")]
pub use store::{PostgresOptions, PostgresStore};
#[cfg(feature = "sqlite")]
pub use store::{SqliteOptions, SqliteStore};
pub use timed_stream::TimedStream;
pub use trajectory::{Trajectory, TrajectoryEvent, TrajectoryStep};
pub use turns::{RecordedTurn, recorded_turns};
