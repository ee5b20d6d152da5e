//! Tests of the list of an agent's stored runs, and of one run and one case of it.

use std::fs;

use pretty_assertions::assert_eq;
use serde_json::json;

use holodeck_testkit::{Gate, ModelServer, Reply};

use crate::{
    interrupt::signal,
    project::{CommandOutput, Project, TWO_CASES, agent, half_correct_server},
};

#[test]
fn the_newest_run_is_first_and_names_what_changed_since_the_one_before() {
    let server = half_correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    project.run(&["test"]).exits(1);
    let text = project.read("agent.yaml").replacen("Paris", "Par", 1);
    project.write("agent.yaml", text);
    project.run(&["test"]).exits(1);
    server.finish();
    let list = project.run(&["test", "list", "--json"]).exits(0).json();
    let [newest, first] = list["runs"].as_array().unwrap().as_slice() else {
        panic!("{list}")
    };
    assert!(newest["run_id"].as_str() > first["run_id"].as_str(), "{list}");
    assert_eq!(newest["before"]["run_id"], first["run_id"]);
    let phrases = newest["before"]["phrases"].to_string();
    assert!(phrases.contains("changed in 1 case"), "{phrases}");
    assert_eq!(first["before"], json!(null));
    assert_eq!(
        (&newest["state"], &newest["summary"]["passed"]),
        (&json!("failed"), &json!(1))
    );
    let text = project.run(&["test", "list"]).exits(0);
    let text = text
        .says("1 of 2 passed")
        .says("95 % interval")
        .says("changed in 1 case");
    assert_eq!(text.stdout.matches("failed\n").count(), 2, "{}", text.stdout);
    project
        .run(&["test", "list", "--limit", "1"])
        .exits(0)
        .says("… and 1 older");
}

#[test]
fn a_run_of_another_agent_is_not_listed_and_a_damaged_one_is_a_row() {
    let server = half_correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let other = project
        .read("agent.yaml")
        .replacen("name: support", "name: sales", 1);
    project.write("sales.yaml", other);
    project.run(&["test"]).exits(1);
    project.run(&["test", "sales.yaml"]).exits(1);
    server.finish();
    let own = project.run(&["test", "list", "--json"]).exits(0).json();
    assert_eq!(own["total"], 1, "{own}");
    let journal = project.journals().remove(0);
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, text.replacen("\"graded\":", "\"grabed\":", 1)).unwrap();
    let list = project.run(&["test", "list"]).exits(0).says("cannot be read");
    assert!(!list.stdout.contains("passed"), "{}", list.stdout);
}

#[tokio::test]
async fn a_run_that_a_command_writes_is_running_and_a_killed_one_is_not() {
    let gate = Gate::new();
    let reply = Reply::text("Paris. 12").behind(&gate);
    let server = ModelServer::answering(move |_| reply.clone());
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let states = || -> Vec<String> {
        let list = project.run(&["test", "list", "--json"]).exits(0).json();
        let runs = list["runs"].as_array().unwrap().iter();
        runs.map(|run| run["state"].as_str().unwrap().to_owned())
            .collect()
    };
    let start = || project.command(&["test", "-q"]).spawn().unwrap();
    let mut killed = start();
    server.until_open(1).await;
    assert_eq!(states(), ["running"]);
    project
        .run(&["test", "show"])
        .exits(0)
        .says("running")
        .says("2 cases without a verdict yet");
    signal(&killed, "-KILL");
    killed.wait().unwrap();
    assert_eq!(states(), ["incomplete"]);
    let second = start();
    while states().len() < 2 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(states(), ["running", "incomplete"]);
    project.run(&["test", "list"]).exits(0).says("running\n");
    gate.open();
    CommandOutput::of(&second.wait_with_output().unwrap()).exits(0);
    assert_eq!(states(), ["passed", "incomplete"]);
    server.finish();
}

#[test]
fn a_case_is_shown_by_its_name_and_by_its_number_with_its_transcript() {
    let server = half_correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    project.run(&["test"]).exits(1);
    server.finish();
    let run = project
        .run(&["test", "show"])
        .exits(0)
        .says("✗ sum")
        .says("1 passed");
    assert!(!run.stdout.contains("capital"), "{}", run.stdout);
    let by_name = project.run(&["test", "show", "latest", "sum"]).exits(0);
    let by_name = by_name.says("7 + 5?").says("It is 13.");
    let by_number = project
        .run(&["test", "show", "latest", "#2", "agent.yaml"])
        .exits(0);
    assert_eq!(by_name.stdout, by_number.stdout);
    let case = project
        .run(&["test", "show", "latest", "sum", "--json"])
        .exits(0)
        .json();
    assert_eq!(case["result"]["state"], "failed");
    let wrong = project.run(&["test", "show", "latest", "sun"]).exits(2);
    wrong
        .says("the run has no case `sun`")
        .says("did you mean `sum`?");
    project.run(&["test", "show", "nothing"]).exits(2);
}
