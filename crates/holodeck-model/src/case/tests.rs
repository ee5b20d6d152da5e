//! Tests of the identity of cases: by content including files, stable across renames, and frozen in its format.

use pretty_assertions::{assert_eq, assert_ne};

use super::*;
use crate::MemoryFiles;

fn cases(yaml: &str) -> Cases {
    serde_yaml::from_str(yaml).unwrap()
}

fn identities(yaml: &str, files: &MemoryFiles) -> Vec<CaseIdentity> {
    identify_cases(&cases(yaml), files)
}

fn files() -> MemoryFiles {
    MemoryFiles::new()
        .with("a.txt", "report of Alpha")
        .with("b.txt", "report of Beta")
        .with("copy of a.txt", "report of Alpha")
}

/// The index in `earlier` of each case of `today`.
fn match_yaml(earlier: &str, today: &str) -> Vec<Option<usize>> {
    match_cases(&identities(earlier, &files()), &identities(today, &files()))
}

#[test]
fn cases_with_the_same_question_differ_by_the_content_of_their_files() {
    let earlier = "
        - {input: Summarise, files: [{path: a.txt, type: text}]}
        - {input: Summarise, files: [{path: b.txt, type: text}]}";
    let swapped = "
        - {input: Summarise, files: [{path: b.txt, type: text}]}
        - {input: Summarise, files: [{path: a.txt, type: text}]}";
    assert_eq!(match_yaml(earlier, earlier), [Some(0), Some(1)]);
    assert_eq!(match_yaml(earlier, swapped), [Some(1), Some(0)]);
    let turns = "
        - {turns: [{input: Summarise, files: [{path: a.txt, type: text}]}]}";
    let other = "
        - {turns: [{input: Summarise, files: [{path: b.txt, type: text}]}]}";
    assert_eq!(match_yaml(turns, other), [None]);
    let moved = "
        - {turns: [{input: Summarise, files: [{path: copy of a.txt, type: text}]}]}";
    assert_eq!(match_yaml(turns, moved), [Some(0)]);
}

#[test]
fn changed_and_missing_files_change_the_identity() {
    let case = "[{name: n, input: q, files: [{path: a.txt, type: text}]}]";
    let with = |content: &str| identities(case, &MemoryFiles::new().with("a.txt", content));
    assert_eq!(with("x"), with("x"));
    assert_ne!(with("x"), with("y"));
    assert_ne!(with(""), identities(case, &MemoryFiles::new()));
    assert_eq!(match_cases(&with("x"), &with("y")), [None]);
}

#[test]
fn a_renamed_case_matches_only_if_its_content_is_unique_on_both_sides() {
    assert_eq!(
        match_yaml("[{name: a, input: q}]", "[{name: b, input: q}]"),
        [Some(0)]
    );
    let two = "[{name: a, input: q}, {name: b, input: q}]";
    assert_eq!(match_yaml(two, "[{name: c, input: q}]"), [None]);
    assert_eq!(match_yaml("[{name: c, input: q}]", two), [None, None]);
    assert_eq!(match_yaml(two, "[{name: b, input: q}]"), [Some(1)]);
    assert_eq!(
        match_yaml(two, "[{name: b, input: q}, {name: a, input: q}]"),
        [Some(1), Some(0)]
    );
}

#[test]
fn a_case_with_the_same_name_and_other_content_does_not_match() {
    assert_eq!(
        match_yaml("[{name: a, input: q}]", "[{name: a, input: other}]"),
        [None]
    );
    assert_eq!(
        match_yaml("[{name: a, input: q}]", "[{name: a, input: q, ground_truth: z}]"),
        [Some(0)]
    );
}

#[test]
fn equal_names_match_by_content_and_equal_cases_by_order() {
    let earlier = "[{name: a, input: one}, {name: a, input: two}, {input: three}, {input: three}]";
    let today = "[{input: three}, {name: a, input: two}, {name: a, input: one}, {input: three}]";
    assert_eq!(match_yaml(earlier, today), [Some(2), Some(1), Some(0), Some(3)]);
    let cases = cases(earlier);
    let identities = identify_cases(&cases, &files());
    assert_eq!(equal_cases(&cases, &identities), [vec![2, 3], vec![0, 1]]);
    let mut ids: Vec<_> = identities.iter().map(|identity| identity.id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 4);
}

#[test]
fn different_parts_give_different_ids() {
    let differ = [
        "[{input: ab, turns: [{input: c}]}]",
        "[{input: a, turns: [{input: bc}]}]",
        "[{turns: [{input: ab}, {input: c}]}]",
        "[{turns: [{input: a}, {input: bc}]}]",
        "[{input: abc}]",
        "[{input: abc, name: abc}]",
        "[{input: abc, files: [{path: a.txt, type: pdf, pages: [1]}]}]",
        "[{input: abc, files: [{path: a.txt, type: pdf, pages: [2]}]}]",
        "[{input: abc, files: [{path: a.txt, type: pdf, sheet: x}]}]",
        "[{input: abc, files: [{path: a.txt, type: pdf, range: x}]}]",
    ];
    let mut ids: Vec<_> = differ
        .iter()
        .map(|yaml| identities(yaml, &files())[0].id)
        .collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), differ.len());
}

#[test]
fn signatures_and_user_information_of_urls_are_ignored() {
    let urls = [
        "https://me:secret@Host.example/a.pdf?v=1",
        "https://host.example/a.pdf?v=1&X-Amz-Signature=1&X-Amz-Date=2",
        "https://host.example/a.pdf?sig=1&se=2&v=1&sp=r",
        "https://host.example/a.pdf?Expires=1&v=1&Signature=2&Key-Pair-Id=3#page",
    ];
    for url in urls {
        assert_eq!(public_url(url), "https://host.example/a.pdf?v=1", "{url}");
    }
    // Without a signature, these are ordinary parameters.
    for url in ["https://h/a?sp=1", "https://h/a?expires=2", "https://h/a?v=me@b"] {
        assert_eq!(public_url(url), url);
    }
}

#[test]
fn identities_are_written_as_hexadecimal() {
    let [identity] = identities("[{input: q}]", &files())[..] else {
        panic!()
    };
    let key = UnitKey {
        case: identity.id,
        trial: 2,
    };
    let text = serde_json::to_string(&key).unwrap();
    assert_eq!(text, format!(r#"{{"case":"{}","trial":2}}"#, identity.id));
    assert_eq!(serde_json::from_str::<UnitKey>(&text).unwrap(), key);
    assert_eq!(
        serde_json::from_value::<UnitKey>(serde_json::to_value(key).unwrap()).unwrap(),
        key
    );
    for wrong in [
        "",
        "0",
        "g0000000000000000000000000000000",
        "+f000000000000000000000000000000",
    ] {
        assert_eq!(wrong.parse::<CaseId>(), Err(InvalidCaseId), "{wrong}");
    }
}

/// Recordings and journals contain them: a change of the definition changes their format.
#[test]
fn the_definition_is_frozen() {
    let yaml = "[{name: capital, input: The capital of France?, files: [{path: a.txt, type: text}]}]";
    let [identity] = identities(yaml, &files())[..] else {
        panic!()
    };
    assert_eq!(
        (
            identity.id.to_string().as_str(),
            identity.content.to_string().as_str()
        ),
        (
            "2d66ed8dc36540ed6034f15542bc05ed",
            "6c7a58a6919379f4a69fc86a7860fca1"
        )
    );
}
