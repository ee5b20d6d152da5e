//! The review of agents under `search-v2`: each agent's own text is a task that it must get.

use std::collections::{BTreeSet, HashSet};

use holodeck_model::AgentDoc;

use super::Findings;
use crate::select::{
    SelectedBy, Selection, SelectionTask, calibration,
    components::as_score,
    search::SearchSelector,
    terms::{self, telling_words},
};

/// Two agents are near if the second has more than this share of the first's score, in thousandths.
const NEAR: i64 = 850;

/// How many words a help offers.
const OFFERED: usize = 3;

impl SearchSelector {
    pub(super) fn review(&self, least: f64, found: &mut Findings<'_>) {
        let highest = calibration::highest();
        if least > highest && !self.agents.is_empty() {
            let message = format!(
                "no words of a task can route an agent: the confidence is at most {highest:.2}, and `min_confidence` is \
                 {least}"
            );
            let help =
                format!("set `min_confidence: {highest:.2}` or less in `routing`, or declare `commands`");
            let first = self
                .agents
                .first()
                .map(|agent| agent.name.clone())
                .unwrap_or_default();
            found.never_routed(&first, message, help);
            return;
        }
        let equal: HashSet<&str> = self.equal_agents().into_iter().map(|(agent, _)| agent).collect();
        for (agent, first) in self.equal_agents() {
            let message = format!(
                "agent `{agent}` can never be selected: `{first}` has the same score for every task and comes first"
            );
            found.never_routed(
                agent,
                message,
                "give it another description, or remove one of them",
            );
        }
        let registry = found.registry;
        let mut pairs = BTreeSet::new();
        for agent in &self.agents {
            let is_default = self.config.default_agent.as_ref() == Some(&agent.name);
            let Some(doc) = registry
                .get(&agent.name)
                .filter(|_| !equal.contains(&*agent.name))
            else {
                continue;
            };
            let mut is_reached = false;
            let mut refused = Selection::default();
            for text in own_tasks(doc) {
                let task = SelectionTask {
                    text,
                    ..SelectionTask::default()
                };
                let selection = self.select(&task);
                if selection.agent.as_ref() == Some(&agent.name)
                    && selection.selected_by == SelectedBy::Score
                    && selection.confidence >= least
                {
                    is_reached = true;
                }
                self.find_near_tie(&task, &mut pairs, found);
                refused = selection;
            }
            let declares = !doc.commands.is_empty();
            if !is_reached && !is_default && !declares {
                let message = format!(
                    "agent `{}` can never be routed: even its own description {}",
                    agent.name,
                    why(&agent.name, &refused, least)
                );
                found.never_routed(&agent.name, message, lift(doc));
            }
        }
    }

    fn find_near_tie(
        &self,
        task: &SelectionTask,
        pairs: &mut BTreeSet<(String, String)>,
        found: &mut Findings<'_>,
    ) {
        let order = self.order(task);
        let [(first, best), (second, next), ..] = order.as_slice() else {
            return;
        };
        let (best, next) = (best.score(), next.score());
        if next == 0 || next * 1_000 < best * NEAR {
            return;
        }
        let mut pair = [first.name.clone(), second.name.clone()];
        pair.sort_unstable();
        let [one, other] = pair;
        if pairs.insert((one, other)) {
            let shown: String = task.text.chars().take(60).collect();
            let message = format!(
                "for the task `{}`, `{}` ({:.2}) and `{}` ({:.2}) have almost the same score",
                shown.split_whitespace().collect::<Vec<_>>().join(" "),
                first.name,
                as_score(best),
                second.name,
                as_score(next)
            );
            found.near_tie(&first.name, &second.name, message);
        }
    }
}

/// Tasks that an agent should get: its description, and each of its triggers.
fn own_tasks(doc: &AgentDoc) -> Vec<String> {
    let mut tasks = doc.triggers.clone();
    tasks.push(format!("{} {}", doc.name, doc.description));
    tasks
}

/// Why a task did not reach an agent.
fn why(agent: &str, selection: &Selection, least: f64) -> String {
    match &selection.agent {
        Some(other) if other != agent && selection.selected_by == SelectedBy::Score => {
            format!("selects `{other}`")
        }
        _ if selection.selected_by == SelectedBy::Score => {
            let confidence = selection.confidence;
            format!("has a confidence of {confidence:.2}, and `min_confidence` is {least}")
        }
        _ => "has no word that says what it is for".to_owned(),
    }
}

/// The line that would lift an agent: triggers of its own text.
fn lift(doc: &AgentDoc) -> String {
    let own = terms::terms(&format!("{} {}", doc.name, doc.description));
    let words = telling_words(&doc.body, OFFERED * 4).into_iter();
    let words: Vec<String> = words
        .filter(|word| terms::terms(word).is_disjoint(&own))
        .take(OFFERED)
        .collect();
    if words.is_empty() {
        "add `triggers: [words of its tasks]` or `commands: [name]` to its front matter".to_owned()
    } else {
        format!(
            "add `triggers: [{}]` or `commands: [name]` to its front matter",
            words.join(", ")
        )
    }
}
