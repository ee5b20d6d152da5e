//! One agent in many forms: run natively, and as a target of each type. On 200 cases with tools, wrong answers, errors and
//! time-outs every form has the same verdicts.

use std::fmt::Write as _;

use holodeck_testkit::{EndpointServer, ModelServer, ReceivedRequest, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{project::Project, serve::Server};

const CASES: usize = 200;
/// Seconds after which an answer that does not come is an error.
const LIMIT: u32 = 5;

/// How the agent behaves, which each question names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Right,
    Wrong,
    Calls,
    OtherArguments,
    Forbidden,
    Fails,
    Hangs,
}

use Kind::{Calls, Fails, Forbidden, Hangs, OtherArguments, Right, Wrong};

const KINDS: [Kind; 6] = [Right, Wrong, Calls, OtherArguments, Forbidden, Fails];
const CHECKS: [&str; 4] = [
    "evaluations: [{metric: contains, value: tomorrow}]",
    "expected_tools: [look_up]",
    "expected_tools: [{name: look_up, args: {id: 7}}]",
    "forbidden_tools: [cancel]",
];

impl Kind {
    fn of_case(index: usize) -> Self {
        // Two wait for their time limit, at the same time.
        if index < 2 {
            Hangs
        } else {
            KINDS[index % KINDS.len()]
        }
    }

    fn word(self) -> String {
        format!("{self:?}-kind")
    }

    fn of_question(question: &str) -> Self {
        let kinds = KINDS.into_iter().chain([Hangs]);
        let mut named = kinds.filter(|kind| question.contains(&kind.word()));
        named.next().unwrap_or_else(|| panic!("{question}"))
    }

    fn text(self) -> &'static str {
        match self {
            Wrong => "It is lost.",
            _ => "It arrives tomorrow.",
        }
    }

    fn call(self) -> Option<(&'static str, Value)> {
        match self {
            Calls => Some(("look_up", json!({"id": 7}))),
            OtherArguments => Some(("look_up", json!({"id": 8}))),
            Forbidden => Some(("cancel", json!({}))),
            Right | Wrong | Fails | Hangs => None,
        }
    }

    fn calls(self) -> Value {
        let call = self
            .call()
            .map(|(name, arguments)| json!({"name": name, "arguments": arguments}));
        call.into_iter().collect()
    }

    fn state(self, check: usize) -> &'static str {
        let passes = match self {
            Fails | Hangs => return "error",
            Right => [true, false, false, true],
            Wrong => [false, false, false, true],
            Calls => [true, true, true, true],
            OtherArguments => [true, true, false, true],
            Forbidden => [true, false, false, false],
        };
        if passes[check] { "passed" } else { "failed" }
    }
}

/// The check of a case: another one each time that all kinds have had their turn.
fn check_of_case(index: usize) -> usize {
    (index / KINDS.len()) % CHECKS.len()
}

fn name(index: usize) -> String {
    format!("case-{index:03}")
}

fn cases() -> String {
    let mut yaml = "execution: {parallel_test_cases: 8}\ntest_cases:\n".to_owned();
    for index in 0..CASES {
        let (word, check) = (Kind::of_case(index).word(), CHECKS[check_of_case(index)]);
        writeln!(
            yaml,
            "- {{name: {}, input: 'Where is {word} {index}?', {check}}}",
            name(index)
        )
        .unwrap();
    }
    yaml
}

/// Runs an agent with all cases and compares their states.
#[track_caller]
fn check(agent: &str, files: &[(&str, String)]) {
    let project = Project::with(&format!("name: orders\n{agent}{}", cases()));
    for (name, text) in files {
        project.write(name, text);
    }
    let ran = project.run(&["test"]);
    assert!(ran.code.is_some_and(|code| code != 2), "{}", ran.all());
    let report = project.run_file();
    let results = report["report"]["results"].as_array().unwrap();
    let found = results.iter().map(|case| {
        let text = |field: &str| case[field].as_str().unwrap().to_owned();
        (text("test_name"), text("state"))
    });
    let expected = (0..CASES).map(|index| {
        let state = Kind::of_case(index).state(check_of_case(index));
        (name(index), state.to_owned())
    });
    let differing: Vec<_> = found
        .clone()
        .zip(expected.clone())
        .filter(|(found, expected)| found != expected)
        .collect();
    assert_eq!(found.count(), CASES);
    assert!(differing.is_empty(), "{differing:#?}\n{}", ran.all());
}

/// The model of the native agent: it calls the tool first, where the kind calls one.
fn model() -> ModelServer {
    ModelServer::answering(|request: &ReceivedRequest| {
        let questions = request.texts("user");
        let kind = Kind::of_question(questions.last().unwrap());
        match (kind, kind.call()) {
            (Fails, _) => Reply::openai_error(400, "it broke", None, None),
            (Hangs, _) => Reply::hang(),
            (_, Some((name, arguments))) if request.texts("tool").is_empty() => {
                Reply::tool_call("c1", name, &arguments)
            }
            _ => Reply::text(kind.text()),
        }
    })
}

fn native(model: &ModelServer) -> String {
    format!(
        "model: {{provider: ollama, name: m, endpoint: \"{}\"}}\ninstructions: {{inline: Hi}}\ntools:\n\
         - {{type: function, name: look_up, description: d, command: \"true\", parameters: {{id: {{type: integer}}}}}}\n\
         - {{type: function, name: cancel, description: d, command: \"true\", parameters: {{}}}}\n",
        model.url()
    )
}

#[test]
fn every_state_occurs_for_every_check() {
    for (check, _) in CHECKS.iter().enumerate() {
        for state in ["passed", "failed", "error"] {
            let mut cases = (0..CASES).filter(|index| check_of_case(*index) == check);
            assert!(
                cases.any(|index| Kind::of_case(index).state(check) == state),
                "{check} {state}"
            );
        }
    }
}

#[test]
fn the_native_agent_has_the_verdicts_of_the_table() {
    let model = model();
    let agent = native(&model);
    let limit = format!("execution: {{parallel_test_cases: 8, llm_timeout: {LIMIT}}}\n");
    let yaml =
        format!("name: orders\n{agent}{}", cases()).replace("execution: {parallel_test_cases: 8}\n", &limit);
    let project = Project::with(&yaml);
    let ran = project.run(&["test"]);
    let report = project.run_file();
    let results = report["report"]["results"].as_array().unwrap();
    assert_eq!(results.len(), CASES, "{}", ran.all());
    for (index, case) in results.iter().enumerate() {
        let state = Kind::of_case(index).state(check_of_case(index));
        assert_eq!(
            (&case["test_name"], &case["state"]),
            (&json!(name(index)), &json!(state)),
            "{}",
            ran.all()
        );
    }
}

fn kind_of_message(request: &ReceivedRequest) -> Kind {
    Kind::of_question(request.body["message"].as_str().unwrap())
}

#[test]
fn a_service_with_json_has_them() {
    let service = EndpointServer::answering(|request: &ReceivedRequest| {
        let kind = kind_of_message(request);
        let body = match kind {
            Hangs => return Reply::hang(),
            Fails => json!({"error": "it broke", "answer": "", "trace": []}),
            _ => json!({"answer": kind.text(), "trace": kind.calls()}),
        };
        Reply::raw(200, "application/json", body.to_string())
    });
    let agent = format!(
        "target:\n  type: http\n  url: \"{}\"\n  timeout: {LIMIT}\n  body: {{message: '{{{{ input }}}}'}}\n  \
         response: {{text: $.answer, tool_calls: '$.trace[*]', error: {{path: $.error, optional: true}}}}\n",
        service.url()
    );
    check(&agent, &[]);
}

#[test]
fn a_service_with_a_stream_of_events_has_them() {
    let service = EndpointServer::answering(|request: &ReceivedRequest| {
        let kind = kind_of_message(request);
        let mut events = Vec::new();
        match kind {
            Hangs => return Reply::hang(),
            Fails => events.push(json!({"error": "it broke"})),
            _ => {
                events.push(json!({"calls": kind.calls()}));
                // Each word is a piece.
                let words = kind.text().split_inclusive(' ');
                events.extend(words.map(|word| json!({"delta": word})));
            }
        }
        let mut text = String::new();
        for event in events {
            write!(text, "data: {event}\n\n").unwrap();
        }
        text.push_str("data: [DONE]\n\n");
        Reply::raw(200, "text/event-stream", text)
    });
    let agent = format!(
        "target:\n  type: http\n  url: \"{}\"\n  timeout: {LIMIT}\n  body: {{message: '{{{{ input }}}}'}}\n  \
         stream: {{text: $.delta, done: '[DONE]'}}\n  \
         response: {{tool_calls: {{path: '$.calls[*]', optional: true}}, error: {{path: $.error, optional: true}}}}\n",
        service.url()
    );
    check(&agent, &[]);
}

/// The JSON that a program prints for a question of this kind.
fn printed(kind: Kind) -> Value {
    match kind {
        Fails => json!({"error": "it broke"}),
        _ => json!({"text": kind.text(), "tool_calls": kind.calls()}),
    }
}

#[test]
fn a_program_for_each_case_has_them() {
    let mut script = "IFS= read -r line\ncase \"$line\" in\n".to_owned();
    for kind in KINDS {
        writeln!(script, "*{}*) printf '%s\\n' '{}' ;;", kind.word(), printed(kind)).unwrap();
    }
    // It ends with its time limit.
    writeln!(script, "*{}*) exec tail -f /dev/null ;;\nesac", Hangs.word()).unwrap();
    let agent = format!("target: {{type: command, command: sh, args: [agent.sh], timeout: {LIMIT}}}\n");
    check(&agent, &[("agent.sh", script)]);
}

/// The answers by the words of questions, for programs in Python.
fn python_table() -> String {
    let answers: serde_json::Map<String, Value> =
        KINDS.iter().map(|kind| (kind.word(), printed(*kind))).collect();
    format!(
        "import json\nimport threading\n\nANSWERS = json.loads({:?})\n\n\ndef answer(input):\n    if {:?} in input:\n        \
         threading.Event().wait()\n    return next(value for word, value in ANSWERS.items() if word in input)\n",
        Value::Object(answers).to_string(),
        Hangs.word()
    )
}

#[test]
fn a_program_that_keeps_running_has_them() {
    let program = format!(
        "{}\n\nimport sys\n\nfor line in sys.stdin:\n    request = json.loads(line)\n    \
         print(json.dumps({{**answer(request['input']), 'id': request['id']}}), flush=True)\n",
        python_table()
    );
    let agent = format!(
        "target: {{type: command, command: python3, args: [agent.py], keep_alive: true, timeout: {LIMIT}}}\n"
    );
    check(&agent, &[("agent.py", program)]);
}

#[test]
fn a_function_has_them() {
    let agent = format!("target: {{type: function, file: agent.py, function: answer, timeout: {LIMIT}}}\n");
    check(&agent, &[("agent.py", python_table())]);
}

#[test]
fn an_agent_behind_events_of_ag_ui_has_them() {
    let model = model();
    let served = Project::with(&format!("name: orders\n{}", native(&model)));
    let server = Server::start(&served, &["--protocol", "both"]);
    check(
        &format!(
            "target: {{type: ag-ui, url: \"http://{}/awp\", timeout: {LIMIT}}}\n",
            server.address
        ),
        &[],
    );
    server.end("-KILL");
}

#[test]
fn an_agent_of_another_server_has_them() {
    let model = model();
    let served = Project::with(&format!("name: orders\n{}", native(&model)));
    let server = Server::start(&served, &["--protocol", "both"]);
    check(
        &format!(
            "target: {{type: holodeck, url: \"http://{}\", timeout: {LIMIT}}}\n",
            server.address
        ),
        &[],
    );
    server.end("-KILL");
}

#[test]
fn answers_that_exist_have_them() {
    let rows = (0..CASES).map(|index| {
        let kind = Kind::of_case(index);
        let row = match kind {
            Fails | Hangs => json!({"name": name(index), "text": "", "error": "it broke"}),
            _ => json!({"name": name(index), "text": kind.text(), "tool_calls": kind.calls()}),
        };
        format!("{row}\n")
    });
    check(
        "target: {type: answers, file: rows.jsonl}\n",
        &[("rows.jsonl", rows.collect())],
    );
}
