//! Assertions, one by one.

use std::path::Path;

use holodeck_import::{FindingKind, import_promptfoo};
use serde_json::{Value, json};

use crate::setup::{Memory, NoCode, findings, import, written};

/// The metrics of a test with one assertion, and the findings.
fn converted(assertion: &str) -> (Vec<Value>, Vec<String>) {
    let config = format!(
        "prompts: ['{{{{q}}}}']\nproviders: [openai:gpt-4o]\ntests:\n- vars: {{q: hello, context: c}}\n  assert:\n  - {assertion}\n"
    );
    let import = import(&config);
    let cases = written(&import, "cases.yaml");
    let metrics = cases[0]["evaluations"].as_array().unwrap().clone();
    (metrics, findings(&import))
}

fn check(assertion: &str, metric: &Value) {
    let (metrics, found) = converted(assertion);
    assert_eq!(metrics, std::slice::from_ref(metric), "{assertion}: {found:?}");
}

fn left_out(assertion: &str) {
    let (metrics, found) = converted(assertion);
    assert!(metrics.is_empty(), "{assertion}: {metrics:?}");
    assert!(
        found.iter().any(|line| line.starts_with("LeftOut 6:")),
        "{assertion}: {found:?}"
    );
}

#[test]
fn checks_keep_their_text_and_negation() {
    check(
        "{type: contains, value: 5}",
        &json!({"metric": "contains", "value": "5"}),
    );
    check(
        "{type: not-icontains, value: Ab}",
        &json!({"metric": "icontains", "value": "Ab", "negate": true}),
    );
    check(
        "{type: contains-any, value: 'a, \"b,c\"'}",
        &json!({"metric": "contains_any", "value": ["a", "b,c"]}),
    );
    check(
        "{type: equals, value: {a: 1}}",
        &json!({"metric": "json_schema", "schema": {"const": {"a": 1}}}),
    );
    check(
        "{type: levenshtein, value: x}",
        &json!({"metric": "levenshtein", "value": "x", "max_distance": 5}),
    );
    check(
        "{type: word-count, value: '7'}",
        &json!({"metric": "word_count", "min": 7, "max": 7}),
    );
    check(
        "{type: regex, value: '\\d'}",
        &json!({"metric": "regex", "value": "[0-9]"}),
    );
    check(
        "{type: is-json, value: '{type: object}'}",
        &json!({"metric": "json_schema", "schema": {"type": "object"}}),
    );
    check(
        "{type: contains, value: '{{q}}!'}",
        &json!({"metric": "contains", "value": "hello!"}),
    );
}

#[test]
fn similar_names_its_embedder_even_where_the_source_names_none() {
    for name in ["similar", "similar:cosine"] {
        check(
            &format!("{{type: '{name}', value: a}}"),
            &json!({
                "metric": "similar", "value": "a", "threshold": 0.75,
                "embedder": {"provider": "openai", "name": "text-embedding-3-large"},
            }),
        );
    }
    check(
        "{type: similar, value: ['{{q}}', b], threshold: 0.9, provider: 'azure:embedding:small'}",
        &json!({
            "metric": "similar", "value": ["hello", "b"], "threshold": 0.9,
            "embedder": {"provider": "azure_openai", "name": "small"},
        }),
    );
    check(
        "{type: similar, value: a, provider: {embedding: {id: 'openai:embedding:e', config: {apiBaseUrl: 'http://127.0.0.1:1/v1'}}}}",
        &json!({
            "metric": "similar", "value": "a", "threshold": 0.75,
            "embedder": {"provider": "openai", "name": "e", "endpoint": "http://127.0.0.1:1/v1"},
        }),
    );
}

#[test]
fn what_is_equal_here_and_not_there_is_not_taken_for_the_same() {
    // Folding makes `ß` and `ss` equal, JavaScript's lower case does not.
    check(
        "{type: icontains, value: Strasse}",
        &json!({"metric": "regex", "value": "Strasse", "case_insensitive": true}),
    );
    for assertion in [
        "{type: regex, value: '(?i)a'}",
        "{type: contains, value: ''}",
        "{type: contains-any, value: [a, '']}",
        "{type: levenshtein, value: ''}",
        "{type: rouge-n, value: a}",
        "{type: bleu, value: a}",
        "{type: not-similar, value: a}",
        "{type: similar, value: a, provider: openai:gpt-4o}",
        "{type: similar, value: a, provider: 'openai:embedding:'}",
        "{type: similar, value: a, provider: 'huggingface:feature-extraction:x'}",
        "{type: similar, value: []}",
        "{type: similar, value: [a, ' ']}",
        "{type: similar:dot, value: a}",
        "{type: contains, value: file://x.js}",
        "{type: contains, value: a, transform: output.trim()}",
        "{type: unheard-of, value: a}",
        "{type: not-g-eval, value: a}",
        "{type: not-llm-rubric, value: a, threshold: 0.5}",
        "{type: context-recall}",
        "{type: assert-set, threshold: 0.5, assert: [{type: contains, value: a}]}",
        "{type: javascript, value: 'context.providerResponse.x'}",
        "{type: llm-rubric, value: a, provider: 'bedrock:x'}",
        "{type: latency}",
        "{type: contains, value: '{{ q | mystery }}'}",
        "{value: a}",
    ] {
        left_out_or_beside(assertion);
    }
}

/// Left out, or taken over with a finding that still makes the import partial.
fn left_out_or_beside(assertion: &str) {
    let (_, found) = converted(assertion);
    assert!(
        found.iter().any(|line| line.starts_with("LeftOut 6:")),
        "{assertion}: {found:?}"
    );
}

#[test]
fn every_assertion_without_an_equal_is_left_out_with_its_line() {
    for name in [
        "moderation",
        "not-moderation",
        "trajectory:tool-used",
        "select-best",
        "is-sql",
        "webhook",
        "meteor",
    ] {
        left_out(&format!("{{type: '{name}', value: x}}"));
    }
}

#[test]
fn judges_keep_their_threshold() {
    let (metrics, _) = converted("{type: llm-rubric, value: is kind, threshold: 0.8}");
    assert_eq!(metrics[0]["threshold"], 0.8);
    assert_eq!(metrics[0]["criteria"], "is kind");
    let (metrics, found) = converted("{type: llm-rubric, value: is kind}");
    assert_eq!(metrics[0]["threshold"], 0.5);
    assert!(found.iter().any(|line| line.starts_with("Differs")), "{found:?}");
    let (metrics, _) = converted("{type: context-faithfulness, threshold: 0.9}");
    assert_eq!(
        metrics[0],
        json!({"type": "rag", "metric_type": "faithfulness", "threshold": 0.9})
    );
}

#[test]
fn scores_decide_only_where_the_test_has_a_threshold() {
    let config = |threshold: &str| {
        format!(
            "prompts: [hi]\nproviders: [openai:gpt-4o]\ntests:\n- {threshold}assert: [{{type: contains, value: a, weight: 2}}, {{type: contains, value: b}}]\n"
        )
    };
    let scored = written(&import(&config("threshold: 0.5\n  ")), "cases.yaml");
    assert_eq!(scored[0]["min_score"], 0.5);
    assert_eq!(scored[0]["evaluations"][0]["weight"], 2.0);
    let plain = written(&import(&config("")), "cases.yaml");
    assert_eq!(plain[0].get("min_score"), None);
    assert_eq!(plain[0]["evaluations"][0].get("weight"), None);
}

#[test]
fn code_stays_unrun_unless_it_is_allowed() {
    let files = Memory::new(&[(
        "c/promptfooconfig.yaml",
        "prompts: [file://p.py]\nproviders: [openai:gpt-4o]\ntests: file://t.js\n",
    )]);
    let source = Path::new("c/promptfooconfig.yaml");
    let import = import_promptfoo(source, Path::new(".."), &files, None).unwrap();
    assert!(import.is_partial());
    let files = Memory::new(&[(
        "c/promptfooconfig.yaml",
        "prompts: [a]\nproviders: [openai:gpt-4o]\ntests: https://example.com/t.csv\n",
    )]);
    let import = import_promptfoo(source, Path::new(".."), &files, Some(&mut NoCode)).unwrap();
    assert!(
        findings(&import).iter().any(|line| line.contains("not fetched")),
        "{:?}",
        findings(&import)
    );
}

#[test]
fn a_key_in_the_source_is_in_no_file() {
    let import = import(
        "prompts: [a]\nproviders:\n- id: openai:gpt-4o\n  config: {apiKey: sk-aaaaaaaaaaaaaaaaaaaaaaaa}\ntests: [{assert: [{type: contains, value: b}]}]\n",
    );
    for file in &import.files {
        assert!(!file.text.contains("sk-aaaa"), "{}", file.text);
    }
    let text = &import
        .files
        .iter()
        .find(|file| file.path == Path::new("agent.yaml"))
        .unwrap()
        .text;
    assert!(text.contains("api_key: \"${OPENAI_API_KEY}\""), "{text}");
    assert!(!findings(&import).join("\n").contains("sk-aaaa"));
}

#[test]
fn what_the_source_writes_as_a_variable_is_a_text() {
    let import = import(
        "prompts: ['${HOME} {{q}}']\nproviders: [openai:gpt-4o]\ntests:\n- vars: {q: '${PATH}'}\n  assert: [{type: contains, value: '${USER}'}]\n",
    );
    let text = &import
        .files
        .iter()
        .find(|file| file.path == Path::new("cases.yaml"))
        .unwrap()
        .text;
    assert!(
        text.contains("$${HOME} $${PATH}") && text.contains("$${USER}"),
        "{text}"
    );
}

#[test]
fn a_test_whose_assertions_are_all_left_out_checks_nothing() {
    let import = import("prompts: [a]\nproviders: [openai:gpt-4o]\ntests:\n- assert: [{type: moderation}]\n");
    let cases = written(&import, "cases.yaml");
    assert_eq!(cases[0]["evaluations"], json!([]));
    assert!(
        import
            .findings
            .iter()
            .any(|found| found.kind == FindingKind::LeftOut)
    );
}
