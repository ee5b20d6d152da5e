//! Retrieved passages are written to the run file, and stay there in a regrade.

use holodeck_testkit::{ScriptedBackend, ScriptedTurn};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::support::{Project, results};

const TOOLS: &str = "tools:\n\
    - {type: vectorstore, name: kb, description: d, source: ., embedding_model: e}\n\
    - {type: function, name: clock, description: d, command: date}\n\
    - {type: mcp, name: wiki, description: d, command: npx, is_retrieval: true}\n";

/// Calls the tools that the question names.
fn backend() -> ScriptedBackend {
    ScriptedBackend::answering(|asked| {
        let query = json!({"query": asked.message});
        let turn = ScriptedTurn::nothing().and_called("clock", json!({}), "noon");
        let turn = match asked.message.as_str() {
            "both" => turn
                .and_retrieved("kb_search", query.clone(), &["from the index"])
                .and_retrieved("mcp__wiki__page", query, &["from the server"]),
            "claude" => turn.and_retrieved("mcp__holodeck_tools__kb_search", query, &["the same"]),
            _ => turn,
        };
        turn.and_text("yes")
    })
}

#[tokio::test]
async fn each_turn_has_its_retrieved_passages() {
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
    let again = project.regrade(run.outcome.journal_path()).await;
    check(results(&again));
}
