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
