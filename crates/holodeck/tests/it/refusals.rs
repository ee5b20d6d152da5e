//! Tests that a run which cannot work is refused before any model call, with the place in the YAML.

use std::num::NonZeroUsize;

use holodeck::{OpenError, PrepareError, TestOptions, runner::Budget};
use pretty_assertions::assert_eq;

use crate::support::Project;

const TOOLS: &str = "name: a\nmodel: {provider: openai, name: m, endpoint: \"http://127.0.0.1:9\"}\n\
                     instructions: {inline: Be kind.}\n\
                     tools: [{type: vectorstore, name: files, description: d, source: docs, database: {provider: pinecone}}]\n\
                     test_cases: [{input: q}]\n";

#[tokio::test]
async fn what_this_version_cannot_run_is_refused_by_name_and_place() {
    let project = Project::new(TOOLS);
    let error = project.test(TestOptions::default()).await.unwrap_err();
    assert!(matches!(error, PrepareError::Open(OpenError::Unsupported(_))));
    let text = error.to_string();
    assert!(
        text.contains("tool `files`") && text.contains("agent.yaml:4:"),
        "{text}"
    );
}

#[tokio::test]
async fn a_cost_budget_without_a_price_is_refused() {
    let project = Project::asking("http://127.0.0.1:9", "  - {input: q, ground_truth: x}\n");
    let budget = Budget {
        max_cost_usd: Some(1.0),
        max_tokens_total: None,
    };
    let error = project
        .test(TestOptions {
            budget,
            ..TestOptions::default()
        })
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("no price known for `m` (price list of"),
        "{error}"
    );
}

#[tokio::test]
async fn an_agent_without_a_key_says_which_variable() {
    let project = Project::new(
        "name: a\nmodel: {provider: openai, name: m}\ninstructions: {inline: Be kind.}\n\
         test_cases: [{input: q, ground_truth: x}]\n",
    );
    let error = project.test(TestOptions::default()).await.unwrap_err();
    let PrepareError::Open(OpenError::Backend(error)) = error else {
        panic!("{error:?}");
    };
    let hint = error.explanation().hint.unwrap();
    assert!(hint.contains("OPENAI_API_KEY"), "{hint}");
}

#[tokio::test]
async fn a_dry_run_asks_nothing_and_estimates() {
    let project = Project::asking("http://127.0.0.1:9", "  - {input: q, ground_truth: x}\n");
    let options = TestOptions {
        parallel: NonZeroUsize::new(2),
        ..TestOptions::default()
    };
    let prepared = holodeck::prepare_test(project.agent(), &project.env, &options)
        .await
        .unwrap();
    let dry_run = prepared.dry_run();
    assert_eq!(dry_run.plan.cases.len(), 1);
    assert!(dry_run.estimate.unwrap().usage.total_tokens > 0);
    assert!(!project.path(".holodeck").exists());
}
