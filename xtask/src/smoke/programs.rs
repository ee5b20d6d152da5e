//! The programs around the product: what is expected, what is here.

use anyhow::{Result, bail};

use crate::{host, table};

struct Program {
    name: &'static str,
    args: &'static [&'static str],
    /// The lowest major version that will do.
    at_least: u32,
    purpose: &'static str,
}

const PROGRAMS: &[Program] = &[
    Program {
        name: "node",
        args: &["--version"],
        at_least: 20,
        purpose: "scripts as agents' servers, the local model",
    },
    Program {
        name: "npm",
        args: &["--version"],
        at_least: 10,
        purpose: "installs what runs on Node",
    },
    Program {
        name: "python3",
        args: &["--version"],
        at_least: 3,
        purpose: "function tools",
    },
];

/// The result of looking for one program.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Good,
    TooOld,
    Absent,
}

pub(super) fn check() -> Result<()> {
    let mut rows = Vec::new();
    let mut missing = Vec::new();
    for program in PROGRAMS {
        let line = host::first_line(program.name, program.args);
        let found = judge(program.at_least, line.as_deref());
        if found != Found::Good {
            missing.push(program.name);
        }
        let expected = format!(">= {}", program.at_least);
        let shown = match found {
            Found::Good => line.unwrap_or_default(),
            Found::TooOld => format!("{} (too old)", line.unwrap_or_default()),
            Found::Absent => "absent".to_owned(),
        };
        rows.push([
            program.name.to_owned(),
            expected,
            shown,
            program.purpose.to_owned(),
        ]);
    }
    table::print(["name", "expected", "found", "for"], &rows);
    if !missing.is_empty() {
        let names = missing.join(", ");
        if host::in_ci() {
            bail!("{names}: absent or too old, and CI needs it; install it on the machine");
        }
        println!("note: {names} absent or too old; some tests and commands will fail");
    }
    Ok(())
}

/// Judges a version line such as `v20.20.2` or `Python 3.11.7`.
fn judge(at_least: u32, line: Option<&str>) -> Found {
    let Some(line) = line else { return Found::Absent };
    let digits: String = line
        .chars()
        .skip_while(|c| !c.is_ascii_digit())
        .take_while(char::is_ascii_digit)
        .collect();
    match digits.parse::<u32>() {
        Ok(major) if major >= at_least => Found::Good,
        _ => Found::TooOld,
    }
}

#[cfg(test)]
mod tests {
    use super::{Found, judge};

    #[test]
    fn judges_version_lines() {
        assert_eq!(judge(20, Some("v20.20.2")), Found::Good);
        assert_eq!(judge(20, Some("v18.1.0")), Found::TooOld);
        assert_eq!(judge(3, Some("Python 3.11.7")), Found::Good);
        assert_eq!(judge(3, Some("no version here")), Found::TooOld);
        assert_eq!(judge(3, None), Found::Absent);
    }
}
