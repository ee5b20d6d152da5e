//! The questions to judges and their answers on the page of a case.

use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;

use super::{View, pages, status};
use crate::project::Project;

const ANSWER: &str = "Cups <b>are</b> in stock.";

fn project(server: &ModelServer) -> Project {
    let endpoint = server.url();
    Project::with(&format!(
        "name: desk\nmodel: {{provider: openai, name: m, endpoint: \"{endpoint}\"}}\n\
         instructions: {{inline: Answer briefly.}}\nevaluations:\n  \
         model: {{provider: openai, name: judge, endpoint: \"{endpoint}\"}}\n  metrics: [{{type: geval, name: polite, \
         criteria: Is it polite?, evaluation_steps: [Read it.], threshold: 0.7}}]\ntest_cases:\n\
         - {{name: cups, input: Are there cups?}}\n- {{name: plates, input: Are there plates?}}\n"
    ))
}

fn server() -> ModelServer {
    ModelServer::answering(|request| {
        let prompt = request.texts("user").concat();
        match request.body["model"].as_str() {
            Some("judge") if prompt.contains("Plates") => Reply::text("Hard to say."),
            Some("judge") => Reply::text(r#"{"score": 8, "reason": "It greets <i>nobody</i>."}"#),
            _ if prompt.contains("plates") => Reply::text("Plates are gone."),
            _ => Reply::text(ANSWER),
        }
    })
}

#[test]
fn a_judge_is_shown_with_its_question_and_its_answer_of_each_trial() {
    let server = server();
    let project = project(&server);
    project
        .run(&["test", "--filter", "cups", "--trials", "2"])
        .exits(0);
    // The first view reads the whole journal, the second one only the lines of the case.
    for _ in 0..2 {
        let view = View::start(&project);
        let head = view.log_in();
        let list = view.ask("GET", "/", &head);
        let page = view.ask("GET", &format!("{}/case/1", pages(&list)[0]), &head);
        assert_eq!(status(&page), "200");
        let (_, asked) = page.split_once("<h2>Asked of judges</h2>").expect(&page);
        let asked = asked.split("<h2>").next().unwrap();
        for trial in ["trial 1", "trial 2"] {
            assert_eq!(asked.matches(trial).count(), 1, "{asked}");
        }
        for part in ["Is it polite?", "Cups &lt;b&gt;are", "&quot;score&quot;: 8"] {
            assert_eq!(asked.matches(part).count(), 2, "{part} in {asked}");
        }
        assert!(!page.contains("<i>nobody</i>"), "{page}");
    }
}

#[test]
fn a_judge_without_a_verdict_is_shown_with_the_reason() {
    let server = server();
    let project = project(&server);
    project.run(&["test"]);
    let view = View::start(&project);
    let head = view.log_in();
    let list = view.ask("GET", "/", &head);
    let page = view.ask("GET", &format!("{}/case/2", pages(&list)[0]), &head);
    let (_, asked) = page.split_once("<h2>Asked of judges</h2>").expect(&page);
    let asked = asked.split("<h2>").next().unwrap();
    assert!(
        asked.contains("Plates are gone.") && asked.contains("no answer: "),
        "{asked}"
    );
    assert!(
        !asked.contains("Cups") && !asked.contains("not recorded"),
        "{asked}"
    );
}
