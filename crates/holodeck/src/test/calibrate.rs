//! Compares a judge of an agent's metrics with people.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use holodeck_cassette::{CassetteError, RecordMode};
use holodeck_model::{
    Cases, DiskFiles, Env, EvaluationConfig, MetricConfig, Redactor, Replayed, ResolvedAgent,
};
use holodeck_runner::{
    CalibratedJudge, CalibrationRequest, CalibrationRun, JudgedSubject, store_calibration,
};
use holodeck_yaml::{Load, LoadedAgent, load_labels};

use crate::{
    Answers, PrepareError, TestError, TestOptions,
    agent::{
        inventory::{Inventory, judged_subject, metrics},
        judging::JudgeSetup,
        model_pool::ModelPool,
    },
    test::calibrated::calibrated_judge,
};

/// Why a judge cannot be compared with people.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CalibrateError {
    /// The metric to compare is not determined.
    #[error("{problem}")]
    Metric {
        /// The problem.
        problem: String,
        /// The next step.
        hint: String,
    },
    /// The judge.
    #[error(transparent)]
    Prepare(Box<PrepareError>),
}

impl From<PrepareError> for CalibrateError {
    fn from(error: PrepareError) -> Self {
        Self::Prepare(Box::new(error))
    }
}

/// A comparison of a judge with people that is ready to start.
pub struct PreparedCalibration {
    request: CalibrationRequest,
    warning: Option<String>,
    judge: CalibratedJudge,
    dir: PathBuf,
    finished: AtomicUsize,
    answers: Answers,
}

/// Reads the answers or conversations that people judged in the file `labels`, and prepares the judge of the metric
/// named `metric`, or of the only judged one of this kind. The calibration is absent if the file has errors, which are
/// in the [`Load`].
pub fn prepare_calibration(
    agent: LoadedAgent,
    env: &Env,
    options: &TestOptions,
    labels: &Path,
    metric: Option<&str>,
) -> Result<(Option<PreparedCalibration>, Load), CalibrateError> {
    let (items, load) = load_labels(labels, &agent.config.test_cases, env, &DiskFiles);
    if load.has_errors() {
        return Ok((None, load));
    }
    let subject = JudgedSubject::of(&items);
    let metric = find_metric(&agent.agent, metric, subject, |metric| {
        calibrated_judge(&agent.agent, metric, subject, env, &Redactor::default())
    })?;
    // Only the judges of this metric are opened.
    let on_masked = agent.agent.config.evaluations.as_ref();
    let on_masked = on_masked.and_then(|evaluations| evaluations.on_masked);
    let mut only = ResolvedAgent::clone(&agent.agent);
    only.config.test_cases = Cases::default();
    only.config.evaluations = Some(EvaluationConfig {
        metrics: vec![metric.clone()],
        model: only.config.evaluations.and_then(|evaluations| evaluations.model),
        on_masked,
        optimizer: None,
    });
    let agent = LoadedAgent {
        agent: Arc::new(only),
        places: agent.places,
    };
    let inventory = Inventory::new(&agent, None);
    let setup = JudgeSetup::new(&agent, &inventory, env, &options.open, options.timeout)
        .map_err(PrepareError::from)?;
    let redactor = setup.answers().redactor();
    let judge = ModelPool::new(&agent.agent, &setup.backends).judges(&setup.turns);
    let identity = calibrated_judge(&agent.agent, &metric, subject, env, &redactor)
        .ok_or_else(|| no_judged_metric("the agent has no metric that a model judges", subject))?;
    let warning = inventory.warn_own_judge();
    let request = CalibrationRequest {
        metric,
        subject,
        items,
        judge,
        redactor,
        on_masked: on_masked.unwrap_or_default(),
    };
    let prepared = PreparedCalibration {
        request,
        warning,
        judge: identity,
        dir: agent.dir.clone(),
        finished: AtomicUsize::new(0),
        answers: setup.answers().clone(),
    };
    Ok((Some(prepared), load))
}

impl PreparedCalibration {
    /// A warning for the user before it starts.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// The subject of the judgements.
    pub fn subject(&self) -> JudgedSubject {
        self.request.subject
    }

    /// The recording that answers in place of the judge.
    pub fn replayed(&self) -> Option<Replayed> {
        self.answers.replayed()
    }

    /// Asks the judge, and completes the recording.
    pub async fn run(&self) -> Result<CalibrationRun, TestError> {
        let run = holodeck_runner::calibrate(&self.request, &self.finished).await;
        let is_complete = run.as_ref().is_ok_and(|run| run.errors() == 0);
        self.answers.finish(if is_complete {
            RecordMode::Replace
        } else {
            RecordMode::Merge
        })?;
        Ok(run?)
    }

    /// Keeps what was recorded before [`run`](Self::run) was dropped.
    pub fn keep_recording(&self) -> Result<(), CassetteError> {
        self.answers.finish(RecordMode::Merge).map(|_calls| ())
    }

    /// How many items were judged so far, and how many there are.
    pub fn progress(&self) -> (usize, usize) {
        (self.finished.load(Ordering::Relaxed), self.request.items.len())
    }

    /// Stores a complete result beside the agent file, for metrics with `require_calibrated`. Returns the file; `None`
    /// if the result is not complete, or is that of a recording: the environment may have changed since.
    pub fn store(&self, run: &CalibrationRun) -> io::Result<Option<PathBuf>> {
        if self.replayed().is_some() {
            return Ok(None);
        }
        store_calibration(run, &self.judge, &self.dir)
    }
}

fn no_judged_metric(problem: &str, subject: JudgedSubject) -> CalibrateError {
    let hint = match subject {
        JudgedSubject::Answers => {
            "add one to `evaluations.metrics`, as in `{type: geval, name: Helpful, criteria: Does it help?}`"
        }
        JudgedSubject::Conversations => {
            "add one to `conversation_evaluations` of a case, as in `{type: goal_success}`"
        }
    };
    CalibrateError::Metric {
        problem: problem.to_owned(),
        hint: hint.to_owned(),
    }
}

/// The metric of this name, or the only one, among the judged ones that measure `subject`.
fn find_metric(
    agent: &ResolvedAgent,
    name: Option<&str>,
    subject: JudgedSubject,
    judge_of: impl Fn(&MetricConfig) -> Option<CalibratedJudge>,
) -> Result<MetricConfig, CalibrateError> {
    let mut candidates: Vec<&MetricConfig> = Vec::new();
    let mut is_of_other = false;
    for (place, metric) in metrics(agent, None) {
        if metric.judging().is_none() || name.is_some_and(|name| name != metric.name()) {
            continue;
        }
        if judged_subject(place) != subject {
            is_of_other = true;
        } else if !candidates.iter().any(|other| judge_of(other) == judge_of(metric)) {
            candidates.push(metric);
        }
    }
    let what = subject.as_str();
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
        ([], name) => {
            let named = name.map_or_else(String::new, |name| format!(" `{name}`"));
            let problem = format!(
                "the agent has no metric{named} of {what} that a model judges, and the labels are {what}"
            );
            match (is_of_other, subject) {
                (false, _) => Err(no_judged_metric(&problem, subject)),
                (true, JudgedSubject::Answers) => Err(CalibrateError::Metric {
                    problem,
                    hint: "its metric measures conversations: write them to the column `turns`".to_owned(),
                }),
                (true, JudgedSubject::Conversations) => Err(CalibrateError::Metric {
                    problem,
                    hint: "its metric measures answers: write them to the column `response`".to_owned(),
                }),
            }
        }
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
