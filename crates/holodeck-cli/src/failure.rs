//! Why a command failed: errors of the library as a cause, details, a hint and an exit code.

use std::io;

use holodeck::{
    AnswerError, AskError, CassetteError, EnvironmentError, JUDGE_STEPS, JudgeStepsError, OpenError,
    PrepareError, TestError, ToolSetupError, UncalibratedJudges,
    backend_api::{BackendError, Explanation},
    index::{IndexError, IndexErrorKind},
    model::{Combination, closest, shell_word},
    runner::{MergeError, PlanError, RunError},
    runs::{ExitCode, JournalError, LockError, StoreError},
};

use holodeck::{OpenEventsError, RefusedTarget};

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error to show to the user.
    Problem(Problem),
    /// The output could not be written.
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

/// An error as shown to the user: the cause, the details, the next step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) exit: ExitCode,
    /// Lower case, no full stop. Empty if everything has already been shown.
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

impl From<RefusedTarget> for Problem {
    fn from(refused: RefusedTarget) -> Self {
        let problem = Self::config(refused.message);
        match refused.hint {
            Some(hint) => problem.with_hint(hint),
            None => problem,
        }
    }
}

impl From<OpenEventsError> for Problem {
    fn from(error: OpenEventsError) -> Self {
        match error {
            OpenEventsError::Target(refused) => refused.into(),
            error => Self::execution(error.to_string()),
        }
    }
}

impl From<EnvironmentError> for Problem {
    fn from(error: EnvironmentError) -> Self {
        Self::config(error.to_string())
    }
}

/// The agent of a command, as an argument for the commands that hints suggest.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) argument: String,
}

impl Subject {
    /// Converts the error of a question.
    pub(crate) fn ask(&self, error: AskError) -> Problem {
        match error {
            AskError::Open(error) => self.open(error),
            AskError::Backend(error) | AskError::Turn { error, .. } => self.backend(&error),
            other => Problem::execution(other.to_string()),
        }
    }

    /// Converts the error of opening an agent.
    pub(crate) fn open(&self, error: OpenError) -> Problem {
        match error {
            OpenError::Target(refused) => refused.into(),
            OpenError::Answers(error) => answers(&error),
            OpenError::Tools(ToolSetupError::Index(error)) => self.index(&error),
            OpenError::Tools(ToolSetupError::Tools(explanation)) => tools(explanation),
            OpenError::Tools(error @ ToolSetupError::Names(_)) => {
                problem_from_explanation(ExitCode::Config, &Explanation::new(error.to_string()))
            }
            OpenError::Tools(ToolSetupError::Identity(error)) => {
                problem_from_explanation(ExitCode::Config, &error.explanation())
            }
            OpenError::Backend(error) | OpenError::Tools(ToolSetupError::Replay(error)) => {
                self.backend(&error)
            }
            OpenError::UnknownPrice { limit, .. } => {
                let problem = Problem::config(error.to_string());
                if limit.starts_with("--") {
                    problem.with_hint("give its price with `--prices FILE`, or use `--max-tokens-total`")
                } else {
                    problem.with_hint(
                        "give its price in `prices.json` beside the agent file, or remove the limit",
                    )
                }
            }
            OpenError::Unsupported(_) | OpenError::Price(_) | OpenError::QualityLoop(_) => {
                Problem::config(error.to_string())
            }
            other => Problem::execution(other.to_string()),
        }
    }

    /// Converts the error of a run that could not start.
    pub(crate) fn prepare(&self, error: PrepareError) -> Problem {
        match error {
            PrepareError::Open(error) => self.open(error),
            PrepareError::Identity(error) => problem_from_explanation(ExitCode::Config, &error.explanation()),
            PrepareError::Uncalibrated(judges) => self.uncalibrated(&judges),
            PrepareError::Plan(PlanError::Journal(error)) | PrepareError::Journal(error) => {
                self.journal(&error)
            }
            PrepareError::Plan(error) => plan(&error),
            PrepareError::Run(error) => self.run(&error),
            PrepareError::JudgeSteps(error) => self.judge_steps(error),
            PrepareError::Store(error) => self.store(&error),
            PrepareError::Grader { .. } => Problem::config(error.to_string()).with_hint(
                "the module is looked for beside the agent's YAML file, then among installed packages",
            ),
            PrepareError::FlagDiffers { .. } | PrepareError::Executor(_) => {
                Problem::config(error.to_string())
            }
            other => Problem::execution(other.to_string()),
        }
    }

    /// Converts the error of judges whose steps are missing.
    pub(crate) fn judge_steps(&self, error: JudgeStepsError) -> Problem {
        match error {
            JudgeStepsError::Missing { .. } => Problem::config(error.to_string()).with_hint(format!(
                "`holodeck test steps{}` derives them and asks no agent; commit `{JUDGE_STEPS}`",
                self.argument
            )),
            JudgeStepsError::Open(error) => self.open(error),
            JudgeStepsError::Derived(error) => Problem::execution(error.to_string()),
            other => Problem::config(other.to_string()),
        }
    }

    /// Converts the error of a journal that cannot be used.
    pub(crate) fn journal(&self, error: &JournalError) -> Problem {
        let message = error.to_string();
        match error {
            JournalError::WithoutChain { .. } => Problem::config(message).with_hint(format!(
                "`holodeck test{}` runs the tests again; `holodeck test compare` without `--gate` still shows the run",
                self.argument
            )),
            JournalError::Version { .. } => Problem::config(message),
            JournalError::Broken { .. } => Problem::execution(message)
                .with_hint("`holodeck test resume RUN` asks again what does not count"),
            _ => Problem::execution(message),
        }
    }

    /// Converts the error of a name that means no run of the agent.
    pub(crate) fn store(&self, error: &StoreError) -> Problem {
        let mut problem = Problem::config(error.to_string());
        if let StoreError::SeveralMembers { members } | StoreError::NotAMember { members } = error {
            problem.details = members.iter().map(Combination::to_string).collect();
        }
        match error {
            StoreError::Io { .. } => problem.exit = ExitCode::Execution,
            StoreError::NoRuns { .. } => {
                return problem.with_hint(format!("`holodeck test{}` creates one", self.argument));
            }
            StoreError::Unreadable { .. } => {
                return problem.with_hint("name the run by its id, or move the journal away");
            }
            StoreError::OtherAgent { owner, .. } => {
                return problem.with_hint(format!("name its agent file, `{}`", owner.file()));
            }
            StoreError::SeveralMembers { .. } => {
                return problem.with_hint("name one with `--matrix PATH=VALUE`, or give its run id");
            }
            StoreError::NotAMember { members } => {
                return problem.with_hint(match members.len() {
                    0 => "the run is not one of a matrix",
                    _ => "these are the combinations",
                });
            }
            StoreError::MemberNotRun { .. } => {
                return problem.with_hint(format!(
                    "`holodeck test{} --matrix PATH=VALUE` runs it",
                    self.argument
                ));
            }
            _ => {}
        }
        problem
    }

    /// Converts the refusal of judges that are not calibrated.
    fn uncalibrated(&self, judges: &UncalibratedJudges) -> Problem {
        let mut names: Vec<&str> = judges.metrics.iter().map(|metric| metric.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let commands: Vec<String> = names
            .iter()
            .map(|name| {
                let metric = shell_word(name);
                format!(
                    "`holodeck test calibrate --labels FILE --metric {metric}{}`",
                    self.argument
                )
            })
            .collect();
        let mut lines = judges.metrics.iter().map(ToString::to_string);
        let mut problem = Problem::config(lines.next().unwrap_or_default());
        problem.details.extend(lines);
        problem.with_hint(format!(
            "{} compares the judge with labels of people and stores the result",
            commands.join(", ")
        ))
    }

    /// Converts the error of a merge that could not start.
    pub(crate) fn merge(&self, error: PrepareError) -> Problem {
        match error {
            // A shard that is not there must not look like an error of the command line.
            PrepareError::Store(error @ (StoreError::Ambiguous { .. } | StoreError::OtherAgent { .. })) => {
                self.store(&error)
            }
            PrepareError::Store(error) => Problem::execution(error.to_string()).with_hint(
                "give the run ids of all shards, the paths of their journals, or a folder with them",
            ),
            other => self.prepare(other),
        }
    }

    /// Converts the error of an operation on an index.
    pub(crate) fn index(&self, error: &IndexError) -> Problem {
        let exit = match error.kind {
            IndexErrorKind::Config | IndexErrorKind::Mixed => ExitCode::Config,
            IndexErrorKind::Interrupted => ExitCode::Interrupted,
            _ => ExitCode::Execution,
        };
        let mut problem = problem_from_explanation(exit, &error.explanation);
        match error.kind {
            IndexErrorKind::Mixed => {
                problem = problem.with_hint(format!(
                    "`holodeck index build --force{}` rebuilds it",
                    self.argument
                ));
            }
            IndexErrorKind::Interrupted => {
                problem = problem.with_hint("finished work is kept; the next build continues from there");
            }
            _ => {}
        }
        problem
    }

    /// Converts the error of a run that failed.
    pub(crate) fn test(&self, error: TestError) -> Problem {
        match error {
            TestError::Run(error) => self.run(&error),
            TestError::Prepare(error) => self.prepare(error),
            other => Problem::execution(other.to_string()),
        }
    }

    pub(crate) fn run(&self, error: &RunError) -> Problem {
        let message = error.to_string();
        match error {
            RunError::Backend(error) => self.backend(error),
            RunError::Plan(PlanError::Journal(error)) | RunError::Journal(error) => self.journal(error),
            RunError::Plan(error) => plan(error),
            RunError::Nothing => Problem::new(ExitCode::Nothing, message),
            RunError::Metric(_) | RunError::NotResumable { .. } => Problem::config(message),
            RunError::UnknownMetric { name, known } => {
                let meant = closest(name, known.iter().map(String::as_str));
                Problem::config(message).with_hint(match meant {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => format!("its metrics are {}", known.join(", ")),
                })
            }
            RunError::CannotKeep { metric, .. } => Problem::config(message).with_hint(format!(
                "`--metric \"{metric}\"` renews them; without `--metric` and `--errors`, every verdict is renewed"
            )),
            RunError::AgentChanged { .. } => Problem::config(message).with_hint(format!(
                "`holodeck test{0}` runs everything again; `holodeck test regrade` grades the old answers again; \
                 `--accept-changes` resumes and marks every report",
                self.argument
            )),
            RunError::Store(error) => self.store(error),
            RunError::PlanChanged { .. } => Problem::config(message).with_hint(format!(
                "`holodeck test{0}` runs everything again; `holodeck test regrade` grades the old answers again",
                self.argument
            )),
            RunError::Merge(error) => self.shards(error),
            RunError::Lock(LockError::Held { .. }) => {
                Problem::execution(message).with_hint("wait until it ends, or stop it")
            }
            _ => Problem::execution(message),
        }
    }

    fn shards(&self, error: &MergeError) -> Problem {
        let message = error.to_string();
        match error {
            MergeError::Missing { .. } => {
                Problem::execution(message).with_hint("give the journals of all shards; nothing was merged")
            }
            MergeError::Unfinished { run_id, .. } => Problem::execution(message).with_hint(format!(
                "`holodeck test resume {run_id}{}` finishes it where it ran; nothing was merged",
                self.argument
            )),
            MergeError::Twice { .. } => Problem::config(message).with_hint("name the one that counts"),
            MergeError::AgentChanged { .. } => Problem::config(message)
                .with_hint("merge with the agent file of the commit that the shards ran"),
            MergeError::Interrupted => Problem::new(ExitCode::Interrupted, message),
            _ => Problem::config(message),
        }
    }

    /// Converts the error of a backend, which has a cause, a place and in some cases a next step.
    fn backend(&self, error: &BackendError) -> Problem {
        let mut explanation = error.explanation();
        if let BackendError::Timeout { after, .. } = error {
            explanation.message = format!("{error} ({} s)", after.as_secs_f64());
        }
        let exit = match error {
            BackendError::Config { .. } => ExitCode::Config,
            _ => ExitCode::Execution,
        };
        let mut problem = problem_from_explanation(exit, &explanation);
        problem.hint = problem.hint.or_else(|| self.next_step(error));
        problem
    }

    fn next_step(&self, error: &BackendError) -> Option<String> {
        match error {
            BackendError::Init { .. } | BackendError::Provider { .. } => Some(format!(
                "`holodeck doctor{}` checks what the agent needs",
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

/// The first line is the cause, the others are details.
fn problem_from_explanation(exit: ExitCode, explanation: &Explanation) -> Problem {
    let text = explanation.to_string();
    let mut lines = text.lines();
    let mut problem = Problem::new(exit, lines.next().unwrap_or_default());
    problem.details = lines.map(|line| line.trim_start().to_owned()).collect();
    problem.hint.clone_from(&explanation.hint);
    problem
}

/// Tools that cannot be offered, one line each.
fn tools(explanation: Explanation) -> Problem {
    let text = explanation.to_string();
    Problem {
        hint: explanation.hint,
        ..Problem::execution(text)
    }
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
        PlanError::Trials { .. } => Problem::config(error.to_string())
            .with_hint("raise `--trials` (or `trials`), or lower `--min-passes` (or `min_passes`)"),
        other => Problem::execution(other.to_string()),
    }
}
