//! Reads the variables of the process and of `.env` files into one [`Env`].
//!
//! Nothing else in the library may read the process environment; everything takes the `Env` as a value.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use holodeck_model::{Env, Redactor, printable, read_text_input, redact::names_a_secret, shown_path};

use super::dotenv;

/// Why the environment could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvironmentError {
    /// A `.env` file has a line that is not `NAME=value`.
    #[error("`{path}`: {reason}")]
    DotEnv {
        /// The file.
        path: String,
        /// The problem.
        reason: String,
    },
}

/// The size limit of a `.env` file.
const MAX_BYTES: u64 = 1024 * 1024;

/// Reads the process environment, `.env` beside the agent and `~/.holodeck/.env`; earlier sources take precedence. It
/// is read once and passed on. The first and the last are the user's own; the one beside the agent came with it.
pub fn environment(agent_path: &Path) -> Result<Env, EnvironmentError> {
    let mut env: Env = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let beside = agent_path.parent().unwrap_or(Path::new("")).join(".env");
    let user = env.user_dir().map(|dir| dir.join(".env"));
    add_defaults(&mut env, &beside, Owner::Checkout)?;
    if let Some(user) = user {
        add_defaults(&mut env, &user, Owner::User)?;
    }
    Ok(env)
}

/// Whether a variable is a secret by its name, and its value would not be masked in a text.
fn is_unmasked_secret(name: &str, value: &str) -> bool {
    let is_masked = || Redactor::new([value.to_owned()]).text(value) != value;
    names_a_secret(name) && !value.trim().is_empty() && !is_masked()
}

/// Names the variables of the shell with secrets that were read and would not be masked in a text. Those of files were named
/// with their lines.
pub(super) fn name_unmasked_of_shell(env: &Env, read: &[String]) {
    for name in env.names() {
        let value = env.get(name).unwrap_or_default();
        if is_unmasked_secret(name, value) && read.iter().any(|secret| secret == value) {
            name_unmasked("", name);
        }
    }
}

/// Names a variable, once in a process.
fn name_unmasked(place: &str, name: &str) {
    static NAMED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
    if named.insert(name.to_owned()) {
        tracing::warn!(
            "{place}the value of `{}` is too short to be masked where answers and logs repeat it; only secrets of 8 characters or \
             more are",
            printable(name),
        );
    }
}

/// The author of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// The author of the agent.
    Checkout,
    /// The user of this machine.
    User,
}

fn add_defaults(env: &mut Env, file: &Path, owner: Owner) -> Result<(), EnvironmentError> {
    if !file.exists() || file.is_dir() {
        return Ok(());
    }
    let error = |reason: String| EnvironmentError::DotEnv {
        path: file.display().to_string(),
        reason,
    };
    let of: Arc<Path> = file.into();
    let text = read_text_input(file, MAX_BYTES).map_err(|source| error(source.to_string()))?;
    let found = dotenv::parse(&text, |name| env.get(name)).map_err(|source| error(source.to_string()))?;
    // Of several assignments of a file the last counts, as in a shell.
    let mut last: BTreeMap<String, String> = BTreeMap::new();
    for assignment in found {
        let place = || {
            format!(
                "{}:{}",
                printable(&shown_path(file).display().to_string()),
                assignment.line
            )
        };
        for kept in &assignment.kept {
            tracing::warn!(
                "{}: `{kept}` in the value of `{}` is not replaced; write `${{NAME}}` or `${{NAME:-default}}`, or put the value in \
                 '…' if it is literal",
                place(),
                assignment.name,
            );
        }
        if assignment.is_dollar {
            tracing::warn!(
                "{}: the value of `{}` begins with a `$`, which is not replaced; write `${{NAME}}`, or put the value in '…' if it \
                 is literal",
                place(),
                assignment.name,
            );
        }
        if is_unmasked_secret(&assignment.name, &assignment.value) {
            name_unmasked(&format!("{}: ", place()), &assignment.name);
        }
        last.insert(assignment.name, assignment.value);
    }
    for (name, value) in last {
        match owner {
            Owner::Checkout => env.set_default_of(&of, name, value),
            Owner::User => env.set_default(name, value),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_that_no_text_is_masked_for_is_found() {
        for value in ["---", "1", "abcdefg", "....", "-_-_-_-", "\u{fc}\u{fc}"] {
            assert!(is_unmasked_secret("DESK_KEY", value), "{value}");
            assert!(!is_unmasked_secret("DESK", value), "no secret: {value}");
        }
        for value in ["", " ", "abcdefgh", "--------", "sk-1234567890"] {
            assert!(!is_unmasked_secret("DESK_KEY", value), "{value}");
        }
    }

    #[test]
    fn files_of_every_editor_are_read_as_they_are_written() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(".env");
        let text = "OPENAI_API_KEY=sk-a$bc\r\nNEXT='x'\r\n";
        let utf16 = text.encode_utf16().flat_map(u16::to_le_bytes);
        for bytes in [
            text.as_bytes().to_vec(),
            [b"\xEF\xBB\xBF", text.as_bytes()].concat(),
            [0xFF, 0xFE].into_iter().chain(utf16).collect(),
        ] {
            std::fs::write(&file, bytes).unwrap();
            let mut env = Env::empty();
            add_defaults(&mut env, &file, Owner::User).unwrap();
            assert_eq!(env.get("OPENAI_API_KEY"), Some("sk-a$bc"));
            assert_eq!(env.get("NEXT"), Some("x"));
        }
        std::fs::write(&file, b"A=1\nB=\xE4\n").unwrap();
        let error = add_defaults(&mut Env::empty(), &file, Owner::User)
            .unwrap_err()
            .to_string();
        assert!(
            error.ends_with("line 2, column 3 is not UTF-8 text; save the file as UTF-8"),
            "{error}"
        );
    }

    #[test]
    fn the_shell_overrides_files_and_a_bad_line_is_not_shown() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(".env");
        std::fs::write(&file, "A=file\nB='quoted value'\n# comment\n").unwrap();
        let mut env: Env = [("A", "shell")].into_iter().collect();
        add_defaults(&mut env, &file, Owner::Checkout).unwrap();
        assert_eq!(env.get("A"), Some("shell"));
        assert_eq!(env.get("B"), Some("quoted value"));
        let set: Vec<_> = env.of_checkout().collect();
        assert_eq!(set, [("B", file.as_path())]);
        std::fs::write(&file, "# key\nA=1\n\nhunter2 hunter3\nB=2\n").unwrap();
        let error = add_defaults(&mut env, &file, Owner::Checkout)
            .unwrap_err()
            .to_string();
        assert!(error.ends_with("line 4 is not `NAME=value`"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}
