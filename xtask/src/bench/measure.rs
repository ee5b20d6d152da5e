//! What a process cost, told by the kernel.
//!
//! `RUSAGE_CHILDREN` adds up every child a process waited for, so each measured command gets a fresh parent that
//! waits for it alone: this program again, under a hidden verb.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::sys::resource::{Resource, UsageWho, getrusage, setrlimit};
use nix::sys::time::TimeVal;
use serde_json::{Value, json};

use super::Sample;
use crate::host;

/// Options of the hidden verb.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where the command runs.
    #[arg(long)]
    dir: PathBuf,
    /// What it prints goes here.
    #[arg(long)]
    output: PathBuf,
    /// Address space it may have, in MiB.
    #[arg(long)]
    memory_mib: Option<u64>,
    /// The command.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Runs the command and prints what it cost as one line of JSON.
pub(crate) fn run(args: &Args) -> Result<()> {
    let (program, arguments) = args.command.split_first().context("no command")?;
    if let Some(mib) = args.memory_mib {
        setrlimit(Resource::RLIMIT_AS, mib << 20, mib << 20)?;
    }
    let output = File::create(&args.output)?;
    let mut command = host::command(program);
    command
        .args(arguments)
        .current_dir(&args.dir)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output);
    let started = Instant::now();
    let status = command.status()?;
    let wall = started.elapsed();
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let cpu = duration(usage.user_time()) + duration(usage.system_time());
    let line = json!({
        "status": status.to_string(),
        "success": status.success(),
        "cpu_us": micros(cpu),
        "wall_us": micros(wall),
        "peak_kib": usage.max_rss(),
    });
    println!("{line}");
    Ok(())
}

/// Measures one run of a command; an error unless it succeeds.
pub(super) fn call(program: &Path, arguments: &[&str], dir: &Path) -> Result<Sample> {
    let output = tempfile::NamedTempFile::new()?;
    let mut helper = super::scrubbed(&std::env::current_exe()?, dir);
    helper
        .args(["measure", "--dir"])
        .arg(dir)
        .arg("--output")
        .arg(output.path())
        .arg("--")
        .arg(program)
        .args(arguments);
    let line: Value = serde_json::from_str(&host::output(&mut helper)?)?;
    if line.get("success") != Some(&Value::Bool(true)) {
        let said = std::fs::read_to_string(output.path())?;
        let tail: Vec<&str> = said.lines().rev().take(20).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        bail!(
            "`{} {}` ended with {}:\n{}",
            program.display(),
            arguments.join(" "),
            line.get("status").and_then(Value::as_str).unwrap_or_default(),
            tail.join("\n")
        );
    }
    let number = |key: &str| {
        line.get(key)
            .and_then(Value::as_u64)
            .with_context(|| format!("the helper told no `{key}`"))
    };
    Ok(Sample {
        cpu: Duration::from_micros(number("cpu_us")?),
        wall: Duration::from_micros(number("wall_us")?),
        peak_bytes: number("peak_kib")? * 1024,
    })
}

fn duration(time: TimeVal) -> Duration {
    let seconds = u64::try_from(time.tv_sec()).unwrap_or_default();
    let micros = u64::try_from(time.tv_usec()).unwrap_or_default();
    Duration::from_secs(seconds) + Duration::from_micros(micros)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
