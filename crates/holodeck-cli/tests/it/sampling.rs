//! MCP servers that call the agent's model (sampling).

use holodeck_testkit::{AnthropicReply, AnthropicServer, ModelServer, ReceivedRequest, Reply};
use serde_json::{Value, json};

use crate::{claude::Bench, project::Project};

/// A server whose tool `ask` sends its question to a model.
const ASKER: &str = r#"
import json, sys

def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

def ask(question, number):
    send({"id": "ask-%d" % number, "method": "sampling/createMessage", "params": {
        "messages": [{"role": "user", "content": {"type": "text", "text": question}}],
        "systemPrompt": "You are an oracle.", "maxTokens": 50, "temperature": 0.7, "stopSequences": ["~~~"]}})
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") == "ask-%d" % number:
            return message

for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "initialize":
        send({"id": id, "result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                                   "serverInfo": {"name": "asker", "version": "1.2.3"}}})
        able = "sampling" in message["params"]["capabilities"]
    elif method == "tools/list":
        schema = {"type": "object", "properties": {"question": {"type": "string"}}}
        send({"id": id, "result": {"tools": [{"name": "ask", "description": "Asks.", "inputSchema": schema}]}})
    elif method == "tools/call":
        answer = ask(message["params"]["arguments"]["question"], 1)
        if "error" in answer:
            content, bad = answer["error"]["message"], True
        else:
            result = answer["result"]
            content, bad = "%s (%s, %s)" % (result["content"]["text"], result["model"], result["stopReason"]), False
        send({"id": id, "result": {"content": [{"type": "text", "text": content}], "isError": bad}})
    elif id is not None:
        send({"id": id, "error": {"code": -32601, "message": "no such method"}})
"#;

fn yaml(model: &str, more: &str, cases: &str) -> String {
    format!(
        "name: sampled\nmodel: {{{model}}}\ninstructions: {{inline: Use your tools.}}\n\
         tools:\n\
         \x20 - {{type: mcp, name: asker, description: Asks., command: python3, args: [./asker.py]{more}}}\n\
         evaluations: {{metrics: [{{type: standard, metric: contains}}]}}\n\
         test_cases:\n{cases}"
    )
}

const CASE: &str =
    "  - {name: one, input: What is it?, ground_truth: \"forty-two (\", expected_tools: [ask]}\n";

/// Whether the request comes from the server and not from the agent.
fn is_sampled(request: &ReceivedRequest) -> bool {
    request.texts("system") == ["You are an oracle."]
}

/// A model that passes its question to the server's tool and repeats the result.
fn model() -> ModelServer {
    ModelServer::answering(|request| {
        if is_sampled(request) {
            assert!(request.body["tools"].is_null());
            return Reply::text("forty-two~~~ and more");
        }
        if let Some(result) = request.texts("tool").first() {
            return Reply::text(*result);
        }
        let question = request.texts("user")[0].to_owned();
        Reply::tool_call("c1", "mcp__asker__ask", &json!({ "question": question }))
    })
}

fn project(server: &ModelServer, model: &str, more: &str, cases: &str) -> Project {
    let model = format!("provider: openai, name: m, endpoint: \"{}\"{model}", server.url());
    let project = Project::with(&yaml(&model, more, cases));
    project.write("asker.py", ASKER);
    project
}

fn result(project: &Project, case: usize) -> Value {
    project.run_file()["report"]["results"][case].clone()
}

#[test]
fn a_server_may_ask_the_agents_model_if_the_yaml_allows_it() {
    let server = model();
    let project = project(&server, ", max_tokens: 30", ", sampling: allow", CASE);
    project
        .run(&["test", "--record", "tape.jsonl"])
        .exits(0)
        .says("1 passed");
    let first = result(&project, 0);
    assert_eq!(first["agent_response"], "forty-two (scripted-1, stopSequence)");
    // The agent's own two calls and the server's.
    assert_eq!(first["token_usage"]["total_tokens"], 3 * 15);
    let requests = server.finish();
    assert_eq!(requests.len(), 3);
    let asked = requests.iter().find(|request| is_sampled(request)).unwrap();
    // The server's parameters, but at most the tokens that the YAML allows.
    assert_eq!(asked.body["temperature"], 0.7);
    assert_eq!(asked.body["max_tokens"], 30);
    assert_eq!(asked.texts("user"), ["What is it?"]);
    let tape = project.read("tape.jsonl");
    assert!(tape.contains("You are an oracle."), "{tape}");
    let replay = project
        .command(&["test", "--replay", "tape.jsonl"])
        .env("PATH", "/nowhere")
        .output()
        .unwrap();
    assert_eq!(replay.status.code(), Some(0), "{replay:?}");
    assert_eq!(result(&project, 0)["token_usage"], first["token_usage"]);
}

#[test]
fn sampling_is_refused_unless_allowed() {
    for more in ["", ", sampling: deny"] {
        let server = model();
        let project = project(&server, "", more, CASE);
        project.run(&["test"]).exits(1);
        let call = &result(&project, 0)["tool_invocations"][0];
        let error = call["error"].as_str().unwrap();
        assert!(error.contains("`sampling: allow`"), "{call}");
        assert!(!server.finish().iter().any(is_sampled));
    }
}

#[test]
fn sampling_counts_for_the_case_whose_call_caused_it() {
    let server = model();
    let case =
        |number| format!("  - {{name: case {number}, input: Question {number}?, ground_truth: forty-two}}\n");
    let cases = (0..6).map(case).collect::<Vec<_>>().concat();
    let project = project(&server, "", ", sampling: allow", &cases);
    project
        .run(&["test", "-j", "6", "--record", "tape.jsonl"])
        .exits(0)
        .says("6 passed");
    server.finish();
    let entries = project.read("tape.jsonl");
    let sampled: Vec<Value> = entries
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|entry: &Value| entry["request"]["body"]["messages"][0]["content"] == "You are an oracle.")
        .collect();
    assert_eq!(sampled.len(), 6);
    for entry in &sampled {
        let question = entry["request"]["body"]["messages"][1]["content"]
            .as_str()
            .unwrap();
        let unit = entry["request"]["unit"].as_str().unwrap();
        let number = question.trim_start_matches("Question ").trim_end_matches('?');
        assert!(unit.contains(&format!("case {number}")), "{unit}: {question}");
    }
    for case in 0..6 {
        assert_eq!(result(&project, case)["token_usage"]["total_tokens"], 3 * 15);
    }
}

#[test]
fn sampling_counts_against_the_budget() {
    let server = model();
    let cases = format!("{CASE}{}", CASE.replace("one", "two"));
    let project = project(&server, "", ", sampling: allow", &cases);
    project
        .run(&["test", "-j", "1", "--max-tokens-total", "40"])
        .exits(6)
        .says("token budget used up: 45 of 40");
    server.finish();
}

#[test]
fn server_everything_gets_its_answer() {
    let server = ModelServer::answering(|request| {
        if request.texts("system") == ["You are a helpful test server."] {
            return Reply::text("gingerbread");
        }
        let results = request.texts("tool");
        if let Some(result) = results.iter().find(|result| result.contains("sampling")) {
            return Reply::text(*result);
        }
        // The server offers the tool once sampling is negotiated, which may be after the first message.
        let name = "mcp__everything__trigger-sampling-request";
        let number = format!("c{}", results.len());
        if request.body["tools"].to_string().contains(name) {
            Reply::tool_call(
                &number,
                name,
                &json!({"prompt": "Say gingerbread.", "maxTokens": 9}),
            )
        } else {
            Reply::tool_call(&number, "mcp__everything__echo", &json!({"message": "x"}))
        }
    });
    let case = "  - name: sampling\n    input: Have it ask.\n    ground_truth: gingerbread\n    \
                expected_tools: [trigger-sampling-request]\n";
    let tools = crate::servers::everything("    sampling: allow\n");
    let project = Project::with(&format!("{}{tools}", crate::project::agent(&server.url(), case)));
    project
        .run(&["test", "--record", "tape.jsonl"])
        .exits(0)
        .says("1 passed");
    let requests = server.finish();
    let asked = requests
        .iter()
        .find(|request| request.texts("system") == ["You are a helpful test server."])
        .unwrap();
    assert_eq!(asked.body["max_tokens"], 9);
    // The list of tools changed during the run; a replay offers the recorded tools.
    project.run(&["test", "--replay", "tape.jsonl"]).exits(0);
}

#[test]
fn a_server_may_ask_the_model_of_a_claude_agent_too() {
    let server = AnthropicServer::answering(|request| {
        if request
            .system()
            .iter()
            .any(|text| text.contains("You are an oracle."))
        {
            assert!(request.tool_names().is_empty());
            return AnthropicReply::text("forty-two~~~ and more");
        }
        match request.tool_results().first() {
            Some(result) => AnthropicReply::text(result.text.clone()),
            None => AnthropicReply::tool_use("mcp__asker__ask", &json!({"question": "What is it?"})),
        }
    });
    let yaml = yaml("provider: anthropic, name: sonnet", ", sampling: allow", CASE);
    let bench = Bench::new(&yaml, server);
    bench.project.write("asker.py", ASKER);
    bench
        .run(&["test", "--record", "tape.jsonl"])
        .exits(0)
        .says("1 passed");
    // The CLI is not involved.
    assert!(!bench.argv().contains("--mcp-config"), "{}", bench.argv());
    let result = &bench.project.run_file()["report"]["results"][0];
    assert_eq!(result["tool_calls"], json!(["mcp__asker__ask"]));
    assert_eq!(result["token_usage"]["total_tokens"], 3 * 15, "{result}");
    bench.run(&["test", "--replay", "tape.jsonl"]).exits(0);
    let again = &bench.project.run_file()["report"]["results"][0];
    assert_eq!(again["token_usage"], result["token_usage"]);
    bench.server.finish();
}
