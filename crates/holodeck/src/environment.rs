use std::path::Path;

use holodeck_model::{Env, read_input};

/// Why the environment could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvironmentError {
    /// A `.env` file has a line that is not `NAME=value`.
    #[error("`{path}`: {reason}")]
    DotEnv {
        /// The file.
        path: String,
        /// What is wrong.
        reason: String,
    },
}

/// The longest `.env` that is read.
const MAX_BYTES: u64 = 1024 * 1024;

/// The process environment with `.env` beside the agent and `~/.holodeck/.env` beneath it: the shell wins, then the
/// nearer file. Read once; everything below gets this value.
pub fn environment(agent_path: &Path) -> Result<Env, EnvironmentError> {
    let mut env: Env = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let beside = agent_path.parent().unwrap_or(Path::new("")).join(".env");
    let user = env.user_dir().map(|dir| dir.join(".env"));
    for file in [Some(beside), user].into_iter().flatten() {
        lay_beneath(&mut env, &file)?;
    }
    Ok(env)
}

fn lay_beneath(env: &mut Env, file: &Path) -> Result<(), EnvironmentError> {
    if !file.exists() || file.is_dir() {
        return Ok(());
    }
    let wrong = |error: dotenvy::Error| EnvironmentError::DotEnv {
        path: file.display().to_string(),
        // The offending line may hold a secret.
        reason: match error {
            dotenvy::Error::LineParse(..) => "a line is not `NAME=value`".to_owned(),
            other => other.to_string(),
        },
    };
    let text = read_input(file, MAX_BYTES).map_err(|error| wrong(dotenvy::Error::Io(error)))?;
    for pair in dotenvy::from_read_iter(text.as_slice()) {
        let (name, value) = pair.map_err(wrong)?;
        env.set_default(name, value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_lie_beneath_the_shell_and_a_bad_line_is_not_shown() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(".env");
        std::fs::write(&file, "A=file\nB='quoted value'\n# comment\n").unwrap();
        let mut env: Env = [("A", "shell")].into_iter().collect();
        lay_beneath(&mut env, &file).unwrap();
        assert_eq!(env.get("A"), Some("shell"));
        assert_eq!(env.get("B"), Some("quoted value"));
        std::fs::write(&file, "hunter2 hunter3\n").unwrap();
        let error = lay_beneath(&mut env, &file).unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }
}
