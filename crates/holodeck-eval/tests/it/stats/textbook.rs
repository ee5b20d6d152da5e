//! Published examples, and answers that must not look better than they are.

use holodeck_eval::stats::{self, Interval, McNemar};

fn rounded(interval: Option<Interval>, digits: usize) -> String {
    interval.map_or_else(
        || "none".to_owned(),
        |Interval { low, high }| format!("{low:.digits$} to {high:.digits$}"),
    )
}

#[test]
fn eight_of_ten() {
    assert_eq!(rounded(stats::wilson(8, 10, 0.95), 2), "0.49 to 0.94");
    assert_eq!(stats::pass_at_k(10, 8, 1), Some(0.8));
    assert_eq!(stats::pass_hat_k(10, 8, 1), Some(0.8));
    assert_eq!(stats::pass_at_k(10, 8, 10), Some(1.0));
    assert_eq!(stats::pass_hat_k(10, 8, 10), Some(0.0));
    // 28 of the 45 pairs of trials contain only passed ones.
    assert_eq!(stats::pass_hat_k(10, 8, 2), Some(28.0 / 45.0));
    assert_eq!(stats::pass_at_k(10, 8, 2), Some(44.0 / 45.0));
}

/// Newcombe (1998), Statistics in Medicine 17, table I, method 3.
#[test]
fn newcombes_intervals() {
    assert_eq!(rounded(stats::wilson(81, 263, 0.95), 4), "0.2553 to 0.3662");
    assert_eq!(rounded(stats::wilson(15, 148, 0.95), 4), "0.0624 to 0.1605");
    assert_eq!(rounded(stats::wilson(0, 20, 0.95), 4), "0.0000 to 0.1611");
    assert_eq!(rounded(stats::wilson(1, 29, 0.95), 4), "0.0061 to 0.1718");
}

/// Student's sleep data: the paired differences of his paper of 1908, and R's answer.
#[test]
fn students_sleep() {
    let differences = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4];
    assert_eq!(
        rounded(stats::mean_interval_t(&differences, 0.95), 4),
        "0.7001 to 2.4599"
    );
}

#[test]
fn six_flips_are_needed_and_five_are_not_enough() {
    let p = |failing, passing| stats::mcnemar_exact(failing, passing).p_value;
    assert_eq!(p(0, 0), 1.0);
    assert_eq!(p(3, 3), 1.0);
    assert_eq!(p(5, 0), 0.0625);
    assert_eq!(p(6, 0), 0.03125);
    assert_eq!(p(0, 6), 0.03125);
    // One of ten: 2 · (1 + 10) / 1024.
    assert_eq!(p(9, 1), 22.0 / 1024.0);
    for (alpha, needed) in [
        (0.05, 6),
        (0.01, 8),
        (0.001, 11),
        (0.1, 5),
        // 2^-4 itself is not below it.
        (0.0625, 6),
        (1.0, 2),
        (1.5, 0),
        (0.0, u64::MAX),
        (-1.0, u64::MAX),
        (f64::NAN, u64::MAX),
        (f64::MIN_POSITIVE, 1024),
    ] {
        assert_eq!(stats::mcnemar_needed(alpha), needed, "{alpha}");
    }
}

#[test]
fn no_overflow_of_the_counts() {
    let McNemar { p_value, .. } = stats::mcnemar_exact(u64::MAX, 1);
    assert_eq!(p_value, 0.0);
    assert_eq!(stats::pass_at_k(u64::MAX, u64::MAX, 3), Some(1.0));
    assert_eq!(stats::pass_hat_k(u64::MAX, 0, u64::MAX), Some(0.0));
    let one_trial = stats::pass_at_k(u64::MAX, 1, 1).unwrap();
    assert!((one_trial * u64::MAX as f64 - 1.0).abs() < 1e-12);
    let everything = stats::wilson(u64::MAX, u64::MAX, 0.95).unwrap();
    assert!(everything.low > 0.999_999 && everything.high <= 1.0);
}

/// The example of Wikipedia's article "Holm–Bonferroni method".
#[test]
fn holms_example() {
    let adjusted = stats::holm(&[0.01, 0.04, 0.03, 0.005]);
    let rounded: Vec<String> = adjusted.iter().map(|p| format!("{p:.3}")).collect();
    assert_eq!(rounded, ["0.030", "0.060", "0.060", "0.020"]);
    assert!(stats::holm(&[]).is_empty());
}

#[test]
fn a_missing_p_value_stays_missing_and_helps_no_other() {
    let adjusted = stats::holm(&[f64::NAN, 0.01, -f64::NAN, 0.5, -1.0, 7.0]);
    assert!(adjusted[0].is_nan() && adjusted[2].is_nan());
    assert_eq!(adjusted[1], 0.05);
    assert_eq!((adjusted[3], adjusted[4], adjusted[5]), (1.0, 0.0, 1.0));
}

/// The example of Wikipedia's article "Cohen's kappa": 50 grant proposals.
#[test]
fn kappa_of_grant_proposals() {
    let mut pairs = vec![(true, true); 20];
    pairs.extend([(true, false); 5]);
    pairs.extend([(false, true); 10]);
    pairs.extend([(false, false); 15]);
    let found = stats::agreement(&pairs).unwrap();
    assert_eq!(found.kappa, Some(0.4));
    assert_eq!(found.accuracy, 0.7);
    assert_eq!(found.confusion, [[15, 10], [5, 20]]);
}

/// A judge that passes everything agrees with people who pass everything, which shows nothing about the judge.
#[test]
fn agreement_on_one_class_is_no_agreement() {
    let found = stats::agreement(&[(true, true); 30]).unwrap();
    assert_eq!((found.kappa, found.accuracy), (None, 1.0));
    let lenient = [[(true, true); 9].as_slice(), &[(false, true)]].concat();
    let found = stats::agreement(&lenient).unwrap();
    assert_eq!((found.kappa, found.accuracy), (Some(0.0), 0.9));
    assert_eq!(stats::agreement(&[]), None);
}

/// The example of Wikipedia's article "Spearman's rank correlation coefficient": −29/165.
#[test]
fn spearman_of_iq_and_television() {
    let iq = [106.0, 86.0, 100.0, 101.0, 99.0, 103.0, 97.0, 113.0, 112.0, 110.0];
    let hours = [7.0, 0.0, 27.0, 50.0, 28.0, 29.0, 20.0, 12.0, 6.0, 17.0];
    let rho = stats::spearman(&iq, &hours).unwrap();
    assert!((rho + 29.0 / 165.0).abs() < 1e-15, "{rho}");
}

#[test]
fn equal_values_correlate_with_nothing() {
    // Their computed mean is not exactly 0.1, and the rest would look like a variance.
    let constant = [0.1; 3];
    let rising = [1.0, 2.0, 3.0];
    assert_eq!(stats::pearson(&constant, &rising), None);
    assert_eq!(stats::spearman(&rising, &constant), None);
    assert_eq!(stats::pearson(&rising, &rising[..2]), None);
    assert_eq!(stats::pearson(&[1.0], &[1.0]), None);
    assert_eq!(stats::pearson(&[1e200, 2e200], &[1.0, 2.0]), None);
    assert_eq!(
        stats::pearson(&[1e-100, 2e-100, 4e-100], &[1.0, 2.0, 4.0]),
        Some(1.0)
    );
}

#[test]
fn thresholds() {
    let scores = [(0.9, true), (0.8, true), (0.6, false), (0.3, false)];
    assert_eq!(stats::best_threshold(&scores), Some(0.8));
    // 0.9 and 0.5 agree equally well: the higher one.
    let tie = [(0.9, true), (0.7, false), (0.5, true), (0.3, false)];
    assert_eq!(stats::best_threshold(&tie), Some(0.9));
    // Equal scores cannot be separated.
    let mixed = [(0.5, true), (0.5, false), (0.5, true), (0.1, false)];
    assert_eq!(stats::best_threshold(&mixed), Some(0.5));
    for useless in [
        // A judge that prefers what people reject.
        [(0.9, false), (0.8, false), (0.2, true)].as_slice(),
        &[(0.9, true), (0.2, true)],
        &[(0.9, false), (0.2, false)],
        &[(0.5, true), (0.5, false)],
        &[],
    ] {
        assert_eq!(stats::best_threshold(useless), None, "{useless:?}");
    }
}

/// The bootstrap alone would call any two drops certain.
#[test]
fn few_pairs_are_never_significant() {
    for pairs in 2..=5 {
        let drops: Vec<f64> = (1..=pairs).map(|i| -0.9 - 0.01 * f64::from(i)).collect();
        let found = stats::paired_bootstrap(&drops, None, 10_000, 0.95, 1).unwrap();
        assert_eq!(found.p_value, 2_f64.powi(1 - pairs), "{pairs}");
        assert_eq!(stats::detectable_difference(&drops, 0.05, 0.8), None);
    }
    let six = [-0.9, -0.8, -0.7, -0.9, -0.8, -0.7];
    let found = stats::paired_bootstrap(&six, None, 10_000, 0.95, 1).unwrap();
    assert_eq!(found.p_value, 0.03125);
    assert!(found.interval.high < 0.0);
    assert!(stats::detectable_difference(&six, 0.05, 0.8).unwrap() > 0.0);
}

/// Ten trials of two cases are two cases, and cases without a change do not make four drops significant.
#[test]
fn trials_and_unchanged_cases_add_no_evidence() {
    let drops = [-0.5; 20];
    let clusters: Vec<usize> = (0..20).map(|i| i % 2).collect();
    let found = stats::paired_bootstrap(&drops, Some(&clusters), 10_000, 0.95, 1).unwrap();
    assert_eq!(found.p_value, 0.5);

    let mut mostly_unchanged = vec![0.0; 96];
    mostly_unchanged.extend([-1.0; 4]);
    let found = stats::paired_bootstrap(&mostly_unchanged, None, 10_000, 0.95, 1).unwrap();
    assert_eq!(found.p_value, 0.125);
}

#[test]
fn no_difference() {
    let found = stats::paired_bootstrap(&[0.0; 50], None, 1_000, 0.95, 1).unwrap();
    assert_eq!((found.mean_difference, found.p_value), (0.0, 1.0));
    assert_eq!(found.interval, Interval { low: 0.0, high: 0.0 });
    // They say nothing about how much others would vary: not "any drop would have been detected".
    assert_eq!(stats::detectable_difference(&[0.0; 50], 0.05, 0.8), None);
    assert_eq!(stats::detectable_difference(&[0.1; 50], 0.05, 0.8), None);
}

#[test]
fn rounding_is_no_difference() {
    // Four cases drop, and twenty have trials that cancel, whose sum is not exactly 0.
    let mut differences = vec![-1.0; 4];
    let mut clusters: Vec<usize> = (0..4).collect();
    for case in 4..24 {
        differences.extend([0.1, 0.2, -0.3]);
        clusters.extend([case; 3]);
    }
    assert_ne!(0.1 + 0.2 - 0.3, 0.0);
    let found = stats::paired_bootstrap(&differences, Some(&clusters), 10_000, 0.95, 1).unwrap();
    assert_eq!(found.p_value, 0.125);
}

#[test]
fn what_cannot_be_computed_is_none() {
    let wilson = [
        (0, 0, 0.95),
        (2, 1, 0.95),
        (1, 2, 0.0),
        (1, 2, 1.0),
        (1, 2, f64::NAN),
    ];
    for (successes, n, confidence) in wilson {
        assert_eq!(stats::wilson(successes, n, confidence), None);
    }
    for (n, c, k) in [(5, 3, 0), (5, 3, 6), (0, 0, 0), (0, 0, 1), (3, 4, 1)] {
        assert_eq!(stats::pass_at_k(n, c, k), None);
        assert_eq!(stats::pass_hat_k(n, c, k), None);
    }
    let cluster = |clusters: &[usize], values: &[f64]| {
        let paired = stats::paired_bootstrap(values, Some(clusters), 100, 0.95, 1);
        let interval = stats::mean_interval_clustered(values, clusters, 100, 0.95, 1);
        (paired.is_none(), interval.is_none())
    };
    assert_eq!(cluster(&[4, 9], &[1.0, 2.0]), (false, false));
    assert_eq!(cluster(&[4, 4], &[1.0, 2.0]), (true, true), "one cluster");
    assert_eq!(cluster(&[4], &[1.0, 2.0]), (true, true), "lengths differ");
    assert_eq!(cluster(&[], &[]), (true, true));

    let bootstrap = |values: &[f64], resamples, confidence| {
        stats::paired_bootstrap(values, None, resamples, confidence, 1).is_none()
    };
    assert!(!bootstrap(&[1.0, 2.0], 1, 0.95));
    assert!(bootstrap(&[1.0], 100, 0.95));
    assert!(bootstrap(&[1.0, 2.0], 0, 0.95));
    assert!(bootstrap(&[1.0, 2.0], 100, 1.0));
    assert!(bootstrap(&[f64::MAX, f64::MAX], 100, 0.95));

    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut values = [0.5, 0.25, 0.75, 0.5, 0.125, 0.25, 0.5, 0.75];
        let fine = values;
        values[5] = bad;
        assert!(bootstrap(&values, 100, 0.95), "{bad}");
        assert_eq!(cluster(&[0, 0, 1, 1, 2, 2, 3, 3], &values), (true, true));
        assert_eq!(stats::mean_interval_t(&values, 0.95), None);
        assert_eq!(stats::mean_interval_t(&fine, bad), None);
        assert_eq!(stats::detectable_difference(&values, 0.05, 0.8), None);
        assert_eq!(stats::detectable_difference(&fine, bad, 0.8), None);
        assert_eq!(stats::detectable_difference(&fine, 0.05, bad), None);
        assert_eq!(stats::pearson(&values, &fine), None);
        assert_eq!(stats::spearman(&fine, &values), None);
        assert_eq!(
            stats::best_threshold(&[(1.0, true), (0.1, false), (bad, true)]),
            None
        );
    }
    assert_eq!(stats::mean_interval_t(&[1.0], 0.95), None);
    let three_equal = stats::mean_interval_t(&[0.1; 3], 0.95);
    assert_eq!(three_equal, Some(Interval { low: 0.1, high: 0.1 }));
}
