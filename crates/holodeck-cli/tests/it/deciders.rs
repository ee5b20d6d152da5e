//! Changes of expectations, judges, graders and their files between two commands, as a user makes them.

use std::fs;

use holodeck_testkit::{ModelServer, ReceivedRequest, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::project::{Project, TWO_CASES, agent, correct_server};

/// Whether a judge is asked for steps.
fn asks_for_steps(request: &ReceivedRequest) -> bool {
    request.texts("user").concat().contains("the list of steps")
}

fn judge(request: &ReceivedRequest) -> Reply {
    let answer = if asks_for_steps(request) {
        json!({"items": ["Read the answer.", "Compare it."]})
    } else {
        json!({"reason": "it is right", "score": 10})
    };
    Reply::text(answer.to_string())
}

fn judged(agent: &ModelServer, judge: &ModelServer, criteria: &str) -> String {
    format!(
        "name: support\nmodel: {{provider: openai, name: m, endpoint: \"{}\"}}\ninstructions: {{inline: Be brief.}}\n\
         evaluations:\n  model: {{provider: openai, name: j, endpoint: \"{}\"}}\n  metrics:\n    \
         - {{type: geval, name: Right, criteria: {criteria}}}\n\
         test_cases:\n  - {{input: q1}}\n  - {{input: q2}}\n",
        agent.url(),
        judge.url()
    )
}

#[test]
fn derived_steps_are_kept_for_every_later_run() {
    let answers = ModelServer::answering(|_| Reply::text("30 days"));
    let judges = ModelServer::answering(judge);
    let project = Project::with(&judged(&answers, &judges, "Is it right?"));
    let derivations = || {
        judges
            .requests()
            .iter()
            .filter(|request| asks_for_steps(request))
            .count()
    };
    project
        .run(&["test"])
        .exits(0)
        .says("commit it")
        .says("judge-steps.json");
    assert_eq!(derivations(), 1);
    // What the derivation used is in the totals of judges, and in none of the cases.
    let report = project.run_file()["report"].clone();
    let tokens = |usage: &Value| usage["total_tokens"].as_u64().unwrap();
    let of_cases = report["results"].as_array().unwrap().iter();
    let of_cases: u64 = of_cases.map(|case| tokens(&case["judge_usage"])).sum();
    let of_steps = tokens(&report["judge_steps"]["usage"]);
    assert!(of_steps > 0, "{}", report["judge_steps"]);
    assert_eq!(tokens(&report["summary"]["judge_usage"]), of_cases + of_steps);
    let kept = project.read("judge-steps.json");
    let file: Value = serde_json::from_str(&kept).unwrap();
    let steps: Vec<&Value> = file["steps"].as_object().unwrap().values().collect();
    assert_eq!(steps.len(), 1);
    assert_eq!(steps[0]["steps"], json!(["Read the answer.", "Compare it."]));
    // Nothing derives them again, and the file stays.
    project.run(&["test"]).exits(0);
    project.run(&["test", "regrade"]).exits(0);
    project
        .run(&["test", "steps"])
        .exits(0)
        .says("no steps are missing");
    assert_eq!(
        (derivations(), project.read("judge-steps.json")),
        (1, kept.clone())
    );
    // Without them, nothing that must judge as another run did derives its own.
    fs::remove_file(project.path("judge-steps.json")).unwrap();
    let asked = (answers.requests().len(), judges.requests().len());
    for args in [
        &["test", "--shard", "1/2"][..],
        &["test", "regrade"],
        &["test", "resume"],
    ] {
        let refused = project.run(args).exits(2);
        refused
            .says("`Right` are not in `judge-steps.json`")
            .says("holodeck test steps");
    }
    assert_eq!((answers.requests().len(), judges.requests().len()), asked);
    project
        .run(&["test", "steps"])
        .exits(0)
        .says("derived the steps of `Right` (unknown cost)");
    assert_eq!(answers.requests().len(), asked.0);
    assert_eq!(project.read("judge-steps.json"), kept);
    // Other criteria have steps of their own; those of the first stay.
    project.write("agent.yaml", judged(&answers, &judges, "Is it polite?"));
    project.run(&["test"]).exits(0).says("commit it");
    let file: Value = serde_json::from_str(&project.read("judge-steps.json")).unwrap();
    assert_eq!(file["steps"].as_object().unwrap().len(), 2);
    project
        .run(&["test", "compare", &project.first_run(), "latest", "--gate"])
        .exits(4)
        .says("the judge of `Right` changed in 2 cases");
    // A damaged file is no reason to judge by other steps.
    project.write("judge-steps.json", "{\"steps\": {}}");
    project.run(&["test"]).exits(2).says("judge-steps.json");
}

impl Project {
    fn first_run(&self) -> String {
        let journals = self.journals();
        journals[0].file_stem().unwrap().to_str().unwrap().to_owned()
    }
}

#[test]
fn a_changed_expectation_is_named_and_passes_a_gate_only_if_allowed() {
    let server = correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    project.run(&["test", "--save-baseline"]).exits(0);
    let lower = agent(&server.url(), TWO_CASES)
        .replace("ground_truth: ", "forbidden_tools: [erase]\n    ground_truth: ");
    project.write("agent.yaml", lower);
    project.run(&["test"]).exits(0);
    let compare = ["test", "compare", "baseline", "latest"];
    project
        .run(&[&compare[..], &["--gate"]].concat())
        .exits(4)
        .says("the expectation `forbidden_tools` changed in 2 cases")
        .says("--allow-changed-expectations");
    project
        .run(&[&compare[..], &["--gate", "--allow-changed-judges"]].concat())
        .exits(4);
    project
        .run(&[&compare[..], &["--gate", "--allow-changed-expectations"]].concat())
        .exits(0)
        .says("the expectation `forbidden_tools` changed in 2 cases");
    project.run(&["test", "--failed", "--dry-run"]).exits(5);
    project.write("agent.yaml", agent(&server.url(), TWO_CASES));
    project
        .run(&["test", "--failed"])
        .exits(0)
        .says("the earlier pass of 2 cases does not count");
}

#[test]
fn a_grader_that_is_replaced_during_the_run_gives_no_verdict() {
    let server = ModelServer::answering(|request| {
        if request.texts("tool").is_empty() {
            Reply::tool_call("1", "swap", &json!({}))
        } else {
            Reply::text("done")
        }
    });
    let project = Project::with(&format!(
        "name: support\nmodel: {{provider: openai, name: m, endpoint: \"{}\"}}\ninstructions: {{inline: Be brief.}}\n\
         tools:\n  - {{name: swap, type: function, description: Swaps., command: /bin/sh, args: [swap.sh], parameters: {{}}}}\n\
         evaluations:\n  metrics:\n    - {{type: code, name: strict, command: /bin/sh, args: [grade.sh]}}\n\
         test_cases:\n  - {{input: q}}\n",
        server.url()
    ));
    project.write(
        "grade.sh",
        "cat > /dev/null; echo '{\"score\": 0, \"passed\": false}'\n",
    );
    project.write("swap.sh", "echo 'cat > /dev/null; echo true' > grade.sh\n");
    project
        .run(&["test"])
        .exits(4)
        .says("files of the grader changed during the run: `grade.sh`");
    // The run that starts with the new program is another one: its verdicts are not mixed with those of the first.
    project.run(&["test"]).exits(0);
    project.write(
        "grade.sh",
        "cat > /dev/null; echo '{\"score\": 1, \"passed\": true}'\n",
    );
    project
        .run(&["test", "regrade", "--errors"])
        .exits(2)
        .says("another grader decides now");
}
