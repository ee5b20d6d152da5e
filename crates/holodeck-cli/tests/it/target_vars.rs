//! The `vars` of a case in what a target receives: in every part of a request, in recordings, and where one is missing.

use holodeck_testkit::{EndpointServer, ReceivedRequest, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::project::Project;

fn echo() -> EndpointServer {
    EndpointServer::answering(|request: &ReceivedRequest| {
        Reply::raw(
            200,
            "application/json",
            json!({"answer": request.body.to_string()}).to_string(),
        )
    })
}

fn project(url: &str, fields: &str, cases: &str) -> Project {
    Project::with(&format!(
        "name: s\ntarget:\n  type: http\n  url: \"{url}\"\n  response: {{text: $.answer}}\n{fields}test_cases:\n{cases}"
    ))
}

const FIELDS: &str = "  query: {lang: '{{ vars.lang }}'}\n  headers: {X-Days: '{{ vars.days }}'}\n  body: {who: '{{ vars.who }}', message: '{{ input }} in {{ vars.lang }}', all: '{{ vars }}'}\n";

#[test]
fn every_part_of_a_request_may_contain_the_values_of_its_case() {
    let service = echo();
    let url = format!("{}/{{{{ vars.lang }}}}", service.url());
    let cases = "- name: a\n  input: '{{ lang }}?'\n  vars: {lang: 'de/ü', days: 14, who: {name: Ann, tags: [x, 1]}, braces: '{{ lang }}'}\n  evaluations: [{metric: contains, value: Ann}]\n";
    let project = project(&url, FIELDS, cases);
    project.run(&["test"]).exits(0);
    let request = service.requests().remove(0);
    assert!(request.path.starts_with("/de%2F%C3%BC?"), "{}", request.path);
    assert!(request.path.contains("lang=de%2F%C3%BC"), "{}", request.path);
    assert_eq!(request.header("x-days"), Some("14"));
    assert_eq!(
        request.body,
        json!({
            "who": {"name": "Ann", "tags": ["x", 1]}, "message": "de/ü? in de/ü",
            "all": {"lang": "de/ü", "days": 14, "who": {"name": "Ann", "tags": ["x", 1]}, "braces": "{{ lang }}"},
        })
    );
}

#[test]
fn every_turn_of_a_conversation_has_the_values_of_its_case() {
    let service = echo();
    let fields = "  body: {message: '{{ input }}', lang: '{{ vars.lang }}', session: '{{ session_id }}'}\n";
    let cases = "- name: a\n  vars: {lang: de}\n  turns:\n  - {input: one}\n  - {input: 'two {{ lang }}'}\n- name: b\n  vars: {lang: fr}\n  input: three\n";
    project(&service.url(), fields, cases).run(&["test"]);
    let mut sent: Vec<(Value, Value)> = service
        .requests()
        .into_iter()
        .map(|request| (request.body["message"].clone(), request.body["lang"].clone()))
        .collect();
    sent.sort_by_key(|(message, _)| message.to_string());
    assert_eq!(
        sent,
        [
            (json!("one"), json!("de")),
            (json!("three"), json!("fr")),
            (json!("two de"), json!("de")),
        ]
    );
}

#[test]
fn a_value_that_a_template_needs_is_never_empty() {
    for (field, used) in [
        ("  body: {a: '{{ vars.lang }}'}\n", "target.body.a"),
        (
            "  body: {a: [x, {b: 'in {{ vars.lang }}'}]}\n",
            "target.body.a.1.b",
        ),
        (
            "  body: {a: x}\n  headers: {X: '{{ vars.lang }}'}\n",
            "target.headers.X",
        ),
        (
            "  body: {a: x}\n  query: {q: '{{ vars.lang | upper }}'}\n",
            "target.query.q",
        ),
    ] {
        let cases = "- {name: has, input: q, vars: {lang: de}}\n- {name: lacks, input: q}\n- {name: other, input: q, vars: {language: de}}\n";
        let service = echo();
        let project = project(&service.url(), field, cases);
        for command in ["validate", "test"] {
            project
                .run(&[command, "agent.yaml"])
                .exits(2)
                .says(&format!(
                    "test case 2 has no `vars.lang`, nor has another one; `{used}` uses it"
                ))
                .says("agent.yaml:");
        }
        assert!(service.requests().is_empty());
        let with_default = project
            .read("agent.yaml")
            .replace("vars.lang", "vars.lang | default(\"en\")");
        project.write("agent.yaml", with_default);
        project.run(&["validate", "agent.yaml"]).exits(0);
    }
}

#[test]
fn another_value_is_another_question_only_where_a_request_contains_it() {
    let service = echo();
    let fields = "  body: {message: '{{ input }}', lang: '{{ vars.lang }}'}\n";
    let cases =
        "- {name: a, input: q, vars: {lang: de, other: x}, evaluations: [{metric: contains, value: de}]}\n";
    let project = project(&service.url(), fields, cases);
    project.run(&["test", "--record", "tape.jsonl"]).exits(0);
    let asked = service.requests().len();
    let yaml = project.read("agent.yaml");
    // A value that is not sent changes nothing.
    project.write("agent.yaml", yaml.replace("other: x", "other: y"));
    project.run(&["test", "--replay", "tape.jsonl"]).exits(0);
    project.write("agent.yaml", yaml.replace("lang: de,", "lang: fr,"));
    project.run(&["test", "--replay", "tape.jsonl"]).exits(3);
    assert_eq!(project.states(), ["error"]);
    assert_eq!(service.requests().len(), asked);
}

#[test]
fn a_program_and_a_function_get_all_values() {
    for (target, file, text) in [
        (
            "{type: command, command: python3, args: [agent.py], output: text}",
            "agent.py",
            "import json, sys\nprint(json.dumps(json.load(sys.stdin)['vars'], sort_keys=True))\n",
        ),
        (
            "{type: function, file: agent.py, function: answer}",
            "agent.py",
            "import json\ndef answer(input, vars):\n    return json.dumps(vars, sort_keys=True)\n",
        ),
    ] {
        let project = Project::with(&format!(
            "name: s\ntarget: {target}\ntest_cases:\n- {{name: a, input: q, vars: {{days: 14, lang: de}}, evaluations: [{{metric: json_schema, schema: {{const: {{days: 14, lang: de}}}}}}]}}\n- {{name: b, input: q, evaluations: [{{metric: json_schema, schema: {{const: {{}}}}}}]}}\n"
        ));
        project.write(file, text);
        project.run(&["test"]).exits(0);
    }
}
