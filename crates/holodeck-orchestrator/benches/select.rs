//! Selection over many agents: `cargo bench -p holodeck-orchestrator`.
#![allow(missing_docs, reason = "a bench")]

use holodeck_model::{AgentDoc, AgentsConfig, FocusArea, SelectionAlgorithm};
use holodeck_orchestrator::{AgentRegistry, AgentSelector, SelectionTask};

fn main() {
    divan::main();
}

/// Words of made-up agents: enough that most are shared by a few.
fn word(number: usize) -> String {
    const PARTS: &[&str] = &["ba", "ke", "li", "mo", "nu", "ra", "se", "ti", "vo", "zu"];
    let part = |divisor: usize| PARTS.get(number / divisor % 10).copied().unwrap_or_default();
    format!("{}{}{}", part(1), part(10), part(100))
}

fn agents(count: usize) -> AgentRegistry {
    let docs = (0..count).map(|number| {
        let text = |offset: usize, words: usize| -> String {
            let words = (0..words).map(|at| word(number * 7 + offset + at * 13));
            words.collect::<Vec<_>>().join(" ")
        };
        AgentDoc {
            name: format!("agent-{number:04}"),
            description: text(0, 40),
            tools: Some(["Read", "Grep", "git", "pytest"].map(str::to_owned).into()),
            category: Some(
                ["testing", "security", "data"]
                    .get(number % 3)
                    .copied()
                    .unwrap_or_default()
                    .to_owned(),
            ),
            triggers: (0..12).map(|at| text(at * 5, 1 + at % 3)).collect(),
            commands: vec![word(number)],
            globs: vec!["*.tf".to_owned(), format!("src/part{}/**/*.rs", number % 20)],
            focus_areas: (0..5)
                .map(|at| FocusArea {
                    name: text(at, 2),
                    keywords: (0..5).map(|key| text(at + key * 3, 1)).collect(),
                })
                .collect(),
            ..AgentDoc::default()
        }
    });
    AgentRegistry::new(docs.collect()).0
}

fn task(words: usize) -> SelectionTask {
    let text = (0..words).map(|at| word(at * 17)).collect::<Vec<_>>().join(" ");
    SelectionTask {
        text,
        command: "review".to_owned(),
        files: (0..2_000)
            .map(|at| format!("src/part{}/module{at}/file.rs", at % 40))
            .collect(),
        ..SelectionTask::default()
    }
}

fn selector(registry: &AgentRegistry, algorithm: SelectionAlgorithm) -> AgentSelector {
    let config = AgentsConfig {
        algorithm,
        ..AgentsConfig::default()
    };
    AgentSelector::new(registry, &config, 0.5)
}

#[divan::bench(args = [(SelectionAlgorithm::SearchV2, 30), (SelectionAlgorithm::SearchV2, 1_000),
    (SelectionAlgorithm::KeywordV1, 30), (SelectionAlgorithm::KeywordV1, 1_000)])]
fn select_among_1000_agents(
    bencher: divan::Bencher<'_, '_>,
    (algorithm, words): (SelectionAlgorithm, usize),
) {
    let selector = selector(&agents(1_000), algorithm);
    let task = task(words);
    bencher.bench_local(|| selector.select(&task));
}

#[divan::bench(args = [SelectionAlgorithm::SearchV2, SelectionAlgorithm::KeywordV1])]
fn prepare_1000_agents(bencher: divan::Bencher<'_, '_>, algorithm: SelectionAlgorithm) {
    let registry = agents(1_000);
    bencher.bench_local(|| selector(&registry, algorithm));
}
