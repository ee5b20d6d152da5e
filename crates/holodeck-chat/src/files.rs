//! The files that people attach to messages, and how a model reads them.

mod attach;
mod search;
mod vault;

pub(crate) use attach::Attachments;
pub use search::TextEmbedder;
pub(crate) use search::index_file;
pub use vault::{FileError, FileVault, StoredFile};
