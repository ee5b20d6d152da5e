//! Cases with `vars`, earlier messages, tags and weights: what is read, what is rendered, and what is reported where.

use std::{collections::BTreeSet, path::Path};

use holodeck_model::{CaseContent, Env, MemoryFiles, MessageRole, Severity, identify_cases};
use holodeck_yaml::{Load, load_agent};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::support::{fixtures, load_fixture};

const HEAD: &str = "name: a\nmodel: {provider: openai, name: m, endpoint: \"http://127.0.0.1:9\"}\n\
                    instructions: {inline: Hi}\n";

fn load(blocks: &str) -> Load {
    load_with(blocks, &MemoryFiles::new())
}

fn load_with(blocks: &str, files: &MemoryFiles) -> Load {
    let files = files.clone().with("agent.yaml", format!("{HEAD}{blocks}\n"));
    load_agent(Path::new("agent.yaml"), &Env::empty(), &files)
}

/// The errors and warnings with line and column.
fn problems(blocks: &str) -> Vec<String> {
    let diagnostics = load(blocks).diagnostics.into_iter();
    let problems = diagnostics.filter(|diagnostic| diagnostic.severity != Severity::Note);
    problems
        .map(|problem| {
            let (line, column) = problem.primary.map_or((0, 0), |at| (at.line, at.column));
            format!("{line}:{column} {}", problem.message)
        })
        .collect()
}

fn contents(blocks: &str) -> Vec<CaseContent> {
    let load = load(blocks);
    let agent = load.agent.unwrap_or_else(|| panic!("{:?}", load.diagnostics));
    let identities = identify_cases(&agent.config.test_cases, &MemoryFiles::new());
    identities.iter().map(|identity| identity.content).collect()
}

#[test]
fn questions_and_messages_of_a_case_with_vars_are_templates() {
    let load = load(
        "test_cases:\n\
         - input: 'In {{ city }}: {{ count }} x {{ more }}'\n\
         \x20 vars: {city: Oslo, count: 3, more: '{{ city }}'}\n\
         \x20 messages:\n\
         \x20 - {role: user, content: 'I live in {{ city }}'}\n\
         \x20 - {role: assistant, content: fine}\n\
         - input: 'In {{ city }}'\n\
         - vars: {a: 1}\n\
         \x20 turns: [{input: 'first {{ a }}'}, {input: second}]\n",
    );
    let agent = load.agent.unwrap_or_else(|| panic!("{:?}", load.diagnostics));
    let case = |index| agent.config.test_cases.get(index).unwrap().into_owned();
    assert_eq!(case(0).input.as_deref(), Some("In Oslo: 3 x {{ city }}"));
    let messages: Vec<_> = case(0)
        .messages
        .into_iter()
        .map(|it| (it.role, it.content))
        .collect();
    assert_eq!(
        messages,
        [
            (MessageRole::User, "I live in Oslo".to_owned()),
            (MessageRole::Assistant, "fine".to_owned())
        ]
    );
    // Without `vars` the braces are text, as before.
    assert_eq!(case(1).input.as_deref(), Some("In {{ city }}"));
    let turns: Vec<String> = case(2).turns.into_iter().map(|turn| turn.input).collect();
    assert_eq!(turns, ["first 1", "second"]);
}

#[test]
fn an_unknown_name_is_reported_where_it_stands() {
    assert_eq!(
        problems("test_cases:\n- input: 'In {{ citty }} and {{ land }}'\n  vars: {city: Oslo}"),
        [
            "5:17 `citty` is not one of the `vars` of this case",
            "5:33 `land` is not one of the `vars` of this case",
        ]
    );
    assert_eq!(
        problems("test_cases:\n- input: 'In {{ city'\n  vars: {city: Oslo}").len(),
        1
    );
    assert_eq!(
        problems("test_cases:\n- vars: {city: Oslo}\n  input: |\n    In\n    {{ land }}"),
        ["8:8 `land` is not one of the `vars` of this case"]
    );
}

#[test]
fn what_makes_no_sense_is_reported() {
    for (blocks, expected) in [
        (
            "test_cases: [{input: a, vars: {1x: b}}]",
            "`1x` cannot be a name in a template",
        ),
        (
            "test_cases: [{input: a, vars: {'a b': b}}]",
            "`a b` cannot be a name in a template",
        ),
        (
            "test_cases: [{input: a, messages: [{role: user, content: x}]}]",
            "the last of the `messages` of test case 1 is the user's, and the question follows it",
        ),
        (
            "test_cases: [{input: a, messages: [{role: system, content: x}]}]",
            "role",
        ),
        (
            "test_cases: [{input: a, messages: [{role: assistant, content: ' '}]}]",
            "content",
        ),
        ("test_cases: [{input: a, tags: ['a b']}]", "tags"),
        ("test_cases: [{input: a, min_score: 1.5}]", "min_score"),
        (
            "test_cases: [{input: a, evaluations: [{metric: contains, value: x, weight: -1}]}]",
            "weight",
        ),
        (
            "test_cases: [{input: a, evaluations: [{metric: similar, value: x, threshold: 0.5}]}]",
            "`similar` needs an `embedder`",
        ),
        (
            "test_cases: [{input: a, evaluations: [{metric: similar, value: x, threshold: 0.5, negate: true, embedder: {provider: hash}}]}]",
            "negate",
        ),
        (
            "embedding_provider: {provider: hash}\n\
             test_cases: [{input: a, evaluations: [{metric: similar, value: x}]}]",
            "threshold",
        ),
        (
            "test_cases: [{input: a, evaluations: [{metric: word_count}]}]",
            "`word_count` needs `min` or `max`",
        ),
        (
            "test_cases: [{input: a, evaluations: [{metric: word_count, min: 3, max: 2}]}]",
            "more than `max` 2",
        ),
        (
            "test_cases: [{input: a, evaluations: [{metric: word_count, min: 0}]}]",
            "passes every answer",
        ),
        (
            "test_cases: [{input: a, evaluations: [{metric: finish_reason, value: finished}]}]",
            "`finished` is not a reason why an answer ends",
        ),
        (
            "test_cases: [{input: a, evaluations: [{metric: finish_reason}]}]",
            "value",
        ),
        (
            "test_cases: [{input: a, evaluations: [{metric: contains, value: x, min: 1}]}]",
            "`min`",
        ),
    ] {
        let found = problems(blocks);
        assert!(
            found.iter().any(|problem| problem.contains(expected)),
            "{blocks}: {found:?}"
        );
    }
    for fine in [
        "test_cases: [{input: a, tags: [a, b_2], min_score: 0.5, messages: [{role: assistant, content: x}]}]",
        "test_cases: [{input: a, evaluations: [{metric: finish_reason, value: [end, length]}]}]",
        "test_cases: [{input: a, evaluations: [{metric: contains_json, schema: {type: object}, weight: 0}]}]",
        "test_cases: [{input: a, evaluations: [{metric: is_refusal, negate: true}]}]",
    ] {
        assert_eq!(problems(fine), Vec::<String>::new(), "{fine}");
    }
}

#[test]
fn an_expected_argument_that_the_tool_does_not_have_draws_a_warning() {
    let tools = "tools: [{type: function, name: stock, description: d, command: echo, parameters: {sku: {type: string}}}]\n";
    let case = |args: &str| {
        format!("{tools}test_cases: [{{input: a, expected_tools: [{{name: stock, args: {args}}}]}}]")
    };
    assert_eq!(
        problems(&case("{skuu: A-1}")),
        ["5:63 `stock` has no parameter `skuu`"]
    );
    assert_eq!(problems(&case("{sku: A-1}")), Vec::<String>::new());
    let turns = format!(
        "{tools}test_cases: [{{turns: [{{input: a, expected_tools: [{{name: stock, args: {{x: 1}}}}]}}]}}]"
    );
    assert_eq!(problems(&turns).len(), 1);
}

#[test]
fn columns_of_a_table_set_variables_and_tags() {
    let csv = "input,vars.city,vars.tone,tags,min_score\n\
               {{ tone }}In {{ city }},Oslo,,slow;nordic,0.5\n";
    let files = MemoryFiles::new().with("cases.csv", csv);
    let load = load_with("test_cases_file: cases.csv", &files);
    let agent = load.agent.unwrap_or_else(|| panic!("{:?}", load.diagnostics));
    let case = agent.config.test_cases.get(0).unwrap();
    assert_eq!(case.input.as_deref(), Some("In Oslo"));
    assert_eq!(json!(case.vars), json!({"city": "Oslo", "tone": ""}));
    assert_eq!(
        (case.tags.join(" "), case.min_score),
        ("slow nordic".to_owned(), Some(0.5))
    );
    let both = MemoryFiles::new().with("cases.csv", "input,vars,vars.city\na,\"{}\",b\n");
    let load = load_with("test_cases_file: cases.csv", &both);
    assert!(load.agent.is_none());
}

#[test]
fn only_what_is_asked_is_the_content_of_a_case() {
    let plain = contents("test_cases: [{input: In Oslo}]");
    for same in [
        "test_cases: [{input: 'In {{ city }}', vars: {city: Oslo}}]",
        "test_cases: [{input: 'In Oslo', vars: {other: 1}, tags: [a], min_score: 0.5}]",
        "test_cases: [{input: In Oslo, evaluations: [{metric: contains, value: x, weight: 3}]}]",
    ] {
        assert_eq!(contents(same), plain, "{same}");
    }
    let others = [
        "test_cases: [{input: In Oslo, messages: [{role: assistant, content: a}]}]",
        "test_cases: [{input: In Oslo, messages: [{role: assistant, content: b}]}]",
        "test_cases: [{input: In Oslo, messages: [{role: user, content: a}, {role: assistant, content: b}]}]",
        "test_cases: [{input: 'In {{ city }}', vars: {city: Rome}}]",
    ];
    let mut all: BTreeSet<CaseContent> = others.iter().flat_map(|blocks| contents(blocks)).collect();
    all.extend(plain);
    assert_eq!(all.len(), others.len() + 1);
}

/// Stored runs and recordings name cases by these digests.
#[test]
fn the_digests_of_cases_without_the_new_fields_stay() {
    let mut lines = Vec::new();
    for path in fixtures("valid") {
        let load = load_fixture(&path);
        let agent = load.agent.unwrap_or_else(|| panic!("{}", path.display()));
        for (case, identity) in agent
            .config
            .test_cases
            .iter()
            .zip(identify_cases(&agent.config.test_cases, &MemoryFiles::new()))
        {
            let stored = serde_json::to_value(&*case).unwrap();
            let fields = stored.as_object().unwrap().keys();
            let new = ["vars", "messages", "tags", "min_score", "sent_vars"];
            assert!(
                fields.clone().all(|field| !new.contains(&field.as_str())),
                "{stored}"
            );
            lines.push(format!("{} {} {}", path.display(), identity.id, identity.content));
        }
    }
    assert!(lines.len() > 20, "{}", lines.len());
    insta::assert_snapshot!(lines.join("\n"));
}
