//! Numbers, texts and counts as reports show them.

use pretty_assertions::assert_eq;

use super::*;

#[test]
fn numbers_keep_what_matters() {
    let counts = [0, 1, 2, 1_000].map(count_tokens);
    assert_eq!(counts, ["0 tokens", "1 token", "2 tokens", "1.0k tokens"]);
    assert_eq!(duration(340), "340 ms");
    assert_eq!(duration(1_234), "1.2 s");
    assert_eq!(duration(60_000), "60.0 s");
    assert_eq!(duration(125_000), "2 min 5 s");
    assert_eq!(tokens(812), "812");
    assert_eq!(tokens(9_400), "9.4k");
    assert_eq!(cost(0.0021), "$0.0021");
    assert_eq!(cost(0.045), "$0.045");
    assert_eq!(cost(0.31), "$0.31");
    assert_eq!(cost(12.3), "$12.30");
    assert_eq!(cost(0.0), "$0.00");
}

#[test]
fn a_small_cost_fits_its_column() {
    assert_eq!(cost(0.000_12), "$0.00012");
    assert_eq!(cost(0.000_099), "<$0.0001");
    assert_eq!(cost(0.000_000_001), "<$0.0001");
}

#[test]
fn a_missed_threshold_never_looks_met() {
    assert_eq!(
        score(0.31, Some(0.4)),
        ("0.31".to_owned(), Some("0.40".to_owned()))
    );
    assert_eq!(
        score(0.3999, Some(0.4)),
        ("0.3999".to_owned(), Some("0.4000".to_owned()))
    );
    assert_eq!(score(0.4, Some(0.4)).0, "0.40");
}

#[test]
fn texts_are_made_short() {
    assert_eq!(clip("äöü", 3), "äöü");
    assert_eq!(clip("äöü", 2), "äö\n… 1 more characters");
}

#[test]
fn totals_show_passed_of_checked_cases() {
    let summary = |passed, failed, errors, unchecked| {
        let checked = passed + failed + errors;
        ReportSummary {
            total_tests: checked + unchecked,
            passed,
            failed,
            errors,
            unchecked,
            pass_rate: (checked > 0).then(|| passed as f64 * 100.0 / checked as f64),
            ..ReportSummary::default()
        }
    };
    assert_eq!(
        totals(&summary(182, 14, 4, 0)),
        "182 of 200 passed (91 %), 14 failed, 4 errors"
    );
    assert_eq!(
        totals(&summary(9, 1, 1, 1)),
        "12 cases: 9 of 11 checked passed (82 %), 1 failed, 1 error, 1 unchecked"
    );
    assert_eq!(
        totals(&summary(0, 0, 0, 1)),
        "1 case: nothing was checked, 1 unchecked"
    );
    assert_eq!(totals(&ReportSummary::default()), "0 cases: nothing was checked");
    let stopped = ReportSummary {
        not_run: 197,
        ..summary(0, 0, 3, 0)
    };
    assert_eq!(totals(&stopped), "0 of 200 passed, 3 errors, 197 not run");
}

#[test]
fn all_and_none_are_never_rounded_to() {
    let summary = |passed, failed| ReportSummary {
        total_tests: passed + failed,
        passed,
        failed,
        pass_rate: Some(passed as f64 * 100.0 / (passed + failed) as f64),
        ..ReportSummary::default()
    };
    assert_eq!(share(&summary(999, 1)), Some(99));
    assert_eq!(share(&summary(1, 999)), Some(1));
    assert_eq!(share(&summary(9, 2)), Some(82));
    assert_eq!(share(&summary(3, 0)), Some(100));
}
