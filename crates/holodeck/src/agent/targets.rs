//! Decides whether a file may be written, for the paths of the command line and those of the YAML. It writes nothing.

use std::{
    fs::{self, File},
    io::{self, BufRead as _, BufReader, Read as _},
    path::Path,
};

use holodeck_events::SqliteStore;
use holodeck_model::Env;
use holodeck_retrieval::{EmbeddedStore, ModelCache};
use holodeck_yaml::LoadedAgent;
use serde_json::Value;

use crate::{
    RunInputs, TestOptions,
    agent::inventory::{Output, OutputKind, outputs},
};

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

/// Refuses the files and folders that the YAML names to be written, by the same rules; there is no `--force` for them.
pub(crate) fn check_yaml_targets(agent: &LoadedAgent, env: &Env) -> Result<(), RefusedTarget> {
    let inputs = RunInputs::new(agent, env, &TestOptions::default());
    for Output { field, path, kind } in outputs(agent) {
        let (what, is_own): (_, fn(&Path) -> bool) = match kind {
            OutputKind::Folder => {
                check_folder(&path, &field)?;
                continue;
            }
            OutputKind::Telemetry => ("lines", is_telemetry),
            OutputKind::Conversations => ("conversations", SqliteStore::may_open),
            OutputKind::ModelCache => ("cache", ModelCache::may_open),
            OutputKind::Index => ("index", EmbeddedStore::may_open),
        };
        if path == Path::new("/dev/null") {
            continue;
        }
        let what = format!("{what} of `{field}`");
        check_target(&path, &what, &inputs, false, is_own).map_err(|refused| RefusedTarget {
            hint: refused.hint.map(|_| "choose another path".to_owned()),
            ..refused
        })?;
    }
    Ok(())
}

/// Refuses a folder that is something else.
fn check_folder(path: &Path, field: &str) -> Result<(), RefusedTarget> {
    match fs::metadata(path) {
        Ok(about) if !about.is_dir() => Err(RefusedTarget {
            message: format!(
                "cannot write to `{}` of `{field}`: it is not a folder",
                path.display()
            ),
            hint: Some("choose another path".to_owned()),
        }),
        _ => Ok(()),
    }
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
