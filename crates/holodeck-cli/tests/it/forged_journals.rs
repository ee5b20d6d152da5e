//! Journals that something else than their run has written to: during the run, and after it.

use std::fs;

use holodeck_testkit::{ModelServer, Reply};
use serde_json::json;

use crate::project::{Project, TWO_CASES, agent, half_correct_server};

/// An agent whose tool does something to the journal of its own run. Its answer about France is right, the other wrong.
fn meddling(script: &str, right: &str) -> (ModelServer, Project) {
    let right = right.to_owned();
    let server = ModelServer::answering(move |request| {
        if request.texts("tool").is_empty() {
            return Reply::tool_call("c", "meddle", &json!({}));
        }
        Reply::text(match request.texts("user").last() {
            Some(question) if question.contains("France") => "Paris.".to_owned(),
            _ => right.clone(),
        })
    });
    let project = Project::with(&format!(
        "{}tools:\n  - {{type: function, name: meddle, description: d, command: python3, args: [meddle.py], \
         parameters: {{}}}}\n",
        agent(&server.url(), TWO_CASES)
    ));
    project.write(
        "meddle.py",
        format!("import glob, os\npath = glob.glob('.holodeck/runs/*.jsonl')[0]\n{script}\nprint('{{}}')\n"),
    );
    (server, project)
}

/// The ways in which the tool meddles, each with whether the lines of the run are still there.
const SCRIPTS: &[(&str, bool)] = &[
    ("open(path, 'a').write('{\"graded\":{}}\\n')", true),
    ("open(path, 'a').write('x')", true),
    (
        "os.replace(path, path + '.old'); open(path, 'w').write(open(path + '.old').read())",
        true,
    ),
    (
        "text = open(path).read(); open(path, 'r+').write(text.replace('Answer briefly', 'Answer shortly'))",
        false,
    ),
    ("open(path, 'w')", false),
    ("os.remove(path)", true),
];

#[test]
fn an_agent_that_writes_to_its_own_journal_does_not_pass() {
    for (script, is_kept) in SCRIPTS {
        let (_server, project) = meddling(script, "12");
        let ran = project.run(&["test", "--report", "junit=r.xml"]);
        assert_eq!(ran.code, Some(3), "{script}: {}", ran.all());
        assert!(
            ran.all().contains("another program wrote to the journal"),
            "{script}: {}",
            ran.all()
        );
        let report = project.read("r.xml");
        assert!(
            report.contains("another program wrote to the journal"),
            "{script}: {report}"
        );
        if *is_kept {
            assert!(
                ran.stdout.contains("2 passed") || ran.stdout.contains("2 of 2"),
                "{script}: {}",
                ran.all()
            );
        }
        // What is left in the folder is no passed run either.
        for args in [
            &["test", "compare", "latest", "latest", "--gate"][..],
            &["test", "regrade"],
        ] {
            let later = project.run(args);
            assert!(
                later.code.is_some_and(|code| code != 0) || args[1] == "regrade",
                "{script}: {}",
                later.all()
            );
        }
    }
}

#[test]
fn a_failed_case_decides_before_foreign_lines() {
    let (_server, project) = meddling(SCRIPTS[0].0, "13");
    project
        .run(&["test"])
        .exits(1)
        .says("another program wrote to the journal");
}

#[test]
fn a_journal_that_was_edited_gives_no_verdict_and_resume_asks_again() {
    let server = half_correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    project.run(&["test"]).exits(1);
    let journal = project.journals().remove(0);
    let whole = fs::read_to_string(&journal).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    let with = |place: usize, line: &str| [&lines[..place], &[line], &lines[place + 1..]].concat().concat();
    let graded = lines
        .iter()
        .rposition(|line| line.contains("\"failed\""))
        .unwrap();
    let greener = lines[graded].replace("\"failed\"", "\"passed\"");
    for (edited, asked) in [
        (with(graded, &greener), 0),
        (with(1, lines[3]), 2),
        (with(1, ""), 2),
        (whole.clone() + &greener, 0),
        (whole.clone() + &lines[1..].concat(), 0),
    ] {
        fs::write(&journal, &edited).unwrap();
        for args in [
            &["test", "compare", "latest", "latest"][..],
            &["test", "compare", "latest", "latest", "--gate"],
            &["test", "regrade"],
        ] {
            project
                .run(args)
                .exits(3)
                .says("does not fit to the lines before it");
        }
        let before = server.requests().len();
        project
            .run(&["test", "resume"])
            .exits(1)
            .says("did not fit to the lines before it");
        assert_eq!(server.requests().len(), before + asked);
        project.run(&["test", "compare", "latest", "latest"]).exits(0);
    }
}

#[test]
fn a_run_that_was_not_ended_says_so() {
    let server = half_correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    project.run(&["test"]).exits(1);
    let journal = project.journals().remove(0);
    let whole = fs::read_to_string(&journal).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    fs::write(&journal, lines[..lines.len() - 1].concat()).unwrap();
    project
        .run(&["test", "compare", "latest", "latest"])
        .exits(0)
        .says("it was not ended");
    project
        .run(&["test", "compare", "latest", "latest", "--gate"])
        .exits(1)
        .says("it was not ended");
    project.run(&["test", "regrade"]).exits(1).says("was not ended");
}

#[test]
fn an_earlier_report_that_stays_is_named() {
    let server = half_correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let report = ["test", "--report", "junit=r.xml", "-o", "r.json"];
    let first = project.run(&report).exits(1);
    assert!(!first.stderr.contains("earlier run"), "{}", first.all());
    let again = project.run(&report).exits(1);
    assert!(!again.stderr.contains("earlier run"), "{}", again.all());
    let before = (project.read("r.xml"), project.read("r.json"));
    project.write("agent.yaml", "name: [");
    let stays = project.run(&report).exits(2);
    let stays = stays.says("`r.xml` is the report of an earlier run; it stays");
    stays.says("`r.json` is the report of an earlier run; it stays");
    project
        .run(&["test", "regrade", "--report", "junit=r.xml"])
        .exits(2)
        .says("`r.xml` is the report of an earlier run");
    assert_eq!((project.read("r.xml"), project.read("r.json")), before);
}

#[test]
fn equal_names_get_different_ids_in_junit() {
    let server = half_correct_server();
    let cases = "  - {name: capital, input: The capital of France?, ground_truth: Paris}\n  \
                 - {name: capital, input: 7 + 5?, ground_truth: Paris}\n  \
                 - {name: 'capital #2', input: The capital of France, ground_truth: Paris}\n  \
                 - {name: capital, input: And France?, ground_truth: Paris}\n";
    let project = Project::with(&agent(&server.url(), cases));
    project.run(&["test", "--report", "junit=r.xml"]).exits(1);
    let report = project.read("r.xml");
    let names = report
        .lines()
        .filter_map(|line| line.split("<testcase name=\"").nth(1));
    let names: Vec<&str> = names.filter_map(|name| name.split('"').next()).collect();
    assert_eq!(names, ["capital", "capital #2", "capital #2 #2", "capital #3"]);
}
