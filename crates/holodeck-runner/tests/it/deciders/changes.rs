//! Every thing that decides a verdict beside the agent, changed one at a time, with the names of what differs then.

pub(super) const BASE: &str = "\
execution: {trials: 2, min_passes: 2, on_truncated: fail}
evaluations:
  model: {provider: openai, name: judge, temperature: 0.0, endpoint: 'http://127.0.0.1:9'}
  metrics:
    - {type: standard, metric: contains, value: answer}
    - {type: standard, metric: rouge, threshold: 0.1}
    - {type: geval, name: Kind, criteria: Is it kind?, evaluation_steps: [Read.], threshold: 0.5}
    - {type: code, grader: 'graders:check', name: check}
test_cases:
  - {input: q1, ground_truth: answer one, expected_tools: [{name: look, args: {id: 1}}], forbidden_tools: [erase]}
  - {input: q2, ground_truth: answer two}
";

/// Conversations: with turns, and with a simulated user whose first answer ends it.
pub(super) const TALKS: &str = "\
execution: {trials: 2, min_passes: 2}
routing: {agents: {directories: [{path: .}]}}
evaluations:
  model: {provider: openai, name: judge, temperature: 0.0, endpoint: 'http://127.0.0.1:9'}
  metrics:
    - {type: standard, metric: contains, value: answer}
test_cases:
  - name: turns
    expected_agent: helper
    turns:
      - input: q1
        ground_truth: answer one
        expected_tools: [look]
        expected_approvals: [{tool: look, decision: allowed}]
        evaluations: [{type: standard, metric: rouge, threshold: 0.1}]
      - {input: q2, forbidden_tools: [erase], evaluations: [{type: standard, metric: contains, value: an}]}
    conversation_evaluations:
      - {type: geval, name: Kind, criteria: Is it kind?, evaluation_steps: [Read.], threshold: 0.5}
      - {type: code, grader: 'graders:check', name: check}
  - name: user
    input: q3
    expected_approvals: [{tool: look, decision: allowed}]
    user:
      goal: An answer.
      expected_end: [stop_when]
      stop_when: {metric: contains, value: an answer}
";

/// The text of the grader's module.
pub(super) const MODULE: &str = "def check(context): ...";

/// Whether a stored verdict of a judge or a program can be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// A check that asks a model or a program is the same.
    Same,
    Other,
}

/// One thing that decides, as it is after the run: a text of the file and what replaces it, the module of the grader, the
/// names of what differs, and in how many of the two cases.
pub(super) struct Change {
    pub(super) base: &'static str,
    pub(super) from: &'static str,
    pub(super) to: &'static str,
    pub(super) module: &'static str,
    pub(super) names: &'static [&'static str],
    pub(super) cases: usize,
    pub(super) asked: Asked,
}

pub(super) const fn expected(
    from: &'static str,
    to: &'static str,
    names: &'static [&'static str],
    cases: usize,
) -> Change {
    Change {
        base: BASE,
        from,
        to,
        module: MODULE,
        names,
        cases,
        asked: Asked::Same,
    }
}

pub(super) const fn judged(from: &'static str, to: &'static str, names: &'static [&'static str]) -> Change {
    Change {
        asked: Asked::Other,
        ..expected(from, to, names, 2)
    }
}

pub(super) const fn in_talks(
    from: &'static str,
    to: &'static str,
    names: &'static [&'static str],
    asked: Asked,
) -> Change {
    Change {
        base: TALKS,
        asked,
        ..expected(from, to, names, 1)
    }
}

pub(super) const KIND: &[&str] = &["the judge of `Kind`"];
pub(super) const PROGRAM: &[&str] = &["the grader program of `check`"];

pub(super) const CHANGES: &[Change] = &[
    expected("value: answer", "value: a", &["the expectation `contains`"], 2),
    expected(
        "value: answer",
        "value: x, negate: true",
        &["the expectation `contains`"],
        2,
    ),
    expected(
        "value: answer",
        "value: [answer]",
        &["the expectation `contains`"],
        2,
    ),
    expected(
        "threshold: 0.1",
        "threshold: 0.05",
        &["the expectation `rouge`"],
        2,
    ),
    expected(
        "rouge, threshold",
        "rouge, variant: rouge1, threshold",
        &["the expectation `rouge`"],
        2,
    ),
    expected(
        "    - {type: standard, metric: rouge, threshold: 0.1}\n",
        "",
        &["the expectation `rouge`"],
        2,
    ),
    expected(
        "expected_tools: [{name: look, args: {id: 1}}], ",
        "",
        &["the expectation `expected_tools`"],
        1,
    ),
    expected(
        "{name: look, args: {id: 1}}",
        "look",
        &["the expectation `expected_tools`"],
        1,
    ),
    expected(
        ", forbidden_tools: [erase]",
        "",
        &["the expectation `forbidden_tools`"],
        1,
    ),
    expected(
        "min_passes: 2",
        "min_passes: 1",
        &["the expectation `min_passes`"],
        2,
    ),
    expected(
        "on_truncated: fail",
        "on_truncated: warn",
        &["the expectation `on_truncated`"],
        2,
    ),
    Change {
        asked: Asked::Other,
        // The grader reads it, too.
        ..expected(
            "ground_truth: answer one",
            "ground_truth: answer",
            &["the expectation `check`", "the expectation `rouge`"],
            1,
        )
    },
    judged(
        "steps: [Read.], threshold: 0.5",
        "steps: [Read.], threshold: 0.4",
        &["the expectation `Kind`"],
    ),
    judged("Is it kind?", "Is it polite?", KIND),
    judged("[Read.]", "[Look.]", KIND),
    judged("name: judge", "name: another", KIND),
    judged("temperature: 0.0", "temperature: 1.0", KIND),
    judged("graders:check", "graders:lenient", PROGRAM),
    Change {
        module: "def check(context): return 1",
        ..judged("", "", PROGRAM)
    },
    in_talks(
        "value: answer",
        "value: a",
        &["the expectation `contains`"],
        Asked::Same,
    ),
    in_talks(
        "value: an}",
        "value: a}",
        &["the expectation `turn 2: contains`"],
        Asked::Same,
    ),
    in_talks(
        "ground_truth: answer one",
        "ground_truth: answer",
        &["the expectation `turn 1: rouge`"],
        Asked::Same,
    ),
    in_talks(
        "threshold: 0.1",
        "threshold: 0.05",
        &["the expectation `turn 1: rouge`"],
        Asked::Same,
    ),
    in_talks(
        "expected_tools: [look]",
        "expected_tools: [{name: look, args: {id: 1}}]",
        &["the expectation `turn 1: expected_tools`"],
        Asked::Same,
    ),
    in_talks(
        "        expected_approvals: [{tool: look, decision: allowed}]\n",
        "",
        &["the expectation `turn 1: expected_approvals`"],
        Asked::Same,
    ),
    in_talks(
        ", forbidden_tools: [erase]",
        "",
        &["the expectation `turn 2: forbidden_tools`"],
        Asked::Same,
    ),
    in_talks(
        "    expected_agent: helper\n",
        "",
        &["the expectation `turn 1: expected_agent`"],
        Asked::Same,
    ),
    in_talks(
        "Is it kind?",
        "Is it polite?",
        &["the judge of `conversation: Kind`"],
        Asked::Other,
    ),
    in_talks(
        "threshold: 0.5",
        "threshold: 0.4",
        &["the expectation `conversation: Kind`"],
        Asked::Other,
    ),
    in_talks(
        "graders:check",
        "graders:lenient",
        &["the grader program of `conversation: check`"],
        Asked::Other,
    ),
    in_talks(
        "    expected_approvals: [{tool: look, decision: allowed}]\n    user",
        "    user",
        &["the expectation `conversation: expected_approvals`"],
        Asked::Same,
    ),
    in_talks(
        "expected_end: [stop_when]",
        "expected_end: [stop_when, gave_up]",
        &["the expectation `conversation: expected_end`"],
        Asked::Same,
    ),
];
