//! Finds agents that can never be selected, and agents between which little decides.

use std::collections::BTreeSet;

use holodeck_model::{Code, Diagnostic};

use super::{KeywordSelector, SelectionTask, components::as_score, keyword::bad_globs};
use crate::AgentRegistry;

/// Two scores that differ by less, in millionths, are almost equal.
const NEAR: i64 = 20_000;

impl KeywordSelector {
    /// Reports problems of the agents as a whole: agents that can never be selected, triggers for which two agents have
    /// almost the same score, patterns that are not valid, and names of the configuration that no agent has. `registry`
    /// is that of the selector.
    pub fn review(&self, registry: &AgentRegistry) -> Vec<Diagnostic> {
        let mut diagnostics = Vec::new();
        for doc in registry.agents() {
            for pattern in bad_globs(doc) {
                let message = format!(
                    "agent `{}`: `{pattern}` in `globs` is not a valid pattern",
                    doc.name
                );
                let diagnostic = Diagnostic::error(Code::BadPattern, message).about("globs");
                diagnostics.push(diagnostic.at(doc.places.name.clone()));
            }
        }
        self.find_never_selected(registry, &mut diagnostics);
        self.find_near_ties(registry, &mut diagnostics);
        diagnostics
    }

    fn find_never_selected(&self, registry: &AgentRegistry, diagnostics: &mut Vec<Diagnostic>) {
        for (index, agent) in self.agents.iter().enumerate() {
            let highest = agent.highest(&self.config.weights);
            let is_default = self.config.default_agent.as_ref() == Some(&agent.name);
            let equal = self.agents.iter().take(index).find(|other| agent.is_equal(other));
            let mut verb = "can never be selected";
            let (why, help) = if highest < self.floor() && !is_default {
                (
                    format!(
                        "its score is at most {:.2}, and `candidate_floor` is {}",
                        as_score(highest),
                        self.config.candidate_floor
                    ),
                    "add `triggers` or `commands` to its front matter",
                )
            } else if let Some(first) = equal.filter(|_| !is_default) {
                (
                    format!(
                        "`{}` has the same score for every task and comes first",
                        first.name
                    ),
                    "give it other `triggers`, or remove one of them",
                )
            } else if agent.has_only_description() && !is_default {
                verb = "is hardly ever selected";
                let why =
                    "a task must have nearly all words of its description and name its tools".to_owned();
                (why, "add `triggers` or `commands` to its front matter")
            } else {
                continue;
            };
            let place = registry.get(&agent.name).and_then(|doc| doc.places.name.clone());
            let message = format!("agent `{}` {verb}: {why}", agent.name);
            let diagnostic = Diagnostic::warning(Code::NeverSelected, message).at(place);
            diagnostics.push(diagnostic.with_help(help));
        }
    }

    /// Each trigger by itself is a task; the agent must be well ahead of the others.
    fn find_near_ties(&self, registry: &AgentRegistry, diagnostics: &mut Vec<Diagnostic>) {
        let mut tasks = BTreeSet::new();
        for doc in registry.agents() {
            tasks.extend(doc.triggers.iter().map(String::as_str));
        }
        let mut pairs = BTreeSet::new();
        for task in tasks {
            let order = self.order(&SelectionTask {
                text: task.to_owned(),
                ..SelectionTask::default()
            });
            let [(first, best), (second, next), ..] = order.as_slice() else {
                return;
            };
            let (best, next) = (best.score(), next.score());
            let is_near = next >= self.floor() && best - next < NEAR && !first.is_equal(second);
            if !is_near || !pairs.insert((first.name.as_str(), second.name.as_str())) {
                continue;
            }
            let place = |name: &str| registry.get(name).and_then(|doc| doc.places.name.clone());
            let message = format!(
                "for the task `{task}`, `{}` ({:.2}) and `{}` ({:.2}) have almost the same score",
                first.name,
                as_score(best),
                second.name,
                as_score(next)
            );
            let mut diagnostic = Diagnostic::warning(Code::NearTie, message)
                .at(place(&first.name))
                .with_help("give each of them triggers that the other does not have");
            if let Some(label) = place(&second.name) {
                diagnostic = diagnostic.with_label(label, "the other one");
            }
            diagnostics.push(diagnostic);
        }
    }
}
