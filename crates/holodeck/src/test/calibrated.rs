//! Refuses runs whose judges must be calibrated and are not.

use std::{collections::BTreeMap, fmt};

use holodeck_cassette::digest;
use holodeck_eval::JUDGE_PROMPTS;
use holodeck_model::{
    Code, Diagnostic, Env, Location, MetricConfig, MetricPlace, ModelConfig, Provider, Redactor,
    ResolvedAgent,
    env::{ANTHROPIC_BASE_URL, OPENAI_BASE_URL},
};
use holodeck_runner::{CalibratedJudge, JudgedSubject, VerdictSource};
use holodeck_validators::Check;
use holodeck_yaml::{LoadedAgent, Places};
use serde_json::Value;

use crate::agent::inventory::{judged_subject, metrics};

/// The field that requires a calibration.
const FIELD: &str = "require_calibrated";

/// Fields of a metric that do not change its verdicts, and those that are parts in their resolved form.
const NOT_ITS_OWN: [&str; 13] = [
    "enabled",
    "when",
    "timeout_ms",
    "retry_on_failure",
    FIELD,
    "fail_on_error",
    "model",
    "judges",
    "min_judges",
    "aggregate",
    "judge_repeats",
    "threshold",
    "on_masked",
];

/// Judges that a run must not use, because they are not calibrated.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UncalibratedJudges {
    /// The metrics, in the order of the file; at least one.
    pub metrics: Vec<UncalibratedMetric>,
}

/// A metric that requires a calibration, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UncalibratedMetric {
    /// The name of the metric.
    pub name: String,
    /// The place of the requirement.
    pub location: Option<Location>,
    /// The problem.
    pub problem: String,
}

impl fmt::Display for UncalibratedMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(location) = &self.location {
            write!(f, "{location}: ")?;
        }
        write!(
            f,
            "metric `{}` requires a calibrated judge: {}",
            self.name, self.problem
        )
    }
}

impl fmt::Display for UncalibratedJudges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let metrics: Vec<String> = self.metrics.iter().map(ToString::to_string).collect();
        f.write_str(&metrics.join("; "))
    }
}

impl std::error::Error for UncalibratedJudges {}

/// The judge of a metric of this subject, as this agent and environment resolve it.
pub(crate) fn calibrated_judge(
    agent: &ResolvedAgent,
    metric: &MetricConfig,
    subject: JudgedSubject,
    env: &Env,
    redactor: &Redactor,
) -> Option<CalibratedJudge> {
    let judging = metric.judging()?;
    let mut parts = Parts {
        redactor,
        digests: BTreeMap::new(),
    };
    let config = serde_json::to_value(metric).unwrap_or_default();
    for (name, value) in config.as_object().into_iter().flatten() {
        if !NOT_ITS_OWN.contains(&name.as_str()) {
            parts.add(format!("`{name}`"), value.clone());
        }
    }
    if subject == JudgedSubject::Conversations {
        // The same metric asks about single answers with other prompts. Those have no such part.
        parts.add(
            "what it judges (answers or conversations)",
            subject.as_str().into(),
        );
    }
    parts.add("`threshold`", metric.threshold().into());
    parts.add("`min_judges`", judging.min_judges.into());
    parts.add(
        "`aggregate`",
        serde_json::to_value(judging.aggregate).unwrap_or_default(),
    );
    parts.add("`judge_repeats`", judging.repeats.into());
    parts.add("the version of the judge's prompts", JUDGE_PROMPTS.into());
    let models = match judging.judges {
        [] => agent
            .default_judge()
            .map(std::slice::from_ref)
            .unwrap_or_default(),
        judges => judges,
    };
    let mut environment = Parts {
        redactor,
        digests: BTreeMap::new(),
    };
    for (position, model) in models.iter().enumerate() {
        let number = position + 1;
        parts.add(format!("judge {number}"), juror(model));
        if let Some((variable, value)) = endpoint_variable(model, env) {
            environment.add(format!("{variable} of judge {number}"), value.into());
        }
    }
    let names = models.iter().map(|model| redactor.text(&model.name).into_owned());
    Some(CalibratedJudge {
        metric: redactor.text(metric.name()).into_owned(),
        judges: names.collect(),
        parts: parts.digests,
        environment: environment.digests,
    })
}

/// Everything of a model that changes its answers.
fn juror(model: &ModelConfig) -> Value {
    let mut value = serde_json::to_value(model).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|name, value| !["api_key", "rpm"].contains(&name.as_str()) && !value.is_null());
    }
    value
}

/// The variable that sets the endpoint of a model.
fn endpoint_variable<'e>(model: &ModelConfig, env: &'e Env) -> Option<(&'static str, &'e str)> {
    let variable = match model.provider {
        _ if model.endpoint.is_some() => return None,
        Provider::Openai => OPENAI_BASE_URL,
        Provider::Anthropic => ANTHROPIC_BASE_URL,
        Provider::AzureOpenai | Provider::Ollama => return None,
    };
    Some((variable, env.non_blank(variable)?))
}

struct Parts<'a> {
    redactor: &'a Redactor,
    digests: BTreeMap<String, String>,
}

impl Parts<'_> {
    /// A part, unless it is not set: a field of a later version then changes nothing.
    fn add(&mut self, name: impl Into<String>, mut value: Value) {
        if !matches!(value, Value::Null | Value::Bool(false)) {
            self.redactor.value(&mut value);
            let digest = digest(value.to_string().as_bytes());
            self.digests.insert(name.into(), digest);
        }
    }
}

/// The metrics of the `planned` cases that require a calibration, each with what is wrong or with nothing.
fn required<'a>(
    agent: &'a ResolvedAgent,
    planned: Option<&'a [usize]>,
    env: &'a Env,
    redactor: &'a Redactor,
    source: VerdictSource,
) -> impl Iterator<Item = (MetricPlace, &'a MetricConfig, Result<(), String>)> {
    metrics(agent, planned).filter_map(move |(place, metric)| {
        let minimum = metric.required_calibration()?;
        let judge = calibrated_judge(agent, metric, judged_subject(place), env, redactor)?;
        Some((place, metric, judge.check(&agent.dir, minimum, source)))
    })
}

/// Refuses a run whose judges must be calibrated and are not, with the models as `agent` resolves them. Asks nothing.
pub(crate) fn refuse_uncalibrated(
    agent: &ResolvedAgent,
    places: &Places,
    planned: Option<&[usize]>,
    env: &Env,
    redactor: &Redactor,
    source: VerdictSource,
) -> Result<(), UncalibratedJudges> {
    let metrics: Vec<UncalibratedMetric> = required(agent, planned, env, redactor, source)
        .filter_map(|(place, metric, found)| {
            Some(UncalibratedMetric {
                name: metric.name().to_owned(),
                location: places.locate(&field_of(place)),
                problem: found.err()?,
            })
        })
        .collect();
    if metrics.is_empty() {
        Ok(())
    } else {
        Err(UncalibratedJudges { metrics })
    }
}

/// Checks the calibrations that tests of this agent require.
pub(crate) fn checks(agent: &LoadedAgent, env: &Env) -> Vec<Check> {
    let redactor = crate::redactor(agent, env);
    let required = required(agent, None, env, &redactor, VerdictSource::Live);
    required
        .map(|(place, metric, found)| {
            let subject = format!("calibration of `{}`", metric.name());
            match found {
                Ok(()) => Check::ok(subject, "reaches the minimum".to_owned()),
                Err(problem) => {
                    let pointer = field_of(place);
                    let error = Diagnostic::error(Code::UncalibratedJudge, problem)
                        .at(agent.locate(&pointer))
                        .about(pointer)
                        .with_help("`holodeck test calibrate` compares the judge with people");
                    Check::problem(subject, error)
                }
            }
        })
        .collect()
}

fn field_of(place: MetricPlace) -> String {
    format!("{}.{FIELD}", place.pointer())
}
