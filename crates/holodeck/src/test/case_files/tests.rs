//! Tests that a case which a person writes comes back byte for byte, and that a file is changed in no other way.

use std::{fs, path::PathBuf};

use holodeck_view::NewTurn;
use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

const AGENT: &str = "# The agent.\nname: desk   # its name\nmodel: {provider: ollama, name: m}\n\
                     instructions: {inline: Answer.}\n";

struct Place(tempfile::TempDir);

impl Place {
    fn with(files: &[(&str, &str)]) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        for (name, text) in files {
            fs::write(place.path(name), text).unwrap();
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn agent(&self) -> AgentFile {
        AgentFile::new(self.path("agent.yaml"), "desk".to_owned())
    }

    fn add(&self, case: &NewCase) -> Result<AddedCase, RefusedCase> {
        AgentCaseFiles.add(&self.agent(), case, &|_| Ok(()))
    }
}

fn case(name: &str, turns: &[(&str, &str)]) -> NewCase {
    let turns = turns.iter();
    let turns =
        turns.map(|(question, expected)| NewTurn::new((*question).to_owned(), (*expected).to_owned()));
    NewCase::new(name.to_owned(), turns.collect())
}

/// Each form of a file with test cases: its name, the line of the agent that leads to it, and its text.
const FILES: [(&str, &str, &str); 8] = [
    ("", "", ""),
    (
        "",
        "",
        "test_cases:\n  # The first.\n  - input: hi   # stays\n\n# The end.\nexecution: {}\n",
    ),
    ("", "", "test_cases: [{input: hi}]  # flow\n"),
    (
        "",
        "",
        "test_cases:\r\n- input: |\r\n    hi\r\n    # no comment\r\n",
    ),
    (
        "cases.yaml",
        "test_cases_file: cases.yaml\n",
        "# Cases.\n- input: &a hi\n- input: *a",
    ),
    (
        "cases.yaml",
        "test_cases_file: cases.yaml\n",
        "test_cases:\n    - {input: hi}\n    # last\n",
    ),
    (
        "cases.jsonl",
        "test_cases_file: cases.jsonl\n",
        "{\"input\": \"hi\"}",
    ),
    (
        "cases.jsonl",
        "test_cases_file: cases.jsonl\n",
        "{\"input\": \"hi\"}\r\n\r\n",
    ),
];

/// A project with this form, and the name of the file that has the cases.
fn place(form: usize) -> (Place, &'static str) {
    let (name, line, text) = FILES[form];
    if name.is_empty() {
        return (
            Place::with(&[("agent.yaml", &format!("{AGENT}{text}"))]),
            "agent.yaml",
        );
    }
    let agent = format!("{AGENT}{line}");
    (Place::with(&[("agent.yaml", &agent), (name, text)]), name)
}

/// The lines of the text before are those of the text after, in their order, with one gap at most: nothing else was written.
fn is_one_insertion(before: &str, after: &str) -> bool {
    let start = before
        .bytes()
        .zip(after.bytes())
        .take_while(|(a, b)| a == b)
        .count();
    let rest = before.len() - start;
    let end = before
        .bytes()
        .rev()
        .zip(after.bytes().rev())
        .take_while(|(a, b)| a == b)
        .count();
    end >= rest
}

/// Adds the case to a project of this form and reads it again.
fn round_trip(form: usize, written: &NewCase) {
    let (place, name) = place(form);
    let before = place.read(name);
    let added = place
        .add(written)
        .unwrap_or_else(|refused| panic!("{refused:?} for {written:?}"));
    let after = place.read(name);
    assert!(is_one_insertion(&before, &after), "{before}\nbecame\n{after}");
    let file = name;
    let line = after.lines().nth(added.line - 1).unwrap();
    assert!(
        before.lines().all(|own| own != line),
        "{line:?} in {file} is not new"
    );
    let agent = load(&place.path("agent.yaml"), &Env::default()).agent.unwrap();
    let own = agent.config.test_cases.iter().last().unwrap().into_owned();
    assert_eq!(own.name.as_deref(), Some(added.name.as_str()));
    assert_eq!(added.name, written.name.trim());
    let expected = |turn: &NewTurn| Some(turn.expected.clone()).filter(|text| !text.trim().is_empty());
    if let [turn] = written.turns.as_slice() {
        assert_eq!(own.input.as_ref(), Some(&turn.question));
        assert_eq!(own.ground_truth, expected(turn));
    } else {
        let own = own.turns.into_iter().map(|turn| (turn.input, turn.ground_truth));
        let turns = written
            .turns
            .iter()
            .map(|turn| (turn.question.clone(), expected(turn)));
        assert_eq!(own.collect::<Vec<_>>(), turns.collect::<Vec<_>>());
    }
}

/// Parts of texts that mean something in YAML, JSON, a template, a shell or a terminal.
const PARTS: [&str; 44] = [
    "a",
    "yes",
    "~",
    "null",
    "1.0",
    "010",
    "0x1f",
    "2026-01-01",
    "\"",
    "'",
    "''",
    ": ",
    ":",
    "- ",
    "-",
    "# ",
    " #",
    "?",
    "---\n",
    "...",
    "&a ",
    "*a",
    "!t ",
    "|\n",
    ">\n",
    "{",
    "}",
    "[",
    "]",
    ",",
    "@",
    "`",
    "%",
    "\\",
    "\\n",
    "\n",
    "\r\n",
    "\r",
    "\t",
    "${HOME}",
    "$${HOME}",
    "${X:-y}",
    "{{ city }}",
    "<<: *a",
];

/// Characters of which a file must not have all as they are.
const HIDDEN: [char; 14] = [
    '\0',
    '\u{1}',
    '\u{1b}',
    '\u{7f}',
    '\u{85}',
    '\u{9f}',
    '\u{ad}',
    '\u{200b}',
    '\u{2028}',
    '\u{202e}',
    '\u{feff}',
    '\u{fffe}',
    '\u{e0041}',
    '\u{10ffff}',
];

fn text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        6 => proptest::sample::select(&PARTS[..]).prop_map(str::to_owned),
        2 => proptest::sample::select(&HIDDEN[..]).prop_map(String::from),
        1 => any::<char>().prop_map(String::from),
        1 => "[ -~]{0,6}",
    ];
    prop::collection::vec(part, 1..7).prop_map(|parts| parts.concat())
}

fn question() -> impl Strategy<Value = String> {
    text().prop_filter("a question has text", |text| !text.trim().is_empty())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_text_comes_back_byte_for_byte(
        form in 0..FILES.len(),
        name in question(),
        turns in prop::collection::vec((question(), text()), 1..3),
    ) {
        let turns = turns.into_iter().map(|(question, expected)| NewTurn::new(question, expected));
        round_trip(form, &NewCase::new(name, turns.collect()));
    }
}

#[test]
fn each_hostile_part_comes_back_in_each_form_of_a_file() {
    let hidden = HIDDEN.iter().map(char::to_string);
    let parts: Vec<String> = PARTS
        .iter()
        .map(|part| (*part).to_owned())
        .chain(hidden)
        .collect();
    // Alone, at the begin and at the end.
    let texts: Vec<String> = parts
        .iter()
        .map(|part| format!("{part}x"))
        .chain(parts.iter().map(|part| format!("x{part}")))
        .collect();
    let whole = texts.concat();
    for form in 0..FILES.len() {
        round_trip(form, &case("all", &[(&whole, &whole)]));
        let turns: Vec<(&str, &str)> = texts.iter().map(|text| (text.as_str(), text.as_str())).collect();
        round_trip(form, &case("each", &turns));
    }
}

#[test]
fn a_case_that_must_not_be_written_leaves_the_file_as_it_is() {
    let text = format!("{AGENT}test_cases: [{{name: old, input: hi}}]\n");
    for (new, why) in [
        (case("old", &[("q", "a")]), "there is a test case `old` already"),
        (case(" \n", &[("q", "a")]), "the name is empty"),
        (case("new", &[]), "a question is empty"),
        (case("new", &[("q", ""), ("\t", "a")]), "a question is empty"),
    ] {
        let place = Place::with(&[("agent.yaml", &text)]);
        let refused = place.add(&new).unwrap_err();
        assert!(
            refused.why.contains(why) && refused.block.is_none(),
            "{refused:?}"
        );
        assert_eq!(place.read("agent.yaml"), text);
    }
    let place = Place::with(&[("agent.yaml", &text)]);
    let new = case("new", &[("q", "a")]);
    let declined = AgentCaseFiles.add(&place.agent(), &new, &|file| {
        assert_eq!((&file.path, &file.text), (&place.path("agent.yaml"), &text));
        Err("not this one".to_owned())
    });
    assert_eq!(declined.unwrap_err().why, "not this one");
    let other = AgentFile::new(place.path("agent.yaml"), "other".to_owned());
    let refused = AgentCaseFiles.add(&other, &new, &|_| Ok(())).unwrap_err();
    assert!(refused.why.contains("is `desk` now"), "{refused:?}");
    let missing = AgentFile::new(place.path("missing.yaml"), "desk".to_owned());
    assert!(AgentCaseFiles.find(&missing, "x").is_err());
    assert_eq!(place.read("agent.yaml"), text);
}

#[test]
fn lines_to_paste_are_given_for_a_file_that_cannot_be_edited() {
    let new = case("new", &[("a: b\n# ${HOME}", "yes")]);
    let block = "- name: new\n  input: \"a: b\\n# $${HOME}\"\n  ground_truth: \"yes\"\n";
    let merged = format!("{AGENT}<<: {{test_cases: [{{input: hi}}]}}\n");
    let place = Place::with(&[("agent.yaml", &merged)]);
    let refused = place.add(&new).unwrap_err();
    assert!(
        refused
            .why
            .contains("agent.yaml` was not changed: can't edit `test_cases`"),
        "{refused:?}"
    );
    assert_eq!(refused.block.as_deref(), Some(block));
    assert_eq!(place.read("agent.yaml"), merged);
    let agent = format!("{AGENT}test_cases_file: cases.csv\n");
    let place = Place::with(&[("agent.yaml", &agent), ("cases.csv", "input\nhi\n")]);
    let refused = place.add(&new).unwrap_err();
    assert!(refused.why.contains("cases.csv` is a table"), "{refused:?}");
    assert_eq!(refused.block.as_deref(), Some(block));
    assert_eq!(place.read("cases.csv"), "input\nhi\n");
    // The lines are the case, where a person adds them.
    let pasted = Place::with(&[("agent.yaml", &format!("{AGENT}test_cases:\n{block}"))]);
    let agent = load(&pasted.path("agent.yaml"), &Env::default()).agent.unwrap();
    let own = agent.config.test_cases.iter().last().unwrap().into_owned();
    assert_eq!(own.input.as_deref(), Some("a: b\n# ${HOME}"));
}

#[test]
fn a_name_that_no_case_has_is_suggested() {
    let text = format!("{AGENT}test_cases: [{{name: old, input: hi}}, {{name: old 2, input: ho}}]\n");
    let place = Place::with(&[("agent.yaml", &text)]);
    let name = |name: &str| AgentCaseFiles.find(&place.agent(), name).unwrap().free_name;
    assert_eq!((name("old"), name("new")), ("old 3".to_owned(), "new".to_owned()));
    assert_eq!(
        AgentCaseFiles.find(&place.agent(), "x").unwrap().file.path,
        place.path("agent.yaml")
    );
}

#[test]
fn a_metric_that_needs_the_right_answer_is_named_only_without_one() {
    let text = format!("{AGENT}evaluations: {{metrics: [{{type: standard, metric: rouge}}]}}\n");
    let place = Place::with(&[("agent.yaml", &text)]);
    assert_eq!(
        place.add(&case("with", &[("q", "a")])).unwrap().notes,
        Vec::<String>::new()
    );
    let notes = place.add(&case("without", &[("q", " ")])).unwrap().notes;
    assert!(
        notes.len() == 1 && notes[0].contains("`rouge` needs a `ground_truth`,"),
        "{notes:?}"
    );
    let notes = place.add(&case("turns", &[("q", "a"), ("r", "")])).unwrap().notes;
    assert!(notes.len() == 1 && notes[0].contains("in each turn"), "{notes:?}");
}

#[test]
fn a_byte_order_mark_stays_and_a_file_in_utf_16_is_not_changed() {
    let text = format!("{AGENT}test_cases:\n  - input: hi\n");
    let new = case("new", &[("q", "a")]);
    let place = Place::with(&[("agent.yaml", &format!("\u{feff}{text}"))]);
    place.add(&new).unwrap();
    let block = "  - name: new\n    input: q\n    ground_truth: a\n";
    assert_eq!(place.read("agent.yaml"), format!("\u{feff}{text}{block}"));
    let wide: Vec<u8> = format!("\u{feff}{text}")
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    fs::write(place.path("agent.yaml"), &wide).unwrap();
    let refused = place.add(&new).unwrap_err();
    assert!(refused.why.contains("it is in UTF-16"), "{refused:?}");
    assert!(
        refused
            .block
            .is_some_and(|block| block.starts_with("- name: new\n"))
    );
    assert_eq!(fs::read(place.path("agent.yaml")).unwrap(), wide);
}
