//! `holodeck deploy build`: which files get into an image, which never do, and what the image may do.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
};

use pretty_assertions::assert_eq;

use crate::project::{CommandOutput, Project, SECRET};

/// An agent with a document tool; more lines can follow.
const AGENT: &str = "name: Order Desk\nmodel: {provider: openai, name: gpt-4o-mini}\ninstructions: {file: prompts/system.md}\n\
    embedding_provider: {provider: hash}\n\
    tools:\n- {type: vectorstore, name: kb, description: The handbook., source: docs}\n\
    test_cases_file: cases.jsonl\nevents: {store: memory}\n";

/// A key that no machine has.
const SHAPE: &str = "sk-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// A program for Linux that needs no loader.
fn static_program() -> Vec<u8> {
    program(1)
}

/// A program whose only header has this type.
fn program(header: u8) -> Vec<u8> {
    let mut bytes = vec![0; 120];
    bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
    bytes[18] = 62;
    bytes[32] = 64;
    bytes[54] = 56;
    bytes[56] = 1;
    bytes[64] = header;
    bytes
}

fn project() -> Project {
    project_with(AGENT)
}

fn project_with(agent: &str) -> Project {
    let project = Project::with(agent);
    project.write("prompts/system.md", "Answer briefly.\n");
    project.write("docs/handbook.md", "Refunds within 30 days.\n");
    project.write("cases.jsonl", "{\"name\": \"one\", \"input\": \"Refund?\"}\n");
    // Beside the project, so that it is no file of it.
    fs::write(project.path("../holodeck-static"), static_program()).unwrap();
    project
}

/// Writes the context to `out`.
fn build(project: &Project, more: &[&str]) -> CommandOutput {
    let mut command = project.command(&["deploy", "build", "--context-only"]);
    command.args(["--program", "../holodeck-static"]).args(more);
    if !more.contains(&"--output") {
        command.args(["--output", "out"]);
    }
    CommandOutput::of(&command.env("DESK_TOKEN", SECRET).output().unwrap())
}

/// The names of the files of a context, without the program and the files of the system.
fn names(project: &Project) -> Vec<String> {
    let root = project.path("out");
    let mut names = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                names.push(path.strip_prefix(&root).unwrap().display().to_string());
            }
        }
    }
    names.retain(|name| name.starts_with("agent/") || name.starts_with("state/.holodeck/index"));
    names.sort();
    names
}

/// Whether a text is in a file of the context.
fn has(project: &Project, text: &str) -> bool {
    let found = std::process::Command::new("grep")
        .args([
            "--recursive",
            "--quiet",
            "--binary-files=text",
            "--fixed-strings",
            text,
        ])
        .arg(project.path("out"))
        .status()
        .unwrap();
    found.success()
}

#[test]
fn a_context_has_what_the_agent_names_and_nothing_else() {
    let project = project_with(&format!(
        "{AGENT}evaluations: {{metrics: [{{type: code, name: own, grader: \"graders.own:grade\"}}]}}\n\
         response_format: format.json\nexecution: {{parallel_test_cases: 1}}\n"
    ));
    project.write("format.json", "{\"type\": \"object\"}");
    project.write("graders/__init__.py", "");
    project.write("graders/own.py", "def grade(case):\n    return 1.0\n");
    project.write("requirements.txt", "# none\n");
    project.write("judge-steps.json", "{}");
    for (name, text) in [
        (".env", "DESK_TOKEN=other-secret-value\n"),
        ("docs/.env", "A=other-secret-value\n"),
        ("docs/server.pem", "text"),
        ("notes.md", "not named"),
        ("results/old/run.json", "{}"),
        (".git/HEAD", "ref: refs/heads/main"),
        ("README.md", "x"),
    ] {
        project.write(name, text);
    }
    build(&project, &[]).exits(0);
    assert_eq!(
        names(&project),
        [
            "agent/agent.yaml",
            "agent/cases.jsonl",
            "agent/docs/handbook.md",
            "agent/format.json",
            "agent/graders/__init__.py",
            "agent/graders/own.py",
            "agent/judge-steps.json",
            "agent/prompts/system.md",
            "agent/requirements.txt",
        ]
    );
    assert!(!has(&project, "other-secret-value"));
}

/// Where a secret is, and what is said of it: nothing may be written.
#[test]
fn a_secret_in_a_file_of_the_agent_is_refused_with_its_place() {
    let utf16: Vec<u8> = [0xFF, 0xFE]
        .into_iter()
        .chain(format!("x {SECRET}\n").encode_utf16().flat_map(u16::to_le_bytes))
        .collect();
    let with = |line: &str| format!("{AGENT}{line}\n").into_bytes();
    let literal = AGENT.replace("name: gpt-4o-mini", "name: gpt-4o-mini, api_key: hunter2");
    let long = AGENT.replace("name: gpt-4o-mini", "name: gpt-4o-mini, api_key: hunter2-hunter2");
    let url = AGENT.replace(
        "name: gpt-4o-mini",
        "name: m, endpoint: \"https://me:pass-word@host/v1\"",
    );
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        (
            "docs/a.md",
            format!("one\n  {SECRET}").into(),
            "docs/a.md:2:3: a secret of this machine",
        ),
        ("docs/a.md", utf16, "docs/a.md:1:3: a secret of this machine"),
        (
            "docs/a.md",
            SHAPE.into(),
            "docs/a.md:1:1: a text with the shape of a key",
        ),
        (
            "prompts/system.md",
            format!("key {SHAPE}").into(),
            "prompts/system.md:1:5: a text with the shape",
        ),
        (
            "cases.jsonl",
            format!("{{\"input\": \"{SECRET}\"}}\n").into(),
            "cases.jsonl:1:12: a secret",
        ),
        (
            "agent.yaml",
            literal.into(),
            "agent.yaml:2:55: a key that is written in the file",
        ),
        (
            "agent.yaml",
            long.into(),
            "agent.yaml:2:55: a key that is written in the file",
        ),
        ("agent.yaml", url.into(), "agent.yaml:2:"),
        (
            "agent.yaml",
            with(&format!("# {SHAPE}")),
            "agent.yaml:9:3: a text with the shape of a key",
        ),
        (
            "config.yaml",
            format!("# {SECRET}\nexecution: {{llm_timeout: 9}}\n").into(),
            "config.yaml:1:3: a secret",
        ),
    ];
    for (name, content, place) in cases {
        let project = project();
        project.write(name, content);
        build(&project, &[]).exits(2).says(place);
        assert!(!project.path("out").exists(), "{name} {place}");
    }
}

#[test]
fn only_what_is_no_secret_of_this_machine_can_be_allowed() {
    let project = project();
    project.write("docs/a.md", SHAPE);
    build(&project, &["--allow", "docs/a.md"])
        .exits(0)
        .says("note: allowed: docs/a.md:1:1: a text with the shape of a key");
    project.write("docs/a.md", format!("{SHAPE}\n{SECRET}"));
    fs::remove_dir_all(project.path("out")).unwrap();
    build(&project, &["--allow", "docs/a.md"])
        .exits(2)
        .says("docs/a.md:2:1: a secret of this machine");
    assert!(!project.path("out").exists());
}

#[test]
fn no_link_and_no_path_leads_out_of_the_folder() {
    for (link, to) in [("docs/a.md", "../../outside.md"), ("docs/deep", "../..")] {
        let project = project();
        fs::write(project.path("../outside.md"), "private").unwrap();
        symlink(to, project.path(link)).unwrap();
        let agent = AGENT.replace("source: docs", "source: docs, follow_links: true");
        project.write("agent.yaml", agent);
        build(&project, &[])
            .exits(2)
            .says("is outside of the agent's folder");
        assert!(!project.path("out").exists());
    }
    for (from, to) in [
        ("source: docs", "source: ../elsewhere"),
        ("file: prompts/system.md", "file: ../elsewhere/a.md"),
        (
            "test_cases_file: cases.jsonl",
            "test_cases_file: ../elsewhere/cases.jsonl",
        ),
    ] {
        let project = project_with(&AGENT.replace(from, to));
        project.write("../elsewhere/a.md", "x");
        project.write("../elsewhere/cases.jsonl", "{\"input\": \"x\"}\n");
        build(&project, &[])
            .exits(2)
            .says("is outside of the agent's folder")
            .says("agent.yaml:");
    }
    // A link to a file that holds keys has a harmless name.
    let project = project();
    project.write(".env", "PLAIN=not-masked-by-its-name\n");
    symlink("../.env", project.path("docs/a.md")).unwrap();
    let agent = AGENT.replace("source: docs", "source: docs, follow_links: true");
    project.write("agent.yaml", agent);
    build(&project, &[])
        .exits(0)
        .says("`docs/a.md` is left out: set its variables where the container runs");
    build(&project, &["--allow", "docs/a.md", "--allow", ".env"]).exits(0);
    assert!(
        !has(&project, "not-masked-by-its-name"),
        "a file of variables was allowed"
    );
    project.write("docs/tls.pem", "public");
    symlink("tls.pem", project.path("docs/b.md")).unwrap();
    build(&project, &[])
        .exits(0)
        .says("`docs/b.md` is left out: by its name it holds keys");
    build(&project, &["--allow", "docs/b.md"]).exits(0);
    assert!(project.path("out/agent/docs/b.md").exists());
}

#[test]
fn two_contexts_are_equal_in_every_byte() {
    let tar = |project: &Project| {
        build(project, &["--output", "context.tar"]);
        fs::read(project.path("context.tar")).unwrap()
    };
    let listing = |project: &Project| {
        build(project, &[]).exits(0);
        let find = std::process::Command::new("find")
            .args(["out", "-type", "f", "-printf", "%P %m %s %Ts\n"])
            .current_dir(project.dir())
            .output()
            .unwrap();
        let mut lines: Vec<String> = String::from_utf8(find.stdout)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect();
        lines.sort();
        lines
    };
    let (one, other) = (project(), project());
    // Written later and with another mode.
    fs::set_permissions(other.path("docs/handbook.md"), fs::Permissions::from_mode(0o600)).unwrap();
    let first = listing(&one);
    assert_eq!(first, listing(&other));
    assert_eq!(first, listing(&one), "a second time in the same folder");
    assert!(first.iter().all(|line| line.ends_with(" 0")), "{first:?}");
    let bytes = tar(&one);
    assert!(bytes == tar(&other));
    // Another program reads it.
    fs::create_dir(one.path("unpacked")).unwrap();
    let unpacked = std::process::Command::new("tar")
        .args(["--extract", "--file", "context.tar", "--directory", "unpacked"])
        .current_dir(one.dir())
        .status()
        .unwrap();
    assert!(unpacked.success());
    assert_eq!(
        one.read("unpacked/agent/docs/handbook.md"),
        "Refunds within 30 days.\n"
    );
    assert_eq!(one.read("unpacked/Containerfile"), one.read("out/Containerfile"));
    let program = fs::metadata(one.path("unpacked/rootfs/usr/local/bin/holodeck")).unwrap();
    assert_eq!(program.permissions().mode() & 0o777, 0o755);
}

/// The last instruction of this name.
fn last<'a>(containerfile: &'a str, name: &str) -> &'a str {
    let mut lines = containerfile.lines().rev();
    lines
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
        .unwrap_or_default()
}

#[test]
fn no_image_runs_as_root_or_has_a_writable_agent() {
    let python = "- {type: function, name: f, description: F., file: tools/f.py, function: f}\n";
    let node = "- {type: mcp, name: m, description: M., command: npx, args: [-y, some-server]}\n";
    let tools = |more: &str| AGENT.replace("source: docs}\n", &format!("source: docs}}\n{more}"));
    for (agent, base) in [
        (AGENT.to_owned(), "scratch"),
        (tools(python), "docker.io/library/python:3.13-slim"),
        (tools(node), "docker.io/library/node:22-slim"),
        (
            tools(&format!("{python}{node}")),
            "docker.io/library/python:3.13-slim",
        ),
        (
            AGENT.replace(
                "provider: openai, name: gpt-4o-mini",
                "provider: anthropic, name: claude-sonnet-4-5",
            ),
            "docker.io/library/node:22-slim",
        ),
    ] {
        let project = project_with(&agent);
        project.write("tools/f.py", "def f():\n    return 1\n");
        build(&project, &[]).exits(0);
        let text = project.read("out/Containerfile");
        assert_eq!(last(&text, "FROM"), base, "{text}");
        assert_eq!(last(&text, "USER"), "10001:10001");
        // Nothing is copied or run after the user is set, and only the state belongs to it.
        let after = text.split("USER 10001").nth(1).unwrap();
        assert!(!after.contains("COPY") && !after.contains("RUN"), "{after}");
        for owned in text.lines().filter(|line| line.contains("--chown")) {
            assert!(
                owned == "COPY --chown=10001:10001 state/ /agent/"
                    || owned == "COPY --chown=10001:10001 tmp/ /tmp/",
                "{owned}"
            );
        }
        assert!(
            last(&text, "HEALTHCHECK").contains("\"internal\",\"probe\",\"http://127.0.0.1:8080/health\"")
        );
        assert!(
            last(&text, "CMD")
                .starts_with("[\"serve\",\"agent.yaml\",\"--host\",\"0.0.0.0\",\"--port\",\"8080\"")
        );
    }
}

#[test]
fn a_program_that_the_image_could_not_run_is_refused() {
    let project = project();
    fs::write(project.path("../holodeck-static"), program(3)).unwrap();
    build(&project, &[]).exits(2).says("is linked dynamically");
    build(&project, &["--base", "debian:stable-slim"]).exits(0);
    assert_eq!(
        last(&project.read("out/Containerfile"), "FROM"),
        "debian:stable-slim"
    );
    // The program of the tests themselves.
    project
        .run(&["deploy", "build", "--dry-run"])
        .exits(2)
        .says("--program");
    fs::write(project.path("../holodeck-static"), "#!/bin/sh\n").unwrap();
    build(&project, &[]).exits(2).says("is not a program for Linux");
}

#[test]
fn the_agent_file_keeps_its_name_and_the_yaml_decides_tag_port_and_protocol() {
    let deployment = "deployment:\n  registry: {url: \"https://registry.example.com/\", repository: team/desk, \
        tag_strategy: custom, custom_tag: v7}\n  \
        target: {provider: gcp, gcp: {project_id: my-project}}\n  protocol: ag-ui\n  port: 9090\n  \
        health_check_path: /up\n";
    let project = project();
    project.write("desk.yaml", format!("{AGENT}{deployment}"));
    let built = build(&project, &["desk.yaml", "--json"]).exits(0);
    assert_eq!(built.json()["image"], "registry.example.com/team/desk:v7");
    for note in [
        "`deployment.target` has no effect",
        "`deployment.health_check_path` has no effect",
    ] {
        assert!(built.stderr.contains(note), "{}", built.stderr);
    }
    assert!(project.path("out/agent/desk.yaml").exists() && !project.path("out/agent/agent.yaml").exists());
    let text = project.read("out/Containerfile");
    assert!(
        last(&text, "CMD")
            .contains("\"desk.yaml\",\"--host\",\"0.0.0.0\",\"--port\",\"9090\",\"--protocol\",\"ag-ui\"")
    );
    assert_eq!(last(&text, "EXPOSE"), "9090");
    let sha = deployment.replace("tag_strategy: custom, custom_tag: v7", "tag_strategy: git_sha");
    project.write("desk.yaml", format!("{AGENT}{sha}"));
    build(&project, &["desk.yaml"])
        .exits(2)
        .says("in no git repository")
        .says("desk.yaml:");
    build(&project, &["desk.yaml", "--tag", "two words"])
        .exits(2)
        .says("cannot be the tag");
    let arm = format!("{AGENT}{deployment}  platform: linux/arm64\n");
    project.write("desk.yaml", arm);
    build(&project, &["desk.yaml"])
        .exits(2)
        .says("runs on linux/amd64");
}

#[test]
fn an_index_is_in_the_state_and_one_that_is_written_is_not() {
    let project = project();
    project.run(&["index", "build"]).exits(0);
    let index = ".holodeck/index/order-desk/kb.db";
    build(&project, &[]).exits(0);
    assert!(project.path(&format!("out/state/{index}")).exists());
    project.write(&format!("{index}-wal"), "not empty");
    build(&project, &[]).exits(0).says("a program is writing it");
    assert!(!project.path(&format!("out/state/{index}")).exists());
}

#[test]
fn nothing_but_an_earlier_context_is_replaced() {
    let project = project();
    project.write("out/mine.txt", "mine");
    build(&project, &[]).exits(2).says("is no build context");
    assert_eq!(project.read("out/mine.txt"), "mine");
    fs::remove_dir_all(project.path("out")).unwrap();
    fs::create_dir(project.path("docs2")).unwrap();
    symlink("docs", project.path("out")).unwrap();
    build(&project, &[]).exits(2).says("is no build context");
    assert!(project.path("docs/handbook.md").exists());
}

/// A builder that writes its arguments and variables, and ends with this code.
fn builder(project: &Project, name: &str, code: i32) {
    let script = format!(
        "#!/bin/sh\necho \"$@\" > \"$HOME/args.txt\"\nenv > \"$HOME/env.txt\"\necho 'step 7 failed' >&2\nexit {code}\n"
    );
    let path = project.path(&format!("../home/bin/{name}"));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, script).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn build_with_builder(project: &Project, path: &str) -> CommandOutput {
    let mut command = project.command(&["deploy", "build", "--program", "../holodeck-static", "--no-cache"]);
    command
        .env("PATH", path)
        .env("DESK_TOKEN", SECRET)
        .env("DOCKER_HOST", "unix:///nowhere");
    CommandOutput::of(&command.output().unwrap())
}

#[test]
fn a_builder_gets_the_context_and_no_secret_and_its_failure_is_ours() {
    let project = project();
    project.write(".env", "DOCKER_CONFIG=/of/the/checkout\n");
    let home = project.path("../home").canonicalize().unwrap();
    let path = format!("{}/bin:/usr/bin:/bin", home.display());
    builder(&project, "podman", 0);
    build_with_builder(&project, &path)
        .exits(0)
        .says("built order-desk:latest (linux/amd64) with podman");
    let args = fs::read_to_string(home.join("args.txt")).unwrap();
    assert!(args.starts_with("build --file "), "{args}");
    assert!(
        args.contains("--tag order-desk:latest --platform linux/amd64 --no-cache"),
        "{args}"
    );
    let variables = fs::read_to_string(home.join("env.txt")).unwrap();
    assert!(variables.contains("DOCKER_HOST=unix:///nowhere"), "{variables}");
    assert!(
        !variables.contains(SECRET) && !variables.contains("/of/the/checkout"),
        "{variables}"
    );
    builder(&project, "podman", 125);
    build_with_builder(&project, &path)
        .exits(3)
        .says("could not build the image")
        .says("step 7 failed");
}

#[test]
fn without_a_builder_the_context_stays_and_the_exit_code_is_clear() {
    let project = project();
    let empty = project.path("../home");
    build_with_builder(&project, empty.to_str().unwrap())
        .exits(3)
        .says("no builder of images was found: docker, podman, buildah were looked for")
        .says("the context is in `.holodeck/deploy`");
    assert!(project.path(".holodeck/deploy/agent/agent.yaml").exists());
}

#[test]
fn commands_of_the_old_version_are_named_as_not_done() {
    let project = project();
    for command in [
        &["deploy", "run", "agent.yaml", "--dry-run"][..],
        &["deploy", "status"],
        &["deploy", "destroy", "--force"],
    ] {
        project
            .run(command)
            .exits(2)
            .says("is not done")
            .says("holodeck deploy kubernetes");
    }
}

#[test]
fn a_probe_is_green_only_for_a_success() {
    let project = project();
    for (answer, code) in [
        ("200 OK", 0),
        ("204 No Content", 0),
        ("503 Service Unavailable", 3),
        ("404 Not Found", 3),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/ready", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let mut client = listener.accept().unwrap().0;
            let mut request = [0; 1024];
            let length = client.read(&mut request).unwrap();
            assert!(request[..length].starts_with(b"GET /ready "));
            write!(
                client,
                "HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            )
            .unwrap();
        });
        // A proxy must not answer for the container.
        let mut probe = project.command(&["internal", "probe", &url]);
        let output = probe.env("HTTP_PROXY", "http://127.0.0.1:1").output().unwrap();
        CommandOutput::of(&output).exits(code);
        server.join().unwrap();
    }
    project
        .run(&["internal", "probe", "http://127.0.0.1:1/health"])
        .exits(3);
    project.run(&["internal", "probe", "not a url"]).exits(3);
}

#[test]
fn a_copy_has_every_file_and_follows_no_link() {
    let project = project();
    project.write("from/a/b.txt", "b");
    symlink("/etc/passwd", project.path("from/link")).unwrap();
    project.run(&["internal", "copy", "from", "to"]).exits(0);
    assert_eq!(project.read("to/a/b.txt"), "b");
    assert!(!Path::new(&project.path("to/link")).exists());
    project
        .run(&["internal", "copy", "missing", "to"])
        .exits(3)
        .says("cannot copy");
}
