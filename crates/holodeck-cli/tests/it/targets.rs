//! Agents that other programs provide: their verdicts beside those of the same agent run natively, evidence, recordings, and
//! answers that exist.

use holodeck_testkit::{EndpointServer, ModelServer, Reply};
use serde_json::{Value, json};

use crate::project::Project;

/// A target over HTTP whose answer is `reply`, with these paths and cases.
fn target(url: &str, response: &str, cases: &str) -> String {
    format!(
        "name: service\ntarget:\n  type: http\n  url: {url}\n  body: {{message: \"{{{{ input }}}}\"}}\n  response: {response}\ntest_cases:\n{cases}"
    )
}

fn answering(body: Value) -> EndpointServer {
    EndpointServer::answering(move |_| Reply::raw(200, "application/json", body.to_string()))
}

const ONE_OF_EACH: &str = r"
- {name: text, input: q, evaluations: [{metric: contains, value: tomorrow}]}
- {name: wrong, input: q, evaluations: [{metric: contains, value: yesterday}]}
- {name: expected, input: q, expected_tools: [look_up]}
- {name: missing, input: q, expected_tools: [cancel]}
- {name: forbidden, input: q, forbidden_tools: [look_up]}
- {name: avoided, input: q, forbidden_tools: [cancel]}
- {name: arguments, input: q, expected_tools: [{name: look_up, args: {id: 7}}]}
- {name: others, input: q, expected_tools: [{name: look_up, args: {id: 8}}]}
";

/// The state of each case of the last run.
fn states(project: &Project) -> Vec<(String, String)> {
    let report = project.run_file();
    let results = report["report"]["results"].as_array().unwrap();
    let state = |case: &Value| {
        let text = |field: &str| case[field].as_str().unwrap_or_default().to_owned();
        (text("test_name"), text("state"))
    };
    results.iter().map(state).collect()
}

#[test]
fn a_service_gets_the_verdicts_of_the_same_agent_run_natively() {
    let service = answering(json!({
        "answer": "It arrives tomorrow.",
        "trace": [{"name": "look_up", "arguments": {"id": 7}}],
    }));
    let paths = "{text: $.answer, tool_calls: \"$.trace[*]\"}";
    let asked = Project::with(&target(&service.url(), paths, ONE_OF_EACH));
    asked.run(&["test"]).exits(1);
    let model = ModelServer::answering(|request| {
        if request.texts("tool").is_empty() {
            Reply::tool_call("c1", "look_up", &json!({"id": 7}))
        } else {
            Reply::text("It arrives tomorrow.")
        }
    });
    let native = Project::with(&format!(
        "name: service\nmodel: {{provider: ollama, name: m, endpoint: \"{}\"}}\ninstructions: {{inline: Hi}}\ntools:\n- {{type: function, name: look_up, description: d, command: \"true\", parameters: {{id: {{type: integer}}}}}}\n- {{type: function, name: cancel, description: d, command: \"true\", parameters: {{}}}}\ntest_cases:\n{ONE_OF_EACH}",
        model.url()
    ));
    native.run(&["test"]).exits(1);
    let states = states(&asked);
    assert_eq!(states.len(), 8);
    assert_eq!(states, self::states(&native));
}

#[test]
fn a_check_without_its_evidence_is_an_error_and_an_empty_list_is_evidence() {
    let cases = "- {name: avoided, input: q, forbidden_tools: [cancel]}\n- {name: expected, input: q, expected_tools: [look_up]}\n- {name: cheap, input: q, evaluations: [{metric: cost, max_usd: 1}]}\n";
    let silent = answering(json!({"answer": "ok"}));
    let project = Project::with(&target(&silent.url(), "{text: $.answer}", cases));
    let ran = project.run(&["test"]).exits(4);
    for (name, state) in states(&project) {
        assert_eq!(state, "error", "{name}");
    }
    ran.says("tool calls were not reported by the target");
    let empty = answering(json!({"answer": "ok", "calls": [], "cost": 0.5}));
    let paths = "{text: $.answer, tool_calls: \"$.calls[*]\", cost: $.cost}";
    let project = Project::with(&target(&empty.url(), paths, cases));
    project.run(&["test"]).exits(1);
    let found: Vec<String> = states(&project).into_iter().map(|(_, state)| state).collect();
    assert_eq!(found, ["passed", "failed", "passed"]);
}

#[test]
fn answers_of_a_service_are_recorded_and_replayed_without_it() {
    let service = answering(json!({"answer": "It arrives tomorrow."}));
    let cases = "- {name: text, input: q, evaluations: [{metric: contains, value: tomorrow}]}\n";
    let project = Project::with(&target(&service.url(), "{text: $.answer}", cases));
    project.run(&["test", "--record", "answers.jsonl"]).exits(0);
    let asked = service.requests().len();
    project.run(&["test", "--replay", "answers.jsonl"]).exits(0);
    assert_eq!(service.requests().len(), asked);
    let other = project.read("agent.yaml").replace("$.answer", "$.other");
    project.write("agent.yaml", other);
    project.run(&["test", "--replay", "answers.jsonl"]).exits(3);
}

#[test]
fn answers_that_exist_are_graded_and_no_agent_is_asked() {
    let project = Project::with(
        "name: log\ntarget: {type: answers, file: log.csv}\ntest_cases:\n- {name: a, input: qa, expected_tools: [f], evaluations: [{metric: contains, value: yes}]}\n- {name: b, input: qb, evaluations: [{metric: contains, value: yes}, {metric: latency, max_ms: 100}]}\n- {name: c, input: qc, evaluations: [{metric: latency, max_ms: 100}]}\n- {name: d, input: qd}\n",
    );
    project.write(
        "log.csv",
        "name,input,answer,tool_calls,latency_ms\na,,yes!,\"[{\"\"name\"\": \"\"f\"\", \"\"arguments\"\": {}}]\",\n,qb,yes?,,90\n,qc,yes,,\nz,,unused,,\n",
    );
    let ran = project.run(&["test"]).exits(3);
    let found: Vec<String> = states(&project).into_iter().map(|(_, state)| state).collect();
    assert_eq!(found, ["passed", "passed", "error", "error"]);
    ran.says("no agent was asked: the answers are those of `log.csv`")
        .says("1 row of `log.csv` has no test case");
}

#[test]
fn what_has_no_meaning_beside_a_target_is_an_error_with_its_place() {
    let target = "name: s\ntarget: {type: http, url: \"http://127.0.0.1:1\", response: {text: $.a}}\n";
    for (block, says) in [
        (
            "model: {provider: openai, name: m}\n",
            "`model` and `target` are mutually exclusive",
        ),
        (
            "instructions: {inline: Hi}\n",
            "`instructions` and `target` are mutually exclusive",
        ),
        (
            "tools: [{type: function, name: f, description: d, command: \"true\"}]\n",
            "`tools` cannot be used with `target`",
        ),
        (
            "approvals: {non_interactive: reject}\n",
            "`approvals` cannot be used with `target`",
        ),
        (
            "evaluations: {metrics: [{type: standard, metric: relevance, threshold: 0.5}]}\n",
            "has no model: with `target`, it needs one of its own",
        ),
    ] {
        let project = Project::with(&format!("{target}{block}"));
        project
            .run(&["validate", "agent.yaml"])
            .exits(2)
            .says(says)
            .says("agent.yaml:3");
    }
    for (broken, says) in [
        (
            "url: \"http://127.0.0.1:1\", response: {text: answer}",
            "is no JSONPath",
        ),
        (
            "url: \"http://127.0.0.1:1/{{ other }}\", response: {text: $.a}",
            "`{{ other }}` in `target.url` is not known",
        ),
        (
            "url: \"ftp://h\", response: {text: $.a}",
            "neither http nor https",
        ),
        ("url: \"http://127.0.0.1:1\"", "missing field `response`"),
    ] {
        let project = Project::with(&format!("name: s\ntarget: {{type: http, {broken}}}\n"));
        project
            .run(&["validate", "agent.yaml"])
            .exits(2)
            .says(says)
            .says("agent.yaml:2");
    }
    let open =
        Project::with("name: s\ntarget: {type: http, url: \"http://h.example\", response: {text: $.a}}\n");
    open.run(&["validate", "agent.yaml"])
        .exits(0)
        .says("not encrypted");
}

#[test]
fn that_a_target_does_not_say_why_answers_end_is_said_once_in_each_report() {
    let note = "the target does not report why its answers end";
    let cases = "- {name: a, input: q, evaluations: [{metric: contains, value: ok}]}\n- {name: b, input: r, evaluations: [{metric: contains, value: ok}]}\n";
    for (paths, times) in [
        ("{text: $.answer}", 1),
        ("{text: $.answer, finish_reason: $.why}", 0),
    ] {
        let service = answering(json!({"answer": "ok", "why": "stop"}));
        let project = Project::with(&target(&service.url(), paths, cases));
        let formats = ["json", "junit", "markdown", "html"].map(|format| format!("{format}=report.{format}"));
        let mut args = vec!["test"];
        args.extend(formats.iter().flat_map(|format| ["--report", format]));
        let ran = project.run(&args).exits(0);
        let terminal = ran.all().split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(terminal.matches(note).count(), times, "{terminal}");
        for format in ["json", "junit", "markdown", "html"] {
            let report = project.read(&format!("report.{format}"));
            assert_eq!(report.matches(note).count(), times, "{format} {paths}");
        }
    }
}
