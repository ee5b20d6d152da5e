#![doc = include_str!("../README.md")]

mod approvals;
mod asked_tools;
mod causes;
mod file_error;
mod files;
mod import;
mod live;
mod masking;
mod request;
mod run;
mod service;
mod service_options;

#[doc(no_inline)]
pub use {holodeck_backend_api as api, holodeck_events as events, holodeck_model as model};

pub use approvals::Patience;
pub use asked_tools::CheckArguments;
pub use causes::CauseSink;
pub use file_error::FileError;
pub use files::{FileVault, StoredFile, TextEmbedder};
pub use holodeck_backend_api::Thinking;
pub use import::PastTurn;
pub use masking::mask_events;
pub use request::{Concurrency, FileSearch, LOCAL_USER, RunError, RunRequest, is_own_id, own_id_prefix};
pub use run::RunHandle;
pub use service::{AgentRunService, run_graph};
pub use service_options::ServiceOptions;
