//! Gates that pass whatever the agent answers: each kind of metric, in each list.

use std::path::Path;

use holodeck_model::{Code, Env, MemoryFiles, Severity};
use holodeck_yaml::load_agent;

/// The codes of the warnings and errors about an agent with this metric in one of the lists of metrics.
fn codes(metric: &str, list: &str) -> Vec<(Code, Severity)> {
    let base = "name: a\nmodel: {provider: openai, name: m}\ninstructions: {inline: Help.}\n";
    let agent = match list {
        "agent" => format!(
            "{base}evaluations:\n  metrics:\n  - {metric}\ntest_cases:\n- {{name: c, input: q, ground_truth: \"5\"}}\n"
        ),
        "case" => format!(
            "{base}test_cases:\n- {{name: c, input: q, ground_truth: \"5\", evaluations: [{metric}]}}\n"
        ),
        "turn" => format!(
            "{base}test_cases:\n- {{name: c, turns: [{{input: q, ground_truth: \"5\", evaluations: [{metric}]}}]}}\n"
        ),
        _ => format!(
            "{base}test_cases:\n- name: c\n  turns: [{{input: q}}, {{input: r}}]\n  \
             conversation_evaluations: [{metric}]\n"
        ),
    };
    let files = MemoryFiles::new().with("agent.yaml", agent.as_str());
    let load = load_agent(Path::new("agent.yaml"), &Env::empty(), &files);
    let found = load
        .diagnostics
        .iter()
        .filter(|found| found.severity != Severity::Note);
    found.map(|found| (found.code, found.severity)).collect()
}

fn assert_idle(metric: &str, lists: &[&str]) {
    for list in lists {
        let found = codes(metric, list);
        assert!(
            found.contains(&(Code::IdleGate, Severity::Warning)),
            "{metric} of {list}: {found:?}"
        );
    }
}

fn assert_can_fail(metric: &str, lists: &[&str]) {
    for list in lists {
        let found = codes(metric, list);
        assert!(
            !found.iter().any(|(code, _)| *code == Code::IdleGate),
            "{metric} of {list}: {found:?}"
        );
        assert!(
            found.iter().all(|(_, severity)| *severity == Severity::Warning),
            "{metric}: {found:?}"
        );
    }
}

const OF_ANSWERS: [&str; 3] = ["agent", "case", "turn"];
const EVERYWHERE: [&str; 4] = ["agent", "case", "turn", "conversation"];

#[test]
fn a_threshold_that_every_score_reaches_draws_a_warning() {
    for (metric, lowest, above) in [
        ("{type: standard, metric: bleu", "0", "0.01"),
        ("{type: standard, metric: rouge", "0", "0.01"),
        ("{type: standard, metric: meteor", "0.0", "0.01"),
        ("{type: standard, metric: f1", "0", "0.01"),
        ("{type: standard, metric: chrf", "0", "0.01"),
        ("{type: standard, metric: relevance", "0.2", "0.21"),
        ("{type: standard, metric: fluency", "0", "0.21"),
        ("{type: standard, metric: coherence, scale: 2", "0.5", "0.51"),
        ("{type: standard, metric: groundedness, scale: 10", "0.1", "0.11"),
        ("{type: rag, metric_type: faithfulness", "0", "0.01"),
        ("{type: rag, metric_type: answer_relevancy", "0", "0.01"),
        ("{type: rag, metric_type: contextual_recall", "0", "0.01"),
    ] {
        assert_idle(&format!("{metric}, threshold: {lowest}}}"), &OF_ANSWERS);
        assert_can_fail(&format!("{metric}, threshold: {above}}}"), &OF_ANSWERS);
        assert_can_fail(
            &format!("{metric}, threshold: {lowest}, enabled: false}}"),
            &OF_ANSWERS,
        );
    }
    for metric in [
        "{type: geval, name: g, criteria: c",
        "{type: code, command: check, name: n",
    ] {
        assert_idle(&format!("{metric}, threshold: 0}}"), &EVERYWHERE);
        assert_can_fail(&format!("{metric}, threshold: 0.1}}"), &EVERYWHERE);
    }
    assert_idle("{type: goal_success, goal: g, threshold: 0}", &["conversation"]);
    assert_can_fail("{type: goal_success, goal: g, threshold: 0.1}", &["conversation"]);
    // In strict mode the threshold is 1, and a check has a verdict of its own.
    assert_can_fail(
        "{type: geval, name: g, criteria: c, strict_mode: true, threshold: 0}",
        &EVERYWHERE,
    );
    assert_can_fail(
        "{type: standard, metric: contains, value: a, threshold: 0}",
        &EVERYWHERE,
    );
}

#[test]
fn a_judge_that_does_not_see_the_answer_draws_a_warning() {
    for params in [
        "input",
        "expected_output",
        "context",
        "retrieval_context",
        "input, expected_output, context",
    ] {
        let metric = format!("{{type: geval, name: g, criteria: c, evaluation_params: [{params}]}}");
        assert_idle(&metric, &OF_ANSWERS);
        // A judge of a conversation sees all of it.
        assert_can_fail(&metric, &["conversation"]);
        let metric =
            format!("{{type: geval, name: g, criteria: c, evaluation_params: [{params}, actual_output]}}");
        assert_can_fail(&metric, &OF_ANSWERS);
    }
    assert_can_fail("{type: geval, name: g, criteria: c}", &OF_ANSWERS);
}

#[test]
fn an_expression_that_decides_nothing_draws_a_warning() {
    for pattern in [
        ".*",
        "^",
        "$",
        ".*?",
        "(.*)",
        "[a-z]*",
        "(a|)",
        r"\s*",
        "(?s).*",
        "^.*",
        "a?",
        "(?=.*)",
        "()",
        r"[\s\S]*",
        "x{0,5}",
        "(?i)ok|.*",
    ] {
        let regex = |pattern: &str, more: &str| {
            format!("{{type: standard, metric: regex, value: '{pattern}'{more}}}")
        };
        assert_idle(&regex(pattern, ""), &EVERYWHERE);
        // Negated, it fails every answer, which is seen at once.
        assert_can_fail(&regex(pattern, ", negate: true"), &EVERYWHERE);
    }
    for pattern in [
        "ok", "^ok$", r"\d+", "a|b", "^$", ".+", r"\S", "(?!no)x", "ok.*", "(?m)^a",
    ] {
        for negate in [false, true] {
            let metric = format!("{{type: standard, metric: regex, value: '{pattern}', negate: {negate}}}");
            assert_can_fail(&metric, &EVERYWHERE);
        }
    }
    for pattern in ["(?!)", r"[^\s\S]", r"[^\w\W]+", "a^", "$a", r"\b\B"] {
        let metric = format!("{{type: standard, metric: regex, value: '{pattern}', negate: true}}");
        assert_idle(&metric, &EVERYWHERE);
    }
    // All must match, so one that can be missed is enough.
    assert_can_fail("{type: standard, metric: regex, value: ['.*', ok]}", &EVERYWHERE);
    assert_idle("{type: standard, metric: regex, value: ['.*', '^']}", &EVERYWHERE);
}

#[test]
fn a_text_of_which_nothing_is_left_is_an_error() {
    for (value, options) in [
        ("\"\"", ""),
        ("\" \"", ", strip_whitespace: true"),
        ("\"?!\"", ", strip_punctuation: true"),
        ("\"! ?\"", ", strip_punctuation: true, strip_whitespace: true"),
        ("[ok, \"--\"]", ", strip_punctuation: true"),
    ] {
        for metric in ["contains", "contains_all", "contains_any", "icontains"] {
            for negate in ["", ", negate: true"] {
                let metric = format!("{{type: standard, metric: {metric}, value: {value}{options}{negate}}}");
                for list in EVERYWHERE {
                    assert!(
                        codes(&metric, list).contains(&(Code::Blank, Severity::Error)),
                        "{metric} {list}"
                    );
                }
            }
        }
    }
    assert_can_fail("{type: standard, metric: contains, value: \" \"}", &EVERYWHERE);
    assert_can_fail("{type: standard, metric: contains, value: \"?\"}", &EVERYWHERE);
}

#[test]
fn numeric_compares_with_numbers_only() {
    for (value, options, is_number) in [
        ("5", "", true),
        ("-1.5e3", "", true),
        ("\" 7 \"", "", true),
        ("five", "", false),
        ("\"\"", "", false),
        ("5%", "", false),
        ("5%", ", accept_percent: true", true),
        ("\"1,000\"", "", false),
        ("\"1,000\"", ", accept_thousands_separators: true", true),
        ("[1, two]", "", false),
        ("NaN", "", false),
    ] {
        let metric = format!("{{type: standard, metric: numeric, value: {value}{options}}}");
        for list in OF_ANSWERS {
            let is_error = codes(&metric, list)
                .iter()
                .any(|(_, severity)| *severity == Severity::Error);
            assert_eq!(is_error, !is_number, "{metric} of {list}");
        }
    }
    let with_truth = |truth: &str, metric: &str| {
        let agent = format!(
            "name: a\nmodel: {{provider: openai, name: m}}\ninstructions: {{inline: Help.}}\n\
             evaluations: {{metrics: [{metric}]}}\ntest_cases:\n\
             - {{input: q, ground_truth: {truth}}}\n- {{turns: [{{input: q, ground_truth: {truth}}}]}}\n"
        );
        let files = MemoryFiles::new().with("agent.yaml", agent.as_str());
        let load = load_agent(Path::new("agent.yaml"), &Env::empty(), &files);
        load.diagnostics
            .iter()
            .filter(|found| found.code == Code::BadFormat)
            .count()
    };
    let own = "{type: standard, metric: numeric}";
    // A file for 0.7.1 may have such a case, so it is a warning.
    assert_eq!(with_truth("about five", own), 2);
    assert_eq!(with_truth("5", own), 0);
    // It compares with something else, or not at all.
    assert_eq!(
        with_truth("about five", "{type: standard, metric: numeric, value: 5}"),
        0
    );
    assert_eq!(
        with_truth("about five", "{type: standard, metric: numeric, enabled: false}"),
        0
    );
    assert_eq!(with_truth("about five", "{type: standard, metric: contains}"), 0);
}

#[test]
fn a_negated_schema_that_accepts_nothing_draws_a_warning() {
    for (schema, is_idle) in [
        ("{not: {}}", true),
        ("{not: {type: object}}", false),
        ("{type: array}", false),
    ] {
        let metric = format!("{{type: standard, metric: json_schema, negate: true, schema: {schema}}}");
        if is_idle {
            assert_idle(&metric, &OF_ANSWERS);
        } else {
            assert_can_fail(&metric, &OF_ANSWERS);
        }
    }
}

/// Whether the metrics of an agent with these cases are said to be unused.
fn unused(cases: &str, enabled: bool) -> bool {
    let agent = format!(
        "name: a\nmodel: {{provider: openai, name: m}}\ninstructions: {{inline: Help.}}\nevaluations:\n  metrics:\n  \
         - {{type: standard, metric: contains, value: yes, enabled: {enabled}}}\n{cases}"
    );
    let files = MemoryFiles::new().with("agent.yaml", agent.as_str());
    let load = load_agent(Path::new("agent.yaml"), &Env::empty(), &files);
    let found = load
        .diagnostics
        .iter()
        .find(|found| found.code == Code::UnusedMetrics);
    if let Some(found) = found {
        assert_eq!(
            (found.severity, found.primary.as_ref().unwrap().line),
            (Severity::Warning, 5)
        );
    }
    found.is_some()
}

#[test]
fn metrics_of_an_agent_that_no_case_uses_are_named() {
    const OWN: &str = "evaluations: [{type: standard, metric: contains, value: no}]";
    let case = |parts: &str| format!("test_cases:\n- {{name: c, {parts}}}\n");
    let both = format!("{}- {{name: d, input: r}}\n", case(&format!("input: q, {OWN}")));
    let turns = |last: &str| case(&format!("turns: [{{input: q, {OWN}}}, {{input: r{last}}}]"));
    assert!(unused(&case(&format!("input: q, {OWN}")), true));
    assert!(unused(&turns(&format!(", {OWN}")), true));
    for (cases, enabled) in [
        (String::new(), true),
        (case("input: q"), true),
        (both, true),
        (turns(""), true),
        (case(&format!("input: q, {OWN}")), false),
        (case("input: q, evaluations: []"), true),
    ] {
        assert!(!unused(&cases, enabled), "{cases}");
    }
}
