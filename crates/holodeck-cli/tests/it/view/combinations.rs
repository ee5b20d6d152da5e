//! The runs of a matrix: a page leads to all combinations, and trends are those of the agents that are shown.

use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;

use super::{View, pages};
use crate::project::{Project, TWO_CASES, agent};

const LINK: &str = "combinations side by side";

fn answering() -> ModelServer {
    ModelServer::answering(|_| Reply::text("Paris, and 12."))
}

/// The ids of the runs in the address of this link, in their order.
fn chosen(page: &str) -> Vec<String> {
    let links = page.split("<a href=\"").skip(1);
    let link = links.into_iter().find(|link| link.contains(LINK)).unwrap();
    let (address, _) = link.split_once('"').unwrap();
    let runs = address.split("run=").skip(1);
    runs.map(|run| run.split('&').next().unwrap().to_owned())
        .collect()
}

#[test]
fn a_run_of_a_matrix_leads_to_the_newest_run_of_each_other_combination() {
    let server = answering();
    let matrix = "matrix:\n  model.name: [large, small, tiny]\n";
    let project = Project::with(&format!("{}{matrix}", agent(&server.url(), TWO_CASES)));
    project.run(&["test"]);
    project.run(&["test"]);
    let view = View::start(&project);
    let head = view.log_in();
    let list = view.ask("GET", "/", &head);
    let runs = pages(&list);
    let ids: Vec<&str> = runs.iter().map(|run| run.rsplit('/').next().unwrap()).collect();
    let name = |page: &str| {
        let models = ["large", "small", "tiny"];
        let is_named = |model: &&str| page.contains(&format!("model.name={model}"));
        models.into_iter().find(is_named)
    };
    let names: Vec<&str> = runs
        .iter()
        .map(|run| name(&view.ask("GET", run, &head)).unwrap())
        .collect();
    let [newest, second, third, .., oldest] = names[..] else {
        panic!("{list}");
    };
    assert_eq!([newest, second, third], ["tiny", "small", "large"]);
    assert_eq!((ids.len(), oldest), (6, "large"));
    // Of its own combination the run that is shown, although there is a newer one.
    let page = view.ask("GET", runs[5], &head);
    assert_eq!(chosen(&page), [ids[0], ids[1], ids[5]]);
    let page = view.ask("GET", runs[0], &head);
    assert_eq!(chosen(&page), [ids[0], ids[1], ids[2]]);
}

#[test]
fn a_run_without_a_matrix_leads_to_no_combinations() {
    let server = answering();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    project.run(&["test"]);
    project.run(&["test"]);
    let view = View::start(&project);
    let head = view.log_in();
    let list = view.ask("GET", "/", &head);
    let page = view.ask("GET", pages(&list)[0], &head);
    assert!(page.contains("Compare with the run before") && !page.contains(LINK));
}

#[test]
fn trends_are_those_of_the_agents_that_are_shown() {
    let server = answering();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    for name in ["capital-agent", "parcel-agent"] {
        let text = agent(&server.url(), TWO_CASES);
        let (_, rest) = text.split_once('\n').unwrap();
        project.write("agent.yaml", format!("name: {name}\n{rest}"));
        project.run(&["test"]);
        project.run(&["test"]);
    }
    let view = View::start(&project);
    let head = view.log_in();
    let all = view.ask("GET", "/", &head);
    let trend = |page: &str, name: &str| page.contains(&format!("Trend of {name}"));
    assert!(
        trend(&all, "capital-agent") && trend(&all, "parcel-agent"),
        "{all}"
    );
    let one = view.ask("GET", "/?q=parcel", &head);
    assert!(
        trend(&one, "parcel-agent") && !trend(&one, "capital-agent"),
        "{one}"
    );
}
