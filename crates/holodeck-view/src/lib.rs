//! A local web page over the stored runs below a folder, and the same pages as files.
//!
//! Pages are written by `holodeck-reports`; this crate finds the runs, decides who may read them, and serves the pages. It
//! must not grade or count anything, follow links out of the folder, or open a file that a request names.
//!
//! Start reading at [`View`], then [`Catalogue`].

mod access;
mod annotations;
mod app;
mod case_files;
mod catalogue;
mod conversations;
mod export;
mod file_version;
mod folder;
mod guard;
mod label_table;
mod reader;
mod routes;
mod server;
mod summaries;
mod trash;

pub use case_files::{
    AddedCase, AgentFile, CaseFile, CaseFiles, FoundCaseFile, NewCase, NewTurn, RefusedCase,
};
pub use catalogue::Catalogue;
pub use conversations::{ConversationStore, Conversations, StoredConversation};
pub use export::{ExportError, Exported, export};
pub use server::{View, ViewError};
