//! The differences between a run and an earlier one that are not answers: the agent, the cases, and everything that decides
//! verdicts, each by name.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{
    ChangedDecider, ComparedRun,
    pairing::{self, Pairing},
    pairs::Pairs,
    phrases::{describe_agent_changes, describe_changed},
    run::RunInfo,
};
use crate::format;
use holodeck_runs::changed_parts;

/// The differences between two runs that are not answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunChanges {
    /// The parts of the agent that differ; absent if a file does not record them.
    pub agent: Option<Vec<String>>,
    /// Each check and rule about which something else decides now, with the number of cases.
    pub deciders: Vec<ChangedDecider>,
    /// Cases that ask something else than before.
    pub questions: usize,
    /// Cases that only the later run has.
    pub added: usize,
    /// Cases that only the earlier run has.
    pub missing: usize,
    /// Cases of which it is not known whether the same decides about them.
    pub unknown: usize,
}

impl RunChanges {
    /// The differences between two runs.
    pub fn between(before: &ComparedRun, after: &ComparedRun) -> Self {
        let pairing = pairing::pair(&before.cases, &after.cases);
        Self::of(&Pairs::new(before, after, &pairing), &pairing)
    }

    pub(super) fn of(pairs: &Pairs<'_>, pairing: &Pairing) -> Self {
        let counts = pairs.count(pairing);
        Self {
            agent: agent_changes(&pairs.before.info, &pairs.after.info),
            deciders: pairs.changed(),
            questions: counts.other_question,
            added: pairing.only_after.len(),
            missing: pairing.only_before.len(),
            unknown: counts.unknown_expectation,
        }
    }

    /// A phrase for each difference, and for each thing that is not known; empty if all is known to be the same.
    pub fn describe(&self) -> Vec<String> {
        let mut phrases = Vec::new();
        match &self.agent {
            None => phrases.push("whether the agent changed is not known".to_owned()),
            Some(parts) => phrases.extend(describe_agent_changes(parts)),
        }
        phrases.extend(self.deciders.iter().map(describe_changed));
        let cases = [
            (self.questions, "other question", "other questions"),
            (self.added, "new case", "new cases"),
            (self.missing, "case missing", "cases missing"),
        ];
        let cases = cases.into_iter().filter(|(count, ..)| *count > 0);
        phrases.extend(
            cases.map(|(count, one, many)| format!("{count} {}", if count == 1 { one } else { many })),
        );
        if self.unknown > 0 {
            let cases = format::count(self.unknown, "case");
            phrases.push(format!("whether the same was expected of {cases} is not known"));
        }
        phrases
    }
}

/// The places of the cases of `after` that differ from `before` in question, state or answer, or that are new.
pub fn changed_places(before: &ComparedRun, after: &ComparedRun) -> BTreeSet<usize> {
    let pairing = pairing::pair(&before.cases, &after.cases);
    let pairs = Pairs::new(before, after, &pairing);
    let changed = pairs.iter().filter(|pair| {
        let (before, after) = (pair.before, pair.after);
        (before.state, &before.answer, before.content) != (after.state, &after.answer, after.content)
    });
    let changed = changed.map(|pair| pair.places.1);
    changed.chain(pairing.only_after.iter().copied()).collect()
}

/// The parts of the agent that differ; absent if one of the files does not record them.
pub(super) fn agent_changes(before: &RunInfo, after: &RunInfo) -> Option<Vec<String>> {
    let is_known = !before.agent_parts.is_empty() && !after.agent_parts.is_empty();
    is_known.then(|| changed_parts(&before.agent_parts, &after.agent_parts))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;
    use crate::compare::read_compared;

    fn read(agent: &Value, cases: &Value) -> ComparedRun {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        let run = json!({"report": {
            "agent_name": "support", "schema_version": 1, "run_id": "A", "timestamp": "2026-11-21T20:11:18Z",
            "ended": "completed", "agent_parts": agent, "results": cases, "not_run": [],
        }, "metadata": {}});
        std::fs::write(&path, run.to_string()).unwrap();
        read_compared(&path).unwrap()
    }

    fn digest(text: &str) -> String {
        holodeck_model::Digest::of(&json!(text)).to_string()
    }

    fn case(name: &str, question: &str, deciders: &Value) -> Value {
        json!({
            "test_name": name, "test_input": question, "agent_response": "yes", "metric_results": [],
            "passed": true, "state": "passed", "errors": [], "deciders": deciders,
        })
    }

    fn deciders(expectation: &str, judge: &str) -> Value {
        json!({
            "expectations": {"format": digest("format"), "contains": digest(expectation)},
            "judges": {"tone": digest(judge)}, "graders": {"code": digest("program")},
        })
    }

    #[test]
    fn every_difference_is_named_and_an_equal_run_has_none() {
        let agent = json!({"instructions": "1", "model": "2"});
        let before = read(
            &agent,
            &json!([
                case("one", "first?", &deciders("a", "gpt")),
                case("two", "second?", &deciders("b", "gpt")),
                case("gone", "third?", &deciders("c", "gpt")),
            ]),
        );
        assert_eq!(
            RunChanges::between(&before, &before),
            RunChanges {
                agent: Some(Vec::new()),
                ..RunChanges::default()
            }
        );
        let after = read(
            &json!({"instructions": "1", "model": "3"}),
            &json!([
                case("one", "first?", &deciders("changed", "gpt")),
                case("two", "another?", &deciders("b", "claude")),
                case("new", "fourth?", &deciders("d", "gpt")),
                case("newer", "fifth?", &deciders("d", "gpt")),
            ]),
        );
        assert_eq!(
            RunChanges::between(&before, &after).describe(),
            [
                "the agent changed: model",
                "the expectation `contains` changed in 1 case",
                "the judge of `tone` changed in 1 case",
                "1 other question",
                "2 new cases",
                "1 case missing",
            ]
        );
    }

    #[test]
    fn an_unknown_identity_is_not_the_same() {
        let cases = json!([case("one", "first?", &json!({}))]);
        let run = read(&json!({}), &cases);
        assert_eq!(
            RunChanges::between(&run, &run).describe(),
            [
                "whether the agent changed is not known",
                "whether the same was expected of 1 case is not known",
            ]
        );
    }
}
