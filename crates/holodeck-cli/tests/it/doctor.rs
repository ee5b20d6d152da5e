use crate::project::{Project, TWO_CASES, agent, assert_seen, knowing};

#[test]
fn what_is_there_is_0() {
    let server = knowing();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    assert_seen!(project.run(&["doctor"]).exits(0));
    server.finish();
}

#[test]
fn what_is_missing_is_1() {
    let server = knowing();
    let down = server.url();
    drop(server.finish());
    let project = Project::with(&agent(&down, TWO_CASES));
    assert_seen!(project.run(&["doctor"]).exits(1));
    let told = project.run(&["doctor", "--json"]).exits(1).json();
    assert_eq!(told["ok"], false);
    assert!(
        told["checks"]
            .as_array()
            .unwrap()
            .iter()
            .any(|check| check["state"] == "missing")
    );
}

#[test]
fn a_wrong_file_is_2() {
    Project::with("name: a\n").run(&["doctor"]).exits(2);
}
