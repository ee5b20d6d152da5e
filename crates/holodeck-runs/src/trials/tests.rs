//! Tests that the verdict on repeated trials is never better than the trials justify, over all combinations.

use pretty_assertions::assert_eq;

use super::*;

fn verdict(states: &str, min_passes: u32) -> CaseState {
    let mut counts = TrialCounts::default();
    for state in states.chars() {
        counts.add(match state {
            'p' => CaseState::Passed,
            'f' => CaseState::Failed,
            'e' => CaseState::Error,
            _ => CaseState::Unchecked,
        });
    }
    counts.verdict(min_passes)
}

#[test]
fn a_case_passes_when_enough_trials_passed() {
    assert_eq!(verdict("ppp", 3), CaseState::Passed);
    assert_eq!(verdict("ppf", 2), CaseState::Passed);
    assert_eq!(verdict("ppe", 2), CaseState::Passed);
    assert_eq!(verdict("pfe", 1), CaseState::Passed);
}

#[test]
fn errors_never_count_as_passes() {
    assert_eq!(verdict("eep", 2), CaseState::Error);
    assert_eq!(verdict("eee", 1), CaseState::Error);
    assert_eq!(verdict("eef", 1), CaseState::Error);
    assert_eq!(verdict("pef", 2), CaseState::Error);
    assert_eq!(verdict("ppe", 3), CaseState::Error);
}

#[test]
fn a_case_that_cannot_reach_its_passes_failed_or_is_flaky() {
    assert_eq!(verdict("fff", 1), CaseState::Failed);
    assert_eq!(verdict("ffe", 2), CaseState::Failed);
    assert_eq!(verdict("ppf", 3), CaseState::Flaky);
    assert_eq!(verdict("pef", 3), CaseState::Flaky);
    // No trial failed, but more must pass than ran: never a pass.
    assert_eq!(verdict("pp", 3), CaseState::Failed);
}

#[test]
fn trials_without_checks_are_no_passes() {
    assert_eq!(verdict("uuu", 3), CaseState::Unchecked);
    assert_eq!(verdict("uuf", 3), CaseState::Failed);
    assert_eq!(verdict("uue", 3), CaseState::Error);
    assert_eq!(verdict("uup", 2), CaseState::Failed);
    assert_eq!(verdict("", 1), CaseState::Unchecked);
    // A damaged file could say that no pass is needed.
    assert_eq!(verdict("fff", 0), CaseState::Error);
}

/// The verdict has a name in every combination, is a pass only with enough passes, and never gets better by replacing a
/// pass by an error, or an error by a failure.
#[test]
fn no_combination_is_greener_than_its_trials() {
    let rank = |state| match state {
        CaseState::Passed => 2,
        CaseState::Unchecked | CaseState::Error => 1,
        CaseState::Failed | CaseState::Flaky => 0,
    };
    for (passed, failed, errors, min_passes) in combinations(5) {
        let counts = TrialCounts {
            passed,
            failed,
            errors,
            unchecked: 0,
        };
        let state = counts.verdict(min_passes);
        assert_eq!(state == CaseState::Passed, passed >= min_passes, "{counts:?}");
        if state == CaseState::Flaky {
            assert!(passed > 0 && failed > 0);
        }
        if passed > 0 {
            let worse = TrialCounts {
                passed: passed - 1,
                errors: errors + 1,
                ..counts
            };
            assert!(rank(worse.verdict(min_passes)) <= rank(state), "{counts:?}");
        }
        if errors > 0 {
            let worse = TrialCounts {
                errors: errors - 1,
                failed: failed + 1,
                ..counts
            };
            assert!(rank(worse.verdict(min_passes)) <= rank(state), "{counts:?}");
        }
    }
}

fn combinations(most: u32) -> impl Iterator<Item = (u32, u32, u32, u32)> {
    let numbers = move || 0..=most;
    numbers()
        .flat_map(move |passed| numbers().map(move |failed| (passed, failed)))
        .flat_map(move |(passed, failed)| numbers().map(move |errors| (passed, failed, errors)))
        .filter(|(passed, failed, errors)| passed + failed + errors > 0)
        .flat_map(move |(passed, failed, errors)| {
            (1..=passed + failed + errors).map(move |min| (passed, failed, errors, min))
        })
}
