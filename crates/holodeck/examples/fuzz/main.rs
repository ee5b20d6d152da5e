//! Random inputs for everything that reads what others wrote; `cargo xtask fuzz` drives it.
//!
//! It ends at the first panic: the input is in the file given for it, so that even an abort loses nothing.
#![allow(
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a developer's tool talks, and a panic is its finding"
)]

use std::{
    error::Error,
    fs,
    io::{Seek as _, Write as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

mod chunking;
mod documents;
mod mutate;
mod targets;

use mutate::{Mutator, Random};
use targets::Target;

const USAGE: &str = "usage: fuzz list | fuzz run TARGET SECONDS SEED INPUT_FILE | fuzz repeat TARGET FILE";

/// An input that takes longer is a finding.
const HANG: Duration = Duration::from_secs(20);

/// Larger inputs are not tried.
const LARGEST: usize = 64 * 1024;

/// What is kept to be mutated further: many inputs, and small ones, which chance changes where it matters.
const MOST_KEPT: usize = 4_000;
const LARGEST_KEPT: usize = 4 * 1024;

type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["list"] => {
            for target in targets() {
                println!("{}", target.name);
            }
            Ok(())
        }
        ["run", target, seconds, seed, input_file] => {
            let time = Duration::from_secs(seconds.parse()?);
            run(find(target)?, time, seed.parse()?, Path::new(input_file))
        }
        ["repeat", target, file] => {
            let outcome = (find(target)?.run)(&fs::read(file)?);
            println!("no panic: {outcome:?}");
            Ok(())
        }
        // What this program starts for itself: its documents are converted as the product does it.
        ["convert"] => {
            std::panic::set_hook(Box::new(|_| {}));
            Ok(holodeck_documents::answer_conversion(
                std::io::stdin().lock(),
                std::io::stdout().lock(),
            )?)
        }
        _ => Err(USAGE.into()),
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

/// Mutates inputs until the time is over. An input with an outcome not seen before is kept and mutated further.
fn run(target: &Target, time: Duration, seed: u64, input_file: &Path) -> Result<(), Failure> {
    let mut inputs = seeds(target)?;
    let given = inputs.len();
    let mut outcomes = std::collections::HashSet::new();
    let mut file = fs::File::create(input_file)?;
    let count = watched();
    let mut mutator = Mutator::new(Random::new(seed), target.words);
    let started = Instant::now();
    while started.elapsed() < time {
        let at = usize::try_from(count.load(Ordering::Relaxed))?;
        // The seeds themselves come first.
        let input = match inputs.get(at) {
            Some(input) if at < given => input.clone(),
            _ => mutator.mutate(&inputs, LARGEST),
        };
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(&input)?;
        let outcome = (target.run)(&input);
        count.fetch_add(1, Ordering::Relaxed);
        if outcomes.insert(outcome) && inputs.len() < MOST_KEPT && input.len() <= LARGEST_KEPT {
            inputs.push(input);
        }
    }
    println!(
        "{}: {} inputs from {given} seeds, {} outcomes, seed {seed}",
        target.name,
        count.load(Ordering::Relaxed),
        outcomes.len()
    );
    Ok(())
}

/// The saved inputs and the fixtures this target can read, in a fixed order.
fn seeds(target: &Target) -> Result<Vec<Vec<u8>>, Failure> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let mut paths = Vec::new();
    collect(&fixtures, &mut paths)?;
    paths.sort();
    let saved = fixtures.join("fuzz").join(target.name);
    let mut inputs = vec![Vec::new()];
    for path in paths {
        let is_fixture = !path.starts_with(fixtures.join("fuzz"))
            && path
                .extension()
                .is_some_and(|extension| extension == target.extension);
        if path.starts_with(&saved) || is_fixture {
            let bytes = fs::read(path)?;
            if bytes.len() <= LARGEST {
                inputs.push(bytes);
            }
        }
    }
    Ok(inputs)
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<(), Failure> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, paths)?;
        } else {
            paths.push(path);
        }
    }
    Ok(())
}

/// A counter of finished inputs that ends the process when it stands still.
fn watched() -> Arc<AtomicU64> {
    let count = Arc::new(AtomicU64::new(0));
    let watched = Arc::clone(&count);
    std::thread::spawn(move || {
        let mut last = (watched.load(Ordering::Relaxed), Instant::now());
        loop {
            std::thread::sleep(Duration::from_millis(500));
            let now = watched.load(Ordering::Relaxed);
            if now != last.0 {
                last = (now, Instant::now());
            } else if last.1.elapsed() > HANG {
                println!("one input took longer than {} s", HANG.as_secs());
                std::process::abort();
            }
        }
    });
    count
}
