//! An agent with many test cases, in a folder of its own.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// The agent's file in its folder.
pub(crate) const AGENT: &str = "agent.yaml";

/// The reference of each case; the server's answer passes against it.
const REFERENCE: &str = "Items can be returned within 30 days of delivery for a full refund.";

/// An agent's folder, removed with the value.
pub(crate) struct Project {
    dir: tempfile::TempDir,
    cases: usize,
}

impl Project {
    pub(crate) fn create(parent: &Path, cases: usize, endpoint: &str) -> Result<Self> {
        Self::with(parent, cases, agent(endpoint))
    }

    /// As [`create`](Self::create), and three metrics that the model at `judge` judges.
    pub(crate) fn judged(parent: &Path, cases: usize, endpoint: &str, judge: &str) -> Result<Self> {
        Self::with(parent, cases, agent(endpoint) + &judges(judge))
    }

    /// The same cases for a target, which is this block of YAML.
    pub(crate) fn of_target(parent: &Path, cases: usize, target: &str) -> Result<Self> {
        Self::with(parent, cases, format!("name: bench\n{target}{}", metrics()))
    }

    fn with(parent: &Path, cases: usize, agent: String) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("project-").tempdir_in(parent)?;
        std::fs::write(dir.path().join(AGENT), agent)?;
        std::fs::write(dir.path().join("cases.yaml"), case_list(cases))?;
        Ok(Self { dir, cases })
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Every case passed and is in the run file: a fast run that skips cases does not count.
    pub(crate) fn check_results(&self) -> Result<()> {
        let path = self.run_file()?;
        let file = std::io::BufReader::new(std::fs::File::open(path)?);
        let run: Value = serde_json::from_reader(file)?;
        let passed = run.pointer("/report/summary/passed").and_then(Value::as_u64);
        let results = run.pointer("/report/results").and_then(Value::as_array);
        ensure!(
            passed == Some(self.cases as u64) && results.map(Vec::len) == Some(self.cases),
            "the run file has {passed:?} passed cases of {}",
            self.cases
        );
        Ok(())
    }

    fn run_file(&self) -> Result<PathBuf> {
        let mut entries = std::fs::read_dir(self.dir().join("results/bench"))?;
        Ok(entries.next().context("the run left no file")??.path())
    }
}

fn agent(endpoint: &str) -> String {
    format!(
        "name: bench
model: {{provider: openai, name: bench, endpoint: \"{endpoint}\"}}
instructions: {{inline: You answer questions about orders and returns in one or two sentences.}}
{}",
        metrics()
    )
}

fn metrics() -> &'static str {
    "test_cases_file: cases.yaml
evaluations:
  metrics:
    - {type: standard, metric: contains, value: \"30 days\"}
    - {type: standard, metric: rouge, threshold: 0.3}
"
}

fn judges(endpoint: &str) -> String {
    let metrics = ["relevance", "coherence", "fluency"];
    let metrics = metrics.map(|name| format!("    - {{type: standard, metric: {name}, threshold: 0.5}}\n"));
    format!(
        "{}  model: {{provider: openai, name: judge, endpoint: \"{endpoint}\"}}\n",
        metrics.concat()
    )
}

fn case_list(cases: usize) -> String {
    let mut text = String::new();
    for index in 0..cases {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "- name: case {index}\n  input: \"Question {index}: how long do I have to return order {index}?\"\n  \
             ground_truth: {REFERENCE}",
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::case_list;

    #[test]
    fn inputs_are_unique() {
        let text = case_list(3);
        let mut inputs: Vec<&str> = text.lines().filter(|line| line.contains("input")).collect();
        inputs.dedup();
        assert_eq!(inputs.len(), 3);
    }
}
