//! The files that a run writes: paths, permissions and characters.

use std::fs;

use holodeck_testkit::{ModelServer, Reply};
use serde_json::Value;

use crate::{project::Project, secrets::REPORTS};

#[test]
fn inputs_of_a_run_are_not_overwritten() {
    let server = crate::project::correct_server();
    let yaml = crate::project::agent(&server.url(), crate::project::TWO_CASES);
    let yaml = yaml.replace("inline: Answer briefly.", "file: prompt.md");
    let case = "  - {name: file, input: 7 + 5?, ground_truth: '12', files: [{path: data.txt, type: text}]}\n";
    let project = Project::with(&format!("{yaml}{case}"));
    let inputs = [
        "agent.yaml",
        "prompt.md",
        "data.txt",
        ".env",
        "config.yaml",
        "prices.json",
    ];
    project.write("prompt.md", "Answer briefly.");
    project.write("data.txt", "Nothing.");
    project.write(".env", "A=b\n");
    project.write("config.yaml", "execution: {llm_timeout: 60}\n");
    project.write("prices.json", r#"{"as_of": "2030-01-01", "models": {}}"#);
    std::os::unix::fs::symlink("agent.yaml", project.path("link")).unwrap();
    fs::hard_link(project.path("agent.yaml"), project.path("same")).unwrap();
    let before: Vec<String> = inputs.iter().map(|name| project.read(name)).collect();
    for name in inputs.iter().chain(&["link", "same", "./agent.yaml"]) {
        for flags in [
            vec!["--record".to_owned(), (*name).to_owned()],
            vec![
                format!("--output={name}"),
                "--format=json".to_owned(),
                "--force".to_owned(),
            ],
            vec![format!("--report=html={name}")],
        ] {
            let mut args = vec!["test"];
            args.extend(flags.iter().map(String::as_str));
            project.run(&args).exits(2).says("this run reads it");
        }
    }
    let after: Vec<String> = inputs.iter().map(|name| project.read(name)).collect();
    assert_eq!(after, before);
    assert!(!project.path("agent.yaml.partial").exists());
    assert!(server.finish().is_empty());
}

#[test]
fn only_own_outputs_are_overwritten_without_force() {
    let server = crate::project::correct_server();
    let project = Project::with(&crate::project::agent(&server.url(), crate::project::TWO_CASES));
    project.write("thesis.html", "<!DOCTYPE html><p>Years of work</p>");
    project.write("empty.html", "");
    project
        .run(&["test", "--output", "thesis.html"])
        .exits(2)
        .says("not a holodeck html report")
        .says("--force");
    project
        .run(&["test", "--record", "thesis.html"])
        .exits(2)
        .says("not a holodeck recording");
    assert!(server.requests().is_empty());
    assert!(project.read("thesis.html").contains("Years"));
    project.run(&["test", "--output", "empty.html"]).exits(0);
    project
        .run(&["test", "--output", "thesis.html", "--force"])
        .exits(0);
    assert!(!project.read("thesis.html").contains("Years"));
    // A second run overwrites the reports of the first in every format, but not a file of another format.
    let reports: Vec<String> = REPORTS
        .iter()
        .map(|format| format!("--report={format}=out.{format}"))
        .collect();
    let mut args = vec!["test", "--record", "calls.jsonl"];
    args.extend(reports.iter().map(String::as_str));
    project.run(&args).exits(0);
    project.run(&args).exits(0);
    project.run(&["test", "--report=junit=out.html"]).exits(2);
    project.run(&["test", "--report=jsonl=calls.jsonl"]).exits(2);
    let journal = project.journals().pop().unwrap();
    let journal = format!("--report=jsonl={}", journal.display());
    project.run(&["test", &journal]).exits(2);
    server.finish();
}

#[test]
fn outputs_are_files_or_the_standard_output() {
    let server = crate::project::correct_server();
    let project = Project::with(&crate::project::agent(&server.url(), crate::project::TWO_CASES));
    let status = std::process::Command::new("mkfifo")
        .arg(project.path("pipe"))
        .status()
        .unwrap();
    assert!(status.success());
    project
        .run(&["test", "--output", "pipe"])
        .exits(2)
        .says("not a regular file");
    project
        .run(&["test", "--record", "pipe"])
        .exits(2)
        .says("not a regular file");
    project.run(&["test", "--record", "/dev/null"]).exits(2);
    project
        .run(&["test", "--output", "-", "--json"])
        .exits(2)
        .says("standard output");
    project
        .run(&["test", "--output=-", "--report=html=/dev/stdout"])
        .exits(2);
    project
        .run(&["test", "--report=html=a.html", "--report=json=./a.html"])
        .exits(2);
    project.write("file", "x");
    project
        .run(&["test", "--output", "file/x.json"])
        .exits(2)
        .says("a part of the path is a file");
    assert!(server.requests().is_empty());
    for stdout in ["-", "/dev/stdout"] {
        let ran = project
            .run(&[
                "test",
                "--report",
                &format!("json={stdout}"),
                "--report=html=/dev/null",
            ])
            .exits(0);
        assert_eq!(ran.json()["summary"]["passed"], 2);
        assert!(ran.stderr.contains("2 passed"), "{}", ran.stderr);
        // Also when the standard output is a file.
        let file = fs::File::create(project.path("redirected")).unwrap();
        let mut command = project.command(&["test", "--report", &format!("json={stdout}")]);
        assert_eq!(command.stdout(file).status().unwrap().code(), Some(0));
        let written: Value = serde_json::from_str(&project.read("redirected")).unwrap();
        assert_eq!(written["summary"]["passed"], 2);
    }
    server.finish();
}

#[test]
fn what_a_run_writes_is_for_its_user_only_but_a_report_that_the_user_names_follows_the_umask() {
    use std::os::unix::fs::PermissionsExt as _;

    let server = crate::project::correct_server();
    let project = Project::with(&crate::project::agent(&server.url(), crate::project::TWO_CASES));
    project.write("named/x", "");
    let ordinary = fs::metadata(project.path("named/x")).unwrap().permissions();
    assert_ne!(ordinary.mode() & 0o777, 0o600);
    project.write("named/kept.md", "");
    fs::set_permissions(project.path("named/kept.md"), fs::Permissions::from_mode(0o640)).unwrap();
    let ran = project.run(&[
        "test",
        "--report=html=named/r.html",
        "--report=json=made/r.json",
        "--report=markdown=named/kept.md",
        "--record=named/calls.jsonl",
    ]);
    ran.exits(0);
    let mode = |path: &str| fs::metadata(project.path(path)).unwrap().permissions().mode() & 0o777;
    for (file, expected) in [
        ("named/r.html", ordinary.mode() & 0o777),
        ("made/r.json", ordinary.mode() & 0o777),
        ("named/kept.md", 0o640),
        ("named/calls.jsonl", 0o600),
    ] {
        assert_eq!(mode(file), expected, "{file}");
    }
    let own = fs::read_dir(project.path("results/support")).unwrap();
    for entry in own {
        let path = entry.unwrap().path();
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", path.display());
    }
    for folder in [".holodeck", ".holodeck/runs", "results", "results/support"] {
        assert_eq!(mode(folder), 0o700, "{folder}");
    }
    // The mode of a folder that the user created is not changed.
    assert_ne!(mode("named"), 0o700);
    server.finish();
}

#[test]
fn hidden_characters_are_shown_as_escapes() {
    const HIDDEN: [char; 6] = [
        '\u{202e}',
        '\u{2066}',
        '\u{200b}',
        '\u{feff}',
        '\u{9b}',
        '\u{e0041}',
    ];
    let hidden: String = HIDDEN.iter().collect();
    let answer = hidden.clone();
    let server = ModelServer::answering(move |_| Reply::text(format!("a{answer}b")));
    // Unescaped YAML cannot contain C1 controls.
    let raw = hidden.replace('\u{9b}', "");
    let cases = format!("  - {{name: \"x{raw}y\", input: \"q{raw}\", ground_truth: z}}\n");
    let yaml = crate::project::agent(&server.url(), &cases);
    let project = Project::with(&format!("{yaml}nope{raw}: \"{raw}\"\n"));
    let assert_escaped = |what: &str, text: &str| {
        assert!(!text.contains(HIDDEN), "{what}: {text:?}");
    };
    let ran = project.run(&["validate"]).exits(2).says("\\u{202e}");
    assert_escaped("validate", &ran.all());
    project.write("agent.yaml", yaml);
    let reports = ["markdown", "junit", "html"].map(|format| format!("--report={format}=out.{format}"));
    let mut args = vec!["test", "-v"];
    args.extend(reports.iter().map(String::as_str));
    let ran = project.run(&args).exits(1).says("\\u{202e}\\u{2066}\\u{200b}");
    assert_escaped("test", &ran.all());
    for format in ["markdown", "junit", "html"] {
        let report = project.read(&format!("out.{format}"));
        assert_escaped(format, &report);
        assert!(report.contains("u{202e}"), "{report}");
    }
    assert_escaped("dry run", &project.run(&["test", "--dry-run"]).exits(0).all());
    // The run file keeps the original characters.
    assert_eq!(
        project.run_file()["report"]["results"][0]["agent_response"],
        format!("a{hidden}b")
    );
    server.finish();
}
