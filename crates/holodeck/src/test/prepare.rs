//! Prepares runs of test cases, new or resumed.
//!
//! Every check that can refuse a run is made here, before the first model call. Executing and grading is the work of
//! `holodeck-runner`.

mod merge;
mod regrade;
mod settings;

use std::{borrow::Cow, collections::BTreeMap, num::NonZeroUsize, sync::Arc, time::Duration};

use holodeck_backend_api::{AgentBackend, Occasion};
use holodeck_cassette::{CassetteError, RecordMode};
use holodeck_eval::JUDGE_PROMPTS;
use holodeck_judging::JudgeSettings;
use holodeck_model::{
    CaseIdentity, CheckIdentities, Combination, DiskFiles, Env, GraderFiles, Partial, ResolvedAgent, Shard,
    SideEffectGate, Spent, TestCase, case_label, identify_cases,
};
use holodeck_runner::{
    Again, AnswerLoop, Budget, CurrentDeciders, FailedIn, OnFailure, Plan, PlanError, RunControl, RunError,
    RunOutcome, RunSink, Selection, TestRequest, TrialResources, VerdictSource, check_resumable, plan_trials,
    run_tests,
};
use holodeck_runs::{
    AgentRuns, CaseTrials, Journal, Member, RunFlags, RunUse, Sample, StoreError, StoredCombination,
    new_group,
};
use holodeck_turn::TurnRunner;
use holodeck_yaml::LoadedAgent;

use self::settings::{metadata_of_open, restore_options, settings};
use crate::{
    Answers, DryRun, OpenAgent, OpenError, OpenOptions, Preparing,
    agent::{
        fingerprint::{IdentityError, fingerprint},
        inventory::ModelRole,
        model_pool::ModelPool,
        open::CheckedAgent,
        secrets::redactor,
        telemetry::TracedRun,
        turns::turn_runner,
    },
    commands::{
        quality::AgentLoop,
        routed::{ExecutorError, Messages, task_router},
    },
    test::{
        calibrated::{UncalibratedJudges, refuse_uncalibrated},
        dry_run::estimate,
        graders::{GraderPrograms, grader_files},
        judge_steps::{self, JudgeStepsError},
    },
};

pub use merge::{PreparedMerge, prepare_merge};
pub use regrade::{PreparedRegrade, prepare_regrade};

/// The options of `holodeck test`.
#[derive(Clone, Debug, Default)]
pub struct TestOptions {
    /// Options for opening the agent.
    pub open: OpenOptions,
    /// The agent's file as given by the user.
    pub agent_path: String,
    /// Run only cases whose name matches.
    pub filter: Option<String>,
    /// Run only cases with one of these tags; all if there are none.
    pub tags: Vec<String>,
    /// Run only a sample of the cases.
    pub sample: Option<Sample>,
    /// Run at most this many cases.
    pub limit: Option<usize>,
    /// Run only the cases that did not pass last time.
    pub failed: bool,
    /// Run only the cases whose answer or verdict a change since the last runs concerns.
    pub changed: bool,
    /// Run only one part of the cases.
    pub shard: Option<Shard>,
    /// How often each case runs, instead of what the agent file says.
    pub trials: Option<u32>,
    /// How many trials of a case must pass, instead of what the agent file says.
    pub min_passes: Option<u32>,
    /// The combinations of the agent's matrix that are run together, with the identity of their group: for an agent
    /// that was loaded with one of them.
    pub matrix: Option<MatrixGroup>,
    /// The run to resume: an id, the beginning of one, `latest`, or a path.
    pub resume: Option<String>,
    /// Resume a run although the agent changed; every report mentions it.
    pub accept_changes: bool,
    /// Leave out the quality loop, as `chat` and `serve` do.
    pub without_loop: bool,
    /// Time limit of a turn.
    pub timeout: Option<Duration>,
    /// Number of cases that run at a time.
    pub parallel: Option<NonZeroUsize>,
    /// Whether the run continues after a failed case.
    pub on_failure: OnFailure,
    /// Limits on cost and tokens.
    pub budget: Budget,
    /// The command line, for the run file.
    pub cli_args: Vec<String>,
}

/// More processes of MCP servers than this at a time are worth a warning.
const MANY_PROCESSES: usize = 50;

/// The part of an agent that answers without its quality loop. Runs with and without it are never mixed.
pub(crate) const WITHOUT_LOOP: &str = "answers without the quality loop";

/// The runs of a matrix that one command starts.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct MatrixGroup {
    /// Its identity.
    pub group: String,
    /// The combinations.
    pub planned: Vec<Combination>,
}

/// Why a run can't start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrepareError {
    /// The agent cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A file that shapes the answers cannot be read.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The selection.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A flag that shapes answers differs from the one that the resumed run was started with.
    #[error("run `{run_id}` was started {}", describe_difference(*with, flag))]
    FlagDiffers {
        /// The flag.
        flag: &'static str,
        /// Whether the run was started with it.
        with: bool,
        /// The run.
        run_id: String,
    },
    /// Its routing.
    #[error(transparent)]
    Executor(#[from] ExecutorError),
    /// The run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A Python grader cannot be called.
    #[error("evaluations.metrics[{grader}]: the grader cannot be used: {reason}")]
    Grader {
        /// The grader as written.
        grader: String,
        /// Why.
        reason: String,
    },
    /// Attached files can't be searched.
    #[error("`embedding_provider` can't search attached files: {reason}")]
    FileSearch {
        /// Why.
        reason: String,
    },
    /// The steps of judges.
    #[error(transparent)]
    JudgeSteps(#[from] JudgeStepsError),
    /// A judge must be calibrated, and is not.
    #[error(transparent)]
    Uncalibrated(#[from] UncalibratedJudges),
    /// An earlier run.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An earlier run's journal.
    #[error(transparent)]
    Journal(#[from] holodeck_runs::JournalError),
}

fn describe_difference(with: bool, flag: &str) -> String {
    if with {
        format!("with another `{flag}`, so it cannot be resumed with this one")
    } else {
        format!("without `{flag}`, so it cannot be resumed with it")
    }
}

/// A run that is ready to start.
pub struct PreparedTest {
    request: TestRequest,
    open: Arc<OpenAgent>,
    plan: Plan,
    trials: Vec<CaseTrials>,
    every_case: bool,
    partial: Option<Partial>,
    /// Whether the programs of `claude.hooks` run.
    hooks: Option<String>,
}

/// Prepares everything that a run needs; an error if something is missing or unsupported.
pub async fn prepare_test(
    mut agent: LoadedAgent,
    env: &Env,
    options: &TestOptions,
) -> Result<PreparedTest, PrepareError> {
    let runs = AgentRuns::of(&agent);
    let mut options = options.clone();
    let mut warnings = Vec::new();
    let resume = options
        .resume
        .as_deref()
        .map(|name| runs.find(name, RunUse::Resume, Member::Of(agent.combination.as_ref())))
        .transpose()?
        .map(|run| run.journal);
    let journal = resume.as_deref().map(Journal::open).transpose()?;
    if let Some(journal) = &journal {
        warnings.extend(restore_options(&mut options, journal.header(), &agent)?);
    }
    if options.without_loop
        && let Some(quality) = &mut Arc::make_mut(&mut agent.agent).config.quality_loop
    {
        quality.enabled = false;
    }
    let options = &options;
    let (mut checks, files_of_graders) = check_identities(&agent, env)?;
    let parts = options
        .changed
        .then(|| {
            let answers = Answers::open(&options.open.answers, options.open.record.as_deref(), &agent, env);
            parts_of_answers(&agent, env, &answers.map_err(OpenError::from)?, options)
        })
        .transpose()?;
    let selection = Selection {
        filter: options.filter.clone(),
        tags: options.tags.clone(),
        sample: options.sample,
        limit: options.limit,
        failed_in: failed_in(&agent.agent, options, &runs, &checks, parts.as_ref())?,
        shard: options.shard,
    };
    let identities: Arc<[CaseIdentity]> = identify_cases(&agent.config.test_cases, &DiskFiles).into();
    let plan = Plan::new(&agent.config.test_cases, &identities, &selection)?;
    let planned = &plan.cases;
    let of = agent.config.test_cases.len();
    let partial = match &journal {
        Some(journal) => journal.header().partial(),
        None => (planned.len() < of).then(|| Partial {
            cases: planned.len(),
            of,
            by: selection.stored(of).describe(),
        }),
    };
    let every_case = selection.is_everything() && resume.is_none();
    match (&resume, options.shard) {
        (Some(_), _) => judge_steps::refuse_missing(&agent, Some(planned), "a resumed run")?,
        (None, Some(_)) => judge_steps::refuse_missing(&agent, Some(planned), "a shard")?,
        (None, None) => {}
    }
    let asked = Messages::of_cases(planned_cases(&agent, planned));
    let checked =
        CheckedAgent::check_others(agent, env, Occasion::Test, options.open.clone(), Some(planned))?;
    let mut checked = checked.check_answers(asked).await?;
    if options.budget.max_cost_usd.is_some() {
        checked.require_prices("--max-cost-usd", &ModelRole::PRICED)?;
    }
    let replayed = checked.answers().replayed();
    let recorded = checked
        .answers()
        .check_model(&checked.agent, &options.open.answers);
    recorded.map_err(OpenError::from)?;
    refuse_uncalibrated(
        &checked.agent,
        &checked.agent.places,
        Some(planned),
        env,
        &checked.answers().redactor(),
        source_of_verdicts(checked.answers()),
    )?;
    let settings = settings(&checked.agent, options, replayed.as_ref());
    // A resumed run keeps those that its journal names.
    let trials = match &resume {
        None => plan_trials(&checked.agent, planned, &settings.flags)?,
        Some(_) => Vec::new(),
    };
    let turns = turn_runner(&checked.agent, env, options.timeout, checked.prices().clone())?;
    let mut steps_spent = Spent::default();
    if options.open.preparing != Preparing::Plan {
        let backends = checked.backends().clone();
        let derived;
        (derived, steps_spent) =
            judge_steps::derive_missing(&mut checked.agent, Some(planned), &backends, &turns).await?;
        if let Some(note) = judge_steps::note(&derived) {
            warnings.push(note);
            checks = check_identities(&checked.agent, env)?.0;
        }
    }
    let fingerprint = parts_of_answers(&checked.agent, env, checked.answers(), options)?;
    warnings.extend(plan.earlier.notes(&fingerprint));
    if let Some(journal) = &journal {
        // Checked before servers are started and indexes are built.
        check_resumable(journal, runs.owner(), &fingerprint, options.accept_changes)?;
    }
    // Before servers are started and indexes are built. A shard without cases is a run, which is merged with the others; and what
    // warnings say about an empty plan, such as a run that cannot be read, is shown by the run.
    let is_whole = resume.is_none() && options.shard.is_none();
    if planned.is_empty() && is_whole && warnings.is_empty() && options.open.preparing != Preparing::Plan {
        return Err(RunError::Nothing.into());
    }
    let programs = GraderPrograms::new(&checked.agent.dir, env, files_of_graders);
    let callable = programs.check(&checked.agent, Some(planned)).await;
    callable.map_err(|(grader, reason)| PrepareError::Grader { grader, reason })?;
    let redactor = checked.answers().redactor();
    let adaptations = checked.answers().adaptations();
    let hooks = checked.hooks_note();
    let open = Arc::new(Box::pin(checked.open()).await?);
    warnings.extend_from_slice(open.warnings());
    let (router, agent_warnings) = match task_router(open.agent(), env, planned) {
        Ok(router) => router,
        Err(error) => {
            let _ = open.close().await;
            return Err(ExecutorError::from(error).into());
        }
    };
    let gate = options.open.side_effects;
    let pool = ModelPool::new(open.agent(), open.backends());
    let judges = pool.judges(&turns);
    let executors = executors(&open, env, options.timeout, (&turns, &judges, gate));
    let (backend, answer_loop) = match executors {
        Ok(executors) => executors,
        Err(error) => {
            // What was started ends with the process otherwise.
            let _ = open.close().await;
            return Err(error);
        }
    };
    warnings.extend(agent_warnings);
    warn_of_processes(&open, &trials);
    let metadata = metadata_of_open(&open, options);
    let request = TestRequest {
        agent: Arc::clone(open.agent()),
        agent_path: options.agent_path.clone(),
        identities,
        fingerprint,
        accept_changes: options.accept_changes,
        backend,
        judge: pool.has_judges(Some(planned)).then_some(judges),
        answer_loop,
        trial_resources: open
            .trials()
            .cloned()
            .map(|trials| trials as Arc<dyn TrialResources>),
        users: pool.users(Some(planned), &turns),
        router,
        judge_steps: steps_spent,
        programs,
        checks,
        replayed,
        selection,
        turns,
        settings,
        redactor,
        adaptations,
        warnings,
        resume,
        combination: stored(&open, options),
        metadata,
    };
    Ok(PreparedTest {
        request,
        open,
        plan,
        trials,
        every_case,
        partial,
        hooks,
    })
}

/// The planned cases that ask the agent.
fn planned_cases<'a>(
    agent: &'a LoadedAgent,
    planned: &'a [usize],
) -> impl Iterator<Item = Cow<'a, TestCase>> {
    let cases = planned
        .iter()
        .filter_map(|index| agent.config.test_cases.get(*index));
    cases.filter(|case| !agent.config.needs_no_model(case))
}

/// The executor of the cases, if any of them asks the agent, and the loop that improves its answers.
#[expect(clippy::type_complexity, reason = "the two parts of a request that answer")]
fn executors(
    open: &Arc<OpenAgent>,
    env: &Env,
    timeout: Option<Duration>,
    (turns, judges, gate): (&TurnRunner, &JudgeSettings, SideEffectGate),
) -> Result<(Option<Arc<dyn AgentBackend>>, Option<Arc<dyn AnswerLoop>>), PrepareError> {
    if !open.is_asked() {
        return Ok((None, None));
    }
    let executor = open.executor(env, Occasion::Test, timeout)?;
    let answer_loop = AgentLoop::new(open, &executor, turns, judges.clone(), (Occasion::Test, gate));
    let answer_loop = answer_loop.map_err(OpenError::from)?;
    let answer_loop = answer_loop.map(|answer_loop| Arc::new(answer_loop) as Arc<dyn AnswerLoop>);
    Ok((Some(executor), answer_loop))
}

/// Warns if the servers of all trials together are more processes than the machine may have room for.
fn warn_of_processes(open: &OpenAgent, trials: &[CaseTrials]) {
    let most = trials.iter().map(|trials| trials.count).max().unwrap_or(1);
    let per_trial = open.trials().map_or(0, |trials| trials.processes());
    let processes = per_trial.saturating_mul(usize::try_from(most).unwrap_or(usize::MAX));
    if most > 1 && processes > MANY_PROCESSES {
        tracing::warn!(
            "each of the {most} trials has MCP servers of its own, up to {processes} processes at a time; with \
             `share: trials` on an MCP tool all trials use the same server"
        );
    }
}

fn source_of_verdicts(answers: &Answers) -> VerdictSource {
    match answers.replayed() {
        Some(_) => VerdictSource::Recorded,
        None => VerdictSource::Live,
    }
}

/// The identities of an agent's checks, and the files of its graders as they are now.
fn check_identities(
    agent: &LoadedAgent,
    env: &Env,
) -> Result<(Arc<CheckIdentities>, GraderFiles), PrepareError> {
    let files = grader_files(agent).map_err(|error| error.located(|field| agent.locate(field)))?;
    // The secrets of a recording do not count: the same file has the same identities, replayed or not.
    let redactor = redactor(agent, env);
    let checks = CheckIdentities::new(agent, JUDGE_PROMPTS, redactor, files.clone());
    Ok((Arc::new(checks), files))
}

/// The journal's form of the agent's combination of its matrix.
fn stored(open: &OpenAgent, options: &TestOptions) -> Option<StoredCombination> {
    let values = open.agent().combination.clone()?;
    let group = options.matrix.clone().unwrap_or_else(|| MatrixGroup {
        group: new_group(),
        planned: vec![values.clone()],
    });
    Some(StoredCombination {
        values,
        group: group.group,
        planned: group.planned,
    })
}

/// Each part that shapes the answers of a run, with its digest.
fn parts_of_answers(
    agent: &LoadedAgent,
    env: &Env,
    answers: &Answers,
    options: &TestOptions,
) -> Result<BTreeMap<String, String>, PrepareError> {
    let parts = fingerprint(agent, env, answers);
    let mut parts = parts.map_err(|error| error.located(|field| agent.locate(field)))?;
    if options.without_loop {
        parts.insert(WITHOUT_LOOP.to_owned(), "1".to_owned());
    }
    Ok(parts)
}

/// The journals that `--failed` and `--watch` read, the latter with the parts of the agent now: those of the same combination of the matrix. If that was never run, no case has
/// passed, so there is no restriction.
fn failed_in(
    agent: &Arc<ResolvedAgent>,
    options: &TestOptions,
    runs: &AgentRuns,
    checks: &Arc<CheckIdentities>,
    again: Option<&BTreeMap<String, String>>,
) -> Result<Option<FailedIn>, StoreError> {
    let again = match again {
        Some(parts) => Again::Changed { agent: parts.clone() },
        None if options.failed => Again::NotPassed,
        None => return Ok(None),
    };
    let journals = runs.journals_of(agent.combination.as_ref())?;
    Ok((!journals.is_empty()).then(|| FailedIn {
        journals,
        now: CurrentDeciders {
            agent: Arc::clone(agent),
            checks: Arc::clone(checks),
        },
        flags: RunFlags {
            trials: options.trials,
            min_passes: options.min_passes,
            ..RunFlags::default()
        },
        again,
    }))
}

impl PreparedTest {
    /// A preview of the run, with the estimated cost.
    pub fn dry_run(&self) -> DryRun {
        let live = self.request.replayed.is_none();
        let estimate = live.then(|| {
            estimate(
                &self.request.agent,
                &self.plan,
                &self.trials,
                &self.request.turns.prices,
            )
        });
        let cases = &self.request.agent.config.test_cases;
        let labels = self.plan.cases.iter();
        DryRun {
            labels: labels
                .map(|&index| case_label(cases.name(index), index))
                .collect(),
            plan: self.plan.clone(),
            trials: self.trials.clone(),
            estimate,
            hooks: self.hooks.clone(),
        }
    }

    /// Set if the run has only some of the cases of the file.
    pub fn partial(&self) -> Option<Partial> {
        self.partial.clone()
    }

    /// The agent.
    pub fn agent(&self) -> &ResolvedAgent {
        &self.request.agent
    }

    /// Runs the cases. A recording is saved regardless of the verdicts.
    pub async fn run(self, control: &RunControl, sink: &mut dyn RunSink) -> Result<RunOutcome, TestError> {
        let Self {
            request,
            open,
            every_case,
            plan,
            trials: _,
            partial: _,
            hooks: _,
        } = self;
        // The run creates its own plan, and with many cases two plans need much memory.
        drop(plan);
        let telemetry = open.telemetry().clone();
        let mut sink = TracedRun {
            telemetry,
            regrades: false,
            sink,
        };
        let outcome = run_tests(request, control, &mut sink).await;
        let answers = open.answers().clone();
        let closing = control.within(open.close()).await;
        // Only a complete run may remove old calls from a recording.
        let is_complete = every_case && outcome.as_ref().is_ok_and(RunOutcome::is_complete);
        answers.finish(if is_complete {
            RecordMode::Replace
        } else {
            RecordMode::Merge
        })?;
        let outcome = outcome?;
        closing.transpose().map_err(RunError::from)?;
        Ok(outcome)
    }
}

/// Why a run was aborted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TestError {
    /// The run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The recording.
    #[error(transparent)]
    Cassette(#[from] CassetteError),
    /// The preparation of judges.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
}
