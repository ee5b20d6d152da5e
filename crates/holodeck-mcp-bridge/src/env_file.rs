//! `env_file` of an MCP server: `NAME=value` lines as HoloDeck 0.7 reads them.

use std::{io, path::Path};

use holodeck_model::{Env, McpTool, PathRef, read_text_input};
use secrecy::SecretString;

/// The longest file that is read.
const MAX_BYTES: u64 = 1024 * 1024;

/// Why the variables of a file can't be had. Shows no value.
#[derive(Debug)]
pub(crate) enum EnvFileError {
    Read(io::Error),
    Line(usize),
    Missing(Vec<String>),
}

/// The variables in the order of the file, `${NAME}` in values replaced from `env`.
pub(crate) fn read(path: &Path, env: &Env) -> Result<Vec<(String, SecretString)>, EnvFileError> {
    let text = read_text_input(path, MAX_BYTES).map_err(EnvFileError::Read)?;
    parse(&text, env)
}

/// The variables that the `env_file` of a server gives it, for keeping their values out of sight; none if the file cannot
/// be read. A pipe is not read: it gives its content only once.
pub fn env_file_variables(tool: &McpTool, env: &Env) -> Vec<(String, SecretString)> {
    let path = tool.env_file.as_ref().map(PathRef::path);
    let path = path.filter(|path| path.is_file());
    path.and_then(|path| read(&path, env).ok()).unwrap_or_default()
}

fn parse(text: &str, env: &Env) -> Result<Vec<(String, SecretString)>, EnvFileError> {
    let mut variables = Vec::new();
    let mut missing = Vec::new();
    for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, value) = line.split_once('=').ok_or(EnvFileError::Line(index + 1))?;
        let name = name.trim();
        if name.is_empty() {
            return Err(EnvFileError::Line(index + 1));
        }
        match env.expand(value.trim()) {
            Ok(value) => variables.push((name.to_owned(), value.into())),
            Err(names) => missing.extend(names),
        }
    }
    if missing.is_empty() {
        Ok(variables)
    } else {
        Err(EnvFileError::Missing(missing))
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    fn check(text: &str) -> Result<Vec<(String, String)>, String> {
        let env = Env::from_iter([("USER", "ada")]);
        match parse(text, &env) {
            Ok(variables) => Ok(variables
                .into_iter()
                .map(|(name, value)| (name, value.expose_secret().to_owned()))
                .collect()),
            Err(EnvFileError::Line(line)) => Err(format!("line {line}")),
            Err(other) => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn lines_are_read_as_they_are() {
        let pairs = check("# note\n\n A = 1 \nB=\"q\"\nC=x=y\nD=${USER}!\nE=\nF=$${USER}\n").unwrap();
        let pairs: Vec<_> = pairs
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        // Quotes are part of the value, as in 0.7.
        assert_eq!(
            pairs,
            [
                ("A", "1"),
                ("B", "\"q\""),
                ("C", "x=y"),
                ("D", "ada!"),
                ("E", ""),
                ("F", "${USER}")
            ]
        );
    }

    #[test]
    fn bad_lines_and_missing_variables_are_told_without_values() {
        assert_eq!(check("A=1\nhunter2\n").unwrap_err(), "line 2");
        assert_eq!(check("=x").unwrap_err(), "line 1");
        assert_eq!(
            check("A=hunter2${NOPE}\nB=${NADA}").unwrap_err(),
            r#"Missing(["NOPE", "NADA"])"#
        );
    }
}
