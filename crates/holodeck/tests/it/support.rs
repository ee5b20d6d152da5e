//! A temporary project folder with an agent, on which these tests call the public API.

use std::{fs, path::PathBuf};

use holodeck::{
    PrepareError, TestOptions,
    model::Env,
    prepare_test,
    runner::{RunControl, RunOutcome},
    yaml::LoadedAgent,
};

/// An agent in a folder of its own.
pub(crate) struct Project {
    dir: tempfile::TempDir,
    pub(crate) env: Env,
}

impl Project {
    pub(crate) fn new(yaml: &str) -> Self {
        let project = Self {
            dir: tempfile::tempdir().unwrap(),
            env: Env::empty(),
        };
        fs::write(project.path("agent.yaml"), yaml).unwrap();
        project
    }

    /// An agent behind `endpoint` with one check and these cases.
    pub(crate) fn asking(endpoint: &str, cases: &str) -> Self {
        Self::new(&format!(
            "name: a\nmodel: {{provider: openai, name: m, endpoint: \"{endpoint}\"}}\n\
             instructions: {{inline: Be kind.}}\n\
             evaluations: {{metrics: [{{type: standard, metric: contains}}]}}\n\
             test_cases:\n{cases}"
        ))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn make_executable(&self, name: &str) {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(self.path(name), mode).unwrap();
    }

    pub(crate) fn agent(&self) -> LoadedAgent {
        let load = holodeck::load(&self.path("agent.yaml"), &self.env);
        load.agent.unwrap_or_else(|| panic!("{:#?}", load.diagnostics))
    }

    pub(crate) async fn test(&self, options: TestOptions) -> Result<RunOutcome, PrepareError> {
        // Many tests run several of these futures.
        let prepared = Box::pin(prepare_test(self.agent(), &self.env, &options)).await?;
        Ok(prepared.run(&RunControl::new(), &mut ()).await.unwrap())
    }
}
