//! Checks a folder of agent files against its `expected.tsv`: path, `loads` or `rejects`, what must be named.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::workspace::Metadata;
use crate::{host, product, table};

mod needs;

/// Options of `cargo xtask corpus`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder; it holds an expected.tsv.
    dir: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    check(&args.dir)
}

/// Fails unless every file of the folder's expected.tsv is as expected.
pub(crate) fn check(dir: &Path) -> Result<()> {
    let dir = dir
        .canonicalize()
        .with_context(|| format!("failed to find {}", dir.display()))?;
    let expected = fs::read_to_string(dir.join("expected.tsv")).context("failed to read expected.tsv")?;
    let metadata = Metadata::load()?;
    let validator = Validator {
        holodeck: product::build(&metadata)?,
        home: empty_home(&metadata)?,
    };
    let mut rows = Vec::new();
    let mut wrong = 0;
    for line in expected.lines().filter(|line| !line.trim().is_empty()) {
        let row = Row::parse(line)?;
        let (found, verdict) = match validator.validate(&dir.join(row.file)) {
            Ok(answer) => (answer.summary(), judge(&row, &answer)),
            Err(error) => ("no answer".to_owned(), Err(format!("{error:#}"))),
        };
        wrong += usize::from(verdict.is_err());
        let verdict = verdict.map_or_else(|why| format!("WRONG: {why}"), |()| "ok".to_owned());
        rows.push([row.file.to_owned(), row.verdict.to_owned(), found, verdict]);
    }
    table::print(["file", "expected", "found", "verdict"], &rows);
    if rows.is_empty() {
        bail!("expected.tsv lists no file");
    }
    if wrong > 0 {
        bail!("{wrong} of {} files are not as expected", rows.len());
    }
    println!("corpus: {} files as expected", rows.len());
    Ok(())
}

struct Row<'a> {
    file: &'a str,
    verdict: &'a str,
    /// Words that the diagnostics must contain.
    names: &'a str,
}

impl<'a> Row<'a> {
    fn parse(line: &'a str) -> Result<Self> {
        let mut cells = line.split('\t').map(str::trim);
        let (Some(file), Some(verdict)) = (cells.next(), cells.next()) else {
            bail!("`{line}` in expected.tsv has no verdict");
        };
        if verdict != "loads" && verdict != "rejects" {
            bail!("`{verdict}` in expected.tsv is neither `loads` nor `rejects`");
        }
        Ok(Self {
            file,
            verdict,
            names: cells.next().unwrap_or_default(),
        })
    }
}

/// The answer of `holodeck validate --json` for one file.
struct Answer {
    exit: Option<i32>,
    ok: bool,
    errors: Vec<Diagnostic>,
    others: usize,
}

impl Answer {
    fn summary(&self) -> String {
        let verdict = if self.ok { "loads" } else { "rejects" };
        format!("{verdict} ({} errors, {} others)", self.errors.len(), self.others)
    }
}

/// One error: its place and its full text.
struct Diagnostic {
    place: Option<(u64, u64)>,
    text: String,
}

struct Validator {
    holodeck: PathBuf,
    home: PathBuf,
}

impl Validator {
    fn validate(&self, file: &Path) -> Result<Answer> {
        let mut command = host::command(&self.holodeck);
        command
            .args(["validate", "--json"])
            .arg(file)
            .env_clear()
            .env("HOME", &self.home);
        command.envs(host::env("PATH").map(|path| ("PATH".to_owned(), path)));
        command.envs(
            variables_beside(file)?
                .into_iter()
                .map(|name| (name.clone(), dummy(&name).to_owned())),
        );
        let output = command.output().context("failed to start holodeck")?;
        let stdout = String::from_utf8_lossy(&output.stdout);
        let answer: Value = serde_json::from_str(&stdout).with_context(|| {
            let stderr = String::from_utf8_lossy(&output.stderr);
            format!("`holodeck validate --json` printed no JSON, but: {stdout}{stderr}")
        })?;
        read_answer(output.status.code(), &answer)
    }
}

fn read_answer(exit: Option<i32>, output: &Value) -> Result<Answer> {
    let ok = output
        .get("ok")
        .and_then(Value::as_bool)
        .context("the answer has no `ok`")?;
    let list = output
        .get("diagnostics")
        .and_then(Value::as_array)
        .context("the answer has no `diagnostics`")?;
    let is_error = |one: &&Value| one.get("severity").and_then(Value::as_str) == Some("error");
    let errors: Vec<Diagnostic> = list.iter().filter(is_error).map(read_diagnostic).collect();
    let others = list.len() - errors.len();
    Ok(Answer {
        exit,
        ok,
        errors,
        others,
    })
}

fn read_diagnostic(one: &Value) -> Diagnostic {
    let text = |key: &str| one.get(key).and_then(Value::as_str).unwrap_or_default();
    let number = |key: &str| one.get(key).and_then(Value::as_u64).filter(|at| *at > 0);
    let full = ["path", "name", "message", "hint"].map(text).join(" ");
    Diagnostic {
        place: number("line").zip(number("column")),
        text: full,
    }
}

/// Whether the answer is the expected one, else why not.
fn judge(row: &Row<'_>, answer: &Answer) -> Result<(), String> {
    let (ok, exit) = if row.verdict == "loads" {
        (true, 0)
    } else {
        (false, 2)
    };
    if answer.ok != ok || answer.errors.is_empty() != ok {
        let first = answer.errors.first().map_or("", |error| error.text.as_str());
        return Err(format!("{} {first}", answer.summary()));
    }
    if answer.exit != Some(exit) {
        return Err(format!("exit code {:?} instead of {exit}", answer.exit));
    }
    if let Some(lost) = answer.errors.iter().find(|error| error.place.is_none()) {
        return Err(format!("an error without line and column: {}", lost.text));
    }
    let texts: Vec<&str> = answer.errors.iter().map(|error| error.text.as_str()).collect();
    needs::unmet(row.names, &texts).map_or(Ok(()), |need| Err(format!("no error names: {need}")))
}

/// The names in `${NAME}` of the YAML files in a file's folder.
fn variables_beside(file: &Path) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    let folder = file.parent().context("the file is in no folder")?;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "yaml" || extension == "yml")
        {
            names.extend(variables(&String::from_utf8_lossy(&fs::read(path)?)));
        }
    }
    Ok(names)
}

fn variables(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split("${").skip(1).filter_map(|rest| {
        let name: String = rest
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
            .collect();
        let closed = rest
            .get(name.len()..)
            .is_some_and(|rest| rest.starts_with(['}', ':']));
        (closed && !name.is_empty()).then_some(name)
    })
}

/// A value that is well formed for what the variable's name suggests.
fn dummy(name: &str) -> &'static str {
    if name.ends_with("ENDPOINT") || name.ends_with("URL") {
        "http://127.0.0.1:9"
    } else {
        "dummy"
    }
}

fn empty_home(metadata: &Metadata) -> Result<PathBuf> {
    let home = metadata.target_directory().join("corpus-home");
    if home.exists() {
        fs::remove_dir_all(&home)?;
    }
    fs::create_dir_all(&home)?;
    Ok(home)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Row, judge, read_answer, variables};

    fn verdict(line: &str, exit: i32, output: &Value) -> Result<(), String> {
        judge(
            &Row::parse(line).unwrap(),
            &read_answer(Some(exit), output).unwrap(),
        )
    }

    fn error(path: &str, message: &str) -> Value {
        json!({"severity": "error", "path": path, "message": message, "line": 3, "column": 1})
    }

    #[test]
    fn a_file_that_loads() {
        let good = json!({"ok": true, "diagnostics": [{"severity": "warning", "message": "m"}]});
        assert_eq!(verdict("a.yaml\tloads\t", 0, &good), Ok(()));
        assert!(verdict("a.yaml\tloads\t", 1, &good).is_err());
        let bad = json!({"ok": false, "diagnostics": [error("model", "missing")]});
        assert!(verdict("a.yaml\tloads\t", 2, &bad).is_err());
        let odd = json!({"ok": true, "diagnostics": [error("model", "missing")]});
        assert!(verdict("a.yaml\tloads\t", 0, &odd).is_err());
    }

    #[test]
    fn a_file_that_is_rejected() {
        let line = "a.yaml\trejects\tmodel.name (required)";
        let good = json!({"ok": false, "diagnostics": [error("model", "missing field `name`")]});
        assert_eq!(verdict(line, 2, &good), Ok(()));
        assert!(verdict(line, 3, &good).is_err());
        let other = json!({"ok": false, "diagnostics": [error("tools", "unknown field `x`")]});
        assert_eq!(
            verdict(line, 2, &other),
            Err("no error names: model.name required".to_owned())
        );
        let nowhere = json!({"severity": "error", "path": "model.name", "message": "missing"});
        assert!(verdict(line, 2, &json!({"ok": false, "diagnostics": [nowhere]})).is_err());
        assert!(verdict(line, 2, &json!({"ok": true, "diagnostics": []})).is_err());
    }

    #[test]
    fn variables_of_a_file() {
        let found: Vec<String> = variables("a: ${A}\nb: \"${B_2:-x}\" # $C ${not closed\n").collect();
        assert_eq!(found, ["A", "B_2"]);
    }
}
