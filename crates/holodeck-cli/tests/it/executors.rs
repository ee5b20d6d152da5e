//! One message has one executor: the same specialist, prompt, tools and record in `run`, `test`, `chat` and `serve`.

use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{
    project::{Project, SECRET},
    serve::Server,
};

pub(crate) const QUESTION: &str = "look at src/";

pub(crate) const REVIEWER: &str = "---\nname: reviewer\ndescription: Reviews code for bugs\ntriggers: [look at]\n\
                        tools: [read_file]\nmodel: review-model\n---\nYou review code.\n";

/// An agent with these routed commands, and these further lines.
pub(crate) fn agent(url: &str, commands: &str, more: &str) -> String {
    format!(
        "name: routed\nmodel: {{provider: openai, name: test-model, endpoint: {url}, api_key: {SECRET}}}\n\
         instructions: {{inline: Help.}}\n\
         tools:\n\
         - {{type: function, name: read_file, description: Reads., command: cat, parameters: {{}}, side_effects: none}}\n\
         - {{type: function, name: deploy, description: Deploys., command: cat, parameters: {{}}}}\n\
         routing:\n  commands: {commands}\n  min_confidence: 0.3\n  agents: {{directories: [{{path: agents}}], algorithm: keyword-v1}}\n{more}"
    )
}

/// A case that any answer passes which says that it is the specialist's.
const CASE: &str = "test_cases:\n- {input: look at src/, evaluations: [{type: standard, metric: contains, value: by the specialist}]}\n";

pub(crate) fn project(url: &str, commands: &str, more: &str) -> Project {
    let project = Project::with(&agent(url, commands, more));
    project.write("agents/reviewer.md", REVIEWER);
    project
}

/// Answers as the prompt says who is asked.
pub(crate) fn server() -> ModelServer {
    ModelServer::answering(|request| {
        let prompt = request.body["messages"][0]["content"]
            .as_str()
            .unwrap_or_default();
        if prompt.contains("You review code.") {
            Reply::text("by the specialist")
        } else {
            Reply::text("by the agent itself")
        }
    })
}

/// The model, messages and tools that reached the endpoint.
pub(crate) fn asked(server: ModelServer) -> Vec<Value> {
    let requests = server.finish();
    let seen = requests.iter().map(|request| {
        let body = &request.body;
        json!({"model": body["model"], "messages": body["messages"], "tools": body["tools"]})
    });
    seen.collect()
}

/// The record of the executor in the last event of the last conversation.
pub(crate) fn stored(project: &Project) -> Value {
    let events = project.run(&["events", "export", "last"]);
    let mut records = events.stdout.lines().filter_map(|line| {
        let event: Value = serde_json::from_str(line).ok()?;
        event.get("execution").cloned()
    });
    short(&records.next_back().unwrap_or_else(|| panic!("{}", events.all())))
}

/// The fields that every record of an executor has.
pub(crate) fn short(record: &Value) -> Value {
    let fields = [
        "command_name",
        "executor",
        "agent",
        "selected",
        "decision",
        "confidence",
        "model",
    ];
    fields
        .iter()
        .map(|name| ((*name).to_owned(), record[*name].clone()))
        .collect()
}

/// Everything that one command shows of a message: what reached the endpoint, and the record.
type Seen = (Vec<Value>, Value);

/// The four commands, each with a message that may name a command.
fn by_run(message: &Message<'_>) -> Seen {
    let server = server();
    let project = project(&server.url(), message.commands, "");
    match message.command {
        Some(command) => project.run(&["run", "--command", command, QUESTION]),
        None => project.run(&["run", QUESTION]),
    };
    (asked(server), stored(&project))
}

fn by_chat(message: &Message<'_>) -> Seen {
    let server = server();
    let project = project(&server.url(), message.commands, "");
    project.run(&["chat", "--save", "--once", &message.typed()]);
    (asked(server), stored(&project))
}

fn by_serve(message: &Message<'_>) -> Seen {
    let model = server();
    let served = message.command.unwrap_or_default();
    let project = project(
        &model.url(),
        message.commands,
        &format!("serve: {{commands: [{served}]}}\n"),
    );
    let server = Server::start(&project, &[]);
    let body = json!({ "message": message.typed() }).to_string();
    server.ask("POST", "/v1/sessions/s/messages?wait=true", "", &body);
    server.end("-TERM").exits(0);
    (asked(model), stored(&project))
}

fn by_test(message: &Message<'_>) -> Seen {
    let server = server();
    let command = message
        .command
        .map_or_else(String::new, |name| format!("command: {name}, "));
    let case = format!("test_cases:\n- {{input: {QUESTION}, {command}ground_truth: x}}\n");
    let project = project(&server.url(), message.commands, &case);
    project.run(&["test", "--report", "json=report.json"]);
    let report: Value = serde_json::from_str(&project.read("report.json")).unwrap();
    (asked(server), short(&report["results"][0]["executor"]))
}

/// A message to an agent with these routed commands.
pub(crate) struct Message<'a> {
    pub(crate) commands: &'a str,
    pub(crate) command: Option<&'a str>,
}

impl Message<'_> {
    pub(crate) fn typed(&self) -> String {
        self.command
            .map_or_else(|| QUESTION.to_owned(), |name| format!("/{name} {QUESTION}"))
    }
}

#[test]
fn a_message_has_one_executor_in_run_test_chat_and_serve() {
    for (commands, command, executor, decision) in [
        ("[run, review]", None, "sdk", "sdk_executed"),
        ("[run, review]", Some("review"), "sdk", "sdk_executed"),
        ("[review]", None, "agent", "command_not_allowed"),
        ("[]", None, "agent", "command_not_allowed"),
    ] {
        let message = Message { commands, command };
        let run = by_run(&message);
        assert_eq!(run.1["executor"], executor, "{commands} {command:?}");
        assert_eq!(run.1["decision"], decision, "{commands} {command:?}");
        assert_eq!(run.0.len(), 1);
        assert_eq!(run, by_test(&message), "test: {commands} {command:?}");
        assert_eq!(run, by_chat(&message), "chat: {commands} {command:?}");
        assert_eq!(run, by_serve(&message), "serve: {commands} {command:?}");
    }
}

#[test]
fn a_plain_message_that_no_specialist_takes_is_answered_by_the_agent_itself() {
    for (routing, decision) in [
        ("  min_confidence: 0.9\n", "low_confidence"),
        ("", "selection_declined"),
        ("", "no_selector"),
        ("", "no_sdk_definition"),
    ] {
        let server = server();
        let project = project(&server.url(), "[run]", CASE);
        let yaml = project.read("agent.yaml");
        let yaml = match decision {
            "low_confidence" => yaml.replace("  min_confidence: 0.3\n", routing),
            "selection_declined" => yaml.replace(
                "directories: [{path: agents}]",
                "directories: [{path: agents}], exclude: [reviewer], default_agent: null",
            ),
            "no_selector" => {
                let agents = "  agents: {directories: [{path: agents}], algorithm: keyword-v1}\n";
                yaml.replace(agents, "")
            }
            _ => yaml.replace(
                "directories: [{path: agents}]",
                "directories: [{path: agents}], exclude: [reviewer], default_agent_routes: true",
            ),
        };
        project.write("agent.yaml", yaml);
        let ran = project.run(&["run", "--json", QUESTION]).exits(0).json();
        assert_eq!(ran["output"]["output"], "by the agent itself", "{decision}");
        assert_eq!(ran["output"]["execution_mode"], "legacy", "{decision}");
        let record = stored(&project);
        assert_eq!(record["executor"], "legacy", "{decision}");
        assert_eq!(record["agent"], "routed", "{decision}");
        assert_eq!(record["decision"], decision);
        // The case asks for the specialist's answer: it is not green.
        project.run(&["test", "--report", "json=report.json"]).exits(1);
        let report: Value = serde_json::from_str(&project.read("report.json")).unwrap();
        assert_eq!(short(&report["results"][0]["executor"]), record, "{decision}");
        project.run(&["chat", "--save", "--once", QUESTION]).exits(0);
        assert_eq!(stored(&project), record, "{decision}");
        // A named command is not answered by the agent itself.
        project.run(&["run", "--command", "run", QUESTION]).exits(3);
        let seen = asked(server);
        assert_eq!(seen.len(), 3, "{decision}");
        assert!(seen.iter().all(|request| *request == seen[0]), "{decision}");
    }
}

#[test]
fn a_backend_that_failed_is_not_asked_again_as_the_agent_itself() {
    for reply in [400, 401] {
        let server =
            ModelServer::answering(move |_| Reply::error(reply, &json!({"error": {"message": "no"}})));
        let project = project(&server.url(), "[run]", CASE);
        project.run(&["run", QUESTION]).exits(3);
        project.run(&["test", "--report", "json=report.json"]).exits(3);
        let report: Value = serde_json::from_str(&project.read("report.json")).unwrap();
        let executor = &report["results"][0]["executor"];
        assert_eq!(executor["decision"], "sdk_error_message", "{report:#}");
        assert_eq!(
            (&executor["executor"], &executor["selected"]),
            (&Value::Null, &json!("reviewer"))
        );
        project.run(&["chat", "--once", QUESTION]).exits(3);
        let seen = asked(server);
        assert!(
            seen.iter().all(|request| request["model"] == "review-model"),
            "{seen:?}"
        );
    }
}

#[test]
fn a_named_command_that_nothing_executes_is_an_error_of_the_case() {
    let server = server();
    let case = "test_cases:\n- {name: named, input: good morning, command: review, forbidden_tools: [deploy]}\n\
                        - {name: turns, turns: [{input: hello}, {input: good morning, command: review, forbidden_tools: [deploy]}]}\n";
    let project = project(&server.url(), "[review]", case);
    let ran = project.run(&["test", "--report", "json=report.json"]).exits(3);
    assert!(
        ran.all().contains("nothing executes the command `review`"),
        "{}",
        ran.all()
    );
    let report: Value = serde_json::from_str(&project.read("report.json")).unwrap();
    let states: Vec<&Value> = report["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| &result["state"])
        .collect();
    assert_eq!(states, ["error", "error"], "{report:#}");
    let turns = &report["results"][1]["turns"];
    assert_eq!(
        (
            &turns[0]["executor"]["executor"],
            &turns[1]["executor"]["executor"]
        ),
        (&json!("agent"), &Value::Null)
    );
    project.run(&["chat", "--once", "/review good morning"]).exits(3);
    // Only the plain message reached the endpoint.
    let asked = asked(server);
    assert_eq!(asked.iter().filter(|body| !body["messages"].is_null()).count(), 1);
}

#[test]
fn commands_of_cases_must_be_routed() {
    let case = "test_cases:\n- {input: a, command: revew}\n- {turns: [{input: a, command: deploy}]}\n- {turns: [{input: a}], command: review}\n";
    let project = project("http://127.0.0.1:9/v1", "[review, help]", case);
    let checked = project.run(&["validate"]).exits(2).all();
    for problem in [
        "`command` of test case 1 is `revew`, which is not in `routing.commands`",
        "did you mean `review`?",
        "is `deploy`, which is not in `routing.commands`",
        "belongs in its `turns`",
        "`/help` is a command of `holodeck chat` itself",
    ] {
        assert!(checked.contains(problem), "{problem}: {checked}");
    }
}

#[test]
fn the_input_of_a_case_and_words_that_name_no_command_are_text() {
    let server = server();
    let case = "test_cases:\n- {input: /review look at src/, ground_truth: x}\n";
    let project = project(&server.url(), "[review]", case);
    project.run(&["test"]);
    project.run(&["chat", "--once", "/other look at src/"]).exits(0);
    let messages: Vec<Value> = asked(server)
        .iter()
        .map(|request| request["messages"][1]["content"].clone())
        .collect();
    assert_eq!(messages, ["/review look at src/", "/other look at src/"]);
}

#[test]
fn an_execution_sees_no_conversation_and_becomes_a_part_of_it() {
    let server = server();
    let cases = "test_cases:\n- {turns: [{input: hello, ground_truth: x}, {input: look at src/, command: review}, {input: and now?}]}\n";
    let project = project(&server.url(), "[review]", cases);
    project.run(&["test"]);
    let tested: Vec<Value> = asked(server)
        .into_iter()
        .map(|mut request| request["messages"].take())
        .collect();
    assert_eq!(
        tested[1],
        json!([
            {"role": "system", "content": "You review code."},
            {"role": "user", "content": "look at src/"},
        ])
    );
    assert_eq!(
        tested[2],
        json!([
            {"role": "system", "content": "Help."},
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": "by the agent itself"},
            {"role": "user", "content": "look at src/"},
            {"role": "assistant", "content": "by the specialist"},
            {"role": "user", "content": "and now?"},
        ])
    );
    // The same in a conversation, also when each message has a process of its own.
    let server = self::server();
    let project = self::project(&server.url(), "[review]", "");
    for message in ["hello", "/review look at src/", "and now?"] {
        project
            .run(&["chat", "--session", "s", "--once", message])
            .exits(0);
    }
    let chatted: Vec<Value> = asked(server)
        .into_iter()
        .map(|mut request| request["messages"].take())
        .collect();
    assert_eq!(chatted, tested);
}

#[test]
fn a_recording_of_the_agent_itself_does_not_answer_for_the_specialist() {
    let server = server();
    let project = project(&server.url(), "[review]", CASE);
    project.run(&["test", "--record", "tape.jsonl"]).exits(1);
    project.run(&["test", "--replay", "tape.jsonl"]).exits(1);
    let yaml = project.read("agent.yaml");
    project.write(
        "agent.yaml",
        yaml.replace("commands: [review]", "commands: [run]"),
    );
    let missed = project.run(&["test", "--replay", "tape.jsonl"]).exits(3);
    assert!(missed.all().contains("holds no answer"), "{}", missed.all());
    // Nor does an executor that is not in the recording.
    let legacy = "  legacy: {command: [sh, -c, 'touch ran; echo by the specialist']}\ntest_cases:";
    let yaml = project.read("agent.yaml").replace("test_cases:", legacy);
    project.write("agent.yaml", yaml);
    project.run(&["test", "--replay", "tape.jsonl"]).exits(3);
    assert!(!project.path("ran").exists());
    server.finish();
}

#[test]
fn a_specialist_that_changed_makes_a_recording_miss_and_resume_refuse() {
    let server = server();
    let project = project(&server.url(), "[run]", CASE);
    project.run(&["test", "--record", "tape.jsonl"]).exits(0);
    // Neither endpoint nor key is needed.
    server.finish();
    project.run(&["test", "--replay", "tape.jsonl"]).exits(0);
    project.write(
        "agents/reviewer.md",
        REVIEWER.replace("You review code.", "You review all code."),
    );
    let missed = project.run(&["test", "--replay", "tape.jsonl"]).exits(3);
    assert!(missed.all().contains("You review all code."), "{}", missed.all());
    project.write("agents/reviewer.md", REVIEWER);
    project.run(&["test", "--replay", "tape.jsonl"]).exits(0);
    project.write("agents/reviewer.md", REVIEWER.replace("for bugs", "for faults"));
    let refused = project.run(&["test", "resume", "latest"]).exits(2);
    assert!(
        refused.stderr.contains("specialist agent: agents/reviewer.md"),
        "{}",
        refused.all()
    );
}

#[test]
fn an_expected_agent_that_was_selected_and_not_asked_fails_the_case() {
    let case = "test_cases:\n- {name: live, input: look at src/, expected_agent: reviewer, forbidden_tools: [deploy]}\n\
                - {name: selection, input: look at src/, expected_agent: reviewer}\n";
    for (commands, confidence, reason) in [
        ("[run]", "0.9", "was selected and not routed: low_confidence"),
        ("[review]", "0.3", "command_not_allowed"),
    ] {
        let server = server();
        let project = project(&server.url(), commands, case);
        let yaml = project
            .read("agent.yaml")
            .replace("min_confidence: 0.3", &format!("min_confidence: {confidence}"));
        project.write("agent.yaml", yaml);
        project.run(&["test", "--report", "json=report.json"]).exits(1);
        let report: Value = serde_json::from_str(&project.read("report.json")).unwrap();
        for result in report["results"].as_array().unwrap() {
            assert_eq!(result["state"], "failed", "{result:#}");
            assert!(result["errors"].to_string().contains(reason), "{result:#}");
        }
        server.finish();
    }
    let server = server();
    let project = project(&server.url(), "[run]", case);
    let ran = project.run(&["test"]).exits(0);
    let said: Vec<&str> = ran.stdout.split_whitespace().collect();
    assert!(said.join(" ").contains("count as open"), "{}", ran.all());
    // Only the case with another check asked.
    let asked = asked(server);
    assert_eq!(asked.iter().filter(|body| !body["messages"].is_null()).count(), 1);
}

#[test]
fn every_report_says_which_executor_answered() {
    let server = server();
    let project = project(&server.url(), "[run]", CASE);
    let mut args = vec!["test"];
    for report in [
        "json=r.json",
        "junit=r.xml",
        "markdown=r.md",
        "html=r.html",
        "jsonl=r.jsonl",
    ] {
        args.extend(["--report", report]);
    }
    let ran = project.run(&args).exits(0);
    let executor = "executor: reviewer (sdk, confidence 0.45)";
    assert!(ran.all().contains(executor), "{}", ran.all());
    for report in ["r.xml", "r.md", "r.html"] {
        assert!(
            project.read(report).contains(executor),
            "{report}: {}",
            project.read(report)
        );
    }
    for report in ["r.json", "r.jsonl"] {
        assert!(project.read(report).contains("sdk_executed"), "{report}");
    }
    server.finish();
}

/// Answers better each time, and says who was asked.
fn improving_specialist() -> ModelServer {
    ModelServer::answering(|request| {
        let prompt = request.body["messages"][0]["content"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let question = request.texts("user").last().unwrap().to_string();
        let who = if prompt.contains("You review code.") {
            "by the specialist"
        } else {
            "by the agent itself"
        };
        let good = if question.contains("Previous answer:") {
            " good"
        } else {
            ""
        };
        Reply::text(format!("{who}{good}"))
    })
}

const LOOP: &str = "evaluations: {metrics: [{type: standard, metric: contains, value: good}]}\n\
                    quality_loop: {scorer: {metrics: [contains]}, threshold: 90, max_iterations: 2}\n";

#[test]
fn a_loop_asks_the_specialist_again_and_what_is_served_can_be_tested_without_it() {
    let server = improving_specialist();
    let project = project(&server.url(), "[run]", &format!("{LOOP}{CASE}"));
    let looped = project
        .run(&[
            "test",
            "--record",
            "loop.jsonl",
            "--report",
            "markdown=r.md",
            "--save-baseline",
        ])
        .exits(0);
    let headline = "the answers are those of the quality loop";
    assert!(looped.all().contains(headline), "{}", looped.all());
    assert!(project.read("r.md").contains(headline));
    let bare = project
        .run(&[
            "test",
            "--without-loop",
            "--record",
            "bare.jsonl",
            "--report",
            "html=r.html",
        ])
        .exits(0);
    assert!(
        bare.all().contains("answered without the quality loop"),
        "{}",
        bare.all()
    );
    assert!(
        project
            .read("r.html")
            .contains("answered without the quality loop")
    );
    // Nothing of one counts for the other.
    let mixed = project.run(&["test", "compare", "baseline", "latest"]).exits(2);
    assert!(mixed.all().contains("--without-loop"), "{}", mixed.all());
    project
        .run(&["test", "--without-loop", "--replay", "loop.jsonl"])
        .exits(3);
    project.run(&["test", "--replay", "bare.jsonl"]).exits(3);
    project
        .run(&["test", "--without-loop", "--replay", "bare.jsonl"])
        .exits(0);
    project.run(&["test", "--replay", "loop.jsonl"]).exits(0);
    let served = Server::start(&project, &[]);
    let said = served.end("-TERM").exits(0);
    assert!(
        said.stderr.contains("without its `quality_loop`"),
        "{}",
        said.all()
    );
    let seen = asked(server);
    assert_eq!(seen.len(), 3, "{seen:#?}");
    assert!(
        seen.iter()
            .all(|request| request["messages"][0]["content"] == "You review code."),
        "{seen:#?}"
    );
}

#[test]
fn run_says_that_other_files_count_for_its_selection() {
    let server = server();
    let project = project(&server.url(), "[run]", "");
    project.write(
        "agents/reviewer.md",
        REVIEWER.replace("triggers:", "globs: ['*.rs']\ntriggers:"),
    );
    project.write("below/main.rs", "");
    let here = project.run(&["run", QUESTION]).exits(0);
    assert!(
        !here.stderr.contains("are selected for the files"),
        "{}",
        here.all()
    );
    let mut command = project.command(&["run", "../agent.yaml", QUESTION]);
    let output = command.current_dir(project.path("below")).output().unwrap();
    let below = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        below.contains("specialists are selected for the files of"),
        "{below}"
    );
    server.finish();
}
