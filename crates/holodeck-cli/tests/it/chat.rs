//! Tests of conversations with `holodeck chat`: in a pipe, on a terminal, with approvals, and stopped.

use std::{io::Write as _, process::Stdio};

use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::{
    interrupt::signal,
    project::{CommandOutput, Project, SECRET, TWO_CASES, agent, correct_server},
    terminal::OnTerminal,
};

/// A server that answers with the number of messages it got.
fn counting_server() -> ModelServer {
    ModelServer::answering(|request| {
        let texts = request.conversation_texts();
        Reply::text(format!("{} after {}.", texts.last().unwrap(), texts.len() - 1))
    })
}

/// A server that calls `echo` once, then repeats what it said.
fn calling_server() -> ModelServer {
    ModelServer::answering(|request| match request.texts("tool").last() {
        None => Reply::tool_call("call-1", "echo", &json!({"text": "tea"})),
        Some(result) => Reply::text(format!("It said {result}.")),
    })
}

/// An agent that may call `echo` if a person approves it.
fn asking_agent(server: &ModelServer) -> String {
    format!(
        "{}tools:\n  - {{type: function, name: echo, description: Echoes., command: cat, parameters: \
         {{text: {{type: string, description: What.}}}}}}\napprovals:\n  rules:\n    - {{tools: \
         '*', approver: human}}\n",
        agent(&server.url(), TWO_CASES)
    )
}

pub(crate) fn piped(project: &Project, args: &[&str], input: &str) -> CommandOutput {
    let mut child = project
        .command(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    CommandOutput::of(&child.wait_with_output().unwrap())
}

#[test]
fn one_question() {
    let server = correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let ran = project
        .run(&["chat", "--once", "The capital of France?"])
        .exits(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("Paris.\n", ""));
    // It stores nothing.
    assert!(!project.path(".holodeck/events.db").exists());
    let ran = piped(&project, &["chat", "--once", "-"], "The capital\nof France?\n").exits(0);
    assert_eq!(ran.stdout, "Paris.\n");
    let result = project
        .run(&["chat", "--once", "7 + 5?", "--json"])
        .exits(0)
        .json();
    assert_eq!(
        (&result["response"], &result["success"]),
        (&json!("It is 12."), &json!(true))
    );
    project
        .run(&["chat", "--once", " "])
        .exits(2)
        .says("the message is empty");
    server.finish();
}

#[test]
fn each_line_of_a_pipe_is_a_message_and_the_conversation_goes_on_later() {
    let server = counting_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let ran = piped(&project, &["chat", "--session", "s-1"], "one\n\n  two\n").exits(0);
    // The agent's instructions are no part of the conversation.
    assert_eq!(ran.stdout, "one after 0.\ntwo after 2.\n");
    assert_eq!(ran.stderr, "continue with `holodeck chat --session s-1`\n");
    let ran = piped(&project, &["chat", "--resume"], "three\nexit\nfour\n").exits(0);
    assert_eq!(ran.stdout, "three after 4.\n");
    let ran = project
        .run(&["chat", "--session", "s-1", "--once", "five"])
        .exits(0);
    assert_eq!(ran.stdout, "five after 6.\n");
    server.finish();
}

#[test]
fn there_must_be_something_to_resume() {
    let server = correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    project
        .run(&["chat", "--resume"])
        .exits(2)
        .says("there is no conversation with `support` to resume");
    project
        .run(&["chat", "--session", "../s", "--once", "one"])
        .exits(2)
        .says("a session id has 1 to 128 letters");
    assert_eq!(server.finish().len(), 0);
}

#[test]
fn a_failed_answer_is_an_exit_code() {
    let server = ModelServer::answering(|request| match request.texts("user").last() {
        Some(&"fail") => Reply::openai_error(400, "no such thing", None, None),
        _ => Reply::text("fine"),
    });
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let ran = project.run(&["chat", "--once", "fail"]).exits(3);
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.contains("no such thing"), "{}", ran.all());
    // The conversation continues, and its end reports the failure.
    let ran = piped(&project, &["chat"], "fail\ngo on\n").exits(3);
    assert_eq!(ran.stdout, "fine\n");
    server.finish();
}

#[test]
fn nothing_that_is_stored_has_a_secret() {
    let server = ModelServer::answering(|_| Reply::text(format!("It is {SECRET}.")).in_pieces(7));
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    project.write(".env", format!("OPENAI_API_KEY={SECRET}\n"));
    let ran = piped(&project, &["chat"], &format!("my key is {SECRET}\n")).exits(0);
    assert!(
        !ran.all().contains(SECRET) && ran.stdout.starts_with("It is "),
        "{}",
        ran.all()
    );
    for file in std::fs::read_dir(project.path(".holodeck")).unwrap() {
        let path = file.unwrap().path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            assert!(
                !String::from_utf8_lossy(&bytes).contains(SECRET),
                "{}",
                path.display()
            );
        }
    }
    server.finish();
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_read_conversations() {
    use std::os::unix::fs::PermissionsExt as _;
    let server = correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    piped(&project, &["chat"], "7 + 5?\n").exits(0);
    let mode = std::fs::metadata(project.path(".holodeck/events.db"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    server.finish();
}

#[tokio::test]
async fn an_interrupt_keeps_the_text_and_the_conversation() {
    let server = ModelServer::answering(|request| match request.texts("user").last() {
        Some(&"long") => Reply::text("a long answer, and more of it")
            .in_pieces(6)
            .hang_after(4),
        _ => Reply::text(request.conversation_texts().join(" | ")),
    });
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let mut child = project
        .command(&["chat", "--session", "s", "--once", "long"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    server.until_open(1).await;
    // The text that arrived is shown before the signal.
    let mut begin = [0; 6];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut begin).unwrap();
    signal(&child, "-INT");
    let ran = CommandOutput::of(&child.wait_with_output().unwrap()).exits(130);
    assert!(ran.stderr.contains("stopped"), "{}", ran.all());
    let ran = project
        .run(&["chat", "--session", "s", "--once", "go on"])
        .exits(0);
    assert!(ran.stdout.starts_with("long | a long"), "{}", ran.all());
    server.finish();
}

#[test]
fn a_conversation_on_a_terminal() {
    let server = counting_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let mut terminal = OnTerminal::start(&project, &["chat"]);
    terminal.until("support · openai test-model");
    terminal.until("/help for commands");
    terminal.until("you › ");
    terminal.types("hello\r");
    terminal.until("hello after 0.");
    terminal.until("tokens");
    terminal.types("a second line\\\rgoes here\r");
    terminal.until("goes here after 2.");
    terminal.types("/histroy\r");
    terminal.until("did you mean `/history`?");
    terminal.types("/retry\r");
    terminal.until("a copy of");
    terminal.types("/export talk.md\r");
    terminal.until("written to talk.md");
    terminal.types("/quit\r");
    let (code, shown) = terminal.ends();
    assert_eq!(code, Some(0), "{shown}");
    assert!(
        shown.contains("continue with `holodeck chat --session "),
        "{shown}"
    );
    let exported = project.read("talk.md");
    let expected = "# support\n\n**You:** hello\n\nhello after 0.\n\n**You:** a second line\ngoes here\n\n\
                    a second line\ngoes here after 2.\n\n";
    assert_eq!(exported, expected);
    server.finish();
}

#[test]
fn a_terminal_shows_for_how_long_a_model_that_is_asked_again_is_silent() {
    use std::sync::atomic::{AtomicUsize, Ordering};

    let asked = AtomicUsize::new(0);
    let server = ModelServer::answering(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::openai_error(503, "overloaded", None, None).retry_after(3),
        _ => Reply::text("I am back."),
    });
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let mut terminal = OnTerminal::start(&project, &["chat"]);
    terminal.until("you › ");
    terminal.types("hello\r");
    terminal.until("waiting for ");
    terminal.until("I am back.");
    terminal.types("/quit\r");
    assert_eq!(terminal.ends().0, Some(0));
    assert_eq!(server.finish().len(), 2);
}

#[test]
fn a_conversation_that_is_resumed_on_a_terminal_is_shown_before_it_continues() {
    let server = counting_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    piped(&project, &["chat"], "first of all\nand then\n").exits(0);
    let mut terminal = OnTerminal::start(&project, &["chat", "--resume"]);
    for shown in [
        "continuing after 2 messages",
        "first of all",
        "first of all after 0.",
        "and then",
        "and then after 2.",
        "you › ",
    ] {
        terminal.until(shown);
    }
    terminal.types("third\r");
    terminal.until("third after 4.");
    terminal.types("/quit\r");
    assert_eq!(terminal.ends().0, Some(0));
    // In a pipe, only what is answered now is written.
    let ran = piped(&project, &["chat", "--resume"], "fourth\n").exits(0);
    assert_eq!(ran.stdout, "fourth after 6.\n");
    server.finish();
}

#[test]
fn a_person_is_asked_about_a_call() {
    let server = calling_server();
    let project = Project::with(&asking_agent(&server));
    let mut terminal = OnTerminal::start(&project, &["chat"]);
    terminal.until("you › ");
    terminal.types("go\r");
    terminal.until("allow?");
    terminal.types("what\r");
    terminal.until("allow?");
    terminal.types("y\r");
    terminal.until("It said");
    terminal.until("tea");
    terminal.types("/quit\r");
    assert_eq!(terminal.ends().0, Some(0));
    // Nobody can be asked in a pipe.
    let ran = piped(&project, &["chat"], "go\n").exits(0);
    assert!(ran.stdout.contains("no person"), "{}", ran.all());
    server.finish();
}

/// Every scope, an edit, and the end of the answer.
#[test]
fn a_person_decides_for_this_call_for_the_conversation_or_for_ever() {
    let server = ModelServer::answering(|request| {
        let messages = request.messages();
        let last = &messages[messages.len() - 1];
        match last["role"].as_str() {
            Some("user") => {
                Reply::tool_call(&format!("c{}", messages.len()), "echo", &json!({"text": "tea"}))
            }
            _ => Reply::text(format!("It said {}.", last["content"].as_str().unwrap())),
        }
    });
    let project = Project::with(&asking_agent(&server));
    let mut terminal = OnTerminal::start(&project, &["chat"]);
    // Answers that are typed before their prompt wait for it.
    let round = |terminal: &mut OnTerminal, answers: &[&str], end: &str| {
        terminal.types("go\r");
        for answer in answers {
            terminal.until("allow?");
            terminal.types(answer);
        }
        terminal.until(end);
        terminal.until("tokens");
        terminal.shown.clear();
        terminal.until("you › ");
        terminal.shown.clear();
    };
    terminal.until("you › ");
    terminal.shown.clear();
    round(&mut terminal, &["?\r", "n too early\r"], "It said too early.");
    round(&mut terminal, &["e\r", "\u{15}{\"text\": \"milk\"}\r"], "It said");
    round(&mut terminal, &["e\r", "\u{15}{\"text\": 7}\r", "y\r"], "It said");
    round(&mut terminal, &["t enough\r"], "terminated by approval: enough");
    round(&mut terminal, &["a\r"], "It said");
    // The tool is approved until the conversation ends.
    round(&mut terminal, &[], "It said");
    terminal.types("/clear\r");
    terminal.until("a new conversation");
    terminal.until("you › ");
    terminal.shown.clear();
    round(&mut terminal, &["A\r"], "It said");
    terminal.types("/quit\r");
    assert_eq!(terminal.ends().0, Some(0));
    // The next conversation does not ask.
    let mut terminal = OnTerminal::start(&project, &["chat"]);
    terminal.until("you › ");
    terminal.shown.clear();
    round(&mut terminal, &[], "It said");
    terminal.types("/quit\r");
    assert_eq!(terminal.ends().0, Some(0));
    let decided = project.run(&["events", "export", "last"]).exits(0).stdout;
    assert!(!decided.contains("approval_requested"), "{decided}");
    for session in project
        .run(&["sessions", "list", "--json"])
        .exits(0)
        .json()
        .as_array()
        .unwrap()
    {
        project
            .run(&["events", "check", session["sessionId"].as_str().unwrap()])
            .exits(0);
    }
    server.finish();
}

/// The person answers from another terminal.
#[test]
fn a_question_is_answered_elsewhere() {
    let server = calling_server();
    let project = Project::with(&asking_agent(&server));
    project
        .run(&["approvals", "list"])
        .exits(0)
        .says("no question waits");
    project
        .run(&["approvals", "approve", "x"])
        .exits(2)
        .says("there are no conversations");
    let mut terminal = OnTerminal::start(&project, &["chat"]);
    terminal.until("you › ");
    terminal.types("go\r");
    terminal.until("allow?");
    let waiting = project.run(&["approvals", "list", "--json"]).exits(0).json();
    assert_eq!(
        (&waiting[0]["toolName"], &waiting[0]["args"]),
        (&json!("echo"), &json!({"text": "tea"}))
    );
    let id = waiting[0]["approvalId"].as_str().unwrap();
    project
        .run(&["approvals", "reject", id, "--reason", "not now"])
        .exits(0)
        .says("answered");
    project
        .run(&["approvals", "approve", id])
        .exits(1)
        .says("was already resolved: rejected");
    project
        .run(&["approvals", "approve", "x"])
        .exits(2)
        .says("approval `x` does not exist");
    // What is typed here comes too late.
    terminal.until("no longer asked: rejected; Enter continues");
    terminal.types("y\r");
    terminal.until("was already resolved: rejected");
    terminal.until("It said not now.");
    terminal.shown.clear();
    terminal.until("you › ");
    terminal.types("/quit\r");
    assert_eq!(terminal.ends().0, Some(0));
    server.finish();
}

#[test]
fn an_answer_is_stopped_on_a_terminal_and_the_conversation_goes_on() {
    let server = ModelServer::answering(|request| match request.texts("user").last() {
        Some(&"wait") => Reply::text("a long answer, and more of it")
            .in_pieces(6)
            .hang_after(4),
        _ => Reply::text("still here"),
    });
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let mut terminal = OnTerminal::start(&project, &["chat"]);
    terminal.until("you › ");
    // Three interrupts in a row would end the program: those of answers that are over do not count.
    for _ in 0..4 {
        terminal.shown.clear();
        terminal.types("wait\r");
        // The key is a signal only while an answer is awaited.
        terminal.until("a long");
        terminal.types("\u{3}");
        terminal.until("stopped");
        terminal.until("you › ");
    }
    terminal.types("hello\r");
    terminal.until("still here");
    terminal.shown.clear();
    terminal.until("you › ");
    terminal.types("\u{4}");
    assert_eq!(terminal.ends().0, Some(0));
    server.finish();
}

/// Ctrl-D during an answer leaves after it, and other keys are the beginning of the next message.
#[test]
fn what_is_typed_during_an_answer_is_read_after_it() {
    let pause = std::time::Duration::from_millis(150);
    let server = ModelServer::answering(move |request| match request.texts("user").last() {
        Some(&"wait") => Reply::text("a long answer, and more of it")
            .in_pieces(6)
            .between_pieces(pause),
        _ => Reply::text(format!("got {}", request.texts("user").last().unwrap())),
    });
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let mut terminal = OnTerminal::start(&project, &["chat"]);
    terminal.until("you › ");
    terminal.types("wait\r");
    terminal.until("a long");
    terminal.types("next\r");
    terminal.until("more of it");
    terminal.until("got next");
    terminal.until("you › ");
    terminal.shown.clear();
    terminal.types("wait\r");
    terminal.until("a long");
    terminal.types("\u{4}");
    let (code, shown) = terminal.ends();
    assert_eq!(code, Some(0));
    // The answer is complete, and the key is not shown in it.
    assert!(shown.contains("more of it") && !shown.contains("^D"), "{shown}");
    server.finish();
}

/// The fault of the issue: while a person is asked, the time limit of the answer does not run.
#[test]
fn an_answer_to_a_question_may_come_after_the_time_limit_of_the_turn() {
    let server = calling_server();
    let yaml = asking_agent(&server).replace("execution:\n", "execution:\n  llm_timeout: 1\n");
    let project = Project::with(&yaml);
    let mut terminal = OnTerminal::start(&project, &["chat", "--session", "s"]);
    terminal.until("you › ");
    terminal.types("go\r");
    terminal.until("allow?");
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    terminal.types("y\r");
    terminal.until("It said");
    terminal.shown.clear();
    terminal.until("you › ");
    terminal.types("/quit\r");
    assert_eq!(terminal.ends().0, Some(0));
    project.run(&["events", "check", "s"]).exits(0);
    let exported = project.run(&["events", "export", "s"]).exits(0).stdout;
    assert!(
        exported.lines().last().unwrap().contains("\"success\""),
        "{exported}"
    );
    server.finish();
}

#[test]
fn reasoning_is_chosen_within_its_range() {
    let server = ModelServer::answering(|_| Reply::text("hello"));
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    for thinking in ["--thinking", "--thinking=2048", "--thinking=off"] {
        project.run(&["chat", "--once", "hi", thinking]).exits(0);
    }
    project
        .run(&["chat", "--once", "hi", "--thinking=1023"])
        .exits(2)
        .says("must be from 1024 to 100000");
    project
        .run(&["chat", "--once", "hi", "--thinking=much"])
        .exits(2)
        .says("or `off`");
    assert_eq!(server.finish().len(), 3);
}

#[test]
fn events_are_written_and_a_question_of_run_is_stored() {
    let server = ModelServer::answering(|_| Reply::text("hello"));
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let ran = project.run(&["run", "hi", "--events", "ndjson"]).exits(0);
    let kinds: Vec<String> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|event| event["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        (kinds.first().unwrap().as_str(), kinds.last().unwrap().as_str()),
        ("session_start", "complete")
    );
    project.write("events.ndjson", &ran.stdout);
    project.run(&["events", "check", "events.ndjson"]).exits(0);
    assert!(!project.path(".holodeck/events.db").exists());
    assert_eq!(project.run(&["run", "hi", "--save"]).exits(0).stdout, "hello\n");
    let stored = project.run(&["events", "export", "last"]).exits(0).stdout;
    let ran = project
        .run(&["chat", "--session", "s", "--once", "hi", "--events", "ndjson"])
        .exits(0);
    // The same types, and what is written is what is stored.
    assert_eq!(stored.lines().count(), ran.stdout.lines().count());
    assert_eq!(
        project.run(&["events", "export", "s"]).exits(0).stdout,
        ran.stdout
    );
}

/// Editors and shells of Windows write it at the beginning of a file and of a pipe.
#[test]
fn a_byte_order_mark_is_no_part_of_a_message_or_of_a_name_in_dotenv() {
    let server = counting_server();
    let yaml = agent("${DESK_ENDPOINT}", TWO_CASES);
    for mark in ["", "\u{feff}"] {
        let project = Project::with(&yaml);
        project.write(".env", format!("{mark}DESK_ENDPOINT={}\r\n", server.url()));
        let ran = piped(&project, &["chat"], &format!("{mark}one\n\u{feff}two\n")).exits(0);
        assert_eq!(ran.stdout, "one after 0.\n\u{feff}two after 2.\n", "{mark:?}");
        let ran = piped(&project, &["chat"], &format!("{mark}exit\none\n")).exits(0);
        assert_eq!(ran.stdout, "", "{mark:?}");
    }
    server.finish();
}

#[test]
fn a_secret_that_is_too_short_to_be_masked_is_named_once_with_its_place() {
    let server = correct_server();
    let yaml = agent(&server.url(), TWO_CASES);
    let yaml = yaml.replace("  temperature", "  api_key: ${DESK_KEY}\n  temperature");
    for (file, shell, place) in [
        (Some("---"), None, ".env:3: "),
        (None, Some("abc"), " "),
        // The one of the shell counts, and the name is enough.
        (Some("---"), Some("abc"), ".env:3: "),
        (None, Some("abcdefgh"), ""),
    ] {
        let project = Project::with(&yaml);
        let line = file.map_or_else(String::new, |value| format!("DESK_KEY={value}\n"));
        project.write(
            ".env",
            format!("# keys\nDESK=---\n{line}OTHER_TOKEN=0123456789\n"),
        );
        let mut command = project.command(&["test"]);
        // It is read by nothing.
        command.env("SPARE_KEY", "xyz");
        command.envs(shell.map(|value| ("DESK_KEY", value)));
        let ran = CommandOutput::of(&command.output().unwrap()).exits(0);
        let named = ran.stderr.matches("too short to be masked").count();
        assert_eq!(named, usize::from(!place.is_empty()), "{ran:?}");
        if !place.is_empty() {
            ran.says(&format!(
                "{place}the value of `DESK_KEY` is too short to be masked"
            ));
        }
    }
    server.finish();
}
