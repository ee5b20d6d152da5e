//! Adds test cases that a person writes in a view to the files of agents.

use std::path::Path;

use holodeck_model::{Env, printable, shown_path};
use holodeck_view::{AddedCase, AgentFile, CaseFile, CaseFiles, FoundCaseFile, NewCase, RefusedCase};
use holodeck_yaml::LoadedAgent;

use crate::{
    agent::{environment::environment, secrets::redactor},
    load::load,
    test::saved_case::{Draft, SaveCaseError, SavedTurn, free_name, is_taken, read_case_file, usable, write},
};

/// The files of agents on this machine.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "it has no state")]
pub struct AgentCaseFiles;

impl CaseFiles for AgentCaseFiles {
    fn find(&self, agent: &AgentFile, name: &str) -> Result<FoundCaseFile, String> {
        let opened = Opened::read(agent).map_err(|error| error.to_string())?;
        let file = read_case_file(&opened.agent, &agent.path).map_err(|error| error.to_string())?;
        Ok(FoundCaseFile {
            file,
            free_name: free_name(&opened.agent, name),
        })
    }

    fn add(
        &self,
        agent: &AgentFile,
        case: &NewCase,
        accept: &dyn Fn(&CaseFile) -> Result<(), String>,
    ) -> Result<AddedCase, RefusedCase> {
        let refused = |error: SaveCaseError, block: Option<String>| RefusedCase {
            why: error.to_string(),
            block,
        };
        let Opened { agent: loaded, env } = Opened::read(agent).map_err(|error| refused(error, None))?;
        let draft = draft(&loaded, &env, case).map_err(|error| refused(error, None))?;
        let block = draft.to_paste(&loaded, &agent.path);
        let saved = write(&loaded, &agent.path, &env, draft, Vec::new(), accept).map_err(|error| {
            // Where the person can act on the file itself.
            let block = match error {
                SaveCaseError::Table { .. } | SaveCaseError::Edit { .. } | SaveCaseError::Io { .. } => {
                    Some(block)
                }
                _ => None,
            };
            refused(error, block)
        })?;
        Ok(AddedCase {
            name: saved.name,
            path: saved.path,
            line: saved.line,
            notes: saved.notes,
        })
    }
}

/// An agent with the environment that its file is read in.
struct Opened {
    agent: LoadedAgent,
    env: Env,
}

impl Opened {
    fn read(file: &AgentFile) -> Result<Self, SaveCaseError> {
        let unusable = |problem| SaveCaseError::Unusable { problem };
        let env = environment(&file.path).map_err(|error| unusable(error.to_string()))?;
        let agent = usable(load(&file.path, &env)).map_err(unusable)?;
        if agent.config.name != file.agent {
            return Err(SaveCaseError::OtherAgent {
                path: shown(&file.path),
                name: printable(&agent.config.name).into_owned(),
            });
        }
        Ok(Self { agent, env })
    }
}

fn shown(path: &Path) -> String {
    shown_path(path).display().to_string()
}

/// The case without the secrets of the agent.
fn draft(agent: &LoadedAgent, env: &Env, case: &NewCase) -> Result<Draft, SaveCaseError> {
    let redactor = redactor(agent, env);
    let mask = |text: &str| redactor.text(text).into_owned();
    let name = mask(case.name.trim());
    let is_blank = |text: &str| text.trim().is_empty();
    if is_blank(&name) {
        return Err(SaveCaseError::Blank { what: "the name" });
    }
    if case.turns.is_empty() || case.turns.iter().any(|turn| is_blank(&turn.question)) {
        return Err(SaveCaseError::Blank { what: "a question" });
    }
    if is_taken(agent, &name) {
        return Err(SaveCaseError::Exists { name });
    }
    let turns = case.turns.iter().map(|turn| SavedTurn {
        message: mask(&turn.question),
        expected: Some(mask(&turn.expected)).filter(|expected| !is_blank(expected)),
        tools: Vec::new(),
    });
    Ok(Draft {
        name,
        is_conversation: case.turns.len() > 1,
        turns: turns.collect(),
    })
}

#[cfg(test)]
mod tests;
