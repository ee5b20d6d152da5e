//! The calibration table and the figures of `search-v2` on the set to tune on.

use std::{fs, path::PathBuf};

use holodeck_model::{AgentDoc, AgentsConfig, RoutingConfig};

use crate::{
    AgentRegistry, AgentSelector, SelectedBy, Selection, SelectionTask, Selector as _,
    select::calibration::{Evidence, TABLE},
};

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

/// The selections for the set to tune on, each with the expected agent.
fn selections() -> Vec<(Selection, Option<String>)> {
    let text = fs::read_to_string(fixture("routing/tune.yaml")).unwrap();
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

fn strength(selection: &Selection) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "scores are small")]
    let millionths = |score: f64| (score * 1e6).round() as i64;
    let score = selection
        .breakdown
        .parts()
        .iter()
        .map(|(_, part)| millionths(*part))
        .sum();
    let next = selection
        .ranked_alternatives
        .first()
        .map_or(0, |next| millionths(next.score));
    Evidence { score, next }.strength()
}

/// The share of selections that are right among those whose strength is in each row, with one right and one wrong added, and
/// never less than in the row before.
fn recomputed() -> Vec<(i64, i64)> {
    let selections = selections();
    let ends = TABLE.iter().skip(1).map(|(from, _)| *from).chain([i64::MAX]);
    let rows = TABLE.iter().zip(ends).map(|((from, _), to)| {
        let row = selections.iter().filter(|(selection, _)| {
            selection.selected_by == SelectedBy::Score && (*from..to).contains(&strength(selection))
        });
        let right = row
            .clone()
            .filter(|(selection, expected)| selection.agent == *expected)
            .count();
        (
            *from,
            i64::try_from(right).unwrap(),
            i64::try_from(row.count()).unwrap(),
        )
    });
    let mut table: Vec<(i64, i64)> = Vec::new();
    for (from, right, count) in rows {
        let share = (right + 1) * 100 / (count + 2) * 10_000;
        let before = table.last().map_or(0, |(_, share)| *share);
        table.push((from, share.max(before)));
    }
    table
}

#[test]
fn the_calibration_table_is_that_of_the_set_to_tune_on() {
    assert_eq!(recomputed(), TABLE);
}

#[test]
fn the_set_to_tune_on_meets_the_goal() {
    let least = RoutingConfig::default().min_confidence;
    let (mut right, mut wrong, mut abstained) = (0, 0, 0);
    for (selection, expected) in selections() {
        let routed = selection.agent.filter(|_| selection.confidence >= least);
        right += usize::from(routed == expected);
        wrong += usize::from(routed.is_some() && routed != expected);
        abstained += usize::from(routed.is_none() && expected.is_none());
    }
    assert!(
        right >= 75 && wrong <= 10 && abstained >= 18,
        "{right} {wrong} {abstained}"
    );
}
