//! Clients that this project did not write talk to `holodeck serve`: see `fixtures/clients`.

use holodeck_testkit::{ModelServer, ReceivedRequest, Reply, changing_client, foreign_client};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{
    project::{Project, TWO_CASES, agent},
    serve::Server,
};

const TOKEN: &str = "tok-0123456789abcdef";

/// A model that calls `echo` once in each conversation.
fn model() -> ModelServer {
    ModelServer::answering(|request| match request.texts("tool").last() {
        None => Reply::tool_call("call-1", "echo", &json!({"text": "tea"})),
        Some(result) => Reply::text(format!("It said {result}.")).in_pieces(3),
    })
}

/// The observations of a client of an agent whose tool a person must approve.
fn seen_by(client: &str) -> Value {
    let model = model();
    let project = Project::with(&format!(
        "{}tools:\n  - {{type: function, name: echo, description: Echoes., command: cat, parameters: {{text: {{type: \
         string, description: What.}}}}}}\napprovals:\n  non_interactive: approve\n  rules:\n    - {{tools: '*', \
         approver: human}}\n",
        agent(&model.url(), TWO_CASES)
    ));
    let server = Server::start_with(&project, &[], &[("HOLODECK_TOKEN", TOKEN)]);
    let url = format!("http://{}", server.address);
    let seen = foreign_client(client, &url, TOKEN).unwrap_or_else(|error| panic!("{error}"));
    server.end("-TERM").exits(0);
    for session in project
        .run(&["sessions", "list", "--json"])
        .exits(0)
        .json()
        .as_array()
        .unwrap()
    {
        let id = session["sessionId"].as_str().unwrap();
        project.run(&["events", "check", id]).exits(0);
    }
    seen
}

fn strings<'a>(list: &'a Value, name: &str) -> Vec<&'a str> {
    let list = list.as_array().unwrap().iter();
    list.filter_map(|item| item.pointer(name)?.as_str()).collect()
}

const ANSWER: &str = r#"It said {"text":"tea"}."#;

#[test]
fn a_websocket_client_of_others_has_a_conversation() {
    let seen = seen_by("ws");
    assert_eq!(seen["refusals"], json!([401, 403]));
    assert_eq!(
        (&seen["protocol"], &seen["code"]),
        (&json!("holodeck"), &json!(1000))
    );
    let mut types = strings(&seen["frames"], "/data/type");
    types.dedup();
    assert_eq!(
        types,
        [
            "user_message_confirmed",
            "tool_use",
            "approval_requested",
            "approval_resolved",
            "tool_result",
            "message_chunk",
            "message",
            "complete"
        ]
    );
    let text = strings(&seen["frames"], "/data/content");
    assert_eq!(text.last(), Some(&ANSWER));
}

#[test]
fn the_client_of_openai_gets_answers_and_errors() {
    let seen = seen_by("openai");
    assert_eq!(seen["models"], json!(["support"]));
    let whole = &seen["whole"]["choices"][0];
    assert_eq!(
        (&whole["message"]["content"], &whole["finish_reason"]),
        (&json!(ANSWER), &json!("stop"))
    );
    assert_eq!(
        strings(&seen["chunks"], "/choices/0/delta/content").concat(),
        ANSWER
    );
    assert!(seen["chunks"].as_array().unwrap().last().unwrap()["usage"]["total_tokens"].is_u64());
    assert_eq!(seen["final"], ANSWER);
    let refusals: Vec<&str> = seen["refusals"]
        .as_array()
        .unwrap()
        .iter()
        .map(|text| text.as_str().unwrap())
        .collect();
    assert!(
        refusals[0].starts_with("AuthenticationError 401: "),
        "{refusals:?}"
    );
    assert!(
        refusals[1].starts_with("NotFoundError 404: ") && refusals[1].contains("`nothing`"),
        "{refusals:?}"
    );
    assert!(
        refusals[2].starts_with("BadRequestError 400: ") && refusals[2].contains("tools"),
        "{refusals:?}"
    );
}

#[test]
fn the_client_of_ag_ui_approves_and_resumes() {
    let seen = seen_by("agui");
    assert_eq!(seen["warnings"], json!([]));
    assert_eq!(seen["pending"], json!([]));
    assert_eq!(strings(&seen["asked"], "/id").len(), 1);
    let types: Vec<&str> = seen["types"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap())
        .collect();
    let runs: Vec<&[&str]> = types.split_inclusive(|name| *name == "RUN_FINISHED").collect();
    assert_eq!(runs.len(), 2, "{types:?}");
    for run in &runs {
        assert_eq!((run[0], run[run.len() - 1]), ("RUN_STARTED", "RUN_FINISHED"));
    }
    assert!(
        !runs[0].contains(&"TOOL_CALL_RESULT") && runs[1].contains(&"TOOL_CALL_RESULT"),
        "{types:?}"
    );
    let texts = strings(&seen["messages"], "/content");
    assert_eq!(texts.last(), Some(&ANSWER));
}

/// The observations of a client that retries or changes its mind, and the requests that the model got.
fn changing(client: &str, script: fn(&ReceivedRequest) -> Reply) -> (Value, Vec<ReceivedRequest>) {
    let model = ModelServer::answering(script);
    let project = Project::with(&format!(
        "{}tools:\n  - {{type: function, name: echo, description: Echoes., command: cat, parameters: {{text: {{type: \
         string, description: What.}}}}}}\n",
        agent(&model.url(), TWO_CASES)
    ));
    let server = Server::start_with(&project, &[], &[("HOLODECK_TOKEN", TOKEN)]);
    let url = format!("http://{}", server.address);
    let seen = changing_client(client, &url, TOKEN).unwrap_or_else(|error| panic!("{error}"));
    server.end("-TERM").exits(0);
    (seen, model.requests())
}

#[test]
fn the_client_of_openai_calls_once_after_a_tool_ran_and_continues_responses() {
    let (seen, requests) = changing("openai", |request| {
        let question = request.texts("user").last().unwrap().to_string();
        match request.texts("tool").last() {
            None if question.contains("tool") => Reply::tool_call("call-1", "echo", &json!({"text": "tea"})),
            _ if question.contains("fail") => Reply::openai_error(400, "no", None, None),
            _ => Reply::text(request.texts("user").join("+")),
        }
    });
    let asked = |text: &str| {
        let asked = requests.iter().filter(|request| {
            request.texts("user").last() == Some(&text) && request.texts("tool").is_empty()
        });
        asked.count()
    };
    assert_eq!(seen["afterTool"]["status"], 502, "{seen}");
    assert_eq!(asked("tool, then fail"), 1);
    // Nothing was done: its two retries are its own business.
    assert_eq!((&seen["withoutTool"]["status"], asked("fail")), (&json!(502), 3));
    assert_eq!((&seen["keyed"][0], asked("tool")), (&seen["keyed"][1], 1));
    assert_eq!(seen["other"]["status"], 422);
    assert_eq!(seen["responses"], json!(["say one", "say one+say two"]));
    let types = seen["types"].as_array().unwrap();
    assert_eq!(
        (types.first(), types.last()),
        (
            Some(&json!("response.created")),
            Some(&json!("response.completed"))
        )
    );
}

#[test]
fn the_client_of_ag_ui_stops_asks_again_and_changes_its_messages() {
    let (seen, _) = changing("agui", |request| {
        let questions = request.texts("user");
        if questions.last() == Some(&"hang") {
            return Reply::text("so far and no further").in_pieces(4).hang_after(3);
        }
        Reply::text(questions.join("+"))
    });
    assert_eq!(
        seen,
        json!({"isAborted": true, "afterAbort": "hang+one", "second": "hang+one+two", "again": "hang+one+two",
            "changed": "changed"})
    );
}
