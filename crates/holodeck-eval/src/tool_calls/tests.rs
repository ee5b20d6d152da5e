//! Tests of expectations about tool calls: names, arguments, counts, order and forbidden tools.

use holodeck_model::{ArgMatcher, CallRefusal, Env, MemoryFiles};
use holodeck_yaml::load_agent;
use serde_json::json;

use super::*;

/// An expectation as the YAML loader would create it.
fn tool(value: &Value) -> ExpectedTool {
    let Some(fields) = value.as_object() else {
        return ExpectedTool::named(value.as_str().unwrap());
    };
    let mut tool = ExpectedTool::named(fields["name"].as_str().unwrap());
    for (name, matcher) in fields
        .get("args")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        tool.args
            .insert(name.clone(), ArgMatcher::from_value(matcher.clone()).unwrap());
    }
    if let Some(count) = fields.get("count").and_then(Value::as_u64) {
        tool.count = u32::try_from(count).unwrap();
    }
    tool
}

fn outcome(
    expected: &[Value],
    order: ToolOrder,
    forbidden: &[&str],
    calls: &[(&str, Value)],
) -> ToolsOutcome {
    let expected: Vec<ExpectedTool> = expected.iter().map(tool).collect();
    let forbidden: Vec<String> = forbidden.iter().map(|&name| name.to_owned()).collect();
    let calls: Vec<CalledTool<'_>> = calls
        .iter()
        .map(|(name, args)| CalledTool::new(name, args))
        .collect();
    check_tools(
        &ToolExpectations {
            expected: &expected,
            order,
            forbidden: &forbidden,
            names: None,
        },
        &calls,
    )
}

fn check(expected: &[Value], calls: &[(&str, Value)], failures: &[&str]) {
    let outcome = outcome(expected, ToolOrder::Any, &[], calls);
    assert_eq!(lines(&outcome), failures);
    assert_eq!(outcome.matched, Some(failures.is_empty()));
}

fn lines(outcome: &ToolsOutcome) -> Vec<String> {
    outcome.failures.iter().map(Failure::line).collect()
}

#[test]
fn without_expectations_nothing_is_checked() {
    let nothing = outcome(&[], ToolOrder::Strict, &[], &[("a", json!({}))]);
    assert_eq!(nothing, ToolsOutcome::default());
}

fn names(provider: &str) -> ToolNames {
    let text = format!(
        "name: a\nmodel: {{provider: {provider}, name: m}}\ninstructions: {{inline: Hi}}\n\
         embedding_provider: {{provider: hash}}\ntools:\n\
         - {{type: vectorstore, name: kb, description: d, source: docs}}\n\
         - {{type: function, name: deny_refund, description: d, command: cat}}\n\
         - {{type: function, name: database_search, description: d, command: cat}}\n\
         - {{type: mcp, name: shop, description: d, command: npx}}\n\
         - {{type: mcp, name: store, description: d, command: npx}}\n"
    );
    let files = MemoryFiles::new().with("agent.yaml", text);
    let load = load_agent("agent.yaml".as_ref(), &Env::empty(), &files);
    ToolNames::of(&load.agent.unwrap().config)
}

/// Whether a call of `called` meets an expectation of `expected`, and violates `expected` as a forbidden tool.
fn met(names: &ToolNames, expected: &str, called: &[CalledTool<'_>]) -> (bool, bool) {
    let tool = [ExpectedTool::named(expected)];
    let banned = [expected.to_owned()];
    let required = ToolExpectations {
        expected: &tool,
        names: Some(names),
        ..ToolExpectations::default()
    };
    let forbidden = ToolExpectations {
        forbidden: &banned,
        names: Some(names),
        ..ToolExpectations::default()
    };
    (
        check_tools(&required, called).matched == Some(true),
        check_tools(&forbidden, called).matched == Some(false),
    )
}

#[test]
fn part_of_a_name_is_not_the_name() {
    let none = json!({});
    for provider in ["openai", "anthropic"] {
        let names = names(provider);
        for (expected, called, same) in [
            ("refund", "deny_refund", false),
            ("deny_refund", "deny_refund", true),
            ("ase", "database_search", false),
            ("database", "database_search", false),
            ("search", "kb_search", false),
            ("kb", "kb_search", true),
            ("kb_search", "kb_search", true),
            ("mcp__holodeck_tools__kb_search", "kb_search", true),
            ("lookup", "mcp__shop__lookup", true),
            ("shop__lookup", "mcp__shop__lookup", true),
            ("mcp__shop__lookup", "mcp__shop__lookup", true),
            ("store__lookup", "mcp__shop__lookup", false),
            ("shop", "mcp__shop__lookup", true),
            ("Lookup", "mcp__shop__lookup", false),
            ("up", "mcp__shop__lookup", false),
        ] {
            let call = [CalledTool::new(called, &none)];
            assert_eq!(
                met(&names, expected, &call),
                (same, same),
                "{provider} {expected} {called}"
            );
        }
    }
}

#[test]
fn a_bare_name_of_two_servers_is_refused() {
    let none = json!({});
    let mut names = names("openai");
    let calls = [CalledTool::new("mcp__shop__lookup", &none)];
    names.list("shop", ["lookup"]);
    names.list("store", ["lookup", "pay"]);
    assert_eq!(met(&names, "lookup", &calls), (false, true));
    assert_eq!(met(&names, "shop__lookup", &calls), (true, true));
    let expected = [ExpectedTool::named("lookup")];
    let outcome = check_tools(
        &ToolExpectations {
            expected: &expected,
            names: Some(&names),
            ..ToolExpectations::default()
        },
        &calls,
    );
    assert_eq!(
        lines(&outcome),
        [
            "expected_tools: lookup(): 'lookup' is the name of several tools: mcp__shop__lookup, mcp__store__lookup"
        ]
    );
}

#[test]
fn only_a_call_that_ran_meets_an_expectation() {
    let none = json!({});
    let ran = CalledTool::new("deny_refund", &none);
    let names = names("openai");
    assert_eq!(met(&names, "deny_refund", &[ran]), (true, true));
    let failed = CalledTool { failed: true, ..ran };
    assert_eq!(
        met(&names, "deny_refund", &[failed]),
        (true, true),
        "it ran and failed"
    );
    for refused in [
        CallRefusal::Rejected,
        CallRefusal::NotAllowed,
        CallRefusal::Unknown,
        CallRefusal::InvalidArguments,
    ] {
        let call = CalledTool {
            refused: Some(refused),
            failed: true,
            ..ran
        };
        assert_eq!(met(&names, "deny_refund", &[call]), (false, true), "{refused:?}");
        assert_eq!(
            met(&names, "deny_refund", &[call, ran]),
            (true, true),
            "{refused:?}"
        );
        let invented = CalledTool {
            refused: Some(refused),
            ..CalledTool::new("invented", &none)
        };
        assert_eq!(met(&names, "invented", &[invented]), (false, true), "{refused:?}");
    }
    let strict = [json!("deny_refund"), json!("kb")].map(|name| tool(&name));
    let rejected = CalledTool {
        refused: Some(CallRefusal::Rejected),
        ..ran
    };
    let calls = [rejected, CalledTool::new("kb_search", &none), ran];
    let expectations = ToolExpectations {
        expected: &strict,
        order: ToolOrder::Strict,
        names: Some(&names),
        ..ToolExpectations::default()
    };
    assert_eq!(check_tools(&expectations, &calls).matched, Some(false));
    assert_eq!(
        list_calls(&calls),
        "called: deny_refund (rejected), kb_search, deny_refund"
    );
    assert_eq!(list_calls(&[failed]), "called: deny_refund (failed)");
}

#[test]
fn tools_that_were_not_called_are_named() {
    check(
        &[json!("a"), json!("b")],
        &[("a", json!({}))],
        &["expected_tools: not called: b; called: a"],
    );
    check(
        &[json!("a")],
        &[],
        &["expected_tools: not called: a; no tool was called"],
    );
    check(&[json!("a"), json!("a")], &[("a", json!(null))], &[]);
}

#[test]
fn arguments_and_counts() {
    let calls = [
        ("f", json!({"x": 1, "y": "a"})),
        ("f", json!({"x": 2})),
        ("g", json!(null)),
    ];
    check(&[json!({"name": "f", "args": {"x": 2}})], &calls, &[]);
    check(&[json!({"name": "f", "count": 2})], &calls, &[]);
    check(
        &[json!({"name": "f", "args": {"x": {"gte": 1}}, "count": 2})],
        &calls,
        &[],
    );
    check(
        &[json!({"name": "f", "args": {"x": 1}, "count": 2})],
        &calls,
        &["expected_tools: f(x=1) ×2: expected 2 matching call(s), got 1"],
    );
    check(
        &[json!({"name": "f", "args": {"x": {"regex": "[5-9]"}}})],
        &calls,
        &["expected_tools: f(x~[5-9]): arg 'x' mismatch: expected regex '[5-9]', got 2"],
    );
    check(
        &[json!({"name": "f", "args": {"z": 1}})],
        &calls,
        &["expected_tools: f(z=1): arg 'z' missing"],
    );
    check(
        &[json!({"name": "g", "args": {"z": 1}})],
        &calls,
        &["expected_tools: g(z=1): arg 'z' missing"],
    );
    check(
        &[json!({"name": "h", "args": {"z": 1}})],
        &calls,
        &["expected_tools: h(z=1): no call to 'h' found"],
    );
}

#[test]
fn details_contain_the_index_of_the_matching_call() {
    let calls = [("f", json!({"x": 1})), ("f", json!({"x": 2}))];
    let expected = [
        json!("f"),
        json!({"name": "f", "args": {"x": 2}}),
        json!({"name": "f", "args": {"x": {"fuzzy": "3"}}}),
    ];
    let found = outcome(&expected, ToolOrder::Any, &[], &calls);
    let details = serde_json::to_value(&found.details).unwrap();
    assert_eq!(
        details,
        json!([
            {"expected_tool": "f", "args_asserted": {"x": 2}, "matched_call_index": 1, "unmatched_reason": null},
            {"expected_tool": "f", "args_asserted": {"x": {"fuzzy": "3"}}, "matched_call_index": -1,
             "unmatched_reason": "arg 'x' mismatch: expected ≈'3', got 2"},
        ])
    );
}

#[test]
fn order_matters_where_it_is_strict() {
    let calls = [
        ("a", json!({"n": 1})),
        ("b", json!({})),
        ("a", json!({"n": 2})),
        ("c", json!({})),
    ];
    let strict = |expected: &[Value]| outcome(expected, ToolOrder::Strict, &[], &calls);
    for expected in [
        vec![json!("a"), json!("b"), json!("c")],
        vec![json!("b"), json!("a")],
        vec![json!("a"), json!("a")],
        vec![json!({"name": "a", "count": 2}), json!("c")],
        vec![json!("b"), json!({"name": "a", "args": {"n": 2}})],
    ] {
        assert_eq!(strict(&expected).matched, Some(true), "{expected:?}");
    }
    assert_eq!(
        lines(&strict(&[json!("c"), json!("b")])),
        ["expected_tools_order: c, b: 'b' came too early; called: a, b, a, c"]
    );
    for expected in [
        vec![json!("b"), json!("b")],
        vec![json!({"name": "a", "count": 2}), json!("b")],
        vec![json!("b"), json!({"name": "a", "args": {"n": 1}})],
    ] {
        assert_eq!(strict(&expected).matched, Some(false), "{expected:?}");
        assert_eq!(
            outcome(&expected, ToolOrder::Any, &[], &calls).matched,
            Some(true),
            "{expected:?}"
        );
    }
}

#[test]
fn forbidden_tools_must_not_be_called() {
    let calls = [("lookup", json!({})), ("mcp__shop__delete_order", json!({}))];
    let banned = ["mcp__shop__delete_order"];
    let found = outcome(&[json!("lookup")], ToolOrder::Any, &banned, &calls);
    assert_eq!(
        lines(&found),
        ["forbidden_tools: called: mcp__shop__delete_order (call 2)"]
    );
    assert_eq!(found.matched, Some(false));
    let found = outcome(&[], ToolOrder::Any, &["refund"], &calls);
    assert_eq!(found.matched, Some(true));
    assert_eq!(outcome(&[], ToolOrder::Any, &["refund"], &[]).matched, Some(true));
}

fn matches(matcher: Value, found: &Value) -> bool {
    let matcher = ArgMatcher::from_value(matcher).unwrap();
    arguments::mismatch([(&"a".to_owned(), &matcher)], &json!({"a": found})).is_none()
}

#[test]
fn matchers() {
    let large = json!({"a": 1, "b": [1, 2], "c": {"d": 1, "e": 2}});
    for (matcher, found, expected) in [
        // Literals: numbers by value, booleans and null only themselves, texts exactly.
        (json!(1), json!(1.0), true),
        (json!([1, 2]), json!([1.0, 2.0]), true),
        (json!({"k": 1}), json!({"k": 1.0}), true),
        (json!({"k": 1}), json!({"k": 1, "l": 2}), false),
        (json!([1]), json!([1, 1]), false),
        (
            json!(9_007_199_254_740_993_u64),
            json!(9_007_199_254_740_992_u64),
            false,
        ),
        (json!(true), json!(1), false),
        (json!(1), json!(true), false),
        (json!(false), json!(0), false),
        (json!(true), json!(true), true),
        (json!(null), json!(null), true),
        (json!(null), json!(0), false),
        (json!(""), json!(null), false),
        (json!("a"), json!("A"), false),
        (json!("1"), json!(1), false),
        // A map of matcher keys and other keys is a literal.
        (json!({"gt": 1, "x": 1}), json!(2), false),
        (json!({"gt": 1, "x": 1}), json!({"gt": 1, "x": 1}), true),
        // Fuzzy: case, blanks, separators, per cent, numbers.
        (json!({"fuzzy": " New  York "}), json!("new york"), true),
        (json!({"fuzzy": "206,588"}), json!(206_588), true),
        (json!({"fuzzy": "206 588"}), json!("206_588.0"), true),
        (json!({"fuzzy": "12%"}), json!(0.12), true),
        (json!({"fuzzy": "12 %"}), json!("0.12"), true),
        (json!({"fuzzy": "true"}), json!(true), true),
        (json!({"fuzzy": "none"}), json!(null), true),
        (json!({"fuzzy": "nan"}), json!("NaN"), true),
        (json!({"fuzzy": "inf"}), json!("Infinity"), true),
        (json!({"fuzzy": "gift"}), json!("gifts"), false),
        (json!({"fuzzy": "1.0000001"}), json!(1), false),
        // Regex: matches the whole output of `str()`.
        (json!({"regex": "ORD-\\d+"}), json!("ORD-12"), true),
        (json!({"regex": "ORD-\\d+"}), json!("x ORD-12"), false),
        (json!({"regex": "True"}), json!(true), true),
        (json!({"regex": "1\\.0"}), json!(1.0), true),
        (json!({"regex": "\\['a', 1\\]"}), json!(["a", 1]), true),
        // Bounds.
        (json!({"gt": 9}), json!(9.5), true),
        (json!({"gt": 9}), json!(9), false),
        (json!({"gte": 9}), json!(9.0), true),
        (json!({"lt": 9}), json!(8), true),
        (json!({"lte": 9, "gt": 1}), json!(9), true),
        (json!({"lte": 9, "gt": 1}), json!(1), false),
        (json!({"gt": 9}), json!("10"), false),
        (json!({"gt": 0}), json!(true), false),
        (json!({"gt": 0}), json!(null), false),
        (
            json!({"approx": {"value": 3.1, "tolerance": 0.01}}),
            json!(3.11),
            true,
        ),
        (
            json!({"approx": {"value": 3.1, "tolerance": 0.01}}),
            json!(3.09),
            true,
        ),
        (
            json!({"approx": {"value": 3.1, "tolerance": 0.01}}),
            json!(3.12),
            false,
        ),
        (json!({"approx": {"value": 1, "tolerance": 0}}), json!(1.0), true),
        (json!({"approx": {"value": 1, "tolerance": 5}}), json!("1"), false),
        // Parts.
        (json!({"contains": "gift"}), json!("a gift for you"), true),
        (json!({"contains": "gift"}), json!("a Gift"), false),
        (json!({"contains": 2}), json!([1, 2.0]), true),
        (json!({"contains": "2"}), json!([1, 2]), false),
        (json!({"contains": 2}), json!("12"), false),
        (json!({"contains": "a"}), json!({"a": 1}), false),
        (json!({"subset": {"a": 1}}), large.clone(), true),
        (json!({"subset": {"a": 1.0, "b": [1, 2]}}), large.clone(), true),
        (json!({"subset": {"b": [1]}}), large.clone(), false),
        (json!({"subset": {"z": 1}}), large.clone(), false),
        (json!({"subset": [2, 1]}), json!([1, 2, 3]), true),
        (json!({"subset": [1, 1]}), json!([1, 2, 3]), false),
        (json!({"subset": [1, 1]}), json!([1, 2, 1]), true),
        (json!({"subset": {"a": 1}}), json!([1]), false),
    ] {
        assert_eq!(matches(matcher.clone(), &found), expected, "{matcher} {found}");
    }
}

#[test]
fn integers_in_arguments_are_compared_exactly() {
    const ODD: u64 = 9_007_199_254_740_993;
    let approx = |value: Value, tolerance: u64| json!({"approx": {"value": value, "tolerance": tolerance}});
    for (matcher, found, expected) in [
        (json!(ODD), json!(ODD), true),
        (json!(ODD), json!(9_007_199_254_740_992.0), false),
        (json!({"gt": ODD}), json!(ODD + 1), true),
        (json!({"gt": ODD - 1}), json!(ODD), true),
        (json!({"gte": ODD}), json!(ODD - 1), false),
        (json!({"lt": ODD}), json!(ODD), false),
        (json!({"lte": ODD}), json!(ODD + 1), false),
        (json!({"lt": u64::MAX}), json!(u64::MAX - 1), true),
        (json!({"gt": i64::MIN}), json!(i64::MIN), false),
        (approx(json!(ODD), 0), json!(ODD - 1), false),
        (approx(json!(ODD), 1), json!(ODD - 1), true),
        (approx(json!(u64::MAX), 1), json!(u64::MAX - 2), false),
        (json!({"fuzzy": "9,007,199,254,740,993"}), json!(ODD), true),
        (json!({"fuzzy": "9,007,199,254,740,993"}), json!(ODD - 1), false),
        (
            json!({"fuzzy": "9007199254740993%"}),
            json!("90071992547409.93"),
            true,
        ),
        (json!({"contains": ODD}), json!([ODD - 1]), false),
        (json!({"subset": {"a": ODD}}), json!({"a": ODD - 1}), false),
        // Decimals are compared as doubles.
        (json!(0.1), json!(0.1), true),
        (json!({"gt": 0.1}), json!(0.1), false),
        (
            json!({"approx": {"value": 0.3, "tolerance": 0}}),
            json!(0.1 + 0.2),
            true,
        ),
    ] {
        assert_eq!(matches(matcher.clone(), &found), expected, "{matcher} {found}");
    }
}

#[test]
fn two_matchers_in_one_map_are_an_error() {
    for matcher in [
        json!({"fuzzy": "a", "regex": "b"}),
        json!({"regex": "a", "path": "b"}),
        json!({"fuzzy": "a", "gt": 1}),
    ] {
        assert!(ArgMatcher::from_value(matcher.clone()).is_err(), "{matcher}");
    }
}

#[test]
fn integers_beyond_64_bits_are_never_equal_by_accident() {
    let number = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let one_more = |more: u8| number(&format!("1844674407370955161{}", 6 + more));
    let (one, other) = (one_more(0), one_more(1));
    assert_eq!(one, other, "both are the same double");
    for (matcher, found) in [(one.clone(), &other), (json!([one]), &json!([other.clone()]))] {
        assert!(!matches(matcher, found));
    }
    assert!(!matches(
        number("-9223372036854775809"),
        &number("-9223372036854775810")
    ));
    let matcher = ArgMatcher::from_value(one).unwrap();
    let why = arguments::mismatch([(&"a".to_owned(), &matcher)], &json!({"a": other})).unwrap();
    assert!(why.contains("beyond 64 bits"), "{why}");
    // No other matcher is met because two of them look equal.
    let looks_equal = [
        json!({"lte": one_more(0)}),
        json!({"gte": one_more(0)}),
        json!({"approx": {"value": one_more(0), "tolerance": 0}}),
        json!({"approx": {"value": one_more(0), "tolerance": 1}}),
        json!({"contains": one_more(0)}),
        json!({"subset": {"id": one_more(0)}}),
        json!({"fuzzy": "18446744073709552000"}),
        json!({"fuzzy": "1.8446744073709552e+19"}),
    ];
    for matcher in looks_equal {
        for found in [
            json!(one_more(1)),
            json!([one_more(1)]),
            json!({"id": one_more(1)}),
        ] {
            assert!(!matches(matcher.clone(), &found), "{matcher} {found}");
        }
    }
    // What is far apart is certain.
    assert!(matches(json!({"gt": 7}), &one_more(0)));
    assert!(matches(json!({"lt": number("1e30")}), &one_more(0)));
    assert!(matches(
        json!({"approx": {"value": one_more(0), "tolerance": 1e6}}),
        &one_more(1)
    ));
    // Integers within 64 bits are compared exactly.
    assert!(matches(
        number("18446744073709551615"),
        &number("18446744073709551615")
    ));
    assert!(!matches(
        number("18446744073709551615"),
        &number("18446744073709551614")
    ));
}
