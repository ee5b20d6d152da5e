//! Runs one target with saved and mutated inputs. The current input is on disk in case the process dies.

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

/// Size limit of inputs.
const MAX_BYTES: usize = 64 * 1024;

/// Limits for the inputs that are mutated further. In small inputs, a random change is more likely to be relevant.
const MAX_INPUTS: usize = 4_000;
const MAX_MUTATED_BYTES: usize = 4 * 1024;

/// Mutates inputs until the time is over. An input with a new outcome is mutated further.
pub(crate) fn run(target: &Target, time: Duration, seed: u64, input_file: &Path) -> Result<(), Failure> {
    let mut inputs = seeds(target)?;
    let seed_count = inputs.len();
    let mut outcomes = std::collections::HashSet::new();
    let mut file = fs::File::create(input_file)?;
    let count = start_watchdog();
    let mut mutator = Mutator::new(Random::new(seed), target.words);
    let started = Instant::now();
    loop {
        let at = usize::try_from(count.load(Ordering::Relaxed))?;
        if at >= seed_count && started.elapsed() >= time {
            break;
        }
        // All saved inputs run first, regardless of the time.
        let input = match inputs.get(at) {
            Some(input) if at < seed_count => input.clone(),
            _ => mutator.mutate(&inputs, MAX_BYTES),
        };
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(&input)?;
        let outcome = (target.run)(&input);
        count.fetch_add(1, Ordering::Relaxed);
        if outcomes.insert(outcome) && inputs.len() < MAX_INPUTS && input.len() <= MAX_MUTATED_BYTES {
            inputs.push(input);
        }
    }
    println!(
        "{}: {} inputs from {seed_count} seeds, {} outcomes, seed {seed}",
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
            if bytes.len() <= MAX_BYTES {
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

/// Returns a counter of finished inputs. A thread aborts the process if the counter does not change for too long.
fn start_watchdog() -> Arc<AtomicU64> {
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
