//! Answers of endpoints that differ from OpenAI's own, from the server to the verdict.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use holodeck_testkit::{ModelServer, ReceivedRequest, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{
    project::{CommandOutput, Project},
    run_records::REPORTS,
};

macro_rules! dialect {
    ($file:literal) => {
        (
            $file,
            include_str!(concat!("../../../../fixtures/dialects/", $file)),
        )
    };
}

/// A body as the endpoint sends it: a stream, or a whole answer.
fn reply((file, body): (&str, &str)) -> Reply {
    let content_type = if Path::new(file).extension().is_some_and(|it| it == "sse") {
        "text/event-stream"
    } else {
        "application/json"
    };
    Reply::raw(200, content_type, body.to_owned())
}

/// A project with a tool that logs its calls.
fn project(agent: &str, server: &ModelServer) -> Project {
    let project = Project::with(&agent.replace("${ENDPOINT}", &server.url()));
    project.write("weather.sh", dialect!("weather.sh").1);
    fs::set_permissions(project.path("weather.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    project
}

fn run(project: &Project, args: &[&str]) -> (CommandOutput, Value) {
    let ran = CommandOutput::of(
        &project
            .command(&[args, &REPORTS].concat())
            .env("OPENAI_API_KEY", "sk-of-the-test")
            .output()
            .unwrap(),
    );
    let report =
        serde_json::from_str(&project.read("r.json")).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    (ran, report)
}

/// The names and states of the cases of a report.
fn states(report: &Value) -> Vec<(String, String)> {
    let results = report["results"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    results
        .map(|result| (text(&result["test_name"]), text(&result["state"])))
        .collect()
}

fn has_tool_result(request: &ReceivedRequest) -> bool {
    request.messages().iter().any(|message| message["role"] == "tool")
}

fn last_message(request: &ReceivedRequest) -> String {
    let last = request.messages().last().unwrap();
    last["content"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_call_without_id_or_index_counts_for_expected_and_forbidden_tools() {
    let agent = dialect!("calls-without-ids/agent.yaml").1;
    let twice = (["passed", "failed", "passed"], json!(["weather", "weather"]), 1);
    let two_names = (["failed", "passed", "failed"], json!(["weather", "clock"]), 1);
    let one = (["failed", "failed", "passed"], json!(["weather"]), 1);
    let none = (["error", "error", "error"], json!([]), 3);
    for (file, (expected, calls, code)) in [
        (dialect!("calls-without-ids/index-0-empty-id.sse"), twice.clone()),
        (
            dialect!("calls-without-ids/no-index-no-id-one-chunk.sse"),
            twice.clone(),
        ),
        (dialect!("calls-without-ids/no-id.json"), twice),
        (
            dialect!("calls-without-ids/no-index-two-names.sse"),
            two_names.clone(),
        ),
        (
            dialect!("calls-without-ids/no-id-two-names.json"),
            two_names.clone(),
        ),
        (
            dialect!("calls-without-ids/ids-are-the-text-null.sse"),
            two_names.clone(),
        ),
        (
            dialect!("calls-without-ids/fragments-without-index.sse"),
            two_names,
        ),
        (dialect!("calls-without-ids/same-id-two-indexes.sse"), one.clone()),
        (dialect!("calls-without-ids/one-call-over-two-indexes.sse"), one),
        (
            dialect!("calls-without-ids/arguments-of-a-second-call-without-head.sse"),
            none,
        ),
    ] {
        let server = ModelServer::answering(move |request| {
            if has_tool_result(request) {
                reply(dialect!("answer.sse"))
            } else {
                reply(file)
            }
        });
        let project = project(agent, &server);
        let (ran, report) = run(&project, &["test", "agent.yaml"]);
        let names = ["both", "two names", "must not look at the clock"];
        let expected: Vec<_> = names
            .iter()
            .zip(expected)
            .map(|(name, state)| ((*name).to_owned(), state.to_owned()))
            .collect();
        assert_eq!(states(&report), expected, "{}: {ran:?}", file.0);
        for result in report["results"].as_array().unwrap() {
            assert_eq!(result["tool_calls"], calls, "{}", file.0);
        }
        assert_eq!(ran.code, Some(code), "{}: {ran:?}", file.0);
        // Each answer with calls has results with distinct ids.
        for request in server.finish().iter().filter(|request| has_tool_result(request)) {
            let messages = request.messages().iter();
            let mut ids: Vec<_> = messages
                .filter_map(|message| message["tool_call_id"].as_str())
                .collect();
            let results = ids.len();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(
                (ids.len(), Some(results)),
                (results, calls.as_array().map(Vec::len))
            );
        }
    }
}

/// The words of the table, and the state and error code that each gives a negated check that finds nothing.
fn reasons() -> Vec<(&'static str, &'static str)> {
    let table = dialect!("finish-reasons/reasons.tsv").1;
    let rows = table.lines().skip(1).map(|line| {
        let mut fields = line.split('\t');
        let (word, family) = (fields.next().unwrap(), fields.next().unwrap());
        let state = match family {
            "end" => "passed",
            "refusal" => "failed",
            "truncated" | "failure" | "calls" => "error",
            other => panic!("{other}"),
        };
        (word, state)
    });
    let unknown = ["OTHER", "FINISH_REASON_UNSPECIFIED", "some_new_word", "null"];
    rows.chain(unknown.map(|word| (word, "error"))).collect()
}

/// An agent with a negated check for each reason, and another check that does not depend on what is missing.
fn agent_with_a_case_for_each_reason(more: &str) -> String {
    let mut agent = "name: desk\nmodel: {provider: openai, name: m, endpoint: \"${ENDPOINT}\"}\n\
                     instructions: {inline: Answer briefly.}\n"
        .to_owned();
    agent.push_str(more);
    agent.push_str("test_cases:\n");
    for (word, _) in reasons() {
        let case = format!(
            "  - {{name: {word:?}, input: {word:?}, evaluations: [{{metric: contains, value: password, negate: true}}]}}\n"
        );
        agent.push_str(&case);
    }
    agent
}

/// Answers with the finish reason that the question names, streamed or whole.
fn server_with_reasons(is_whole: bool) -> ModelServer {
    ModelServer::answering(move |request| {
        let reason = last_message(request);
        if is_whole {
            Reply::text("The refund policy allows")
                .finish_reason(&reason)
                .as_json()
        } else {
            let (file, template) = dialect!("finish-reasons/template.sse");
            reply((file, &template.replace("@REASON@", &reason)))
        }
    })
}

#[test]
fn a_negated_check_passes_only_on_an_answer_that_ended() {
    for is_whole in [false, true] {
        let server = server_with_reasons(is_whole);
        let project = project(&agent_with_a_case_for_each_reason(""), &server);
        let (_, report) = run(&project, &["test", "agent.yaml"]);
        server.finish();
        let expected: Vec<_> = reasons()
            .into_iter()
            .map(|(word, state)| (word.to_owned(), state.to_owned()))
            .collect();
        assert_eq!(states(&report), expected, "whole: {is_whole}");
    }
}

#[test]
fn each_family_of_reasons_has_its_exit_code_and_words() {
    for (reason, fails, code, words) in [
        ("eos_token", false, 0, ""),
        (
            "model_length",
            false,
            4,
            "answer truncated: finish_reason `model_length`",
        ),
        (
            "MAX_TOKENS",
            true,
            1,
            "answer truncated: finish_reason `MAX_TOKENS`",
        ),
        (
            "OTHER",
            false,
            4,
            "answer may be truncated: unknown finish_reason `OTHER`",
        ),
        (
            "OTHER",
            true,
            1,
            "answer may be truncated: unknown finish_reason `OTHER`",
        ),
        ("SAFETY", false, 1, "refus"),
        ("network_error", false, 3, "network_error"),
        (
            "insufficient_system_resource",
            false,
            3,
            "insufficient_system_resource",
        ),
    ] {
        let server = server_with_reasons(false);
        let more = if fails {
            "execution: {on_truncated: fail}\n"
        } else {
            ""
        };
        let project = project(&agent_with_a_case_for_each_reason(more), &server);
        let (ran, report) = run(&project, &["test", "agent.yaml", "--filter", reason]);
        server.finish();
        assert_eq!(report["results"].as_array().unwrap().len(), 1, "{ran:?}");
        assert_eq!(ran.code, Some(code), "{reason}: {ran:?}");
        let said = report["results"][0]["errors"].to_string() + &ran.all();
        assert!(said.contains(words), "{reason}: {said}");
    }
}

#[test]
fn every_report_shows_the_reason_of_a_cut_answer() {
    for (reason, note) in [
        ("OTHER", "unknown"),
        ("model_length", "truncated"),
        ("length", "truncated at max_tokens"),
    ] {
        let agent = "name: desk\nmodel: {provider: openai, name: m, endpoint: \"${ENDPOINT}\"}\n\
                     instructions: {inline: Answer briefly.}\ntest_cases:\n  - {name: policy, input: REASON, \
                     evaluations: [{metric: contains, value: refund}]}\n";
        let server = server_with_reasons(false);
        let project = project(&agent.replace("REASON", reason), &server);
        let (ran, report) = run(&project, &["test", "agent.yaml"]);
        server.finish();
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let stored = if reason == "length" { "max_tokens" } else { reason };
        assert_eq!(report["results"][0]["truncated"], json!(true));
        assert_eq!(report["results"][0]["truncated_by"], json!([stored]));
        assert_eq!(report["summary"]["truncated_by"], json!({ stored: 1 }));
        assert_eq!(
            project.run_file()["report"]["summary"]["truncated_by"],
            json!({ stored: 1 })
        );
        for file in ["r.jsonl", "r.xml", "r.html", "r.md"] {
            // Markdown escapes what could be formatting.
            let text = project.read(file).replace("\\_", "_");
            assert!(text.contains(stored), "{file} lacks {stored}: {text}");
        }
        for text in [
            ran.stdout.as_str(),
            &project.read("r.md").replace("\\_", "_"),
            &project.read("r.html"),
            &project.read("r.xml"),
        ] {
            assert!(text.contains(stored) && text.contains(note), "{note}: {text}");
        }
    }
}

#[test]
fn reasoning_in_the_content_is_not_graded_as_the_answer() {
    let agent = dialect!("reasoning-in-content/agent.yaml").1;
    let keep = agent.replace(
        "endpoint: \"${ENDPOINT}\"}",
        "endpoint: \"${ENDPOINT}\", reasoning_in_content: keep}",
    );
    assert_ne!(agent, keep);
    let unknown = "I do not know.";
    for (agent, file, states_of_cases, answer, code) in [
        (
            agent,
            dialect!("reasoning-in-content/think-leading.sse"),
            ["failed", "failed"],
            unknown,
            1,
        ),
        (
            agent,
            dialect!("reasoning-in-content/close-only.sse"),
            ["failed", "failed"],
            unknown,
            1,
        ),
        (
            agent,
            dialect!("reasoning-in-content/think-in-pieces.sse"),
            ["failed", "passed"],
            "The answer is 42.",
            1,
        ),
        (
            agent,
            dialect!("reasoning-in-content/tag-inside-the-answer.sse"),
            ["failed", "failed"],
            "Put your thoughts between `<think>` and `</think>`, then answer.",
            1,
        ),
        (
            &*keep,
            dialect!("reasoning-in-content/think-leading.sse"),
            ["passed", "failed"],
            "<think>The capital is Rome, or is it Paris?</think>\nI do not know.",
            1,
        ),
        (
            &*keep,
            dialect!("reasoning-in-content/close-only.sse"),
            ["passed", "failed"],
            "The capital is Rome, or is it Paris?\n</think>\n\nI do not know.",
            1,
        ),
    ] {
        let server = ModelServer::answering(move |_| reply(file));
        let project = project(agent, &server);
        let (ran, report) = run(&project, &["test", "agent.yaml"]);
        server.finish();
        let names = ["capital", "number"];
        let expected: Vec<_> = names
            .iter()
            .zip(states_of_cases)
            .map(|(name, state)| ((*name).to_owned(), state.to_owned()))
            .collect();
        assert_eq!(states(&report), expected, "{}: {ran:?}", file.0);
        for result in report["results"].as_array().unwrap() {
            assert_eq!(result["agent_response"], json!(answer), "{}", file.0);
        }
        assert_eq!(ran.code, Some(code));
    }
}

#[test]
fn reasoning_without_an_end_leaves_an_empty_answer() {
    let server = ModelServer::answering(|_| reply(dialect!("reasoning-in-content/unclosed.sse")));
    let project = project(dialect!("reasoning-in-content/agent.yaml").1, &server);
    let (ran, report) = run(&project, &["test", "agent.yaml"]);
    server.finish();
    for result in report["results"].as_array().unwrap() {
        assert_eq!(result["agent_response"], json!(""), "{ran:?}");
        assert_eq!(result["truncated"], json!(true));
        assert_ne!(result["state"], json!("passed"));
    }
    assert_ne!(ran.code, Some(0));
}

#[test]
fn a_model_that_leaves_reasoning_in_the_content_can_judge() {
    let agent = "name: desk\nmodel: {provider: openai, name: m, endpoint: \"${ENDPOINT}\"}\n\
                 instructions: {inline: Answer briefly.}\nevaluations:\n  model: {provider: openai, name: judge, \
                 endpoint: \"${ENDPOINT}\"}\n  metrics: [{type: geval, name: polite, criteria: Is it polite?, \
                 evaluation_steps: [Read it.], threshold: 0.7}]\n\
                 test_cases:\n  - {name: a, input: Hello?}\n  - {name: b, input: Good morning?}\n";
    for file in [
        dialect!("reasoning-in-content/judge-think.sse"),
        dialect!("reasoning-in-content/judge-close-only.sse"),
    ] {
        let server = ModelServer::answering(move |request| {
            if request.body["model"] == "judge" {
                reply(file)
            } else {
                Reply::text("Good day.")
            }
        });
        let project = project(agent, &server);
        let (ran, report) = run(&project, &["test", "agent.yaml"]);
        let requests = server.finish();
        assert_eq!(ran.code, Some(0), "{}: {ran:?}", file.0);
        for result in report["results"].as_array().unwrap() {
            assert_eq!(result["state"], json!("passed"), "{}: {result}", file.0);
        }
        let judged = requests.iter().filter(|request| request.body["model"] == "judge");
        assert_eq!(judged.count(), 2, "{}", file.0);
    }
}

#[test]
fn a_cut_answer_is_marked_where_a_question_is_asked() {
    let agent = "name: desk\nmodel: {provider: openai, name: m, endpoint: \"${ENDPOINT}\"}\n\
                 instructions: {inline: Answer briefly.}\n";
    for (reason, note) in [
        ("length", "answer truncated at max_tokens"),
        ("model_length", "answer truncated: finish_reason `model_length`"),
        ("OTHER", "answer may be truncated: unknown finish_reason `OTHER`"),
        ("stop", ""),
    ] {
        let is_cut = !note.is_empty();
        let server = server_with_reasons(false);
        let project = project(agent, &server);
        let ask = |args: &[&str]| {
            let output = project
                .command(args)
                .env("OPENAI_API_KEY", "sk-of-the-test")
                .output();
            CommandOutput::of(&output.unwrap()).exits(0)
        };
        let text = ask(&["run", "agent.yaml", reason]);
        assert_eq!(text.stdout, "The refund policy allows\n");
        assert_eq!(text.stderr.contains("truncated"), is_cut, "{text:?}");
        assert!(text.stderr.contains(note), "{text:?}");
        let json: Value = ask(&["run", "agent.yaml", reason, "--json"]).json();
        assert_eq!(json.get("truncated"), is_cut.then_some(&json!(true)), "{json}");
        let stored = if reason == "length" { "max_tokens" } else { reason };
        assert_eq!(
            json.get("truncated_by"),
            is_cut.then_some(&json!(stored)),
            "{json}"
        );
        let once = ask(&["chat", "agent.yaml", "--once", reason]);
        assert!(once.stderr.contains(note), "{once:?}");
        assert_eq!(once.stderr.contains("truncated"), is_cut, "{once:?}");
        server.finish();
    }
}

/// An agent at the endpoint, with these further keys.
fn desk(more: &str) -> String {
    format!(
        "name: desk\nmodel: {{provider: openai, name: m, endpoint: \"${{ENDPOINT}}\"}}\n\
         instructions: {{inline: Answer briefly.}}\n{more}"
    )
}

#[test]
fn an_answer_with_two_readings_decides_nothing() {
    const WHOLE: &str = "test_cases: [{name: a, input: Hello?, CHECKS}]\n";
    let judged = "evaluations:\n  model: {provider: openai, name: judge, endpoint: \"${ENDPOINT}\"}\n  \
                  metrics: [{type: geval, name: polite, criteria: c, evaluation_steps: [Read it.], threshold: 0.7}]\n";
    let format = "response_format: {type: object, properties: {days: {type: integer}}, required: [days]}\n";
    let user = "user: {goal: Get the money back., max_turns: 2, expected_end: [max_turns]}, evaluations: [{metric: contains, value: day}]";
    for (name, yaml, checks, model, once, twice, codes) in [
        (
            "judge",
            judged.to_owned(),
            "",
            "judge",
            r#"{"score": 8, "reason": "polite"}"#,
            r#"{"score": 2, "reason": "polite", "score": 8}"#,
            (0, 4),
        ),
        (
            "structured answer",
            format.to_owned(),
            "evaluations: [{metric: equality, response_path: days, value: \"30\"}]",
            "m",
            r#"{"days": 30}"#,
            r#"{"days": 14, "days": 30}"#,
            (0, 1),
        ),
        (
            "simulated user",
            judged.replace(
                "geval, name: polite, criteria: c, evaluation_steps: [Read it.], threshold: 0.7",
                "standard, metric: json_valid, enabled: false",
            ),
            user,
            "judge",
            r#"{"message": "Hello?", "status": "continue"}"#,
            r#"{"message": "Hello?", "status": "gave_up", "status": "continue"}"#,
            (0, 4),
        ),
    ] {
        for (answer, code) in [(once, codes.0), (twice, codes.1)] {
            let server = ModelServer::answering(move |request| {
                let is_asked = request.body["model"] == model;
                Reply::text(if is_asked { answer } else { "Good day." })
            });
            let case = WHOLE
                .replace(", CHECKS", &format!(", {checks}"))
                .replace(", }", "}");
            let case = if name == "simulated user" {
                case.replace("input: Hello?, ", "")
            } else {
                case
            };
            let project = project(&desk(&(yaml.clone() + &case)), &server);
            let (ran, report) = run(&project, &["test", "agent.yaml"]);
            server.finish();
            assert_eq!(ran.code, Some(code), "{name}: {ran:?}");
            let said = report["results"][0].to_string() + &ran.all();
            assert_eq!(said.contains("appears twice"), code != 0, "{name}: {said}");
        }
    }
}

#[test]
fn a_typo_in_how_reasoning_is_read_is_an_error_with_its_place() {
    for written in [
        "reasoning_in_content: keeep",
        "reasoning_in_content: Keep",
        "reasoning_in_content: true",
        "reasoning_in_content: [keep]",
        "reasoning_in_contents: keep",
        "Reasoning_in_content: keep",
    ] {
        let model = "model: {provider: openai, name: m, endpoint: \"http://127.0.0.1:9\", ";
        let agent = format!("name: desk\n{model}{written}}}\ninstructions: {{inline: Answer briefly.}}\n");
        let column = model.len();
        let ran = Project::with(&agent).run(&["validate"]).exits(2);
        let said = ran.all();
        let place = said.split("agent.yaml:2:").nth(1).unwrap_or_default();
        let at: usize = place
            .split(|c: char| !c.is_ascii_digit())
            .next()
            .and_then(|at| at.parse().ok())
            .unwrap_or_default();
        assert!(at > column && at <= column + written.len(), "{written}: {said}");
        assert!(
            said.contains("reasoning_in_content") || said.contains("`keep`"),
            "{written}: {said}"
        );
    }
    for value in ["auto", "keep", "null"] {
        let agent = format!(
            "name: desk\nmodel: {{provider: openai, name: m, endpoint: \"http://127.0.0.1:9\", \
             reasoning_in_content: {value}}}\ninstructions: {{inline: Answer briefly.}}\n"
        );
        Project::with(&agent).run(&["validate"]).exits(0);
    }
}

#[test]
fn fields_that_a_server_wants_back_go_back_and_survive_a_recording() {
    let agent = "\
name: desk
model: {provider: openai, name: m, endpoint: \"${ENDPOINT}\"}
instructions: {inline: Answer briefly.}
tools:
  - {type: function, name: weather, description: The weather of a city., command: ./weather.sh, parameters: {city: {type: string}}}
test_cases:
  - {name: paris, input: Weather in Paris?, expected_tools: [weather], evaluations: [{metric: contains, value: sunny}]}
";
    let is_kept = |request: &ReceivedRequest| {
        let messages = request.messages();
        let mut answers = messages.iter().filter(|message| message["role"] == "assistant");
        answers.all(|message| message["reasoning_content"] == "I need the weather.")
    };
    let server = ModelServer::answering(move |request| {
        if !has_tool_result(request) {
            reply(dialect!("reasoning-echo/deepseek-1-answer.sse"))
        } else if is_kept(request) {
            reply(dialect!("answer.sse"))
        } else {
            Reply::openai_error(400, "The message is not the one that was sent.", None, None)
        }
    });
    let project = project(agent, &server);
    let (ran, report) = run(&project, &["test", "agent.yaml", "--record", "tape.jsonl"]);
    assert_eq!(
        states(&report),
        [("paris".to_owned(), "passed".to_owned())],
        "{ran:?}"
    );
    // They are no part of the report.
    assert!(!project.read("r.json").contains("provider_fields"));
    server.finish();
    let (ran, report) = run(&project, &["test", "agent.yaml", "--replay", "tape.jsonl"]);
    assert_eq!(
        states(&report),
        [("paris".to_owned(), "passed".to_owned())],
        "{ran:?}"
    );
}

#[test]
fn a_recording_of_an_endpoint_that_refuses_the_format_is_replayed_with_its_notice() {
    let agent = "\
name: desk
model: {provider: openai, name: m, endpoint: \"${ENDPOINT}\"}
instructions: {inline: Answer briefly.}
response_format: {type: object, properties: {days: {type: integer}}, required: [days]}
test_cases:
  - {name: days, input: How long?, evaluations: [{metric: contains, value: '30'}]}
";
    let server = ModelServer::answering(|request| match request.body.get("response_format") {
        Some(_) => Reply::openai_error(422, "grammar went wrong", None, None),
        None => Reply::text("{\"days\": 30}"),
    });
    let project = project(agent, &server);
    let notice = "the endpoint does not support `response_format`";
    for args in [
        ["test", "agent.yaml", "--record", "tape.jsonl"],
        ["test", "agent.yaml", "--replay", "tape.jsonl"],
    ] {
        let (ran, report) = run(&project, &args);
        assert_eq!(
            states(&report),
            [("days".to_owned(), "passed".to_owned())],
            "{ran:?}"
        );
        assert!(ran.stderr.contains(notice), "{ran:?}");
    }
    assert_eq!(server.finish().len(), 2);
}

#[test]
fn the_run_file_has_what_was_adapted_for_each_model_and_the_note_is_shown_once() {
    let agent = "\
name: desk
model: {provider: openai, name: m, endpoint: \"${ENDPOINT}\"}
instructions: {inline: Answer briefly.}
response_format: {type: object, properties: {days: {type: integer}}, required: [days]}
evaluations:
  model: {provider: openai, name: judge, endpoint: \"${ENDPOINT}\"}
  metrics: [{type: geval, name: polite, criteria: Is it polite?, evaluation_steps: [Read it.], threshold: 0.5}]
test_cases:
  - {name: a, input: How long?}
  - {name: b, input: How long again?}
";
    let refuses = Arc::new(AtomicBool::new(true));
    let refusing = Arc::clone(&refuses);
    let server = ModelServer::answering(move |request| {
        let is_judge = request.body["model"] == "judge";
        match request.body.get("response_format") {
            Some(_) if refusing.load(Ordering::Relaxed) => {
                Reply::openai_error(422, "grammar went wrong", None, None)
            }
            _ if is_judge => Reply::text("{\"score\": 9, \"reason\": \"so\"}"),
            _ => Reply::text("{\"days\": 30}"),
        }
    });
    let project = project(agent, &server);
    let note =
        "the endpoint does not support `response_format`; the schema is sent to the model as instructions";
    let expected = |model: &str| {
        json!({
            "endpoint": format!("{}/v1/chat/completions", server.url()), "model": model, "part": "response_format",
            "note": note,
        })
    };
    let both = json!([expected("m"), expected("judge")]);
    let mut runs = Vec::new();
    for (args, shown) in [
        (
            &["test", "agent.yaml", "--record", "tape.jsonl", "-j", "1"][..],
            1,
        ),
        (&["test", "agent.yaml", "--replay", "tape.jsonl", "-j", "1"], 1),
        // Nothing is asked again.
        (&["test", "resume", "latest"], 0),
        (&["test", "regrade", "latest"], 0),
    ] {
        let (ran, report) = run(&project, args);
        assert_eq!(report["adapted"], both, "{args:?}: {ran:?}");
        let notes = ran.stderr.matches(note).count();
        let at_most = if args[1] == "regrade" { 1 } else { shown };
        assert!(
            notes >= shown && notes <= at_most,
            "{args:?}: {notes} notes: {ran:?}"
        );
        runs.push(report["run_id"].as_str().unwrap().to_owned());
    }
    // It is neither a part of the agent nor of what is compared.
    refuses.store(false, Ordering::Relaxed);
    let (ran, report) = run(&project, &["test", "agent.yaml"]);
    assert_eq!(
        (report.get("adapted"), ran.stderr.contains(note)),
        (None, false),
        "{ran:?}"
    );
    let now = report["run_id"].as_str().unwrap();
    let compared = project
        .run(&["test", "compare", &runs[0], now, "--gate"])
        .exits(0);
    assert!(!compared.stdout.contains("response_format"), "{compared:?}");
    server.finish();
}

#[test]
fn a_judge_is_read_where_it_has_one_reading_and_is_an_error_where_it_has_two() {
    let agent = "name: desk\nmodel: {provider: openai, name: m, endpoint: \"${ENDPOINT}\"}\n\
                 instructions: {inline: Answer briefly.}\nevaluations:\n  model: {provider: openai, name: judge, \
                 endpoint: \"${ENDPOINT}\"}\n  metrics: [{type: geval, name: polite, criteria: Is it polite?, \
                 evaluation_steps: [Read it.], threshold: 0.7}]\ntest_cases: [{name: a, input: Hello?}]\n";
    for line in include_str!("../../../../fixtures/dialects/judge-answers.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let content = case["content"].as_str().unwrap().to_owned();
        let answer = content.clone();
        let server = ModelServer::answering(move |request| match request.body["model"].as_str() {
            Some("judge") => Reply::text(answer.clone()),
            _ => Reply::text("Good day."),
        });
        let project = project(agent, &server);
        let (ran, report) = run(&project, &["test", "agent.yaml"]);
        let judged = server.finish();
        let judged = judged.iter().filter(|request| request.body["model"] == "judge");
        let result = &report["results"][0];
        // The answers that are right in one way only; the others may be an error, and are.
        let (state, score, asked) = match case["right"].as_str().unwrap() {
            "0.8" => ("passed", json!(0.8), 1),
            _ => ("error", Value::Null, 2),
        };
        assert_eq!(result["state"], state, "{content}: {ran:?}");
        assert_eq!(result["metric_results"][0]["score"], score, "{content}");
        // One more question, with the reason.
        assert_eq!(judged.count(), asked, "{content}");
    }
}
