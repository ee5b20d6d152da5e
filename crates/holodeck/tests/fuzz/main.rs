//! Random inputs for every parser of foreign data. Each target is a test: it reads its saved inputs, then mutates them
//! for one second. `cargo xtask fuzz` runs the same targets for longer.
//!
//! A target runs in a child process with bounded memory, so that an abort, a stack overflow and a hang are findings, as
//! a panic is. The input of a finding is saved in `fixtures/fuzz`, and later runs of this test read it.
#![allow(
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    missing_docs,
    reason = "tests"
)]

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustix::process::{Resource, Rlimit, setrlimit};

mod chunking;
mod documents;
mod exploration;
mod mutate;
mod targets;

use targets::Target;

/// Address space limit. The targets need a few megabytes, so that more means unbounded growth.
const MEMORY: u64 = 512 << 20;

/// Seconds per target in a normal test run.
const TEST_SECONDS: u64 = 1;

type Failure = Box<dyn Error>;

/// Accepts the arguments of test runners, and additional commands: `fuzz SECONDS [TARGET…]`, `repeat TARGET FILE`.
fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["explore", target, seconds, seed, input_file] => {
            let limit = Rlimit {
                current: Some(MEMORY),
                maximum: Some(MEMORY),
            };
            setrlimit(Resource::As, limit)?;
            let time = Duration::from_secs(seconds.parse()?);
            exploration::run(find(target)?, time, seed.parse()?, Path::new(input_file))
        }
        ["repeat", target, file] => {
            let outcome = (find(target)?.run)(&fs::read(file)?);
            println!("no panic: {outcome:?}");
            Ok(())
        }
        // Started by a target: documents are converted in a child process, as in the product.
        ["convert"] => {
            std::panic::set_hook(Box::new(|_| {}));
            Ok(holodeck_documents::answer_conversion(
                std::io::stdin().lock(),
                std::io::stdout().lock(),
            )?)
        }
        ["fuzz", seconds, named @ ..] => {
            for name in named {
                find(name)?;
            }
            let selected = |target: &&Target| named.is_empty() || named.contains(&target.name);
            fuzz(targets().filter(selected), seconds.parse()?)
        }
        flags if flags.contains(&"--list") => {
            if !flags.contains(&"--ignored") {
                targets().for_each(|target| println!("{}: test", target.name));
            }
            Ok(())
        }
        flags => {
            let exact = flags.contains(&"--exact");
            let names: Vec<&&str> = flags.iter().filter(|flag| !flag.starts_with("--")).collect();
            let selected = |target: &&Target| {
                let matches = |name: &&&str| {
                    if exact {
                        target.name == **name
                    } else {
                        target.name.contains(**name)
                    }
                };
                names.is_empty() || names.iter().any(matches)
            };
            fuzz(targets().filter(selected), TEST_SECONDS)
        }
    }
}

fn targets() -> impl Iterator<Item = &'static Target> {
    let own = [targets::TARGETS, documents::TARGETS, chunking::TARGETS];
    own.into_iter().flatten()
}

fn find(name: &str) -> Result<&'static Target, Failure> {
    let target = targets().find(|target| target.name == name);
    Ok(target.ok_or_else(|| format!("there is no target `{name}`"))?)
}

/// Runs each target in a child; an error if one of them has a finding.
fn fuzz(selected: impl Iterator<Item = &'static Target>, seconds: u64) -> Result<(), Failure> {
    let mut findings = Vec::new();
    for target in selected {
        let seed = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let input = tempfile::NamedTempFile::new()?;
        let arguments = [target.name, &seconds.to_string(), &seed.to_string()];
        let status = Command::new(std::env::current_exe()?)
            .arg("explore")
            .args(arguments)
            .arg(input.path())
            .status()?;
        if !status.success() {
            let saved = save(target, input.path())?;
            let name = target.name;
            findings.push(format!(
                "`{name}` ended with {status}; the input is saved, repeat with\n  \
                 cargo test -p holodeck --test fuzz -- repeat {name} {saved}"
            ));
        }
    }
    if findings.is_empty() {
        return Ok(());
    }
    Err(findings.join("\n\n").into())
}

/// Saves an input so that later test runs read it.
fn save(target: &Target, input: &Path) -> Result<String, Failure> {
    let bytes = fs::read(input)?;
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let path = fixtures().join(format!("fuzz/{}/found-{hash:016x}", target.name));
    fs::create_dir_all(path.parent().unwrap_or(&path))?;
    fs::write(&path, bytes)?;
    Ok(path.display().to_string())
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}
