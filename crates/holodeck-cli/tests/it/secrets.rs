//! No secret of an agent is shown or written: forms of secrets, places with secrets, outputs.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    sync::{Arc, Mutex},
    thread,
};

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use holodeck_testkit::{ModelServer, Reply};
use serde_json::{Value, json};

use crate::project::{CommandOutput, Project};

/// All decodings of `text`: once and twice from JSON, from percent encoding, and from Base64 at every offset. Does not
/// use the product's own encoders.
fn decoded(text: &str) -> Vec<String> {
    let once = unescaped(text);
    let mut all = vec![percent_decoded(text), unescaped(&once), text.to_owned(), once];
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || "+/-_".contains(c);
    for word in text.split(|c| !is_base64(c)).filter(|word| word.len() >= 8) {
        let word = word.replace('-', "+").replace('_', "/");
        for start in 0..4 {
            let rest = &word[start..];
            let bytes = STANDARD_NO_PAD
                .decode(&rest[..rest.len() / 4 * 4])
                .unwrap_or_default();
            all.push(String::from_utf8_lossy(&bytes).into_owned());
        }
    }
    all
}

fn unescaped(text: &str) -> String {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.extend(before.encode_utf16());
        let unit = after
            .strip_prefix('u')
            .and_then(|hex| u16::from_str_radix(hex.get(..4)?, 16).ok());
        let skipped = match (unit, after.chars().next()) {
            (Some(unit), _) => {
                out.push(unit);
                5
            }
            (None, Some(c)) => {
                out.extend(c.encode_utf16(&mut [0; 2]).iter());
                c.len_utf8()
            }
            (None, None) => 0,
        };
        rest = &after[skipped..];
    }
    out.extend(rest.encode_utf16());
    String::from_utf16_lossy(&out)
}

fn percent_decoded(text: &str) -> String {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        out.extend(before.bytes());
        match after.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = &after[2..];
            }
            None => rest = after,
        }
    }
    out.extend(rest.bytes());
    String::from_utf8_lossy(&out).replace('+', " ")
}

/// Fails if a text contains a secret, and names both.
#[track_caller]
fn assert_hidden(output: &str, text: &str, secrets: &[&str]) {
    for view in decoded(text) {
        for secret in secrets {
            if let Some(at) = view.find(secret) {
                let from = view.floor_char_boundary(at.saturating_sub(160));
                let to = view.ceil_char_boundary(at + secret.len() + 40);
                panic!("{secret:?} in {output}: …{}…", &view[from..to]);
            }
        }
    }
}

#[track_caller]
fn assert_output_hidden(what: &str, ran: &CommandOutput, secrets: &[&str]) {
    assert_hidden(&format!("stdout of {what}"), &ran.stdout, secrets);
    assert_hidden(&format!("stderr of {what}"), &ran.stderr, secrets);
}

/// A secret without a known shape that can be written as a plain scalar.
const PLAIN: &str = "Zq7horse-battery9";

/// An agent file with the secret in place of `§`, which a diagnostic points to.
fn in_agent(more: &str) -> String {
    format!("name: a\nmodel:\n  provider: openai\n  name: m\ninstructions: {{inline: Hi}}\n{more}")
        .replace('§', PLAIN)
}

fn in_model(line: &str) -> String {
    in_agent("")
        .replace("  name: m\n", &format!("  name: m\n{line}\n"))
        .replace('§', PLAIN)
}

fn in_tool(line: &str) -> String {
    in_agent(&format!(
        "tools:\n  - type: mcp\n    name: db\n    description: D.\n    command: cat\n{line}\n"
    ))
}

#[track_caller]
fn assert_diagnostics_hide(forms: &[(&str, String)]) {
    let project = Project::empty();
    for (name, yaml) in forms {
        project.write("agent.yaml", yaml);
        // Every command shows diagnostics as `validate` does.
        for args in [&["validate"][..], &["validate", "--json"]] {
            let ran = project.run(args);
            assert_output_hidden(&format!("{args:?} for {name}:\n{}", ran.all()), &ran, &[PLAIN]);
            assert_eq!(ran.code, Some(2), "{name}: {}", ran.all());
            assert!(ran.all().contains("agent.yaml"), "{name}: {}", ran.all());
        }
    }
}

#[test]
fn values_of_unknown_fields_are_not_shown() {
    assert_diagnostics_hide(&[
        ("misspelt", in_model("  api_keyy: §")),
        ("without a separator", in_model("  apikey: §")),
        ("quoted", in_model("  \"api-keyy\": \"§\"")),
        ("a list", in_model("  api_key: [§]")),
        ("a mapping", in_model("  api_key: {§}")),
        (
            "a mapping of a mapping",
            in_model("  api_key:\n    value:\n      inner: §"),
        ),
        ("literal block", in_model("  api_keyy: |\n    §\n    more §")),
        ("folded over lines", in_model("  api_keyy: one\n    § two\n    §")),
        (
            "a key of a known shape",
            in_model(&format!("  nmae: sk-{}", "a1B2".repeat(8))),
        ),
        (
            "flow mapping",
            in_agent("").replace(
                "model:\n  provider: openai\n  name: m\n",
                &format!("model: {{provider: openai, name: m, api_key: {PLAIN}, tempertaure: 1}}\n"),
            ),
        ),
        (
            "JSON",
            format!(
                "{{\"name\": \"a\", \"model\": {{\"provider\": \"openai\", \"name\": \"m\", \"api_key\": \"{PLAIN}\", \"x\": 1}}, \"instructions\": {{\"inline\": \"Hi\"}}}}"
            ),
        ),
        ("endpoint", in_model("  endpont: \"ftp://me:§@host/v1?tier=§#§\"")),
        (
            "endpoint in a flow mapping",
            in_agent("embedding_provider: {provider: openai, endpont: 'https://§@host/?§'}\n"),
        ),
    ]);
    let key = format!("sk-{}", "a1B2".repeat(8));
    let project = Project::with(&in_model(&format!("  nmae: {key} # or {key}")));
    for args in [
        &["validate"][..],
        &["test"],
        &["run", "Hi"],
        &["doctor"],
        &["index", "status"],
    ] {
        let ran = project.run(args);
        assert_output_hidden(&format!("{args:?}"), &ran, &[&key]);
        ran.exits(2);
    }
}

#[test]
fn no_yaml_form_of_a_secret_is_shown() {
    assert_diagnostics_hide(&[
        ("explicit key", in_model("  ? api_keyy\n  : §")),
        ("complex key", in_model("  ? [api_key, §]\n  : §")),
        ("key is missing", in_model("  : §")),
        ("tab", in_model("\tapi_key: §")),
        ("tab in a deeper line", in_model("  api_key: §\n\t\tmore: §")),
        ("header list", in_tool("    headers: [\"X-Api-Key: §\"]")),
        (
            "header items",
            in_tool("    headers:\n      - name: X-Api-Key\n        value: §"),
        ),
        (
            "header with a harmless name",
            in_tool("    headers: {Accept: §, X: [1]}"),
        ),
        (
            "env list",
            in_tool("    env:\n      - DB_TOKEN=§\n      - MODE=§"),
        ),
        ("env value", in_tool("    env: {MODE: [§]}")),
        (
            "arguments",
            in_tool("    args: [--token, §, '--password=§', 'TOKEN=§'], x: y"),
        ),
        (
            "arguments in lines",
            in_tool("    args:\n      - {a: b}\n      - --token\n      - §"),
        ),
        (
            "config",
            in_tool("    config: {api_token: §, deep: {client_secret: §}}\n    nope: 1")
                .replace("config: {", "confg: {"),
        ),
        ("same key twice", in_model("  api_key: §\n  api_key: x§")),
        (
            "same key twice in a flow mapping",
            in_tool("    env: {TOKEN: §, TOKEN: x§}"),
        ),
        (
            "otlp headers",
            in_agent("observability: {exporters: {otlp: {headers: [§], enabeld: true}}}\n"),
        ),
        (
            "connection string",
            in_agent("observability:\n  exporters:\n    azure_monitor: {connection_string: [Key=§], x: 1}\n"),
        ),
        (
            "default of a variable",
            in_model("  temperature: ${TEMPERATURE:-§}"),
        ),
        (
            "default of a variable in a URL",
            in_model("  endpont: https://${HOST:-§}/v1"),
        ),
        (
            "alias",
            in_model("  api_keyy: *key").replace(
                "name: a\n",
                &format!("author: &key {PLAIN}\nname: a\nnope: *key\n"),
            ),
        ),
        ("merge", in_model("  <<: {api_keyy: §}")),
        ("tag", in_model("  api_key: !vault §")),
        ("comment", in_model("  tempertaure: 1 # api_key: §")),
        (
            "comment between places",
            in_model("  api_key: a\n  # password=§\n  api_key: b"),
        ),
        ("open quote", in_model("  api_key: \"§\n  x: y")),
        ("open flow mapping", in_tool("    env: {TOKEN: §, A: [§")),
        ("colon in a value", in_model("  api_key: a: §")),
        ("colon after a value", in_model("  api_key: x §: name: §")),
        (
            "two documents",
            format!("{}---\napi_key: {PLAIN}\n", in_model("  api_key: §")),
        ),
        (
            "environment of a deployment",
            in_agent("deployment: {environment: {MODE: [§]}}\n"),
        ),
        (
            "expected arguments",
            in_agent("test_cases:\n  - inputt: x\n    expected_tools: [{name: t, args: {token: §}}], x: y\n"),
        ),
    ]);
}

#[test]
fn files_beside_the_agent_are_masked_too() {
    let project = Project::with(&in_agent(""));
    project.write("config.yaml", format!("vectorstores:\n  db: {{provider: qdrant, api_key: {PLAIN}, url: 'http://u:{PLAIN}@h', x: }}\nnope: {{password: {PLAIN}}}\n"));
    let ran = project.run(&["validate"]);
    assert_output_hidden("validate", &ran, &[PLAIN]);
    assert!(ran.exits(2).all().contains("config.yaml:3"));
    project.write(
        "config.yaml",
        format!("vectorstores:\n  db: {{provider: qdrant, api_key: {PLAIN}\n"),
    );
    let ran = project.run(&["validate"]);
    assert_output_hidden("validate", &ran, &[PLAIN]);
    assert!(ran.exits(2).all().contains("config.yaml"));
}

/// A secret that is encoded differently in JSON, in URLs and in Base64, one for each place.
fn secret(place: &str) -> String {
    format!("Zq7 {place}/\"horse\"&é9")
}

/// The same without characters that a URL or an unquoted argument cannot have.
fn simple(place: &str) -> String {
    format!("Zq7{place}Horse9")
}

/// Prints its arguments and variables plainly, as JSON, percent-encoded and as Base64.
const ECHO: &str = r#"
import base64, json, os, sys, urllib.parse
names = [name for name in os.environ if name.startswith("MY_") or name == "MCP_CONFIG"]
raw = [*sys.argv[1:], *(os.environ[name] for name in sorted(names))]
lines = ["application/json blue-green"]
for value in raw:
    lines += [value, json.dumps(value), json.dumps(json.dumps({"v": value})), json.dumps(value, ensure_ascii=False)]
    lines += [urllib.parse.quote(value), urllib.parse.quote(value, safe=""), urllib.parse.quote_plus(value)]
    lines += [base64.b64encode((before + value).encode()).decode() for before in ["", "u", "us:"]]
    lines += ["Authorization: Bearer " + value.replace(" ", "")]
ECHOED = "\n".join(lines)
"#;

const SERVER: &str = r#"
tool = {"name": "dump", "inputSchema": {"type": "object"}}
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m: continue
    r = {"initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": sys.argv[-1], "version": "1"}},
         "tools/list": {"tools": [tool]},
         "tools/call": {"content": [{"type": "text", "text": ECHOED}]}}.get(m["method"])
    e = {"result": r} if r else {"error": {"code": -32601, "message": "no " + ECHOED}}
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], **e}), flush=True)
"#;

/// An agent with a secret in every place of a valid file, and the list of the secrets.
fn vault(url: &str, collector: &str) -> (Project, Vec<String>) {
    let mut secrets = Vec::new();
    let mut all = |name: &str, secret: String| {
        secrets.push(secret.clone());
        (format!("§{name}§"), secret)
    };
    let names = [
        "userinfo",
        "query",
        "judgeuser",
        "judgequery",
        "embeduser",
        "embedquery",
        "mcpuser",
        "mcpquery",
        "fileuser",
        "filesig",
        "argtoken",
        "argkey",
        "envurl",
        "mcpargkey",
        "headerarg",
        "expected",
    ];
    let special = [
        "apikey",
        "judgekey",
        "embedkey",
        "toolenv",
        "mcpenv",
        "config",
        "header",
        "plainheader",
        "otlp",
        "azure",
        "envfile",
    ];
    let values: Vec<(String, String)> = names
        .map(|name| all(name, simple(name)))
        .into_iter()
        .chain(special.map(|name| all(name, secret(name))))
        .collect();
    let host = url.strip_prefix("http://").unwrap();
    let quote = |text: &str| json!(text).to_string();
    let fill = |text: &str, quoted: bool| {
        values.iter().fold(
            text.replace("HOST", host).replace("COLLECTOR", collector),
            |text, (name, value)| {
                let value = if quoted {
                    quote(value).trim_matches('"').to_owned()
                } else {
                    value.clone()
                };
                text.replace(name, &value)
            },
        )
    };
    let yaml = r#"
name: vault
model:
  provider: openai
  name: test-model
  endpoint: "http://me:§userinfo§@HOST?tier=§query§"
  api_key: "§apikey§"
embedding_provider: {provider: openai, name: e, endpoint: "http://me:§embeduser§@HOST?v=§embedquery§", api_key: "§embedkey§"}
instructions: {inline: Answer.}
execution: {parallel_test_cases: 1}
evaluations:
  model: {provider: openai, name: judge, endpoint: "http://me:§judgeuser§@HOST?v=§judgequery§", api_key: "§judgekey§"}
  metrics: [{type: standard, metric: contains}]
observability:
  enabled: true
  traces: {capture_content: true}
  exporters:
    console: {enabled: true}
    otlp: {enabled: true, endpoint: "COLLECTOR", protocol: http, headers: {x-tenant: "§otlp§"}}
    azure_monitor: {enabled: false, connection_string: "InstrumentationKey=1;Key=§azure§"}
tools:
  - type: function
    name: echo
    description: Echoes.
    command: python3
    args: [./echo.py, --token, "${API_TOKEN}", "--key=§argkey§", -H, "X-Api-Key: §headerarg§"]
    env: {MY_PASSWORD: "§toolenv§", MY_URL: "postgres://me:§envurl§@db/x", MY_STAGE: blue-green}
  - type: mcp
    name: local
    description: L.
    command: python3
    args: [./server.py, "--key=${MCP_KEY}"]
    env: {MY_SECRET: "§mcpenv§"}
    env_file: server.env
    config: {api_token: "§config§", mode: blue-green}
  - type: mcp
    name: remote
    description: R.
    transport: http
    required: false
    url: "http://me:§mcpuser§@127.0.0.1:9/mcp?v=§mcpquery§"
    headers: {X-Api-Key: "§header§", X-Region: "§plainheader§", Accept-Language: application/json}
test_cases:
  - {name: echoed, input: Echo!, ground_truth: blue-green}
  - name: expected
    input: Echo!
    ground_truth: "${EXPECTED_TOKEN}"
    expected_tools: [{name: echo, args: {path: "${EXPECTED_TOKEN}x"}}]
  - name: file
    input: Read!
    ground_truth: blue-green
    files: [{url: "http://me:§fileuser§@127.0.0.1:9/a.csv?v=1&sig=§filesig§", type: csv}]
"#;
    let project = Project::with(&fill(yaml, true));
    project.write(
        ".env",
        fill(
            "API_TOKEN=§argtoken§\nEXPECTED_TOKEN=§expected§\nMCP_KEY=§mcpargkey§\n",
            false,
        ),
    );
    project.write(
        "server.env",
        fill("MY_FILE_TOKEN=§envfile§\nMY_FILE_MODE=blue-green\n", false),
    );
    project.write("echo.py", format!("{ECHO}print(ECHOED)\n"));
    project.write("server.py", format!("{ECHO}{SERVER}"));
    (project, secrets)
}

/// A model that calls both tools and repeats their results.
fn parrot() -> ModelServer {
    ModelServer::answering(|request| {
        let results = request.texts("tool");
        match results.first() {
            None => Reply::tool_call("c1", "echo", &json!({"path": "x"})).and_tool_call(
                "c2",
                "mcp__local__dump",
                "{}",
            ),
            Some(_) => Reply::text(results.join("\n"))
                .and_reasoning(results[0])
                .in_pieces(40),
        }
    })
}

/// Stores the body of every request. Headers are ignored, as their secrets are meant for the collector.
struct Collector {
    url: String,
    bodies: Arc<Mutex<Vec<String>>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let bodies = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&bodies);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let log = Arc::clone(&log);
                thread::spawn(move || serve(BufReader::new(stream.unwrap()), &log));
            }
        });
        Self { url, bodies }
    }
}

fn serve(mut stream: BufReader<TcpStream>, log: &Mutex<Vec<String>>) -> Option<()> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok().filter(|read| *read > 0)?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            let mut body = vec![0; length];
            stream.read_exact(&mut body).ok()?;
            log.lock()
                .unwrap()
                .push(String::from_utf8_lossy(&body).into_owned());
            stream
                .get_mut()
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                .ok()?;
        }
    }
}

/// Collects the files that a run wrote.
fn written_files(folder: &Path, files: &mut Vec<(String, String)>) {
    const OWN: [&str; 5] = ["agent.yaml", ".env", "server.env", "echo.py", "server.py"];
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            written_files(&path, files);
        } else if !OWN.contains(&path.file_name().unwrap().to_str().unwrap()) {
            files.push((
                path.display().to_string(),
                String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned(),
            ));
        }
    }
}

pub(crate) const REPORTS: [&str; 5] = ["json", "markdown", "junit", "html", "jsonl"];

#[test]
fn a_run_shows_and_stores_no_secret() {
    let server = parrot();
    let collector = Collector::start();
    let (project, secrets) = vault(&server.url(), &collector.url);
    let secrets: Vec<&str> = secrets.iter().map(String::as_str).collect();
    let reports = REPORTS.map(|format| format!("--report={format}=out/{format}"));
    let mut args = vec!["test", "-vv", "--record", "calls.jsonl"];
    args.extend(reports.iter().map(String::as_str));
    let ran = project.run(&args);
    assert_eq!(ran.code, Some(1), "{}", ran.all());
    assert_output_hidden("test -vv", &ran, &secrets);
    assert_eq!(server.requests().len(), 4, "{}", ran.all());
    let echoed = decoded(&server.requests()[1].texts("tool").join("\n")).join("\n");
    for place in ["toolenv", "mcpenv", "envfile", "config"] {
        assert!(
            echoed.contains(&secret(place)),
            "{place} was not echoed: {echoed}"
        );
    }
    for args in [
        &["test", "--json", "-q"][..],
        &["test", "--replay", "calls.jsonl", "--filter", "echoed", "-v"],
        &["test", "regrade", "latest"],
        &["test", "--dry-run"],
        &["validate", "-v"],
        &["doctor"],
        &["mcp", "list"],
        &["mcp", "list", "--json"],
        &["run", "Echo!", "-vv"],
        &["run", "--json", "Echo!"],
    ] {
        let ran = project.run(args);
        assert_output_hidden(&format!("{args:?}"), &ran, &secrets);
        assert!(matches!(ran.code, Some(0 | 1 | 3)), "{args:?}: {}", ran.all());
    }
    let mut files = Vec::new();
    written_files(&project.dir(), &mut files);
    assert!(files.len() > 5 + 2 * 3, "{files:?}");
    for (path, text) in &files {
        assert_hidden(path, text, &secrets);
    }
    let exported = collector.bodies.lock().unwrap().join("\n");
    assert!(
        exported.contains("application/json blue-green"),
        "content was not exported"
    );
    assert_hidden("telemetry", &exported, &secrets);
    // Texts that are not secret stay readable.
    let report = project.read("out/json");
    assert!(report.contains("application/json blue-green"), "{report}");
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["results"][0]["passed"], true, "{report}");
    server.finish();
}

#[test]
fn answers_without_secrets_stay_as_they_are() {
    let answer = "Use application/json, `max_tokens: 100`, the basic understanding of an API key, \
                  Authorization: required, https://docs.test/a?page=2#top and monkey-business.";
    let server = ModelServer::answering(move |_| Reply::text(answer));
    let project = Project::with(&crate::project::agent(
        &server.url(),
        "  - {name: a, input: Which?, ground_truth: monkey-business}\n",
    ));
    project.run(&["test"]).exits(0);
    let result = &project.run_file()["report"]["results"][0];
    assert_eq!(result["agent_response"], answer);
    let ran = project.run(&["run", "Which?"]).exits(0);
    assert_eq!(ran.stdout.trim_end(), answer);
    server.finish();
}
