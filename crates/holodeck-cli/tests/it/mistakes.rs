//! The mistakes of `fixtures/mistakes`: each prints its message, and none is silent.

use std::{
    fmt::Write as _,
    fs,
    panic::catch_unwind,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use holodeck::yaml::{ForeignNode, read_foreign};
use holodeck_testkit::{EndpointServer, Reply};
use pretty_assertions::assert_eq;
use regex::Regex;
use serde_json::json;

use crate::{
    generated::WRITE,
    project::{CommandOutput, FILTERS, Project},
};

/// The tables, and how many mistakes each has.
const TABLES: [(&str, usize); 3] = [("yaml-and-cli", 78), ("foreign", 26), ("tables", 11)];

const WORKERS: usize = 2;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/mistakes")
}

/// A mistake, and the texts that its message must have.
struct Row {
    mistake: String,
    /// The file, the text that is replaced and the one in its place.
    edits: Vec<(String, String, String)>,
    files: Vec<(String, String)>,
    latin: Vec<String>,
    command: String,
    says: Vec<String>,
}

fn text(node: &ForeignNode) -> String {
    match node.to_json() {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    }
}

fn texts(node: &ForeignNode) -> Vec<String> {
    node.items().unwrap().iter().map(text).collect()
}

fn rows(table: &str) -> Vec<Row> {
    let path = fixtures().join(format!("{table}.yaml"));
    let read = read_foreign(&path, &fs::read_to_string(&path).unwrap()).unwrap();
    let row = |node: &ForeignNode| {
        let files = |key: &str| {
            let entries = node.get(key).map(ForeignNode::entries).unwrap_or_default();
            entries.iter().map(|(file, value)| (file.clone(), value))
        };
        let keys = ["mistake", "edit", "write", "encode", "run", "says"];
        assert!(node.entries().iter().all(|(key, _)| keys.contains(&key.as_str())));
        Row {
            mistake: text(node.get("mistake").unwrap()),
            edits: files("edit")
                .map(|(file, change)| match texts(change).as_slice() {
                    [old, new] => (file, old.clone(), new.clone()),
                    other => panic!("{other:?}"),
                })
                .collect(),
            files: files("write")
                .map(|(file, content)| (file, text(content)))
                .collect(),
            latin: files("encode")
                .map(|(file, encoding)| {
                    assert_eq!(text(encoding), "latin-1");
                    file
                })
                .collect(),
            command: text(node.get("run").unwrap()),
            says: texts(node.get("says").unwrap()),
        }
    };
    read.items().unwrap().iter().map(row).collect()
}

/// The words of a command line; those in quotes have blanks.
fn words(command: &str) -> Vec<String> {
    let parts = command.split('\'').enumerate();
    let words = parts.flat_map(|(place, part)| match place % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    });
    words.collect()
}

/// Copies the files of a folder, with the address of the model.
fn copy(from: &Path, project: &Project, below: &str, server: &str) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{below}{}", entry.file_name().to_str().unwrap());
        if entry.path().is_dir() {
            copy(&entry.path(), project, &format!("{name}/"), server);
            continue;
        }
        let content = fs::read(entry.path()).unwrap();
        match String::from_utf8(content) {
            Ok(text) => project.write(&name, text.replace("http://SERVER", server)),
            Err(binary) => project.write(&name, binary.into_bytes()),
        }
    }
}

impl Row {
    /// Makes the mistake and runs the command.
    fn run(&self, server: &str) -> CommandOutput {
        let project = Project::empty();
        copy(&fixtures().join("base"), &project, "", server);
        for (file, old, new) in &self.edits {
            let [old, new] = [old, new].map(|text| text.replace("http://SERVER", server));
            let before = project.read(file);
            assert_eq!(before.matches(&old).count(), 1, "{}: {old:?}", self.mistake);
            project.write(file, before.replace(&old, &new));
        }
        for (file, content) in &self.files {
            project.write(file, content.replace("http://SERVER", server));
        }
        for file in &self.latin {
            let letters = project.read(file);
            let bytes: Vec<u8> = letters.chars().map(|c| u8::try_from(c).unwrap()).collect();
            project.write(file, bytes);
        }
        let words = words(&self.command);
        assert_eq!(words[0], "holodeck");
        let args: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
        let ran = project.run(&args);
        let code = ran.code.unwrap();
        ran.exits(code)
    }

    /// The output, as `messages` has it.
    fn describe(&self, ran: &CommandOutput, filters: &[(Regex, &str)]) -> String {
        let mut shown = format!("## {}\n\n", self.mistake);
        let mut changes = String::new();
        for (file, old, new) in &self.edits {
            writeln!(changes, "--- {file}").unwrap();
            for (mark, lines) in [('-', old), ('+', new)] {
                for line in lines.lines() {
                    writeln!(changes, "{mark}{line}").unwrap();
                }
            }
        }
        for (file, content) in &self.files {
            writeln!(changes, "+++ {file}").unwrap();
            for line in content.lines() {
                writeln!(changes, "+{line}").unwrap();
            }
        }
        if !changes.is_empty() {
            write!(shown, "```diff\n{changes}```\n\n").unwrap();
        }
        let mut output = ran.stdout.clone();
        if !output.is_empty() && !ran.stderr.is_empty() {
            output.push('\n');
        }
        output.push_str(&ran.stderr);
        for (pattern, with) in filters {
            output = pattern.replace_all(&output, *with).into_owned();
        }
        let output = output.trim_end();
        let code = ran.code.unwrap();
        write!(
            shown,
            "```console\n$ {}\n{output}\n```\n\nExit code {code}.\n\n",
            self.command
        )
        .unwrap();
        shown
    }

    /// The faults of an output: a mistake that ends well without a warning, or a message without one of the texts.
    fn faults(&self, ran: &CommandOutput) -> Vec<String> {
        let all = format!("{}{}", ran.stdout, ran.stderr);
        let is_warned = ["warning", "hint: "].iter().any(|word| all.contains(word));
        let silent = (ran.code == Some(0) && !is_warned).then(|| format!("{}: silent", self.mistake));
        let missing = self.says.iter().filter(|text| !all.contains(text.as_str()));
        silent
            .into_iter()
            .chain(missing.map(|text| format!("{}: no {text:?}", self.mistake)))
            .collect()
    }
}

fn lock<T>(value: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn every_mistake_of_newcomers_is_named_with_its_place_and_the_next_step() {
    let server = EndpointServer::answering(|request| match request.route() {
        "/v1/models" => Reply::raw(
            200,
            "application/json",
            json!({"data": [{"id": "gpt-4o"}]}).to_string(),
        ),
        _ => Reply::text("There are 12, from nine to five."),
    });
    let url = server.url();
    let filters: Vec<(Regex, &str)> = FILTERS
        .iter()
        .map(|(pattern, with)| (Regex::new(pattern).unwrap(), *with))
        .collect();
    let tables: Vec<(&str, Vec<Row>)> = TABLES
        .iter()
        .map(|(table, count)| {
            let rows = rows(table);
            assert_eq!(rows.len(), *count, "{table}");
            (*table, rows)
        })
        .collect();
    let all: Vec<(&str, &Row)> = tables
        .iter()
        .flat_map(|(table, rows)| rows.iter().map(|row| (*table, row)))
        .collect();
    let next = AtomicUsize::new(0);
    let shown: Vec<Mutex<String>> = all.iter().map(|_| Mutex::default()).collect();
    let faults = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some(place) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).filter(|at| *at < all.len())
                {
                    let row = all[place].1;
                    let ran = catch_unwind(|| row.run(&url));
                    match ran {
                        Ok(ran) => {
                            *lock(&shown[place]) = row.describe(&ran, &filters);
                            lock(&faults).extend(row.faults(&ran));
                        }
                        Err(_) => lock(&faults).push(format!("{}: the program failed", row.mistake)),
                    }
                }
            });
        }
    });
    let mut differing = Vec::new();
    for (table, _) in TABLES {
        let of_table = all.iter().zip(&shown).filter(|((of, _), _)| *of == table);
        let texts: String = of_table.map(|(_, shown)| lock(shown).clone()).collect();
        let page = format!("# Messages: {table}\n\n{}\n", texts.trim_end());
        let path = fixtures().join("messages").join(format!("{table}.md"));
        if std::env::var_os(WRITE).is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, page).unwrap();
        } else {
            differing.push((fs::read_to_string(&path).unwrap_or_default(), page));
        }
    }
    let faults = faults.into_inner().unwrap();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    for (written, printed) in differing {
        assert_eq!(
            written, printed,
            "run `cargo xtask codegen` and look at the change"
        );
    }
}

#[test]
fn a_silent_mistake_is_a_fault() {
    let row = Row {
        mistake: "m".to_owned(),
        edits: Vec::new(),
        files: Vec::new(),
        latin: Vec::new(),
        command: String::new(),
        says: vec!["`sku`".to_owned()],
    };
    let ran = |code, stderr: &str| CommandOutput {
        code: Some(code),
        stdout: String::new(),
        stderr: stderr.to_owned(),
    };
    assert_eq!(row.faults(&ran(0, "no problems with `sku`")), ["m: silent"]);
    assert_eq!(row.faults(&ran(2, "error")), ["m: no \"`sku`\""]);
    assert!(row.faults(&ran(0, "warning: `sku`")).is_empty());
    assert!(row.faults(&ran(2, "error: `sku`")).is_empty());
}

#[test]
fn quoted_words_keep_their_blanks() {
    assert_eq!(
        words("holodeck test --filter 'opening hours' -q"),
        ["holodeck", "test", "--filter", "opening hours", "-q"]
    );
}
