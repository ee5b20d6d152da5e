//! Programs of `claude.hooks` on the real CLI: they see what happens, and change nothing.

use std::{fs, os::unix::fs::PermissionsExt as _};

use holodeck_testkit::{AnthropicReply, AnthropicServer};
use serde_json::{Value, json};

use super::{Bench, agent};
use crate::project::{CommandOutput, Project, SECRET};

/// A model that writes a file if it can.
fn writing() -> AnthropicServer {
    AnthropicServer::answering(|request| {
        if !request.tool_results().is_empty() {
            return AnthropicReply::text("written");
        }
        if request.tool_names().contains(&"Write") {
            AnthropicReply::tool_use("Write", &json!({"file_path": "made.txt", "content": SECRET}))
        } else {
            AnthropicReply::text("can't")
        }
    })
}

/// A `claude:` block with one program for each of these events.
fn observed(events: &[&str]) -> String {
    let hooks: Vec<String> = events
        .iter()
        .map(|event| format!("{event}: [{{command: ./hook.sh, args: [{event}]}}]"))
        .collect();
    format!(
        "claude: {{file_system: {{read: true, write: true}}, hooks: {{{}}}}}",
        hooks.join(", ")
    )
}

const EVERY: [&str; 7] = [
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "Notification",
    "Stop",
    "SessionEnd",
];

fn bench(events: &[&str], truth: &str, script: &str) -> Bench {
    let bench = Bench::new(&agent(&observed(events), &[("one", truth)]), writing());
    write_hook(&bench, script);
    bench
}

fn write_hook(bench: &Bench, script: &str) {
    bench.project.write("hook.sh", format!("#!/bin/sh\n{script}\n"));
    fs::set_permissions(bench.project.path("hook.sh"), fs::Permissions::from_mode(0o755)).unwrap();
}

fn seen(project: &Project, event: &str) -> Vec<Value> {
    let path = project.path(&format!("seen-{event}"));
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The output of a command, without the ends of lines that a terminal's width causes.
fn flat(ran: &CommandOutput) -> String {
    let all = ran.all();
    all.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// An answer that the CLI's own hooks would obey: a block, a rejection, changed arguments, exit code 2.
const REFUSES: &str = r#"cat >>seen-$1
echo '{"decision":"block","reason":"no","continue":false,"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","updatedInput":{"file_path":"other.txt","content":"x"}}}'
echo "no: $1" >&2
exit 2"#;

#[test]
fn a_hook_that_refuses_changes_no_call_no_request_and_no_verdict() {
    let plain = Bench::new(&agent(&observed(&[]), &[("one", "written")]), writing());
    plain.run(&["test", "--allow-side-effects"]).exits(0);
    let hooked = bench(&EVERY, "written", REFUSES);
    let ran = hooked.run(&["test", "--allow-side-effects"]).exits(0);
    assert_eq!(hooked.project.read("made.txt"), SECRET);
    assert!(!hooked.project.path("other.txt").exists());
    let (without, with) = (plain.server.finish(), hooked.server.finish());
    assert_eq!(without.len(), with.len());
    for (without, with) in without.iter().zip(&with) {
        assert_eq!(without.tool_names(), with.tool_names());
        assert_eq!(without.texts("user").len(), with.texts("user").len());
        let results = |results: Vec<(String, bool)>| results.into_iter().map(|(_, is_error)| is_error);
        assert!(results(without.last_results()).eq(results(with.last_results())));
    }
    // They did run, with what happened, and no key.
    for event in EVERY.iter().filter(|event| **event != "Notification") {
        let seen = seen(&hooked.project, event);
        assert_eq!(seen.len(), 1, "{event}: {seen:?}");
        assert_eq!(seen[0]["hook_event_name"], *event);
        assert!(!seen[0].to_string().contains(SECRET), "{}", seen[0]);
    }
    let call = &seen(&hooked.project, "PreToolUse")[0];
    assert_eq!(call["tool_name"], "Write");
    assert_eq!(call["tool_input"]["file_path"], "made.txt");
    assert_eq!(
        seen(&hooked.project, "PostToolUse")[0]["tool_use_id"],
        call["tool_use_id"]
    );
    assert_eq!(
        seen(&hooked.project, "Stop")[0]["last_assistant_message"],
        "written"
    );
    // Each failure is a warning with what the program wrote, and the test says that it runs programs.
    for expected in [
        "this test runs the programs of `claude.hooks` (`./hook.sh`)",
        "`claude.hooks.PreToolUse.0` failed, which changes nothing else: ",
        "no: PreToolUse",
    ] {
        assert!(flat(&ran).contains(expected), "{expected}: {}", ran.all());
    }
}

#[test]
fn a_test_without_side_effects_runs_no_hook_and_says_so() {
    let bench = bench(&EVERY, "can't", "echo ran >>seen-any");
    for args in [
        &["test"][..],
        &["test", "--dry-run"],
        &["test", "--dry-run", "--json"],
    ] {
        let ran = bench.run(args).exits(0);
        let said = "this test does not run the programs of `claude.hooks` (`./hook.sh`); `--allow-side-effects` runs them";
        assert!(flat(&ran).contains(said), "{args:?}: {}", ran.all());
        assert!(!bench.project.path("seen-any").exists(), "{args:?}");
    }
    let ran = bench.run(&["test", "--dry-run", "--allow-side-effects"]).exits(0);
    assert!(
        ran.stdout
            .contains("this test runs the programs of `claude.hooks`"),
        "{}",
        ran.all()
    );
    assert!(!bench.project.path("seen-any").exists(), "a dry run runs nothing");
    // Outside of tests the author's programs run.
    bench.run(&["run", "go"]).exits(0);
    assert!(bench.project.path("seen-any").exists());
    bench.server.finish();
}

/// A program gets no key, prints what it has, and hangs: nothing of it is shown or left, and the verdict stands.
#[test]
fn a_hook_that_hangs_is_ended_and_shows_no_secret() {
    let yaml = observed(&["PreToolUse", "PostToolUse"]).replace("args:", "timeout_ms: 700, args:");
    let bench = Bench::new(&agent(&yaml, &[("one", "written")]), writing());
    write_hook(
        &bench,
        &format!(
            "env >>environment; cat >>seen-$1; sleep 600 & echo $! >>children; echo \"the key is {SECRET}\" >&2; wait"
        ),
    );
    let ran = bench.run(&["test", "--allow-side-effects"]).exits(0);
    assert!(
        ran.stderr
            .contains("was ended, because it was still running after 700 ms (`timeout_ms`)"),
        "{}",
        ran.all()
    );
    assert!(!ran.all().contains(SECRET), "{}", ran.all());
    assert!(ran.stderr.contains("the key is"), "{}", ran.all());
    assert!(!bench.project.read("environment").contains(SECRET));
    for pid in bench.project.read("children").lines() {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        assert!(stat.is_empty() || stat.contains(") Z "), "{stat}");
    }
    bench.server.finish();
}

/// A path is relative to the file that names it, wherever the command is started.
#[test]
fn a_hook_is_found_beside_the_agent_file() {
    let bench = bench(&["Stop"], "written", "cat >>seen-$1");
    let elsewhere = bench.project.path("elsewhere/deep");
    fs::create_dir_all(&elsewhere).unwrap();
    let mut command = bench.command(&["run", "../../agent.yaml", "go"]);
    let output = command.current_dir(elsewhere).output().unwrap();
    let ran = CommandOutput::of(&output).exits(0);
    assert_eq!(seen(&bench.project, "Stop").len(), 1, "{}", ran.all());
    bench.server.finish();
}

/// The agent cannot write the program that HoloDeck runs after its calls, under any mode.
#[test]
fn an_agent_cannot_change_its_hooks() {
    let server = AnthropicServer::answering(|request| {
        if !request.tool_results().is_empty() {
            return AnthropicReply::text("tried");
        }
        AnthropicReply::tool_use(
            "Write",
            &json!({"file_path": "hook.sh", "content": "#!/bin/sh\ntouch changed"}),
        )
    });
    let yaml = observed(&["PostToolUse"]).replace(
        "claude: {",
        "claude: {permission_mode: acceptAll, i_understand_this_is_unsafe: true, ",
    );
    let bench = Bench::new(&agent(&yaml, &[("one", "tried")]), server);
    write_hook(&bench, "cat >>seen-$1");
    bench.run(&["run", "go"]).exits(0);
    assert!(bench.project.read("hook.sh").contains("seen-"));
    assert_eq!(seen(&bench.project, "PostToolUse")[0]["is_error"], true);
    assert!(!bench.project.path("changed").exists());
    bench.server.finish();
}

#[test]
fn the_doctor_finds_a_missing_program_and_a_replay_runs_none() {
    let bench = bench(&["Stop"], "written", "cat >>seen-$1");
    bench
        .run(&["test", "--allow-side-effects", "--record", "tape.jsonl"])
        .exits(0);
    assert_eq!(seen(&bench.project, "Stop").len(), 1);
    let ran = bench
        .run(&["test", "--allow-side-effects", "--replay", "tape.jsonl"])
        .exits(0);
    assert_eq!(seen(&bench.project, "Stop").len(), 1, "{}", ran.all());
    assert!(!ran.all().contains("claude.hooks"), "{}", ran.all());
    let found = bench.run(&["doctor"]);
    assert!(
        found.all().contains("program of `claude.hooks.Stop.0`"),
        "{}",
        found.all()
    );
    fs::set_permissions(bench.project.path("hook.sh"), fs::Permissions::from_mode(0o644)).unwrap();
    let missing = bench.run(&["doctor"]);
    assert!(
        flat(&missing).contains("`./hook.sh` was not found or is not executable"),
        "{}",
        missing.all()
    );
    bench.server.finish();
}
