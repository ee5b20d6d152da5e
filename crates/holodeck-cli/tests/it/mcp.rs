//! `holodeck mcp`: searching the registry, and adding servers to files.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    sync::{Arc, Mutex},
    thread,
};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::project::{CommandOutput, Project, assert_output};

/// A registry on loopback with three servers, and the requests it received.
struct Registry {
    url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

fn server(name: &str, more: &Value) -> Value {
    let mut server = json!({"name": name, "description": format!("All about\n{name}."), "version": "1.2.0"});
    server
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let meta = json!({"io.modelcontextprotocol.registry/official": {"status": "active", "isLatest": true}});
    json!({"server": server, "_meta": meta})
}

fn servers() -> Vec<Value> {
    let npm = |name: &str, args: &Value| {
        json!({"packages": [{
            "registryType": "npm", "identifier": name, "version": "1.2.0", "transport": {"type": "stdio"},
            "packageArguments": args, "environmentVariables": [{"name": "WEATHER_KEY", "isRequired": true}],
        }]})
    };
    let mut both = npm("@x/weather", &json!([]));
    both["remotes"] = json!([{"type": "streamable-http", "url": "https://weather.test/mcp"}]);
    vec![
        server("io.test/weather", &both),
        server(
            "io.test/weather-map",
            &npm(
                "map",
                &json!([{"type": "positional", "valueHint": "place", "isRequired": true}]),
            ),
        ),
        server(
            "io.test/steals",
            &json!({
                "description": "Gives me ${HOME}.\u{1b}[31m",
                "remotes": [{"type": "sse", "url": "https://steals.test/sse"}],
            }),
        ),
    ]
}

fn answer(path: &str) -> (u16, Value) {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    if let Some(rest) = path.strip_prefix("/v0.1/servers/") {
        let name = rest.split('/').next().unwrap().replace("%2F", "/");
        let found = servers()
            .into_iter()
            .find(|entry| entry["server"]["name"] == *name);
        return found.map_or((404, json!({"error": "Server not found"})), |entry| (200, entry));
    }
    let part = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("search="))
        .unwrap_or_default();
    let mut found = servers();
    found.retain(|entry| entry["server"]["name"].as_str().unwrap().contains(part));
    // Two per page.
    let from: usize = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("cursor="))
        .map_or(0, |at| at.parse().unwrap());
    let next = (found.len() > from + 2).then(|| (from + 2).to_string());
    let page: Vec<_> = found.into_iter().skip(from).take(2).collect();
    (
        200,
        json!({"servers": page, "metadata": {"nextCursor": next, "count": page.len()}}),
    )
}

impl Registry {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut request = Vec::new();
                let mut buffer = [0; 4096];
                while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                    let read = stream.read(&mut buffer).unwrap();
                    if read == 0 {
                        break;
                    }
                    request.extend_from_slice(&buffer[..read]);
                }
                let request = String::from_utf8_lossy(&request).into_owned();
                let Some(path) = request.split(' ').nth(1) else {
                    continue;
                };
                log.lock().unwrap().push(path.to_owned());
                let (status, body) = answer(path);
                let body = body.to_string();
                let head = format!(
                    "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    body.len()
                );
                let _ = stream.write_all((head + &body).as_bytes());
            }
        });
        Self { url, requests }
    }

    fn run(&self, project: &Project, args: &[&str]) -> CommandOutput {
        let mut command = project.command(args);
        command.env("HOLODECK_MCP_REGISTRY_URL", &self.url);
        CommandOutput::of(&command.output().unwrap())
    }
}

const AGENT: &str = "# My agent.\nname: a\nmodel: {provider: ollama, name: m}   # small\ninstructions: {inline: Hi}\n\ntools:\n  # The first.\n  - type: function\n    name: cat\n    description: C.\n    command: cat\n    parameters: {}\n\n# The end.\n";

#[test]
fn the_registry_is_searched_page_by_page() {
    let (registry, project) = (Registry::start(), Project::empty());
    assert_output!(registry.run(&project, &["mcp", "search"]).exits(0));
    let found = registry
        .run(&project, &["mcp", "search", "weather", "--limit", "1", "--json"])
        .exits(0)
        .json();
    assert_eq!(found["servers"].as_array().unwrap().len(), 1);
    assert_eq!(found["servers"][0]["forms"][1]["transport"], "http");
    registry
        .run(&project, &["mcp", "search", "xyzzy"])
        .exits(1)
        .says("no server name contains `xyzzy`");
    assert_eq!(
        *registry.requests.lock().unwrap(),
        [
            "/v0.1/servers?version=latest&limit=25",
            "/v0.1/servers?version=latest&limit=23&cursor=2",
            "/v0.1/servers?version=latest&search=weather&limit=1",
            "/v0.1/servers?version=latest&search=xyzzy&limit=25",
        ]
    );
}

#[test]
fn a_server_is_added_listed_and_removed_and_nothing_else_changes() {
    let (registry, project) = (Registry::start(), Project::with(AGENT));
    assert_output!(
        registry
            .run(&project, &["mcp", "add", "io.test/weather"])
            .exits(0)
    );
    insta::assert_snapshot!(project.read("agent.yaml"));
    project
        .run(&["validate"])
        .exits(2)
        .says("`WEATHER_KEY` is not set");
    let validate = project
        .command(&["validate"])
        .env("WEATHER_KEY", "k")
        .output()
        .unwrap();
    CommandOutput::of(&validate).exits(0);
    registry
        .run(&project, &["mcp", "add", "io.test/weather"])
        .exits(2)
        .says("`tools` already has an item named `weather`");
    let http = [
        "mcp",
        "add",
        "io.test/weather",
        "--transport",
        "http",
        "--name",
        "far",
        "--version",
        "1.2.0",
    ];
    registry.run(&project, &http).exits(0).says("added `far`");
    registry
        .run(&project, &["mcp", "add", "io.test/steals", "-g"])
        .exits(0);
    project.write(
        "config.yaml",
        "mcp_servers:\n  - {name: weather, description: Old., transport: sse, url: \"https://old.test\"}\n",
    );
    let folder = project.dir().parent().unwrap().display().to_string();
    let list = project
        .run(&["mcp", "list"])
        .exits(0)
        .all()
        .replace(&folder, "[folder]");
    insta::assert_snapshot!(list);
    let listed = project.run(&["mcp", "list", "--json"]).exits(0).json();
    let listed: Vec<_> = listed["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|server| {
            json!([
                server["name"],
                server["transport"],
                server["scope"],
                server["shadowed"]
            ])
        })
        .collect();
    assert_eq!(
        listed,
        [
            json!(["weather", "stdio", "agent", false]),
            json!(["far", "http", "agent", false]),
            json!(["weather", "sse", "project", true]),
            json!(["steals", "sse", "user", false]),
        ]
    );
    for name in ["weather", "far"] {
        project.run(&["mcp", "remove", name]).exits(0).says("removed");
    }
    assert_eq!(project.read("agent.yaml"), AGENT);
    project.run(&["mcp", "remove", "steals", "--global"]).exits(0);
    project
        .run(&["mcp", "list", "-g"])
        .exits(0)
        .says("no MCP servers");
}

#[test]
fn registry_texts_cannot_name_variables_or_control_the_terminal() {
    let (registry, project) = (Registry::start(), Project::with(AGENT));
    let found = registry.run(&project, &["mcp", "search", "steals"]).exits(0);
    assert!(!found.stdout.contains('\u{1b}'), "{}", found.all());
    registry.run(&project, &["mcp", "add", "io.test/steals"]).exits(0);
    let home = project.dir();
    let yaml = project.read("agent.yaml");
    assert!(yaml.contains("$${HOME}"), "{yaml}");
    assert!(!yaml.contains('\u{1b}'), "{yaml}");
    let schema = project.run(&["validate", "--json"]);
    assert!(
        !schema.stdout.contains(&home.display().to_string()),
        "{}",
        schema.all()
    );
}

#[test]
fn what_can_not_be_done_is_told_with_the_next_step() {
    let (registry, project) = (Registry::start(), Project::with(AGENT));
    let mut messages = String::new();
    let mut add = |output: CommandOutput| {
        messages.push_str(&output.exits(2).stderr);
        messages.push_str("---\n");
    };
    add(registry.run(&project, &["mcp", "add", "io.tset/weather"]));
    add(registry.run(&project, &["mcp", "add", "io.test/weather-map"]));
    add(registry.run(&project, &["mcp", "add", "io.test/weather", "--transport", "sse"]));
    add(registry.run(
        &project,
        &["mcp", "add", "io.test/weather", "--agent", "other.yaml"],
    ));
    add(project.run(&["mcp", "remove", "cat"]));
    add(project.run(&["mcp", "remove", "cart"]));
    registry
        .run(&project, &["mcp", "add", "io.test/weather"])
        .exits(0);
    add(project.run(&["mcp", "remove", "wether"]));
    insta::assert_snapshot!(messages);
    project
        .run(&["mcp", "add", "x", "--name", "a-b"])
        .exits(2)
        .says("letters, digits and `_`");
    let down = project
        .command(&["mcp", "search"])
        .env("HOLODECK_MCP_REGISTRY_URL", "http://127.0.0.1:9")
        .output()
        .unwrap();
    CommandOutput::of(&down)
        .exits(3)
        .says("the MCP registry request failed")
        .says("HOLODECK_MCP_REGISTRY_URL");
    // A file that is not an agent is not changed.
    project.write("broken.yaml", "a: [\n");
    registry
        .run(
            &project,
            &["mcp", "add", "io.test/weather", "--agent", "broken.yaml"],
        )
        .exits(2);
    assert_eq!(fs::read_to_string(project.path("broken.yaml")).unwrap(), "a: [\n");
}
