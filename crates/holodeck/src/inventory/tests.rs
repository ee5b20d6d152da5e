//! Tests that every model of a run is found once, with its role and its place in the YAML.

use std::fs;

use holodeck_model::Env;
use pretty_assertions::assert_eq;

use super::*;

/// Each model has another name, so that a place that is taken for another one shows.
const AGENT: &str = r#"
name: a
model: {provider: openai, name: own}
instructions: {inline: Hi}
embedding_provider: {provider: hash}
evaluations:
  model: {provider: openai, name: shared}
  metrics:
    - {type: geval, name: clear, criteria: c}
    - {type: geval, name: exact, criteria: c, model: {provider: openai, name: single}}
    - {type: geval, name: jury, criteria: c, judges: [{provider: openai, name: first}, {provider: anthropic, name: second}]}
    - {type: geval, name: "off", criteria: c, enabled: false, model: {provider: openai, name: never}}
quality_loop: {scorer: {metrics: [exact], judge: {criteria: c, model: {provider: openai, name: loop}}}}
tools:
  - {type: prompt, name: near, description: d, template: "{{ x }}", parameters: {x: {type: string}}, model: {name: prompted}}
  - {type: prompt, name: far, description: d, template: "{{ x }}", parameters: {x: {type: string}}, model: {name: far, endpoint: "http://127.0.0.1:9"}}
  - {type: hierarchical_document, name: docs, description: d, source: docs, enable_reranking: true,
     reranker_model: {provider: openai, name: ranker}, context_model: {provider: openai, name: writer}}
  - {type: hierarchical_document, name: plain, description: d, source: docs, contextual_embeddings: false,
     reranker_model: {provider: openai, name: never}, context_model: {provider: openai, name: never}}
test_cases:
  - {name: asked, input: q, evaluations: [{type: geval, name: own, criteria: c, model: {provider: openai, name: of_case}}]}
  - {name: played, user: {goal: g, model: {provider: openai, name: player}}}
  - {name: default, user: {goal: g}}
"#;

fn load(yaml: &str) -> (tempfile::TempDir, holodeck_yaml::LoadedAgent) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("docs")).unwrap();
    fs::write(folder.path().join("docs/a.md"), "a").unwrap();
    fs::write(folder.path().join("agent.yaml"), yaml).unwrap();
    let load = crate::load(&folder.path().join("agent.yaml"), &Env::empty());
    let agent = load.agent.unwrap_or_else(|| panic!("{:?}", load.diagnostics));
    (folder, agent)
}

fn rows(inventory: &Inventory) -> Vec<(ModelRole, &str, &str)> {
    let models = inventory.models().iter();
    models
        .map(|used| (used.role, used.pointer.as_str(), used.config.name.as_str()))
        .collect()
}

#[test]
fn every_model_has_its_role_and_its_own_place() {
    use ModelRole::*;
    let (_folder, agent) = load(AGENT);
    let inventory = Inventory::new(&agent, None);
    assert_eq!(
        rows(&inventory),
        [
            (Own, "model", "own"),
            (Judge, "evaluations.model", "shared"),
            (Judge, "evaluations.metrics.1.model", "single"),
            (Judge, "evaluations.metrics.2.judges.0", "first"),
            (Judge, "evaluations.metrics.2.judges.1", "second"),
            (Judge, "test_cases.0.evaluations.0.model", "of_case"),
            (LoopJudge, "evaluations.metrics.1.model", "single"),
            (LoopJudge, "quality_loop.scorer.judge.model", "loop"),
            (PromptTool, "model", "prompted"),
            (PromptTool, "tools.1.model", "far"),
            (Reranker, "tools.2.reranker_model", "ranker"),
            (ContextWriter, "tools.2.context_model", "writer"),
            (SimulatedUser, "test_cases.1.user.model", "player"),
            (SimulatedUser, "evaluations.model", "shared"),
        ]
    );
    for used in inventory.models() {
        if used.pointer != "model" {
            assert_eq!(inventory.pointer_of(&used.config), used.pointer, "{used:?}");
            assert!(agent.locate(&used.pointer).is_some(), "{}", used.pointer);
        }
    }
    // Of the price list, all but that of the Claude Code CLI.
    let priced: Vec<&str> = inventory.priced_by_list(&ModelRole::ALL).collect();
    assert!(!priced.contains(&"second") && priced.contains(&"writer") && priced.contains(&"own"));
}

#[test]
fn a_run_without_cases_uses_no_judge_and_a_run_of_one_case_only_its_own() {
    let (_folder, agent) = load(AGENT);
    assert_eq!(
        rows(&Inventory::new(&agent, Some(&[]))),
        [(ModelRole::Own, "model", "own")]
    );
    let names = |planned: &[usize]| {
        let inventory = Inventory::new(&agent, Some(planned));
        let names = inventory.models().iter().map(|used| used.config.name.clone());
        names.collect::<Vec<_>>()
    };
    assert!(names(&[0]).contains(&"of_case".to_owned()) && !names(&[0]).contains(&"player".to_owned()));
    assert!(!names(&[1]).contains(&"of_case".to_owned()) && names(&[1]).contains(&"player".to_owned()));
}

/// Whether a model is the agent's own has one answer, for judges and for users. A judge that is written is the same one
/// whatever the agent's model is.
#[test]
fn the_own_model_is_warned_about_wherever_it_is_written() {
    let own = "{provider: openai, name: own}";
    let other = "{provider: openai, name: other}";
    let warnings = |evaluations: &str, metric: &str, user: &str| {
        let (_folder, agent) = load(&format!(
            "name: a\nmodel: {own}\ninstructions: {{inline: Hi}}\n\
             evaluations: {{{evaluations} metrics: [{{type: geval, name: clear, criteria: c{metric}}}]}}\n\
             test_cases: [{{name: one, user: {{goal: g{user}}}}}]\n"
        ));
        let inventory = Inventory::new(&agent, None);
        (
            inventory.warn_own_judge().is_some(),
            inventory.warn_own_user().is_some(),
            inventory.judges_with_agent(),
        )
    };
    let (shared, metric) = (
        |model| format!("model: {model},"),
        |model| format!(", model: {model}"),
    );
    assert_eq!(warnings("", "", ""), (true, true, true));
    assert_eq!(warnings(&shared(own), "", ""), (true, true, false));
    assert_eq!(warnings(&shared(other), "", ""), (false, false, false));
    assert_eq!(warnings(&shared(other), &metric(own), ""), (true, false, false));
    assert_eq!(
        warnings("", &metric(other), &metric(other)),
        (false, false, false)
    );
    assert_eq!(warnings(&shared(other), "", &metric(own)), (false, true, false));
}
