//! An agent in a temporary folder with a scripted backend, and what its run wrote.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use holodeck_backend_api::{Adaptations, AgentBackend};
use holodeck_eval::{JUDGE_PROMPTS, NoPrograms};
use holodeck_model::{
    CheckIdentities, DiskFiles, Env, GraderFiles, Redactor, ResolvedAgent, RunMetadata, TestResult,
    identify_cases,
};
use holodeck_runner::{
    Again, CurrentDeciders, FailedIn, RegradeRequest, Renew, RunControl, RunError, RunEvent, RunOutcome,
    RunSettings, RunSink, Selection, TestRequest, regrade, run_tests,
};
use holodeck_runs::{AgentRuns, LATEST, Member, RunFlags, RunUse};
use holodeck_testkit::ScriptedBackend;
use holodeck_turn::documents::{Converter, Isolation};
use holodeck_turn::{FileReader, Prices, TurnRunner};
use holodeck_yaml::load_agent;
use serde_json::Value;

/// An agent in a temporary folder.
pub(crate) struct Project {
    pub(crate) dir: tempfile::TempDir,
}

impl Project {
    /// A project with these lines after the fixed head of its YAML.
    pub(crate) fn new(tests: &str) -> Self {
        let project = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        project.write(tests);
        project
    }

    pub(crate) fn write(&self, tests: &str) {
        let head = "name: a\nmodel: {provider: openai, name: m, endpoint: \"http://127.0.0.1:9\"}\n\
                    instructions: {inline: be kind}\n";
        fs::write(self.dir.path().join("agent.yaml"), format!("{head}{tests}")).unwrap();
    }

    pub(crate) fn agent(&self) -> Arc<ResolvedAgent> {
        let load = load_agent(&self.dir.path().join("agent.yaml"), &Env::empty(), &DiskFiles);
        let loaded = load.agent.unwrap_or_else(|| panic!("{:#?}", load.diagnostics));
        loaded.agent
    }

    /// The journal of the newest run.
    pub(crate) fn latest(&self) -> PathBuf {
        let runs = AgentRuns::of(&self.agent());
        runs.find(LATEST, RunUse::Read, Member::With(&[]))
            .unwrap()
            .journal
    }

    pub(crate) fn request(&self, backend: &ScriptedBackend) -> TestRequest {
        let agent = self.agent();
        TestRequest {
            identities: identify_cases(&agent.config.test_cases, &DiskFiles).into(),
            fingerprint: [("agent".to_owned(), serde_json::to_string(&agent.config).unwrap())].into(),
            accept_changes: false,
            agent,
            agent_path: "agent.yaml".to_owned(),
            backend: Some(Arc::new(backend.clone()) as Arc<dyn AgentBackend>),
            judge: None,
            users: None,
            router: None,
            answer_loop: None,
            trial_resources: None,
            judge_steps: holodeck_model::Spent::default(),
            programs: Arc::new(NoPrograms),
            checks: self.checks(),
            replayed: None,
            selection: Selection::default(),
            turns: TurnRunner {
                files: FileReader::new(Converter::new(Isolation::None), Duration::from_mins(1)),
                prices: Prices::embedded(),
                model: "m".to_owned(),
                timeout: Some(Duration::from_mins(1)),
                timeout_source: "`execution.llm_timeout`".to_owned(),
            },
            settings: RunSettings {
                concurrency: 4,
                ..RunSettings::default()
            },
            redactor: Arc::new(Redactor::default()),
            adaptations: Adaptations::default(),
            warnings: Vec::new(),
            resume: None,
            combination: None,
            metadata: RunMetadata {
                agent_config: Value::Null,
                prompt_version: Value::Null,
                holodeck_version: "0".to_owned(),
                cli_args: Vec::new(),
                git_commit: None,
                mcp_servers: Vec::new(),
                managed_files: Vec::new(),
            },
        }
    }

    pub(crate) fn checks(&self) -> Arc<CheckIdentities> {
        let redactor = Arc::new(Redactor::default());
        Arc::new(CheckIdentities::new(
            &self.agent(),
            JUDGE_PROMPTS,
            redactor,
            GraderFiles::new(),
        ))
    }

    /// Where `--failed` looks.
    pub(crate) fn failed_in(&self, journals: impl IntoIterator<Item = PathBuf>) -> FailedIn {
        FailedIn {
            again: Again::NotPassed,
            journals: journals.into_iter().collect(),
            now: CurrentDeciders {
                agent: self.agent(),
                checks: self.checks(),
            },
            flags: RunFlags::default(),
        }
    }

    pub(crate) fn regrade_request(&self) -> RegradeRequest {
        let agent = self.agent();
        RegradeRequest {
            identities: identify_cases(&agent.config.test_cases, &DiskFiles).into(),
            agent,
            agent_path: "agent.yaml".to_owned(),
            redactor: Arc::new(Redactor::default()),
            judge: None,
            programs: Arc::new(NoPrograms),
            checks: self.checks(),
            adaptations: Adaptations::default(),
            renew: Renew::All,
            concurrency: 4,
            cli_args: Vec::new(),
        }
    }

    pub(crate) async fn regrade(&self, old: &Path) -> RunOutcome {
        let (request, control) = (self.regrade_request(), RunControl::new());
        let ended = regrade(&request, old, &control, &mut Events::default()).await;
        ended.unwrap()
    }

    pub(crate) async fn run(&self, backend: &ScriptedBackend) -> Run {
        run(self.request(backend)).await.unwrap()
    }
}

pub(crate) struct Run {
    pub(crate) outcome: RunOutcome,
    pub(crate) events: Events,
}

impl Run {
    pub(crate) fn results(&self) -> Vec<TestResult> {
        results(&self.outcome)
    }

    pub(crate) fn code(&self) -> u8 {
        self.outcome.exit.code()
    }
}

/// The cases of a run, as in its run file.
pub(crate) fn results(outcome: &RunOutcome) -> Vec<TestResult> {
    let convert = |case| {
        serde_json::from_value(serde_json::to_value(holodeck_reports::test_result(&case)).unwrap()).unwrap()
    };
    outcome.with_view(|view| view.cases().map(|case| convert(case.unwrap())).collect())
}

pub(crate) async fn run(request: TestRequest) -> Result<Run, RunError> {
    run_with(request, &RunControl::new()).await
}

pub(crate) async fn run_with(request: TestRequest, control: &RunControl) -> Result<Run, RunError> {
    let mut events = Events::default();
    let outcome = run_tests(request, control, &mut events).await?;
    Ok(Run { outcome, events })
}

/// Collects the events of a run.
#[derive(Default)]
pub(crate) struct Events(pub(crate) Vec<RunEvent>);

impl RunSink for Events {
    fn on(&mut self, event: &RunEvent) {
        self.0.push(event.clone());
    }
}

/// The run file without the values that differ between runs.
pub(crate) fn run_file(path: &Path) -> Value {
    let mut value: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    scrub(&mut value);
    value
}

fn scrub(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let changes = key == "timestamp"
                    || key == "run_id"
                    || key.ends_with("_time_ms")
                    || key.ends_with("_duration_ms")
                    || key == "latency_ms";
                if changes {
                    *value = Value::Null;
                } else {
                    scrub(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(scrub),
        _ => {}
    }
}
