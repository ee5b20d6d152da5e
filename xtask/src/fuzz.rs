//! Random inputs for everything that reads what others wrote.
//!
//! The targets are functions over bytes in `crates/holodeck/examples/fuzz`. Each runs in a process of its own with
//! bounded memory, so that an abort, a stack that overflows and a hang are findings like a panic.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};

use crate::measure::Call;
use crate::workspace::Metadata;
use crate::{host, table, workspace};

/// The targets need a few megabytes; what wants more than this grows without bound.
const MEMORY_MIB: u64 = 512;

/// What a change gets, all targets together.
const IN_CI: Duration = Duration::from_secs(20);

/// Options of `cargo xtask fuzz`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these targets.
    targets: Vec<String>,
    /// Time for all targets together.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Where chance starts; the time of day unless given.
    #[arg(long)]
    seed: Option<u64>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let seed = args.seed.map_or_else(seed_of_now, Ok)?;
    fuzz(&args.targets, Duration::from_secs(args.seconds), seed)
}

/// The part of `cargo xtask ci`.
pub(crate) fn briefly() -> Result<()> {
    fuzz(&[], IN_CI, seed_of_now()?)
}

fn fuzz(wanted: &[String], time: Duration, seed: u64) -> Result<()> {
    let program = build()?;
    let listed = host::output(host::command(&program).arg("list"))?;
    let targets: Vec<&str> = listed
        .lines()
        .filter(|name| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name))
        .collect();
    if targets.is_empty() {
        bail!(
            "no such target; targets: {}",
            listed.lines().collect::<Vec<_>>().join(", ")
        );
    }
    let each = time.as_secs().div_ceil(targets.len() as u64).to_string();
    let mut rows = Vec::new();
    let mut findings = Vec::new();
    for target in targets {
        println!("{target}: {each} s, seed {seed}");
        let input = tempfile::NamedTempFile::new()?;
        let input_file = input.path().to_string_lossy();
        let outcome = Call {
            program: &program,
            arguments: &["run", target, &each, &seed.to_string(), &input_file],
            dir: workspace::root(),
            memory_mib: Some(MEMORY_MIB),
        }
        .run()?;
        let said = if outcome.success {
            outcome.tail()
        } else {
            let saved = save(target, input.path())?;
            findings.push(format!(
                "{target} ended with {}:\n{}\nthe input is saved, repeat with\n  \
                 cargo run -p holodeck --example fuzz -- repeat {target} {saved}",
                outcome.status,
                outcome.tail()
            ));
            format!("FAILED: {saved}")
        };
        let peak = format!("{} MB", outcome.usage.peak_bytes / 1_000_000);
        rows.push([target.to_owned(), peak, said]);
    }
    println!();
    table::print(["target", "peak memory", "result"], &rows);
    if !findings.is_empty() {
        bail!("{} findings\n\n{}", findings.len(), findings.join("\n\n"));
    }
    Ok(())
}

/// In the profile of the tests: with checks for overflow, and already built where they are.
fn build() -> Result<PathBuf> {
    let build = [
        "build",
        "--quiet",
        "--locked",
        "-p",
        "holodeck",
        "--example",
        "fuzz",
    ];
    host::run(&mut host::cargo(build))?;
    Ok(Metadata::load()?.target_directory().join("debug/examples/fuzz"))
}

/// Keeps an input where the tests find it from now on.
fn save(target: &str, input: &Path) -> Result<String> {
    let bytes = std::fs::read(input)?;
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let saved = format!("fixtures/fuzz/{target}/found-{hash:016x}");
    let path = workspace::root().join(&saved);
    std::fs::create_dir_all(path.parent().unwrap_or(&path))?;
    std::fs::write(&path, bytes).with_context(|| format!("failed to write {saved}"))?;
    Ok(saved)
}

fn seed_of_now() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}
