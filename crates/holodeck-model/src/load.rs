//! From a path to an agent, with every problem on the way.

use std::path::Path;

use crate::{Diagnostic, Env, Files, LoadedAgent, Sources};

/// What loading gives: the agent unless there was an error, every problem found, and the texts for showing them.
#[derive(Clone, Debug)]
pub struct Load {
    /// The agent; absent if any diagnostic is an error.
    pub agent: Option<LoadedAgent>,
    /// Every problem, in the order of the files.
    pub diagnostics: Vec<Diagnostic>,
    /// The files that were read.
    pub sources: Sources,
}

impl Load {
    /// Whether something must be fixed before a run.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }
}

/// Loads an agent file with its layers and the files it names.
pub fn load_agent(path: &Path, _env: &Env, _files: &dyn Files) -> Load {
    let diagnostic = Diagnostic::error(
        crate::Code::UnreadableFile,
        format!("cannot read `{}`: loading is not built yet", path.display()),
    );
    Load {
        agent: None,
        diagnostics: vec![diagnostic],
        sources: Sources::default(),
    }
}
