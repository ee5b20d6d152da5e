//! Measures what a target costs: the same cases answered by a model, by the same service as a target, and by a kept program.

use std::time::Duration;

use anyhow::Result;

use super::figures::{Figures, megabytes, times};
use super::machine::Machine;
use super::report::{at_most, budget_table, table};
use super::{Tools, measured};
use crate::workload::Server;
use crate::workload::{Project, project};

const CASES: usize = 5_000;
const CONCURRENCY: &str = "50";

/// A program that answers every line at once, with the request's id: `sed`, whose own cost is small.
const PROGRAM: &str = r#"target:
  type: command
  command: /bin/sed
  args: ["-u", 's/.*"id":\([^,}]*\).*/{"id":\1,"text":"You can return an item within 30 days of delivery. Keep the receipt and the original packaging, and we refund the full price to the card you paid with."}/']
  keep_alive: true
"#;

/// The endpoint of the model, asked for the same events.
fn service(url: &str) -> String {
    format!(
        "target:\n  type: http\n  url: \"{url}/v1/chat/completions\"\n  body: {{model: bench, stream: true, messages: \
         \"{{{{ messages }}}}\"}}\n  stream: {{text: \"$.choices[0].delta.content\", done: \"[DONE]\"}}\n"
    )
}

pub(super) fn measure(machine: &Machine, runs: u32) -> Result<String> {
    let tools = Tools::build(machine)?;
    let home = tools.dir.path();
    let server = Server::start(&tools.server, Duration::ZERO)?;
    let arguments = ["test", project::AGENT, "--live", "-j", CONCURRENCY];
    let mut usages = [Vec::new(), Vec::new(), Vec::new()];
    // Alternating, so that a disturbance affects all.
    for run in 1..=runs {
        println!("run {run} of {runs}");
        let projects = [
            Project::create(home, CASES, server.url())?,
            Project::of_target(home, CASES, &service(server.url()))?,
            Project::of_target(home, CASES, PROGRAM)?,
        ];
        for (project, usages) in projects.into_iter().zip(&mut usages) {
            usages.push(measured(&tools.holodeck, &arguments, project.dir())?);
            project.check_results()?;
        }
    }
    let figures = usages.each_ref().map(|usages| Figures::of(usages));
    Ok(render(machine, runs, &figures))
}

fn render(machine: &Machine, runs: u32, figures: &[Figures; 3]) -> String {
    let [model, service, program] = figures;
    let of_model = |figures: &Figures| figures.cpu.median.as_secs_f64() / model.cpu.median.as_secs_f64();
    let budgets = vec![
        at_most(
            "CPU of a target over HTTP, over that of a model",
            of_model(service),
            1.0,
            "×",
        ),
        at_most(
            "CPU of a kept program, itself included, over that of a model",
            of_model(program),
            1.5,
            "×",
        ),
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
        row("a model", model),
        row("the same service as a target", service),
        row("a kept program", program),
    ];
    format!(
        "{} Medians of {runs} runs, least and greatest in brackets; 5,000 cases, answers after 0 ms, {CONCURRENCY} cases at a \
         time.\n\n{}\n{}",
        machine.describe(),
        budget_table(budgets),
        table(["answers from", "CPU", "wall", "peak memory"], rows)
    )
}
