//! `holodeck import` as a command: what each exit code means, and where it never writes.

use std::{fs, os::unix::fs::symlink};

use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;

use crate::project::Project;

const ALL: &str = "prompts: ['Q: {{q}}']\nproviders: [openai:gpt-4o]\ntests:\n- vars: {q: hi}\n  assert:\n  - {type: contains, value: there}\n";

fn project(config: &str) -> Project {
    let project = Project::empty();
    project.write("promptfooconfig.yaml", config);
    project
}

const IMPORT: [&str; 5] = ["import", "promptfoo", "promptfooconfig.yaml", "-o", "out"];

#[test]
fn the_exit_code_says_whether_anything_decisive_was_left_out() {
    let decisive = "  - {type: moderation}\n";
    let silent = "  - {type: contains, value: a, metric: topic}\n";
    for (more, code, complete) in [("", 0, true), (silent, 0, true), (decisive, 1, false)] {
        let project = project(&format!("{ALL}{more}"));
        project.run(&IMPORT).exits(code);
        let json = project
            .run(&[&IMPORT[..], &["--json"]].concat())
            .exits(code)
            .json();
        assert_eq!(json["complete"], complete, "{more}");
        let decides = json["findings"]
            .as_array()
            .unwrap()
            .iter()
            .any(|found| found["kind"] == "left_out");
        assert_eq!(decides, !complete, "{more}");
    }
}

#[test]
fn what_cannot_be_read_or_would_be_overwritten_ends_with_two() {
    for broken in ["prompts: [", "name: other\n", "- 1\n", ""] {
        let project = project(broken);
        project.run(&IMPORT).exits(2);
        assert!(!project.path("out").exists(), "{broken:?}");
    }
    let absent = Project::empty();
    absent.run(&IMPORT).exits(2);
    let project = project(ALL);
    project.write("out/agent.yaml", "name: mine\n");
    project.run(&IMPORT).exits(2).says("agent.yaml");
    assert_eq!(project.read("out/agent.yaml"), "name: mine\n");
    assert!(!project.path("out/cases.yaml").exists());
    project.run(&[&IMPORT[..], &["--force"]].concat()).exits(0);
    assert_ne!(project.read("out/agent.yaml"), "name: mine\n");
}

#[test]
fn a_link_never_leads_what_is_written_out_of_the_folder() {
    let code = "  - {type: javascript, value: output.length > 1}\n";
    for (link, is_folder) in [
        ("out/agent.yaml", false),
        ("out/cases.yaml", false),
        ("out/graders", true),
    ] {
        for exists in [false, true] {
            for force in [false, true] {
                let project = project(&format!("{ALL}{code}"));
                let outside = project.path("outside");
                match (exists, is_folder) {
                    (true, true) => fs::create_dir(&outside).unwrap(),
                    (true, false) => fs::write(&outside, "").unwrap(),
                    (false, _) => {}
                }
                fs::create_dir(project.path("out")).unwrap();
                symlink(&outside, project.path(link)).unwrap();
                let force: &[&str] = if force { &["--force"] } else { &[] };
                project
                    .run(&[&IMPORT[..], force].concat())
                    .exits(2)
                    .says("is a link");
                match (exists, is_folder) {
                    (true, true) => assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "{link}"),
                    (true, false) => assert_eq!(fs::read_to_string(&outside).unwrap(), "", "{link}"),
                    (false, _) => assert!(!outside.exists(), "{link}"),
                }
            }
        }
    }
}

#[test]
fn what_was_imported_runs_as_it_is() {
    let model = ModelServer::answering(|request| {
        let question = request.texts("user").last().copied().unwrap_or_default();
        Reply::text(if question == "Q: hi" { "hi there" } else { "what?" })
    });
    let config = ALL.replace(
        "providers: [openai:gpt-4o]",
        &format!(
            "providers: [{{id: openai:gpt-4o, config: {{apiBaseUrl: '{}/v1', apiKey: none, stop: [END]}}}}]",
            model.url()
        ),
    );
    let project = project(&config);
    project.run(&IMPORT).exits(0);
    let mut test = project.command(&["test", "out/agent.yaml"]);
    let ran = test.env("OPENAI_API_KEY", "a-key").output().unwrap();
    assert_eq!(
        ran.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    let request = model.finish().remove(0);
    assert_eq!(request.body["stop"], serde_json::json!(["END"]));
    assert_eq!(request.texts("system"), Vec::<&str>::new());
}
