//! Tests that edits of YAML files change only the intended value and keep comments and style.

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn item(name: &str) -> JsonMap {
    let value = json!({"type": "mcp", "name": name, "args": ["-y", "@x/y"], "env": {"KEY": "${KEY}"}});
    value.as_object().cloned().unwrap()
}

fn add(text: &str) -> String {
    add_item(text, "tools", &item("new")).unwrap()
}

const BLOCK: &str = "# An agent.\nname: a   # its name\ntools:\n  # The first.\n  - name: one\n    text: |\n      # no comment\n\n      end\n  # between\n  - {name: two}   # flow\n\n# The model.\nmodel: {name: m}\n";

#[test]
fn an_item_is_added_after_the_last_one() {
    insta::assert_snapshot!(add(BLOCK), @r##"
    # An agent.
    name: a   # its name
    tools:
      # The first.
      - name: one
        text: |
          # no comment

          end
      # between
      - {name: two}   # flow
      - type: mcp
        name: new
        args: ["-y", "@x/y"]
        env:
          KEY: "${KEY}"

    # The model.
    model: {name: m}
    "##);
}

#[test]
fn a_missing_list_is_created() {
    insta::assert_snapshot!(add("name: a\n# the end"), @r#"
    name: a
    tools:
      - type: mcp
        name: new
        args: ["-y", "@x/y"]
        env:
          KEY: "${KEY}"
    # the end
    "#);
    for empty in [
        "tools:",
        "tools: # none",
        "tools: []",
        "tools: ~  # none",
        "tools: null",
    ] {
        let text = format!("name: a\n{empty}\nmodel: m\n");
        let edited = add(&text);
        assert!(
            edited.starts_with("name: a\ntools:") && edited.ends_with("\nmodel: m\n"),
            "{edited}"
        );
        assert_eq!(edited.contains("# none"), empty.contains("# none"));
    }
    for nothing in ["", "# only a comment\n", "---\n"] {
        assert!(add(nothing).starts_with(nothing));
    }
    assert!(add("name: a\n...\n").ends_with("\n...\n"));
}

#[test]
fn items_are_added_to_lists_in_every_style() {
    for (text, start, end) in [
        (
            "tools:\n- name: a\nmodel: m\n",
            "tools:\n- name: a\n- type: mcp\n",
            "\nmodel: m\n",
        ),
        ("tools: [{name: a}]\n", "tools: [{name: a}, {type: mcp, ", "}]\n"),
        (
            "tools: [\n  {name: a},\n]\n",
            "tools: [\n  {name: a}, {type",
            "\n]\n",
        ),
        (
            "tools: [\n  {name: a} # x\n]\n",
            "tools: [\n  {name: a} # x\n, \n{type",
            "\n]\n",
        ),
        ("{\"tools\": [], \"x\": 1}", "{\"tools\": [{type", "], \"x\": 1}"),
        (
            "tools:\n  -\n    name: a",
            "tools:\n  -\n    name: a\n  - type",
            "\n",
        ),
        (
            "tools:\r\n  - name: a\r\nx: 1\r\n",
            "tools:\r\n  - name: a\r\n  - type: mcp\r\n",
            "\r\nx: 1\r\n",
        ),
        (
            "tools:\n  - text: |\n      a\n      # not a comment\n",
            "tools:\n  - text: |\n      a\n      # not a comment\n  - type",
            "\n",
        ),
        (
            "tools:\n  - text: |+\n      a\n\n\nx: 1\n",
            "tools:\n  - text: |+\n      a\n\n\n  - type",
            "x: 1\n",
        ),
        (
            "\u{feff}tools:\n  - &a\n    name: a\n  - *a\n",
            "\u{feff}tools:\n  - &a\n    name: a\n  - *a\n  - type",
            "\n",
        ),
    ] {
        let edited = add(text);
        assert!(
            edited.starts_with(start) && edited.ends_with(end),
            "{text:?} became\n{edited}"
        );
        // Removing it again restores the value.
        let back = remove_item(&edited, "tools", "new").unwrap();
        assert_eq!(
            File::read(&back).unwrap().value().unwrap(),
            File::read(text).unwrap().value().unwrap()
        );
    }
}

#[test]
fn only_the_item_is_removed() {
    insta::assert_snapshot!(remove_item(BLOCK, "tools", "one").unwrap(), @r"
    # An agent.
    name: a   # its name
    tools:
      # The first.
      # between
      - {name: two}   # flow

    # The model.
    model: {name: m}
    ");
    for (text, expected) in [
        (
            "tools: [{name: a}, {name: b}, {name: c}]\n",
            "tools: [{name: a}, {name: c}]\n",
        ),
        ("tools: [{name: b}, {name: c}]\n", "tools: [{name: c}]\n"),
        ("tools: [{name: a}, {name: b}]\n", "tools: [{name: a}]\n"),
        ("tools: [{name: b}]\n", "tools: []\n"),
        (
            "tools: # x\n  - name: b\n    k: v\n# end\n",
            "tools: [] # x\n# end\n",
        ),
        ("tools:\n- name: b\n- name: a", "tools:\n- name: a"),
    ] {
        assert_eq!(remove_item(text, "tools", "b").unwrap(), expected, "{text}");
    }
}

#[test]
fn impossible_edits_are_refused_with_the_reason() {
    let error = |result: Result<String, EditError>| result.unwrap_err().to_string();
    let messages = [
        error(add_item(BLOCK, "tools", &item("two"))),
        error(add_item("tools: {a: 1}\n", "tools", &item("x"))),
        error(add_item("- a\n", "tools", &item("x"))),
        error(add_item("a: [\n", "tools", &item("x"))),
        error(add_item("b: &b [{name: c}]\ntools: *b\n", "tools", &item("x"))),
        error(remove_item("tools: [&b {name: c}, *b]\n", "tools", "c")),
        error(remove_item(BLOCK, "tools", "three")),
        error(remove_item("name: a\n", "tools", "three")),
    ];
    insta::assert_snapshot!(messages.join("\n"), @r"
    `tools` already has an item named `two`
    `tools` must be a list
    the top level must be a mapping
    line 1: a `[` is not closed
    can't edit `tools` without changing other parts of the file
    can't edit `tools` without changing other parts of the file
    `tools` has no item named `three`
    `tools` has no item named `three`
    ");
}

#[test]
fn strings_are_quoted_where_necessary() {
    let value = json!({"name": "a-b.c", "x": "yes", "y": "1.0", "z": "a: b", "q": "say \"hi\"\n", "e": "", "t": true, "u": "010"});
    let edited = add_item("", "tools", value.as_object().unwrap()).unwrap();
    insta::assert_snapshot!(edited, @r#"
    tools:
      - name: a-b.c
        x: "yes"
        y: "1.0"
        z: "a: b"
        q: "say \"hi\"\n"
        e: ""
        t: true
        u: "010"
    "#);
}

fn conversation(name: &str) -> JsonMap {
    let value = json!({"name": name, "turns": [
        {"input": "Where is it?", "expected_tools": ["find"]},
        {"input": "Two\nlines, $${HOME}"},
    ]});
    value.as_object().cloned().unwrap()
}

#[test]
fn a_test_case_is_added_to_an_agent_or_to_a_list_of_cases() {
    let added = |text: &str| add_test_case(text, &conversation("new")).unwrap();
    insta::assert_snapshot!(added("name: a\ntest_cases:\n  - {name: old}  # stays\n\n# The end.\n"), @r#"
    name: a
    test_cases:
      - {name: old}  # stays
      - name: new
        turns:
          - input: "Where is it?"
            expected_tools: [find]
          - input: "Two\nlines, $${HOME}"

    # The end.
    "#);
    for (text, start, end) in [
        (
            "# cases\n- name: a  # one\n",
            "# cases\n- name: a  # one\n- name: new\n",
            "\n",
        ),
        (
            "%YAML 1.2\n---\n# c\n  - name: a\n",
            "%YAML 1.2\n---\n# c\n  - name: a\n  - name: new\n",
            "\n",
        ),
        ("[{name: a}]\n", "[{name: a}, {name: new, turns: [{", "}]\n"),
        ("[]\n", "[{name: new,", "]\n"),
        ("", "test_cases:\n  - name: new\n", "\n"),
        (
            "test_cases:\n- name: a\n",
            "test_cases:\n- name: a\n- name: new\n",
            "\n",
        ),
        ("{\"test_cases\": []}\n", "{\"test_cases\": [{name: new,", "}\n"),
    ] {
        let edited = added(text);
        assert!(
            edited.starts_with(start) && edited.ends_with(end),
            "{text:?} became\n{edited}"
        );
    }
    for (text, message) in [
        ("- name: new\n", "`test_cases` already has an item named `new`"),
        (
            "test_cases: [{name: new}]\n",
            "`test_cases` already has an item named `new`",
        ),
        ("a\n", "the top level must be a mapping"),
    ] {
        let error = add_test_case(text, &conversation("new")).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

/// Files with lists in typical styles.
fn file() -> impl Strategy<Value = String> {
    let comment = prop_oneof![Just(""), Just("  # c"), Just(" #")];
    let between = prop_oneof![
        Just(""),
        Just("\n"),
        Just("  # between\n"),
        Just("# left\n\n"),
        Just("      # right\n")
    ];
    let item = (0..6_usize, "[a-d]", comment.clone()).prop_map(|(form, name, comment)| match form {
        0 => format!("  - name: {name}{comment}\n    k: [1, 2]\n"),
        1 => format!("  - {{name: {name}}}{comment}\n"),
        2 => format!("  -{comment}\n    name: \"{name}\"\n"),
        3 => format!("  - text: |\n      # {name}\n      - x\n    name: {name}{comment}\n"),
        4 => format!("  - name: {name}{comment}\n    text: >-\n      folded\n\n      # {name}\n"),
        _ => format!("  - k: v{comment}\n    n:\n      - name: {name}\n"),
    });
    let items = prop::collection::vec((item, between.clone()), 0..5);
    let after = prop_oneof![
        Just(""),
        Just("model: m\n"),
        Just("# end"),
        Just("x: |\n  tools:\n    - name: a\n")
    ];
    (items, comment, between, after, any::<bool>()).prop_map(|(items, comment, between, after, windows)| {
        let items: String = items.into_iter().map(|(item, between)| item + between).collect();
        let text = format!("# head\nname: n\n{between}tools:{comment}\n{items}{after}");
        if windows { text.replace('\n', "\r\n") } else { text }
    })
}

proptest! {
    #[test]
    fn only_the_intended_value_changes(text in file(), name in "[a-f]") {
        let before = File::read(&text).unwrap().value().unwrap();
        if let Ok(edited) = add_item(&text, "tools", &item(&name)) {
            let after = File::read(&edited).unwrap().value().unwrap();
            let mut wanted = before.clone();
            let list = wanted.as_object_mut().unwrap().entry("tools").or_insert(Value::Null);
            if list.is_null() {
                *list = json!([]);
            }
            list.as_array_mut().unwrap().push(Value::Object(item(&name)));
            prop_assert_eq!(after, wanted);
            // Every line is still there, in its order.
            let mut rest = edited.lines();
            for line in text.lines() {
                prop_assert!(rest.any(|other| other == line), "{:?} is gone from\n{}", line, edited);
            }
        } else {
            let names = File::read(&text).unwrap().names("tools").unwrap();
            prop_assert!(names.contains(&Some(name)), "{}", text);
        }
    }

    #[test]
    fn only_the_named_item_is_removed(text in file(), name in "[a-f]") {
        let names = File::read(&text).unwrap().names("tools").unwrap();
        match remove_item(&text, "tools", &name) {
            Ok(edited) => {
                let mut rest = text.lines();
                for line in edited.lines().filter(|line| !line.starts_with("tools:")) {
                    prop_assert!(rest.any(|other| other == line), "{:?} is new in\n{}", line, edited);
                }
            }
            Err(EditError::NotFound { .. }) => prop_assert!(!names.contains(&Some(name))),
            Err(error) => prop_assert!(false, "{error} in\n{text}"),
        }
    }
}
