//! The identity of one check, from its configuration and what it reads.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use secrecy::ExposeSecret as _;
use serde_json::{Map, Value, json};

use super::{CheckIdentity, Digest, Digests};
use crate::{
    CodeMetric, EmbeddingConfig, EvalParam, GevalMetric, JsonMap, MetricConfig, ModelConfig, OnMasked,
    RagMetricType, Redactor, ResolvedAgent, RougeVariant, StandardMetric, canonical, identity::sorted_text,
    variable_secrets,
};

/// The digest of the files of each grader program, by [`CheckIdentities::program`].
pub type GraderFiles = HashMap<Digest, Digests>;

/// The texts of a case that its checks may read.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct CheckReads<'a> {
    /// The expected answer.
    pub ground_truth: Option<&'a str>,
    /// The passages that the case gives.
    pub retrieval_context: Option<&'a [String]>,
    /// The configuration that code graders receive unchanged.
    pub turn_config: Option<&'a JsonMap>,
    /// The `vars` of the case, which code graders receive.
    pub vars: Option<&'a JsonMap>,
    /// The goal of a conversation.
    pub goal: Option<&'a str>,
    /// Whether a whole conversation is measured.
    pub conversation: bool,
}

/// Fields of a metric that change neither its score nor its verdict: they limit, select or name.
const NEUTRAL: [&str; 6] = [
    "enabled",
    "weight",
    "timeout_ms",
    "retry_on_failure",
    "require_calibrated",
    "name",
];

/// Fields of a judged metric that say what is expected; all others say who judges, and how.
const EXPECTED_OF_JUDGED: [&str; 5] = ["type", "metric", "metric_type", "fail_on_error", "when"];

/// Fields of a code grader that are its program; all others say what is expected.
const PROGRAM: [&str; 4] = ["grader", "command", "args", "env"];

/// Fields that are added in their resolved form.
const RESOLVED: [&str; 10] = [
    "threshold",
    "embedder",
    "schema",
    "variant",
    "model",
    "judges",
    "min_judges",
    "aggregate",
    "judge_repeats",
    "on_masked",
];

/// Computes the identities of an agent's checks.
#[derive(Debug)]
pub struct CheckIdentities {
    /// The version of the judges' prompts.
    prompts: u32,
    redactor: Arc<Redactor>,
    default_judge: Option<ModelConfig>,
    /// The embedder of metrics that name none.
    default_embedder: Option<EmbeddingConfig>,
    /// How to handle a check that reads a masked text, where it does not say that itself.
    on_masked: OnMasked,
    graders: GraderFiles,
    shared: Vec<MetricConfig>,
    known: Vec<Known>,
}

/// The settings of checks that have none of their own.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Defaults<'a> {
    pub(super) judge: Option<&'a ModelConfig>,
    pub(super) embedder: Option<&'a EmbeddingConfig>,
    pub(super) on_masked: OnMasked,
}

/// The parts that depend on the configuration of a metric only.
#[derive(Clone, Debug)]
struct Known {
    /// Its text with the keys in order.
    expectation: String,
    judge: Option<Judge>,
    grader: Option<Digest>,
}

/// Who judges an answer, and who a whole conversation.
#[derive(Clone, Copy, Debug)]
struct Judge {
    of_answer: Digest,
    of_conversation: Digest,
}

impl CheckIdentities {
    /// Those of the checks of `agent`. `prompts` is the version of the judges' prompts.
    pub fn new(agent: &ResolvedAgent, prompts: u32, redactor: Arc<Redactor>, graders: GraderFiles) -> Self {
        let evaluations = agent.config.evaluations.as_ref();
        let metrics = evaluations.map_or(&[][..], |evaluations| &evaluations.metrics);
        let defaults = Defaults {
            judge: agent.default_judge(),
            embedder: agent.config.embedding_provider.as_ref(),
            on_masked: agent.on_masked(),
        };
        Self::of_metrics(metrics, defaults, prompts, redactor, graders)
    }

    pub(super) fn of_metrics(
        metrics: &[MetricConfig],
        defaults: Defaults<'_>,
        prompts: u32,
        redactor: Arc<Redactor>,
        graders: GraderFiles,
    ) -> Self {
        let mut identities = Self {
            prompts,
            redactor,
            default_judge: defaults.judge.cloned(),
            default_embedder: defaults.embedder.cloned(),
            on_masked: defaults.on_masked,
            graders,
            shared: metrics.to_vec(),
            known: Vec::new(),
        };
        identities.known = identities
            .shared
            .iter()
            .map(|config| identities.know(config))
            .collect();
        identities
    }

    /// The metrics of the agent, which are known by their place in memory.
    pub fn shared(&self) -> &[MetricConfig] {
        &self.shared
    }

    /// How to handle a masked text where a check does not say that itself.
    pub fn on_masked(&self) -> OnMasked {
        self.on_masked
    }

    /// The digest of a rule beside the metrics.
    pub fn rule(&self, mut rule: Value) -> Digest {
        self.redactor.value(&mut rule);
        Digest::of(&rule)
    }

    /// The identity of a check of a case.
    pub fn check(&self, config: &MetricConfig, reads: CheckReads<'_>) -> CheckIdentity {
        let mut known = self.shared.iter().zip(&self.known);
        let known = known.find(|(shared, _)| std::ptr::eq(*shared, config));
        let known = known.map_or_else(
            || Cow::Owned(self.know(config)),
            |(_, known)| Cow::Borrowed(known),
        );
        let read = sorted_text(&self.reads(config, reads));
        // As the text of an array of both.
        let expectation = format!("[{},{read}]", known.expectation);
        CheckIdentity {
            expectation: Some(Digest::of_text(&expectation)),
            judge: known.judge.map(|judge| {
                if reads.conversation {
                    judge.of_conversation
                } else {
                    judge.of_answer
                }
            }),
            grader: known.grader,
        }
    }

    /// The digest that names a grader program in [`GraderFiles`].
    pub fn program(config: &CodeMetric) -> Digest {
        Digest::of(&program(config))
    }

    fn know(&self, config: &MetricConfig) -> Known {
        let mut fields = match canonical(config, &|path| path.trim_start_matches("./").to_owned()) {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        fields.retain(|name, _| !NEUTRAL.contains(&name.as_str()) && !RESOLVED.contains(&name.as_str()));
        let mut judge = None;
        let mut grader = None;
        if let Some(judging) = config.judging() {
            let is_expected = |name: &str| EXPECTED_OF_JUDGED.contains(&name);
            let mut asked = fields.clone();
            asked.retain(|name, _| {
                !is_expected(name) || ["type", "metric", "metric_type"].contains(&name.as_str())
            });
            fields.retain(|name, _| is_expected(name));
            let models = match judging.judges {
                [] => self.default_judge.as_slice(),
                judges => judges,
            };
            if models.len() > 1 {
                asked.insert("min_judges".to_owned(), judging.min_judges.into());
                asked.insert("aggregate".to_owned(), json!(judging.aggregate));
            }
            if judging.repeats > 1 {
                asked.insert("judge_repeats".to_owned(), judging.repeats.into());
            }
            asked.insert("models".to_owned(), models.iter().map(juror).collect());
            asked.insert("prompts".to_owned(), self.prompts.into());
            let asked = self.masked(asked);
            judge = Some(Judge {
                of_answer: Digest::of(&asked),
                of_conversation: Digest::of(&json!([asked, "conversation"])),
            });
        }
        if let Some(metric) = config.comparing() {
            let embedder = metric.embedder.as_deref().or(self.default_embedder.as_ref());
            let mut asked = embedder.map(EmbeddingConfig::answering).unwrap_or_default();
            self.redactor.value(&mut asked);
            judge = Some(Judge {
                of_answer: Digest::of(&asked),
                of_conversation: Digest::of(&json!([asked, "conversation"])),
            });
        }
        if let MetricConfig::Code(code) = config {
            fields.retain(|name, _| !PROGRAM.contains(&name.as_str()));
            let program = program(code);
            let files = self.graders.get(&Digest::of(&program));
            grader = Some(Digest::of(&json!([program, files])));
        }
        if let MetricConfig::Standard(StandardMetric { schema, variant, .. }) = config {
            let schema = schema.as_ref().map(|schema| json!(schema.value()));
            fields.extend(schema.map(|schema| ("schema".to_owned(), schema)));
            let variant = variant.filter(|variant| *variant != RougeVariant::default());
            fields.extend(variant.map(|variant| ("variant".to_owned(), json!(variant))));
        }
        if let Some(threshold) = config.threshold() {
            fields.insert("threshold".to_owned(), threshold.into());
        }
        let sees_masked = judge.is_some() || grader.is_some();
        if sees_masked && config.on_masked().unwrap_or(self.on_masked) == OnMasked::Accept {
            fields.insert("on_masked".to_owned(), json!(OnMasked::Accept));
        }
        Known {
            expectation: sorted_text(&self.masked(fields)),
            judge,
            grader,
        }
    }

    /// Only the names of secrets count, so that they can be renewed.
    fn masked(&self, fields: Map<String, Value>) -> Value {
        let mut value = Value::Object(fields);
        self.redactor.value(&mut value);
        value
    }

    /// The texts of the case that a check reads.
    fn reads(&self, config: &MetricConfig, reads: CheckReads<'_>) -> Value {
        let (ground_truth, context) = match config {
            MetricConfig::Standard(metric) if metric.metric.needs_judge() => {
                (metric.custom_prompt.is_some(), true)
            }
            MetricConfig::Standard(metric) => (metric.needs_ground_truth(), false),
            MetricConfig::Geval(metric) => (
                has_param(metric, &[EvalParam::ExpectedOutput]),
                has_param(metric, &[EvalParam::Context, EvalParam::RetrievalContext]),
            ),
            MetricConfig::Rag(metric) => (
                matches!(
                    metric.metric_type,
                    RagMetricType::ContextualPrecision | RagMetricType::ContextualRecall
                ),
                metric.metric_type != RagMetricType::AnswerRelevancy,
            ),
            MetricConfig::Code(_) => (true, true),
            MetricConfig::GoalSuccess(_) => (false, false),
        };
        let mut read = Map::new();
        let mut add = |name: &str, value: Option<Value>| {
            if let Some(value) = value.filter(|value| !value.is_null()) {
                read.insert(name.to_owned(), value);
            }
        };
        add(
            "ground_truth",
            reads.ground_truth.filter(|_| ground_truth).map(Value::from),
        );
        add(
            "retrieval_context",
            reads.retrieval_context.filter(|_| context).map(Value::from),
        );
        let is_code = matches!(config, MetricConfig::Code(_));
        add(
            "turn_config",
            reads.turn_config.filter(|_| is_code).map(|config| json!(config)),
        );
        add("vars", reads.vars.filter(|_| is_code).map(|vars| json!(vars)));
        let goal = match config {
            MetricConfig::GoalSuccess(metric) => metric.goal.as_deref().or(reads.goal),
            // A prompt of the user may show it.
            _ if is_code || config.judging().is_none() => None,
            _ => reads.goal,
        };
        add("goal", goal.map(Value::from));
        add("conversation", reads.conversation.then(|| Value::from(true)));
        self.masked(read)
    }
}

fn has_param(metric: &GevalMetric, params: &[EvalParam]) -> bool {
    metric.custom_prompt.is_some()
        || metric
            .evaluation_params
            .iter()
            .any(|param| params.contains(param))
}

/// The parts of a model that change its answers.
fn juror(model: &ModelConfig) -> Value {
    let mut value = canonical(model, &str::to_owned);
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|name, _| !["api_key", "auth_provider", "rpm"].contains(&name.as_str()));
    }
    value
}

/// The command of a grader program. Only the names of secret variables count.
fn program(config: &CodeMetric) -> Value {
    let env = config.env.iter().map(|(name, value)| {
        let value = value.expose_secret();
        let masked = variable_secrets(name, value)
            .iter()
            .fold(value.to_owned(), |text, secret| text.replace(secret, "***"));
        (name.clone(), Value::from(masked))
    });
    let env: Map<String, Value> = env.collect();
    let command = config.command.as_ref();
    let command = command.map(|command| command.as_str().trim_start_matches("./"));
    json!({"grader": config.grader, "command": command, "args": config.args, "env": env})
}

/// The name of a check in a case: of several with one name, the later ones have a number.
pub fn check_label(prefix: &str, name: &str, nth: usize) -> String {
    match nth {
        0 => format!("{prefix}{name}"),
        nth => format!("{prefix}{name} ({})", nth + 1),
    }
}

impl ResolvedAgent {
    /// The model that judges where a metric names none: `evaluations.model`, else the agent's own. `None` only where
    /// nothing is judged: the loader refuses a judged metric without a model.
    pub fn default_judge(&self) -> Option<&ModelConfig> {
        let evaluations = self.config.evaluations.as_ref();
        evaluations
            .and_then(|evaluations| evaluations.model.as_ref())
            .or(self.config.model.as_ref())
    }

    /// How to handle a judged metric or a code grader that reads a masked text, where it does not say that itself.
    pub fn on_masked(&self) -> OnMasked {
        let evaluations = self.config.evaluations.as_ref();
        evaluations
            .and_then(|evaluations| evaluations.on_masked)
            .unwrap_or_default()
    }
}

impl ModelConfig {
    /// The parts of it that change its answers, as JSON.
    pub fn answering(&self) -> Value {
        juror(self)
    }
}

impl EmbeddingConfig {
    /// The parts of it that change its vectors, as JSON.
    pub fn answering(&self) -> Value {
        let settings = self.settings("embedder");
        json!({
            "embedder": settings.model, "provider": settings.provider, "endpoint": settings.endpoint,
            "api_version": settings.api_version,
        })
    }
}
