//! `holodeck doctor` against scripted endpoints.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    thread,
};

use holodeck_testkit::{EndpointServer, ReceivedRequest, Reply};
use serde_json::{Value, json};

use crate::project::{Project, SECRET, TWO_CASES, agent, assert_output};

fn list(names: &[&str]) -> Reply {
    let models: Vec<_> = names.iter().map(|name| json!({"id": name})).collect();
    Reply::raw(200, "application/json", json!({"data": models}).to_string())
}

/// A server with a list of models that answers chats with `chat`.
fn serving(
    models: &'static [&'static str],
    chat: impl Fn() -> Reply + Send + Sync + 'static,
) -> EndpointServer {
    EndpointServer::answering(move |request| match request.route() {
        "/v1/models" => list(models),
        _ => chat(),
    })
}

#[test]
fn programs_that_grade_are_looked_for_and_imported() {
    let server = EndpointServer::replies([list(&["test-model"])]);
    let grades = "  - name: graded\n    input: q\n    ground_truth: a\n    evaluations:\n      \
                  - {type: code, name: there, grader: \"checks:grade\"}\n      \
                  - {type: code, name: raises, grader: \"broken:grade\"}\n      \
                  - {type: code, name: program, command: sh}\n      \
                  - {type: code, name: absent, command: no-such-grader}\n";
    let project = Project::with(&agent(&server.url(), grades));
    let grade = "def grade(context):\n    return True\n";
    project.write("checks.py", grade);
    project.write("broken.py", format!("import no_such_module\n{grade}"));
    let report = project.run(&["doctor", "--json"]).exits(1).json();
    let checks = report["checks"].as_array().unwrap().iter();
    let graders = checks.filter(|check| check["subject"].as_str().unwrap().starts_with("grader "));
    let graders: Vec<_> = graders
        .map(|check| {
            (
                check["subject"].as_str().unwrap(),
                check["state"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        graders,
        [
            ("grader `checks:grade`", "ok"),
            ("grader `broken:grade`", "missing"),
            ("grader `sh`", "ok"),
            ("grader `no-such-grader`", "missing"),
        ]
    );
}

#[test]
fn the_files_of_python_tools_are_compiled_and_not_run() {
    let server = EndpointServer::answering(|_| list(&["test-model"]));
    let tool =
        "tools:\n  - {type: function, name: stock, description: d, file: tools/stock.py, function: stock}\n";
    let project = Project::with(&format!("{}{tool}", agent(&server.url(), TWO_CASES)));
    let sound = "open('ran', 'w')\ndef stock(sku):\n    return 12\n";
    project.write("tools/stock.py", sound);
    project.run(&["doctor"]).exits(0);
    for (broken, place) in [
        (sound.replace("(sku):", "(sku)"), "tools/stock.py:2:"),
        (sound.replace("    return", "return"), "tools/stock.py:3:"),
    ] {
        project.write("tools/stock.py", broken);
        let report = project.run(&["doctor"]).exits(1);
        assert!(report.stdout.contains("✗ tool `stock`"), "{}", report.all());
        report.says(place).says("is not Python");
    }
    // Nothing of the file ran, and it left nothing.
    assert!(!project.path("ran").exists());
    assert!(!project.path("tools/__pycache__").exists());
}

#[test]
fn a_file_in_place_of_the_folder_of_run_files_is_found() {
    let server = EndpointServer::answering(|_| list(&["test-model"]));
    let project = project(&server);
    project.write("results/support", "");
    let (state, found) = check(&project, &[], 1, "results");
    assert_eq!(state, "missing");
    assert!(found.contains("`results/support` is a file"), "{found}");
    std::fs::remove_file(project.path("results/support")).unwrap();
    let (state, _) = check(&project, &[], 0, "results");
    assert_eq!(state, "ok");
}

fn project(server: &EndpointServer) -> Project {
    Project::with(&agent(&server.url(), TWO_CASES))
}

/// An agent whose key is in the YAML.
fn with_key(endpoint: &str, provider: &str) -> Project {
    let yaml = agent(endpoint, TWO_CASES).replace(
        "provider: openai\n",
        &format!("provider: {provider}\n  api_key: {SECRET}\n"),
    );
    Project::with(&yaml)
}

/// State and text of a check.
#[track_caller]
fn check(project: &Project, args: &[&str], exit: i32, subject: &str) -> (String, String) {
    let args = [&["doctor", "--json"], args].concat();
    let report = project.run(&args).exits(exit).json();
    assert_eq!(report["ok"], exit == 0, "{report}");
    let checks = report["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["subject"] == subject);
    let check = check.unwrap_or_else(|| panic!("no {subject} in {report}"));
    let text = |field: &str| check[field].as_str().unwrap().to_owned();
    (text("state"), text("found"))
}

/// The check of the endpoint when the request for the list of models gets `reply`.
#[track_caller]
fn endpoint(reply: Reply, exit: i32) -> (String, String) {
    let server = EndpointServer::replies([reply]);
    let found = check(&project(&server), &[], exit, "endpoint");
    let requests = server.finish();
    assert_eq!(
        (requests[0].method.as_str(), requests[0].route()),
        ("GET", "/v1/models")
    );
    found
}

#[test]
fn what_is_there_is_0() {
    let server = EndpointServer::replies([list(&["other", "test-model"])]);
    assert_output!(project(&server).run(&["doctor"]).exits(0));
    server.finish();
}

#[test]
fn a_server_that_is_down_is_1() {
    let server = EndpointServer::replies([]);
    let project = project(&server);
    server.finish();
    assert_output!(project.run(&["doctor"]).exits(1));
    let (state, found) = check(&project, &[], 1, "endpoint");
    assert_eq!(state, "missing");
    assert!(found.contains("connection refused"), "{found}");
}

#[test]
fn a_wrong_file_is_2() {
    Project::with("name: a\n").run(&["doctor"]).exits(2);
}

#[test]
fn a_refused_key_is_a_failure_and_not_shown() {
    for (status, provider) in [
        (401, "openai"),
        (403, "openai"),
        (401, "azure_openai"),
        (401, "anthropic"),
    ] {
        let message = format!("Incorrect API key provided: {SECRET}");
        let server = EndpointServer::answering(move |_| Reply::openai_error(status, &message, None, None));
        let project = with_key(&server.url(), provider);
        let (state, found) = check(&project, &[], 1, "endpoint");
        assert_eq!(state, "missing", "{found}");
        assert!(found.contains(&status.to_string()), "{found}");
        project.run(&["doctor"]).exits(1).says("check the key");
        let requests = server.finish();
        assert_eq!(requests.len(), 2);
        assert!(requests.iter().all(carries_key), "{provider}");
    }
}

fn carries_key(request: &ReceivedRequest) -> bool {
    let mut values = request.headers.iter().map(|(_, value)| value);
    request.route().ends_with("/v1/models") && values.any(|value| value.contains(SECRET))
}

#[test]
fn a_server_without_a_list_is_a_warning() {
    for reply in [
        Reply::openai_error(404, "Invalid URL", None, None),
        Reply::openai_error(405, "Method not allowed", None, None),
        Reply::openai_error(429, "Slow down", None, None),
        Reply::html(200, "Welcome"),
    ] {
        let (state, found) = endpoint(reply, 0);
        assert_eq!(state, "warning", "{found}");
    }
    let server = EndpointServer::replies([Reply::openai_error(404, "Invalid URL", None, None)]);
    assert_output!(project(&server).run(&["doctor"]).exits(0));
    server.finish();
    // JSON, but not a list: the endpoint is ok, the model is not checked.
    let server = EndpointServer::answering(|_| Reply::raw(200, "application/json", "{}"));
    let project = project(&server);
    assert_eq!(check(&project, &[], 0, "endpoint").0, "ok");
    assert_eq!(check(&project, &[], 0, "model").0, "not_checked");
    server.finish();
}

#[test]
fn a_server_that_fails_or_redirects_is_a_failure() {
    for reply in [
        Reply::openai_error(500, "Oops", None, None),
        Reply::raw(302, "text/plain", "").header("location", "/elsewhere"),
    ] {
        let (state, found) = endpoint(reply, 1);
        assert_eq!(state, "missing", "{found}");
    }
}

#[test]
fn a_server_that_hangs_is_a_failure() {
    for reply in [Reply::hang(), Reply::events(["[DONE]"]).hang_after(0)] {
        let server = EndpointServer::replies([reply]);
        let (state, found) = check(&project(&server), &["--timeout", "0.3"], 1, "endpoint");
        assert_eq!(state, "missing", "{found}");
        server.finish();
    }
}

#[test]
fn a_server_that_speaks_no_tls_is_a_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0]).unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    });
    let (state, found) = check(&Project::with(&agent(&url, TWO_CASES)), &[], 1, "endpoint");
    assert_eq!(state, "missing");
    assert!(found.contains("TLS"), "{found}");
    server.join().unwrap();
}

#[test]
fn a_model_that_is_not_listed_is_a_warning_that_names_others() {
    let server = EndpointServer::replies([list(&["test-model-2", "unrelated", "test-mode"])]);
    assert_output!(project(&server).run(&["doctor"]).exits(0));
    server.finish();
    let server = EndpointServer::replies([list(&["b", "c"])]);
    let ran = project(&server).run(&["doctor"]).exits(0);
    ran.says("available models: `b`, `c`");
    server.finish();
}

#[test]
fn names_are_compared_as_each_provider_means_them() {
    for (provider, name, listed, expected) in [
        ("openai", "gemini-2", "models/gemini-2", "ok"),
        ("openai", "gpt-4o", "gpt-4o-mini", "warning"),
        ("ollama", "llama3", "llama3:latest", "ok"),
        ("ollama", "llama3", "llama3:70b", "warning"),
        (
            "anthropic",
            "claude-sonnet-4-5",
            "claude-sonnet-4-5-20250929",
            "ok",
        ),
        (
            "anthropic",
            "claude-sonnet-4-5[1m]",
            "claude-sonnet-4-5-20250929",
            "ok",
        ),
        (
            "anthropic",
            "claude-sonnet-9",
            "claude-sonnet-4-5-20250929",
            "warning",
        ),
        ("anthropic", "sonnet", "claude-sonnet-4-5-20250929", "not_checked"),
        ("azure_openai", "my-deployment", "gpt-4o", "not_checked"),
    ] {
        let server = EndpointServer::replies([list(&[listed])]);
        let project = with_key(&server.url(), provider);
        let yaml = project
            .read("agent.yaml")
            .replace("name: test-model", &format!("name: {name:?}"));
        project.write("agent.yaml", yaml);
        // Without the Claude Code CLI an agent of provider anthropic lacks something.
        let exit = i32::from(provider == "anthropic");
        let (state, found) = check(&project, &[], exit, "model");
        assert_eq!(state, expected, "{provider} {name}: {found}");
        server.finish();
    }
}

#[test]
fn without_an_own_credential_no_request_is_made() {
    let server = EndpointServer::replies([]);
    for (model, variables) in [
        ("provider: azure_openai", &[][..]),
        ("provider: anthropic", &[]),
        (
            "provider: anthropic\n  auth_provider: oauth_token",
            &[("CLAUDE_CODE_OAUTH_TOKEN", SECRET), ("ANTHROPIC_API_KEY", SECRET)],
        ),
        (
            "provider: anthropic\n  auth_provider: custom",
            &[("ANTHROPIC_AUTH_TOKEN", SECRET)],
        ),
    ] {
        let yaml = agent(&server.url(), TWO_CASES).replace("provider: openai", model);
        let project = Project::with(&yaml);
        let output = project
            .command(&["doctor", "--json"])
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let checks = report["checks"].as_array().unwrap();
        let endpoint = checks
            .iter()
            .find(|check| check["subject"] == "endpoint")
            .unwrap();
        assert_eq!(endpoint["state"], "not_checked", "{model}: {report}");
    }
    assert_eq!(server.finish().len(), 0);
}

#[test]
fn folders_that_cannot_be_written_are_failures() {
    let server = serving(&["test-model"], || Reply::text("Yes."));
    for place in [".holodeck", ".holodeck/runs", "results"] {
        let project = project(&server);
        project.write(place, "in the way");
        let (state, found) = check(&project, &[], 1, "results");
        assert_eq!(state, "missing", "{place}: {found}");
        assert!(found.contains(place), "{found}");
    }
    let project = project(&server);
    assert_eq!(check(&project, &[], 0, "results").0, "ok");
    let left: Vec<_> = fs::read_dir(project.dir()).unwrap().collect();
    assert_eq!(left.len(), 1, "only the agent file: {left:?}");
    server.finish();
}

#[test]
fn live_makes_one_short_request() {
    let server = serving(&["test-model"], || Reply::text("Yes."));
    let project = project(&server);
    assert_output!(project.run(&["doctor", "--live"]).exits(0));
    let requests = server.finish();
    let [list, chat] = requests.as_slice() else {
        panic!("{requests:?}");
    };
    assert_eq!(
        (list.route(), chat.route()),
        ("/v1/models", "/v1/chat/completions")
    );
    assert_eq!(chat.body["max_tokens"], 16);
    assert_eq!(chat.body["tools"], Value::Null);
    assert!(!chat.body.to_string().contains("Answer briefly"), "{}", chat.body);
    // A model that reasons may use up its few tokens before it answers.
    let server = serving(&["test-model"], || Reply::nothing().finish_reason("length"));
    check(&crate::doctor::project(&server), &["--live"], 0, "live request");
    server.finish();
}

#[test]
fn a_live_request_that_fails_is_3() {
    let server = serving(&["test-model"], || {
        Reply::openai_error(
            404,
            &format!("no such model for {SECRET}"),
            Some("model_not_found"),
            None,
        )
    });
    let project = with_key(&server.url(), "openai");
    assert_output!(project.run(&["doctor", "--live"]).exits(3));
    assert_eq!(check(&project, &["--live"], 3, "live request").0, "missing");
    server.finish();
    for reply in [
        Reply::nothing(),
        Reply::text("Half").cut_after(1),
        Reply::refusal("No."),
    ] {
        let server = serving(&["test-model"], move || reply.clone());
        let (state, found) = check(&crate::doctor::project(&server), &["--live"], 3, "live request");
        assert_eq!(state, "missing", "{found}");
        server.finish();
    }
    let down = EndpointServer::replies([]);
    let project = crate::doctor::project(&down);
    down.finish();
    check(&project, &["--live"], 3, "endpoint");
}

/// A key of the shell goes to a server of the file, and a program of the file runs, only after that was said.
#[test]
fn what_the_env_file_of_a_checkout_decides_is_said_before_it_happens() {
    let server = EndpointServer::answering(|_| list(&["m"]));
    let yaml = "name: a\nmodel: {provider: openai, name: m}\ninstructions: {inline: Hi}\n";
    let project = Project::with(yaml);
    project.write(".env", format!("OPENAI_BASE_URL={}/v1\n", server.url()));
    for flags in [
        &["doctor"][..],
        &["doctor", "--json"],
        &["doctor", "-q"],
        &["validate"],
    ] {
        let output = project
            .command(flags)
            .env("OPENAI_API_KEY", SECRET)
            .output()
            .unwrap();
        let ran = crate::project::CommandOutput::of(&output);
        let said = format!(
            "decides where `OPENAI_API_KEY` of the user goes, to `{}/`",
            server.url()
        );
        assert!(ran.all().contains(&said), "{flags:?}: {}", ran.all());
        assert!(!ran.all().contains(SECRET), "{flags:?}");
    }
    // The user's own choice, and a file that has both.
    let own = [("OPENAI_API_KEY", SECRET), ("OPENAI_BASE_URL", &server.url())];
    let output = project.command(&["doctor"]).envs(own).output().unwrap();
    let ran = crate::project::CommandOutput::of(&output);
    assert!(!ran.all().contains("HD0812"), "{}", ran.all());
    project.write(
        ".env",
        format!("OPENAI_BASE_URL={}\nOPENAI_API_KEY={SECRET}\n", server.url()),
    );
    assert!(!project.run(&["doctor"]).all().contains("HD0812"));
    server.finish();
    let project = Project::with(&yaml.replace("openai", "anthropic"));
    project.write(
        "claude.sh",
        "#!/bin/sh\ntouch ran\necho '2.1.330 (Claude Code)'\n",
    );
    let program = project.path("claude.sh");
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    project.write(".env", format!("HOLODECK_CLAUDE_CLI={}\n", program.display()));
    let output = project.command(&["doctor", "-q"]).output().unwrap();
    let ran = crate::project::CommandOutput::of(&output);
    assert!(
        ran.stderr
            .contains("decides which programs run: it sets `HOLODECK_CLAUDE_CLI`"),
        "{}",
        ran.all()
    );
}
