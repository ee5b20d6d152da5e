//! The calibration and the figures of `search-v2` on the sets to tune on.

use std::{fs, path::PathBuf};

use holodeck_model::{AgentDoc, AgentsConfig, RoutingConfig};

use crate::{AgentRegistry, AgentSelector, SelectedBy, Selection, SelectionTask};

#[derive(serde::Deserialize)]
struct Row {
    task: String,
    #[serde(default)]
    command: String,
    expected_agent: Option<String>,
}

#[derive(serde::Deserialize)]
struct FrontMatter {
    name: String,
    description: String,
}

fn fixture(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures")).join(path)
}

fn agents() -> AgentRegistry {
    let files = fs::read_dir(fixture("routing/agents")).unwrap();
    let docs = files.map(|file| {
        let path = file.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let (head, body) = text.strip_prefix("---\n").unwrap().split_once("\n---\n").unwrap();
        let head: FrontMatter = serde_yaml::from_str(head).unwrap();
        AgentDoc {
            name: head.name,
            description: head.description,
            body: body.trim().to_owned(),
            path,
            ..AgentDoc::default()
        }
    });
    AgentRegistry::new(docs.collect()).0
}

const SETS: [&str; 3] = ["tune", "second", "kept-back"];

/// The selections for a set, each with the expected agent.
fn selections(set: &str) -> Vec<(Selection, Option<String>)> {
    let text = fs::read_to_string(fixture(&format!("routing/{set}.yaml"))).unwrap();
    let tasks: Vec<Row> = serde_yaml::from_str(&text).unwrap();
    let least = RoutingConfig::default().min_confidence;
    let selector = AgentSelector::new(&agents(), &AgentsConfig::default(), least);
    let selections = tasks.into_iter().map(|task| {
        let selection = selector.select(&SelectionTask {
            text: task.task,
            command: task.command,
            ..SelectionTask::default()
        });
        (selection, task.expected_agent)
    });
    selections.collect()
}

#[test]
fn a_selection_is_right_at_least_as_often_as_its_confidence_says() {
    let selections: Vec<_> = SETS.iter().flat_map(|set| selections(set)).collect();
    for (from, to) in [(0.5, 0.9), (0.9, 1.1)] {
        let row: Vec<_> = selections
            .iter()
            .filter(|(selection, _)| selection.selected_by == SelectedBy::Score)
            .filter(|(selection, _)| selection.confidence >= from && selection.confidence < to)
            .collect();
        let right = row
            .iter()
            .filter(|(selection, expected)| selection.agent == *expected);
        let share = right.count() as f64 / row.len() as f64;
        assert!(
            row.len() >= 10 && share >= from,
            "{from}: {share} of {}",
            row.len()
        );
    }
}

#[test]
fn the_sets_to_tune_on_meet_the_goal() {
    let least = RoutingConfig::default().min_confidence;
    for set in SETS {
        let (mut right, mut reached, mut wrong, mut abstained) = (0, 0, 0, 0);
        for (selection, expected) in selections(set) {
            let routed = selection.agent.filter(|_| selection.confidence >= least);
            right += usize::from(routed == expected);
            reached += usize::from(routed.is_some() && routed == expected);
            wrong += usize::from(routed.is_some() && routed != expected);
            abstained += usize::from(routed.is_none() && expected.is_none());
        }
        let figures =
            format!("{set}: right {right}, reached {reached}, wrong {wrong}, abstained {abstained}");
        println!("{figures}");
        assert!(right >= 75 && wrong <= 10 && abstained >= 18, "{figures}");
    }
}
