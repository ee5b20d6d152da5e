//! Commands of `holodeck run`: gates, selection, fallbacks, evidence, telemetry and stored runs, on the OpenAI loop.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    os::unix::fs::PermissionsExt as _,
    process::{Command, Stdio},
};

use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::project::{Project, SECRET};

pub(crate) const REVIEWER: &str = "---\nname: reviewer\ndescription: Reviews code for bugs\ntriggers: [look at]\n\
                        commands: [review]\ntools: [read_file]\n---\nYou review code.\n";

/// An agent with routing of `review`, and these further keys.
pub(crate) fn agent(url: &str, routing: &str, more: &str) -> String {
    format!(
        "name: routed\nmodel: {{provider: openai, name: test-model, endpoint: {url}, api_key: {SECRET}}}\n\
         instructions: {{inline: Help.}}\n\
         tools:\n\
         - {{type: function, name: read_file, description: Reads., command: cat, parameters: {{}}, side_effects: none}}\n\
         - {{type: function, name: deploy, description: Deploys., command: cat, parameters: {{}}}}\n\
         routing:\n  commands: [review, notes]\n  min_confidence: 0.3\n  agents: {{directories: [{{path: agents}}]}}\n{routing}\
         {more}"
    )
}

pub(crate) fn project(url: &str, routing: &str, more: &str) -> Project {
    let project = Project::with(&agent(url, routing, more));
    project.write("agents/reviewer.md", REVIEWER);
    project
}

pub(crate) fn server(reply: impl Fn() -> Reply + Send + Sync + 'static) -> ModelServer {
    ModelServer::answering(move |_| reply())
}

pub(crate) const REVIEW: [&str; 5] = ["run", "agent.yaml", "--command", "review", "look at src/"];

pub(crate) fn with<'a>(args: &[&'a str]) -> Vec<&'a str> {
    REVIEW.iter().chain(args).copied().collect()
}

#[test]
fn a_command_goes_to_the_specialist_and_stdout_is_the_answer() {
    let server = server(|| Reply::text("No bugs."));
    let project = project(
        &server.url(),
        "",
        "telemetry: {jsonl: .holodeck/telemetry.jsonl}\n",
    );
    let ran = project
        .run(&with(&["--explain", "-v", "--param", "depth=2"]))
        .exits(0);
    assert_eq!(ran.stdout, "No bugs.\n");
    assert!(
        ran.stderr
            .contains("routing   review → sdk_executed (agent `reviewer`, confidence 1.00"),
        "{}",
        ran.all()
    );
    assert!(
        ran.stderr.contains("it declares the command `review`"),
        "{}",
        ran.all()
    );
    assert!(
        ran.stderr
            .contains("gates     not disabled ✓ · available ✓ · enabled ✓ · command allowed ✓"),
        "{}",
        ran.all()
    );
    let requests = server.finish();
    let body = &requests[0].body;
    assert_eq!(body["messages"][0]["content"], "You review code.");
    assert_eq!(body["messages"][1]["content"], "look at src/ depth=2");
    let tools = body["tools"].as_array().unwrap();
    let names: Vec<_> = tools
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap())
        .collect();
    // Not `deploy`, which the specialist does not name.
    assert_eq!(names, ["read_file"]);
    let lines = project.read(".holodeck/telemetry.jsonl");
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let names: Vec<_> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        ["execution.routed", "execution.sdk_routed", "execution.completed"]
    );
    assert_eq!(lines[1]["payload"]["routing_decision"], "sdk_executed");
    assert_eq!(lines[2]["payload"]["termination_reason"], "single_iteration");
    assert!(
        lines
            .iter()
            .all(|line| line["session_id"] == lines[0]["session_id"])
    );
    let mode = fs::metadata(project.path(".holodeck/telemetry.jsonl"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    // The run is stored under the id that `-v` shows, with everything about it.
    let run_id = ran
        .stderr
        .lines()
        .find_map(|line| line.strip_prefix("run       "))
        .unwrap();
    let session = lines[0]["session_id"].as_str().unwrap();
    let events = project.run(&["events", "export", session]);
    assert!(
        events.stdout.contains(run_id) && events.stdout.contains("sdk_executed"),
        "{}",
        events.all()
    );
}

#[test]
fn json_is_the_result_and_the_attempt_only_with_explain() {
    let server = server(|| Reply::text("No bugs."));
    let project = project(&server.url(), "", "");
    let result = project.run(&with(&["--json"])).exits(0).json();
    assert_eq!(result["success"], true);
    assert_eq!(result["command_name"], "review");
    assert_eq!(result["output"]["output"], "No bugs.");
    assert_eq!(result["output"]["execution_mode"], "sdk");
    assert_eq!(result["agents_used"], json!(["reviewer"]));
    assert!(result["run_id"].is_string());
    assert_eq!(result.get("attempt"), None);
    let result = project.run(&with(&["--json", "--explain"])).exits(0).json();
    assert_eq!(result["attempt"]["attempt"]["routing_decision"], "sdk_executed");
    assert_eq!(
        result["attempt"]["gates"][0],
        json!({"gate": "not_disabled", "state": "passed"})
    );
    server.finish();
}

#[test]
fn a_dry_run_asks_nothing() {
    let server = server(|| Reply::text("x"));
    let project = project(&server.url(), "", "");
    let ran = project.run(&with(&["--dry-run"])).exits(0);
    for line in [
        "review → sdk_executed",
        "executor  sdk",
        "model     test-model",
        "tools     read_file",
        "estimate  ",
    ] {
        assert!(ran.stdout.contains(line), "{line}: {}", ran.all());
    }
    let ran = project
        .run(&["run", "--command", "other", "x", "--dry-run"])
        .exits(0);
    assert!(
        ran.stdout.contains("command_not_allowed") && ran.stdout.contains("executor  nothing"),
        "{}",
        ran.all()
    );
    assert!(server.finish().is_empty());
}

#[test]
fn every_gate_is_met_through_the_command_line() {
    let server = server(|| Reply::text("x"));
    let legacy = "  legacy: {command: [sh, -c, 'echo by legacy']}\n";
    let project = project(&server.url(), legacy, "");
    for (args, decision) in [
        (vec!["--disable-sdk"], "sdk_disabled_override"),
        (vec!["--disable-sdk", "--force-sdk"], "sdk_disabled_override"),
    ] {
        let ran = project.run(&with(&[&args[..], &["--explain"]].concat())).exits(0);
        assert_eq!(ran.stdout, "by legacy\n", "{}", ran.all());
        assert!(ran.stderr.contains(decision), "{}", ran.all());
    }
    let variables = |name: &str, value: &str, decision: &str| {
        let mut command = project.command(&with(&["--explain"]));
        let output = command.env(name, value).output().unwrap();
        let ran = crate::project::CommandOutput::of(&output).exits(0);
        assert_eq!(ran.stdout, "by legacy\n");
        assert!(ran.stderr.contains(decision), "{}", ran.all());
    };
    variables("HOLODECK_ROUTING_ENABLED", "0", "sdk_not_enabled");
    variables("HOLODECK_ROUTING_COMMANDS", "", "command_not_allowed");
    let ran = project
        .run(&["run", "--command", "deploy", "x", "--explain"])
        .exits(0);
    assert!(ran.stderr.contains("command_not_allowed"), "{}", ran.all());
    let ran = project
        .run(&["run", "--command", "notes", "zzz qqq", "--explain"])
        .exits(0);
    assert!(
        ran.stderr.contains("low_confidence") || ran.stderr.contains("selection_declined"),
        "{}",
        ran.all()
    );
    assert!(server.finish().is_empty());
}

#[test]
fn a_default_agent_executes_what_no_other_agent_fits_if_it_may() {
    for (routes, code) in [(true, 0), (false, 3)] {
        let server = server(|| Reply::text("By default."));
        let project = project(&server.url(), "", "");
        let agents = format!(
            "agents: {{directories: [{{path: agents}}], default_agent: helper, default_agent_routes: {routes}}}"
        );
        let yaml = project.read("agent.yaml");
        project.write(
            "agent.yaml",
            yaml.replace("agents: {directories: [{path: agents}]}", &agents),
        );
        project.write(
            "agents/helper.md",
            "---\nname: helper\ndescription: Answers everything else\n---\nYou help with everything.\n",
        );
        let ran = project
            .run(&["run", "--command", "notes", "zzz qqq", "--explain"])
            .exits(code);
        let requests = server.finish();
        if routes {
            assert_eq!(ran.stdout, "By default.\n");
            let prompt = &requests[0].body["messages"][0]["content"];
            assert_eq!(prompt, "You help with everything.");
        } else {
            assert!(ran.stderr.contains("low_confidence"), "{}", ran.all());
            assert!(requests.is_empty());
        }
    }
}

#[test]
fn an_error_falls_back_unless_something_may_have_changed() {
    // An error of the model's side.
    let failing = server(|| Reply::openai_error(400, "no", None, None));
    let legacy = "  legacy: {command: [sh, -c, 'echo by legacy']}\n";
    let project = project(&failing.url(), legacy, "");
    let ran = project.run(&with(&["--explain"])).exits(0);
    assert_eq!(ran.stdout, "by legacy\n");
    assert!(ran.stderr.contains("sdk_error_message"), "{}", ran.all());
    failing.finish();
    // The same after a call of a tool that may change something, and of one that only reads.
    for (tool, code) in [("deploy", 3), ("read_file", 0)] {
        let server = ModelServer::answering(move |request| {
            if request.messages().len() == 2 {
                Reply::tool_call("c1", tool, &json!({}))
            } else {
                Reply::openai_error(400, "no", None, None)
            }
        });
        let project = self::project(&server.url(), legacy, "");
        project.write(
            "agents/reviewer.md",
            REVIEWER.replace("[read_file]", "[read_file, deploy]"),
        );
        let ran = project.run(&with(&["--json"])).exits(code);
        let result = ran.json();
        if code == 3 {
            assert_eq!(result["output"]["error"], "fallback_blocked_side_effects");
            assert_eq!(
                result["output"]["evidence"]["tool_invocations"][0]["name"],
                "deploy"
            );
            assert!(ran.stderr.contains("after_side_effects: allow"), "{}", ran.all());
        } else {
            assert_eq!(result["output"]["output"], "by legacy");
        }
        server.finish();
        if code == 3 {
            let server = ModelServer::answering(move |request| {
                if request.messages().len() == 2 {
                    Reply::tool_call("c1", tool, &json!({}))
                } else {
                    Reply::openai_error(400, "no", None, None)
                }
            });
            let allow = format!("{legacy}  fallback: {{after_side_effects: allow}}\n");
            let project = self::project(&server.url(), &allow, "");
            project.write("agents/reviewer.md", REVIEWER.replace("[read_file]", "[deploy]"));
            let ran = project.run(&REVIEW).exits(0);
            assert_eq!(ran.stdout, "by legacy\n");
            server.finish();
        }
    }
}

#[test]
fn nothing_left_is_3_and_names_what_is_missing() {
    let server = server(|| Reply::text("x"));
    let project = project(&server.url(), "", "");
    let ran = project.run(&with(&["--disable-sdk"])).exits(3);
    assert_eq!(ran.stdout, "");
    for text in [
        "nothing executes the command `review`",
        "sdk_disabled_override",
        "`routing.skills`, `routing.legacy`",
    ] {
        assert!(ran.stderr.contains(text), "{text}: {}", ran.all());
    }
    let result = project.run(&with(&["--disable-sdk", "--json"])).exits(3).json();
    assert_eq!(
        (&result["success"], &result["status"]),
        (&json!(false), &json!("error"))
    );
    // Without `routing:` a command has no executor, either.
    project.write("agent.yaml", format!("name: a\nmodel: {{provider: openai, name: m, endpoint: {}, api_key: {SECRET}}}\ninstructions: {{inline: Hi}}\n", server.url()));
    let ran = project.run(&REVIEW).exits(3);
    assert!(ran.stderr.contains("sdk_not_enabled"), "{}", ran.all());
    project
        .run(&["run", "agent.yaml", "hi", "--explain"])
        .exits(2)
        .says("`--explain` has no effect");
    assert!(server.finish().is_empty());
}

#[test]
fn skills_execute_commands_and_are_tools() {
    let server = ModelServer::answering(|request| {
        let messages = request.messages().len();
        match messages {
            2 => Reply::tool_call("c1", "skill__notes", &json!({"arguments": ["x y"]})),
            _ => Reply::text("Done."),
        }
    });
    let routing = "  skills: {directory: skills}\n";
    let project = project(&server.url(), routing, "");
    let skill = "---\nname: notes\ndescription: Writes notes.\n---\nWrite them.\n";
    project.write("skills/notes/SKILL.md", skill);
    project.write("skills/notes/scripts/run.sh", "printf 'notes: %s' \"$1\"\n");
    project.write(
        "skills/broken/SKILL.md",
        "---\nname: Bad Name\ndescription: x\n---\n",
    );
    let ran = project
        .run(&["run", "--command", "notes", "a b", "--disable-sdk", "--json"])
        .exits(0);
    assert_eq!(ran.json()["output"]["output"], "notes: a b");
    assert_eq!(ran.json()["output"]["execution_mode"], "skills");
    assert_eq!(ran.json()["executed_operations"], json!(["skill__notes"]));
    assert!(ran.stderr.contains("skills/broken/SKILL.md:2:7"), "{}", ran.all());
    // The specialist may use it as a tool if it names it.
    project.write(
        "agents/reviewer.md",
        REVIEWER.replace("[read_file]", "[skill__notes]"),
    );
    let ran = project.run(&with(&["--json"])).exits(0);
    assert_eq!(
        ran.json()["executed_operations"],
        json!(["skill__notes"]),
        "{}",
        ran.all()
    );
    let requests = server.finish();
    let last = &requests.last().unwrap().body;
    assert_eq!(
        last["messages"].as_array().unwrap().last().unwrap()["content"],
        "notes: x y"
    );
    // A rule of `approvals:` holds for both.
    let server = self::server(|| Reply::text("x"));
    let rules = "approvals: {rules: [{tools: 'skill__*', decision: reject}]}\n";
    project.write("agent.yaml", agent(&server.url(), routing, rules));
    let ran = project
        .run(&["run", "--command", "notes", "a", "--disable-sdk"])
        .exits(1);
    assert!(ran.stderr.contains("rejects `skill__notes`"), "{}", ran.all());
    assert!(server.finish().is_empty());
}

#[test]
fn legacy_backends_and_agents_answer() {
    let other = server(|| Reply::text("by another model"));
    let down = server(|| Reply::openai_error(400, "no", None, None));
    let legacy = format!(
        "  legacy: {{backend: {{provider: openai, name: other-model, endpoint: {}, api_key: {SECRET}}}}}\n",
        other.url()
    );
    let project = project(&down.url(), &legacy, "");
    let ran = project.run(&with(&["--json"])).exits(0);
    assert_eq!(ran.json()["output"]["output"], "by another model");
    assert_eq!(ran.json()["output"]["execution_mode"], "legacy");
    assert_eq!(ran.json()["agents_used"], json!(["other-model"]));
    let requests = other.requests();
    let body = &requests[0].body;
    assert_eq!(
        (&body["model"], &body["messages"][0]["content"]),
        (&json!("other-model"), &json!("Help."))
    );
    // Another agent file.
    project.write(
        "agent.yaml",
        agent(&down.url(), "  legacy: {agent: helper.yaml}\n", ""),
    );
    project.write(
        "helper.yaml",
        format!(
            "name: helper\nmodel: {{provider: openai, name: m, endpoint: {}, api_key: {SECRET}}}\ninstructions: {{inline: Assist.}}\n",
            other.url()
        ),
    );
    let ran = project.run(&with(&["--json"])).exits(0);
    assert_eq!(ran.json()["output"]["output"], "by another model");
    assert_eq!(ran.json()["agents_used"], json!(["helper"]));
    // An agent that delegates to itself, and a chain that is too long.
    project.write(
        "agent.yaml",
        agent(&down.url(), "  legacy: {agent: agent.yaml}\n", ""),
    );
    project
        .run(&REVIEW)
        .exits(2)
        .says("`agent.yaml` delegates to itself");
    project.run(&["validate"]).exits(2).says("delegates to itself");
    project.write(
        "agent.yaml",
        agent(&down.url(), "  legacy: {agent: ./helpers/one.yaml}\n", ""),
    );
    project.write(
        "helpers/one.yaml",
        agent(&down.url(), "  legacy: {agent: ../agent.yaml}\n", "")
            .replace("path: agents", "path: ../agents"),
    );
    for args in [&REVIEW[..], &["validate"]] {
        project
            .run(args)
            .exits(2)
            .says("`agent.yaml` delegates to itself by way of `one.yaml`");
    }
    project.write(
        "agent.yaml",
        agent(&down.url(), "  legacy: {agent: a1.yaml}\n", ""),
    );
    for number in 1..8 {
        let next = format!("  legacy: {{agent: a{}.yaml}}\n", number + 1);
        project.write(&format!("a{number}.yaml"), agent(&down.url(), &next, ""));
    }
    project
        .run(&REVIEW)
        .exits(3)
        .says("more than 5 agents delegate to each other");
    other.finish();
    down.finish();
}

#[test]
fn a_cut_answer_is_marked_whatever_executed_the_command() {
    let cut = server(|| Reply::text("The refund policy allows").finish_reason("model_length"));
    let whole = server(|| Reply::text("The refund policy allows nothing."));
    let down = server(|| Reply::openai_error(400, "no", None, None));
    let skill = "---\nname: notes\ndescription: Writes notes.\n---\nWrite them.\n";
    let legacy = |url: &str| {
        format!(
            "  legacy: {{backend: {{provider: openai, name: other, endpoint: {url}, api_key: {SECRET}}}}}\n"
        )
    };
    let notes = ["run", "--command", "notes", "a", "--disable-sdk"];
    for (answers, is_cut) in [(&cut, true), (&whole, false)] {
        for (yaml, args, mode) in [
            (agent(&answers.url(), "", ""), &REVIEW[..], "sdk"),
            (
                agent(&down.url(), &legacy(&answers.url()), ""),
                &REVIEW[..],
                "legacy",
            ),
            (
                agent(&answers.url(), "  skills: {directory: skills}\n", ""),
                &notes[..],
                "skills",
            ),
        ] {
            let project = Project::with(&yaml);
            project.write("agents/reviewer.md", REVIEWER);
            project.write("skills/notes/SKILL.md", skill);
            let text = project.run(args).exits(0);
            let note = "note: answer truncated: finish_reason `model_length`\n";
            assert_eq!(text.stderr.contains(note), is_cut, "{mode}: {text:?}");
            assert_eq!(text.stderr.contains("truncated"), is_cut, "{mode}: {text:?}");
            let result = project.run(&[args, &["--json"]].concat()).exits(0).json();
            let output = &result["output"];
            assert_eq!(output["execution_mode"], mode, "{result}");
            assert_eq!(
                output.get("truncated"),
                is_cut.then_some(&json!(true)),
                "{result}"
            );
            let reason = json!("model_length");
            assert_eq!(output.get("truncated_by"), is_cut.then_some(&reason), "{result}");
        }
    }
    cut.finish();
    whole.finish();
    down.finish();
}

#[test]
fn missing_evidence_fails_and_the_answer_is_shown() {
    let server = server(|| Reply::text("Looks fine."));
    let project = project(&server.url(), "", "");
    let ran = project.run(&with(&["--requires-evidence"])).exits(1);
    assert_eq!(ran.stdout, "Looks fine.\n");
    assert!(ran.stderr.contains("NO_EXECUTION_EVIDENCE"), "{}", ran.all());
    let ran = project
        .run(&with(&["--expects-tests", "--json", "--explain"]))
        .exits(0);
    assert!(
        ran.json()["attempt"]["attempt"]["evidence"]["issues"][0]
            .as_str()
            .unwrap()
            .starts_with("NO_TESTS_RUN")
    );
    server.finish();
}

#[test]
fn reserved_fields_and_malformed_flags_are_2() {
    let server = server(|| Reply::text("x"));
    let project = project(&server.url(), "", "");
    for name in ["resume_session", "mcp_servers"] {
        let parameter = format!("{name}=1");
        project
            .run(&with(&["--param", &parameter]))
            .exits(2)
            .says("is reserved");
        project.run(&with(&["--flag", name])).exits(2).says("is reserved");
    }
    project
        .run(&with(&["--param", "x"]))
        .exits(2)
        .says("expected KEY=VALUE");
    project.run(&with(&["--flag", "x=perhaps"])).exits(2);
    assert!(server.finish().is_empty());
}

#[test]
fn secrets_are_masked_in_telemetry_evidence_and_explanations() {
    let server = ModelServer::answering(|request| {
        if request.messages().len() == 2 {
            Reply::tool_call("c1", "deploy", &json!({"key": SECRET}))
        } else {
            Reply::text(format!("the key is {SECRET}"))
        }
    });
    let project = project(&server.url(), "", "telemetry: {jsonl: t.jsonl}\n");
    project.write("agents/reviewer.md", REVIEWER.replace("[read_file]", "[deploy]"));
    let ran = project
        .run(&with(&["--explain", "--json", "--param", &format!("p={SECRET}")]))
        .exits(0);
    assert!(!ran.all().contains(SECRET), "{}", ran.all());
    assert!(!project.read("t.jsonl").contains(SECRET));
    let stored = fs::read(project.path(".holodeck/events.db")).unwrap();
    let wal = fs::read(project.path(".holodeck/events.db-wal")).unwrap_or_default();
    for bytes in [stored, wal] {
        assert!(
            !bytes
                .windows(SECRET.len())
                .any(|window| window == SECRET.as_bytes())
        );
    }
    server.finish();
}

#[test]
fn a_stopped_command_is_130_and_completed() {
    let server = server(|| Reply::text("half an answer").in_pieces(4).hang_after(3));
    let project = project(
        &server.url(),
        "  legacy: {command: [sh, -c, 'echo by legacy']}\n",
        "telemetry: {jsonl: t.jsonl}\n",
    );
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let mut child = project
            .command(&REVIEW)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        while server.open() == 0 {
            std::thread::yield_now();
        }
        let killed = Command::new("kill")
            .args([signal, &child.id().to_string()])
            .status()
            .unwrap();
        assert!(killed.success());
        let mut stdout = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_to_string(&mut stdout)
            .unwrap();
        let stderr: Vec<String> = BufReader::new(child.stderr.take().unwrap())
            .lines()
            .map(Result::unwrap)
            .collect();
        assert_eq!(child.wait().unwrap().code(), Some(code), "{stderr:?}");
        // Nothing else executes what a person stopped.
        assert_eq!(stdout, "");
        while server.open() > 0 {
            std::thread::yield_now();
        }
    }
    let lines = project.read("t.jsonl");
    let completed = lines
        .lines()
        .filter(|line| line.contains("execution.completed"))
        .count();
    assert_eq!(completed, 2, "{lines}");
    assert!(lines.contains("\"termination_reason\":\"cancelled\""), "{lines}");
    server.finish_unchecked();
}

fn looped(url: &str, more: &str) -> String {
    format!(
        "name: looped\nmodel: {{provider: openai, name: test-model, endpoint: {url}, api_key: {SECRET}}}\n\
         instructions: {{inline: Help.}}\nquality_loop:\n  max_iterations: 2\n{more}"
    )
}

#[test]
fn a_loop_without_routing_prints_its_answer_whatever_its_end() {
    let server = server(|| Reply::text("An answer."));
    let project = Project::with(&looped(
        &server.url(),
        "  scorer: {signals: {build: ./build.sh}}\n",
    ));
    project.write("build.sh", "#!/bin/sh\nexit 1\n");
    let script = project.path("build.sh");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let ran = project.run(&["run", "hello", "--explain"]).exits(1);
    assert_eq!(ran.stdout, "An answer.\n");
    assert!(
        ran.stderr
            .contains("routing   run → sdk_executed (agent `looped`"),
        "{}",
        ran.all()
    );
    assert!(ran.stderr.contains("loop      "), "{}", ran.all());
    assert!(ran.stderr.contains("below the threshold"), "{}", ran.all());
    let result = project
        .run(&["run", "hello", "--json", "--explain", "--threshold", "0"])
        .exits(0)
        .json();
    assert_eq!(result["success"], true);
    assert_eq!(
        result["attempt"]["attempt"]["termination_reason"],
        "threshold_met"
    );
    assert_eq!(result["attempt"]["loop"]["iteration_count"], 1);
    // The program of the signal is gone: nothing can be scored, and nothing else answers.
    fs::remove_file(script).unwrap();
    let ran = project.run(&["run", "hello"]).exits(4);
    assert_eq!(ran.stdout, "An answer.\n");
    assert!(ran.stderr.contains("could not be scored"), "{}", ran.all());
    server.finish();
}

#[test]
fn without_routing_an_error_is_that_of_the_endpoint() {
    let server = server(|| Reply::openai_error(400, "no such thing", None, None));
    let project = Project::with(&looped(
        &server.url(),
        "  scorer: {signals: {build: ./build.sh}}\n",
    ));
    let ran = project.run(&["run", "hello"]).exits(3);
    assert!(ran.stderr.starts_with("error: "), "{}", ran.all());
    assert_eq!(ran.stderr.matches("no such thing").count(), 1, "{}", ran.all());
    assert!(!ran.stderr.contains("routing"), "{}", ran.all());
    server.finish();
}

#[test]
fn an_answer_that_cannot_be_scored_falls_back() {
    let server = server(|| Reply::text("An answer."));
    let more = "  scorer: {signals: {build: ./gone.sh}}\n";
    let routing = "  legacy: {command: [sh, -c, 'echo by legacy']}\n";
    let project = project(&server.url(), routing, &format!("quality_loop:\n{more}"));
    let ran = project.run(&with(&["--json", "--explain"])).exits(0);
    assert_eq!(ran.json()["output"]["output"], "by legacy", "{}", ran.all());
    assert_eq!(
        ran.json()["attempt"]["attempt"]["termination_reason"],
        "scorer_error"
    );
    server.finish();
}

#[test]
fn commands_are_spans() {
    let server = server(|| Reply::text("No bugs."));
    let observability = "observability: {enabled: true, exporters: {console: {enabled: true}}}\n";
    let project = project(&server.url(), "", observability);
    let ran = project.run(&REVIEW).exits(0);
    for text in [
        "execution.routed",
        "execution.sdk_routed",
        "execution.completed",
        "holodeck.routing_decision",
        "invoke_agent",
    ] {
        assert!(ran.stderr.contains(text), "{text}: {}", ran.all());
    }
    assert_eq!(ran.stdout, "No bugs.\n");
    server.finish();
}

#[test]
fn a_yaml_file_that_is_no_agent_is_an_argument() {
    let server = server(|| Reply::text("No bugs."));
    let project = project(&server.url(), "", "");
    for (name, text) in [
        ("docker-compose.yml", "services:\n  web: {image: nginx}\n"),
        ("ci.yaml", "name: ci\non: [push]\njobs: {}\n"),
        ("list.yaml", "- one\n- two\n"),
    ] {
        project.write(name, text);
        let ran = project
            .run(&["run", "--command", "review", "look at", name])
            .exits(0);
        assert_eq!(ran.stdout, "No bugs.\n");
        let ran = project
            .run(&["run", "--command", "review", name, "look at"])
            .exits(0);
        assert_eq!(ran.stdout, "No bugs.\n");
        let last = server.requests().last().unwrap().body.clone();
        assert_eq!(last["messages"][1]["content"], format!("{name} look at"));
    }
    // A misspelt or broken agent is not an argument.
    project
        .run(&["run", "--command", "review", "agnet.yaml", "look at"])
        .exits(2)
        .says("agnet.yaml");
    project.write("other.yaml", "name: other\nmodel: {provider: nobody}\n");
    project
        .run(&["run", "--command", "review", "other.yaml", "look at"])
        .exits(2)
        .says("other.yaml");
    server.finish();
}
