//! Measures the cost of the product as a whole process, beside a floor: a client that sends the same requests and does
//! nothing else.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::measure::{Call, Usage};
use crate::workload::{Project, Server, project};
use crate::workspace::Metadata;
use crate::{host, workspace};

mod claude;
mod eval;
mod events;
mod figures;
mod machine;
mod program;
mod report;
mod retrieval;
mod serve;
mod targets;

use figures::Figures;
use machine::Machine;

const DOCUMENT: &str = "docs/performance.md";

/// Options of `cargo xtask bench`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The part of the product to measure.
    #[arg(value_enum, default_value_t = Subject::Test)]
    subject: Subject,
    /// How often each command is run; the median counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Measure this program, which `cargo xtask dist` built, instead of the release build.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Write the tables into docs/performance.md.
    #[arg(long)]
    write: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Subject {
    /// `holodeck test` against a loopback endpoint.
    Test,
    /// The Claude backend over the CLI alone.
    Claude,
    /// Judged cases beside cases without judges.
    Eval,
    /// The embedded index beside sqlite-vec and Chroma.
    Retrieval,
    /// Targets beside a model.
    Targets,
    /// The stores of events beside plain SQLite, and `holodeck serve`.
    Events,
}

/// Work that is done once by `holodeck test` and once by the floor client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Load {
    cases: usize,
    delay: Duration,
    concurrency: usize,
}

const ONE: Load = load(1, 0, 1);
const THOUSAND: Load = load(1_000, 0, 50);
const WAITING: Load = load(1_000, 500, 100);
const TEN_THOUSAND: Load = load(10_000, 0, 100);
const LOADS: [Load; 4] = [ONE, THOUSAND, WAITING, TEN_THOUSAND];

const fn load(cases: usize, delay_ms: u64, concurrency: usize) -> Load {
    Load {
        cases,
        delay: Duration::from_millis(delay_ms),
        concurrency,
    }
}

/// The measurements of one load.
struct Compared {
    load: Load,
    floor: Figures,
    product: Figures,
}

/// Everything a report is made from.
struct Measured {
    machine: Machine,
    runs: u32,
    /// A process that starts and ends, and `holodeck --version`.
    start: [Figures; 2],
    validate: Figures,
    loads: Vec<Compared>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let machine = Machine::look(args.program.as_deref())?;
    let (command, text) = match args.subject {
        Subject::Test => {
            let tools = Tools::build(&machine)?;
            let measured = measure_test(&tools, machine, args.runs)?;
            ("cargo xtask bench", report::render(&measured))
        }
        Subject::Claude => ("cargo xtask bench claude", claude::measure(&machine, args.runs)?),
        Subject::Eval => ("cargo xtask bench eval", eval::measure(&machine, args.runs)?),
        Subject::Targets => (
            "cargo xtask bench targets",
            targets::measure(&machine, args.runs)?,
        ),
        Subject::Events => ("cargo xtask bench events", events::measure(&machine, args.runs)?),
        Subject::Retrieval => (
            "cargo xtask bench retrieval",
            retrieval::measure(&machine, args.runs)?,
        ),
    };
    println!("\n{text}");
    if args.write {
        let path = workspace::root().join(DOCUMENT);
        let document =
            std::fs::read_to_string(&path).with_context(|| format!("failed to read {DOCUMENT}"))?;
        let document = report::insert(&document, command, &text)?;
        std::fs::write(&path, document).with_context(|| format!("failed to write {DOCUMENT}"))?;
        println!("wrote {DOCUMENT}");
    }
    Ok(())
}

fn measure_test(tools: &Tools, machine: Machine, runs: u32) -> Result<Measured> {
    let home = tools.dir.path();
    println!("start-up");
    let mut start = [Vec::new(), Vec::new()];
    for _ in 0..runs {
        let [floor, product] = &mut start;
        floor.push(measured(&tools.floor, &[], home)?);
        product.push(measured(&tools.holodeck, &["--version"], home)?);
    }
    let mut loads = Vec::new();
    for load in LOADS {
        println!("{}", load.describe());
        loads.push(compare(tools, load, runs)?);
    }
    println!("validate, {} cases", TEN_THOUSAND.cases);
    let project = Project::create(home, TEN_THOUSAND.cases, "http://127.0.0.1:9")?;
    let mut validate = Vec::new();
    for _ in 0..runs {
        validate.push(measured(
            &tools.holodeck,
            &["validate", project::AGENT],
            project.dir(),
        )?);
    }
    Ok(Measured {
        machine,
        runs,
        start: start.each_ref().map(|runs| Figures::of(runs)),
        validate: Figures::of(&validate),
        loads,
    })
}

/// Turn and turn about, so that a disturbance meets both.
fn compare(tools: &Tools, load: Load, runs: u32) -> Result<Compared> {
    let home = tools.dir.path();
    let server = Server::start(&tools.server, load.delay)?;
    let (cases, concurrency) = (load.cases.to_string(), load.concurrency.to_string());
    let (mut floor, mut product) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        floor.push(measured(
            &tools.floor,
            &[server.url(), &cases, &concurrency],
            home,
        )?);
        let project = Project::create(home, load.cases, server.url())?;
        let arguments = ["test", project::AGENT, "--live", "-j", &concurrency];
        product.push(measured(&tools.holodeck, &arguments, project.dir())?);
        project.check_results()?;
    }
    Ok(Compared {
        load,
        floor: Figures::of(&floor),
        product: Figures::of(&product),
    })
}

impl Load {
    fn describe(self) -> String {
        let cases = match self.cases {
            1 => "1 case".to_owned(),
            cases => format!("{} cases", figures::grouped(cases)),
        };
        format!(
            "{cases}, answers after {} ms, {} at a time",
            self.delay.as_millis(),
            self.concurrency
        )
    }
}

impl Measured {
    fn of(&self, load: Load) -> Option<&Compared> {
        self.loads.iter().find(|compared| compared.load == load)
    }
}

/// The programs, copied aside so that a build meanwhile does not change them.
struct Tools {
    dir: tempfile::TempDir,
    holodeck: PathBuf,
    server: PathBuf,
    floor: PathBuf,
}

impl Tools {
    fn build(machine: &Machine) -> Result<Self> {
        let program = machine.program()?;
        host::run(host::cargo(["build", "--release", "--locked"]).args([
            "-p",
            "holodeck-testkit",
            "--example",
            "bench_server",
            "--example",
            "floor_client",
        ]))?;
        let built = Metadata::load()?.target_directory().join("release");
        let dir = tempfile::Builder::new().prefix("holodeck-bench-").tempdir()?;
        let copy = |from: PathBuf| {
            let to = dir.path().join(from.file_name().unwrap_or_default());
            std::fs::copy(&from, &to).with_context(|| format!("failed to copy `{}`", from.display()))?;
            Ok::<PathBuf, anyhow::Error>(to)
        };
        Ok(Self {
            holodeck: copy(program)?,
            server: copy(built.join("examples/bench_server"))?,
            floor: copy(built.join("examples/floor_client"))?,
            dir,
        })
    }
}

fn measured(program: &Path, arguments: &[&str], dir: &Path) -> Result<Usage> {
    let call = Call {
        program,
        arguments,
        dir,
        memory_mib: None,
    };
    call.succeed()
}
