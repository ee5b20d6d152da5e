//! Builds an image with the builder of this machine.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use holodeck_model::Env;
use holodeck_process::{AtLimit, ChildEnv, ProcessError, ProcessSpec, run, which};
use tokio_util::sync::CancellationToken;

use super::{BuildContext, DeployError};

/// The builders that are looked for, in this order.
pub const BUILDERS: [&str; 3] = ["docker", "podman", "buildah"];

/// Beginnings of the names of variables that builders read.
const VARIABLES: [&str; 8] = [
    "DOCKER_",
    "BUILDKIT_",
    "BUILDX_",
    "BUILDAH_",
    "CONTAINER",
    "PODMAN_",
    "REGISTRY_AUTH_FILE",
    "XDG_",
];

/// The builder of this name, or the first that is installed.
pub fn find_builder(named: Option<&str>, env: &Env) -> Option<PathBuf> {
    let path = env.get("PATH").map(OsStr::new);
    let names: Vec<&str> = named.map_or_else(|| BUILDERS.to_vec(), |name| vec![name]);
    names.into_iter().find_map(|name| which(name, path))
}

/// Builds the image of a context in a folder; returns the end of the builder's output.
pub async fn build_image(
    builder: &Path,
    context: &BuildContext,
    folder: &Path,
    no_cache: bool,
    env: &Env,
) -> Result<String, DeployError> {
    // Those of the `.env` beside the agent must not decide which machine builds.
    let is_wanted = |name: &str| {
        holodeck_process::BASE_VARIABLES.contains(&name)
            || VARIABLES.iter().any(|beginning| name.starts_with(beginning))
    };
    let variables = env
        .iter()
        .filter(|(name, _)| is_wanted(name) && env.file_of(name).is_none());
    let variables: ChildEnv = variables
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    let mut args = vec![
        "build".into(),
        "--file".into(),
        folder.join("Containerfile").into_os_string(),
    ];
    args.extend(["--tag", &context.image, "--platform", &context.platform].map(Into::into));
    if no_cache {
        args.push("--no-cache".into());
    }
    args.push(folder.as_os_str().to_owned());
    let spec = ProcessSpec::new(builder, variables)
        .args(args)
        .stdout_limit(64 * 1024, AtLimit::Drop);
    let output = run(&spec, &CancellationToken::new()).await;
    let failed = |reason: String| DeployError::Builder {
        builder: builder.display().to_string(),
        reason,
    };
    let output = output.and_then(holodeck_process::ProcessOutput::check);
    let output = output.map_err(|error| match &error {
        ProcessError::Exit { stderr, .. } => failed(format!("{error}\n{stderr}")),
        _ => failed(error.to_string()),
    })?;
    Ok(format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        output.stderr
    ))
}
