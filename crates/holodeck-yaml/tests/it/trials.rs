//! How often cases run, and how many trials must pass, as configured in files.

use std::path::Path;

use holodeck_model::{Env, MemoryFiles, Severity};
use holodeck_yaml::{Load, load_agent};
use pretty_assertions::assert_eq;

fn load(blocks: &str) -> Load {
    let text = format!(
        "name: a\nmodel: {{provider: openai, name: m, endpoint: \"http://127.0.0.1:9\"}}\n\
         instructions: {{inline: Hi}}\n{blocks}\n"
    );
    let files = MemoryFiles::new().with("agent.yaml", text);
    load_agent(Path::new("agent.yaml"), &Env::empty(), &files)
}

/// The errors with their lines.
fn errors(blocks: &str) -> Vec<String> {
    let diagnostics = load(blocks).diagnostics.into_iter();
    let errors = diagnostics.filter(|diagnostic| diagnostic.severity == Severity::Error);
    errors
        .map(|error| {
            let line = error.primary.as_ref().map_or(0, |location| location.line);
            format!("{line}: {}", error.message)
        })
        .collect()
}

#[test]
fn the_numbers_are_read() {
    let load = load(
        "execution: {trials: 10, min_passes: 8, report_k: [3, 5]}\n\
         test_cases: [{input: a, trials: 3, min_passes: 2}, {input: b}]",
    );
    let agent = load.agent.unwrap_or_else(|| panic!("{:?}", load.diagnostics));
    let execution = &agent.execution;
    assert_eq!(
        (
            execution.trials.value.get(),
            execution.min_passes.value.map(u32::from),
            execution.report_k.value.as_slice()
        ),
        (10, Some(8), &[3, 5][..])
    );
    let case = agent.config.test_cases.get(0).unwrap();
    assert_eq!((case.trials, case.min_passes), (Some(3), Some(2)));
}

#[test]
fn more_passes_than_trials_are_reported_at_their_place() {
    assert_eq!(
        errors("execution:\n  trials: 2\n  min_passes: 3\ntest_cases: [{input: a}]"),
        ["6: `min_passes` in `execution` is 3, but only 2 trials run"]
    );
    assert_eq!(
        errors("execution: {trials: 5, min_passes: 4}\ntest_cases:\n  - input: a\n    trials: 3"),
        ["7: `min_passes` of test case 1 is 4, but only 3 trials run"]
    );
    assert_eq!(
        errors("execution: {trials: 5}\ntest_cases:\n  - input: a\n    min_passes: 6"),
        ["7: `min_passes` of test case 1 is 6, but only 5 trials run"]
    );
    assert_eq!(
        errors("test_cases:\n  - input: a\n    min_passes: 2"),
        ["6: `min_passes` of test case 1 is 2, but only 1 trial runs"]
    );
    // Another file, a flag or the case may set the other number.
    let empty: [String; 0] = [];
    assert_eq!(
        errors("execution: {min_passes: 2}\ntest_cases: [{input: a, trials: 2}]"),
        empty
    );
    assert_eq!(
        errors("execution: {trials: 3, min_passes: 3}\ntest_cases: [{input: a}]"),
        empty
    );
}

#[test]
fn no_number_may_be_zero() {
    for wrong in [
        "execution: {trials: 0}",
        "execution: {trials: 10001}",
        "execution: {min_passes: 0}",
        "execution: {report_k: [2, 0]}",
        "test_cases: [{input: a, trials: 0}]",
        "test_cases: [{input: a, min_passes: 0}]",
    ] {
        assert_eq!(errors(wrong).len(), 1, "{wrong}: {:?}", errors(wrong));
    }
}
