//! Tests that all problems of an agent file are shown at once, with places, hints and exit codes.

use crate::project::{Project, SECRET, TWO_CASES, agent, assert_output};

const WRONG: &str = "name: support\nmodel:\n  provider: openai\n  name: gpt-4o\n  tempertaure: 0.3\n  \
                     max_tokens: many\ninstructions:\n  file: nowhere.md\ntest_cases:\n  - input: a\n    \
                     evaluations:\n      - type: standard\n        metric: equalty\n";

#[test]
fn every_problem_at_once_with_its_place() {
    assert_output!(Project::with(WRONG).run(&["validate"]).exits(2));
}

#[test]
fn the_same_for_a_program() {
    let ran = Project::with(WRONG).run(&["validate", "--json"]).exits(2);
    insta::assert_json_snapshot!(ran.json());
}

#[test]
fn a_sound_file_is_said_to_be() {
    let project = Project::with(&agent("http://localhost:1", TWO_CASES));
    assert_output!(project.run(&["validate"]).exits(0));
}

#[test]
fn each_setting_tells_its_layer() {
    let project = Project::with(&agent("http://localhost:1", TWO_CASES));
    project.write("config.yaml", "execution:\n  llm_timeout: 7\n");
    let mut command = project.command(&["validate", "-v"]);
    command.env("HOLODECK_FILE_TIMEOUT", "9");
    let ran = crate::project::CommandOutput::of(&command.output().unwrap()).exits(0);
    assert_output!(ran);
}

/// An agent that searches `source`, with its index in `database`.
fn searching(source: &str, database: &str) -> Project {
    let tool = format!("{{type: vectorstore, name: docs, description: d, source: \"{source}\"{database}}}");
    let head = agent("http://localhost:1", TWO_CASES);
    let project = Project::with(&format!(
        "{head}embedding_provider: {{provider: hash}}\ntools: [{tool}]\n"
    ));
    project.write("docs/deep/a.md", "# A");
    project
}

#[test]
fn a_pattern_that_matches_nothing_is_told() {
    for sound in ["docs/**/*.md", "docs/*/a.{md,txt}", "docs", "docs/deep/?.md"] {
        let ran = searching(sound, "").run(&["validate"]).exits(0);
        assert!(!ran.all().contains("HD0601"), "{}", ran.all());
    }
    let messages = ["docs/*.md", "dosc/**/*.md", "docs/**/*.exe", "docs/[", "dosc"].map(|wrong| {
        let ran = searching(wrong, "").run(&["validate"]).exits(2);
        let line = ran.stdout.lines().find(|line| line.contains("HD0601"));
        line.unwrap_or_else(|| panic!("{wrong}: {}", ran.all()))
            .to_owned()
    });
    insta::assert_snapshot!(messages.join("\n"));
}

/// A replay needs neither documents nor the address of the model.
#[test]
fn what_every_run_needs_is_an_error_unless_it_replays() {
    let sound = searching("docs", "");
    sound.run(&["validate"]).exits(0);
    let yaml = sound.read("agent.yaml");
    let changes = [
        ("source: \"docs\"", "source: \"dosc\""),
        ("http://localhost:1", "localhost:1"),
    ];
    for (from, to) in changes {
        let wrong = yaml.replace(from, to);
        assert_ne!(wrong, yaml);
        sound.write("agent.yaml", &wrong);
        sound.run(&["validate"]).exits(2).says("error[HD0");
        let replayed = wrong.replace("execution:\n", "execution:\n  replay: recording.jsonl\n");
        assert_ne!(replayed, wrong);
        sound.write("agent.yaml", replayed);
        sound.run(&["validate"]).exits(0).says("warning[HD0");
    }
}

#[test]
fn what_stands_for_faiss_is_told() {
    let project = searching("docs", ", database: {provider: faiss, connection_string: kept}");
    assert_output!(project.run(&["validate"]).exits(0));
    project.run(&["index", "build"]).exits(0);
    assert!(project.path("kept/support/docs.db").exists());
}

#[test]
fn colour_does_not_change_the_text() {
    let project = Project::with(WRONG);
    let plain = project.run(&["validate"]).exits(2);
    let coloured = project.run(&["validate", "--color", "always"]).exits(2);
    assert!(!plain.stdout.contains('\u{1b}'));
    assert!(coloured.stdout.contains('\u{1b}'));
    assert_eq!(
        anstream::adapter::strip_str(&coloured.stdout).to_string(),
        plain.stdout
    );
    let mut quiet = project.command(&["validate"]);
    quiet.env("NO_COLOR", "1").env("CLICOLOR_FORCE", "1");
    let never = crate::project::CommandOutput::of(&quiet.output().unwrap());
    assert!(!never.stdout.contains('\u{1b}'));
}

#[test]
fn bad_files_have_specific_codes() {
    let big = format!("name: {}\n", "a".repeat(11 << 20));
    let bad: &[(&str, &[u8], &str)] = &[
        ("empty", b"", "HD0005"),
        ("comments", b"# nothing\n", "HD0005"),
        ("two documents", b"name: a\n---\nname: b\n", "HD0007"),
        ("tabs", b"name: a\nmodel:\n\tname: b\n", "HD0008"),
        ("not text", b"name: \xff\xfe\n", "HD0004"),
        ("large", big.as_bytes(), "HD0003"),
        ("not yaml", b"name: [a\n", "HD0006"),
        ("a bomb", b"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n", "HD0011"),
        ("a variable", b"name: ${NOT_SET}\n", "HD0501"),
    ];
    for (what, content, code) in bad {
        let project = Project::empty();
        project.write("agent.yaml", content);
        for command in ["validate", "test"] {
            let ran = project.run(&[command]).exits(2);
            assert!(ran.all().contains(code), "{what}: {}", ran.all());
        }
    }
}

#[test]
fn missing_files_and_folders_are_reported() {
    let project = Project::empty();
    project.run(&["validate"]).exits(2).says("agent.yaml");
    project.run(&["test", "."]).exits(2).says("HD0002");
    let ran = project.run(&["validate", "nowhere.yaml", "--json"]).exits(2);
    assert_eq!(ran.json()["ok"], false);
}

#[test]
fn a_byte_order_mark_and_crlf_are_accepted() {
    let agent = agent("http://localhost:1", TWO_CASES).replace('\n', "\r\n");
    let project = Project::with(&format!("\u{feff}{agent}"));
    let ran = project.run(&["validate"]).exits(0);
    assert_eq!(ran.stdout, "no problems in agent.yaml\n");
}

#[test]
fn a_key_in_the_file_is_not_shown() {
    let wrong = format!(
        "name: a\nmodel:\n  provider: openai\n  name: b\n  api_key:\n    - {SECRET}\n  api_key: {SECRET}\n"
    );
    // `exits` checks that the output does not contain it.
    Project::with(&wrong).run(&["validate"]).exits(2);
    Project::with(&wrong).run(&["validate", "--json"]).exits(2);
}

#[test]
fn test_cases_that_ask_the_same_are_warned_of_with_both_places() {
    let project = Project::with(&crate::project::agent(
        "http://127.0.0.1:9",
        "  - {input: Hi, ground_truth: a}\n  - {name: b, input: Hi, ground_truth: b}\n  \
         - {input: Hi, ground_truth: c}\n  - {name: b, input: Other, ground_truth: d}\n",
    ));
    crate::project::assert_output!(project.run(&["validate"]).exits(0));
}

#[test]
fn each_form_of_the_problems_has_all_of_them_with_their_places() {
    let all = Project::with(WRONG).run(&["validate", "--json"]).exits(2).json();
    let expected = all["diagnostics"].as_array().unwrap();
    for form in ["concise", "github", "gitlab", "sarif"] {
        let ran = Project::with(WRONG).run(&["validate", "--format", form]).exits(2);
        for diagnostic in expected {
            let code = diagnostic["code"].as_str().unwrap();
            let line = diagnostic["line"].as_u64().unwrap();
            let (code, place) = match form {
                "concise" => (format!("error[{code}]"), format!("agent.yaml:{line}:")),
                "github" => (format!("title={code}::"), format!("file=agent.yaml,line={line},")),
                "gitlab" => (format!("holodeck/{code}"), format!("\"begin\":{line}")),
                _ => (format!("\"ruleId\":\"{code}\""), format!("\"startLine\":{line}")),
            };
            let mut lines = ran.stdout.lines();
            assert!(
                lines.any(|line| line.contains(&code) && line.contains(&place)),
                "{form} {code} {place}: {}",
                ran.stdout
            );
        }
    }
    let json = Project::with(WRONG)
        .run(&["validate", "--format", "json"])
        .exits(2)
        .json();
    assert_eq!(json, all);
    insta::assert_snapshot!(
        Project::with(WRONG)
            .run(&["validate", "--format", "concise"])
            .stdout
    );
}

#[test]
fn a_file_is_named_as_the_repository_names_it_from_whatever_folder_it_is_checked() {
    let project = Project::empty();
    project.write("repository/bots/agent.yaml", WRONG);
    project.write("repository/tools/x", "");
    project.write("elsewhere/agent.yaml", WRONG);
    let root = project.path("repository");
    let elsewhere = project.path("elsewhere/agent.yaml");
    let elsewhere = elsewhere.canonicalize().unwrap().display().to_string();
    let paths = |folder: &str, file: &str| {
        let mut command = project.command(&["validate", file, "--format", "sarif"]);
        command
            .current_dir(project.path(folder))
            .env("GITHUB_WORKSPACE", &root);
        let ran = crate::project::CommandOutput::of(&command.output().unwrap()).exits(2);
        let log: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        let results = log["runs"][0]["results"].as_array().unwrap();
        let uri = |result: &serde_json::Value| {
            let place = &result["locations"][0]["physicalLocation"]["artifactLocation"];
            place["uri"].as_str().unwrap().to_owned()
        };
        results.iter().map(uri).collect::<std::collections::BTreeSet<_>>()
    };
    for (folder, file) in [
        ("repository", "bots/agent.yaml"),
        ("repository/bots", "agent.yaml"),
        ("repository/tools", "../bots/agent.yaml"),
        ("elsewhere", "../repository/tools/../bots/agent.yaml"),
    ] {
        let expected = ["bots/agent.yaml".to_owned()].into();
        assert_eq!(paths(folder, file), expected, "{folder} {file}");
    }
    for (folder, file) in [
        ("elsewhere", "agent.yaml"),
        ("repository", "../elsewhere/agent.yaml"),
    ] {
        let expected = [format!("file://{elsewhere}")].into();
        assert_eq!(paths(folder, file), expected, "{folder} {file}");
    }
}
