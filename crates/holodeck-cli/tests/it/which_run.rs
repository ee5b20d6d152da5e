//! Which run a name means: `latest`, the beginnings of run ids and baselines belong to an agent, never to its folder.

use std::{fs, path::Path};

use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::project::{CommandOutput, Project, TWO_CASES, agent};

/// Two agents that share a folder: `left` is wrong about everything, `right` about nothing.
struct Pair {
    project: Project,
    _server: ModelServer,
    left: &'static str,
    right: &'static str,
    /// The newest run of each.
    left_run: String,
    right_run: String,
}

/// How two agents in one folder can differ: the file and the name of each.
const PAIRS: &[[(&str, &str); 2]] = &[
    // Different files and names.
    [("left.yaml", "left"), ("right.yaml", "right")],
    // Equal names in different files.
    [("left.yaml", "same"), ("right.yaml", "same")],
    // One file, whose agent was renamed.
    [("agent.yaml", "before"), ("agent.yaml", "after")],
    // The name of one is the beginning of the other's.
    [("a.yaml", "a"), ("a.b.yaml", "a b")],
];

/// The left model is wrong.
fn server() -> ModelServer {
    ModelServer::answering(|request| {
        let question = request.texts("user").pop().unwrap_or_default().to_owned();
        Reply::text(match request.body["model"].as_str() {
            Some("wrong" | "bad") => "No idea.",
            _ if question.contains("France") => "Paris.",
            _ => "12",
        })
    })
}

impl Pair {
    /// Runs the left agent, then the right one, whose run is the newest of the folder.
    fn new([left, right]: [(&'static str, &'static str); 2]) -> Self {
        let server = server();
        let project = Project::empty();
        let write = |(file, name): (&str, &str), model: &str| {
            let text = agent(&server.url(), TWO_CASES)
                .replace("name: support", &format!("name: {name}"))
                .replace("name: test-model", &format!("name: {model}"));
            project.write(file, text);
        };
        write(left, "wrong");
        project.run(&["test", left.0]).exits(1);
        let left_run = id(&project.journals()[0]);
        write(right, "right");
        project.run(&["test", right.0]).exits(0);
        let mut runs: Vec<String> = project.journals().iter().map(|journal| id(journal)).collect();
        runs.retain(|run| *run != left_run);
        // Later commands are those of the left agent.
        write(left, "wrong");
        Self {
            project,
            _server: server,
            left: left.0,
            right: right.0,
            left_run,
            right_run: runs.remove(0),
        }
    }

    fn run(&self, args: &[&str]) -> CommandOutput {
        self.project.run(&[&["test"], args].concat())
    }

    fn header(&self, place: usize) -> Value {
        let text = fs::read_to_string(&self.project.journals()[place]).unwrap();
        serde_json::from_str(text.lines().next().unwrap()).unwrap()
    }
}

fn id(journal: &Path) -> String {
    journal.file_stem().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn latest_is_the_newest_run_of_the_agent() {
    for pair in PAIRS {
        let pair = Pair::new(*pair);
        let compared = pair
            .run(&["compare", "latest", "latest", pair.left, "--json"])
            .exits(0);
        let compared = compared.json();
        assert_eq!(compared["after"]["run_id"], *pair.left_run, "{}", pair.left);
        assert_eq!(compared["after"]["states"]["failed"], 2);
        let chat = ["chat", pair.left, "--from", "latest:capital", "--once", "why?"];
        pair.project.run(&chat).exits(0).says(&pair.left_run);
        // The answers of the other agent would pass.
        let regraded = pair.run(&["regrade", "latest", pair.left]).exits(1);
        regraded.says(&format!("regraded from {}", pair.left_run));
        pair.run(&["resume", "latest", pair.left])
            .exits(1)
            .says("2 already finished");
        pair.run(&["resume", pair.left]).exits(1);
        // Nothing failed in the newest run of the folder.
        let plan = pair
            .run(&["--failed", "--dry-run", "--json", pair.left])
            .exits(0)
            .json();
        assert_eq!(plan["cases"].as_array().map(Vec::len), Some(2), "{}", pair.left);
    }
}

#[test]
fn the_id_of_a_run_of_another_agent_is_refused_by_name() {
    for pair in PAIRS {
        let pair = Pair::new(*pair);
        let journals = pair.project.journals();
        let own_beginning = shortest_beginning(&pair.left_run, &pair.right_run);
        let other_beginning = shortest_beginning(&pair.right_run, &pair.left_run);
        let other_path = journals.iter().find(|path| id(path) == pair.right_run).unwrap();
        let before = journals.len();
        for other in [&*pair.right_run, &other_beginning] {
            for args in [
                &["compare", "latest", other, pair.left][..],
                &["compare", other, "latest", pair.left, "--gate"],
                &["regrade", other, pair.left],
                &["resume", other, pair.left],
                &["resume", other, pair.left, "--accept-changes"],
                &["merge", other, pair.left],
            ] {
                pair.run(args)
                    .exits(2)
                    .says("belongs to another agent: `")
                    .says(&format!("in `{}`", pair.right));
            }
            let from = format!("{other}:capital");
            let chat = ["chat", pair.left, "--from", &from, "--once", "why?"];
            pair.project.run(&chat).exits(2).says("belongs to another agent");
        }
        // A path is no reason to mix them.
        let path = other_path.to_str().unwrap();
        for command in ["regrade", "resume", "merge"] {
            pair.run(&[command, path, pair.left])
                .exits(2)
                .says("belongs to another agent");
        }
        assert_eq!(pair.project.journals().len(), before);
        // But to compare two agents is what `compare` is for.
        let compared = pair
            .run(&["compare", &own_beginning, path, pair.left, "--json"])
            .exits(0);
        assert_eq!(compared.json()["counts"]["newly_passing"], 2);
    }
}

/// The shortest beginning of an id that is none of the other's.
fn shortest_beginning(id: &str, other: &str) -> String {
    let same = id.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    id[..=same].to_owned()
}

#[test]
fn the_beginning_of_an_id_counts_only_the_runs_of_the_agent() {
    for pair in PAIRS {
        let pair = Pair::new(*pair);
        // Both ids begin with the century.
        let compared = pair.run(&["compare", "20", "20", pair.left, "--json"]).exits(0);
        assert_eq!(compared.json()["before"]["run_id"], *pair.left_run);
        pair.run(&["regrade", "20", pair.left])
            .exits(1)
            .says(&format!("regraded from {}", pair.left_run));
        let regrade = (0..3)
            .map(|place| pair.header(place))
            .find(|header| header.get("regrades").is_some());
        assert_eq!(regrade.unwrap()["agent_file"], pair.left);
        pair.run(&["compare", "20", "20", pair.left])
            .exits(2)
            .says("matches 2 runs");
        pair.run(&["regrade", "1999", pair.left])
            .exits(2)
            .says("there is no run `1999`");
    }
}

#[test]
fn an_agent_without_runs_has_no_latest() {
    for [(left, left_name), _] in PAIRS {
        let server = server();
        let project = Project::empty();
        let text = agent(&server.url(), TWO_CASES);
        project.write(left, text.replace("name: support", "name: other"));
        project.write(
            "other.yaml",
            text.replace("name: support", &format!("name: {left_name}")),
        );
        project.run(&["test", left]).exits(0);
        project.run(&["test", "other.yaml"]).exits(0);
        project.write(left, text.replace("name: support", &format!("name: {left_name}")));
        for args in [
            &["test", "compare", "latest", "latest", left][..],
            &["test", "regrade", left],
            &["test", "resume", "latest", left],
            &["test", "--failed", left],
            &["chat", left, "--from", "latest:capital", "--once", "why?"],
        ] {
            project
                .run(args)
                .exits(2)
                .says(&format!("there is no run of `{left_name}` in `{left}`"));
        }
        // An estimate is not made of another agent's answers.
        let plan = project.run(&["test", "--dry-run", left]).exits(0);
        assert!(plan.stdout.contains("lengths of the prompts"), "{}", plan.all());
    }
}

#[test]
fn a_baseline_is_that_of_one_agent() {
    for pair in PAIRS {
        let pair = Pair::new(*pair);
        pair.run(&["--save-baseline", "baseline", pair.left]).exits(1);
        // The right agent must neither replace it nor be compared with it.
        let name = pair.project.run(&["test", "--dry-run", "--json", pair.right]);
        assert_eq!(name.code, Some(0));
        if pair.left == pair.right {
            let text = pair.project.read(pair.left);
            pair.project
                .write(pair.right, text.replace("name: before", "name: after"));
        }
        let before = pair.project.read("baselines/baseline.json");
        let refused = pair.run(&["--save-baseline", "baseline", pair.right]).exits(2);
        refused
            .says("it is the baseline of another agent, `")
            .says(&format!("in `{}`", pair.left))
            .says("--save-baseline NAME");
        assert_eq!(pair.project.read("baselines/baseline.json"), before);
        for args in [
            &["compare", "baseline", "latest", pair.right, "--gate"][..],
            &["compare", "latest", "baseline:baseline", pair.right],
        ] {
            pair.run(args).exits(2).says("is of another agent: `");
        }
        // By its path, it is what it is: both were named.
        pair.run(&["compare", "baselines/baseline.json", "latest", pair.right])
            .exits(0)
            .says("newly passing (2)");
        pair.run(&["--save-baseline", "mine", pair.right])
            .exits(i32::from(pair.left == pair.right));
        // It is the right one, but of the very run that is compared with it.
        pair.run(&["compare", "baseline:mine", "latest", pair.right, "--gate"])
            .exits(4)
            .says("A and B are the same run");
        pair.run(&["--save-baseline", "baseline", "--force", pair.right])
            .says("baselines/baseline.json");
    }
}

#[test]
fn a_file_named_latest_is_meant_only_with_its_folder() {
    let pair = Pair::new(PAIRS[0]);
    let other = pair
        .project
        .path(&format!(".holodeck/runs/{}.jsonl", pair.right_run));
    fs::copy(other, pair.project.path("latest")).unwrap();
    let after = |name: &str| {
        let compared = pair
            .run(&["compare", "latest", name, pair.left, "--json"])
            .exits(0);
        compared.json()["after"]["run_id"].as_str().unwrap().to_owned()
    };
    assert_eq!(after("latest"), pair.left_run);
    assert_eq!(after("./latest"), pair.right_run);
    let chat = ["chat", pair.left, "--from", "latest:capital", "--once", "why?"];
    pair.project.run(&chat).exits(0).says(&pair.left_run);
    pair.run(&["regrade", "latest", pair.left]).exits(1);
    pair.run(&["regrade", "./latest", pair.left])
        .exits(2)
        .says("belongs to another agent");
}

#[test]
fn an_old_journal_belongs_to_the_file_that_was_typed() {
    let pair = Pair::new(PAIRS[1]);
    let journals = pair.project.journals();
    for (journal, typed) in journals.iter().zip(["./left.yaml", "/abs/right.yaml"]) {
        let text = fs::read_to_string(journal).unwrap();
        let older: Vec<String> = text.lines().map(without_digest).collect();
        let mut header: Value = serde_json::from_str(&older[0]).unwrap();
        let fields = header.as_object_mut().unwrap();
        fields.remove("agent_file");
        fields.remove("holodeck_journal");
        header["agent_path"] = typed.into();
        // The format is recognised by the first field.
        let first = format!("{{\"holodeck_journal\":2,{}", &header.to_string()[1..]);
        fs::write(journal, format!("{first}\n{}\n", older[1..].join("\n"))).unwrap();
    }
    let compared = pair
        .run(&["compare", "latest", "latest", "left.yaml", "--json"])
        .exits(0);
    let compared = compared.json();
    assert_eq!(compared["after"]["run_id"], *pair.left_run);
    let notes = compared["notes"].to_string();
    assert!(
        notes.contains("whether its journal was changed is not known"),
        "{notes}"
    );
    // Its lines have no digests: it is only shown.
    for args in [
        &["compare", "latest", "latest", "left.yaml", "--gate"][..],
        &["regrade", "left.yaml"],
        &["resume", "left.yaml"],
        &["--failed", "left.yaml"],
        &["merge", &pair.left_run, "left.yaml"],
    ] {
        pair.run(args).exits(2).says("an earlier version of holodeck");
    }
}

fn without_digest(line: &str) -> String {
    format!("{}}}", line.split(",\"chain\"").next().unwrap())
}

#[test]
fn a_journal_that_does_not_say_whose_run_it_is_is_not_passed_over() {
    let pair = Pair::new(PAIRS[0]);
    let journal = pair
        .project
        .path(&format!(".holodeck/runs/{}.jsonl", pair.right_run));
    let other = fs::read_to_string(journal).unwrap();
    // Also a run whose agent was edited, and one under the name of another.
    let edited = other.replacen("right", "left", 1);
    for damage in ["", "{\"holodeck_journal\":2,", "[]\n", &edited, &other] {
        // Newer than all others.
        pair.project
            .write(".holodeck/runs/29991231T000000000-000000.jsonl", damage);
        for args in [
            &["compare", "latest", "latest", pair.left][..],
            &["regrade", pair.left],
            &["resume", pair.left],
            &["--failed", pair.left],
        ] {
            pair.run(args).exits(2).says("does not say whose run it is");
        }
        // An id says which run is meant.
        pair.run(&["compare", &pair.left_run, &pair.left_run, pair.left])
            .exits(0);
    }
}

#[test]
fn an_agent_file_that_cannot_be_read_has_the_runs_of_its_only_name() {
    let pair = Pair::new(PAIRS[0]);
    pair.project.write("left.yaml", "name: [");
    let compared = pair
        .run(&["compare", "latest", "latest", "left.yaml", "--json"])
        .exits(0);
    assert_eq!(compared.json()["after"]["run_id"], *pair.left_run);
    let renamed = Pair::new(PAIRS[2]);
    renamed.project.write("agent.yaml", "name: [");
    renamed
        .run(&["compare", "latest", "latest"])
        .exits(2)
        .says("had agents of several names");
}

const MODELS: &str = "matrix:\n  model.name: [good, bad, other]\n";

fn matrix(server: &ModelServer) -> Project {
    Project::with(&format!("{}{MODELS}", agent(&server.url(), TWO_CASES)))
}

#[test]
fn of_a_matrix_one_run_must_be_named() {
    let server = server();
    let project = matrix(&server);
    project.run(&["test"]).exits(1);
    let runs: Vec<String> = project.journals().iter().map(|journal| id(journal)).collect();
    project
        .run(&["test", "--matrix", "model.name=good", "--save-baseline"])
        .exits(0);
    // The newest command ran one combination.
    project
        .run(&["test", "compare", "baseline", "latest", "--gate"])
        .exits(4)
        .says("A and B are the same run");
    project.run(&["test"]).exits(1);
    for args in [
        &["test", "compare", "baseline", "latest", "--gate"][..],
        &["test", "regrade"],
        &["test", "regrade", "latest"],
        &["test", "--save-baseline"],
        &["chat", "--from", "latest:capital", "--once", "why?"],
    ] {
        let refused = project.run(args).exits(2);
        for name in ["good", "bad", "other"] {
            assert!(
                refused.stderr.contains(&format!("model.name={name}")),
                "{}",
                refused.all()
            );
        }
    }
    let chosen = |value: &str| {
        let args = [
            "test", "compare", "baseline", "latest", "--json", "--matrix", value,
        ];
        project.run(&args).exits(0).json()["after"].clone()
    };
    assert_eq!(chosen("model.name=bad")["states"]["failed"], 2);
    assert_eq!(chosen("model.name=good")["states"]["passed"], 2);
    assert!(
        chosen("model.name=bad")["provenance"]
            .to_string()
            .contains("model.name=bad")
    );
    project
        .run(&["test", "regrade", "--matrix", "model.name=bad"])
        .exits(1)
        .says("combination model.name=bad");
    // The regrade is the newest run of its combination, for `compare` only.
    assert!(
        chosen("model.name=bad")["provenance"]
            .to_string()
            .contains("regraded from")
    );
    project
        .run(&["test", "regrade"])
        .exits(2)
        .says("`latest` is one of the 3 runs of a matrix");
    for value in ["model.name=gone", "model.temperature=1"] {
        project
            .run(&["test", "regrade", "--matrix", value])
            .exits(2)
            .says("no run has these values");
    }
    // An id names one run, and other values contradict it.
    project.run(&["test", "regrade", &runs[1]]).exits(1);
    project
        .run(&["test", "regrade", &runs[1], "--matrix", "model.name=good"])
        .exits(2)
        .says("model.name=bad");
    project
        .run(&[
            "test",
            "compare",
            &runs[0],
            &runs[1],
            "--matrix",
            "model.name=good",
        ])
        .exits(2)
        .says("neither run is `latest`");
}

#[test]
fn a_combination_that_was_not_run_is_not_one_of_an_earlier_command() {
    let server = ModelServer::answering(|request| match request.body["model"].as_str() {
        Some("down") => Reply::openai_error(400, "no such model", None, None),
        _ => Reply::text("Paris 12"),
    });
    let project = matrix(&server);
    project.run(&["test"]).exits(0);
    // With `--fail-fast`, the first one is the last one.
    project.write(
        "agent.yaml",
        format!("{}{MODELS}", agent(&server.url(), TWO_CASES))
            .replace("ground_truth: Paris", "ground_truth: Lyon"),
    );
    project.run(&["test", "--fail-fast"]).exits(1);
    for args in [
        &[
            "test",
            "compare",
            "latest",
            "latest",
            "--matrix",
            "model.name=other",
        ][..],
        &["test", "regrade", "--matrix", "model.name=other"],
    ] {
        project
            .run(args)
            .exits(2)
            .says("model.name=other was not run by the newest command");
    }
}

#[test]
fn all_unfinished_runs_of_a_matrix_are_resumed() {
    let server = server();
    let project = matrix(&server);
    project.run(&["test", "-n", "1"]).exits(1);
    project.run(&["test"]).exits(1);
    let journals = project.journals();
    // Two runs of the newest command were killed before they were graded.
    for journal in &journals[4..] {
        let text = fs::read_to_string(journal).unwrap();
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        fs::write(journal, lines[..2].concat()).unwrap();
    }
    let asked = server.requests().len();
    let resumed = project.run(&["test", "resume"]).exits(1);
    assert_eq!(project.journals(), journals);
    // Each has one answer already.
    assert_eq!(server.requests().len(), asked + 2);
    assert!(
        resumed.stdout.contains("1 of 2 combinations passed"),
        "{}",
        resumed.all()
    );
    for name in ["bad", "other"] {
        assert!(
            resumed
                .stderr
                .contains(&format!("resuming combination model.name={name}")),
            "{}",
            resumed.all()
        );
    }
    let finished = project.run(&["test", "resume"]).exits(1);
    assert!(
        finished
            .stderr
            .contains("combination model.name=bad has 2 cases that did not pass"),
        "{}",
        finished.all()
    );
}
