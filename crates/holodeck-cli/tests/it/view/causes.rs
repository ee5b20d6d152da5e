//! Cases that did not pass for the same cause.

use pretty_assertions::assert_eq;

use super::*;

#[test]
fn cases_with_the_same_cause_stand_together() {
    let cases: String = (0..3)
        .map(|number| format!("  - name: same {number}\n    input: x?\n    ground_truth: \"never\"\n"))
        .chain(["  - name: other\n    input: x?\n    ground_truth: nowhere\n".to_owned()])
        .collect();
    let server = correct_server();
    let project = Project::with(&agent(&server.url(), &cases));
    project.run(&["test"]);
    let view = View::start(&project);
    let head = view.log_in();
    let list = view.ask("GET", "/", &head);
    let page = view.ask("GET", pages(&list)[0], &head);
    let heading = page.find("<h3 class=\"cause\">3 cases: ").unwrap();
    let place = |name: &str| page.find(&format!("<b>{name}</b>")).unwrap();
    assert!(place("other") < heading && heading < place("same 0"), "{page}");
    // Only the first of them is open.
    assert_eq!(page.matches("data-state=\"failed\" open").count(), 2, "{page}");
    let chosen = view.ask("GET", &format!("{}?q=other", pages(&list)[0]), &head);
    assert!(!chosen.contains("class=\"cause\""), "{chosen}");
    let none = view.ask("GET", &format!("{}?q=nothing-has-it", pages(&list)[0]), &head);
    assert!(!none.contains("<h2>Did not pass"), "{none}");
}
