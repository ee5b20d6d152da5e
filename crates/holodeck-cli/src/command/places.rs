//! Names files as the servers of a CI system do: relative to the repository.

use std::path::{Component, Path, PathBuf};

use holodeck::{
    model::{Env, Location, absolute_path, shown_path},
    reports::FindingPlace,
};

/// The variables of CI systems with the folder of the repository.
const ROOTS: [&str; 2] = ["GITHUB_WORKSPACE", "CI_PROJECT_DIR"];

/// A variable of the process. A file that came with the agent does not decide where the command writes.
pub(crate) fn user_variable<'a>(env: &'a Env, name: &str) -> Option<&'a str> {
    env.non_blank(name).filter(|_| env.file_of(name).is_none())
}

/// The file, relative to the repository of a CI job, or else to the working directory. A file outside of it has its whole
/// path.
pub(crate) fn file_name(env: &Env, path: &Path) -> String {
    let path = without_steps_up(absolute_path(path));
    let named = ROOTS.iter().filter_map(|name| user_variable(env, name));
    let roots: Vec<PathBuf> = named
        .map(PathBuf::from)
        .flat_map(|root| [root.canonicalize().ok(), Some(root)])
        .flatten()
        .collect();
    let mut below = roots.iter().filter_map(|root| path.strip_prefix(root).ok());
    let name = match below.next() {
        Some(below) => below.to_path_buf(),
        None if roots.is_empty() => shown_path(&path),
        None => path,
    };
    name.display().to_string()
}

/// The path as no other way leads to it: servers compare names. One without `..` stays, also if it has links.
fn without_steps_up(path: PathBuf) -> PathBuf {
    if !path.components().any(|part| part == Component::ParentDir) {
        return path;
    }
    // Behind a link, `..` is not what stands before it; only the system knows.
    path.canonicalize().unwrap_or(path)
}

/// The place in a file that is named so.
pub(crate) fn finding_place(env: &Env, place: &Location) -> FindingPlace {
    FindingPlace {
        path: file_name(env, &place.path),
        position: Some((place.line, place.column)),
    }
}
