//! Names files as the servers of a CI system do: relative to the repository.

use std::path::Path;

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

/// The file, relative to the repository of a CI job, or else to the working directory.
pub(crate) fn file_name(env: &Env, path: &Path) -> String {
    let path = absolute_path(path);
    let mut roots = ROOTS.iter().filter_map(|name| user_variable(env, name));
    let below = roots.find_map(|root| path.strip_prefix(root).ok());
    let name = below.map_or_else(|| shown_path(&path), Path::to_path_buf);
    name.display().to_string()
}

/// The place in a file that is named so.
pub(crate) fn finding_place(env: &Env, place: &Location) -> FindingPlace {
    FindingPlace {
        path: file_name(env, &place.path),
        position: Some((place.line, place.column)),
    }
}
