//! Where the system prompt comes from.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::value::PathRef;

/// The system prompt: a file or a text, exactly one of them.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InstructionsConfig {
    /// A text file. A `---` block at its top (version, author, description, tags) is not part of the prompt.
    pub file: Option<PathRef>,
    /// The prompt itself.
    #[schemars(regex(pattern = r"\S"))]
    pub inline: Option<String>,
}
