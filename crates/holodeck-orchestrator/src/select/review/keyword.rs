//! The review of agents under `keyword-v1`.

use std::collections::BTreeSet;

use super::{ADD, Findings};
use crate::select::{
    SelectionTask,
    components::{as_score, millionths},
    keyword::KeywordSelector,
};

/// Two scores that differ by less, in millionths, are almost equal.
const NEAR: i64 = 20_000;

impl KeywordSelector {
    pub(super) fn review(&self, least: f64, found: &mut Findings<'_>) {
        self.find_never_routed(least, found);
        self.find_near_ties(found);
    }

    fn find_never_routed(&self, least: f64, found: &mut Findings<'_>) {
        let is_default = |name: &String| self.config.default_agent.as_ref() == Some(name);
        for (index, agent) in self.agents.iter().enumerate() {
            if is_default(&agent.name) {
                continue;
            }
            let name = &agent.name;
            let highest = agent.highest(&self.config.weights);
            let needed = millionths(least);
            let equal = self.agents.iter().take(index).find(|other| agent.is_equal(other));
            let declares = !agent.commands.is_empty();
            if highest < self.floor() && !declares {
                let message = format!(
                    "agent `{name}` can never be selected: its score is at most {:.2}, and `candidate_floor` is {}",
                    as_score(highest),
                    self.config.candidate_floor
                );
                found.never_routed(name, message, ADD);
            } else if let Some(first) = equal {
                let message = format!(
                    "agent `{name}` can never be selected: `{}` has the same score for every task and comes first",
                    first.name
                );
                found.never_routed(name, message, "give it other `triggers`, or remove one of them");
            } else if highest < needed && !declares {
                let message = format!(
                    "agent `{name}` can never be routed: its score is at most {:.2}, and `min_confidence` is {least}",
                    as_score(highest)
                );
                let help = format!(
                    "{ADD}, or set `min_confidence: {:.2}` in `routing`",
                    as_score(highest)
                );
                found.never_routed(name, message, help);
            } else if agent.has_only_description() {
                let message = format!(
                    "agent `{name}` is hardly ever selected: a task must have nearly all words of its description and \
                     name its tools"
                );
                found.never_routed(name, message, format!("{ADD}, or use `algorithm: search-v2`"));
            }
        }
    }

    /// Each trigger by itself is a task; the agent must be well ahead of the others.
    fn find_near_ties(&self, found: &mut Findings<'_>) {
        let mut tasks = BTreeSet::new();
        for doc in found.registry.agents() {
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
            if is_near && pairs.insert((first.name.as_str(), second.name.as_str())) {
                let message = format!(
                    "for the task `{task}`, `{}` ({:.2}) and `{}` ({:.2}) have almost the same score",
                    first.name,
                    as_score(best),
                    second.name,
                    as_score(next)
                );
                found.near_tie(&first.name, &second.name, message);
            }
        }
    }
}
