//! Whatever answers in place of an agent: where its key is missing, where no specialist takes a command, in recordings, keys
//! and prices.

use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{
    executors::{Message, QUESTION, REVIEWER, agent, asked, project as project_of, server, short, stored},
    project::Project,
    serve::Server,
};

/// Why an agent itself cannot answer.
#[derive(Clone, Copy)]
struct Fault {
    /// The rest of its model, and its tools.
    model: &'static str,
    tools: &'static str,
    /// The word by which each error names it.
    word: &'static str,
    /// The decision where something else answers.
    decision: &'static str,
}

const NO_KEY: Fault = Fault {
    model: "",
    tools: "",
    word: "OPENAI_API_KEY",
    decision: "sdk_unavailable",
};

/// Nothing listens there, so that the agent must not be asked.
const NO_SERVER: Fault = Fault {
    model: ", endpoint: http://127.0.0.1:9, api_key: none-needed",
    tools: "tools: [{type: mcp, name: notes, description: Notes., command: sh, args: [-c, exit 3]}]\n",
    word: "notes",
    decision: "sdk_exception",
};

/// An agent that cannot answer itself, whose other executor prints `by legacy`, unless `more` leaves it out.
fn faulty(fault: Fault, commands: &str, more: &str) -> Project {
    let Fault { model, tools, .. } = fault;
    let project = Project::with(&format!(
        "name: faulty\nmodel: {{provider: openai, name: test-model{model}}}\ninstructions: {{inline: Help.}}\n{tools}\
         routing:\n  commands: {commands}\n  min_confidence: 0\n  agents: {{directories: [{{path: agents}}]}}\n{more}"
    ));
    project.write("agents/reviewer.md", REVIEWER);
    project
}

/// The words of each of the four commands to a message of an agent that cannot answer itself: its exit code, and its record or
/// its error.
fn say_in_its_place(
    fault: Fault,
    message: &Message<'_>,
    more: &str,
) -> Vec<(&'static str, Option<i32>, Value)> {
    let serve = format!(
        "{more}serve: {{commands: [{}]}}\n",
        message.command.unwrap_or_default()
    );
    let case = message
        .command
        .map_or_else(String::new, |name| format!("command: {name}, "));
    let check = "evaluations: [{type: standard, metric: contains, value: by legacy}]";
    let case = format!("{more}test_cases:\n- {{input: {QUESTION}, {case}{check}}}\n");
    let typed = message.typed();
    let mut run = vec!["run"];
    run.extend(message.command.into_iter().flat_map(|name| ["--command", name]));
    run.push(QUESTION);
    let mut said = Vec::new();
    for (name, args, more) in [
        ("run", &run[..], more),
        ("test", &["test", "--report", "json=report.json"], case.as_str()),
        ("chat", &["chat", "--save", "--once", &typed], more),
    ] {
        let project = faulty(fault, message.commands, more);
        let ran = project.run(args);
        assert!(!ran.all().contains("panicked"), "{}", ran.all());
        let record = match ran.code {
            Some(0) if name == "test" => {
                let report: Value = serde_json::from_str(&project.read("report.json")).unwrap();
                short(&report["results"][0]["executor"])
            }
            Some(0) => {
                assert_eq!(ran.stdout.trim_end(), "by legacy", "{name}: {}", ran.all());
                let says_why = ran.stderr.contains(fault.word);
                assert!(says_why, "{name}: {}", ran.all());
                stored(&project)
            }
            _ => {
                assert!(ran.stderr.contains(fault.word), "{name}: {}", ran.all());
                json!("refused")
            }
        };
        said.push((name, ran.code, record));
    }
    let project = faulty(fault, message.commands, &serve);
    said.push(match Server::try_start(&project) {
        Err(refused) => {
            assert!(refused.stderr.contains(fault.word), "serve: {}", refused.all());
            ("serve", refused.code, json!("refused"))
        }
        Ok(server) => {
            let body = json!({ "message": typed }).to_string();
            let answer = server.ask("POST", "/v1/sessions/s/messages?wait=true", "", &body);
            server.end("-TERM").exits(0);
            let record = stored(&project);
            if record["executor"].is_null() {
                assert!(answer.contains(fault.word), "{answer}");
                ("serve", Some(3), json!("refused"))
            } else {
                ("serve", Some(0), record)
            }
        }
    });
    said
}

#[test]
fn a_missing_key_and_a_server_that_does_not_start_have_one_outcome_in_run_test_chat_and_serve() {
    let legacy = "  legacy: {command: [sh, -c, 'echo by legacy']}\n";
    let shut = "  chain: [sdk]\n  legacy: {command: [sh, -c, 'echo by legacy']}\n";
    for (commands, command, more, answers) in [
        ("[run, review]", None, legacy, true),
        ("[run, review]", Some("review"), legacy, true),
        // The agent itself would answer a plain message.
        ("[review]", None, legacy, false),
        ("[review]", Some("review"), legacy, true),
        ("[run, review]", None, "", false),
        ("[run, review]", Some("review"), "", false),
        ("[run, review]", Some("review"), shut, false),
    ] {
        let message = Message { commands, command };
        // A server is waited for, so that not every row is tried with it.
        let faults = if commands == "[review]" || !more.is_empty() && command.is_none() {
            &[NO_KEY, NO_SERVER][..]
        } else {
            &[NO_KEY]
        };
        for &fault in faults {
            for (name, code, record) in say_in_its_place(fault, &message, more) {
                let place = format!("{name}: {} {commands} {command:?} {more}", fault.word);
                assert_eq!(code, Some(if answers { 0 } else { 3 }), "{place}: {record}");
                if answers {
                    assert_eq!(record["executor"], "legacy", "{place}");
                    assert_eq!(record["decision"], fault.decision, "{place}");
                }
            }
        }
    }
}

#[test]
fn a_run_in_which_one_case_has_no_executor_asks_nothing() {
    let cases = "  legacy: {command: [sh, -c, 'echo x >> ran.txt; echo by legacy']}\n\
                 test_cases:\n- {input: a, command: review, ground_truth: x}\n- {input: b, ground_truth: x}\n";
    let project = faulty(NO_KEY, "[review]", cases);
    let ran = project.run(&["test"]).exits(3);
    assert!(ran.stderr.contains("OPENAI_API_KEY"), "{}", ran.all());
    assert!(!project.path("ran.txt").exists() && project.journals().is_empty());
    // Only cases that are planned count, and a run says who answered in place of whom.
    let ran = project.run(&["test", "--limit", "1"]);
    assert!(project.path("ran.txt").exists(), "{}", ran.all());
    assert!(ran.all().contains("itself cannot be asked"), "{}", ran.all());
}

/// An agent whose command `review` no specialist takes, so that `legacy` answers it.
fn delegating(url: &str, legacy: &str) -> Project {
    let check = "evaluations: [{type: standard, metric: contains, value: in its place}]";
    let more = format!("  legacy: {legacy}\ntest_cases:\n- {{input: zzz, command: review, {check}}}\n");
    let yaml = agent(url, "[review]", &more).replace("path: agents}]", "path: agents}], default_agent: null");
    let project = Project::with(&yaml);
    project.write("agents/reviewer.md", REVIEWER);
    let tool = "{type: function, name: find, description: Finds., command: cat, parameters: {}}";
    project.write(
        "other.yaml",
        format!(
            "name: other\nmodel: {{provider: openai, name: other-model, endpoint: {url}, api_key: OTHER-7f3a9c}}\n\
             instructions: {{inline: Stand in.}}\ntools: [{tool}]\n"
        ),
    );
    project
}

/// Answers in place of another agent, after it has called its tool.
fn stand_in() -> ModelServer {
    ModelServer::answering(|request| {
        let has_tools = request.body.get("tools").is_some_and(|tools| !tools.is_null());
        let reply = if has_tools && request.messages().len() == 2 {
            Reply::tool_call("c1", "find", &json!({}))
        } else {
            Reply::text("OTHER-7f3a9c answers in its place")
        };
        reply.usage(json!({"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}))
    })
}

#[test]
fn what_answers_in_place_of_the_agent_is_recorded_and_a_change_of_it_makes_the_recording_miss() {
    for (legacy, file) in [
        ("{agent: other.yaml}", "other.yaml"),
        (
            "{backend: {provider: openai, name: other-model, endpoint: URL, api_key: OTHER-7f3a9c}}",
            "agent.yaml",
        ),
    ] {
        let server = stand_in();
        let project = delegating(&server.url(), &legacy.replace("URL", &server.url()));
        let report = ["--report", "json=report.json"];
        let live = project.run(&[&["test", "--record", "tape.jsonl"], &report[..]].concat());
        let live = live.exits(0);
        // The key of what answers is masked wherever the run shows or stores something.
        let tape = project.read("tape.jsonl");
        let shown = [live.all(), project.read("report.json"), tape];
        for text in &shown {
            assert!(!text.contains("OTHER-7f3a9c"), "{file}: {text}");
        }
        let result = |project: &Project| -> Value {
            let report: Value = serde_json::from_str(&project.read("report.json")).unwrap();
            report["results"][0].clone()
        };
        let recorded = result(&project);
        assert_eq!(recorded["executor"]["executor"], "legacy");
        let asked = server.finish().len();
        // What the other agent used is counted.
        assert_eq!(recorded["token_usage"]["total_tokens"], 14 * asked, "{recorded}");
        // Neither endpoint nor key is needed.
        project
            .run(&[&["test", "--replay", "tape.jsonl"], &report[..]].concat())
            .exits(0);
        let replayed = result(&project);
        assert_eq!(replayed["response"], recorded["response"]);
        assert_eq!(replayed["token_usage"], recorded["token_usage"]);
        let changed = project
            .read(file)
            .replace("name: other-model", "name: newer-model");
        project.write(file, changed);
        let refused = project.run(&["test", "resume", "latest"]).exits(2);
        let part = if file == "agent.yaml" {
            "routing"
        } else {
            "legacy agent: model"
        };
        assert!(refused.stderr.contains(part), "{}", refused.all());
        let missed = project.run(&["test", "--replay", "tape.jsonl"]).exits(3);
        assert!(missed.all().contains("newer-model"), "{}", missed.all());
    }
}

#[test]
fn the_model_in_place_of_the_agent_is_reported_priced_and_needs_a_key_only_where_it_is_asked() {
    let server = server();
    let legacy = "  legacy: {backend: {provider: anthropic, name: sonnet, auth_provider: api_key}}\n";
    let project = project_of(&server.url(), "[review]", legacy);
    let doctor = project.run(&["doctor"]);
    let line = doctor
        .stdout
        .lines()
        .find(|line| line.contains("model of `routing.legacy`"));
    assert!(
        line.is_some_and(|line| line.contains("sonnet")),
        "{}",
        doctor.all()
    );
    project.run(&["run", "--command", "review", QUESTION]).exits(0);
    // Its price is needed where a limit on the cost is to hold.
    let unknown =
        "  legacy: {backend: {provider: openai, name: unlisted-model, endpoint: URL, api_key: k}}\n";
    let case = "test_cases:\n- {input: hi, ground_truth: x}\n";
    let priced = project_of(
        &server.url(),
        "[review]",
        &format!("{}{case}", unknown.replace("URL", &server.url())),
    );
    let yaml = priced
        .read("agent.yaml")
        .replace("name: test-model", "name: gpt-4o");
    priced.write("agent.yaml", yaml);
    priced
        .run(&["test", "--max-cost-usd", "1"])
        .exits(2)
        .says("no price known for `unlisted-model`");
    let asked = asked(server);
    assert_eq!(asked.iter().filter(|body| !body["messages"].is_null()).count(), 1);
}
