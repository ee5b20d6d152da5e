#![doc = include_str!("../README.md")]

mod drive;
mod files;
mod prices;
mod record;
mod runner;

/// The types of a [`TurnRecord`]'s trajectory.
pub use drive::{FinishedTurn, drive};
pub use files::{FileContent, FileReader, Question};
/// The crate that [`FileReader`] reads files with.
pub use holodeck_documents as documents;
pub use prices::{PriceError, Prices};
pub use record::{TurnRecord, describe_error};
pub use runner::{TurnEnd, TurnInput, TurnRunner};
