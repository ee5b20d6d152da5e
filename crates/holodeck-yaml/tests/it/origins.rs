//! Origins of pages in `serve.cors_origins`: those that no page can match are said with their place.

use std::path::Path;

use holodeck_model::{Env, MemoryFiles, Severity};
use holodeck_yaml::load_agent;
use pretty_assertions::assert_eq;

/// The severity, line and message of each finding about `serve`.
fn findings(serve: &str) -> Vec<(Severity, usize, String)> {
    let text = format!(
        "name: a\nmodel: {{provider: openai, name: m}}\ninstructions: {{inline: Hi}}\nserve:\n{serve}\n"
    );
    let files = MemoryFiles::new().with("agent.yaml", text);
    let load = load_agent(Path::new("agent.yaml"), &Env::empty(), &files);
    let found = load.diagnostics.iter();
    found
        .map(|found| {
            let line = found.primary.as_ref().map_or(0, |place| place.line);
            (found.severity, line, found.message.clone())
        })
        .filter(|(_, _, message)| message.contains("origin"))
        .collect()
}

#[test]
fn an_origin_that_no_page_can_match_is_a_warning_at_its_line() {
    let serve = "  cors_origins:\n  - http://localhost:5173/\n  - https://*.example.com\n  - http://localhost:*\n  \
                 - https://app.example.com:443\n  - app.example.com\n  - https://*.com";
    let expected = |line, origin: &str| {
        (
            Severity::Warning,
            line,
            format!("no page can match the origin `{origin}` of `cors_origins`"),
        )
    };
    assert_eq!(
        findings(serve),
        [expected(10, "app.example.com"), expected(11, "https://*.com")]
    );
}

#[test]
fn without_a_token_no_page_of_the_whole_web_is_allowed() {
    for (origin, refused) in [("'*'", true), ("'null'", true), ("http://localhost:*", false)] {
        let serve = format!("  auth: {{mode: none}}\n  cors_origins: [{origin}]");
        let errors = findings(&serve)
            .iter()
            .filter(|(severity, ..)| *severity == Severity::Error)
            .count();
        assert_eq!(errors > 0, refused, "{origin}");
    }
}
