//! Deletes runs by moving their files to `.holodeck/trash/` of their agent, and moves them back. Nothing is removed but summaries,
//! nothing is written over, and nothing is moved through a link.

use std::{
    fs::{self, File},
    io::{self, BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
};

use holodeck_model::create_private_folder;
use holodeck_runs::{RunLock, RunStore};

use crate::{
    folder::{RunPath, runs_below, trashed_below},
    summaries,
};

/// A file in the trash.
#[derive(Debug)]
pub(crate) struct Deleted {
    pub(crate) id: String,
    /// Where it was, below the folder of the view.
    pub(crate) shown: String,
    trash: PathBuf,
    place: PathBuf,
}

/// Longer first lines are not searched.
const MAX_LINE: u64 = 64 << 20;

/// Moves the files of a run to the trash: `run`, and `copies`, which are its run files. Why not, if it is refused.
pub(crate) fn delete(top: &Path, run: &RunPath, run_id: &str, copies: &[RunPath]) -> Result<(), String> {
    let agent = run
        .agent_folder()
        .ok_or("it does not lie in the folder of an agent")?;
    if run.path.starts_with(agent.join("baselines")) {
        return Err("it is a baseline".to_owned());
    }
    let files = std::iter::once(run).chain(copies);
    let files: Vec<&RunPath> = files.filter(|file| file.agent_folder() == Some(agent)).collect();
    let _lock = lock(&RunStore::new(agent))?;
    if !run_id.is_empty() {
        check_unused(top, agent, run, run_id)?;
    }
    for file in &files {
        let to = place_in_trash(agent, &file.path)?;
        if fs::symlink_metadata(&to).is_ok() {
            return Err(format!("`{}` is there already", to.display()));
        }
    }
    for file in files {
        move_file(&file.path, &place_in_trash(agent, &file.path)?)?;
        if let Some(summary) = summaries::path_of(file) {
            // It can be made again.
            let _ = fs::remove_file(summary);
        }
    }
    Ok(())
}

/// Moves a file back to where it was.
pub(crate) fn restore(deleted: &Deleted) -> Result<(), String> {
    let agent = deleted
        .trash
        .ancestors()
        .find(|path| path.ends_with(".holodeck"))
        .and_then(Path::parent)
        .ok_or("it does not lie in the folder of an agent")?;
    let _lock = lock(&RunStore::new(agent))?;
    if fs::symlink_metadata(&deleted.place).is_ok() {
        return Err(format!("`{}` is there", deleted.shown));
    }
    move_file(&deleted.trash, &deleted.place)
}

/// The files in the trash of every agent below a folder.
pub(crate) fn deleted_below(top: &Path) -> Vec<Deleted> {
    let mut found = Vec::new();
    for (trash, files) in trashed_below(top) {
        let Some(agent) = trash.parent().and_then(Path::parent) else {
            continue;
        };
        for (path, id) in files {
            let Ok(below) = path.strip_prefix(&trash) else {
                continue;
            };
            let place = match below.strip_prefix("runs") {
                Ok(name) => agent.join(".holodeck/runs").join(name),
                Err(_) if below.starts_with("results") => agent.join(below),
                Err(_) => continue,
            };
            found.push(Deleted {
                id,
                shown: place.strip_prefix(top).unwrap_or(&place).display().to_string(),
                trash: path,
                place,
            });
        }
    }
    found.sort_by(|a, b| b.shown.cmp(&a.shown));
    found
}

/// The lock of the agent: no command writes a run meanwhile.
fn lock(store: &RunStore) -> Result<RunLock, String> {
    let path = store.lock_path();
    let is_link = fs::symlink_metadata(&path).is_ok_and(|metadata| !metadata.is_file());
    if is_link {
        return Err("its lock is a link or not a file".to_owned());
    }
    RunLock::acquire(&path, "holodeck view").map_err(|error| error.to_string())
}

/// Refuses a run that a regrade, a merged run or a baseline names. A file that names it in another way is refused too.
fn check_unused(top: &Path, agent: &Path, run: &RunPath, run_id: &str) -> Result<(), String> {
    let unreadable = |path: &Path, error: &io::Error| format!("`{}` cannot be read: {error}", path.display());
    for other in runs_below(agent) {
        let is_baseline = other.path.starts_with(agent.join("baselines"));
        if other.path == run.path || !other.is_journal && !is_baseline {
            continue;
        }
        let mut text = Vec::new();
        let file = File::open(&other.path).map_err(|error| unreadable(&other.path, &error))?;
        let mut file = BufReader::new(file).take(MAX_LINE);
        let read = if is_baseline {
            file.read_to_end(&mut text)
        } else {
            file.read_until(b'\n', &mut text)
        };
        read.map_err(|error| unreadable(&other.path, &error))?;
        if String::from_utf8_lossy(&text).contains(run_id) {
            let shown = other.path.strip_prefix(top).unwrap_or(&other.path);
            return Err(format!("`{}` is made of it", shown.display()));
        }
    }
    Ok(())
}

fn place_in_trash(agent: &Path, file: &Path) -> Result<PathBuf, String> {
    let below = file.strip_prefix(agent).map_err(|error| error.to_string())?;
    let below = below.strip_prefix(".holodeck").unwrap_or(below);
    Ok(agent.join(".holodeck/trash").join(below))
}

/// Moves a file to a folder that no link leads to.
fn move_file(from: &Path, to: &Path) -> Result<(), String> {
    let failed = |error: io::Error| format!("`{}`: {error}", to.display());
    let parent = to.parent().ok_or("it has no folder")?;
    let is_real = |path: &Path| path.canonicalize().is_ok_and(|real| real == path);
    let there = parent.ancestors().find(|path| fs::symlink_metadata(path).is_ok());
    if !there.is_some_and(is_real) {
        return Err(format!("`{}` is a link", parent.display()));
    }
    create_private_folder(parent).map_err(failed)?;
    if !is_real(parent) {
        return Err(format!("`{}` is a link", parent.display()));
    }
    fs::rename(from, to).map_err(failed)
}
