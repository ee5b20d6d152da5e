//! The Claude backend beside a floor that writes the same lines to the same CLI by hand.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::machine::Machine;
use super::report::{at_least, at_most, budget_table};
use crate::host;

/// Runs the bench of the crate `runs` times; the median of each figure counts.
pub(super) fn measure(machine: &Machine, runs: u32) -> Result<String> {
    let bench = [
        "bench",
        "--locked",
        "-p",
        "holodeck-backend-claude",
        "--bench",
        "claude",
    ];
    let mut measured = Vec::new();
    for run in 1..=runs {
        println!("run {run} of {runs}");
        let output = host::output(&mut host::cargo(bench))?;
        let line = output.lines().find(|line| line.starts_with('{'));
        let line = line.context("the bench printed no figures")?;
        measured.push(serde_json::from_str(line).context("the figures are not JSON")?);
    }
    Ok(render(machine, &measured))
}

fn render(machine: &Machine, measured: &[Value]) -> String {
    let median = |pointer: &str| {
        let found = measured.iter().filter_map(|run| run.pointer(pointer)?.as_f64());
        let mut found: Vec<f64> = found.collect();
        found.sort_by(f64::total_cmp);
        found.get(found.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let added = |turn: &str| {
        let floor = median(&format!("/{turn}/floor_ms"));
        let backend = median(&format!("/{turn}/backend_ms"));
        (floor, backend, backend - floor)
    };
    let (floor, backend, turn) = added("turn: hello");
    let (tool_floor, tool_backend, tool) = added("turn: tool");
    let reused = median("/reused by two/cases_per_second");
    let live = median("/live/resident_kb") / 1e3;
    let budgets = vec![
        at_most("added to a turn", turn, 5.0, "ms"),
        at_most("added by a call of an own tool", tool - turn, 1.0, "ms"),
        at_least(
            "isolated cases, processes shared, two at a time",
            reused,
            10.0,
            "a second",
        ),
        at_most("own memory, 8 live conversations", live, 30.0, "MB"),
    ];
    let mut text = format!("{} Medians of {} runs.\n\n", machine.describe(), measured.len());
    text += &budget_table(budgets);
    let _ = write!(
        text,
        "\nA turn takes {floor:.1} ms by hand and {backend:.1} ms through the backend; with a call of an own tool \
         {tool_floor:.1} ms and {tool_backend:.1} ms.\n\n| isolated cases | a second | CPU a case, CLI included |\n|---|---|---|\n"
    );
    for (work, name) in [
        ("a process each, one at a time", "cold"),
        ("processes shared, one at a time", "reused"),
        ("processes shared, two at a time", "reused by two"),
    ] {
        let rate = median(&format!("/{name}/cases_per_second"));
        let cpu = median(&format!("/{name}/cpu_ms_per_case"));
        let _ = writeln!(text, "| {work} | {rate:.1} | {cpu:.0} ms |");
    }
    text
}
