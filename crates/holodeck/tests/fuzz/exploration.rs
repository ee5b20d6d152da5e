//! Feeds one target with saved and mutated inputs, and keeps the current one on disk for a process that dies.

use std::{
    fs,
    io::{Seek as _, Write as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{
    Failure, fixtures,
    mutate::{Mutator, Random},
    targets::Target,
};

/// An input that takes longer is a finding.
const HANG: Duration = Duration::from_secs(20);

/// Larger inputs are not tried.
const LARGEST: usize = 64 * 1024;

/// What is kept to be mutated further: many inputs, and small ones, which chance changes where it matters.
const MOST_KEPT: usize = 4_000;
const LARGEST_KEPT: usize = 4 * 1024;

/// Mutates inputs until the time is over. An input with an outcome not seen before is kept and mutated further.
pub(crate) fn run(target: &Target, time: Duration, seed: u64, input_file: &Path) -> Result<(), Failure> {
    let mut inputs = seeds(target)?;
    let given = inputs.len();
    let mut outcomes = std::collections::HashSet::new();
    let mut file = fs::File::create(input_file)?;
    let count = watched();
    let mut mutator = Mutator::new(Random::new(seed), target.words);
    let started = Instant::now();
    loop {
        let at = usize::try_from(count.load(Ordering::Relaxed))?;
        if at >= given && started.elapsed() >= time {
            break;
        }
        // Every saved input comes first, whatever the time.
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
    let fixtures = fixtures();
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
