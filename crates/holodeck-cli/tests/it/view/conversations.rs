//! The conversations of `chat` in the view: shown only when asked for, and made into test cases.

use holodeck_testkit::PostgresServer;
use pretty_assertions::assert_eq;

use super::{
    save_case::{areas, encode, field},
    *,
};
use crate::project::SECRET;

/// A server that calls `echo` for a message with `look`, fails for one with `break`, and else repeats the last text.
fn server() -> ModelServer {
    ModelServer::answering(|request| {
        let messages = request.messages();
        let last = &messages[messages.len() - 1];
        let text = last["content"].as_str().unwrap();
        if last["role"] == "user" && text.contains("look") {
            return Reply::tool_call("call-1", "echo", &json!({"text": "tea <b>"}));
        }
        if last["role"] == "user" && text.contains("break") {
            return Reply::openai_error(400, "it broke", None, None);
        }
        Reply::text(format!("re: {text}"))
    })
}

/// A project whose agent `support` has a tool, and these conversations.
fn with_conversations(server: &ModelServer, messages: &[(&str, &str)]) -> Project {
    let tools = "tools:\n  - {type: function, name: echo, description: Echoes., command: cat, parameters: \
                 {text: {type: string, description: What.}}}\n";
    let project = Project::with(&format!("{}{tools}", agent(&server.url(), TWO_CASES)));
    project.write(".env", format!("OPENAI_API_KEY={SECRET}\n"));
    for (session, message) in messages {
        project.run(&["chat", "--session", session, "--once", message]);
    }
    project
}

const SHOWN: [&str; 3] = ["view", "--json", "--conversations"];

/// The addresses of the conversations of a list.
fn conversations(list: &str) -> Vec<&str> {
    let mut found = pages(list);
    found.retain(|page| page.starts_with("/conversation/") || page.starts_with("conversation-"));
    found
}

/// Sends a message that its model does not answer.
fn wait_in(project: &Project, session: &str) -> Child {
    project
        .command(&["chat", "--session", session, "--once", "please wait"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_turn_of_a_conversation_becomes_a_test_with_the_messages_before_it() {
    let server = server();
    let secret = format!("is {SECRET} right?");
    let project = with_conversations(
        &server,
        &[
            ("older", "hello"),
            ("talk", "have a look"),
            ("talk", "please break"),
            ("talk", &secret),
        ],
    );
    project.run(&["test"]);
    let view = View::start_with(&project, &SHOWN);
    let head = view.log_in();
    let runs = view.ask("GET", "/", &head);
    assert!(
        runs.contains("<a href=\"/conversations\">Conversations</a>"),
        "{runs}"
    );
    let list = view.ask("GET", "/conversations", &head);
    let addresses = conversations(&list);
    assert_eq!((status(&list), addresses.len()), ("200", 2), "{list}");
    let (newer, older) = (list.find("have a look").unwrap(), list.find("hello").unwrap());
    assert!(newer < older, "{list}");
    for text in [
        "talk .holodeck/events.db",
        "support<p class=\"dim\">agent.yaml</p>",
        "<td data-name=\"Runs\" class=\"figure\">3</td></tr>",
    ] {
        assert!(list.contains(text), "{text} in {list}");
    }
    let page = view.ask("GET", addresses[0], &head);
    for text in [
        "have a look",
        "<b>echo</b>",
        "tea &lt;b&gt;",
        "it broke",
        "is *** right?",
        "run ",
    ] {
        assert!(page.contains(text), "{text} in {page}");
    }
    assert!(!page.contains(SECRET) && !page.contains("tea <b>"), "{page}");
    assert_eq!(page.matches(">Make a test of this turn<").count(), 2, "{page}");
    // The turn that failed, one that is not there, and what is no number.
    for (turn, expected) in [
        ("2", "422"),
        ("4", "404"),
        ("0", "404"),
        ("x", "404"),
        ("..%2f1", "404"),
    ] {
        let address = format!("{}/turn/{turn}/save", addresses[0]);
        assert_eq!(status(&view.ask("GET", &address, &head)), expected, "{turn}");
    }
    let address = format!("{}/turn/3/save", addresses[0]);
    assert!(page.contains(&format!("action=\"{address}\"")), "{page}");
    let shown = view.ask("GET", &address, &head);
    assert_eq!(
        areas(&shown, "question"),
        ["have a look", "is *** right?"],
        "{shown}"
    );
    assert_eq!(
        areas(&shown, "expected").last().map(String::as_str),
        Some("re: is *** right?")
    );
    assert!(shown.contains("not answered are left out"), "{shown}");

    let before = project.read("agent.yaml");
    let (token, seen) = (field(&shown, "token"), field(&shown, "seen"));
    let turns = [("have a look", "tea"), ("is it right?", "It is.")];
    let turns = turns
        .map(|(question, expected)| format!("&question={}&expected={}", encode(question), encode(expected)));
    let body = format!("token={token}&seen={seen}&name=talk+3{}", turns.concat());
    let own = format!("{head}origin: http://{}\r\n", view.host);
    let post = |body: &str| view.ask("POST", &address, &form(&own, body));
    assert_eq!(status(&post(&body.replace(token, "x"))), "403");
    assert_eq!(project.read("agent.yaml"), before);
    let saved = post(&body);
    assert_eq!(status(&saved), "200", "{saved}");
    assert!(saved.contains("?page=1#turn-3"), "{saved}");
    let added = "  - name: talk 3\n    turns:\n      - input: have a look\n        ground_truth: tea\n      \
                 - input: \"is it right?\"\n        ground_truth: It is.\n";
    assert_eq!(project.read("agent.yaml").replacen(added, "", 1), before);
    assert_eq!(status(&post(&body)), "409");
    project.run(&["validate"]).exits(0);
    // The first turn alone is a case without turns.
    let first = view.ask("GET", &format!("{}/turn/1/save", addresses[0]), &head);
    assert_eq!(areas(&first, "question"), ["have a look"]);
}

#[test]
fn without_the_flag_no_page_and_no_file_has_a_conversation() {
    let server = server();
    let project = with_conversations(&server, &[("talk", "a private word")]);
    let shown = View::start_with(&project, &SHOWN);
    let list = shown.ask("GET", "/conversations", &shown.log_in());
    let address = conversations(&list)[0].to_owned();
    let view = View::start(&project);
    let head = view.log_in();
    let own = format!("{head}origin: http://{}\r\n", view.host);
    assert!(!view.ask("GET", "/", &head).contains("onversation"));
    for path in ["/conversations", &address, &format!("{address}/turn/1/save")] {
        assert_eq!(status(&view.ask("GET", path, &head)), "404", "{path}");
        assert_eq!(
            status(&view.ask("POST", path, &form(&own, "token=x"))),
            "404",
            "{path}"
        );
    }
    let files = |folder: &str| {
        let entries = fs::read_dir(project.path(folder)).unwrap();
        let texts = entries.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
        texts.collect::<Vec<String>>().concat()
    };
    project.run(&["view", "--export", "without"]).exits(0);
    let all = files("without");
    assert!(!all.contains("private") && !all.contains("onversation"), "{all}");

    let ran = project
        .run(&["view", "--export", "with", "--conversations", "--json"])
        .exits(0);
    assert_eq!(
        ran.json(),
        json!({"folder": "with", "runs": 0, "conversations": 1})
    );
    let index = project.read("with/index.html");
    assert!(index.contains("href=\"conversations.html\""), "{index}");
    let list = project.read("with/conversations.html");
    let page = project.read(&format!("with/{}", conversations(&list)[0]));
    assert!(
        page.contains("a private word") && page.contains("re: a private word"),
        "{page}"
    );
    let all = files("with");
    assert!(!all.contains("<form") && !all.contains("name=\"token\""), "{all}");

    let read_only = View::start_with(&project, &["view", "--json", "--conversations", "--read-only"]);
    let head = read_only.log_in();
    let page = read_only.ask("GET", &address, &head);
    assert!(status(&page) == "200" && !page.contains("<form"), "{page}");
    let save = format!("{address}/turn/1/save");
    assert_eq!(status(&read_only.ask("GET", &save, &head)), "403");
    let own = format!("{head}origin: http://{}\r\n", read_only.host);
    assert_eq!(
        status(&read_only.ask("POST", &save, &form(&own, "token=x"))),
        "405"
    );
}

#[test]
fn a_conversation_that_was_deleted_is_gone_and_its_form_says_so() {
    let server = server();
    let project = with_conversations(&server, &[("talk", "hello")]);
    let before = project.read("agent.yaml");
    let view = View::start_with(&project, &SHOWN);
    let head = view.log_in();
    let list = view.ask("GET", "/conversations", &head);
    let address = conversations(&list)[0].to_owned();
    let save = format!("{address}/turn/1/save");
    let page = view.ask("GET", &save, &head);
    project.run(&["sessions", "delete", "talk"]).exits(0);
    let body = format!(
        "token={}&seen={}&name=n&question=q&expected=a",
        field(&page, "token"),
        field(&page, "seen")
    );
    let own = format!("{head}origin: http://{}\r\n", view.host);
    for answer in [
        view.ask("GET", &address, &head),
        view.ask("GET", &save, &head),
        view.ask("POST", &save, &form(&own, &body)),
    ] {
        assert!(
            status(&answer) == "404" && answer.contains("it may have been deleted"),
            "{answer}"
        );
    }
    assert_eq!(project.read("agent.yaml"), before);
    let list = view.ask("GET", "/conversations", &head);
    assert!(list.contains("No conversations yet."), "{list}");
    fs::write(project.path(".holodeck/events.db"), "x".repeat(5_000)).unwrap();
    let list = view.ask("GET", "/conversations", &head);
    assert!(
        list.contains(">cannot be read</span>") && list.contains("is damaged"),
        "{list}"
    );
}

#[tokio::test]
async fn a_run_that_is_not_over_is_running_only_while_its_process_lives() {
    let server = ModelServer::answering(|request| match request.texts("user").last() {
        Some(text) if text.contains("wait") => Reply::hang(),
        _ => Reply::text("done"),
    });
    let project = with_conversations(&server, &[("talk", "hello")]);
    let view = View::start_with(&project, &SHOWN);
    let head = view.log_in();
    let mut chat = wait_in(&project, "talk");
    // The run is stored before its model is asked.
    server.until_open(1).await;
    let list = view.ask("GET", "/conversations", &head);
    assert!(
        list.contains(">running</span>") && list.contains("An agent is answering"),
        "{list}"
    );
    let address = conversations(&list)[0].to_owned();
    let page = view.ask("GET", &address, &head);
    assert!(
        page.contains("please wait") && page.contains(">running</span>"),
        "{page}"
    );
    assert_eq!(page.matches(">Make a test of this turn<").count(), 1, "{page}");
    let save = format!("{address}/turn/2/save");
    let own = format!("{head}origin: http://{}\r\n", view.host);
    let form_page = view.ask("GET", &format!("{address}/turn/1/save"), &head);
    let body = format!(
        "token={}&seen={}&name=n&question=q&expected=a",
        field(&form_page, "token"),
        field(&form_page, "seen")
    );
    for answer in [
        view.ask("GET", &save, &head),
        view.ask("POST", &save, &form(&own, &body)),
    ] {
        assert!(
            status(&answer) == "422" && answer.contains("was not completed"),
            "{answer}"
        );
    }
    chat.kill().unwrap();
    chat.wait().unwrap();
    let page = view.ask("GET", &address, &head);
    assert!(
        page.contains(">not ended</span>") && !page.contains(">running</span>"),
        "{page}"
    );
    // The view has not ended it, the next command does.
    let again = view.ask("GET", "/conversations", &head);
    assert!(again.contains(">not ended</span>"), "{again}");
    project.run(&["sessions", "list"]).exits(0);
    let page = view.ask("GET", &address, &head);
    assert!(
        page.contains(">failed</span>") && !page.contains(">not ended</span>"),
        "{page}"
    );
}

#[tokio::test]
async fn conversations_in_a_database_are_shown_and_made_into_tests() {
    let model = ModelServer::answering(|request| match request.texts("user").last() {
        Some(text) if text.contains("wait") => Reply::hang(),
        Some(text) => Reply::text(format!("re: {text}")),
        None => Reply::text("done"),
    });
    let database = PostgresServer::start();
    let project = with_conversations(&model, &[]);
    project.write(
        "agent.yaml",
        format!(
            "{}events: {{store: postgres, url_env: EVENTS_DB}}\n",
            project.read("agent.yaml")
        ),
    );
    project.write(
        ".env",
        format!("OPENAI_API_KEY={SECRET}\nEVENTS_DB={}\n", database.url()),
    );
    for (session, message) in [
        ("first-talk", "hello"),
        ("second-talk", "good morning"),
        ("first-talk", "and now?"),
    ] {
        project
            .run(&["chat", "--session", session, "--once", message])
            .exits(0);
    }
    let view = View::start_with(&project, &SHOWN);
    let head = view.log_in();
    let list = view.ask("GET", "/conversations", &head);
    let addresses: Vec<_> = conversations(&list).into_iter().map(str::to_owned).collect();
    assert_eq!(addresses.len(), 2, "{list}");
    assert!(!list.contains(&database.url()), "{list}");
    let page = view.ask("GET", &addresses[0], &head);
    assert!(
        page.contains("hello") && page.contains("re: and now?") && !page.contains("good morning"),
        "{page}"
    );
    let page = view.ask("GET", &format!("{}/turn/2/save", addresses[0]), &head);
    let body = format!(
        "token={}&seen={}&name=later&question=hello&expected=hi&question=and+now&expected=now",
        field(&page, "token"),
        field(&page, "seen")
    );
    let own = format!("{head}origin: http://{}\r\n", view.host);
    let saved = view.ask(
        "POST",
        &format!("{}/turn/2/save", addresses[0]),
        &form(&own, &body),
    );
    assert_eq!(status(&saved), "200", "{saved}");
    assert!(
        project.read("agent.yaml").contains("name: later"),
        "{}",
        project.read("agent.yaml")
    );
    // A look at it does not end what another process does.
    let mut chat = wait_in(&project, "second-talk");
    model.until_open(1).await;
    for _ in 0..2 {
        let list = view.ask("GET", "/conversations", &head);
        assert_eq!(list.matches(">running</span>").count(), 1, "{list}");
    }
    chat.kill().unwrap();
    chat.wait().unwrap();
}
