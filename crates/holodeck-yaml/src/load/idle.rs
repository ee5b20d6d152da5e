//! Gates that cannot fail, and numbers to compare with that are none.
//!
//! A gate that passes whatever the agent answers looks like a check and is none. This module reports those for which the
//! configuration alone shows it; it must not guess about answers.

use holodeck_model::{
    Agent, Code, CodeMetric, Diagnostic, EvalParam, GevalMetric, MetricConfig, OneOrMany, Pattern,
    StandardMetric, StandardMetricName, TestCase,
};

use super::Loader;
use crate::yaml::NodeId;

/// The lowest score that a judge without `scale` gives is 1 of this.
const DEFAULT_SCALE: u32 = 5;

/// Texts that no useful expression all matches.
const PROBES: [&str; 7] = ["", " ", "\n", "0", "qzx", "\u{3a9}\u{2260}", "a\nb\n"];

/// Why a gate cannot fail.
struct Idle {
    field: &'static str,
    message: String,
    help: &'static str,
}

impl Loader<'_> {
    /// Warns of every gate that passes whatever the agent answers.
    pub(super) fn warn_idle_gates(&mut self, root: NodeId, agent: &Agent) {
        for (place, metric) in agent.metrics(None).filter(|(_, metric)| metric.enabled()) {
            for Idle { field, message, help } in idle(metric, place.is_of_conversation()) {
                let owner = place.pointer();
                let pointer = format!("{owner}.{field}");
                let place = self.named_place(root, &pointer);
                let Some(place) = place.or_else(|| self.named_place(root, &owner)) else {
                    continue;
                };
                let warning = Diagnostic::warning(Code::IdleGate, message)
                    .about(pointer)
                    .with_help(help);
                self.findings.add(&self.tree, place, warning);
            }
        }
    }

    /// Reports what `numeric` is to compare with if it is not a number: found out during a run, the answers are paid for.
    pub(super) fn check_numbers(&mut self, root: NodeId, agent: &Agent) {
        for (place, metric) in agent.metrics(None) {
            let Some(metric) = numeric(metric) else { continue };
            let texts = match &metric.value {
                None => continue,
                Some(OneOrMany::One(text)) => std::slice::from_ref(text),
                Some(OneOrMany::Many(texts)) => texts.as_slice(),
            };
            for text in texts {
                self.check_number(root, metric, "value", text, &format!("{}.value", place.pointer()));
            }
        }
        for (index, case) in agent.test_cases.iter().enumerate() {
            let case = &*case;
            for (pointer, turn, reference) in references(index, case) {
                let turn = turn.and_then(|turn| case.turns.get(turn));
                let mut metrics = agent.metrics_for(case, turn).iter().filter_map(numeric);
                if let Some(metric) = metrics.find(|metric| metric.value.is_none()) {
                    self.check_number(root, metric, "ground_truth", reference, &pointer);
                }
            }
        }
    }

    /// Reports metrics that compare meanings where nothing makes embeddings.
    pub(super) fn check_embedders(&mut self, root: NodeId, agent: &Agent) {
        if agent.embedding_provider.is_some() {
            return;
        }
        for (place, metric) in agent.metrics(None).filter(|(_, metric)| metric.enabled()) {
            if metric.comparing().is_none_or(|metric| metric.embedder.is_some()) {
                continue;
            }
            let pointer = place.pointer();
            let Some(place) = self.named_place(root, &pointer) else {
                continue;
            };
            let diagnostic = Diagnostic::error(Code::MissingField, "`similar` needs an `embedder`")
                .with_help(
                    "name the model that makes the embeddings: `embedder: {provider: openai, name: \
                 text-embedding-3-small}` here, or `embedding_provider` in the agent file",
                );
            self.findings.add(&self.tree, place, diagnostic.about(pointer));
        }
    }

    fn check_number(
        &mut self,
        root: NodeId,
        metric: &StandardMetric,
        field: &str,
        text: &str,
        pointer: &str,
    ) {
        let Err(why) = metric.read_number(text) else {
            return;
        };
        // A row of a data set has one place for all its fields.
        let owner = pointer.rsplit_once('.').map_or(pointer, |(owner, _)| owner);
        let place = self
            .named_place(root, pointer)
            .or_else(|| self.named_place(root, owner));
        let Some(place) = place else { return };
        let message = format!("metric `numeric` compares with `{field}`, which is not a number{why}");
        // Files for 0.7.1 have such cases; there the metric itself reports it.
        let diagnostic = if field == "value" {
            Diagnostic::error(Code::BadFormat, message)
        } else {
            Diagnostic::warning(Code::BadFormat, message)
                .with_help("without a number the metric reports an error and the run ends with exit code 4")
        };
        self.findings.add(&self.tree, place, diagnostic.about(pointer));
    }
}

/// An enabled metric that compares numbers.
fn numeric(metric: &MetricConfig) -> Option<&StandardMetric> {
    match metric {
        MetricConfig::Standard(metric) if metric.metric == StandardMetricName::Numeric && metric.enabled => {
            Some(metric)
        }
        _ => None,
    }
}

/// The expected answers of a case: where each is, and its turn.
fn references(index: usize, case: &TestCase) -> Vec<(String, Option<usize>, &str)> {
    if case.turns.is_empty() {
        let pointer = format!("test_cases.{index}.ground_truth");
        return case
            .ground_truth
            .iter()
            .map(|text| (pointer.clone(), None, text.as_str()))
            .collect();
    }
    let turns = case.turns.iter().enumerate().filter_map(|(turn, config)| {
        let pointer = format!("test_cases.{index}.turns.{turn}.ground_truth");
        Some((pointer, Some(turn), config.ground_truth.as_deref()?))
    });
    turns.collect()
}

fn idle(metric: &MetricConfig, of_conversation: bool) -> Vec<Idle> {
    let mut found = Vec::new();
    if let (Some(threshold), Some(lowest)) = (metric.threshold(), lowest_score(metric))
        && threshold <= lowest
    {
        let unless = match metric {
            MetricConfig::Code(CodeMetric { .. }) => ", so only a `passed` of the grader can fail it",
            _ => ", so it passes every answer",
        };
        found.push(Idle {
            field: "threshold",
            message: format!(
                "no score of `{}` is below `threshold` {threshold}{unless}",
                metric.name()
            ),
            help: "raise it to the lowest score that is good enough",
        });
    }
    match metric {
        MetricConfig::Geval(metric) if !of_conversation && !sees_answer(metric) => found.push(Idle {
            field: "evaluation_params",
            message: format!(
                "the judge of `{}` does not see the answer, so no answer can fail it",
                metric.name
            ),
            help: "add `actual_output` to `evaluation_params`",
        }),
        MetricConfig::Standard(metric) if metric.metric == StandardMetricName::Regex => {
            found.extend(idle_pattern(metric));
        }
        MetricConfig::Standard(metric)
            if metric.metric == StandardMetricName::JsonSchema && metric.negate =>
        {
            let schema = metric.schema.as_ref().and_then(|schema| schema.value());
            if schema.is_some_and(accepts_nothing) {
                found.push(Idle {
                    field: "schema",
                    message: "negated `json_schema` passes every answer: its schema accepts nothing"
                        .to_owned(),
                    help: "describe the JSON that must not appear",
                });
            }
        }
        _ => {}
    }
    found
}

fn sees_answer(metric: &GevalMetric) -> bool {
    // A `custom_prompt` that does not show the answer is an error.
    metric.custom_prompt.is_some() || metric.evaluation_params.contains(&EvalParam::ActualOutput)
}

/// The lowest score that a metric can give, if the threshold alone decides.
fn lowest_score(metric: &MetricConfig) -> Option<f64> {
    match metric {
        MetricConfig::Standard(metric) if metric.metric.needs_judge() => {
            Some(1.0 / f64::from(metric.scale.unwrap_or(DEFAULT_SCALE).max(1)))
        }
        MetricConfig::Standard(metric)
            if metric.metric.is_text_score() || metric.metric == StandardMetricName::Similar =>
        {
            Some(0.0)
        }
        // Other checks have a verdict of their own.
        MetricConfig::Standard(_) => None,
        MetricConfig::Geval(_)
        | MetricConfig::Rag(_)
        | MetricConfig::Code(_)
        | MetricConfig::GoalSuccess(_) => Some(0.0),
    }
}

fn idle_pattern(metric: &StandardMetric) -> Option<Idle> {
    let patterns = match metric.value.as_ref()? {
        OneOrMany::One(text) => std::slice::from_ref(text),
        OneOrMany::Many(texts) => texts.as_slice(),
    };
    let is_idle = if metric.negate {
        matches_nothing
    } else {
        matches_everything
    };
    if patterns.is_empty() || !patterns.iter().all(|text| is_idle(text)) {
        return None;
    }
    let message = if metric.negate {
        "negated `regex` passes every answer: no text matches its expression"
    } else {
        "`regex` passes every answer: its expression matches every text"
    };
    Some(Idle {
        field: "value",
        message: message.to_owned(),
        help: "write an expression that some answers match and others do not",
    })
}

fn matches_everything(text: &str) -> bool {
    Pattern::new(text).is_ok_and(|pattern| {
        PROBES
            .iter()
            .all(|probe| pattern.is_match(probe).unwrap_or(false))
    })
}

/// Whether an expression can match no text, in the forms that people write by mistake or as a stand-in.
fn matches_nothing(text: &str) -> bool {
    let impossible = [
        "(?!)", r"[^\s\S]", r"[^\S\s]", r"[^\w\W]", r"[^\W\w]", r"[^\d\D]", r"[^\D\d]", r"\b\B", r"\B\b",
    ];
    if text.contains('|') || text.contains("(?m") {
        return false;
    }
    let is_plain = |c: char| c.is_alphanumeric() || c == '.' || c == '_' || c == ' ';
    let after_end = text.split_once('$').is_some_and(|(before, after)| {
        !before.ends_with(['\\', '['])
            && after.starts_with(is_plain)
            && !after.chars().skip(1).any(|c| "*?{".contains(c))
    });
    let before_start = text
        .split_once('^')
        .is_some_and(|(before, _)| before.ends_with(is_plain));
    impossible
        .iter()
        .any(|part| text == *part || text.strip_suffix('+').is_some_and(|text| text == *part))
        || after_end
        || before_start
}

/// Whether a schema accepts no value.
fn accepts_nothing(schema: &serde_json::Value) -> bool {
    match schema {
        serde_json::Value::Bool(accepts) => !accepts,
        serde_json::Value::Object(keywords) => keywords.get("not").is_some_and(|not| match not {
            serde_json::Value::Bool(accepts) => *accepts,
            serde_json::Value::Object(keywords) => keywords.is_empty(),
            _ => false,
        }),
        _ => false,
    }
}
