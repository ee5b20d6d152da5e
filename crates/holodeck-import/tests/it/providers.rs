//! Providers whose code gets more than the prompt, and models whose answers are calls.

use serde_json::{Value, json};

use crate::setup::{findings, import, written};

fn tool_caller(parameters: &str, assertion: &str) -> (Value, Vec<String>, String) {
    let config = format!(
        "prompts: ['{{{{q}}}}']\nproviders:\n- id: openai:gpt-4o\n  config: {{temperature: 0.5, tools: [{{type: function, function: {{name: f, parameters: {parameters}}}}}]}}\ntests:\n- vars: {{q: hello}}\n  assert:\n  - {assertion}\n"
    );
    let import = import(&config);
    let metrics = written(&import, "cases.yaml")[0]["evaluations"].clone();
    let program = import.files.iter().find(|file| file.path.starts_with("targets"));
    let program = program.map(|file| file.text.clone()).unwrap_or_default();
    (metrics, findings(&import), program)
}

#[test]
fn a_model_with_tools_is_asked_once_and_its_calls_are_graded() {
    let parameters = "{type: object, properties: {n: {type: integer}}}";
    let (metrics, found, program) =
        tool_caller(parameters, "{type: tool-call-f1, value: 'f, g', threshold: 0.5}");
    assert!(found.is_empty(), "{found:?}");
    assert_eq!(metrics[0]["args"][0], "graders/tool_calls.mjs");
    let settings: Value = serde_json::from_str(metrics[0]["args"][1].as_str().unwrap()).unwrap();
    assert_eq!(
        settings,
        json!({"kind": "f1", "inverse": false, "names": ["f", "g"], "threshold": 0.5})
    );
    for part in [
        "\"model\":\"gpt-4o\"",
        "\"temperature\":0.5",
        "\"max_tokens\":1024",
        "\"name\":\"f\"",
    ] {
        assert!(program.contains(part), "{part} in {program}");
    }
    let (metrics, found, _) = tool_caller(parameters, "{type: is-valid-openai-tools-call}");
    assert!(found.is_empty(), "{found:?}");
    let settings: Value = serde_json::from_str(metrics[0]["args"][1].as_str().unwrap()).unwrap();
    assert_eq!(settings["tools"][0]["function"]["name"], "f");
}

#[test]
fn calls_that_would_be_graded_otherwise_are_left_out() {
    let plain = "{type: object}";
    for (parameters, assertion) in [
        ("{type: object, oneOf: []}", "{type: is-valid-openai-tools-call}"),
        (
            "{type: object, properties: {a: {pattern: x}}}",
            "{type: is-valid-openai-tools-call}",
        ),
        (
            "{type: array, items: {format: date}}",
            "{type: is-valid-openai-tools-call}",
        ),
        (plain, "{type: not-is-valid-openai-tools-call}"),
        (plain, "{type: tool-call-f1}"),
        (plain, "{type: tool-call-f1, value: []}"),
    ] {
        let (metrics, found, _) = tool_caller(parameters, assertion);
        assert_eq!(metrics, json!([]), "{assertion}");
        assert!(
            found.iter().any(|line| line.starts_with("LeftOut")),
            "{parameters} {assertion}"
        );
    }
    let config = "prompts: ['{{q}}']\nproviders: [openai:gpt-4o]\ntests:\n- vars: {q: hello}\n  assert: [{type: tool-call-f1, value: f}]\n";
    assert!(
        findings(&import(config))
            .iter()
            .any(|line| line.starts_with("LeftOut 5:"))
    );
}

#[test]
fn the_code_of_a_provider_gets_the_variables_of_its_test() {
    let config = |vars: &str, prompt: &str| {
        format!(
            "prompts: ['{prompt}']\nproviders: ['file://agent.py']\ntests:\n- vars: {vars}\n  assert: [{{type: contains, value: x}}]\n"
        )
    };
    let case = |vars: &str, prompt: &str| {
        let import = import(&config(vars, prompt));
        (written(&import, "cases.yaml")[0].clone(), findings(&import))
    };
    let (plain, found) = case("{q: hello, n: 2}", "{{q}}!");
    assert_eq!(
        (&plain["input"], &plain["vars"]),
        (&json!("hello!"), &json!({"q": "hello", "n": 2}))
    );
    assert!(found.is_empty(), "{found:?}");
    // With `vars` a question is a template: braces of the source stay braces.
    let (braces, _) = case("{q: '{{ x }}', raw: '{% y %}'}", "{% raw %}{{ q }}{% endraw %}");
    assert_eq!(braces["input"], "{% raw %}{{ q }}{% endraw %}");
    let (_, found) = case("{'a b': 1, q: hi}", "{{q}}");
    assert!(
        found
            .iter()
            .any(|line| line.starts_with("LeftOut") && line.contains("`a b`")),
        "{found:?}"
    );
    // A model gets the prompt and nothing else.
    let model = import(
        "prompts: ['{{q}}']\nproviders: [openai:gpt-4o]\ntests:\n- vars: {q: hello}\n  assert: [{type: contains, value: x}]\n",
    );
    assert_eq!(written(&model, "cases.yaml")[0]["vars"], Value::Null);
}

#[test]
fn prompts_of_a_provider_that_is_named_by_its_id_have_no_effect_beside_a_label() {
    let agents = |provider: &str| {
        let config = format!(
            "prompts: [{{label: a, raw: 'A {{{{q}}}}'}}, {{label: b, raw: 'B {{{{q}}}}'}}]\nproviders:\n{provider}\ntests:\n- vars: {{q: x}}\n  assert: [{{type: contains, value: x}}]\n"
        );
        import(&config).agents.len()
    };
    assert_eq!(agents("- id: openai:gpt-4o\n  label: l\n  prompts: [a]"), 1);
    assert_eq!(agents("- openai:gpt-4o:\n    prompts: [a]"), 1);
    assert_eq!(agents("- openai:gpt-4o:\n    label: l\n    prompts: [a]"), 2);
}
