#![doc = include_str!("../README.md")]

mod drive;
mod files;
mod prices;
mod record;
mod runner;

/// What [`FileReader`] reads with.
pub use holodeck_documents as documents;

pub use drive::{Driven, drive};
pub use files::{FileReader, Question};
pub use prices::{PriceError, Prices};
pub use record::{Redacted, TurnRecord, describe_error};
pub use runner::{TurnEnd, TurnInput, TurnRunner};
