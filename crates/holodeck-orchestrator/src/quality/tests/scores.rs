//! Scores are compared as the decimals that they are, and what is no score counts as 0 and meets nothing.

use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

/// A number of millionths as a person writes it, as a double.
fn millionths(number: i64) -> f64 {
    format!("{number}e-6").parse().unwrap()
}

/// The verdicts of a loop on scores of 0–100 without any call.
fn verdicts(rules: LoopRules, scores: &[f64]) -> Vec<LoopVerdict> {
    let mut state = LoopState::new(rules);
    let mut verdicts = Vec::new();
    for (place, score) in scores.iter().enumerate() {
        verdicts.push(state.step(&LoopStep::Scored {
            at: 0,
            score: Some(*score),
            invalid: None,
            noise: Some(0.0),
            unachievable: false,
            digest: place.to_string(),
            usage: None,
        }));
    }
    verdicts
}

fn patient(threshold: f64, min_improvement: f64) -> LoopRules {
    LoopRules {
        threshold,
        min_improvement: MinImprovement::Points(min_improvement),
        max_iterations: 50,
        ..LoopRules::default()
    }
}

const STAGNATION: LoopVerdict = LoopVerdict::Stop(TerminationReason::Stagnation);
const MET: LoopVerdict = LoopVerdict::Stop(TerminationReason::ThresholdMet);
const OSCILLATION: LoopVerdict = LoopVerdict::Stop(TerminationReason::Oscillation);

#[test]
fn differences_are_those_of_the_written_numbers() {
    for (before, after, required, expected) in [
        (55.0, 57.0, 2.0, LoopVerdict::Improve),
        (55.1, 57.3, 2.2, LoopVerdict::Improve),
        (55.1, 57.3, 2.200_000_000_001, STAGNATION),
        (0.1, 0.3, 0.2, LoopVerdict::Improve),
        (1.1, 3.1, 2.0, LoopVerdict::Improve),
        (8.3, 8.9, 0.6, LoopVerdict::Improve),
    ] {
        let verdict = verdicts(patient(99.0, required), &[before, after])[1];
        assert_eq!(verdict, expected, "{before} {after} {required}");
    }
    // A swing of exactly `min_swing` is none: 57.3 - 55.1 is 2.1999999999999957 and 55.1 + 2.2 more than 57.3.
    let mut rules = patient(99.0, 0.0);
    rules.stop_on = vec![holodeck_model::StopOn::Oscillation];
    rules.oscillation.min_swing = 2.2;
    assert_eq!(
        verdicts(rules.clone(), &[55.1, 57.3, 55.1])[2],
        LoopVerdict::Improve
    );
    assert_eq!(verdicts(rules, &[55.1, 57.300_000_1, 55.1])[2], OSCILLATION);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Everything as integers of millionths: a score of 0–1 has four places less than its points.
    #[test]
    fn thresholds_and_improvements_are_those_of_integers(
        shares in prop::collection::vec(0_i64..=1_000_000, 2..6),
        threshold in 0_i64..=100_000_000,
        near in -2_i64..=2,
        required in 0_i64..=100_000_000,
    ) {
        let points = |share: i64| scorer::points(millionths(share));
        for share in &shares {
            prop_assert_eq!(points(*share), millionths(100 * share));
            for threshold in [threshold, (100 * share + near).clamp(0, 100_000_000)] {
                let verdict = verdicts(patient(millionths(threshold), 0.0), &[points(*share)])[0];
                prop_assert_eq!(verdict == MET, 100 * share >= threshold, "{} {}", share, threshold);
            }
        }
        let improvement = 100 * (shares[1] - shares[0]);
        for required in [required, (improvement + near).clamp(0, 100_000_000)] {
            let rules = LoopRules { threshold: 100.0, ..patient(100.0, millionths(required)) };
            let scores = [points(shares[0]), points(shares[1])];
            if scores.contains(&100.0) {
                continue;
            }
            let verdict = verdicts(rules, &scores)[1];
            prop_assert_eq!(verdict == STAGNATION, improvement < required, "{:?} {}", shares, required);
        }
    }

    #[test]
    fn a_mean_meets_what_the_sum_of_the_integers_meets(
        shares in prop::collection::vec(0_i64..=1_000_000, 1..8),
        near in -2_i64..=2,
    ) {
        let points: Vec<f64> = shares.iter().map(|share| scorer::points(millionths(*share))).collect();
        let mean = holodeck_model::Decimal::mean(&points).unwrap();
        let (sum, count) = (100 * shares.iter().sum::<i64>(), i64::try_from(shares.len()).unwrap());
        let threshold = (sum / count + near).clamp(0, 100_000_000);
        let verdict = verdicts(patient(millionths(threshold), 0.0), &[mean])[0];
        prop_assert_eq!(verdict == MET, sum >= threshold * count, "{:?} {}", shares, threshold);
    }
}

/// Every kind of value that is no score, with the words that name it.
fn no_scores() -> Vec<(Assessment, &'static str)> {
    let of = |score: Option<f64>| Assessment {
        score,
        ..Assessment::default()
    };
    vec![
        (of(None), "there is no score"),
        (of(Some(f64::NAN)), "the score NaN is not between 0 and 100"),
        (of(Some(f64::INFINITY)), "the score inf is not between 0 and 100"),
        (
            of(Some(f64::NEG_INFINITY)),
            "the score -inf is not between 0 and 100",
        ),
        (of(Some(-0.000_1)), "the score -0.0001 is not between 0 and 100"),
        (of(Some(100.000_1)), "the score 100.0001 is not between 0 and 100"),
        (of(Some(1e300)), "is not between 0 and 100"),
        (Assessment::invalid("a text is no score"), "a text is no score"),
    ]
}

#[tokio::test]
async fn what_is_no_score_counts_as_zero_and_is_named() {
    for (first, reason) in no_scores() {
        let script = Script::new(vec![Ok(first), Ok(Assessment::of(80.0))], LoopRules::default());
        let (output, assessment, report) = script.run().await;
        assert_eq!(report.termination_reason, TerminationReason::ThresholdMet);
        let first = &report.iterations[0];
        assert_eq!((first.output_quality, first.score_invalid), (0.0, true));
        let named = first.invalid_reason.as_deref().unwrap();
        assert!(named.contains(reason), "{named}");
        assert_eq!((output.text.as_str(), assessment.invalid), ("o1", None));
        assert_eq!(report.iterations[1].invalid_reason, None);
        let again = replay(report.rules, &report.steps).unwrap();
        let invalid: Vec<bool> = again.iterations.iter().map(|step| step.score_invalid).collect();
        assert_eq!((invalid, again.score_invalid), (vec![true, false], false));
    }
}

#[tokio::test]
async fn what_is_no_score_meets_no_threshold_and_is_worse_than_zero() {
    let rules = |max_iterations| LoopRules {
        threshold: 0.0,
        max_iterations,
        ..LoopRules::default()
    };
    for (first, reason) in no_scores() {
        let script = Script::new(vec![Ok(first.clone())], rules(1));
        let (_, assessment, report) = script.run().await;
        assert_eq!(report.termination_reason, TerminationReason::MaxIterations);
        assert!(!assessment.passed && !report.iterations[0].success);
        assert!(assessment.invalid.unwrap().contains(reason));
        let again = replay(report.rules, &report.steps).unwrap();
        assert_eq!((again.passed, again.score_invalid), (false, true));

        // An output with a score of 0 meets it, and is the one that is returned.
        let script = Script::new(vec![Ok(first), Ok(Assessment::of(0.0))], rules(2));
        let (output, assessment, report) = script.run().await;
        assert_eq!(report.termination_reason, TerminationReason::ThresholdMet);
        assert_eq!((output.text.as_str(), assessment.passed), ("o1", true));
    }
}
