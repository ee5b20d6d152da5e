//! The cost of a process, according to the kernel.
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

use crate::host;

/// Enough to see why a command failed.
const TAIL_LINES: usize = 20;

/// Options of the hidden verb.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where the command runs.
    #[arg(long)]
    dir: PathBuf,
    /// The file for its output.
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

/// The outcome of a measured command.
pub(crate) struct Outcome {
    pub(crate) success: bool,
    /// As the system reports it: `exit status: 1`, `signal: 6 (SIGABRT)`.
    pub(crate) status: String,
    pub(crate) usage: Usage,
    /// Everything it printed.
    pub(crate) output: String,
}

/// The cost of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// User and system time.
    pub(crate) cpu: Duration,
    pub(crate) wall: Duration,
    pub(crate) peak_bytes: u64,
}

/// A command to measure.
pub(crate) struct Call<'a> {
    pub(crate) program: &'a Path,
    pub(crate) arguments: &'a [&'a str],
    pub(crate) dir: &'a Path,
    /// Address space it may have, in MiB.
    pub(crate) memory_mib: Option<u64>,
}

impl Call<'_> {
    /// Runs it with an environment made for it: home is its folder, the key is a dummy.
    pub(crate) fn run(&self) -> Result<Outcome> {
        let output = tempfile::NamedTempFile::new()?;
        let mut helper = host::command(this_program()?);
        helper
            .env_clear()
            .env("HOME", self.dir)
            .env("OPENAI_API_KEY", "dummy");
        helper.args(["measure", "--dir"]).arg(self.dir);
        helper.arg("--output").arg(output.path());
        if let Some(mib) = self.memory_mib {
            helper.args(["--memory-mib", &mib.to_string()]);
        }
        helper.arg("--").arg(self.program).args(self.arguments);
        let line: Value = serde_json::from_str(&host::output(&mut helper)?)?;
        let number = |key: &str| {
            line.get(key)
                .and_then(Value::as_u64)
                .with_context(|| format!("the helper reported no `{key}`"))
        };
        let usage = Usage {
            cpu: Duration::from_micros(number("cpu_us")?),
            wall: Duration::from_micros(number("wall_us")?),
            peak_bytes: number("peak_kib")? * 1024,
        };
        let status = line.get("status").and_then(Value::as_str).unwrap_or_default();
        Ok(Outcome {
            success: line.get("success") == Some(&Value::Bool(true)),
            status: status.to_owned(),
            usage,
            output: String::from_utf8_lossy(&std::fs::read(output.path())?).into_owned(),
        })
    }

    /// Runs it; an error unless it succeeds.
    pub(crate) fn succeed(&self) -> Result<Usage> {
        let outcome = self.run()?;
        if !outcome.success {
            bail!(
                "`{} {}` ended with {}:\n{}",
                self.program.display(),
                self.arguments.join(" "),
                outcome.status,
                outcome.tail()
            );
        }
        Ok(outcome.usage)
    }
}

impl Outcome {
    /// The last lines it printed.
    pub(crate) fn tail(&self) -> String {
        let lines: Vec<&str> = self.output.lines().collect();
        let from = lines.len().saturating_sub(TAIL_LINES);
        lines.get(from..).unwrap_or_default().join("\n")
    }
}

/// On Linux by the name that stays true when a build replaces the file meanwhile.
fn this_program() -> Result<PathBuf> {
    let lasting = Path::new("/proc/self/exe");
    if lasting.exists() {
        return Ok(lasting.to_owned());
    }
    Ok(std::env::current_exe()?)
}

fn duration(time: TimeVal) -> Duration {
    let seconds = u64::try_from(time.tv_sec()).unwrap_or_default();
    let micros = u64::try_from(time.tv_usec()).unwrap_or_default();
    Duration::from_secs(seconds) + Duration::from_micros(micros)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
