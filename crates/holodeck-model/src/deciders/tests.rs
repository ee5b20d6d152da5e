//! Tests that each part of a check which can change its verdict changes its identity, by name, and nothing else does.

use std::sync::Arc;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{check::Defaults, *};
use crate::OnMasked;
use crate::{MetricConfig, ModelConfig, Redactor};

/// An agent's checks, with this model as the default judge.
fn checks(judge: Value) -> CheckIdentities {
    let judge: ModelConfig = serde_json::from_value(judge).unwrap();
    CheckIdentities::of_metrics(
        &[],
        judged_by(&judge, OnMasked::Error),
        1,
        Arc::new(Redactor::default()),
        GraderFiles::new(),
    )
}

fn judged_by(judge: &ModelConfig, on_masked: OnMasked) -> Defaults<'_> {
    Defaults {
        judge: Some(judge),
        embedder: None,
        on_masked,
    }
}

fn default_judge() -> Value {
    json!({"provider": "openai", "name": "judge", "temperature": 0.0})
}

fn metric(config: &Value) -> MetricConfig {
    // The tag of an enum without serde's `tag`.
    let mut fields = config.as_object().unwrap().clone();
    let kind = fields.remove("type").unwrap();
    serde_json::from_value(json!({kind.as_str().unwrap(): fields})).unwrap()
}

fn identity(config: &Value) -> CheckIdentity {
    checks(default_judge()).check(&metric(config), reads())
}

fn reads() -> CheckReads<'static> {
    CheckReads {
        ground_truth: Some("the truth"),
        ..CheckReads::default()
    }
}

fn with(config: &Value, field: &str, value: Value) -> Value {
    let mut config = config.clone();
    config[field] = value;
    config
}

const NOTHING: &[Decider] = &[];
const EXPECTATION: &[Decider] = &[Decider::Expectation];
const JUDGE: &[Decider] = &[Decider::Judge];
const GRADER: &[Decider] = &[Decider::Grader];
const BOTH: &[Decider] = &[Decider::Expectation, Decider::Judge];

/// A field, a value of it, and the deciders that change with it.
type Row = (&'static str, Value, &'static [Decider]);

/// Each kind of check, with values of its fields and what they decide.
fn table() -> Vec<(Value, Vec<Row>)> {
    let other = json!({"provider": "openai", "name": "another"});
    let judging = |mut rows: Vec<(&'static str, Value, &'static [Decider])>| {
        rows.extend([
            ("model", other.clone(), JUDGE),
            ("judges", json!([other, other]), JUDGE),
            ("judge_repeats", json!(3), JUDGE),
            ("judge_repeats", json!(1), NOTHING),
            ("fail_on_error", json!(true), EXPECTATION),
            ("fail_on_error", json!(false), NOTHING),
            ("when", json!("gates_passed"), EXPECTATION),
            ("timeout_ms", json!(5), NOTHING),
            ("retry_on_failure", json!(2), NOTHING),
            ("require_calibrated", json!(true), NOTHING),
            ("enabled", json!(true), NOTHING),
        ]);
        rows
    };
    vec![
        (
            json!({"type": "standard", "metric": "contains", "value": "30"}),
            vec![
                ("value", json!("3"), EXPECTATION),
                ("negate", json!(true), EXPECTATION),
                ("negate", json!(false), NOTHING),
                ("case_insensitive", json!(true), EXPECTATION),
                ("strip_whitespace", json!(true), EXPECTATION),
                ("strip_punctuation", json!(true), EXPECTATION),
                ("response_path", json!("a.b"), EXPECTATION),
                ("threshold", json!(0.5), EXPECTATION),
                ("metric", json!("icontains"), EXPECTATION),
                ("absolute_tolerance", json!(1e-6), NOTHING),
            ],
        ),
        (
            json!({"type": "standard", "metric": "numeric"}),
            vec![
                ("absolute_tolerance", json!(0.5), EXPECTATION),
                ("relative_tolerance", json!(0.5), EXPECTATION),
                ("accept_percent", json!(true), EXPECTATION),
                ("accept_thousands_separators", json!(true), EXPECTATION),
            ],
        ),
        (
            json!({"type": "standard", "metric": "rouge", "threshold": 0.5}),
            vec![
                ("variant", json!("rouge1"), EXPECTATION),
                ("variant", json!("rougeL"), NOTHING),
                ("threshold", json!(0.4), EXPECTATION),
                ("unicode", json!(true), EXPECTATION),
            ],
        ),
        (
            json!({"type": "standard", "metric": "latency", "max_ms": 1000}),
            vec![("max_ms", json!(2000), EXPECTATION)],
        ),
        (
            json!({"type": "standard", "metric": "json_schema", "schema": {"type": "object"}}),
            vec![("schema", json!({"type": "array"}), EXPECTATION)],
        ),
        (
            json!({"type": "standard", "metric": "relevance", "threshold": 0.5}),
            judging(vec![
                ("threshold", json!(0.4), EXPECTATION),
                ("scale", json!(10), JUDGE),
                // The prompt may show the expected answer.
                ("custom_prompt", json!("{{ground_truth}}"), BOTH),
            ]),
        ),
        (
            json!({"type": "geval", "name": "Kind", "criteria": "Is it kind?", "evaluation_steps": ["Read."]}),
            judging(vec![
                ("name", json!("Kindness"), NOTHING),
                ("criteria", json!("Is it polite?"), JUDGE),
                ("evaluation_steps", json!(["Look."]), JUDGE),
                ("evaluation_params", json!(["actual_output"]), NOTHING),
                ("evaluation_params", json!(["input"]), JUDGE),
                ("evaluation_params", json!(["expected_output"]), BOTH),
                (
                    "rubric",
                    json!([{"score_range": [0, 10], "expected_outcome": "x"}]),
                    JUDGE,
                ),
                ("samples", json!(5), JUDGE),
                ("strict_mode", json!(true), BOTH),
                ("include_reason", json!(false), JUDGE),
                ("threshold", json!(0.4), EXPECTATION),
                ("threshold", json!(0.5), NOTHING),
            ]),
        ),
        (
            json!({"type": "rag", "metric_type": "faithfulness"}),
            judging(vec![
                ("metric_type", json!("answer_relevancy"), BOTH),
                ("strict_mode", json!(true), BOTH),
                ("include_reason", json!(false), JUDGE),
                ("threshold", json!(0.4), EXPECTATION),
                ("threshold", json!(0.5), NOTHING),
            ]),
        ),
        (
            json!({"type": "goal_success", "goal": "a refund"}),
            judging(vec![
                ("goal", json!("an answer"), BOTH),
                ("strict_mode", json!(true), BOTH),
                ("include_reason", json!(false), JUDGE),
                ("threshold", json!(0.4), EXPECTATION),
            ]),
        ),
        (
            json!({"type": "code", "grader": "graders.orders:check"}),
            vec![
                ("grader", json!("graders.orders:pass"), GRADER),
                ("command", json!("./grade.sh"), GRADER),
                ("args", json!(["--lenient"]), GRADER),
                ("env", json!({"MODE": "lenient"}), GRADER),
                ("threshold", json!(0.4), EXPECTATION),
                ("fail_on_error", json!(true), EXPECTATION),
                ("when", json!("gates_passed"), EXPECTATION),
                ("name", json!("orders"), NOTHING),
                ("timeout_ms", json!(5), NOTHING),
            ],
        ),
    ]
}

#[test]
fn each_field_of_each_check_decides_what_it_should() {
    for (config, rows) in table() {
        let before = identity(&config);
        for (field, value, expected) in rows {
            let after = identity(&with(&config, field, value.clone()));
            let found = before.differences(&after).unwrap();
            assert_eq!(found, expected, "{config}: `{field}` is {value} now");
        }
    }
}

#[test]
fn every_parameter_of_the_default_judge_is_part_of_its_identity() {
    let config = metric(&json!({"type": "standard", "metric": "fluency", "threshold": 0.5}));
    let before = checks(default_judge()).check(&config, reads());
    let rows = [
        ("provider", json!("ollama"), JUDGE),
        ("name", json!("another"), JUDGE),
        ("temperature", json!(1.0), JUDGE),
        ("max_tokens", json!(10), JUDGE),
        ("top_p", json!(0.5), JUDGE),
        ("stop", json!(["."]), JUDGE),
        ("endpoint", json!("http://127.0.0.1:1/v1"), JUDGE),
        ("api_version", json!("2"), JUDGE),
        ("reasoning", json!(true), JUDGE),
        ("reasoning_in_content", json!("keep"), JUDGE),
        // Keys are renewed, and the rate changes no answer.
        ("api_key", json!("k"), NOTHING),
        ("rpm", json!(3), NOTHING),
    ];
    for (field, value, expected) in rows {
        let after = checks(with(&default_judge(), field, value)).check(&config, reads());
        assert_eq!(before.differences(&after).unwrap(), expected, "{field}");
    }
    let prompts = CheckIdentities::of_metrics(
        &[],
        judged_by(&serde_json::from_value(default_judge()).unwrap(), OnMasked::Error),
        2,
        Arc::default(),
        GraderFiles::new(),
    );
    let after = prompts.check(&config, reads());
    assert_eq!(before.differences(&after).unwrap(), JUDGE);
}

#[test]
fn a_check_is_another_only_if_a_text_that_it_reads_changed() {
    let truth = CheckReads {
        ground_truth: Some("another truth"),
        ..reads()
    };
    let context = ["a passage".to_owned()];
    let context = CheckReads {
        retrieval_context: Some(&context),
        ..reads()
    };
    let turn_config = [("a".to_owned(), json!(1))].into_iter().collect();
    let turn_config = CheckReads {
        turn_config: Some(&turn_config),
        ..reads()
    };
    let rows = [
        (
            json!({"type": "standard", "metric": "contains", "value": "x"}),
            [false, false, false],
        ),
        (
            json!({"type": "standard", "metric": "contains"}),
            [true, false, false],
        ),
        (
            json!({"type": "standard", "metric": "bleu"}),
            [true, false, false],
        ),
        (
            json!({"type": "standard", "metric": "relevance"}),
            [false, true, false],
        ),
        (
            json!({"type": "geval", "name": "g", "criteria": "c"}),
            [false, false, false],
        ),
        (
            json!({"type": "geval", "name": "g", "criteria": "c", "evaluation_params": ["expected_output", "context"]}),
            [true, true, false],
        ),
        (
            json!({"type": "rag", "metric_type": "contextual_recall"}),
            [true, true, false],
        ),
        (
            json!({"type": "rag", "metric_type": "faithfulness"}),
            [false, true, false],
        ),
        (json!({"type": "code", "grader": "m:f"}), [true, true, true]),
    ];
    let checks = checks(default_judge());
    for (config, expected) in rows {
        let config = metric(&config);
        let before = checks.check(&config, reads());
        let found = [truth, context, turn_config].map(|reads| checks.check(&config, reads) != before);
        assert_eq!(found, expected, "{config:?}");
    }
}

#[test]
fn accepting_masked_texts_is_expected_of_what_reads_them_wherever_it_is_written() {
    let judge: ModelConfig = serde_json::from_value(default_judge()).unwrap();
    let with = |on_masked| {
        CheckIdentities::of_metrics(
            &[],
            judged_by(&judge, on_masked),
            1,
            Arc::default(),
            GraderFiles::new(),
        )
    };
    let (error, accept) = (with(OnMasked::Error), with(OnMasked::Accept));
    for (config, sees_masked) in [
        (
            json!({"type": "standard", "metric": "contains", "value": "a"}),
            false,
        ),
        (
            json!({"type": "standard", "metric": "relevance", "threshold": 0.5}),
            true,
        ),
        (json!({"type": "geval", "name": "g", "criteria": "c"}), true),
        (json!({"type": "rag", "metric_type": "faithfulness"}), true),
        (json!({"type": "code", "grader": "m:f"}), true),
        (json!({"type": "goal_success"}), true),
    ] {
        let identity = |checks: &CheckIdentities, own: Value| {
            checks.check(&metric(&super::tests::with(&config, "on_masked", own)), reads())
        };
        let before = error.check(&metric(&config), reads());
        // The default is left out.
        assert_eq!(identity(&error, json!("error")), before);
        assert_eq!(identity(&accept, json!("error")), before);
        if sees_masked {
            let accepted = accept.check(&metric(&config), reads());
            assert_eq!(identity(&error, json!("accept")), accepted);
            assert_eq!(before.differences(&accepted).unwrap(), EXPECTATION, "{config}");
        } else {
            assert_eq!(accept.check(&metric(&config), reads()), before);
        }
    }
}

#[test]
fn another_file_of_a_grader_is_another_grader() {
    let config = json!({"type": "code", "grader": "m:f"});
    let MetricConfig::Code(code) = metric(&config) else {
        panic!("it is a code grader")
    };
    let with_files = |files: &[(&str, &str)]| {
        let digests = files
            .iter()
            .map(|(name, text)| ((*name).to_owned(), Digest::of(&json!(text))));
        let files = [(CheckIdentities::program(&code), digests.collect())].into();
        let judge = serde_json::from_value(default_judge()).unwrap();
        CheckIdentities::of_metrics(&[], judged_by(&judge, OnMasked::Error), 1, Arc::default(), files)
            .check(&metric(&config), reads())
    };
    let before = with_files(&[("m.py", "a"), ("helper.py", "b")]);
    for files in [
        &[("m.py", "a"), ("helper.py", "c")][..],
        &[("m.py", "c"), ("helper.py", "b")],
        &[("m.py", "a")],
        &[("m.py", "a"), ("helper.py", "b"), ("new.py", "d")],
    ] {
        assert_eq!(
            before.differences(&with_files(files)).unwrap(),
            GRADER,
            "{files:?}"
        );
    }
    assert_eq!(before, with_files(&[("helper.py", "b"), ("m.py", "a")]));
}

#[test]
fn differences_of_a_case_are_named() {
    let digest = |text: &str| Digest::of(&json!(text));
    let check = |expectation: &str, judge: &str| CheckIdentity {
        expectation: Some(digest(expectation)),
        judge: Some(digest(judge)),
        grader: None,
    };
    let mut before = CaseDeciders::known();
    before.add_check("Kind", check("a", "j"));
    before.add_check("gone", check("a", "j"));
    before.add_rule("forbidden_tools".to_owned(), digest("x"));
    let mut after = CaseDeciders::known();
    after.add_check("Kind", check("a", "k"));
    after.add_rule("expected_tools".to_owned(), digest("x"));
    let found = before.differences(&after).unwrap();
    let text = "the expectation `expected_tools`, the expectation `forbidden_tools`, the expectation `gone`, the judge of \
                `Kind`";
    assert_eq!(describe_differences(&found), text);
    assert_eq!(before.differences(&before), Some(Vec::new()));
    assert_eq!(CaseDeciders::default().differences(&before), None);
    assert_eq!(before.differences(&CaseDeciders::default()), None);
}

#[test]
fn a_lower_number_of_passes_is_another_expectation() {
    let trials = |count, min_passes| CaseDeciders::known().with_trials(count, min_passes);
    // That all must pass is one rule, however often a case runs.
    assert_eq!(trials(5, 5), trials(1, 1));
    assert_ne!(trials(5, 1), trials(5, 5));
    assert_ne!(trials(5, 3), trials(10, 3));
    let found = trials(5, 1).differences(&trials(5, 5)).unwrap();
    assert_eq!(describe_differences(&found), "the expectation `min_passes`");
}

#[test]
fn each_part_of_an_embedder_that_changes_its_vectors_changes_who_judges() {
    let of = |own: Value, of_agent: Option<Value>| {
        let mut config = json!({"type": "standard", "metric": "similar", "threshold": 0.5});
        if !own.is_null() {
            config["embedder"] = own;
        }
        let of_agent = of_agent.map(|agent| serde_json::from_value(agent).unwrap());
        let defaults = Defaults {
            embedder: of_agent.as_ref(),
            ..Defaults::default()
        };
        CheckIdentities::of_metrics(&[], defaults, 1, Arc::default(), GraderFiles::new())
            .check(&metric(&config), reads())
    };
    let own = json!({"provider": "openai", "name": "small"});
    let before = of(own.clone(), None);
    for (field, value, changes) in [
        ("provider", json!("ollama"), true),
        ("name", json!("large"), true),
        ("endpoint", json!("http://127.0.0.1:1"), true),
        ("api_version", json!("2"), true),
        ("rpm", json!(3), false),
        ("api_key", json!("k"), false),
    ] {
        let after = of(with(&own, field, value), None);
        assert_eq!(before.judge != after.judge, changes, "{field}");
        assert_eq!(before.expectation, after.expectation, "{field}");
    }
    assert_eq!(before, of(Value::Null, Some(own.clone())));
    assert_ne!(
        before.judge,
        of(Value::Null, Some(with(&own, "name", json!("large")))).judge
    );
}
