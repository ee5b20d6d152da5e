//! An MCP server that asks the person during a call.

use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{
    project::{Project, TWO_CASES, agent},
    serve::Server,
    servers::everything,
    terminal::OnTerminal,
};

const TOOL: &str = "mcp__everything__trigger-elicitation-request";

/// Calls the tool that asks, also again while the server has not announced it yet, and repeats its result.
fn model() -> ModelServer {
    ModelServer::answering(|request| {
        let messages = request.messages();
        let last = &messages[messages.len() - 1];
        let result = last["content"].as_str().unwrap();
        if last["role"] == "tool" && !result.contains("there is no tool") {
            return Reply::text(result.split("Raw result").next().unwrap());
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        Reply::tool_call(&format!("c{}", messages.len()), TOOL, &json!({}))
    })
}

fn project(model: &ModelServer) -> Project {
    let more = "    request_timeout: 2\n";
    let turns = "openai: {max_turns: 50}\n";
    Project::with(&format!(
        "{}{}{turns}",
        agent(&model.url(), TWO_CASES),
        everything(more)
    ))
}

fn json_of(answer: &str) -> Value {
    serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap()
}

/// The question that waits.
fn question(server: &Server) -> Value {
    loop {
        let open = json_of(&server.ask("GET", "/v1/approvals?sessionId=s", "", ""));
        if let Some(asked) = open["approvals"].as_array().and_then(|open| open.first()) {
            return asked.clone();
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

fn answer(server: &Server, asked: &Value, answer: &Value) {
    let path = format!("/v1/approvals/{}", asked["approvalId"].as_str().unwrap());
    let answered = server.ask("POST", &path, "", &answer.to_string());
    assert!(answered.starts_with("HTTP/1.1 200"), "{answered}");
}

#[test]
fn a_client_of_serve_answers_a_server() {
    let model = model();
    let project = project(&model);
    let server = Server::start(&project, &[]);
    let accepted = server.ask("POST", "/v1/sessions/s/messages", "", r#"{"message": "go"}"#);
    assert!(accepted.starts_with("HTTP/1.1 202"), "{accepted}");
    let call = question(&server);
    assert_eq!(call["toolName"], TOOL);
    answer(&server, &call, &json!({"decision": "approve"}));
    let asked = question(&server);
    assert_eq!(asked["toolName"], "everything:elicitation");
    assert!(
        asked["description"]
            .as_str()
            .unwrap()
            .starts_with("`everything` asks: ")
    );
    assert_eq!(asked["answerSchema"]["required"], json!(["name"]));
    assert_eq!(asked["args"]["name"], Value::Null);
    // The clock of the call stands still while a person is asked.
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    let path = format!("/v1/approvals/{}", asked["approvalId"].as_str().unwrap());
    for (wrong, reason) in [
        (json!({"decision": "approve"}), "name"),
        (
            json!({"decision": "modify", "modifiedArgs": {"name": 7}}),
            "string",
        ),
    ] {
        let refused = server.ask("POST", &path, "", &wrong.to_string());
        assert!(
            refused.starts_with("HTTP/1.1 4") && refused.contains(reason),
            "{refused}"
        );
    }
    let given = json!({"decision": "modify", "modifiedArgs": {"name": "Ada"}});
    answer(&server, &asked, &given);
    loop {
        let events = server.ask("GET", "/v1/sessions/s/events", "", "");
        if events.contains("\"complete\"") {
            assert!(events.contains("Name: Ada"), "{events}");
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // Whoever answered one question has not allowed the next.
    server.ask("POST", "/v1/sessions/s/messages", "", r#"{"message": "again"}"#);
    answer(&server, &question(&server), &json!({"decision": "approve"}));
    assert_eq!(question(&server)["toolName"], "everything:elicitation");
    server.end("-KILL");
    project.run(&["events", "check", "s"]).exits(0);
}

#[test]
fn on_a_terminal_the_person_fills_in_the_answer() {
    let model = model();
    let project = project(&model);
    let mut terminal = OnTerminal::start(&project, &["chat"]);
    terminal.until("you › ");
    terminal.types("go\r");
    terminal.until("allow?");
    terminal.types("y\r");
    terminal.until("`everything` asks: ");
    terminal.until("declines › ");
    // What is shown is not yet an answer.
    terminal.types("\r");
    terminal.until("this is not an answer to the question");
    terminal.shown.clear();
    terminal.until("declines › ");
    terminal.types("\u{15}{\"name\": \"Ada\"}\r");
    terminal.until("Name: Ada");
    terminal.shown.clear();
    terminal.until("you › ");
    terminal.types("/quit\r");
    assert_eq!(terminal.ends().0, Some(0));
}

#[test]
fn without_a_person_a_question_is_declined() {
    let model = model();
    let project = project(&model);
    project.run(&["run", "go"]).exits(0).says("declined");
}
