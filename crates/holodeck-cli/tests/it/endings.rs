//! Every way a command can end: the exit code and the result in JSON always say the same.

use std::{fs, io::Read as _, os::unix::fs::PermissionsExt as _, process::Stdio};

use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{
    interrupt::signal,
    project::Project,
    routing::{REVIEW, REVIEWER, project, server, with},
};

/// A way to end.
struct Ending {
    name: &'static str,
    reply: fn() -> Reply,
    /// Keys below `routing:`.
    routing: &'static str,
    /// Keys of the agent.
    more: &'static str,
    flags: &'static [&'static str],
    exit: i32,
    /// In the first error.
    says: &'static str,
}

const PLAIN: Ending = Ending {
    name: "done",
    reply: || Reply::text("No bugs."),
    routing: "",
    more: "",
    flags: &[],
    exit: 0,
    says: "",
};

fn refused() -> Reply {
    Reply::openai_error(400, "no luck", None, None)
}

const METRIC: &str = "evaluations: {metrics: [{type: standard, metric: contains, value: bugs}]}\n\
                      quality_loop: {max_iterations: 1, scorer: {metrics: [contains]}}\n";
const GRADED: &str = "evaluations: {metrics: [{type: code, name: check, command: ./check.sh}]}\n\
                      quality_loop: {max_iterations: 1, threshold: 0, scorer: {metrics: [check]}}\n";
const SKILLS: &str = "  skills: {directory: skills}\n";

const ENDINGS: &[Ending] = &[
    PLAIN,
    Ending {
        name: "threshold met",
        more: METRIC,
        ..PLAIN
    },
    Ending {
        name: "below the threshold",
        reply: || Reply::text("Nothing."),
        more: METRIC,
        exit: 1,
        says: "the answer scored 0.0, below the threshold of 70 (max_iterations after 1 of 1)",
        ..PLAIN
    },
    Ending {
        name: "no valid score",
        more: GRADED,
        exit: 1,
        says: "the answer has no valid score, which meets no threshold (max_iterations after 1 of 1): `check`",
        ..PLAIN
    },
    Ending {
        name: "not scored",
        more: "quality_loop: {scorer: {signals: {build: ./gone.sh}}}\n",
        exit: 4,
        says: "the answer could not be scored: the signal `build` could not be run",
        ..PLAIN
    },
    Ending {
        name: "without evidence",
        flags: &["--requires-evidence"],
        exit: 1,
        says: "NO_EXECUTION_EVIDENCE",
        ..PLAIN
    },
    Ending {
        name: "without evidence and below the threshold",
        reply: || Reply::text("Nothing."),
        more: METRIC,
        flags: &["--requires-evidence"],
        exit: 1,
        says: "NO_EXECUTION_EVIDENCE",
        ..PLAIN
    },
    Ending {
        name: "by a skill",
        routing: SKILLS,
        flags: &["--disable-sdk", "--param", "mode=fine"],
        ..PLAIN
    },
    Ending {
        name: "a failed skill",
        routing: SKILLS,
        flags: &["--disable-sdk"],
        exit: 1,
        says: "the skill `review` failed: exit code 3: cannot",
        ..PLAIN
    },
    Ending {
        name: "a failed skill that nothing may repeat",
        routing: "  skills: {directory: skills, fallback_on_error: true}\n  legacy: {command: [touch, ran]}\n",
        flags: &["--disable-sdk"],
        exit: 3,
        says: "fallback_blocked_side_effects: the failed attempt may have changed something (`skill__review`)",
        ..PLAIN
    },
    Ending {
        name: "a failed skill that may be repeated",
        routing: "  skills: {directory: skills, fallback_on_error: true}\n  legacy: {command: [echo, later]}\n  \
                  fallback: {after_side_effects: allow}\n",
        flags: &["--disable-sdk"],
        ..PLAIN
    },
    Ending {
        name: "by another executor",
        reply: refused,
        routing: "  legacy: {command: [echo, later]}\n",
        ..PLAIN
    },
    Ending {
        name: "another executor failed",
        reply: refused,
        routing: "  legacy: {command: [sh, -c, 'echo cannot >&2; exit 2']}\n",
        exit: 1,
        says: "`sh` failed: exit code 2: cannot",
        ..PLAIN
    },
    Ending {
        name: "another executor is missing",
        reply: refused,
        routing: "  legacy: {command: [./nothing-here]}\n",
        exit: 3,
        says: "`./nothing-here` could not be run",
        ..PLAIN
    },
    Ending {
        name: "another agent below its threshold",
        reply: refused,
        routing: "  legacy: {agent: judged.yaml}\n",
        exit: 1,
        says: "the answer scored 0.0, below the threshold of 70",
        ..PLAIN
    },
    Ending {
        name: "nothing executes it",
        flags: &["--disable-sdk"],
        exit: 3,
        says: "nothing executes the command `review`: sdk: sdk_disabled_override",
        ..PLAIN
    },
    Ending {
        name: "an error of the endpoint",
        reply: refused,
        exit: 3,
        says: "nothing executes the command `review`: sdk: sdk_error_message",
        ..PLAIN
    },
];

fn program(project: &Project, name: &str, text: &str) {
    project.write(name, text);
    fs::set_permissions(project.path(name), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn exit_code_and_json_say_the_same_about_every_ending() {
    let judged = server(|| Reply::text("Nothing."));
    for ending in ENDINGS {
        let server = server(ending.reply);
        let project = project(&server.url(), ending.routing, ending.more);
        program(&project, "check.sh", "#!/bin/sh\necho '{\"score\": NaN}'\n");
        project.write(
            "skills/review/SKILL.md",
            "---\nname: review\ndescription: Reviews.\n---\nReview.\n",
        );
        project.write(
            "skills/review/scripts/run.sh",
            "grep -q fine && exit 0; echo cannot >&2; exit 3\n",
        );
        let other = format!(
            "name: judged\nmodel: {{provider: openai, name: m, endpoint: {}, api_key: k}}\ninstructions: {{inline: Hi}}\n",
            judged.url()
        );
        project.write("judged.yaml", other + METRIC);
        let flags: Vec<&str> = ending.flags.iter().copied().chain(["--json"]).collect();
        let ran = project.run(&with(&flags)).exits(ending.exit);
        let result = ran.json();
        let (name, success) = (ending.name, ending.exit == 0);
        assert_eq!(result["success"], success, "{name}: {result}");
        let status = if success { "ok" } else { "error" };
        assert_eq!(result["status"], status, "{name}: {result}");
        let errors = result["errors"].as_array().unwrap();
        assert_eq!(errors.is_empty(), success, "{name}: {result}");
        if let Some(first) = errors.first() {
            let first = first.as_str().unwrap();
            assert!(first.contains(ending.says), "{name}: {first}");
            // A person reads the same.
            let named = ending.says.split(": ").next().unwrap();
            assert!(ran.stderr.contains(named), "{name}: {}", ran.all());
        }
        assert!(!project.path("ran").exists(), "{name}: nothing is repeated");
        server.finish_unchecked();
    }
    judged.finish_unchecked();
}

#[test]
fn a_stopped_command_says_so_in_json_too() {
    let server = server(|| Reply::text("half an answer").in_pieces(4).hang_after(3));
    let project = project(&server.url(), "", "");
    for (name, code, says) in [("-INT", 130, "interrupted"), ("-TERM", 143, "terminated")] {
        let mut child = project
            .command(&with(&["--json"]))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while server.open() == 0 {
            std::thread::yield_now();
        }
        signal(&child, name);
        let mut stdout = String::new();
        child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code));
        let result: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(
            (&result["success"], &result["status"], &result["errors"][0]),
            (&json!(false), &json!("error"), &json!(says))
        );
        while server.open() > 0 {
            std::thread::yield_now();
        }
    }
    server.finish_unchecked();
}

#[test]
fn a_failed_skill_is_recorded_with_its_side_effects_and_named_everywhere() {
    let server = server(|| Reply::text("unused"));
    let routing = "  skills: {directory: skills, fallback_on_error: true}\n  legacy: {command: [echo, later]}\n  \
                   fallback: {after_side_effects: allow}\n";
    let project = project(&server.url(), routing, "telemetry: {jsonl: t.jsonl}\n");
    project.write(
        "skills/review/SKILL.md",
        "---\nname: review\ndescription: Reviews.\n---\nReview.\n",
    );
    project.write(
        "skills/review/scripts/run.sh",
        "touch changed; echo cannot >&2; exit 3\n",
    );
    let ran = project.run(&with(&["--disable-sdk", "--json", "-v"])).exits(0);
    assert!(project.path("changed").exists());
    let result = ran.json();
    assert_eq!(result["output"]["output"], "later");
    let failed = json!([{
        "mode": "skills",
        "name": "review",
        "reason": "the skill `review` failed: exit code 3: cannot",
        "side_effects": ["skill__review"],
    }]);
    assert_eq!(result["failed_executors"], failed);
    assert_eq!(result["executed_operations"], json!(["skill__review"]));
    for flags in [&["--disable-sdk"][..], &["--disable-sdk", "--explain"]] {
        let ran = project.run(&with(flags)).exits(0);
        assert!(
            ran.stderr.contains(
                "failed    skills (`review`): the skill `review` failed: exit code 3: cannot\n\
                           changed   perhaps something, by `skill__review`\n"
            ),
            "{}",
            ran.all()
        );
    }
    let quiet = project.run(&with(&["--disable-sdk", "--quiet"])).exits(0);
    assert!(!quiet.stderr.contains("skill__review"), "{}", quiet.all());
    // The stored run has it, and the call itself.
    let lines = project.read("t.jsonl");
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    let session = first["session_id"].as_str().unwrap();
    let events = project.run(&["events", "export", session]).stdout;
    for text in ["failed_executors", "the skill `review` failed", "skill__review"] {
        assert!(events.contains(text), "{text}: {events}");
    }
    server.finish_unchecked();
}

#[test]
fn a_script_that_did_not_start_changed_nothing_and_another_executor_may_follow() {
    let server = server(|| Reply::text("unused"));
    let routing =
        "  skills: {directory: skills, fallback_on_error: true}\n  legacy: {command: [echo, later]}\n";
    let project = project(&server.url(), routing, "");
    project.write(
        "skills/review/SKILL.md",
        "---\nname: review\ndescription: Reviews.\n---\nReview.\n",
    );
    program(
        &project,
        "skills/review/scripts/run.sh",
        "#!/no/such/interpreter\n",
    );
    let ran = project.run(&with(&["--disable-sdk", "--json"])).exits(0);
    assert_eq!(ran.json()["output"]["output"], "later", "{}", ran.all());
    assert_eq!(ran.json()["failed_executors"][0]["side_effects"], json!([]));
    server.finish_unchecked();
}

#[test]
fn a_score_that_is_none_is_named_in_every_output() {
    let server = ModelServer::answering(|_| Reply::text("No bugs."));
    let more = "evaluations: {metrics: [{type: code, name: check, command: ./check.sh}]}\n\
                quality_loop: {max_iterations: 2, threshold: 0, scorer: {metrics: [check]}}\n";
    let project = project(&server.url(), "", more);
    project.write("agents/reviewer.md", REVIEWER);
    for (printed, reason) in [
        ("NaN", "the result is `NaN`, not a number"),
        ("{\"score\": -Infinity}", "`score` is `-Infinity`, not a number"),
        ("80", "80 is not between 0 and 1"),
        ("\"0.8\"", "the result is a text, not a number"),
        ("{}", "the result has no `score`"),
        ("", "standard output is empty, so there is no score"),
    ] {
        // The first answer has no valid score, the second one 0.4.
        let script = format!(
            "#!/bin/sh\nif [ -e scored ]; then rm scored; echo 0.4; else touch scored; cat <<'END'\n{printed}\nEND\nfi\n"
        );
        program(&project, "check.sh", &script);
        let named =
            format!("answer 1 has no valid score, which counts as 0: `check` gave no valid score: {reason}");
        for flags in [&[][..], &["--explain"]] {
            let ran = project.run(&with(flags)).exits(0);
            assert!(ran.stderr.contains(&named), "{printed}: {}", ran.all());
            assert!(
                ran.stderr.contains("loop      0.0 (invalid) → 40.0"),
                "{}",
                ran.all()
            );
        }
        let result = project.run(&with(&["--json"])).exits(0).json();
        let invalid = &result["loop"]["score_invalid"];
        assert_eq!(invalid[0]["iteration"], 0, "{printed}: {result}");
        assert!(
            invalid[0]["reason"].as_str().unwrap().contains(reason),
            "{result}"
        );
        let replayed = project.run(&["quality", "replay", "last"]).exits(0);
        assert!(
            replayed.stdout.contains("0.0 (invalid) → 40.0"),
            "{}",
            replayed.all()
        );
        let replayed = project
            .run(&["quality", "replay", "last", "--json"])
            .exits(0)
            .json();
        assert_eq!(replayed["replayed"]["iterations"][0]["score_invalid"], true);

        // Alone it meets no threshold, not even 0.
        let ran = project.run(&with(&["--max-iterations", "1", "--json"])).exits(1);
        assert!(ran.stderr.contains(reason), "{}", ran.all());
        assert_eq!(ran.json()["loop"]["passed"], false);
        let _ = fs::remove_file(project.path("scored"));
    }
    server.finish_unchecked();
}

#[test]
fn a_second_command_is_not_needed_to_see_what_was_expected() {
    let server = server(|| Reply::text("No bugs."));
    let project = project(&server.url(), "", "");
    let flags = [
        "--expects-tests",
        "--expects-file-changes",
        "--expects-execution-evidence",
    ];
    let ran = project.run(&with(&flags)).exits(0);
    for missing in [
        "missing   MISSING_FILE_CHANGES: 0 files were changed, 1 are required",
        "missing   NO_TESTS_RUN",
        "missing   NO_EXECUTION_EVIDENCE",
    ] {
        assert!(ran.stderr.contains(missing), "{}", ran.all());
    }
    assert_eq!(ran.stdout, "No bugs.\n");
    let result = project.run(&with(&["--expects-tests", "--json"])).exits(0).json();
    let missing = result["missing_evidence"].as_array().unwrap();
    assert_eq!(missing.len(), 1, "{result}");
    assert!(
        missing[0].as_str().unwrap().starts_with("NO_TESTS_RUN"),
        "{result}"
    );
    let result = project.run(&[&REVIEW[..], &["--json"]].concat()).exits(0).json();
    assert_eq!(result.get("missing_evidence"), None);
    server.finish();
}
