//! Decides whether a file may be written, for the paths of the command line and those of the YAML. It writes nothing.

use std::{
    fs::{self, File},
    io::{self, BufRead as _, BufReader, Read as _},
    path::Path,
};

use holodeck_events::SqliteStore;
use holodeck_model::Env;
use holodeck_yaml::LoadedAgent;
use serde_json::Value;

use crate::{RunInputs, TestOptions};

/// Why a file must not be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RefusedTarget {
    /// The file and the reason.
    pub message: String,
    /// The remedy.
    pub hint: Option<String>,
}

/// Refuses a file that is read by the run, that is not a regular file, or that has content which holodeck did not write; the
/// last only unless `overwrites`. A file that does not exist is accepted.
pub fn check_target(
    path: &Path,
    what: &str,
    inputs: &RunInputs,
    overwrites: bool,
    is_own_output: impl Fn(&Path) -> bool,
) -> Result<(), RefusedTarget> {
    let refuse = |why: &str, hint: Option<&str>| {
        Err(RefusedTarget {
            message: format!("cannot write the {what} to `{}`: {why}", path.display()),
            hint: hint.map(str::to_owned),
        })
    };
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return refuse(&target_reason(&error), None),
    };
    if metadata.is_dir() {
        return refuse("it is a directory", None);
    }
    if !metadata.is_file() {
        let hint = "reports can also be written to `-` and `/dev/null`";
        return refuse("it is not a regular file", Some(hint));
    }
    let is_own_output = metadata.len() == 0 || is_own_output(path);
    if inputs.contains(path) || (!is_own_output && inputs.searches(path)) {
        return refuse("this run reads it", Some("choose another path"));
    }
    if !is_own_output && !overwrites {
        let why = format!("it exists and is not a holodeck {what}");
        return refuse(&why, Some("choose another path, or overwrite it with `--force`"));
    }
    Ok(())
}

/// The reason of an error at a file to be written.
pub fn target_reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "a part of the path is a file".to_owned()
        }
        io::ErrorKind::ReadOnlyFilesystem => "the file system is read-only".to_owned(),
        _ => error.to_string(),
    }
}

/// Refuses the files that the YAML names to be written, `telemetry.jsonl` and `events.path`, by the same rules; there is no
/// `--force` for them. Other fields name folders.
pub(crate) fn check_yaml_targets(agent: &LoadedAgent, env: &Env) -> Result<(), RefusedTarget> {
    let config = &agent.config;
    let inputs = RunInputs::new(agent, env, &TestOptions::default());
    let check = |path: &Path, what: &str, is_own: fn(&Path) -> bool| {
        if path == Path::new("/dev/null") {
            return Ok(());
        }
        check_target(path, what, &inputs, false, is_own).map_err(|refused| RefusedTarget {
            hint: refused.hint.map(|_| "choose another path".to_owned()),
            ..refused
        })
    };
    if let Some(path) = config
        .telemetry
        .as_ref()
        .and_then(|telemetry| telemetry.jsonl.as_ref())
    {
        let path = agent.resolve(Path::new(path));
        check(&path, "lines of `telemetry.jsonl`", is_telemetry)?;
    }
    if let Some(events) = &config.events
        && events.store == holodeck_model::EventStoreKind::Sqlite
    {
        let path = agent.resolve(Path::new(&events.path));
        check(&path, "conversations of `events.path`", SqliteStore::may_open)?;
    }
    Ok(())
}

/// Whether a file begins with a line of telemetry.
fn is_telemetry(path: &Path) -> bool {
    const LONGEST: u64 = 1024 * 1024;
    let Ok(file) = File::open(path) else { return false };
    let mut line = String::new();
    let read = BufReader::new(file.take(LONGEST)).read_line(&mut line);
    let value: Option<Value> = read.ok().and_then(|_| serde_json::from_str(&line).ok());
    let fields = ["timestamp", "session_id", "event", "payload"];
    value.is_some_and(|value| fields.iter().all(|field| value.get(field).is_some()))
}
