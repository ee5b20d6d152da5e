//! Measures the cost of judging: cases with three judges, beside as many model calls without judges.

use anyhow::Result;

use super::figures::{Figures, megabytes, times};
use super::machine::Machine;
use super::report::{at_most, budget_table, table};
use super::{Tools, load, measured};
use crate::workload::Server;
use crate::workload::{Project, project};

const JUDGED: usize = 1_000;
/// Each judged case makes one call for its answer and three for its metrics.
const UNJUDGED: usize = 4 * JUDGED;
const CONCURRENCY: &str = "50";

pub(super) fn measure(machine: &Machine, runs: u32) -> Result<String> {
    let tools = Tools::build(machine)?;
    let home = tools.dir.path();
    let server = Server::start(&tools.server, load(0, 0, 0).delay)?;
    let judge = Server::judge(&tools.server)?;
    let arguments = ["test", project::AGENT, "--live", "-j", CONCURRENCY];
    let (mut judged, mut unjudged) = (Vec::new(), Vec::new());
    // Alternating, so that a disturbance affects both.
    for run in 1..=runs {
        println!("run {run} of {runs}");
        let projects = [
            (Project::create(home, UNJUDGED, server.url())?, &mut unjudged),
            (
                Project::judged(home, JUDGED, server.url(), judge.url())?,
                &mut judged,
            ),
        ];
        for (project, usages) in projects {
            usages.push(measured(&tools.holodeck, &arguments, project.dir())?);
            project.check_results()?;
        }
    }
    Ok(render(
        machine,
        runs,
        &Figures::of(&unjudged),
        &Figures::of(&judged),
    ))
}

fn render(machine: &Machine, runs: u32, unjudged: &Figures, judged: &Figures) -> String {
    let ratio = judged.cpu.median.as_secs_f64() / unjudged.cpu.median.as_secs_f64();
    let peak = judged.peak_bytes.median as f64 / 1e6;
    let budgets = vec![
        at_most(
            "CPU of 1,000 cases with 3 judges each, over 4,000 cases without judges",
            ratio,
            1.2,
            "×",
        ),
        at_most("peak memory of 1,000 cases with 3 judges each", peak, 40.0, "MB"),
    ];
    let row = |work: &str, figures: &Figures| {
        [
            work.to_owned(),
            times(figures.cpu),
            times(figures.wall),
            megabytes(figures.peak_bytes.median),
        ]
    };
    let rows = [
        row("4,000 cases without judges", unjudged),
        row("1,000 cases with 3 judges each", judged),
    ];
    format!(
        "{} Medians of {runs} runs, least and greatest in brackets; answers after 0 ms, {CONCURRENCY} cases at a \
         time.\n\n{}\n{}",
        machine.describe(),
        budget_table(budgets),
        table(["work", "CPU", "wall", "peak memory"], rows)
    )
}
