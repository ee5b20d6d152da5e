//! A specialist agent, described in a Markdown file.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A specialist agent, described in a Markdown file with front matter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentDoc {
    /// Its name: `name` of the front matter, else the file's stem.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The file.
    pub path: PathBuf,
    /// Its tools as written; `None`: all tools of the agent.
    pub tools: Option<Vec<String>>,
    /// A model that overrides the agent's.
    pub model: Option<String>,
    /// Its subject.
    pub category: Option<String>,
    /// Whether it plans or wraps a tool.
    pub tier: Tier,
    /// Whether it is a core agent.
    pub core: bool,
    /// Words or phrases of tasks for it.
    pub triggers: Vec<String>,
    /// Commands for it.
    pub commands: Vec<String>,
    /// Files that it is for.
    pub globs: Vec<String>,
    /// Words that raise its score.
    pub boosts: Option<Boost>,
    /// How it thinks.
    pub mindset: Option<String>,
    /// What it looks at.
    pub focus_areas: Vec<FocusArea>,
    /// What it does.
    pub key_actions: Vec<String>,
    /// What it produces.
    pub outputs: Vec<String>,
    /// What it does without asking.
    pub will: Vec<String>,
    /// What it never does.
    pub will_not: Vec<String>,
    /// The text below the front matter.
    pub body: String,
}

/// What a specialist looks at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FocusArea {
    /// The name.
    pub name: String,
    /// What belongs to it.
    pub keywords: Vec<String>,
}

/// Words that raise the score of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Boost {
    /// The words; one of them is enough.
    pub keywords: Vec<String>,
    /// What is added to the score.
    pub amount: f64,
}

/// The rank of a specialist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// Plans complex tasks.
    Strategist,
    /// Applies rules of thumb.
    #[default]
    HeuristicWrapper,
}
