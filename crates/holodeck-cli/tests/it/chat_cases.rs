//! Conversations and test cases: `/save-as-test`, and `chat --from`.

use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{
    project::{Project, SECRET, TWO_CASES, agent},
    terminal::OnTerminal,
};

/// A server that calls `echo` for a message with `look`, and else repeats the last text.
fn server() -> ModelServer {
    ModelServer::answering(|request| {
        let messages = request.messages();
        let last = &messages[messages.len() - 1];
        let text = last["content"].as_str().unwrap();
        if last["role"] == "user" && text.contains("look") {
            return Reply::tool_call("call-1", "echo", &json!({"text": "tea"}));
        }
        let texts = request.conversation_texts();
        Reply::text(format!("{} after {}.", text.trim(), texts.len() - 1))
    })
}

fn yaml(server: &ModelServer, cases: &str) -> String {
    format!(
        "# Kept.\n{}tools:\n  - {{type: function, name: echo, description: Echoes., command: cat, parameters: \
         {{text: {{type: string, description: What.}}}}}}\n",
        agent(&server.url(), cases)
    )
}

#[test]
fn a_conversation_is_saved_as_a_test_that_runs() {
    let server = server();
    let project = Project::with(&yaml(&server, "  - {name: first, input: hi} # stays\n"));
    project.write(".env", format!("OPENAI_API_KEY={SECRET}\n"));
    let mut terminal = OnTerminal::start(&project, &["chat"]);
    terminal.until("you › ");
    terminal.types("/save-as-test\r");
    terminal.until("no message of this conversation was answered yet");
    terminal.types("have a look\r");
    terminal.until("tea");
    terminal.until("tokens");
    terminal.types(&format!("is ${{HOME}} or {SECRET} right?\r"));
    terminal.until(" after ");
    terminal.until("tokens");
    terminal.types("/save-as-test tea and secrets\r");
    terminal.until("saved as test case `tea and secrets` in agent.yaml, with 2 turns");
    terminal.until("turn 1 expects `echo`");
    terminal.until("turn 2 checks nothing yet");
    terminal.until("masked");
    terminal.until("`contains` needs a `ground_truth` in each turn");
    terminal.types("/save-as-test tea and secrets\r");
    terminal.until("there is a test case `tea and secrets` already");
    terminal.types("/save-as-test\r");
    terminal.until("saved as test case `have a look` in agent.yaml");
    terminal.types("/quit\r");
    let (code, shown) = terminal.ends();
    assert_eq!(code, Some(0), "{shown}");
    let edited = project.read("agent.yaml");
    assert!(!edited.contains(SECRET), "{edited}");
    let expected = "# Kept.\n";
    assert!(
        edited.starts_with(expected) && edited.contains("- {name: first, input: hi} # stays\n"),
        "{edited}"
    );
    let case = "  - name: tea and secrets\n    turns:\n      - input: have a look\n        expected_tools: [echo]\n      \
                - input: \"is $${HOME} or *** right?\"\n";
    assert!(edited.contains(case), "{edited}");
    project.run(&["validate"]).exits(0);
    // The conversation is asked again, word by word. The metric of the agent cannot judge it yet.
    project
        .run(&["test", "--filter", "tea and secrets"])
        .exits(4)
        .says("`contains` needs a `ground_truth`");
    let run = project.run_file();
    let turns = &run["report"]["results"][0]["turns"];
    assert_eq!(turns[1]["input"], "is ${HOME} or *** right?");
    server.finish();
}

const CASES: &str = "  - name: order 7\n    turns:\n      - {input: have a look, expected_tools: [echo]}\n      \
                     - {input: and then?, ground_truth: never}\n  - {name: fine, input: hi, ground_truth: hi}\n  \
                     - {input: unnamed, ground_truth: unnamed}\n";

/// A run of [`CASES`] whose first case failed.
fn tested(server: &ModelServer) -> Project {
    let project = Project::with(&yaml(server, CASES));
    project.run(&["test"]).exits(1);
    project
}

#[test]
fn a_failed_case_is_continued() {
    let server = server();
    let project = tested(&server);
    // The model sees both turns with the call and its result.
    let ran = project
        .run(&["chat", "--from", "latest:order 7", "--once", "why?", "--save"])
        .exits(0);
    assert_eq!(ran.stdout, "why? after 4.\n");
    assert!(
        ran.stderr.contains("continuing `order 7` of run ")
            && ran.stderr.contains(": failed")
            && ran.stderr.contains("turn 2: contains"),
        "{}",
        ran.all()
    );
    assert!(!ran.stderr.contains("has changed"), "{}", ran.all());
    project.run(&["events", "check", "last"]).exits(0);
    let exported = project.run(&["events", "export", "last"]).exits(0).stdout;
    let kinds: Vec<String> = exported
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["type"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .filter(|kind| !kind.ends_with("_chunk"))
        .collect();
    assert_eq!(
        kinds,
        [
            "session_start",
            "user_message_confirmed",
            "tool_use",
            "tool_result",
            "message",
            "complete",
            "user_message_confirmed",
            "message",
            "complete",
            "user_message_confirmed",
            "message",
            "complete",
        ]
    );
    let requests = server.finish();
    let last = requests.last().unwrap().messages();
    let roles: Vec<_> = last
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(
        roles,
        [
            "system",
            "user",
            "assistant",
            "tool",
            "assistant",
            "user",
            "assistant",
            "user"
        ]
    );
    assert_eq!(last[3]["content"], "{\"text\":\"tea\"}");
}

#[test]
fn a_case_is_found_in_every_way_and_what_is_not_found_is_explained() {
    let server = server();
    let project = tested(&server);
    let journal = project.journals().pop().unwrap();
    let id = journal.file_stem().unwrap().to_str().unwrap().to_owned();
    let relative = format!(".holodeck/runs/{id}.jsonl");
    let report = project.run_file();
    project.write("a:b.json", report.to_string());
    for run in [&id, &id[..12], "latest", &relative, "a:b.json"] {
        for (case, shown) in [
            ("fine", "`fine`"),
            ("FINE", "`fine`"),
            ("#2", "`fine`"),
            ("#3", "`#3`"),
        ] {
            let from = format!("{run}:{case}");
            let ran = project
                .run(&["chat", "--from", &from, "--once", "go on"])
                .exits(0);
            assert_eq!(ran.stdout, "go on after 2.\n");
            assert!(
                ran.stderr
                    .contains(&format!("continuing {shown} of run {id}: passed")),
                "{}",
                ran.all()
            );
        }
    }
    for (from, message) in [
        ("latest", "`latest` does not name a case of a run"),
        ("latest:", "`latest:` does not name a case of a run"),
        ("1999:fine", "there is no run `1999`"),
        ("latest:fien", "did you mean `fine`?"),
        ("latest:else", "it has `order 7`, "),
        ("agent.yaml:fine", "`agent.yaml` is not a run"),
    ] {
        let ran = project.run(&["chat", "--from", from, "--once", "go on"]).exits(2);
        assert!(ran.stderr.contains(message), "{}", ran.all());
    }
    // The agent is another one now.
    let changed = project
        .read("agent.yaml")
        .replace("Answer briefly.", "Answer at length.");
    project.write("agent.yaml", changed);
    project
        .run(&["chat", "--from", "latest:fine", "--once", "go on"])
        .exits(0)
        .says("the agent has changed since the run: instructions");
    let changed = project.read("agent.yaml").replace("name: support", "name: other");
    project.write("agent.yaml", changed);
    project
        .run(&["chat", "--from", "latest:fine", "--once", "go on"])
        .exits(2)
        .says("there is no run of `other`");
    project
        .run(&["chat", "--from", &format!("{relative}:fine"), "--once", "go on"])
        .exits(0)
        .says("the run is of agent `support`, and this is `other`");
    server.finish();
}

#[test]
fn cases_of_one_name_are_told_apart_and_what_did_not_run_is_no_conversation() {
    let server = server();
    let two =
        "  - {name: same, input: one, ground_truth: one}\n  - {name: same, input: two, ground_truth: two}\n";
    let project = Project::with(&yaml(&server, two));
    project.run(&["test"]).exits(0);
    let ran = project
        .run(&["chat", "--from", "latest:same", "--once", "go on"])
        .exits(2);
    assert!(
        ran.stderr.contains("has 2 cases `same`") && ran.stderr.contains("name one by its place: `#1`, `#2`"),
        "{}",
        ran.all()
    );
    project
        .run(&["chat", "--from", "latest:#2", "--once", "go on"])
        .exits(0)
        .says("go on after 2.");
    server.finish();

    // The endpoint failed before any answer: the message can be asked again.
    let failing = ModelServer::answering(|_| Reply::openai_error(400, "no such thing", None, None));
    let project = Project::with(&yaml(&failing, TWO_CASES));
    project.run(&["test"]).exits(3);
    failing.finish();
    let server = self::server();
    project.write("agent.yaml", yaml(&server, TWO_CASES));
    let mut terminal = OnTerminal::start(&project, &["chat", "--from", "latest:#1"]);
    terminal.until("of run ");
    terminal.until("no such thing");
    terminal.until("the agent has changed since the run: model.endpoint");
    terminal.until("you › ");
    terminal.types("/retry\r");
    terminal.until(" after 0.");
    terminal.until("you › ");
    terminal.types("/quit\r");
    assert_eq!(terminal.ends().0, Some(0));
    server.finish();
}
