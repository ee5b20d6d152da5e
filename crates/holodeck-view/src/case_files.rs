//! The files that have the test cases of agents, as a view needs them. The facade, which reads agents, implements it.

use std::{fmt, path::PathBuf};

/// Adds test cases to the files of agents.
pub trait CaseFiles: fmt::Debug + Send + Sync {
    /// The file that has the test cases of an agent, with a name for a new case.
    fn find(&self, agent: &AgentFile, name: &str) -> Result<FoundCaseFile, String>;

    /// Adds a case and keeps everything else in the file, unless `accept` declines the file when it sees it.
    fn add(
        &self,
        agent: &AgentFile,
        case: &NewCase,
        accept: &dyn Fn(&CaseFile) -> Result<(), String>,
    ) -> Result<AddedCase, RefusedCase>;
}

/// The file of an agent, as a run or a conversation names it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AgentFile {
    /// The file.
    pub path: PathBuf,
    /// The name of the agent that was in it.
    pub agent: String,
}

/// A file with test cases.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct CaseFile {
    /// The file.
    pub path: PathBuf,
    /// All of it.
    pub text: String,
}

/// The file with the test cases of an agent.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct FoundCaseFile {
    /// The file.
    pub file: CaseFile,
    /// A name that no case has.
    pub free_name: String,
}

/// A case as a person wrote it.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct NewCase {
    /// Its name.
    pub name: String,
    /// Its questions; several are a conversation.
    pub turns: Vec<NewTurn>,
}

/// A question of a new case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewTurn {
    /// The question.
    pub question: String,
    /// The right answer; blank if there is none.
    pub expected: String,
}

/// A case that was added.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct AddedCase {
    /// Its name.
    pub name: String,
    /// The file that has it.
    pub path: PathBuf,
    /// The line where it begins.
    pub line: usize,
    /// Notes for the person about it.
    pub notes: Vec<String>,
}

/// The reason why a case was not added.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct RefusedCase {
    /// The reason.
    pub why: String,
    /// The lines that a person can add by hand.
    pub block: Option<String>,
}

impl AgentFile {
    /// The file of this agent.
    pub fn new(path: PathBuf, agent: String) -> Self {
        Self { path, agent }
    }
}

impl NewCase {
    /// A case of these turns.
    pub fn new(name: String, turns: Vec<NewTurn>) -> Self {
        Self { name, turns }
    }
}

impl NewTurn {
    /// A question and the right answer, which may be blank.
    pub fn new(question: String, expected: String) -> Self {
        Self { question, expected }
    }
}
