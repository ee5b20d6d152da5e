//! MCP servers that keep state, in tests with trials: no trial sees what another one left in a server, unless
//! `share: trials` allows it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use holodeck_testkit::{AnthropicReply, AnthropicServer, ModelServer, ReceivedRequest, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{
    claude::Bench,
    project::{CommandOutput, Project},
};

/// A server that counts the calls of its tool `add`, and offers another tool after the first one.
const COUNTER: &str = r#"
import json, os, sys

here = os.path.dirname(os.path.abspath(__file__))
count = 0

def log(name):
    with open(os.path.join(here, name), "a") as file:
        file.write("%s %d %d\n" % (sys.argv[1], os.getpid(), count))

def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

if os.path.exists(os.path.join(here, "once")) and os.path.exists(os.path.join(here, "starts")):
    sys.exit("it starts only once")
log("starts")
for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "initialize":
        send({"id": id, "result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {"listChanged": True}},
                                   "serverInfo": {"name": "counter", "version": "1.2.3"}}})
    elif method == "tools/list":
        names = ["add", "later"] if count else ["add"]
        send({"id": id, "result": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]}})
    elif method == "tools/call":
        count += 1
        log("calls")
        if count == 1:
            send({"method": "notifications/tools/list_changed"})
        text = "added %d in %s %d" % (count, sys.argv[1], os.getpid())
        send({"id": id, "result": {"content": [{"type": "text", "text": text}]}})
    elif id is not None:
        send({"id": id, "error": {"code": -32601, "message": "no such method"}})
"#;

/// An agent with these servers, each with more fields of its tool.
fn yaml(model: &str, servers: &[(&str, &str)], rest: &str) -> String {
    let servers = servers.iter().map(|(name, more)| {
        format!(
            "  - {{type: mcp, name: {name}, description: Counts., command: python3, args: [./counter.py, {name}]{more}}}\n"
        )
    });
    format!(
        "name: counting\nmodel: {{{model}}}\ninstructions: {{inline: Use your tools.}}\ntools:\n{}{rest}",
        servers.collect::<String>()
    )
}

fn project(server: &ModelServer, servers: &[(&str, &str)], rest: &str) -> Project {
    let model = format!("provider: openai, name: m, endpoint: \"{}\"", server.url());
    let project = Project::with(&yaml(&model, servers, rest));
    project.write("counter.py", COUNTER);
    project
}

/// A model that calls `add` of every server for each message of a user, and repeats the results.
fn model() -> ModelServer {
    ModelServer::answering(|request| {
        let messages = request.messages();
        let last = messages.iter().rposition(|message| message["role"] == "user");
        let results: Vec<_> = messages[last.unwrap()..]
            .iter()
            .filter(|message| message["role"] == "tool")
            .map(|message| message["content"].as_str().unwrap())
            .collect();
        if !results.is_empty() {
            return Reply::text(results.join(", "));
        }
        let adding = offered(request)
            .into_iter()
            .filter(|name| name.ends_with("__add"));
        let calls: Vec<_> = adding.enumerate().collect();
        let (_, first) = &calls[0];
        let rest = calls[1..].iter();
        rest.fold(Reply::tool_call("c0", first, &json!({})), |reply, (n, name)| {
            reply.and_tool_call(&format!("c{n}"), name, "{}")
        })
    })
}

fn offered(request: &ReceivedRequest) -> Vec<String> {
    let tools = request.body["tools"].as_array().unwrap();
    let name = |tool: &Value| tool["function"]["name"].as_str().unwrap().to_owned();
    tools.iter().map(name).collect()
}

/// The counts of each process of a server, in the order of the calls.
fn counts(project: &Project, server: &str) -> Vec<Vec<usize>> {
    let mut counts: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    let read = |name| std::fs::read_to_string(project.path(name)).unwrap_or_default();
    for (is_call, line) in ["starts", "calls"].iter().flat_map(|name| {
        read(name)
            .lines()
            .map(|line| (*name == "calls", line.to_owned()))
            .collect::<Vec<_>>()
    }) {
        let mut fields = line.split(' ');
        if fields.next() != Some(server) {
            continue;
        }
        let process = counts.entry(fields.next().unwrap().parse().unwrap()).or_default();
        if is_call {
            process.push(fields.next().unwrap().parse().unwrap());
        }
    }
    let mut counts: Vec<_> = counts.into_values().collect();
    counts.sort();
    counts
}

/// The processes of a server that the cases of each trial used.
fn processes(project: &Project, server: &str) -> BTreeMap<u64, BTreeSet<String>> {
    let mut processes: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
    for ran in project.journal_lines().iter().filter_map(|line| line.get("ran")) {
        let (text, mark) = (ran.to_string(), format!(" in {server} "));
        let named = text.split(&mark).skip(1);
        let named = named.map(|rest| rest.chars().take_while(char::is_ascii_digit).collect());
        processes
            .entry(find_trial(ran).expect("a trial"))
            .or_default()
            .extend(named);
    }
    processes
}

fn find_trial(ran: &Value) -> Option<u64> {
    match ran {
        Value::Object(fields) => fields
            .get("trial")
            .and_then(Value::as_u64)
            .or_else(|| fields.values().find_map(find_trial)),
        _ => None,
    }
}

/// Checks that each trial used one process of the server, and no two trials the same.
fn assert_apart(project: &Project, server: &str, trials: usize) {
    let used = processes(project, server);
    assert_eq!(used.len(), trials, "{used:?}");
    let all: BTreeSet<_> = used.values().flatten().collect();
    assert!(used.values().all(|of_trial| of_trial.len() == 1), "{used:?}");
    assert_eq!(all.len(), trials, "{used:?}");
}

/// Runs the command, and checks that no process of a server is left.
fn run(project: &Project, args: &[&str]) -> CommandOutput {
    let ran = project.run(args);
    let starts = std::fs::read_to_string(project.path("starts")).unwrap_or_default();
    for process in starts.lines().map(|line| line.split(' ').nth(1).unwrap()) {
        let command = std::fs::read_to_string(Path::new("/proc").join(process).join("cmdline"));
        let command = command.unwrap_or_default();
        assert!(!command.contains("counter.py"), "{process} is left: {command}");
    }
    ran
}

const CASES: &str = "test_cases:\n  - {name: one, input: Add., expected_tools: [add]}\n  \
                     - {name: two, input: Add it., expected_tools: [add]}\n";

#[test]
fn each_trial_has_servers_of_its_own_which_its_cases_share() {
    for concurrency in ["1", "6"] {
        let server = model();
        let project = project(&server, &[("cart", "")], CASES);
        run(&project, &["test", "--trials", "3", "-j", concurrency]).exits(0);
        assert_eq!(
            counts(&project, "cart"),
            [[1, 2], [1, 2], [1, 2]],
            "-j {concurrency}"
        );
        assert_apart(&project, "cart", 3);
        server.finish();
    }
}

#[test]
fn one_trial_needs_one_server() {
    let server = model();
    let project = project(&server, &[("cart", "")], CASES);
    run(&project, &["test"]).exits(0);
    assert_eq!(counts(&project, "cart"), [[1, 2]]);
    server.finish();
}

#[test]
fn a_shared_server_serves_all_trials_beside_one_that_does_not() {
    let server = model();
    let cases = CASES.replace("[add]", "[mcp__stock__add, mcp__cart__add]");
    let project = project(&server, &[("stock", ", share: trials"), ("cart", "")], &cases);
    run(&project, &["test", "--trials", "3"]).exits(0);
    assert_eq!(counts(&project, "stock"), [[1, 2, 3, 4, 5, 6]]);
    assert_eq!(counts(&project, "cart"), [[1, 2], [1, 2], [1, 2]]);
    assert_apart(&project, "cart", 3);
    // The tools keep the order of the YAML in every trial.
    for request in server.finish() {
        assert_eq!(offered(&request)[..1], ["mcp__stock__add"]);
    }
}

#[test]
fn a_tool_that_one_trial_made_appear_is_not_offered_in_another() {
    let server = model();
    let project = project(&server, &[("cart", "")], &CASES[..CASES.rfind("  - ").unwrap()]);
    run(&project, &["test", "--trials", "3", "-j", "1"]).exits(0);
    let requests = server.finish();
    let first = requests.iter().filter(|request| request.texts("tool").is_empty());
    let first: Vec<_> = first.map(offered).collect();
    assert_eq!(first, vec![vec!["mcp__cart__add"]; 3]);
}

#[test]
fn every_way_to_ask_the_agent_calls_the_servers_of_its_trial() {
    let turns = "test_cases:\n  - {name: one, turns: [{input: Add.}, {input: Add more.}]}\n";
    let user = "test_cases:\n  - {name: one, user: {goal: Add twice.}}\n";
    let quality = "evaluations: {metrics: [{type: standard, metric: starts_with, value: never}]}\n\
                   quality_loop: {scorer: {metrics: [starts_with]}, max_iterations: 2}\n\
                   test_cases:\n  - {name: one, input: Add.}\n";
    for (name, cases, exit, of_trial) in [
        ("turns", turns, 0, vec![1, 2]),
        ("user", user, 0, vec![1, 2]),
        ("loop", quality, 1, vec![1, 2]),
    ] {
        let user = ModelServer::answering(|request| {
            let written = request.texts("user").concat().matches("</user-").count();
            let status = if written < 2 { "continue" } else { "goal_reached" };
            Reply::text(json!({"message": "Add.", "status": status}).to_string())
        });
        let player = format!(
            "evaluations:\n  model: {{provider: openai, name: user, endpoint: \"{}\"}}\n  \
             metrics: [{{type: standard, metric: json_valid, enabled: false}}]\n",
            user.url()
        );
        let server = model();
        let more = if name == "user" { player.as_str() } else { "" };
        let project = project(&server, &[("cart", "")], &format!("{more}{cases}"));
        let ran = run(&project, &["test", "--trials", "3", "-j", "3", "--allow-empty"]);
        assert_eq!(ran.code, Some(exit), "{name}: {}", ran.all());
        assert_eq!(counts(&project, "cart"), vec![of_trial; 3], "{name}");
        assert_apart(&project, "cart", 3);
        server.finish();
        user.finish();
    }
}

#[test]
fn a_resumed_run_gives_its_missing_trials_new_servers() {
    let server = model();
    let project = project(&server, &[("cart", "")], CASES);
    // The first trial uses up the budget.
    let stopped = run(
        &project,
        &["test", "--trials", "3", "-j", "1", "--max-tokens-total", "1"],
    );
    assert_ne!(stopped.code, Some(0), "{}", stopped.all());
    assert_eq!(counts(&project, "cart"), [[1]]);
    run(&project, &["test", "resume", "--max-tokens-total", "100000"]).exits(0);
    // The second run has other processes: its first trial needs one for the second case.
    assert_eq!(
        counts(&project, "cart"),
        [vec![1], vec![1], vec![1, 2], vec![1, 2]]
    );
    let used: Vec<_> = processes(&project, "cart").into_values().collect();
    assert_eq!(used.iter().map(BTreeSet::len).collect::<Vec<_>>(), [2, 1, 1]);
    assert_eq!(used.iter().flatten().collect::<BTreeSet<_>>().len(), 4);
    server.finish();
}

#[test]
fn a_server_that_does_not_start_for_a_later_trial_is_an_error_of_that_trial() {
    for need in ["", ", required: false"] {
        let server = model();
        let project = project(&server, &[("cart", need)], CASES);
        project.write("once", "");
        let ran = run(&project, &["test", "--trials", "2", "-j", "1"]);
        assert_ne!(ran.code, Some(0), "{}", ran.all());
        let ran = ran
            .says("agent.yaml:5:")
            .says("MCP server `cart` can't be used")
            .says("it starts only once");
        assert!(!ran.all().contains("PASS"), "{}", ran.all());
        let results = project.run_file()["report"]["results"].clone();
        for case in results.as_array().unwrap() {
            assert_eq!(case["state"], "error", "{case}");
            assert_eq!(
                (&case["trials_passed"], &case["trial_errors"]),
                (&json!(1), &json!(1))
            );
        }
        server.finish();
    }
}

#[test]
fn a_replay_of_trials_starts_no_server() {
    let server = model();
    let project = project(&server, &[("cart", "")], CASES);
    run(&project, &["test", "--trials", "2", "--record", "tape.jsonl"]).exits(0);
    server.finish();
    project.write("once", "");
    run(&project, &["test", "--trials", "2", "--replay", "tape.jsonl"]).exits(0);
    assert_apart(&project, "cart", 2);
}

/// A Claude agent with these servers, and a model that calls `add` of the last one.
fn bench(servers: &[(&str, &str)]) -> Bench {
    let server = AnthropicServer::answering(|request| match request.tool_results().first() {
        Some(result) => AnthropicReply::text(result.text.clone()),
        None => AnthropicReply::tool_use("mcp__cart__add", &json!({})),
    });
    let bench = Bench::new(&yaml("provider: anthropic, name: sonnet", servers, CASES), server);
    bench.project.write("counter.py", COUNTER);
    bench
}

#[test]
fn no_trial_of_a_claude_agent_sees_the_state_of_another() {
    let bench = bench(&[("cart", "")]);
    bench.run(&["test", "--trials", "2"]).exits(0);
    // The CLI starts the server for each of its processes; some are only prepared.
    let counts = counts(&bench.project, "cart");
    let used: Vec<_> = counts.iter().filter(|calls| !calls.is_empty()).collect();
    assert_eq!(used, [&[1], &[1], &[1], &[1]]);
    bench.server.finish();
}

#[test]
fn holodecks_servers_of_a_claude_agent_are_apart_by_trial_or_shared() {
    for (more, expected) in [
        (", sampling: allow", vec![vec![1, 2], vec![1, 2]]),
        (", sampling: allow, share: trials", vec![vec![1, 2, 3, 4]]),
        (", share: trials", vec![vec![1, 2, 3, 4]]),
    ] {
        let bench = bench(&[("cart", more)]);
        bench.run(&["test", "--trials", "2"]).exits(0);
        assert_eq!(counts(&bench.project, "cart"), expected, "{more}");
        assert!(!bench.argv().contains("--mcp-config"), "{}", bench.argv());
        bench.server.finish();
    }
}
