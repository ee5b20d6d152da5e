//! The owner of a run: its agent, by the name of the file and its own name.

use std::path::Path;

use holodeck_model::{Redactor, ResolvedAgent};

use serde::{Deserialize, Serialize};

use crate::JournalHeader;

/// Whose run it is: an agent is the name of its file and its own name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOwner {
    pub(crate) file: String,
    /// Absent if the agent file cannot be read.
    pub(crate) name: Option<String>,
}

impl RunOwner {
    /// The agent with this name in this file. Without a name, every agent that was in this file.
    pub fn new(agent_file: &Path, name: Option<&str>) -> Self {
        Self {
            file: file_name(agent_file),
            name: name.map(str::to_owned),
        }
    }

    /// The owner of the runs of this agent.
    pub fn of(agent: &ResolvedAgent) -> Self {
        Self::new(&agent.path, Some(&agent.config.name))
    }

    /// The owner of the run with this journal.
    pub fn of_run(header: &JournalHeader) -> Self {
        Self::stored(&header.agent_file, &header.agent_path, &header.agent_name)
    }

    /// A journal without `agent_file` has only the path that the user gave.
    pub(crate) fn stored(agent_file: &str, agent_path: &str, agent_name: &str) -> Self {
        Self {
            file: match agent_file {
                "" => file_name(Path::new(agent_path)),
                file => file.to_owned(),
            },
            name: Some(agent_name.to_owned()),
        }
    }

    /// The name of the agent file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// With secrets masked, as in files that a repository keeps.
    pub fn masked(&self, redactor: &Redactor) -> Self {
        let mask = |text: &String| redactor.text(text).into_owned();
        Self {
            file: mask(&self.file),
            name: self.name.as_ref().map(mask),
        }
    }

    /// Whether the runs of `other` are runs of this agent.
    pub fn is_same(&self, other: &Self) -> bool {
        let names = self.name.as_ref().zip(other.name.as_ref());
        self.file == other.file && names.is_none_or(|(own, other)| own == other)
    }
}

impl std::fmt::Display for RunOwner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.name {
            Some(name) => write!(f, "`{name}` in `{}`", self.file),
            None => write!(f, "the agent in `{}`", self.file),
        }
    }
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
