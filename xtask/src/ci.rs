//! Everything a change must pass, in order.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::workspace::{self, Metadata};
use crate::{corpus, host, product, services, smoke, standalone, table, tidy};

/// The test runner, installed when it is absent.
const NEXTEST_VERSION: &str = "0.9.143";

/// The agent of the command that the README opens with.
const QUICKSTART: &str = "fixtures/quickstart/agent.yaml";

/// Real agent files, beside the checkout where they exist. They may not be published.
const CORPUS: &str = "../shared/corpus";

/// Options of `cargo xtask ci`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run only these parts.
    parts: Vec<String>,
}

struct Part {
    name: &'static str,
    /// The time that it should take from a fresh clone on two cores.
    planned: Duration,
    run: fn() -> Result<Outcome>,
}

enum Outcome {
    Done,
    /// There is nothing to check yet, for this reason. A failure in CI.
    Absent(String),
}

/// The tests are linted while they are compiled, so what one part compiled, the next one finds.
const PARTS: &[Part] = &[
    part("smoke", 60, smoke),
    part("services", 30, || Ok(servers())),
    part("fmt", 10, || cargo(&["fmt", "--all", "--check"])),
    part("tidy", 10, || tidy::check_all().map(done)),
    part("clippy", 250, || {
        linted(&["test", "--no-run", "--workspace", "--all-targets", "--locked"])
    }),
    part("nextest", 360, nextest),
    part("quickstart", 10, quickstart),
    part("corpus", 10, corpus),
    part("doctests", 30, || {
        linted(&["test", "--doc", "--workspace", "--locked", "--quiet"])
    }),
    part("standalone", 130, || standalone::run().map(done)),
];

const fn part(name: &'static str, planned_secs: u64, run: fn() -> Result<Outcome>) -> Part {
    Part {
        name,
        planned: Duration::from_secs(planned_secs),
        run,
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if let Some(unknown) = args
        .parts
        .iter()
        .find(|name| !PARTS.iter().any(|part| part.name == **name))
    {
        let names: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
        bail!("unknown part `{unknown}`; parts: {}", names.join(", "));
    }
    let wanted = |part: &Part| args.parts.is_empty() || args.parts.iter().any(|name| name == part.name);
    let start = Instant::now();
    let mut rows = Vec::new();
    let mut failure = None;
    for part in PARTS.iter().filter(|part| wanted(part)) {
        let planned = clock(part.planned);
        if failure.is_some() {
            rows.push([part.name.to_owned(), planned, String::new(), "not run".to_owned()]);
            continue;
        }
        println!("\n== {} (planned {planned})", part.name);
        let started = Instant::now();
        let outcome = judge((part.run)(), Strictness::of_this_run());
        let elapsed = started.elapsed();
        let taken = clock(elapsed);
        let outcome = match outcome {
            Ok(text) => with_plan(text, elapsed, part.planned),
            Err(error) => {
                failure = Some(error.context(format!("{} failed", part.name)));
                "FAILED".to_owned()
            }
        };
        rows.push([part.name.to_owned(), planned, taken, outcome]);
    }
    let planned = PARTS
        .iter()
        .filter(|part| wanted(part))
        .map(|part| part.planned)
        .sum();
    let elapsed = start.elapsed();
    let total = with_plan(String::new(), elapsed, planned);
    rows.push(["total".to_owned(), clock(planned), clock(elapsed), total]);
    println!();
    table::print(["part", "planned", "taken", "result"], &rows);
    failure.map_or(Ok(()), Err)
}

#[derive(Clone, Copy)]
enum Strictness {
    /// A part that cannot run is skipped with a notice.
    Developer,
    /// Every missing requirement is a failure.
    Ci,
}

impl Strictness {
    fn of_this_run() -> Self {
        if host::in_ci() { Self::Ci } else { Self::Developer }
    }
}

/// The table's last column, or why the part failed.
fn judge(outcome: Result<Outcome>, strictness: Strictness) -> Result<String> {
    match (outcome?, strictness) {
        (Outcome::Done, _) => Ok("ok".to_owned()),
        (Outcome::Absent(why), Strictness::Developer) => Ok(format!("skipped: {why}")),
        (Outcome::Absent(why), Strictness::Ci) => bail!("{why}; CI skips nothing"),
    }
}

/// Marks what took longer than planned. A slow machine is no failure, but a plan that no longer holds must be seen.
fn with_plan(result: String, taken: Duration, planned: Duration) -> String {
    if taken <= planned {
        return result;
    }
    let over = format!("{} over plan", clock(taken.saturating_sub(planned)));
    if result.is_empty() {
        over
    } else {
        format!("{result}, {over}")
    }
}

fn done((): ()) -> Outcome {
    Outcome::Done
}

fn cargo(args: &[&str]) -> Result<Outcome> {
    host::run(&mut host::cargo(args)).map(done)
}

/// Cargo with Clippy in the place of the compiler: a warning in a crate of the workspace is an error.
fn linted(args: &[&str]) -> Result<Outcome> {
    host::run(host::linting(&mut host::cargo(args))).map(done)
}

/// Installs what the tests look for in `.smoke`.
fn smoke() -> Result<Outcome> {
    Ok(match smoke::gate(&smoke::Args::default())? {
        smoke::Outcome::Passed => Outcome::Done,
        smoke::Outcome::Skipped(why) => Outcome::Absent(why),
    })
}

/// Installs the servers that the tests start, and the schemas that they check with.
fn servers() -> Outcome {
    match services::postgres().and_then(|()| services::schemas()) {
        Ok(()) => Outcome::Done,
        Err(error) => Outcome::Absent(format!("PostgreSQL or schemas can't be had: {error:#}")),
    }
}

fn nextest() -> Result<Outcome> {
    install_nextest()?;
    // Many tests wait for programs and disks: half as many again as cores keep the cores busy.
    let cores = std::thread::available_parallelism()?.get();
    let threads = (cores + cores.div_ceil(2)).to_string();
    let options = ["--locked", "--profile", "ci", "--test-threads", &threads];
    linted(&[&["nextest", "run", "--workspace"], &options[..]].concat())
}

fn install_nextest() -> Result<()> {
    let found = host::first_line("cargo", &["nextest", "--version"]);
    if let Some(found) = found {
        println!("{found}");
    } else {
        println!("cargo-nextest is absent: installing {NEXTEST_VERSION}, which takes minutes");
        let install = [
            "install",
            "--locked",
            "--version",
            NEXTEST_VERSION,
            "cargo-nextest",
        ];
        host::run(&mut host::cargo(install)).context("failed to install cargo-nextest")?;
    }
    Ok(())
}

/// The README's first command, in the binary that the tests just built; `cargo xtask soak` times it from a fresh clone.
fn quickstart() -> Result<Outcome> {
    if !workspace::root().join(QUICKSTART).exists() {
        return Ok(Outcome::Absent(format!("{QUICKSTART} does not exist")));
    }
    let holodeck = product::build(&Metadata::load()?)?;
    host::run(host::command(holodeck).args(["test", QUICKSTART])).map(done)
}

fn corpus() -> Result<Outcome> {
    let dir = workspace::root().join(CORPUS);
    if dir.exists() {
        corpus::check(&dir)?;
    } else {
        println!("{CORPUS} does not exist here: nothing to check");
    }
    Ok(Outcome::Done)
}

fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Outcome, Strictness, judge, with_plan};

    #[test]
    fn what_took_longer_than_planned_is_marked() {
        let after = |seconds| {
            with_plan(
                "ok".to_owned(),
                Duration::from_secs(seconds),
                Duration::from_mins(1),
            )
        };
        assert_eq!(after(60), "ok");
        assert_eq!(after(75), "ok, 0:15 over plan");
    }

    #[test]
    fn what_is_missing_fails_in_ci_only() {
        let absent = || Ok(Outcome::Absent("no fixture".to_owned()));
        assert_eq!(
            judge(absent(), Strictness::Developer).unwrap(),
            "skipped: no fixture"
        );
        assert_eq!(
            judge(absent(), Strictness::Ci).unwrap_err().to_string(),
            "no fixture; CI skips nothing"
        );
    }
}
