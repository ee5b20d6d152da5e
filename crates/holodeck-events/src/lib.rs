//! Runs of agents as recorded events.
//!
//! [`record`] takes the stream of a turn, lets a [`RunRecorder`] turn it into events, has an [`EventStore`] number and
//! keep them, and delivers what is kept. [`StreamChecker`] holds any recording against the invariants; [`history`] and
//! [`execution_result`] are folds over it.

mod book;
mod check;
mod draft;
mod drive;
mod fold;
mod lane;
mod recorder;
mod source;
mod store;
mod terminal;

pub use check::{Invariant, StreamChecker, View, Violation, replay_violations};
pub use draft::Draft;
pub use drive::{Delivery, EventSink, RecordError, RecordedRun, Recording, TransientEvent};
pub use fold::{agent_execution_result, execution_result, history};
pub use recorder::{Ignored, NewRun, RunRecorder};
pub use source::{Clock, Ids, RandomIds, SystemClock};
pub use store::{EventStore, MemoryStore, StoreError, StoredEvent};
