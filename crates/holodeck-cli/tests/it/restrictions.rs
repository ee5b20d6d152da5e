//! Tests of restrictions that an agent keeps, although something beside its YAML could allow it: files of specialists, settings of the
//! checkout, names of servers, and paths of files to be written.

use std::fs;

use holodeck_testkit::{AnthropicReply, AnthropicServer, ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::{
    claude::Bench,
    project::{Project, SECRET},
};

const RUN: &[&str] = &["run", "--command", "review", "look at src"];

/// An agent with a reader, a writer and a skill, and a specialist with these lines in its front matter.
fn specialist(url: &str, front: &str) -> Project {
    let project = Project::with(&format!(
        "name: routed\nmodel: {{provider: openai, name: m, endpoint: {url}, api_key: {SECRET}}}\n\
         instructions: {{inline: Help.}}\ntools:\n\
         - {{type: function, name: read_file, description: Reads., command: cat, parameters: {{}}, side_effects: none}}\n\
         - {{type: function, name: deploy, description: Deploys., command: touch, args: [deployed], parameters: {{}}}}\n\
         - {{type: function, name: delete, description: Deletes., command: touch, args: [deployed], parameters: {{}}}}\n\
         routing:\n  commands: [review]\n  min_confidence: 0.1\n  agents: {{directories: [{{path: .claude/agents}}]}}\n"
    ));
    project.write(
        ".claude/agents/reviewer.md",
        format!(
            "---\nname: reviewer\ndescription: Reviews code\ncommands: [review]\n{front}---\nYou review.\n"
        ),
    );
    project
}

#[test]
fn a_specialist_has_no_tool_that_its_file_denies_or_its_mode_takes_away() {
    for (front, expected) in [
        ("", &["read_file", "deploy", "delete"][..]),
        ("disallowedTools: deploy\n", &["read_file", "delete"]),
        ("disallowedTools: [deploy, delete]\n", &["read_file"]),
        ("disallowedTools: 'de*'\n", &["read_file"]),
        (
            "tools: read_file, deploy\ndisallowedTools: deploy, Write\n",
            &["read_file"],
        ),
        ("disallowedTools: '*'\n", &[]),
        ("permissionMode: plan\n", &["read_file"]),
        ("tools: [deploy]\npermissionMode: plan\n", &[]),
        ("permissionMode: default\n", &["read_file", "deploy", "delete"]),
        (
            "permissionMode: bypassPermissions\n",
            &["read_file", "deploy", "delete"],
        ),
    ] {
        // The model calls what it is not shown.
        let server = ModelServer::answering(|request| match request.texts("tool").first() {
            None => Reply::tool_call("call-1", "deploy", &json!({})),
            Some(_) => Reply::text("Done."),
        });
        let project = specialist(&server.url(), front);
        let ran = project.run(RUN);
        let requests = server.finish();
        let names: Vec<_> = requests[0].body["tools"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|tool| tool["function"]["name"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(names, expected, "{front}: {}", ran.all());
        let deployed = project.path("deployed").exists();
        assert_eq!(deployed, expected.contains(&"deploy"), "{front}: {}", ran.all());
    }
}

#[test]
fn an_unknown_permission_mode_is_an_error_and_the_file_is_not_used() {
    for mode in ["planning", "Plan", "''", "[plan]"] {
        let server = ModelServer::answering(|_| Reply::text("Done."));
        let project = specialist(&server.url(), &format!("permissionMode: {mode}\n"));
        let ran = project.run(RUN);
        assert!(ran.stderr.contains("`permissionMode`"), "{mode}: {}", ran.all());
        for request in server.finish() {
            assert!(!request.body.to_string().contains("You review."), "{mode}");
        }
    }
}

#[test]
fn a_specialist_that_plans_has_only_the_clis_readers() {
    let server = AnthropicServer::answering(|_| AnthropicReply::text("No bugs."));
    let agent = "name: routed\nmodel: {provider: anthropic, name: sonnet}\ninstructions: {inline: Help.}\n\
                 claude: {file_system: {read: true, write: true, edit: true}, bash: {enabled: true}}\n\
                 tools:\n- {type: function, name: count, description: C., command: wc, parameters: {}}\n\
                 routing:\n  commands: [review]\n  min_confidence: 0.1\n  agents: {directories: [{path: agents}]}\n";
    let bench = Bench::new(agent, server);
    for (front, expected) in [
        ("permissionMode: plan\n", &["Glob", "Grep", "Read"][..]),
        (
            "disallowedTools: Write, Bash, count\n",
            &["Edit", "Glob", "Grep", "Read"],
        ),
    ] {
        bench.project.write(
            "agents/reviewer.md",
            format!("---\nname: reviewer\ndescription: Reviews code\ncommands: [review]\n{front}---\nYou review.\n"),
        );
        let ran = bench.run(RUN).exits(0);
        let request = bench.server.requests().pop().unwrap();
        let mut tools = request.tool_names();
        tools.sort_unstable();
        assert_eq!(tools, expected, "{front}: {}", ran.all());
    }
    bench.server.finish();
}

#[test]
fn a_file_to_be_written_that_the_run_reads_or_that_has_other_content_is_refused() {
    let server = ModelServer::answering(|_| Reply::text("Done."));
    let project = specialist(&server.url(), "");
    let agent = project.read("agent.yaml");
    fs::write(project.path("notes.txt"), "mine\n").unwrap();
    fs::write(project.path("empty.jsonl"), "").unwrap();
    std::os::unix::fs::symlink("agent.yaml", project.path("link.jsonl")).unwrap();
    for (path, code) in [
        ("agent.yaml", 2),
        ("./sub/../agent.yaml", 2),
        ("link.jsonl", 2),
        ("notes.txt", 2),
        (".claude", 2),
        ("new/telemetry.jsonl", 0),
        ("new/telemetry.jsonl", 0),
        ("empty.jsonl", 0),
        ("/dev/null", 0),
    ] {
        fs::create_dir_all(project.path("sub")).unwrap();
        project.write("agent.yaml", format!("{agent}telemetry: {{jsonl: {path}}}\n"));
        let before = project.read("agent.yaml");
        let ran = project.run(RUN);
        assert_eq!(ran.code, Some(code), "{path}: {}", ran.all());
        if code == 2 {
            assert!(ran.stderr.contains("telemetry.jsonl"), "{path}: {}", ran.all());
        }
        assert_eq!(project.read("agent.yaml"), before, "{path}");
        assert_eq!(project.read("notes.txt"), "mine\n");
    }
    server.finish();
}

#[test]
fn conversations_are_stored_in_no_file_that_has_something_else() {
    let server = ModelServer::answering(|_| Reply::text("Done."));
    let project = specialist(&server.url(), "");
    let agent = project.read("agent.yaml");
    fs::write(project.path("notes.txt"), "mine\n").unwrap();
    fs::write(project.path("empty.db"), "").unwrap();
    // The database of another program: two pages without our mark.
    let mut other = b"SQLite format 3\0\x10\x00".to_vec();
    other.resize(8192, 0);
    fs::write(project.path("other.db"), &other).unwrap();
    let mut marked = other.clone();
    marked[68..72].copy_from_slice(b"Mine");
    fs::write(project.path("marked.db"), &marked).unwrap();
    std::os::unix::fs::symlink("agent.yaml", project.path("link.db")).unwrap();
    fs::create_dir_all(project.path("sub")).unwrap();
    let commands: [&[&str]; 3] = [
        &["chat", "--once", "hi", "--save"],
        &["serve", "--port", "0"],
        RUN,
    ];
    for (path, code) in [
        ("agent.yaml", 2),
        ("./sub/../agent.yaml", 2),
        ("link.db", 2),
        ("notes.txt", 2),
        ("other.db", 2),
        ("marked.db", 2),
        ("sub", 2),
        ("new/events.db", 0),
        ("new/events.db", 0),
        ("empty.db", 0),
    ] {
        project.write("agent.yaml", format!("{agent}events: {{path: {path}}}\n"));
        let before = project.read("agent.yaml");
        for command in commands
            .iter()
            .filter(|command| code == 2 || command[0] != "serve")
        {
            let ran = project.run(command);
            assert_eq!(ran.code, Some(code), "{path} {command:?}: {}", ran.all());
            if code == 2 {
                assert!(
                    ran.stderr.contains("events.path"),
                    "{path} {command:?}: {}",
                    ran.all()
                );
            }
        }
        assert_eq!(project.read("agent.yaml"), before, "{path}");
        assert_eq!(project.read("notes.txt"), "mine\n");
        assert_eq!(fs::read(project.path("other.db")).unwrap(), other);
        assert_eq!(fs::read(project.path("marked.db")).unwrap(), marked);
    }
    server.finish();
}

#[test]
fn answers_of_models_are_kept_in_no_file_that_has_something_else() {
    let server = ModelServer::answering(|_| Reply::text("Done."));
    let project = specialist(&server.url(), "");
    let agent = project.read("agent.yaml");
    fs::create_dir_all(project.path("theirs")).unwrap();
    let mut other = b"SQLite format 3\0\x10\x00".to_vec();
    other.resize(8192, 0);
    fs::write(project.path("theirs/models.db"), &other).unwrap();
    fs::write(project.path("file"), "mine\n").unwrap();
    std::os::unix::fs::symlink("theirs", project.path("link")).unwrap();
    let commands: [&[&str]; 5] = [
        &["chat", "--once", "hi"],
        &["serve", "--port", "0"],
        RUN,
        &["test"],
        &["test", "--dry-run"],
    ];
    for (path, named) in [
        ("theirs", "theirs/models.db"),
        ("link", "link/models.db"),
        ("file", "file"),
    ] {
        let cases = "evaluations: {metrics: [{type: standard, metric: contains}]}\n\
                     test_cases: [{name: one, input: q, ground_truth: Done}]\n";
        project.write(
            "agent.yaml",
            format!("{agent}{cases}execution: {{cache_dir: {path}}}\n"),
        );
        for command in commands {
            let ran = project.run(command).exits(2);
            for text in ["execution.cache_dir", named] {
                assert!(ran.stderr.contains(text), "{path} {command:?}: {}", ran.all());
            }
        }
        assert_eq!(fs::read(project.path("theirs/models.db")).unwrap(), other);
        assert_eq!(project.read("file"), "mine\n");
    }
    assert!(server.finish().is_empty());
}

#[test]
fn programs_of_the_checkouts_settings_need_allowed_side_effects_in_a_test() {
    let server = AnthropicServer::answering(|_| AnthropicReply::text("yes"));
    let agent = "name: a\nmodel: {provider: anthropic, name: sonnet}\ninstructions: {inline: Hi}\n\
                 claude: {setting_sources: [project]}\n\
                 evaluations: {metrics: [{type: standard, metric: contains}]}\n\
                 test_cases: [{name: one, input: q, ground_truth: \"yes\"}]\n";
    let bench = Bench::new(agent, server);
    let hook =
        json!({"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "touch hooked"}]}]}});
    bench.project.write(".claude/settings.json", hook.to_string());
    let ran = bench.run(&["test"]).exits(2);
    assert!(ran.stderr.contains("`hooks` in"), "{}", ran.all());
    assert!(ran.stderr.contains("--allow-side-effects"), "{}", ran.all());
    assert!(!bench.project.path("hooked").exists());
    bench.run(&["test", "--allow-side-effects"]).exits(0);
    assert!(bench.project.path("hooked").exists());
    // Settings without programs need nothing.
    bench
        .project
        .write(".claude/settings.json", "{\"cleanupPeriodDays\": 3}");
    bench.run(&["test"]).exits(0);
    bench.server.finish();
}

#[test]
fn a_name_that_the_cli_keeps_is_an_error_and_two_underscores_are_a_warning() {
    let yaml = |provider: &str, name: &str| {
        format!(
            "name: a\nmodel: {{provider: {provider}, name: sonnet}}\ninstructions: {{inline: Hi}}\n\
             tools: [{{type: mcp, name: {name}, description: d, command: cat}}]\n"
        )
    };
    for name in [
        "ide",
        "workspace",
        "workspace_",
        "webagent",
        "claude_ai",
        "Claude_Browser",
        "Claude_Preview",
        "Claude_in_Chrome",
    ] {
        let project = Project::with(&yaml("anthropic", name));
        project
            .run(&["validate"])
            .exits(2)
            .says(&format!("the Claude Code CLI keeps the server name `{name}`"));
        let project = Project::with(&yaml("openai", name));
        project.run(&["validate"]).exits(0);
    }
    for provider in ["anthropic", "openai"] {
        let project = Project::with(&yaml(provider, "shop__eu"));
        project
            .run(&["validate"])
            .exits(0)
            .says("`__` in the server name `shop__eu`");
    }
}

/// A stdio server with the tools that its arguments name; without any, its list is empty, and with `-`, listing fails.
const SERVER: &str = r"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if 'id' not in message: continue
    answer = {'jsonrpc': '2.0', 'id': message['id'], 'result': {}}
    if message['method'] == 'initialize':
        answer['result'] = {'protocolVersion': '2025-06-18', 'capabilities': {'tools': {}}, 'serverInfo': {'name': 's', 'version': '1'}}
    if message['method'] == 'tools/list':
        if '-' in sys.argv:
            del answer['result']
            answer['error'] = {'code': -32603, 'message': 'no list'}
        else:
            answer['result'] = {'tools': [{'name': n, 'description': 'd', 'inputSchema': {'type': 'object'}} for n in sys.argv[1:]]}
    print(json.dumps(answer), flush=True)
";

const CASES: &str = "evaluations: {metrics: [{type: standard, metric: contains}]}\n\
                     test_cases: [{name: one, input: q, ground_truth: \"yes\"}]\n";

/// An agent with these servers: a name, the tools, further keys.
fn servers(model: &str, servers: &[(&str, &str, &str)]) -> String {
    let servers: Vec<String> = servers
        .iter()
        .map(|(name, tools, more)| {
            format!(
                "  - {{type: mcp, name: {name}, description: d, command: python3, args: [./server.py{tools}]{more}}}\n"
            )
        })
        .collect();
    format!(
        "name: a\nmodel: {model}\ninstructions: {{inline: Hi}}\ntools:\n{}{CASES}",
        servers.concat()
    )
}

/// The name of a server, its arguments and its fields.
type Server = (&'static str, &'static str, &'static str);

/// Servers, and a part of the error; `None`: the run passes.
const SERVERS: &[(&[Server], Option<&str>)] = &[
    (&[("shop", ", lists", "")], None),
    (
        &[("shop", "", "")],
        Some("`shop` is connected, but none of its tools is offered"),
    ),
    (&[("shop", "", ", required: false")], None),
    (&[("shop", ", '-'", "")], Some("`shop`")),
    (
        &[("shop", ", eu__list", ""), ("shop__eu", ", list", "")],
        Some("mcp__shop__eu__list`"),
    ),
    (&[("shop", ", list", ""), ("shop__eu", ", list", "")], None),
];

#[test]
fn a_required_server_offers_a_tool_and_no_two_tools_have_one_name_on_openai() {
    for (list, problem) in SERVERS {
        let server = ModelServer::answering(|_| Reply::text("yes"));
        let model = format!("{{provider: openai, name: m, endpoint: \"{}\"}}", server.url());
        let project = Project::with(&servers(&model, list));
        project.write("server.py", SERVER);
        let ran = project.run(&["test"]);
        match problem {
            None => assert_eq!(ran.code, Some(0), "{list:?}: {}", ran.all()),
            Some(problem) => {
                assert!(matches!(ran.code, Some(2 | 3)), "{list:?}: {}", ran.all());
                assert!(ran.all().contains(problem), "{list:?}: {}", ran.all());
            }
        }
        server.finish();
    }
}

#[test]
fn a_required_server_offers_a_tool_and_no_two_tools_have_one_name_on_the_cli() {
    for (list, problem) in SERVERS {
        let server = AnthropicServer::answering(|_| AnthropicReply::text("yes"));
        let bench = Bench::new(&servers("{provider: anthropic, name: sonnet}", list), server);
        bench.project.write("server.py", SERVER);
        let ran = bench.run(&["test"]);
        match problem {
            None => assert_eq!(ran.code, Some(0), "{list:?}: {}", ran.all()),
            Some(problem) => {
                assert!(matches!(ran.code, Some(2 | 3)), "{list:?}: {}", ran.all());
                assert!(ran.all().contains(problem), "{list:?}: {}", ran.all());
            }
        }
        bench.server.finish_unchecked();
    }
}

#[test]
fn a_skill_that_leads_out_of_its_folder_is_not_used_and_others_can_be_named() {
    let skill = "---\nname: notes\ndescription: Writes notes.\n---\nWrite.\n";
    let yaml = "name: a\nmodel: {provider: anthropic, name: sonnet}\ninstructions: {inline: Hi}\n\
                claude: {allowed_tools: [skill__notes]}\n\
                routing: {commands: [notes], skills: {directory: skills}}\n";
    let project = Project::with(yaml);
    project.write("skills/notes/SKILL.md", skill);
    let ran = project.run(&["validate"]).exits(0);
    assert!(!ran.all().contains("skill__notes"), "{}", ran.all());
    project.write("outside/SKILL.md", skill.replace("notes", "other"));
    project.write("outside/run.sh", "echo outside\n");
    std::os::unix::fs::symlink("../outside", project.path("skills/other")).unwrap();
    project.write("skills/third/SKILL.md", skill.replace("notes", "third"));
    fs::create_dir(project.path("skills/third/scripts")).unwrap();
    std::os::unix::fs::symlink(
        "../../../outside/run.sh",
        project.path("skills/third/scripts/run.sh"),
    )
    .unwrap();
    let ran = project.run(&["validate"]);
    let left: Vec<_> = ran
        .stderr
        .lines()
        .chain(ran.stdout.lines())
        .filter(|line| line.contains("is a link that leaves the folder of skills"))
        .collect();
    assert_eq!(left.len(), 2, "{}", ran.all());
}
