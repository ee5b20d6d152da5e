//! The behaviour that every backend must share.

use std::{any::Any, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::{StreamExt as _, future::BoxFuture};
use holodeck_backend_api::{AgentBackend, ToolHost};

mod answers;
mod approvals;
mod failures;
mod observed;
mod recording;
mod scenario;
mod sessions;
mod tools;

pub use scenario::{ModelMove, Scenario};

/// A backend under test.
#[async_trait]
pub trait Subject: Sync {
    /// Creates a backend whose model behaves like `scenario`.
    async fn backend(&self, scenario: Scenario, tools: Arc<dyn ToolHost>) -> Prepared;

    /// Checks that this backend can't pass, each with the reason.
    fn skips(&self) -> Vec<(&'static str, &'static str)> {
        Vec::new()
    }
}

/// A backend, and what must outlive it, for instance a scripted server.
pub struct Prepared {
    /// The backend.
    pub backend: Arc<dyn AgentBackend>,
    /// Dropped after the check.
    pub keep: Box<dyn Any + Send + Sync>,
}

/// The results of all checks.
#[derive(Debug)]
pub struct Report(Vec<(&'static str, Verdict)>);

#[derive(Debug)]
enum Verdict {
    Passed,
    Failed(String),
    Skipped(&'static str),
}

type Check = for<'a> fn(&'a dyn Subject) -> BoxFuture<'a, Outcome>;
type Outcome = Result<(), String>;

/// Far longer than any check takes, also beside others; a hanging check must end.
const LONG: Duration = Duration::from_mins(1);
/// How many checks run at a time: most of them wait for a process.
const AT_A_TIME: usize = 4;

/// Runs every check that is not declared skipped. Each turn of each check is also recorded as events, and the record is
/// checked against the invariants.
pub async fn run(subject: &dyn Subject) -> Report {
    let checks = [
        answers::CHECKS,
        tools::CHECKS,
        approvals::CHECKS,
        failures::CHECKS,
        sessions::CHECKS,
        recording::CHECKS,
    ]
    .concat();
    let skips = subject.skips();
    let mut report = Vec::new();
    for (name, _) in &skips {
        if !checks.iter().any(|(check, _)| check == name) {
            report.push((
                *name,
                Verdict::Failed("skipped, but there is no such check".to_owned()),
            ));
        }
    }
    let verdicts = futures::stream::iter(checks).map(|(name, check)| {
        let skip = skips.iter().find(|(skipped, _)| *skipped == name);
        let skip = skip.map(|(_, reason)| *reason);
        async move {
            let verdict = match skip {
                Some(reason) => Verdict::Skipped(reason),
                None => verdict(subject, check).await,
            };
            (name, verdict)
        }
    });
    report.extend(verdicts.buffered(AT_A_TIME).collect::<Vec<_>>().await);
    Report(report)
}

async fn verdict(subject: &dyn Subject, check: Check) -> Verdict {
    let recorded = recording::Recorded::new(subject);
    match tokio::time::timeout(LONG, check(&recorded)).await {
        Ok(Ok(())) => recorded.problems().map_or(Verdict::Passed, Verdict::Failed),
        Ok(Err(problem)) => Verdict::Failed(problem),
        Err(_) => Verdict::Failed("it does not end".to_owned()),
    }
}

impl Report {
    /// Panics when a check failed.
    pub fn assert(&self) {
        let failed = self
            .0
            .iter()
            .any(|(_, verdict)| matches!(verdict, Verdict::Failed(_)));
        assert!(!failed, "the backend does not conform:\n{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, verdict) in &self.0 {
            match verdict {
                Verdict::Passed => writeln!(f, "pass  {name}")?,
                Verdict::Skipped(reason) => writeln!(f, "SKIP  {name}: {reason}")?,
                Verdict::Failed(problem) => writeln!(f, "FAIL  {name}: {problem}")?,
            }
        }
        Ok(())
    }
}

/// Compares two values and describes the difference.
#[expect(
    clippy::needless_pass_by_value,
    reason = "values read better where it is called"
)]
fn same<T: PartialEq<U> + fmt::Debug, U: fmt::Debug>(what: &str, found: T, expected: U) -> Outcome {
    if found == expected {
        Ok(())
    } else {
        Err(format!("{what} is {found:?} instead of {expected:?}"))
    }
}

fn holds(what: &str, holds: bool) -> Outcome {
    if holds { Ok(()) } else { Err(what.to_owned()) }
}
