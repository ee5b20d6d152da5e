//! The files that people attach to messages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Limits of the files that people attach to messages, and where they are kept.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AttachmentsConfig {
    /// Files of one message.
    #[schemars(range(min = 1, max = 20))]
    pub max_files: u32,
    /// Size of one file in MiB.
    #[schemars(range(min = 1, max = 1024))]
    pub max_file_mib: u32,
    /// Size of all files of one message in MiB.
    #[schemars(range(min = 1, max = 4096))]
    pub max_total_mib: u32,
    /// Files that one user may keep.
    #[schemars(range(min = 1))]
    pub max_user_files: u32,
    /// Size of all files of one user in MiB, with those that were deleted after they were sent.
    #[schemars(range(min = 1))]
    pub max_user_mib: u32,
    /// Tokens of all files of one message that the model reads; longer texts are cut.
    #[schemars(range(min = 100))]
    pub max_tokens: u32,
    /// The folder of the files, relative to the agent file.
    #[schemars(regex(pattern = r"\S"))]
    pub path: String,
}

impl Default for AttachmentsConfig {
    fn default() -> Self {
        Self {
            max_files: 20,
            max_file_mib: 20,
            max_total_mib: 50,
            max_user_files: 1_000,
            max_user_mib: 1_024,
            max_tokens: 50_000,
            path: ".holodeck/files".to_owned(),
        }
    }
}
