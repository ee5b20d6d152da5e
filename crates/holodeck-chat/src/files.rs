//! The files that people attach to messages, and how a model reads them.

mod attach;
mod reader;
mod search;
mod vault;

pub(crate) use reader::Attachments;
pub use reader::TextEmbedder;
pub(crate) use search::index_file;
pub use vault::{FileVault, StoredFile};
