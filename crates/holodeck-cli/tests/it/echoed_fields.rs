//! Fields that only their server understands go back to it however a conversation continues: in the same process, in a later
//! one, in a fork, and from a recording.

use holodeck_testkit::{ModelServer, ReceivedRequest, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{chat::piped, project::Project, serve::Server};

/// The rounds of calls before the answer to a question.
const ROUNDS: usize = 2;

/// The requests that a question takes.
const REQUESTS: usize = ROUNDS + 1;

const AGENT: &str = "\
name: desk
model: {provider: openai, name: m, endpoint: \"${ENDPOINT}\", api_key: none}
instructions: {inline: Answer briefly.}
tools:
  - {type: function, name: weather, description: The weather of a city., command: cat, parameters: {city: {type: string}}}
";

/// The fields of the message with the calls of a round; each value is in one place of one round.
fn message_fields(key: &str) -> Value {
    json!({
        "reasoning_content": format!("I think about {key}."),
        "reasoning_details": [
            {"type": "reasoning.text", "text": format!("Details of {key}."), "signature": format!("signed-{key}"), "index": 0},
            {"type": "reasoning.encrypted", "data": format!("hidden-{key}"), "id": format!("rs-{key}"), "index": 1},
        ],
        "state": {"cursor": format!("at-{key}"), "count": 9_007_199_254_740_993_u64, "none": null, "off": false, "list": [[], {}]},
    })
}

/// The fields of each of its calls.
fn call_fields(key: &str) -> [Value; 2] {
    [
        json!({"extra_content": {"google": {"thought_signature": format!("thought-{key}")}}}),
        json!({"mark": format!("mark-{key}"), "extra_content": {"google": {"thought_signature": format!("second-{key}")}}}),
    ]
}

fn text_of(key: &str) -> String {
    format!("Let me look: {key}.")
}

fn with(mut value: Value, more: &Value) -> Value {
    let fields = value.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    value
}

/// The message of a round as a whole.
fn message(key: &str) -> Value {
    let calls: Vec<Value> = (0..)
        .zip(call_fields(key))
        .map(|(place, fields): (usize, Value)| {
            let arguments = json!({"city": format!("{key}-{place}")}).to_string();
            let call = json!({
                "id": format!("call-{key}-{place}"), "type": "function",
                "function": {"name": "weather", "arguments": arguments},
            });
            with(call, &fields)
        })
        .collect();
    let message = json!({"role": "assistant", "content": text_of(key), "tool_calls": calls});
    with(message, &message_fields(key))
}

/// The message of a round in pieces: the reasoning in two, the rest as it is.
fn pieces(key: &str) -> Vec<Value> {
    let whole = message(key);
    let reasoning = whole["reasoning_content"].as_str().unwrap();
    let details = whole["reasoning_details"].as_array().unwrap();
    let (begin, end) = reasoning.split_at(5);
    let mut deltas = vec![
        json!({"role": "assistant", "reasoning_content": begin}),
        json!({"reasoning_content": end, "reasoning_details": [details[0]]}),
        json!({"reasoning_details": [details[1]], "state": whole["state"]}),
        json!({"content": text_of(key)}),
    ];
    let calls = whole["tool_calls"].as_array().unwrap();
    deltas.extend(
        (0..).zip(calls).map(
            |(place, call): (usize, &Value)| json!({"tool_calls": [with(json!({"index": place}), call)]}),
        ),
    );
    deltas
}

fn reply(key: &str, is_whole: bool) -> Reply {
    let usage = json!({"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5});
    if is_whole {
        let body = json!({
            "id": "c", "object": "chat.completion", "created": 1, "model": "m", "usage": usage,
            "choices": [{"index": 0, "message": message(key), "finish_reason": "tool_calls"}],
        });
        return Reply::raw(200, "application/json", body.to_string());
    }
    let chunk = |choices: Value| {
        json!({
            "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices,
        })
    };
    let mut events: Vec<String> = pieces(key)
        .iter()
        .map(|delta| chunk(json!([{"index": 0, "delta": delta, "finish_reason": null}])).to_string())
        .collect();
    events.push(chunk(json!([{"index": 0, "delta": {}, "finish_reason": "tool_calls"}])).to_string());
    events.push(with(chunk(json!([])), &json!({"usage": usage})).to_string());
    events.push("[DONE]".to_owned());
    Reply::events(events.iter().map(String::as_str))
}

/// The keys of the rounds that a request has behind it, from its questions alone.
fn rounds(request: &ReceivedRequest) -> Vec<String> {
    let mut keys = Vec::new();
    let mut question = String::new();
    let mut round = 0;
    for message in request.messages() {
        if message["role"] == "user" {
            message["content"].as_str().unwrap().clone_into(&mut question);
            round = 0;
        } else if message.get("tool_calls").is_some() {
            keys.push(format!("{question}-{round}"));
            round += 1;
        }
    }
    keys
}

/// A server that calls in two rounds and then answers.
fn server(is_whole: bool) -> ModelServer {
    ModelServer::answering(move |request| {
        let question = request.texts("user").last().unwrap().to_string();
        let own = format!("{question}-");
        let round = rounds(request).iter().filter(|key| key.starts_with(&own)).count();
        if round < ROUNDS {
            reply(&format!("{question}-{round}"), is_whole)
        } else {
            Reply::text(format!("re: {question}"))
        }
    })
}

/// Checks that a request brings back every message with calls as it was sent, and nothing anywhere else.
#[track_caller]
fn check(request: &ReceivedRequest, name: &str) {
    let mut keys = rounds(request).into_iter();
    for sent in request.messages() {
        if sent.get("tool_calls").is_some() {
            assert_eq!(*sent, message(&keys.next().unwrap()), "{name}");
        } else {
            let known = ["role", "content", "tool_call_id"];
            let fields = sent.as_object().unwrap().keys();
            assert!(
                fields.into_iter().all(|field| known.contains(&field.as_str())),
                "{name}: {sent}"
            );
        }
    }
}

/// Checks all requests, of which the last one has these questions and every round of them.
#[track_caller]
fn check_all(requests: &[ReceivedRequest], questions: &[&str], name: &str) {
    for request in requests {
        check(request, name);
    }
    let last = requests.last().unwrap();
    assert_eq!(last.texts("user"), questions, "{name}");
    let expected: Vec<String> = questions
        .iter()
        .flat_map(|question| (0..ROUNDS).map(move |round| format!("{question}-{round}")))
        .collect();
    assert_eq!(rounds(last), expected, "{name}");
}

fn project(server: &ModelServer, rest: &str) -> Project {
    Project::with(&(AGENT.replace("${ENDPOINT}", &server.url()) + rest))
}

#[test]
fn in_a_chat_and_when_it_is_resumed() {
    for is_whole in [false, true] {
        let model = server(is_whole);
        let project = project(&model, "");
        let ran = piped(&project, &["chat", "--session", "s-1"], "one\ntwo\n").exits(0);
        assert!(ran.stdout.contains("re: two"), "{ran:?}");
        check_all(&model.requests(), &["one", "two"], "one process");
        piped(&project, &["chat", "--resume"], "three\n").exits(0);
        check_all(&model.requests(), &["one", "two", "three"], "resumed");
        project
            .run(&["chat", "--session", "s-1", "--once", "four"])
            .exits(0);
        let requests = model.finish();
        check_all(&requests, &["one", "two", "three", "four"], "by its id");
        assert_eq!(requests.len(), 4 * REQUESTS);
    }
}

/// Says something in a session of a server; returns the answer's body.
fn say(server: &Server, session: &str, message: &str) -> String {
    let path = format!("/v1/sessions/{session}/messages?wait=true");
    let answer = server.ask("POST", &path, "", &json!({"message": message}).to_string());
    assert!(answer.contains(&format!("re: {message}")), "{answer}");
    answer
}

/// The JSON in the body of an answer.
fn body(answer: &str) -> Value {
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

fn fork(server: &Server, session: &str, after: &Value) -> String {
    let request = json!({"afterEventIndex": after}).to_string();
    let path = format!("/v1/sessions/{session}/fork");
    let forked = body(&server.ask("POST", &path, "content-type: application/json\r\n", &request));
    forked["sessionId"]
        .as_str()
        .unwrap_or_else(|| panic!("{forked}"))
        .to_owned()
}

#[test]
fn in_a_served_conversation_after_a_restart_and_in_its_forks() {
    for is_whole in [false, true] {
        let model = server(is_whole);
        let project = project(&model, "");
        let served = Server::start(&project, &[]);
        say(&served, "s", "one");
        let after_one = body(&served.ask("GET", "/v1/sessions/s", "", ""))["headIndex"].clone();
        assert!(after_one.is_number(), "{after_one}");
        say(&served, "s", "two");
        check_all(&model.requests(), &["one", "two"], "second message");
        let copy = fork(&served, "s", &Value::Null);
        say(&served, &copy, "three");
        check_all(&model.requests(), &["one", "two", "three"], "fork");
        served.end("-TERM").exits(0);

        let served = Server::start(&project, &[]);
        say(&served, "s", "four");
        check_all(&model.requests(), &["one", "two", "four"], "restart");
        let early = fork(&served, "s", &after_one);
        say(&served, &early, "five");
        check_all(&model.requests(), &["one", "five"], "fork of an earlier place");
        say(&served, &copy, "six");
        check_all(
            &model.requests(),
            &["one", "two", "three", "six"],
            "restarted fork",
        );
        let forked_again = fork(&served, &early, &Value::Null);
        served.end("-KILL");

        let served = Server::start(&project, &[]);
        say(&served, &forked_again, "seven");
        check_all(
            &model.requests(),
            &["one", "five", "seven"],
            "fork of a fork, after a kill",
        );
        served.end("-TERM").exits(0);
        // Another program continues it.
        project
            .run(&["chat", "--session", &forked_again, "--once", "eight"])
            .exits(0);
        let requests = model.finish();
        check_all(&requests, &["one", "five", "seven", "eight"], "chat");
        assert_eq!(requests.len(), 8 * REQUESTS);
    }
}

#[test]
fn in_responses_that_continue_a_response_also_one_that_is_not_the_last() {
    let model = server(false);
    let project = project(&model, "");
    let respond = |served: &Server, input: &str, previous: &Value| {
        let request = json!({"model": "desk", "input": input, "previous_response_id": previous}).to_string();
        let answer = served.ask(
            "POST",
            "/v1/responses",
            "content-type: application/json\r\n",
            &request,
        );
        assert!(answer.contains(&format!("re: {input}")), "{answer}");
        body(&answer)["id"].clone()
    };
    let served = Server::start(&project, &[]);
    let one = respond(&served, "one", &Value::Null);
    let two = respond(&served, "two", &one);
    check_all(&model.requests(), &["one", "two"], "second");
    respond(&served, "three", &one);
    check_all(&model.requests(), &["one", "three"], "another second");
    served.end("-TERM").exits(0);
    let served = Server::start(&project, &[]);
    respond(&served, "four", &two);
    check_all(&model.requests(), &["one", "two", "four"], "restart");
    served.end("-TERM").exits(0);
    assert_eq!(model.finish().len(), 4 * REQUESTS);
}

#[test]
fn from_a_recording_in_the_run_a_chat_and_a_server_that_replay_it() {
    for is_whole in [false, true] {
        let model = server(is_whole);
        let turns = ["one", "two", "three"]
            .map(|input| format!("      - {{input: {input}, expected_tools: [weather]}}\n"))
            .concat();
        let cases = format!("test_cases:\n  - name: talk\n    turns:\n{turns}");
        let project = project(&model, &cases);
        let run = |flags: &[&str]| {
            project
                .run(
                    &[
                        &["test", "agent.yaml", "--allow-side-effects", "--output", "r.json"],
                        flags,
                    ]
                    .concat(),
                )
                .exits(0);
            serde_json::from_str::<Value>(&project.read("r.json")).unwrap()
        };
        let recorded = run(&["--record", "tape.jsonl"]);
        check_all(&model.requests(), &["one", "two", "three"], "recorded");
        let replayed = run(&["--replay", "tape.jsonl"]);
        assert_eq!(
            replayed["results"][0]["tool_calls"],
            recorded["results"][0]["tool_calls"]
        );
        let ran = piped(
            &project,
            &["chat", "--replay", "tape.jsonl", "--session", "s-1"],
            "one\ntwo\n",
        )
        .exits(0);
        assert!(ran.stdout.contains("re: two"), "{ran:?}");
        // With the history from the store.
        let ran = piped(
            &project,
            &["chat", "--replay", "tape.jsonl", "--resume"],
            "three\n",
        )
        .exits(0);
        assert!(ran.stdout.contains("re: three"), "{ran:?}");
        let served = Server::start(&project, &["--replay", "tape.jsonl"]);
        say(&served, "s", "one");
        let copy = fork(&served, "s", &Value::Null);
        say(&served, &copy, "two");
        served.end("-TERM").exits(0);
        let served = Server::start(&project, &["--replay", "tape.jsonl"]);
        say(&served, "s", "two");
        say(&served, &copy, "three");
        served.end("-TERM").exits(0);
        assert_eq!(model.requests().len(), 3 * REQUESTS, "a replay asks no server");

        // What was replayed is a history like any other.
        for (session, questions) in [
            ("s-1", ["one", "two", "three", "four"]),
            (copy.as_str(), ["one", "two", "three", "five"]),
        ] {
            project
                .run(&["chat", "--session", session, "--once", questions[3]])
                .exits(0);
            check_all(&model.requests(), &questions, "after a replay");
        }
        assert_eq!(model.finish().len(), 5 * REQUESTS);
    }
}
