//! Cases with variables, earlier messages, tags, samples and scores, from the command line to the report.

use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::project::{Project, agent};

#[test]
fn the_model_sees_the_conversation_before_the_rendered_question() {
    let server = ModelServer::answering(|_| Reply::text("Ja, 14 Tage."));
    let cases = "  - name: german\n    vars: {language: German, days: 14}\n    messages:\n    \
                 - {role: user, content: 'I write {{ language }}.'}\n    \
                 - {role: assistant, content: Gern.}\n    \
                 input: 'In {{ language }}: after {{ days }} days?'\n    ground_truth: Ja\n";
    let project = Project::with(&agent(&server.url(), cases));
    project
        .run(&["test", "--report", "json=out.json"])
        .exits(0)
        .says("PASS german");
    let report: Value = serde_json::from_str(&project.read("out.json")).unwrap();
    assert_eq!(report["results"][0]["test_input"], "In German: after 14 days?");
    let requests = server.finish();
    let messages: Vec<(&str, &str)> = requests[0].body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| {
            let text = |field: &str| message[field].as_str().unwrap_or_default();
            (text("role"), text("content"))
        })
        .filter(|(role, _)| *role != "system")
        .collect();
    assert_eq!(
        messages,
        [
            ("user", "I write German."),
            ("assistant", "Gern."),
            ("user", "In German: after 14 days?"),
        ]
    );
}

/// Six cases: the even ones are slow, the third is also new.
fn tagged() -> String {
    let case = |place: usize, tags: &str| {
        format!("  - name: case {place}\n    input: question {place}\n    ground_truth: Paris\n{tags}")
    };
    let cases = (1..=6).map(|place| match place {
        3 => case(place, "    tags: [new]\n"),
        place if place % 2 == 0 => case(place, "    tags: [slow]\n"),
        place => case(place, ""),
    });
    cases.collect()
}

/// The names of the cases that a run had.
fn names(project: &Project, args: &[&str]) -> Vec<String> {
    let mut all = vec!["test", "--report", "json=out.json", "--force"];
    all.extend(args);
    project.run(&all).exits(0);
    let report: Value = serde_json::from_str(&project.read("out.json")).unwrap();
    let results = report["results"].as_array().unwrap().iter();
    results
        .map(|case| case["test_name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn cases_are_selected_by_their_tags() {
    let server = ModelServer::answering(|_| Reply::text("Paris"));
    let project = Project::with(&agent(&server.url(), &tagged()));
    assert_eq!(
        names(&project, &["--tag", "slow"]),
        ["case 2", "case 4", "case 6"]
    );
    assert_eq!(
        names(&project, &["--tag", "slow", "--tag", "new"]),
        ["case 2", "case 3", "case 4", "case 6"]
    );
    assert_eq!(names(&project, &["--tag", "slow", "--filter", "*4"]), ["case 4"]);
    project
        .run(&["test", "--tag", "slow"])
        .exits(0)
        .says("partial: 3 of 6 cases (tag slow)");
    project
        .run(&["test", "--tag", "slwo"])
        .exits(5)
        .says("no case has the tag `slwo`; did you mean `slow`?");
    server.finish();
}

#[test]
fn a_sample_is_the_same_for_the_same_seed_and_says_so() {
    let server = ModelServer::answering(|_| Reply::text("Paris"));
    let project = Project::with(&agent(&server.url(), &tagged()));
    let sample = |seed: &str| names(&project, &["--sample", "3", "--seed", seed]);
    let first = sample("1");
    assert_eq!(first.len(), 3);
    assert_eq!(sample("1"), first);
    let others: Vec<Vec<String>> = ["2", "3", "4", "5"].map(&sample).to_vec();
    assert!(others.iter().any(|other| *other != first), "{others:?}");
    let mut in_order = first.clone();
    in_order.sort();
    assert_eq!(first, in_order);
    assert_eq!(names(&project, &["--sample", "9"]).len(), 6);
    project
        .run(&["test", "--sample", "2", "--seed", "7", "--tag", "slow"])
        .exits(0)
        .says("partial: 2 of 6 cases (tag slow, sample of 2 with seed 7)");
    server.finish();
}

/// An agent whose only case has these metrics.
fn scored(endpoint: &str, case: &str, metrics: &[Value]) -> String {
    let metrics: Vec<String> = metrics.iter().map(|metric| format!("    - {metric}\n")).collect();
    let metrics = metrics.concat();
    agent(
        endpoint,
        &format!("  - name: scored\n    input: q\n{case}    evaluations:\n{metrics}"),
    )
}

#[test]
fn with_a_lowest_score_the_weighted_score_decides() {
    let server = ModelServer::answering(|_| Reply::text("red green"));
    let metrics = |weight: f64| {
        [
            json!({"metric": "contains", "value": "red", "weight": weight}),
            json!({"metric": "contains", "value": "blue"}),
        ]
    };
    let project = Project::with(&scored(&server.url(), "    min_score: 0.75\n", &metrics(3.0)));
    project
        .run(&["test", "--report", "json=out.json"])
        .exits(0)
        .says("PASS scored");
    let report: Value = serde_json::from_str(&project.read("out.json")).unwrap();
    assert_eq!(report["results"][0]["score"], json!(0.75));
    project.write(
        "agent.yaml",
        scored(&server.url(), "    min_score: 0.75\n", &metrics(2.0)),
    );
    project
        .run(&["test"])
        .exits(1)
        .says("the score 0.667 is below `min_score` 0.75");
    // Without a lowest score the weight changes what is reported, and nothing else.
    project.write("agent.yaml", scored(&server.url(), "", &metrics(99.0)));
    project
        .run(&["test", "--report", "json=out.json", "--force"])
        .exits(1)
        .says("FAIL scored");
    let report: Value = serde_json::from_str(&project.read("out.json")).unwrap();
    assert_eq!(report["results"][0]["score"], json!(0.99));
    server.finish();
}

#[test]
fn an_error_among_weighted_checks_stays_an_error() {
    let server = ModelServer::answering(|_| Reply::text("red").without_finish_reason());
    let unknown = |weight: u32| json!({"metric": "finish_reason", "value": "end", "weight": weight});
    let red = json!({"metric": "contains", "value": "red"});
    let agent_of = |weight| {
        scored(
            &server.url(),
            "    min_score: 0.1\n",
            &[red.clone(), unknown(weight)],
        )
    };
    let project = Project::with(&agent_of(1));
    project
        .run(&["test"])
        .exits(4)
        .says("it is not known why this answer ended: its reason was not reported");
    // A metric that does not count decides nothing.
    project.write("agent.yaml", agent_of(0));
    project.run(&["test"]).exits(0).says("PASS scored");
    server.finish();
}

#[test]
fn a_refusal_that_is_expected_passes() {
    let server = ModelServer::answering(|_| Reply::text("No.").finish_reason("content_filter"));
    let refuses = json!({"metric": "is_refusal"});
    let ends = json!({"metric": "finish_reason", "value": "refusal"});
    let project = Project::with(&scored(&server.url(), "", &[refuses.clone(), ends.clone()]));
    project.run(&["test"]).exits(0).says("PASS scored");
    for metric in [
        json!({"metric": "is_refusal", "negate": true}),
        json!({"metric": "finish_reason", "value": "end"}),
        // Without a check that asks for it, a refusal is a failure.
        json!({"metric": "contains", "value": "No"}),
    ] {
        project.write("agent.yaml", scored(&server.url(), "", &[metric]));
        project.run(&["test"]).exits(1).says("FAIL scored");
    }
    server.finish();
}

#[test]
fn a_cut_answer_is_not_short_enough() {
    let server = ModelServer::answering(|_| Reply::text("one two").finish_reason("length"));
    let words = |limits: Value| {
        let mut metric = json!({"metric": "word_count"});
        for (name, value) in limits.as_object().unwrap() {
            metric[name] = value.clone();
        }
        metric
    };
    let project = Project::with(&scored(&server.url(), "", &[words(json!({"max": 5}))]));
    project
        .run(&["test"])
        .exits(4)
        .says("with the missing text it could have too many words");
    project.write(
        "agent.yaml",
        scored(&server.url(), "", &[words(json!({"min": 2}))]),
    );
    project.run(&["test"]).exits(0);
    server.finish();
}
