//! The table of promptfoo's features, and that the configurations of the fixtures are drawn from it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::workspace;

/// How many public files the figures of the table are from.
const PUBLIC: f64 = 39.0;

/// A feature, and the texts in a configuration that show its use.
struct Row {
    kind: String,
    feature: String,
    files: String,
    signs: Vec<String>,
}

impl Row {
    fn occurs_in(&self, folder: &Folder) -> bool {
        self.signs.iter().any(|sign| match sign.strip_prefix("in ") {
            Some(numbers) => numbers.split(' ').any(|number| folder.name.starts_with(number)),
            None if sign.starts_with("type: ") => contains_word(&folder.unquoted, sign),
            None => folder.text.contains(sign.as_str()),
        })
    }
}

/// Whether the sign is there and its last word does not continue: `type: contains` is not `type: contains-any`.
fn contains_word(text: &str, sign: &str) -> bool {
    text.match_indices(sign).any(|(at, _)| {
        let rest = text[at + sign.len()..].chars().next();
        !rest.is_some_and(|next| next.is_alphanumeric() || matches!(next, '-' | ':'))
    })
}

/// A configuration with its parts.
struct Folder {
    name: String,
    /// The names and texts of all files, except the answers of the scripted model.
    text: String,
    unquoted: String,
}

fn root() -> PathBuf {
    workspace::root().join("fixtures/import/promptfoo")
}

fn rows() -> Vec<Row> {
    let table = fs::read_to_string(root().join("features.tsv")).expect("the table is there");
    table.lines().skip(1).map(row).collect()
}

fn row(line: &str) -> Row {
    let cells: Vec<&str> = line.split('\t').collect();
    let [kind, feature, files, signs] = cells.as_slice() else {
        panic!("not four cells: {line}");
    };
    let signs = signs.split('¦').map(|sign| sign.replace("\\n", "\n"));
    Row {
        kind: (*kind).to_owned(),
        feature: (*feature).to_owned(),
        files: (*files).to_owned(),
        signs: signs.collect(),
    }
}

fn folders() -> Vec<Folder> {
    let mut folders: Vec<Folder> = fs::read_dir(root())
        .expect("the fixtures are there")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_dir())
        .map(|path| folder(&path))
        .collect();
    folders.sort_by(|a, b| a.name.cmp(&b.name));
    folders
}

fn folder(path: &Path) -> Folder {
    let mut text = String::new();
    let mut left = vec![path.to_owned()];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(
                fs::read_dir(&path)
                    .expect("a folder")
                    .map(|entry| entry.expect("an entry").path()),
            );
        } else if !path.ends_with("answers.json") {
            text.push_str(&path.file_name().expect("a name").to_string_lossy());
            text.push('\n');
            text.push_str(&fs::read_to_string(&path).expect("a text"));
        }
    }
    Folder {
        name: path.file_name().expect("a name").to_string_lossy().into_owned(),
        unquoted: text.replace(['"', '\''], ""),
        text,
    }
}

#[test]
fn every_feature_of_the_table_occurs_in_a_configuration() {
    let folders = folders();
    assert_eq!(folders.len(), 30);
    let missing: Vec<String> = rows()
        .iter()
        .filter(|row| !folders.iter().any(|folder| row.occurs_in(folder)))
        .map(|row| format!("{} {}", row.kind, row.feature))
        .collect();
    assert!(missing.is_empty(), "in no configuration: {missing:#?}");
}

#[test]
fn a_family_is_as_frequent_in_the_configurations_as_in_public_files() {
    let folders = folders();
    for row in rows().iter().filter(|row| row.kind == "family") {
        let public: f64 = row.files.parse().expect("a number");
        let ours = folders.iter().filter(|folder| row.occurs_in(folder)).count();
        let share = public / PUBLIC * 30.0;
        assert!(
            ours as f64 >= share.floor(),
            "{}: in {ours} configurations, {share:.1} are due",
            row.feature
        );
    }
}

#[test]
fn every_assertion_of_a_configuration_is_in_the_table() {
    let rows = rows();
    let known: Vec<&str> = rows
        .iter()
        .filter(|row| row.kind == "assertion")
        .map(|row| row.feature.as_str())
        .collect();
    for folder in folders() {
        for line in folder
            .unquoted
            .lines()
            .filter(|line| line.contains("- type: ") || line.contains("{ type: "))
        {
            let (_, rest) = line.split_once("type: ").expect("it is there");
            let name = rest.split([',', ' ', '}']).next().unwrap_or_default();
            let other = ["function", "json_object", "object", "string", "boolean", "array"].contains(&name);
            assert!(
                other || known.contains(&name),
                "{}: `{name}` is not in the table",
                folder.name
            );
        }
    }
}

#[test]
fn a_longer_name_is_not_the_use_of_a_shorter_one() {
    assert!(contains_word("- type: contains\n", "type: contains"));
    assert!(!contains_word("- type: contains-any\n", "type: contains"));
    assert!(!contains_word("- type: similar:dot\n", "type: similar"));
}
