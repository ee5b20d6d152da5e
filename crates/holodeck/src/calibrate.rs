//! Compares a judge of an agent's metrics with people.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use holodeck_model::{DiskFiles, Env, EvaluationConfig, MetricConfig, Redactor, ResolvedAgent};
use holodeck_runner::{CalibratedJudge, CalibrationRequest, CalibrationRun, RunError, store_calibration};
use holodeck_yaml::{Load, LoadedAgent, load_labels};

use crate::{
    AnswerSource, Answers, OpenError, PrepareError, TestOptions,
    backends::BackendSelector,
    calibrated::calibrated_judge,
    judges::{self, AgentJudges},
    model_keys,
    prices::prices,
    test::turn_runner,
};

/// Why a judge cannot be compared with people.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CalibrateError {
    /// The metric to compare is not determined.
    #[error("{problem}")]
    Metric {
        /// What is wrong.
        problem: String,
        /// What to do.
        hint: String,
    },
    /// The judge.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
}

/// A comparison of a judge with people that is ready to start.
#[derive(Debug)]
pub struct PreparedCalibration {
    request: CalibrationRequest,
    warning: Option<String>,
    judge: CalibratedJudge,
    dir: PathBuf,
    finished: AtomicUsize,
}

/// Reads the answers that people judged in the file `labels`, and prepares the judge of the metric named `metric`, or
/// of the only judged one. The answers are absent if the file has errors, which are in the [`Load`].
pub fn prepare_calibration(
    agent: LoadedAgent,
    env: &Env,
    options: &TestOptions,
    labels: &Path,
    metric: Option<&str>,
) -> Result<(Option<PreparedCalibration>, Load), CalibrateError> {
    let metric = find_metric(&agent.agent, metric, |metric| {
        calibrated_judge(&agent.agent, metric, env, &Redactor::default())
    })?;
    let (answers, load) = load_labels(labels, &agent.config.test_cases, env, &DiskFiles);
    if load.has_errors() {
        return Ok((None, load));
    }
    // Only the judges of this metric are opened.
    let mut only = ResolvedAgent::clone(&agent.agent);
    only.config.test_cases.clear();
    only.config.evaluations = Some(EvaluationConfig {
        metrics: vec![metric.clone()],
        model: only.config.evaluations.and_then(|evaluations| evaluations.model),
        optimizer: None,
    });
    let agent = LoadedAgent {
        agent: Arc::new(only),
        places: agent.places,
    };
    let open = |error: OpenError| CalibrateError::Prepare(error.into());
    // A recording has the questions of the test cases, not of these answers.
    let answers_of_models =
        Answers::open(&AnswerSource::Live, None, &agent, env).map_err(|error| open(error.into()))?;
    let redactor = answers_of_models.redactor();
    let prices = prices(&agent, env, options.open.prices.as_deref()).map_err(|error| open(error.into()))?;
    let turns = turn_runner(&agent, env, options, prices.clone())?;
    let backends = BackendSelector::new(env.clone(), answers_of_models).prices(prices);
    model_keys::check_judges(&agent, None, &backends).map_err(|error| open(error.into()))?;
    let judge = AgentJudges::settings(&agent.agent, None, &backends, &turns);
    let identity = calibrated_judge(&agent.agent, &metric, env, &redactor);
    let (judge, identity) = judge
        .zip(identity)
        .ok_or_else(|| no_judged_metric("the agent has no metric that a model judges"))?;
    let warning = judges::warn_own_model(&agent, None);
    let request = CalibrationRequest {
        metric,
        answers,
        judge,
        redactor,
    };
    let prepared = PreparedCalibration {
        request,
        warning,
        judge: identity,
        dir: agent.dir.clone(),
        finished: AtomicUsize::new(0),
    };
    Ok((Some(prepared), load))
}

impl PreparedCalibration {
    /// What a user should know before.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// Asks the judge.
    pub async fn run(&self) -> Result<CalibrationRun, RunError> {
        holodeck_runner::calibrate(&self.request, &self.finished).await
    }

    /// How many answers were judged so far, and how many there are.
    pub fn progress(&self) -> (usize, usize) {
        (self.finished.load(Ordering::Relaxed), self.request.answers.len())
    }

    /// Stores a complete result beside the agent file, for metrics with `require_calibrated`. Returns the file; `None`
    /// if the result is not complete.
    pub fn store(&self, run: &CalibrationRun) -> io::Result<Option<PathBuf>> {
        store_calibration(run, &self.judge, &self.dir)
    }
}

fn no_judged_metric(problem: &str) -> CalibrateError {
    CalibrateError::Metric {
        problem: problem.to_owned(),
        hint:
            "add one to `evaluations.metrics`, as in `{type: geval, name: Helpful, criteria: Does it help?}`"
                .to_owned(),
    }
}

/// The metric of this name, or the only one, among those of answers that a model judges.
fn find_metric(
    agent: &ResolvedAgent,
    name: Option<&str>,
    judge_of: impl Fn(&MetricConfig) -> Option<CalibratedJudge>,
) -> Result<MetricConfig, CalibrateError> {
    let mut candidates: Vec<&MetricConfig> = Vec::new();
    let shared = agent.config.evaluations.as_ref();
    let shared = shared.map_or(&[][..], |evaluations| &evaluations.metrics);
    let own = agent.config.test_cases.iter().flat_map(|case| {
        let of_turns = case.turns.iter().flat_map(|turn| &turn.evaluations);
        case.evaluations.iter().chain(of_turns)
    });
    for metric in shared.iter().chain(own) {
        let judged = metric.enabled() && metric.judging().is_some();
        let of_answers = !matches!(metric, MetricConfig::GoalSuccess(_));
        let known = || candidates.iter().any(|other| judge_of(other) == judge_of(metric));
        if judged && of_answers && name.is_none_or(|name| name == metric.name()) && !known() {
            candidates.push(metric);
        }
    }
    match (candidates.as_slice(), name) {
        ([metric], _) if !metric.gates() => Err(CalibrateError::Metric {
            problem: format!(
                "metric `{}` has no `threshold`, so it lets no answer pass or fail",
                metric.name()
            ),
            hint: "add a threshold, as in `threshold: 0.7`; the calibration then suggests a better one"
                .to_owned(),
        }),
        ([metric], _) => Ok((*metric).clone()),
        ([], Some(name)) => Err(no_judged_metric(&format!(
            "the agent has no metric `{name}` of answers that a model judges"
        ))),
        ([], None) => Err(no_judged_metric(
            "the agent has no metric of answers that a model judges",
        )),
        (_, Some(name)) => Err(CalibrateError::Metric {
            problem: format!("several metrics with different settings are named `{name}`"),
            hint: "give them different names".to_owned(),
        }),
        (several, None) => {
            let names: Vec<String> = several
                .iter()
                .map(|metric| format!("`{}`", metric.name()))
                .collect();
            Err(CalibrateError::Metric {
                problem: format!("several metrics are judged: {}", names.join(", ")),
                hint: "choose one with `--metric NAME`".to_owned(),
            })
        }
    }
}
