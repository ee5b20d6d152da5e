//! `env_file` of an MCP server: `NAME=value` lines as HoloDeck 0.7 reads them.

use std::{io, path::Path};

use holodeck_model::{Env, McpTool, PathRef, read_text_input, unix_lines};
use secrecy::SecretString;

/// Size limit of the file.
const MAX_BYTES: u64 = 1024 * 1024;

/// Why the variables of a file can't be read. Contains no values.
#[derive(Debug)]
pub(crate) enum EnvFileError {
    Read(io::Error),
    Line(usize),
    Missing(Vec<String>),
}

/// The variables in file order, with `${NAME}` in values replaced from `env`.
pub(crate) fn read(path: &Path, env: &Env) -> Result<Vec<(String, SecretString)>, EnvFileError> {
    let text = read_text_input(path, MAX_BYTES).map_err(EnvFileError::Read)?;
    parse(&text, env)
}

/// The variables in a server's `env_file`, for redaction; empty if the file cannot be read. A pipe is read again when
/// the server starts, so its writer must serve each reader.
pub fn env_file_variables(tool: &McpTool, env: &Env) -> Vec<(String, SecretString)> {
    let path = tool.env_file.as_ref().map(PathRef::path);
    path.and_then(|path| read(&path, env).ok()).unwrap_or_default()
}

fn parse(text: &str, env: &Env) -> Result<Vec<(String, SecretString)>, EnvFileError> {
    let mut variables = Vec::new();
    let mut missing = Vec::new();
    for (index, line) in unix_lines(text)
        .trim_start_matches('\u{feff}')
        .lines()
        .enumerate()
    {
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

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "only a program makes a pipe without unsafe code"
    )]
    fn the_values_of_a_pipe_are_known_too() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("env");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let tool: McpTool = serde_json::from_value(serde_json::json!({
            "name": "t", "description": "d", "command": "cat", "env_file": &pipe,
        }))
        .unwrap();
        // As secret managers do: each reader gets all of it.
        let writer = std::thread::spawn(move || std::fs::write(&pipe, "TOKEN=sesame-open\n").unwrap());
        let variables = env_file_variables(&tool, &Env::empty());
        writer.join().unwrap();
        let [(name, value)] = variables.as_slice() else {
            panic!("{} variables", variables.len());
        };
        assert_eq!((name.as_str(), value.expose_secret()), ("TOKEN", "sesame-open"));
    }

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
    fn any_line_end_ends_a_line() {
        let expected = vec![("A".to_owned(), "1".to_owned()), ("B".to_owned(), "2".to_owned())];
        for text in [
            "A=1\nB=2",
            "A=1\r\nB=2\r\n",
            "A=1\rB=2\r",
            "\u{feff}A=1\r\r# x\rB=2",
        ] {
            assert_eq!(check(text).as_ref(), Ok(&expected), "{text:?}");
        }
        assert_eq!(check("A=1\rhunter2\r").unwrap_err(), "line 2");
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
    fn bad_lines_and_missing_variables_are_reported_without_values() {
        assert_eq!(check("A=1\nhunter2\n").unwrap_err(), "line 2");
        assert_eq!(check("=x").unwrap_err(), "line 1");
        assert_eq!(
            check("A=hunter2${NOPE}\nB=${NADA}").unwrap_err(),
            r#"Missing(["NOPE", "NADA"])"#
        );
    }
}
