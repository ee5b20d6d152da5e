//! The private folder in which the CLI runs, so that the settings of the machine's user have no effect.
//!
//! It is deleted afterwards; folders that killed processes left behind are deleted by the next one.

use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    time::Duration,
};

use tempfile::TempDir;

use holodeck_model::{CliText, PathGlob, TEMPORARY_PREFIX, resolve_links};

use crate::ClaudeOptions;

/// The prefix of the names of private folders. The agent may not use their files.
const PREFIX: &str = TEMPORARY_PREFIX;
/// A younger folder may not be locked yet.
const MIN_AGE: Duration = Duration::from_mins(1);

/// The private folder of one process: its home, its settings, and the files that are too secret or too long for
/// arguments. Deleted when dropped, which is after the end of the CLI and of everything below it.
#[derive(Debug)]
pub(crate) struct Home {
    folder: TempDir,
    /// Held until this process ends, however it ends. Released after the folder is deleted.
    _lock: File,
    system_prompt: PathBuf,
    /// A file with the settings that no argument can hold, if there are any.
    settings: Option<PathBuf>,
    working_directory: PathBuf,
}

impl Home {
    pub(crate) fn create(options: &ClaudeOptions) -> io::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix(PREFIX)
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(&options.temporary_folder)?;
        let lock = File::open(folder.path())?;
        // Without support for locks, `is_abandoned` fails to lock too and keeps the folder.
        let _ = lock.try_lock();
        let at = |name: &str| folder.path().join(name);
        for part in ["home", "config", "tmp", "work"] {
            fs::DirBuilder::new().mode(0o700).create(at(part))?;
        }
        let system_prompt = at("system-prompt.md");
        write_private(&system_prompt, options.system_prompt.as_bytes())?;
        for (below, real) in &options.home_links {
            let link = at("home").join(below);
            if let Some(parent) = link.parent() {
                fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
            }
            symlink(real, link)?;
        }
        for (name, real) in &options.config_files {
            let shown = at("config").join(name);
            if real.is_dir() {
                symlink(real, shown)?;
            } else {
                write_private(&shown, &fs::read(real)?)?;
            }
        }
        let settings = settings(options).map(|text| (at("config").join("agent-settings.json"), text));
        if let Some((file, text)) = &settings {
            write_private(file, text.as_bytes())?;
        }
        let working_directory = match &options.working_directory {
            // The folder of `agent.yaml` has an empty name.
            Some(folder) => std::path::absolute(Path::new(".").join(folder))?,
            None => at("work"),
        };
        Ok(Self {
            folder,
            _lock: lock,
            system_prompt,
            settings: settings.map(|(file, _)| file),
            working_directory,
        })
    }

    /// Deletes private folders beside this one whose owner was killed.
    pub(crate) fn sweep(&self) {
        let (Some(beside), Ok(own)) = (self.folder.path().parent(), self.folder.path().metadata()) else {
            return;
        };
        for entry in fs::read_dir(beside).into_iter().flatten().flatten() {
            let is_private = entry.file_name().to_string_lossy().starts_with(PREFIX);
            if is_private && is_abandoned(&entry.path(), own.uid()).unwrap_or(false) {
                let removed = fs::remove_dir_all(entry.path());
                tracing::debug!(folder = %entry.path().display(), ?removed, "deleting an abandoned private folder");
            }
        }
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.folder.path().join("config")
    }

    pub(crate) fn temporary(&self) -> PathBuf {
        self.folder.path().join("tmp")
    }

    pub(crate) fn system_prompt(&self) -> &Path {
        &self.system_prompt
    }

    pub(crate) fn settings(&self) -> Option<&Path> {
        self.settings.as_deref()
    }

    pub(crate) fn working_directory(&self) -> &Path {
        &self.working_directory
    }

    /// The rules by which the CLI itself denies, in its syntax: the files of all private folders, without those in which
    /// it keeps long results.
    pub(crate) fn denials(&self) -> Vec<String> {
        let beside = self.folder.path().parent().map(Path::to_owned);
        let real = beside.as_ref().and_then(|beside| resolve_links(beside).ok());
        let beside: BTreeSet<PathBuf> = beside.into_iter().chain(real).collect();
        let places = beside.iter().flat_map(|beside| {
            let glob = PathGlob::literal(&beside.to_string_lossy());
            let spellings = glob.to_cli().into_iter();
            spellings.filter_map(|text| text.as_text())
        });
        let private = [
            "home/**",
            "system-prompt.md",
            "config/*.json",
            "config/*.jsonl",
            "config/projects/**/*.jsonl",
            "config/file-history/**",
            "config/shell-snapshots/**",
            "config/todos/**",
            "config/debug/**",
        ];
        let rules = places.flat_map(|beside| private.map(|private| format!("{beside}/{PREFIX}*/{private}")));
        rules
            .flat_map(|place| [format!("Read({place})"), format!("Edit({place})")])
            .collect()
    }

    /// Writes a conversation to the place where the CLI stores its own.
    pub(crate) fn write_conversation(&self, id: &str, lines: &str) -> io::Result<()> {
        let folder = self.config().join("projects").join(self.slug());
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)?;
        write_private(&folder.join(format!("{id}.jsonl")), lines.as_bytes())
    }

    /// The CLI's name for the working directory.
    fn slug(&self) -> String {
        let real = fs::canonicalize(&self.working_directory);
        let folder = real.as_deref().unwrap_or(&self.working_directory);
        let replace = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        folder.to_string_lossy().chars().map(replace).collect()
    }
}

/// The sandbox, and the rules with half letters, which no argument can hold, as settings of the CLI.
fn settings(options: &ClaudeOptions) -> Option<String> {
    let rules = options.denied_files.iter();
    let rules: Vec<String> = rules
        .filter(|rule| rule.as_text().is_none())
        .map(CliText::to_json)
        .collect();
    let rules = (!rules.is_empty()).then(|| format!(r#""permissions":{{"deny":[{}]}}"#, rules.join(",")));
    let sandbox = options
        .sandbox
        .as_ref()
        .map(|sandbox| format!(r#""sandbox":{sandbox}"#));
    let parts: Vec<String> = rules.into_iter().chain(sandbox).collect();
    (!parts.is_empty()).then(|| format!("{{{}}}", parts.join(",")))
}

/// Whether a private folder of this user is no longer in use.
fn is_abandoned(folder: &Path, user: u32) -> io::Result<bool> {
    let metadata = fs::symlink_metadata(folder)?;
    let is_old = metadata.modified()?.elapsed().is_ok_and(|age| age > MIN_AGE);
    if !metadata.is_dir() || metadata.uid() != user || !is_old {
        return Ok(false);
    }
    Ok(File::open(folder)?.try_lock().is_ok())
}

fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    /// A folder that looks two minutes old.
    fn old(folder: &Path) {
        let before = SystemTime::now() - 2 * MIN_AGE;
        File::open(folder).unwrap().set_modified(before).unwrap();
    }

    #[test]
    fn only_folders_of_killed_processes_are_deleted() {
        let temporary = tempfile::tempdir().unwrap();
        let options = ClaudeOptions::new("claude").temporary_folder(temporary.path());
        let at = |name: &str| temporary.path().join(name);
        for name in ["holodeck-claude-left", "holodeck-claude-young", "other"] {
            fs::create_dir_all(at(name).join("config")).unwrap();
            fs::write(at(name).join("config/secret"), "x").unwrap();
        }
        fs::write(at("holodeck-claude-file"), "x").unwrap();
        symlink(at("other"), at("holodeck-claude-link")).unwrap();
        old(&at("holodeck-claude-left"));
        old(&at("other"));
        let running = Home::create(&options).unwrap();
        old(running.folder.path());
        let home = Home::create(&options).unwrap();
        home.sweep();
        let mut remaining: Vec<_> = fs::read_dir(temporary.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        remaining.sort();
        let mut expected = vec![
            at("holodeck-claude-young"),
            at("holodeck-claude-file"),
            at("holodeck-claude-link"),
            at("other"),
            running.folder.path().to_owned(),
            home.folder.path().to_owned(),
        ];
        expected.sort();
        assert_eq!(remaining, expected);
        assert!(at("other/config/secret").exists());
        let ended = running.folder.path().to_owned();
        drop(running);
        assert!(!ended.exists());
    }
}
