//! Rules for metrics: the fields that each uses, thresholds, and places where a metric cannot be computed.

use holodeck_model::{
    Code, Diagnostic, Pattern, StandardMetricName,
    events::{StopFamily, StopReason},
    printable,
};

use super::{
    HELP_FOR_PATTERNS, Rules, View,
    model::check_model,
    tools::{MAX_MODULE_BYTES, check_command, closest_definition, may_define},
};
use crate::{
    check::foreign::as_share,
    check::metric_fields,
    yaml::{NodeId, implied_type},
};

/// Fields of 0.7: they cause a warning if a metric does not use them. Newer fields cause an error, because a check that
/// has no effect could pass a wrong answer.
const OLD_FIELDS: [&str; 8] = [
    "case_insensitive",
    "strip_whitespace",
    "strip_punctuation",
    "absolute_tolerance",
    "relative_tolerance",
    "accept_percent",
    "accept_thousands_separators",
    "response_path",
];
const NEW_FIELDS: [&str; 11] = [
    "value",
    "negate",
    "variant",
    "unicode",
    "max_distance",
    "max_ms",
    "max_usd",
    "schema",
    "min",
    "max",
    "embedder",
];

/// Fields of judged metrics: those of 0.7, and newer ones.
const OLD_JUDGE_FIELDS: [&str; 5] = [
    "model",
    "scale",
    "retry_on_failure",
    "timeout_ms",
    "custom_prompt",
];
const NEW_JUDGE_FIELDS: [&str; 8] = [
    "judges",
    "min_judges",
    "aggregate",
    "judge_repeats",
    "when",
    "require_calibrated",
    "on_masked",
    "include_reason",
];

/// Fields of judged metrics that `similar` has too: it asks a model.
const SIMILAR_FIELDS: [&str; 4] = ["retry_on_failure", "timeout_ms", "when", "on_masked"];

fn is_judge(metric: &str) -> bool {
    matches!(metric, "groundedness" | "relevance" | "coherence" | "fluency")
}

pub(super) fn check_evaluations(rules: &mut Rules<'_>, agent: &View) {
    let Some(evaluations) = rules.child(agent, "evaluations") else {
        return;
    };
    if let Some(model) = rules.child(&evaluations, "model") {
        check_model(rules, &model);
    }
    check_metrics(rules, &evaluations, "metrics");
    if let Some(optimizer) = rules.child(&evaluations, "optimizer") {
        check_optimizer(rules, &optimizer);
    }
}

/// Reports a metric in a list where it cannot be computed.
fn check_place(rules: &mut Rules<'_>, metric: &View, kind: Option<&str>, list: &str) {
    let (field, name) = match kind {
        Some("standard") => ("metric", rules.text(metric, "metric")),
        Some("rag") => ("metric_type", rules.text(metric, "metric_type")),
        kind => ("type", kind),
    };
    let (Some(kind), Some(name)) = (kind, name) else {
        return;
    };
    let of_conversation = list == CONVERSATION;
    let fits = match kind {
        "standard" => {
            let metric: Option<StandardMetricName> = serde_json::from_value(name.into()).ok();
            !of_conversation || metric.is_none_or(StandardMetricName::fits_conversations)
        }
        "rag" => !of_conversation,
        "goal_success" => of_conversation,
        _ => true,
    };
    if fits {
        return;
    }
    let (message, help) = if of_conversation {
        (
            format!("`{name}` measures an answer, not a conversation"),
            "move it to `evaluations`, or use `goal_success`, `geval`, `code`, `contains`, `regex`, `latency` or `cost`",
        )
    } else {
        (
            format!("`{name}` measures a conversation, not an answer"),
            "move it to `conversation_evaluations` of a test case",
        )
    };
    let field = if rules.has(metric, field) { field } else { "goal" };
    rules.report_inconsistent(metric, field, message, Some(help));
}

/// The list of metrics of a case's whole conversation.
pub(super) const CONVERSATION: &str = "conversation_evaluations";

/// Checks a list of metrics.
pub(super) fn check_metrics(rules: &mut Rules<'_>, owner: &View, key: &str) {
    for metric in rules.list(owner, key) {
        if let Some(model) = rules.child(&metric, "model") {
            check_model(rules, &model);
        }
        let kind = rules
            .text(&metric, "type")
            .or_else(|| implied_type("MetricConfig", |key| rules.entry(&metric, key).is_some()));
        check_place(rules, &metric, kind, key);
        if rules.has(&metric, "judges") {
            for judge in rules.list(&metric, "judges") {
                check_model(rules, &judge);
            }
            if rules.has(&metric, "model") {
                let message = format!(
                    "`model` has no effect beside `judges`{}",
                    rules.owner_suffix(&metric)
                );
                rules.report_inconsistent(
                    &metric,
                    "model",
                    message,
                    Some("add it to `judges`, or remove one of them"),
                );
            }
        } else {
            for field in ["min_judges", "aggregate"] {
                if rules.has(&metric, field) {
                    let message = format!("`{field}` needs `judges`{}", rules.owner_suffix(&metric));
                    rules.report_inconsistent(&metric, field, message, None);
                }
            }
        }
        if matches!(kind, Some("standard" | "code")) {
            warn_unreachable(rules, &metric);
        }
        check_required_calibration(rules, &metric, kind);
        if kind == Some("code") {
            check_code(rules, &metric);
        }
        if kind == Some("standard")
            && let Some(name) = rules.text(&metric, "metric")
        {
            check_standard(rules, &metric, name);
        }
    }
}

/// Checks the metrics of a case's whole conversation.
pub(super) fn check_conversation_metrics(rules: &mut Rules<'_>, case: &View) {
    check_metrics(rules, case, CONVERSATION);
    let has_goal = rules.has(case, "user") || rules.has(case, "ground_truth");
    for metric in rules.list(case, CONVERSATION) {
        let is_goal = rules.text(&metric, "type") == Some("goal_success");
        if is_goal && !has_goal && !rules.has(&metric, "goal") {
            let reason = ": the case has no `user` and no `ground_truth` to take it from";
            rules.report_missing(&metric, "goal", reason, "what the user wants to reach");
        }
        // There is no single answer that it could be a part of.
        if rules.entry(&metric, "response_path").is_some() {
            let message = "`response_path` selects a part of one answer, and a conversation has several";
            rules.report_inconsistent(&metric, "response_path", message, None);
        }
    }
}

/// Reports a calibration that can never exist: of a judge that decides nothing.
fn check_required_calibration(rules: &mut Rules<'_>, metric: &View, kind: Option<&str>) {
    const FIELD: &str = "require_calibrated";
    // Programs and checks are reported as all other fields that they do not have.
    let is_judge = match kind {
        Some("standard") => rules.text(metric, "metric").is_some_and(is_judge),
        Some("geval" | "rag" | "goal_success") => true,
        _ => false,
    };
    let is_off = |field| rules.flag(metric, field) == Some(false);
    if !is_judge || rules.entry(metric, FIELD).is_none() || is_off(FIELD) || is_off("enabled") {
        return;
    }
    if kind == Some("standard") && !rules.has(metric, "threshold") {
        let message = format!(
            "`{FIELD}` needs `threshold`{}: without one, the judge decides nothing",
            rules.owner_suffix(metric)
        );
        rules.report_inconsistent(metric, FIELD, message, Some("add one, as in `threshold: 0.7`"));
    }
}

/// Warns of a threshold above every score, which 0.7.1 accepts. A negative one is out of range.
fn warn_unreachable(rules: &mut Rules<'_>, metric: &View) {
    let Some(threshold) = rules.number(metric, "threshold").filter(|number| *number > 1.0) else {
        return;
    };
    let message = format!(
        "no score reaches `threshold` {threshold}{}",
        rules.owner_suffix(metric)
    );
    let diagnostic = Diagnostic::warning(Code::OutOfRange, message)
        .about(metric.path.pointer(Some("threshold")))
        .with_help(as_share(threshold).unwrap_or_else(|| "scores are between 0 and 1".to_owned()));
    let place = rules.value_place(metric, "threshold");
    rules.add(place, diagnostic);
}

/// Checks that a code grader names a function or a program, and that the function can exist.
fn check_code(rules: &mut Rules<'_>, metric: &View) {
    rules.check_exactly_one(metric, "grader", "command");
    if rules.has(metric, "command") {
        check_command(rules, metric);
        if !rules.has(metric, "name") {
            rules.report_missing(metric, "name", ": a `command` has none", "the name of its scores");
        }
        return;
    }
    rules.warn_no_effect(metric, "args", "only a `command` takes arguments");
    check_python_grader(rules, metric);
}

/// Checks that a module beside the YAML file defines the function. A module that is not there may be installed; it is
/// looked for when a run starts.
fn check_python_grader(rules: &mut Rules<'_>, metric: &View) {
    let Some(grader) = rules.text(metric, "grader") else {
        return;
    };
    let Some((module, function)) = grader.split_once(':') else {
        return;
    };
    if rules.is_substituted(metric, "grader") || rules.flag(metric, "enabled") == Some(false) {
        return;
    }
    let path = rules
        .tree
        .dir(rules.value_place(metric, "grader"))
        .join(module.replace('.', "/"));
    let file = path.with_added_extension("py");
    let Ok(source) = rules.files.read(&file, MAX_MODULE_BYTES) else {
        return;
    };
    let source = String::from_utf8_lossy(&source);
    if may_define(&source, function) {
        return;
    }
    let message = format!("grader `{function}` does not occur in `{}`", file.display());
    let mut diagnostic = Diagnostic::error(Code::UnknownReference, message)
        .about(metric.path.pointer(Some("grader")))
        .with_help("name a function of that module, as in `module:function`");
    if let Some(meant) = closest_definition(&source, function) {
        diagnostic = diagnostic.with_inline(format!("did you mean `{meant}`?"));
    }
    let place = rules.value_place(metric, "grader");
    rules.add(place, diagnostic);
}

pub(super) fn check_standard(rules: &mut Rules<'_>, metric: &View, name: &str) {
    let used = metric_fields::of_standard(name);
    for field in OLD_FIELDS.iter().filter(|field| !used.contains(field)) {
        rules.warn_no_effect(metric, field, &format!("`{name}` does not use it"));
    }
    for field in NEW_FIELDS.iter().filter(|field| !used.contains(field)) {
        check_unused_new_field(rules, metric, name, field);
    }
    if name != "levenshtein" && used.contains(&"max_distance") {
        check_unused_new_field(rules, metric, name, "max_distance");
    }
    if !is_judge(name) {
        let is_used = |field: &&str| name == "similar" && SIMILAR_FIELDS.contains(field);
        for field in OLD_JUDGE_FIELDS.into_iter().filter(|field| !is_used(field)) {
            rules.warn_no_effect(metric, field, &format!("`{name}` needs no judge"));
        }
        for field in NEW_JUDGE_FIELDS.into_iter().filter(|field| !is_used(field)) {
            check_unused_new_field(rules, metric, name, field);
        }
    }
    let required = match name {
        "json_schema" => Some(("schema", "the JSON Schema, inline or as a path")),
        "latency" => Some(("max_ms", "how long the answer may take")),
        "cost" => Some(("max_usd", "what the answer may cost")),
        "levenshtein" => Some(("max_distance", "how many edits the answer may differ by")),
        "similar" => Some(("threshold", "the lowest similarity that passes, as in `0.8`")),
        "finish_reason" => Some(("value", "how the answer must end, as in `end`")),
        _ => None,
    };
    if let Some((field, what)) = required
        && !rules.has(metric, field)
    {
        rules.report_missing(metric, field, &format!(": `{name}` needs it"), what);
    }
    if name == "word_count" {
        check_words(rules, metric);
    }
    check_values(rules, metric, name);
    check_reasons(rules, metric, name);
    note_negated_all(rules, metric, name);
    if let Some(schema) = rules.child(metric, "schema")
        && matches!(name, "json_schema" | "contains_json")
        && rules.tree.scalar(schema.node).is_some()
    {
        rules.check_file(metric, "schema", Diagnostic::error);
    }
}

/// Checks that a number of words is limited, and that some number is left.
fn check_words(rules: &mut Rules<'_>, metric: &View) {
    match (rules.number(metric, "min"), rules.number(metric, "max")) {
        (None, None) if !rules.has(metric, "min") && !rules.has(metric, "max") => {
            rules.report_missing(
                metric,
                "max",
                ": `word_count` needs `min` or `max`",
                "the most words",
            );
        }
        (Some(min), Some(max)) if min > max => {
            let message = format!(
                "`min`{} is {min}, more than `max` {max}",
                rules.owner_suffix(metric)
            );
            rules.report_inconsistent(metric, "min", message, Some("no number of words is between them"));
        }
        (Some(min), None) if min <= 0.0 => {
            let message = format!(
                "`word_count`{} passes every answer: none has fewer than 0 words",
                rules.owner_suffix(metric)
            );
            let diagnostic = Diagnostic::warning(Code::IdleGate, message)
                .about(metric.path.pointer(Some("min")))
                .with_help("raise `min`, or add `max`");
            let place = rules.value_place(metric, "min");
            rules.add(place, diagnostic);
        }
        _ => {}
    }
}

/// Checks that each expected reason why an answer ends is one.
fn check_reasons(rules: &mut Rules<'_>, metric: &View, name: &str) {
    if name != "finish_reason" {
        return;
    }
    let unknown: Vec<(NodeId, String)> = rules
        .texts(metric, "value")
        .into_iter()
        .filter(|(_, word)| {
            let reason = StopReason::from((*word).to_owned());
            StopFamily::named(word) == StopFamily::Unknown || reason.is_not_reported()
        })
        .map(|(node, word)| (node, word.to_owned()))
        .collect();
    for (node, word) in unknown {
        let message = format!("`{}` is not a reason why an answer ends", printable(&word));
        let diagnostic = Diagnostic::error(Code::UnknownValue, message)
            .about(metric.path.pointer(Some("value")))
            .with_help(
                "write `end`, `calls`, `truncated`, `refusal` or `failure`, or a provider's word, such as `length`",
            );
        let place = rules.tree.place(node);
        rules.add(place, diagnostic);
    }
}

/// Notes that negated `contains_all` differs from negated `contains`, which requires that none of the strings appears.
fn note_negated_all(rules: &mut Rules<'_>, metric: &View, name: &str) {
    let several = rules.texts(metric, "value").len() > 1;
    if name != "contains_all" || !several || rules.flag(metric, "negate") != Some(true) {
        return;
    }
    let message = "negated `contains_all` passes as soon as one of its strings is missing";
    let diagnostic = Diagnostic::note(Code::NegatedAll, message)
        .about(metric.path.pointer(Some("negate")))
        .with_help("use `contains` with `negate: true` to require that none of them appears");
    let place = rules.key_place(metric, "negate");
    rules.add(place, diagnostic);
}

fn check_unused_new_field(rules: &mut Rules<'_>, metric: &View, name: &str, field: &str) {
    if rules.entry(metric, field).is_none() {
        return;
    }
    let message = format!("`{field}` does not belong to metric `{name}`");
    let diagnostic =
        Diagnostic::error(Code::ConflictingFields, message).about(metric.path.pointer(Some(field)));
    let place = rules.key_place(metric, field);
    rules.add(place, diagnostic);
}

/// Checks the expected values: not empty, because every answer contains the empty string, and valid expressions.
fn check_values(rules: &mut Rules<'_>, metric: &View, name: &str) {
    if !metric_fields::of_standard(name).contains(&"value") {
        return;
    }
    for (node, text) in rules.texts(metric, "value") {
        let place = rules.tree.place(node);
        let pointer = metric.path.pointer(Some("value"));
        let compares_whole = matches!(
            name,
            "equality" | "exact_match" | "levenshtein" | "numeric" | "regex"
        );
        if text.is_empty() && !matches!(name, "equality" | "exact_match" | "levenshtein")
            || !compares_whole && is_nothing(rules, metric, text)
        {
            let message = format!(
                "`value`{} is empty, and every answer contains an empty string",
                rules.owner_suffix(metric)
            );
            rules.add(place, Diagnostic::error(Code::Blank, message).about(pointer));
        } else if name == "regex"
            && let Err(error) = Pattern::new(text)
        {
            let message = format!(
                "`value`{} is not a regular expression: {error}",
                rules.owner_suffix(metric)
            );
            let diagnostic = Diagnostic::error(Code::BadPattern, message)
                .about(pointer)
                .with_help(HELP_FOR_PATTERNS);
            rules.add(place, diagnostic);
        }
    }
}

/// Whether the options of a metric leave nothing of a text that is searched for.
fn is_nothing(rules: &Rules<'_>, metric: &View, text: &str) -> bool {
    let strips = |field| rules.flag(metric, field) == Some(true);
    let is_left = |c: char| {
        let is_stripped = strips("strip_punctuation") && c.is_ascii_punctuation()
            || strips("strip_whitespace") && c.is_whitespace();
        !is_stripped
    };
    !text.chars().any(is_left)
}

fn check_optimizer(rules: &mut Rules<'_>, optimizer: &View) {
    if let Some(loss) = rules.child(optimizer, "loss") {
        for weight in rules.values(&loss) {
            let number = rules
                .tree
                .scalar(weight.node)
                .and_then(|scalar| crate::yaml::lenient_f64(scalar.text));
            if number.is_some_and(|number| number <= 0.0) {
                let message = format!("{} must be more than 0", weight.path.describe_field(rules.tree));
                let diagnostic =
                    Diagnostic::error(Code::OutOfRange, message).about(weight.path.pointer(None));
                let place = rules.tree.place(weight.node);
                rules.add(place, diagnostic);
            }
        }
    }
    let Some(axes) = rules.child(optimizer, "axes") else {
        return;
    };
    for axis in rules.list(&axes, "numeric") {
        if !matches!(rules.text(&axis, "type"), Some("float" | "int")) {
            continue;
        }
        let range: Vec<Option<f64>> = rules
            .texts(&axis, "range")
            .into_iter()
            .map(|(_, text)| crate::yaml::lenient_f64(text))
            .collect();
        let valid = matches!(range.as_slice(), [Some(low), Some(high)] if low < high);
        if !valid && rules.has(&axis, "range") {
            let message = format!(
                "`range`{} must be two numbers, the lower one first",
                rules.owner_suffix(&axis)
            );
            rules.report_inconsistent(&axis, "range", message, None);
        }
    }
}
