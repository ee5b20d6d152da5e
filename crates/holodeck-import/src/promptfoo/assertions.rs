//! Converts each assertion to the metric that gives the same verdicts, or says that there is none.

use holodeck_yaml::ForeignNode;
use serde_json::{Map, Value, json};

use super::{
    Importer,
    graders::{CodeAssertion, missing_context},
    patterns,
    prompts::{Rendered, render_all},
    tool_models::settings_of_calls,
    values::{
        filled, ignoring_all, ignoring_any, ignoring_case, not_blank, schema, set_field, similar_texts, text,
        texts, whole, word_count,
    },
};
use crate::{
    ImportError,
    code::Language,
    reader::{read_node, read_text},
    template::{javascript_text, render},
};

/// The metrics of a test, with the fields of its case that they need.
#[derive(Default)]
pub(super) struct Checks {
    pub(super) metrics: Vec<Value>,
    pub(super) ground_truth: Option<String>,
    pub(super) retrieval_context: Option<Vec<String>>,
}

/// The test whose assertions are converted.
pub(super) struct Subject<'a> {
    pub(super) vars: &'a Map<String, Value>,
    pub(super) prompt: &'a Rendered,
    /// Whether the weighted score decides.
    pub(super) is_scored: bool,
    /// The tools of a model whose answers are their calls.
    pub(super) tools: Option<&'a Value>,
    /// The judge of this test, in place of that of the agent.
    pub(super) judge: Option<&'a ForeignNode>,
}

/// An assertion that a model judges.
struct JudgedAssertion<'a> {
    /// Its name without `not-`.
    base: &'a str,
    inverse: bool,
    node: &'a ForeignNode,
    value: &'a Value,
    threshold: Option<f64>,
}

/// Assertions that have no equal here, with the nearest thing.
const WITHOUT_EQUAL: &[(&str, &str)] = &[
    ("agent-rubric", "`geval`"),
    ("bleu", "`bleu`, whose scores are others"),
    ("classifier", "a code grader"),
    ("contains-html", "`regex`"),
    ("contains-sql", "`regex`"),
    ("contains-xml", "`regex`"),
    (
        "conversation-relevance",
        "`conversation_evaluations` with `geval`",
    ),
    ("gleu", "`bleu`"),
    ("guardrails", "`is_refusal`"),
    ("human", "`holodeck test calibrate`"),
    ("is-html", "a code grader"),
    ("is-sql", "a code grader"),
    ("is-valid-function-call", "`expected_tools` with `args`"),
    ("is-valid-openai-function-call", "`expected_tools` with `args`"),
    ("is-xml", "a code grader"),
    ("max-score", "a `matrix`, which shows models side by side"),
    ("meteor", "`meteor`, whose scores are others"),
    ("moderation", "`geval`"),
    ("perplexity", ""),
    ("perplexity-score", ""),
    ("pi", "`geval`"),
    ("rouge-n", "`rouge`, whose scores are others"),
    ("ruby", "a code grader with `command: ruby`"),
    ("search-rubric", "`geval`"),
    ("select-best", "`holodeck test compare`"),
    ("similar:dot", "`similar`, which compares by cosine"),
    ("similar:euclidean", "`similar`, which compares by cosine"),
    ("skill-used", "`expected_tools`"),
    ("trace-error-spans", "`observability`"),
    ("trace-span-count", "`observability`"),
    ("trace-span-duration", "`latency`"),
    ("trajectory:goal-success", "`goal_success`"),
    (
        "trajectory:step-count",
        "a code grader, which gets `tool_invocations`",
    ),
    ("trajectory:tool-args-match", "`expected_tools` with `args`"),
    (
        "trajectory:tool-sequence",
        "`expected_tools` with `expected_tools_order`",
    ),
    ("trajectory:tool-used", "`expected_tools`"),
    ("webhook", "a code grader"),
];

/// Assertions that become metrics.
const CONVERTED: &[&str] = &[
    "answer-relevance",
    "contains",
    "contains-all",
    "contains-any",
    "contains-json",
    "context-faithfulness",
    "context-recall",
    "context-relevance",
    "cost",
    "equals",
    "factuality",
    "finish-reason",
    "g-eval",
    "icontains",
    "icontains-all",
    "icontains-any",
    "is-json",
    "is-refusal",
    "is-valid-openai-tools-call",
    "javascript",
    "latency",
    "levenshtein",
    "llm-rubric",
    "model-graded-closedqa",
    "model-graded-factuality",
    "python",
    "regex",
    "similar",
    "similar:cosine",
    "starts-with",
    "tool-call-f1",
    "word-count",
];

/// Whether promptfoo has an assertion of this name, without `not-`.
pub(super) fn is_assertion(name: &str) -> bool {
    CONVERTED.contains(&name) || WITHOUT_EQUAL.iter().any(|(known, _)| *known == name)
}

impl Importer<'_> {
    /// Adds the metrics of an assertion; what has no equal is found.
    pub(super) fn add_assertion(
        &mut self,
        node: &ForeignNode,
        subject: &Subject<'_>,
        outer_weight: f64,
        checks: &mut Checks,
    ) -> Result<(), ImportError> {
        let Some(name) = node.get("type").and_then(ForeignNode::text) else {
            self.findings.left_out(node, "an assertion without `type`", "");
            return Ok(());
        };
        let weight = node.get("weight").and_then(ForeignNode::number).unwrap_or(1.0) * outer_weight;
        if name == "assert-set" {
            return self.add_set(node, subject, weight, checks);
        }
        if weight == 0.0 && !subject.is_scored {
            self.findings.ignored(
                node,
                format!("`{name}` with `weight: 0`, which decides nothing"),
                "",
            );
            return Ok(());
        }
        let (base, inverse) = match name.strip_prefix("not-") {
            Some(base) => (base, true),
            None => (name, false),
        };
        for (key, value) in node.entries() {
            match key.as_str() {
                "type" | "value" | "threshold" | "weight" | "provider" | "config" => {}
                "metric" => self.findings.ignored(
                    value,
                    "`metric`: the name of a score",
                    "`name` of a judge or grader",
                ),
                key => self
                    .findings
                    .left_out(value, format!("`{key}` of an assertion"), ""),
            }
        }
        let before = self.findings.left_out_count();
        match self.metric(base, inverse, node, subject, checks) {
            Ok(Some(mut metric)) => {
                #[allow(clippy::float_cmp, reason = "only the exact default goes without saying")]
                let is_default = weight == 1.0;
                if subject.is_scored && !is_default {
                    set_field(&mut metric, "weight", weight);
                }
                checks.metrics.push(metric);
            }
            Ok(None) => {}
            Err(reason) => self
                .findings
                .left_out(node, format!("`{name}`: {reason}"), nearest(base)),
        }
        debug_assert!(self.findings.left_out_count() >= before);
        Ok(())
    }

    fn add_set(
        &mut self,
        node: &ForeignNode,
        subject: &Subject<'_>,
        weight: f64,
        checks: &mut Checks,
    ) -> Result<(), ImportError> {
        if node.get("threshold").is_some() {
            self.findings.left_out(
                node,
                "`assert-set` with a threshold: any of several",
                "`min_score` of a case, or `contains_any`",
            );
            return Ok(());
        }
        let inner = node
            .get("assert")
            .and_then(ForeignNode::items)
            .unwrap_or_default();
        if subject.is_scored && inner.len() != 1 {
            self.findings.left_out(
                node,
                "`assert-set` in a test whose score decides",
                "`weight` of its metrics",
            );
            return Ok(());
        }
        for assertion in inner {
            self.add_assertion(assertion, subject, weight, checks)?;
        }
        Ok(())
    }

    /// The metric of an assertion; nothing if it is added otherwise, an error if it has no equal.
    fn metric(
        &mut self,
        base: &str,
        inverse: bool,
        node: &ForeignNode,
        subject: &Subject<'_>,
        checks: &mut Checks,
    ) -> Result<Option<Value>, String> {
        if WITHOUT_EQUAL.iter().any(|(name, _)| *name == base) {
            return Err("no metric here gives the same verdicts".to_owned());
        }
        if !CONVERTED.contains(&base) {
            return Err("not an assertion of promptfoo".to_owned());
        }
        if base == "javascript" || base == "python" {
            return self.code(base, inverse, node, subject).map(Some);
        }
        let value = self.value(node, subject)?;
        let threshold = match node.get("threshold") {
            Some(threshold) => Some(threshold.number().ok_or("its `threshold` is not a number")?),
            None => None,
        };
        let metric = match base {
            "contains" | "starts-with" => {
                let text = filled(&value)?;
                let name = if base == "contains" {
                    "contains"
                } else {
                    "starts_with"
                };
                json!({"metric": name, "value": text})
            }
            "icontains" => ignoring_case(&filled(&value)?),
            "contains-any" => json!({"metric": "contains_any", "value": texts(&value)?}),
            "contains-all" => json!({"metric": "contains_all", "value": texts(&value)?}),
            "icontains-any" => ignoring_any(&texts(&value)?),
            "icontains-all" => ignoring_all(&texts(&value)?),
            "equals" => match &value {
                Value::Object(_) | Value::Array(_) => {
                    json!({"metric": "json_schema", "schema": {"const": value}})
                }
                value => json!({"metric": "equality", "value": not_blank(javascript_text(value))?}),
            },
            "regex" => {
                let expression = value
                    .as_str()
                    .filter(|text| !text.is_empty())
                    .ok_or("its `value` is not a text")?;
                json!({"metric": "regex", "value": patterns::translate(expression)?})
            }
            "is-json" => match schema(&value)? {
                Some(schema) => json!({"metric": "json_schema", "schema": schema}),
                None => json!({"metric": "json_valid"}),
            },
            "contains-json" => match schema(&value)? {
                Some(schema) => json!({"metric": "contains_json", "schema": schema}),
                None => json!({"metric": "contains_json"}),
            },
            "latency" => {
                let limit = threshold.ok_or("it has no `threshold`")?;
                if limit < 1.0 {
                    return Err("a limit below a millisecond".to_owned());
                }
                json!({"metric": "latency", "max_ms": whole(limit)})
            }
            "cost" => json!({"metric": "cost", "max_usd": threshold.ok_or("it has no `threshold`")?}),
            "levenshtein" => {
                if subject.is_scored {
                    return Err(
                        "its score is 0 or 1 there, a share of the length here, and scores decide this test"
                            .to_owned(),
                    );
                }
                let limit = threshold.unwrap_or(5.0);
                if limit < 0.0 {
                    return Err("a negative `threshold`".to_owned());
                }
                json!({"metric": "levenshtein", "value": not_blank(text(&value)?)?, "max_distance": whole(limit)})
            }
            "similar" | "similar:cosine" => {
                if inverse {
                    return Err("negated".to_owned());
                }
                let embedder = self.embedder(node.get("provider"), subject.judge)?;
                json!({
                    "metric": "similar", "value": similar_texts(&value, subject.is_scored)?,
                    "threshold": threshold.unwrap_or(0.75), "embedder": embedder,
                })
            }
            "is-valid-openai-tools-call" | "tool-call-f1" => {
                let settings = settings_of_calls(base, inverse, subject.tools, &value, threshold)?;
                return Ok(Some(self.graders.calls(base, &settings)));
            }
            "word-count" => word_count(&value)?,
            "finish-reason" => json!({"metric": "finish_reason", "value": not_blank(text(&value)?)?}),
            "is-refusal" => {
                self.findings.differs(node, "`is-refusal`: a list of phrases of our own decides; an empty answer is neither a refusal nor none");
                json!({"metric": "is_refusal"})
            }
            _ => {
                let assertion = JudgedAssertion {
                    base,
                    inverse,
                    node,
                    value: &value,
                    threshold,
                };
                return self.judged(&assertion, subject, checks).map(Some);
            }
        };
        let mut metric = metric;
        if inverse {
            set_field(&mut metric, "negate", true);
        }
        Ok(Some(metric))
    }

    fn judged(
        &mut self,
        assertion: &JudgedAssertion<'_>,
        subject: &Subject<'_>,
        checks: &mut Checks,
    ) -> Result<Value, String> {
        let JudgedAssertion {
            base,
            inverse,
            node,
            value,
            threshold,
        } = *assertion;
        if inverse && base != "llm-rubric" {
            return Err("a judge cannot be negated".to_owned());
        }
        let mut metric = match base {
            "llm-rubric" => {
                let rubric = match value {
                    Value::Array(items) => items.iter().map(javascript_text).collect::<Vec<_>>().join("\n"),
                    value => text(value)?,
                };
                let rubric = not_blank(rubric)?;
                let criteria = if inverse {
                    if threshold.is_some() {
                        return Err("negated with a `threshold`".to_owned());
                    }
                    format!("The following is NOT true of the answer: {rubric}")
                } else {
                    rubric
                };
                if threshold.is_none() {
                    self.findings.differs(
                        node,
                        "a judge of promptfoo says pass or fail; `geval` passes from 0.5",
                    );
                }
                json!({
                    "type": "geval", "name": "llm-rubric", "criteria": criteria,
                    "evaluation_steps": ["Decide how far the answer fulfils the criteria."],
                    "evaluation_params": ["actual_output"], "threshold": threshold.unwrap_or(0.5),
                })
            }
            "g-eval" => {
                let criteria = match value {
                    Value::Array(items) if items.len() == 1 => {
                        items.first().map(javascript_text).unwrap_or_default()
                    }
                    Value::Array(_) => return Err("the mean over several criteria".to_owned()),
                    value => text(value)?,
                };
                json!({
                    "type": "geval", "name": "g-eval", "criteria": not_blank(criteria)?,
                    "evaluation_params": ["input", "actual_output"], "threshold": threshold.unwrap_or(0.7),
                })
            }
            "model-graded-closedqa" => json!({
                "type": "geval", "name": "closedqa", "criteria": not_blank(text(value)?)?,
                "evaluation_steps": ["Decide whether the answer to the input meets the criteria."],
                "evaluation_params": ["input", "actual_output"], "strict_mode": true,
            }),
            "factuality" | "model-graded-factuality" => {
                set_ground_truth(checks, not_blank(text(value)?)?)?;
                json!({
                    "type": "geval", "name": "factuality",
                    "criteria": "The answer agrees with the expected output in its facts; it may say less or more, but nothing that contradicts it.",
                    "evaluation_steps": ["Compare the facts of the answer with those of the expected output.", "A disagreement about a fact is no agreement; other words, less or more detail are."],
                    "evaluation_params": ["input", "actual_output", "expected_output"], "strict_mode": true,
                })
            }
            _ => self.rag(base, node, value, threshold, subject, checks)?,
        };
        if let Some(judge) = node.get("provider").or(subject.judge) {
            set_field(&mut metric, "model", self.judge_model(judge)?);
        }
        Ok(metric)
    }

    fn rag(
        &mut self,
        base: &str,
        node: &ForeignNode,
        value: &Value,
        threshold: Option<f64>,
        subject: &Subject<'_>,
        checks: &mut Checks,
    ) -> Result<Value, String> {
        let metric = match base {
            "context-faithfulness" => "faithfulness",
            "context-recall" => "contextual_recall",
            "context-relevance" => "contextual_relevancy",
            _ => "answer_relevancy",
        };
        if base == "context-recall" {
            set_ground_truth(checks, not_blank(text(value)?)?)?;
        }
        if base != "answer-relevance" {
            let context = match subject.vars.get("context") {
                Some(Value::Array(items)) => items.iter().map(javascript_text).collect(),
                Some(Value::String(text)) if !text.trim().is_empty() => vec![text.clone()],
                _ => return Err("the test has no variable `context`".to_owned()),
            };
            checks.retrieval_context = Some(context);
        }
        self.findings.differs(
            node,
            format!("`{base}`: `{metric}` asks its judge other questions; the threshold is the same"),
        );
        Ok(json!({"type": "rag", "metric_type": metric, "threshold": threshold.unwrap_or(0.0)}))
    }

    /// The value of an assertion with the variables in it, and files read.
    fn value(&mut self, node: &ForeignNode, subject: &Subject<'_>) -> Result<Value, String> {
        let Some(value) = node.get("value") else {
            return Ok(Value::Null);
        };
        if let Some(reference) = value.text().filter(|text| text.starts_with("file://")) {
            let path = self.source_path(reference);
            let extension = path
                .extension()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            return match extension.as_str() {
                "json" | "yaml" | "yml" => read_node(self.files, &path)
                    .map(|node| node.to_json())
                    .map_err(|error| error.to_string()),
                "txt" | "md" => read_text(self.files, &path)
                    .map(|text| Value::String(text.trim().to_owned()))
                    .map_err(|error| error.to_string()),
                _ => Err(format!("its value is the result of `{reference}`")),
            };
        }
        render_all(&value.to_json(), subject.vars).map_err(|error| error.0)
    }

    /// An assertion in JavaScript or Python as a program that grades.
    fn code(
        &mut self,
        base: &str,
        inverse: bool,
        node: &ForeignNode,
        subject: &Subject<'_>,
    ) -> Result<Value, String> {
        let language = if base == "python" {
            Language::Python
        } else {
            Language::JavaScript
        };
        let code = node
            .get("value")
            .and_then(ForeignNode::text)
            .ok_or("its `value` is not a text")?;
        let assertion = CodeAssertion {
            language,
            inverse,
            threshold: node.get("threshold").and_then(ForeignNode::number),
            vars: subject.vars,
            prompt: &subject.prompt.text,
            config: node.get("config").map(ForeignNode::to_json),
            decides: subject.is_scored,
            reads_calls: subject.tools.is_some(),
        };
        if code.starts_with("package:") {
            return Err("its code is in a package".to_owned());
        }
        let text = if code.starts_with("file://") {
            let (_, file, _) = Language::of(code).ok_or("its file is neither Python nor JavaScript")?;
            read_text(self.files, &self.source_path(file)).map_err(|error| error.to_string())?
        } else {
            render(code, subject.vars).map_err(|error| error.0)?
        };
        if let Some(name) = missing_context(&text) {
            return Err(format!("its code uses `{name}`, which is not there"));
        }
        if let Some((of, file, function)) = code.strip_prefix("file://").and_then(Language::of) {
            if of != language {
                return Err("its file is in another language".to_owned());
            }
            if [".ts", ".mts", ".cts"].iter().any(|end| file.ends_with(end)) {
                return Err("TypeScript must be compiled first".to_owned());
            }
            let path = self.path_from_import(file);
            return Ok(self.graders.file(&path, function, &assertion));
        }
        Ok(self.graders.inline(&text, &assertion))
    }
}

fn nearest(base: &str) -> &'static str {
    if ["is-valid-openai-tools-call", "tool-call-f1"].contains(&base) {
        return "`expected_tools` and `forbidden_tools`";
    }
    WITHOUT_EQUAL
        .iter()
        .find(|(name, _)| *name == base)
        .map_or("", |(_, nearest)| nearest)
}

fn set_ground_truth(checks: &mut Checks, text: String) -> Result<(), String> {
    match &checks.ground_truth {
        Some(known) if *known != text => {
            Err("a case has one `ground_truth`, and another assertion has set it".to_owned())
        }
        _ => {
            checks.ground_truth = Some(text);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_assertion_either_becomes_a_metric_or_names_why_not() {
        for name in CONVERTED {
            assert!(
                !WITHOUT_EQUAL.iter().any(|(other, _)| other == name),
                "{name} is in both lists"
            );
        }
    }
}
