use std::io;

use holodeck::{
    AnswerError, AskError, CassetteError, EnvironmentError, PrepareError, TestError, ToolSetupError,
    backend_api::BackendError,
    index::{IndexError, IndexErrorKind},
    runner::{ExitCode, LockError, PlanError, RunError, StoreError},
};

/// Why a command ended without its answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something the person should know.
    Problem(Problem),
    /// Our own output could not be written.
    Output(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

/// What went wrong, as a person reads it: the cause, what is known about it, the next step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) exit: ExitCode,
    /// Lower case, no full stop. Empty when all has been said.
    pub(crate) message: String,
    pub(crate) details: Vec<String>,
    pub(crate) hint: Option<String>,
}

impl Problem {
    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Config, message)
    }

    pub(crate) fn execution(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Execution, message)
    }

    pub(crate) fn new(exit: ExitCode, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            details: Vec::new(),
            hint: None,
        }
    }

    pub(crate) fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.details.push(detail.into());
        self
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<EnvironmentError> for Problem {
    fn from(error: EnvironmentError) -> Self {
        Self::config(error.to_string())
    }
}

/// The agent a command is about, as an argument of the command one may type next.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) argument: String,
}

impl Subject {
    /// A question that was not answered.
    pub(crate) fn ask(&self, error: AskError) -> Problem {
        match error {
            AskError::Unbuilt(error) => Problem::config(error.to_string()),
            AskError::Answers(error) => answers(&error),
            AskError::Tools(ToolSetupError::Index(error)) => self.index(&error),
            AskError::Tools(error @ ToolSetupError::Names(_)) => told(ExitCode::Config, &error.to_string()),
            AskError::Backend(error) | AskError::Turn { error, .. } => self.backend(&error),
            other => Problem::execution(other.to_string()),
        }
    }

    /// A run that can't begin.
    pub(crate) fn prepare(&self, error: PrepareError) -> Problem {
        match error {
            PrepareError::Answers(error) => answers(&error),
            PrepareError::Tools(ToolSetupError::Index(error)) => self.index(&error),
            PrepareError::Tools(error @ ToolSetupError::Names(_)) => {
                told(ExitCode::Config, &error.to_string())
            }
            PrepareError::Backend(error) | PrepareError::Tools(ToolSetupError::Replay(error)) => {
                self.backend(&error)
            }
            PrepareError::Plan(error) => plan(&error),
            PrepareError::UnknownPrice { .. } => Problem::config(error.to_string())
                .with_hint("give its price with `--prices FILE`, or use `--max-tokens-total`"),
            PrepareError::Store(StoreError::Io { .. }) => Problem::execution(error.to_string()),
            PrepareError::Store(StoreError::NoRuns { .. }) => Problem::config(error.to_string())
                .with_hint(format!("`holodeck test{}` makes one", self.argument)),
            PrepareError::Store(_)
            | PrepareError::Unbuilt(_)
            | PrepareError::Price(_)
            | PrepareError::Cassette(_)
            | PrepareError::FlagDiffers { .. } => Problem::config(error.to_string()),
            other => Problem::execution(other.to_string()),
        }
    }

    /// Something that can't be done with an index.
    pub(crate) fn index(&self, error: &IndexError) -> Problem {
        let exit = match error.kind {
            IndexErrorKind::Config | IndexErrorKind::Mixed => ExitCode::Config,
            IndexErrorKind::Interrupted => ExitCode::Interrupted,
            _ => ExitCode::Execution,
        };
        let mut problem = told(exit, &error.to_string());
        match error.kind {
            IndexErrorKind::Mixed => {
                problem = problem.with_hint(format!(
                    "`holodeck index build --force{}` builds it anew",
                    self.argument
                ));
            }
            IndexErrorKind::Interrupted => {
                problem = problem.with_hint("what is finished is kept; the next build goes on from there");
            }
            _ => {}
        }
        problem
    }

    /// A run that broke off.
    pub(crate) fn test(&self, error: TestError) -> Problem {
        match error {
            TestError::Run(error) => self.run(&error),
            other => Problem::execution(other.to_string()),
        }
    }

    pub(crate) fn run(&self, error: &RunError) -> Problem {
        let told = error.to_string();
        match error {
            RunError::Backend(error) => self.backend(error),
            RunError::Plan(error) => plan(error),
            RunError::Nothing => Problem::new(ExitCode::Nothing, told),
            RunError::Metric(_) | RunError::NotResumable { .. } => Problem::config(told),
            RunError::AgentChanged { .. } => Problem::config(told).with_hint(format!(
                "`holodeck test{0}` runs everything again; `holodeck test regrade` grades the old answers again; \
                 `--accept-changes` resumes and marks every report",
                self.argument
            )),
            RunError::PlanChanged { .. } => Problem::config(told).with_hint(format!(
                "`holodeck test{0}` runs everything again; `holodeck test regrade` grades the old answers again",
                self.argument
            )),
            RunError::Lock(LockError::Held { .. }) => {
                Problem::execution(told).with_hint("wait until it ends, or end it")
            }
            _ => Problem::execution(told),
        }
    }

    /// A backend tells the cause, the place and, where it knows one, the next step.
    fn backend(&self, error: &BackendError) -> Problem {
        let told = match error {
            BackendError::Timeout { after, .. } => format!("{error} ({} s)", after.as_secs_f64()),
            _ => error.to_string(),
        };
        let exit = match error {
            BackendError::Config { .. } => ExitCode::Config,
            _ => ExitCode::Execution,
        };
        let mut problem = self::told(exit, &told);
        problem.hint = problem.hint.or_else(|| self.next_step(error));
        problem
    }

    fn next_step(&self, error: &BackendError) -> Option<String> {
        match error {
            BackendError::Init { .. } | BackendError::Provider { .. } => Some(format!(
                "`holodeck doctor{}` looks at what the agent needs",
                self.argument
            )),
            BackendError::Timeout { .. } => {
                Some("`--timeout SECONDS` or `execution.llm_timeout` gives it more time".to_owned())
            }
            BackendError::ReplayMiss { .. } => {
                Some("record again: `--live --record FILE`; or undo what changed".to_owned())
            }
            _ => None,
        }
    }
}

/// The cause on the first line, what is known on the others, and after an empty one the next step.
fn told(exit: ExitCode, text: &str) -> Problem {
    let (told, hint) = match text.split_once("\n\nhint: ") {
        Some((told, hint)) => (told, Some(hint.trim_end().to_owned())),
        None => (text, None),
    };
    let mut lines = told.lines();
    let mut problem = Problem::new(exit, lines.next().unwrap_or_default());
    problem.details = lines.map(|line| line.trim_start().to_owned()).collect();
    problem.hint = hint;
    problem
}

fn answers(error: &AnswerError) -> Problem {
    let problem = Problem::config(error.to_string());
    match error {
        AnswerError::Cassette(CassetteError::Version { .. }) => {
            problem.with_hint("record again: `--live --record FILE`")
        }
        AnswerError::Cassette(_) => problem.with_hint("`--live` asks the endpoint; `--record FILE` records"),
        _ => problem,
    }
}

fn plan(error: &PlanError) -> Problem {
    match error {
        PlanError::Filter { .. } => Problem::config(error.to_string()),
        other => Problem::execution(other.to_string()),
    }
}
