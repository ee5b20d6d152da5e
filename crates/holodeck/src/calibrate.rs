//! Compares a judge of an agent's metrics with people.

use std::{path::Path, sync::Arc};

use holodeck_model::{DiskFiles, Env, EvaluationConfig, MetricConfig, ResolvedAgent};
use holodeck_runner::{CalibrationRequest, CalibrationRun, RunError};
use holodeck_yaml::{Load, LoadedAgent, load_labels};

use crate::{
    AnswerSource, Answers, OpenError, PrepareError, TestOptions,
    backends::BackendSelector,
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
    let metric = find_metric(&agent.agent, metric)?;
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
    let judge = judge.ok_or_else(|| no_judged_metric("the agent has no metric that a model judges"))?;
    let warning = judges::warn_own_model(&agent, None);
    let request = CalibrationRequest {
        metric,
        answers,
        judge,
        redactor,
    };
    Ok((Some(PreparedCalibration { request, warning }), load))
}

impl PreparedCalibration {
    /// What a user should know before.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// Asks the judge.
    pub async fn run(&self) -> Result<CalibrationRun, RunError> {
        holodeck_runner::calibrate(&self.request).await
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
fn find_metric(agent: &ResolvedAgent, name: Option<&str>) -> Result<MetricConfig, CalibrateError> {
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
        let known = || candidates.iter().any(|other| is_same(other, metric));
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

fn is_same(a: &MetricConfig, b: &MetricConfig) -> bool {
    serde_json::to_value(a).ok() == serde_json::to_value(b).ok()
}
