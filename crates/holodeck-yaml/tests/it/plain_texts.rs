//! Texts of an agent file that are probably not as meant: cut by a comment, or with a variable of another program.

use std::path::Path;

use holodeck_model::{Code, Env, MemoryFiles};
use holodeck_yaml::{Load, load_agent};
use pretty_assertions::assert_eq;

use crate::support::render;

fn load(text: &str) -> Load {
    let files = MemoryFiles::new().with("agent.yaml", text);
    load_agent(Path::new("agent.yaml"), &Env::empty(), &files)
}

/// The findings of one code in an agent with this line.
fn findings(code: Code, line: &str) -> String {
    let load = load(&format!(
        "name: a\nmodel: {{provider: openai, name: m}}\n{line}\n"
    ));
    let found: Vec<_> = load
        .diagnostics
        .into_iter()
        .filter(|diagnostic| diagnostic.code == code)
        .collect();
    render(&found)
}

#[test]
fn a_text_that_a_comment_cuts_is_named() {
    assert_eq!(
        findings(
            Code::CutText,
            "instructions: {inline: Hi}\ntest_cases:\n  - name: a\n    input: Look at ticket #42 and say what it is"
        ),
        "agent.yaml:6:27: warning[HD0406]: the text ends before ` #42`\n    hint: ` #` begins a comment; put the whole text in \
         quotes if it belongs to it\n"
    );
    for text in ["see #42", "see it  #x and", "Issue#1 and #2", "ticket #4a of Ada"] {
        let found = findings(Code::CutText, &format!("instructions:\n  inline: {text}"));
        assert!(found.contains("the text ends before"), "{text}: {found}");
        // Only a number is shown.
        assert!(!found.contains("Ada") && !found.contains("#4a"), "{found}");
    }
    for text in [
        "see # a comment",
        "word #comment",
        "'see #42'",
        "\"see #42\" #1",
        "see#42",
        "#42",
        "|\n    see #42 and",
        "see",
    ] {
        let found = findings(Code::CutText, &format!("instructions:\n  inline: {text}"));
        assert_eq!(found, "", "{text}");
    }
    assert_eq!(
        findings(Code::CutText, "execution: {llm_timeout: 60}\nversion: 1 #2"),
        ""
    );
}

#[test]
fn a_comment_that_cuts_a_text_in_brackets_is_named_in_the_error() {
    for line in [
        "instructions: {inline: Look at ticket #42 and answer.}",
        "tags: [a, b #1]",
    ] {
        let text = render(
            &load(&format!(
                "name: a\n{line}\nmodel: {{provider: openai, name: m}}\n"
            ))
            .diagnostics,
        );
        assert!(
            text.contains("` #` begins a comment, also within brackets"),
            "{text}"
        );
    }
}

#[test]
fn quotes_of_a_word_processor_around_a_whole_text_are_warned_of() {
    for text in ["“12”", "‘twelve cups’", "„zwölf“", "«douze»", "”tolv”"] {
        let found = findings(
            Code::TypographicQuotes,
            &format!("instructions: {{inline: {text}}}"),
        );
        assert!(
            found.contains("warning[HD0408]") && found.contains("write `\"…\"`"),
            "{text}: {found}"
        );
    }
    for text in [
        "\"“12”\"",
        "“a” and “b”",
        "say “12”",
        "it’s",
        "12”",
        "“12”, or more",
        "‘it’s’",
    ] {
        let found = findings(
            Code::TypographicQuotes,
            &format!("instructions:\n  inline: {text}"),
        );
        assert_eq!(found, "", "{text}");
    }
}

#[test]
fn a_value_that_is_only_a_variable_of_a_shell_is_a_warning() {
    let whole = findings(Code::NotAVariable, "instructions: {inline: $TONE}");
    assert!(whole.contains("warning[HD0407]"), "{whole}");
    let part = findings(Code::NotAVariable, "instructions: {inline: Use $TONE.}");
    assert!(part.contains("note[HD0407]"), "{part}");
}

#[test]
fn a_variable_in_a_form_of_another_program_is_noted() {
    let line =
        "instructions: {inline: 'Use ${TONE-kind} and ${TONE:?missing} and {{ env.TONE }} and $TONE.'}";
    insta::assert_snapshot!(findings(Code::NotAVariable, line));
    for text in [
        "${TONE:-kind}",
        "$${TONE-kind}",
        "costs $5",
        "{{ name }}",
        "a $ b",
        "$lower",
    ] {
        let line = format!("instructions: {{inline: '{text}'}}");
        assert_eq!(findings(Code::NotAVariable, &line), "", "{text}");
    }
}

/// The forms of other programs with a text that must never be shown, as they are named.
const FOREIGN: [(&str, &str); 11] = [
    ("${TONE-hunter2}", "${TONE-…}"),
    ("${TONE:?hunter2}", "${TONE:?…}"),
    ("${TONE?hunter2}", "${TONE?…}"),
    ("${TONE:+hunter2}", "${TONE:+…}"),
    ("${TONE+hunter2}", "${TONE+…}"),
    ("${TONE:=hunter2}", "${TONE:=…}"),
    ("${TONE=hunter2}", "${TONE=…}"),
    ("{{ env.TONE }}", "{{ env.TONE }}"),
    ("{{ secrets[\"TONE\"] }}", "{{ secrets.TONE }}"),
    ("${env:TONE}", "${env:TONE}"),
    ("${TONE%hunter2}", "${TONE%…}"),
];

/// The notes of this file, whose line 3 is `line`.
fn notes_of(file: &str, line: &str, end: &str) -> Vec<(String, usize, usize)> {
    let text = format!("# note\n\n{line}\n").replace('\n', end);
    let agent = "name: a\nmodel: {provider: openai, name: m}\n";
    let files = match file {
        "agent.yaml" => MemoryFiles::new().with(
            "agent.yaml",
            format!("# note\n\n{line}\n{agent}").replace('\n', end),
        ),
        "config.yaml" => MemoryFiles::new()
            .with("agent.yaml", format!("{agent}instructions: {{inline: i}}\n"))
            .with("config.yaml", text),
        "cases.yaml" => MemoryFiles::new()
            .with(
                "agent.yaml",
                format!("{agent}instructions: {{inline: i}}\ntest_cases_file: cases.yaml\n"),
            )
            .with("cases.yaml", text),
        _ => MemoryFiles::new()
            .with(
                "agent.yaml",
                format!(
                    "{agent}instructions: {{inline: i}}\ntools:\n\
                     - {{type: mcp, name: s, description: d, command: node, env_file: server.env}}\n\
                     - {{type: mcp, name: t, description: d, command: node, env_file: server.env}}\n"
                ),
            )
            .with("server.env", text),
    };
    let load = load_agent(Path::new("agent.yaml"), &Env::empty(), &files);
    let noted = load
        .diagnostics
        .iter()
        .filter(|found| found.code == Code::NotAVariable);
    let noted = noted.map(|found| {
        let place = found.primary.as_ref().unwrap();
        assert!(place.path.ends_with(file), "{file}: {place:?}");
        let shown = format!("{found:?}");
        assert!(!shown.contains("hunter2"), "{file}: {shown}");
        assert!(found.help.is_some(), "{shown}");
        (found.message.clone(), place.line, place.column)
    });
    noted.collect()
}

#[test]
fn each_form_of_another_program_is_noted_once_in_every_file_with_variables() {
    for (file, before, after) in [
        ("agent.yaml", "instructions: {inline: 'é ", "'}"),
        ("config.yaml", "execution: {cache_dir: 'é ", "'}"),
        ("cases.yaml", "- {input: 'é ", "'}"),
        ("server.env", "TOKEN=é ", " and more"),
    ] {
        for (form, shown) in FOREIGN {
            for end in ["\n", "\r\n", "\r"] {
                let noted = notes_of(file, &format!("{before}{form}{after}"), end);
                let [(message, 3, column)] = noted.as_slice() else {
                    panic!("{file} {form} {end:?}: {noted:?}");
                };
                assert!(
                    message.contains(&format!("`{shown}`")) && message.contains("not replaced"),
                    "{message}"
                );
                assert_eq!(*column, before.chars().count() + 1, "{file} {form}");
            }
        }
        for fine in [
            "${TONE:-kind}",
            "$${TONE-kind}",
            "pa$$word",
            "a$b",
            "{{ name }}",
            "5 $ and ${",
        ] {
            assert_eq!(
                notes_of(file, &format!("{before}{fine}{after}"), "\n"),
                [],
                "{file} {fine}"
            );
        }
    }
}

/// In a file of variables `$NAME` may be a part of a password, which is not shown.
#[test]
fn a_dollar_and_a_comment_in_a_file_of_variables_are_named_without_the_value() {
    for (line, message, column) in [
        (
            "A=$HUNTER2",
            "the value of `A` begins with a `$`, which is not replaced",
            3,
        ),
        (
            "A = $HUNTER2/bin",
            "the value of `A` begins with a `$`, which is not replaced",
            5,
        ),
    ] {
        assert_eq!(
            notes_of("server.env", line, "\n"),
            [(message.to_owned(), 3, column)],
            "{line}"
        );
    }
    for fine in [
        "A=pa$HUNTER2",
        "A=$5",
        "A=$lower",
        "# A=$HUNTER2 ${X-y}",
        "A=$HUNTER2!",
    ] {
        assert_eq!(notes_of("server.env", fine, "\n"), [], "{fine}");
    }
    let yaml = "name: a\nmodel: {provider: openai, name: m}\ninstructions: {inline: i}\n\
                tools: [{type: mcp, name: s, description: d, command: node, env_file: s.env}]\n";
    let files = MemoryFiles::new().with("agent.yaml", yaml).with(
        "s.env",
        "A=hunter2 # note\nB=hunter2#3\nC='hunter2 # 4'\n# D=1 # x\n",
    );
    let found = load_agent(Path::new("agent.yaml"), &Env::empty(), &files).diagnostics;
    insta::assert_snapshot!(render(&found));
}
