//! Tests of actions that an agent in a test must not take, and of secrets that must not leak.

use std::{fs, path::Path};

use holodeck_testkit::{AnthropicReply, AnthropicServer};
use serde_json::json;

use super::{Bench, INSTRUCTIONS, agent};

/// A model that writes a file if it can.
fn writing() -> AnthropicServer {
    AnthropicServer::answering(|request| {
        if !request.tool_results().is_empty() {
            return AnthropicReply::text("written");
        }
        if request.tool_names().contains(&"Write") {
            AnthropicReply::tool_use(
                "Write",
                &json!({"file_path": "made.txt", "content": "by the agent"}),
            )
        } else {
            AnthropicReply::text("can't")
        }
    })
}

const WRITES: &str = "claude: {file_system: {read: true, write: true}, bash: {enabled: true}}";

#[test]
fn tools_with_side_effects_need_to_be_allowed() {
    let bench = Bench::new(&agent(WRITES, &[("one", "can't")]), writing());
    let ran = bench.run(&["test"]).exits(0);
    assert!(
        ran.stderr
            .contains("this test runs without `Bash`, `Write`, which may change something"),
        "{}",
        ran.all()
    );
    assert!(!bench.project.path("made.txt").exists());
    for request in bench.server.finish() {
        let names = request.tool_names();
        assert!(!names.contains(&"Write") && !names.contains(&"Bash"), "{names:?}");
        assert!(names.contains(&"Read"), "{names:?}");
    }
}

#[test]
fn allowed_side_effects_run_with_a_warning() {
    let bench = Bench::new(&agent(WRITES, &[("one", "written")]), writing());
    let ran = bench.run(&["test", "-v", "--allow-side-effects"]).exits(0);
    assert!(
        ran.stderr
            .contains("this test runs with `Bash`, `Write`, which may change something"),
        "{}",
        ran.all()
    );
    assert!(
        ran.stderr.contains("its tools may have side effects"),
        "{}",
        ran.all()
    );
    assert_eq!(bench.project.read("made.txt"), "by the agent");
    bench.server.finish();
}

#[test]
fn an_agent_does_not_read_the_report_of_an_earlier_run() {
    let server = AnthropicServer::answering(|request| {
        let results = request.last_results();
        match &results[..] {
            [] => AnthropicReply::nothing()
                .and_tool_use("Read", &json!({"file_path": "report.json"}))
                .and_tool_use(
                    "Grep",
                    &json!({"pattern": "gingerbread", "output_mode": "content"}),
                )
                .and_tool_use("Read", &json!({"file_path": "notes.txt"})),
            [(read, _), (found, _), (notes, is_error)] => {
                assert!(notes.contains("free to read") && !is_error, "{notes}");
                let is_known = format!("{read}{found}").contains("gingerbread");
                AnthropicReply::text(if is_known { "gingerbread" } else { "unknown" })
            }
            other => AnthropicReply::text(format!("{} results", other.len())),
        }
    });
    let more = "claude: {file_system: {read: true}}";
    let bench = Bench::new(&agent(more, &[("one", "gingerbread")]), server);
    bench.project.write("notes.txt", "free to read");
    // The first run writes the expectation into its report, and the second must not find it there.
    for _ in 0..2 {
        let ran = bench.run(&["test", "--output", "report.json"]).exits(1);
        assert!(
            bench.project.read("report.json").contains("gingerbread"),
            "{}",
            ran.all()
        );
        assert!(
            bench.project.read("report.json").contains("unknown"),
            "{}",
            ran.all()
        );
    }
    bench.server.finish();
}

#[test]
fn an_agent_without_side_effects_gets_no_warning() {
    let server = AnthropicServer::answering(|_| AnthropicReply::text("yes"));
    let more = "claude: {file_system: {read: true}}";
    let bench = Bench::new(&agent(more, &[("one", "yes")]), server);
    for args in [&["test"][..], &["test", "--allow-side-effects"]] {
        let ran = bench.run(args).exits(0);
        assert!(!ran.stderr.contains("this test runs with"), "{}", ran.all());
    }
    bench.server.finish();
}

/// A secret of a server.
const TOKEN: &str = "token-81c2-for-the-shelves-only";

/// A stdio server with one tool.
const SHELVES: &str = r#"while IFS= read -r line; do
  id=${line#*'"id":'}
  id=${id%%[,\}]*}
  case $line in
  *'"method":"initialize"'*)
    result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"shelves","version":"1"}}'
    ;;
  *'"method":"tools/list"'*) result='{"tools":[{"name":"look","description":"Looks.","inputSchema":{"type":"object"}}]}' ;;
  *'"method":"notifications/'*) continue ;;
  *) result='{}' ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
  printf '%s\n' "$SHELVES_TOKEN $ANTHROPIC_API_KEY" >seen
done
"#;

#[test]
fn secrets_reach_only_their_owners() {
    let server = AnthropicServer::answering(|request| {
        let key = request.header("x-api-key").unwrap_or_default();
        AnthropicReply::text(if key.is_empty() { "no" } else { "yes" })
    });
    let more = "tools:\n  - {type: mcp, name: shelves, description: none, command: /bin/sh, args: [shelves.sh], \
                env: {SHELVES_TOKEN: \"${SHELVES_TOKEN}\"}}";
    let bench = Bench::new(&agent(more, &[("one", "yes")]), server);
    bench.project.write("shelves.sh", SHELVES);
    let reports = [
        "--report",
        "html=r.html",
        "--report",
        "junit=r.xml",
        "--report",
        "markdown=r.md",
    ];
    let args = [&["test", "-vv"][..], &reports].concat();
    let output = bench.command(&args).env("SHELVES_TOKEN", TOKEN).output().unwrap();
    let ran = bench.check_ended(&output).exits(0);
    assert!(!ran.all().contains(TOKEN), "{}", ran.all());
    // The server has its own secret and not the model's.
    let environment = bench.project.read("seen");
    assert!(
        environment.contains(TOKEN) && !environment.contains(crate::project::SECRET),
        "{environment}"
    );
    fs::remove_file(bench.project.path("seen")).unwrap();
    for secret in [TOKEN, crate::project::SECRET] {
        let argv = bench.argv();
        assert!(argv.contains("--system-prompt-file"), "{argv}");
        assert!(!argv.contains(secret), "{argv}");
        assert!(!argv.contains(INSTRUCTIONS), "{argv}");
        let mut files = 0;
        search(&bench.project.dir(), secret, &mut files);
        assert!(
            files >= 5,
            "{files} files: journal, run file and reports are missing"
        );
    }
    bench.server.finish();
}

/// Checks that no file below `folder` contains `secret`.
fn search(folder: &Path, secret: &str, files: &mut usize) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            search(&path, secret, files);
        } else {
            *files += 1;
            let content = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
            assert!(!content.contains(secret), "{} holds {secret}", path.display());
        }
    }
}
