//! A skill: a folder with instructions and an optional script.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A skill, described in the `SKILL.md` of its folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SkillDoc {
    /// Its name: lower-case letters, digits and hyphens.
    pub name: String,
    /// Its purpose, and when to use it.
    pub description: String,
    /// The tools it may use; `None`: all of the agent.
    pub allowed_tools: Option<Vec<String>>,
    /// Its folder.
    pub folder: PathBuf,
    /// The instructions below the front matter.
    pub instructions: String,
    /// The program that executes it; `None`: a model follows the instructions.
    pub script: Option<PathBuf>,
}

impl SkillDoc {
    /// How the name of a tool that runs a skill begins.
    pub const TOOL_PREFIX: &str = "skill__";

    /// The name of the tool that runs it, as in `skill__release-notes`.
    pub fn tool_name(&self) -> String {
        format!("{}{}", Self::TOOL_PREFIX, self.name)
    }
}
