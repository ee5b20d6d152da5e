//! Scenarios that exercise the CLI, one process or a few at a time.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use holodeck_testkit::AnthropicServer;

use super::facts::Facts;
pub(super) use super::subject::Subject;

mod conversation;
mod extras;
mod limits;
mod providers;
mod servers;
mod sessions;
mod startup;
mod structured;
mod subagents;
mod tools;

/// The same for the base conversation, which runs alone: with a second attempt, its drift is known within a minute.
pub(super) const BASE_PATIENCE: Duration = Duration::from_secs(25);

/// A name, and what looks at the CLI.
pub(super) type Scenario = (&'static str, fn(&Subject, &mut Facts) -> Result<()>);

/// The scenarios that everything else depends on. They run first, and their drift ends the gate.
pub(super) const BASE: &[Scenario] = &[("conversation", conversation::run)];

/// The long ones first: they run side by side.
pub(super) const OTHERS: &[Scenario] = &[
    ("providers", providers::run),
    ("servers", servers::run),
    ("tools", tools::run),
    ("sessions", sessions::run),
    ("limits", limits::run),
    ("extras", extras::run),
    ("structured", structured::run),
    ("subagents", subagents::run),
    ("startup", startup::run),
];

/// Runs scenarios and returns the observations of each subject with its errors.
pub(super) fn run_all(scenarios: &[Scenario], subjects: &[Subject]) -> Vec<(Facts, Vec<String>)> {
    let tasks: Vec<(usize, &Scenario)> = scenarios
        .iter()
        .flat_map(|scenario| (0..subjects.len()).map(move |at| (at, scenario)))
        .collect();
    let next = std::sync::atomic::AtomicUsize::new(0);
    // A process waits as much as it computes.
    let workers = std::thread::available_parallelism().map_or(2, usize::from) + 1;
    let mut found: Vec<(Facts, Vec<String>)> = subjects.iter().map(|_| Default::default()).collect();
    let done = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..workers)
            .map(|_| {
                scope.spawn(|| {
                    let mut done = Vec::new();
                    while let Some((at, (name, run))) =
                        tasks.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                    {
                        let Some(subject) = subjects.get(*at) else {
                            continue;
                        };
                        let mut facts = Facts::default();
                        let started = Instant::now();
                        let error = run(subject, &mut facts)
                            .with_context(|| format!("scenario {name}"))
                            .err();
                        let end = if error.is_some() { "failed" } else { "done" };
                        let took = started.elapsed().as_secs_f64();
                        println!("{}, {name}: {end} after {took:.1} s", subject.title);
                        done.push((*at, facts, error.map(|error| format!("{error:#}"))));
                    }
                    done
                })
            })
            .collect();
        let joined = handles
            .into_iter()
            .map(|handle| handle.join().unwrap_or_default());
        joined.flatten().collect::<Vec<_>>()
    });
    for (at, facts, error) in done {
        if let Some((all, errors)) = found.get_mut(at) {
            all.extend(facts);
            errors.extend(error);
        }
    }
    found
}

/// Runs `body` with a server, and ends it. Requests that the real API would refuse are an error, unless `body` has
/// a more specific one.
fn scripted(server: AnthropicServer, body: impl FnOnce(&AnthropicServer) -> Result<()>) -> Result<()> {
    let done = body(&server);
    let received = server.finish_unchecked();
    done?;
    anyhow::ensure!(received.violations.is_empty(), "{received}");
    Ok(())
}

/// `exit CODE: first line on standard error`.
fn exit_of(ended: &super::conversation::Ended) -> String {
    let line = ended.errors.lines().map(str::trim).find(|line| !line.is_empty());
    let code = ended
        .code
        .map_or_else(|| "by a signal".to_owned(), |code| code.to_string());
    match line {
        Some(line) => format!("exit {code}: {line}"),
        None => format!("exit {code}"),
    }
}

/// Whether the entry script of the MCP server is there.
fn mcp_script(package: &Path) -> Result<String> {
    let script = package.join("dist/index.js");
    anyhow::ensure!(script.exists(), "{} does not exist", script.display());
    Ok(script.to_string_lossy().into_owned())
}
