//! What retrieval found reaches the run file, and stays there when the run is graded again.

use holodeck_runner::regrade;
use holodeck_testkit::{ScriptedBackend, ScriptedTurn};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::support::{Events, Project};

const TOOLS: &str = "tools:\n\
    - {type: vectorstore, name: kb, description: d, source: ., embedding_model: e}\n\
    - {type: function, name: clock, description: d, command: date}\n\
    - {type: mcp, name: wiki, description: d, command: npx, is_retrieval: true}\n";

/// Looks up what the question says.
fn backend() -> ScriptedBackend {
    ScriptedBackend::answering(|asked| {
        let query = json!({"query": asked.message});
        let turn = ScriptedTurn::nothing().and_called("clock", json!({}), "noon");
        let turn = match asked.message.as_str() {
            "both" => turn
                .and_called("kb_search", query.clone(), "from the index")
                .and_called("mcp__wiki__page", query, "from the server"),
            "claude" => turn.and_called("mcp__holodeck_tools__kb_search", query, "the same"),
            _ => turn,
        };
        turn.and_text("yes")
    })
}

#[tokio::test]
async fn each_turn_has_what_was_found_for_it() {
    let cases = "test_cases:\n\
        - {input: both}\n- {input: claude}\n- {input: nothing}\n\
        - {input: both, retrieval_context: [given]}\n\
        - {turns: [{input: nothing}, {input: both}, {input: nothing}, {input: claude}, {input: again},\n\
           {input: both, retrieval_context: [given]}]}\n";
    let project = Project::new(&format!("{TOOLS}{cases}"));
    let run = project.run(&backend()).await;
    let all = ["from the index", "from the server"].map(str::to_owned).to_vec();
    let check = |results: Vec<holodeck_model::TestResult>| {
        let single: Vec<_> = results
            .iter()
            .take(4)
            .map(|case| case.retrieval_context.clone())
            .collect();
        assert_eq!(
            single,
            [
                Some(all.clone()),
                Some(vec!["the same".to_owned()]),
                None,
                Some(vec!["given".to_owned()])
            ]
        );
        let turns = results[4].turns.as_ref().unwrap();
        let turns: Vec<_> = turns.iter().map(|turn| turn.retrieval_context.clone()).collect();
        let everything = [all.clone(), vec!["the same".to_owned()]].concat();
        assert_eq!(
            turns,
            [
                None,
                Some(all.clone()),
                Some(all.clone()),
                Some(vec!["the same".to_owned()]),
                Some(everything),
                Some(vec!["given".to_owned()]),
            ]
        );
    };
    check(run.results());
    let written = crate::support::run_file(&run.outcome.run_file);
    assert_eq!(
        written["report"]["results"][0]["retrieval_context"],
        json!(["from the index", "from the server"])
    );
    let again = regrade(
        &project.regrade_request(),
        run.outcome.journal_path(),
        &mut Events::default(),
    )
    .unwrap();
    check(again.with_view(|view| view.results().map(Result::unwrap).collect()));
}
