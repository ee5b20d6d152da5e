#![doc = include_str!("../README.md")]

mod drive;
mod files;
mod prices;
mod record;
mod runner;

/// The crate that [`FileReader`] reads files with.
pub use holodeck_documents as documents;
/// The types of a [`TurnRecord`]'s trajectory.
pub use holodeck_events::{Ignored, Trajectory, TrajectoryEvent, TrajectoryStep};

pub use drive::{FinishedTurn, drive};
pub use files::{FileContent, FileReader, Question};
pub use prices::{PriceError, Prices};
pub use record::{TurnRecord, describe_error};
pub use runner::{TurnEnd, TurnInput, TurnRunner};
