//! Properties of the statistics that hold for all inputs, such as symmetry and monotonicity.

use holodeck_eval::stats;
use proptest::prelude::*;

fn trials() -> impl Strategy<Value = (u64, u64)> {
    prop_oneof![1_u64..40, 1_u64..100_000].prop_flat_map(|n| (Just(n), 0..=n))
}

fn scores(length: impl Into<prop::collection::SizeRange>) -> impl Strategy<Value = Vec<f64>> {
    // Many equal values, as scores have.
    let score = prop_oneof![
        (-10_i8..=10).prop_map(|tenths| f64::from(tenths) / 10.0),
        -1.0..1.0
    ];
    prop::collection::vec(score, length)
}

fn closely(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-12 * a.abs().max(b.abs()).max(1.0)
}

proptest! {
    #[test]
    fn wilson_contains_the_rate_and_grows_with_confidence((n, c) in trials(), confidence in 0.01..0.98) {
        let rate = c as f64 / n as f64;
        let narrow = stats::wilson(c, n, confidence).unwrap();
        let wide = stats::wilson(c, n, confidence + 0.01).unwrap();
        prop_assert!(0.0 <= wide.low && wide.low <= narrow.low && narrow.low <= rate);
        prop_assert!(rate <= narrow.high && narrow.high <= wide.high && wide.high <= 1.0);
        prop_assert!(narrow.low < narrow.high);
        let failures = stats::wilson(n - c, n, confidence).unwrap();
        prop_assert!(closely(failures.low, 1.0 - narrow.high) && closely(failures.high, 1.0 - narrow.low));
    }

    #[test]
    fn pass_k_is_monotone((n, c) in trials(), any_k: u64) {
        let k = 1 + any_k % n.min(2_000);
        let (any, all) = (stats::pass_at_k(n, c, k).unwrap(), stats::pass_hat_k(n, c, k).unwrap());
        let rate = c as f64 / n as f64;
        let slack = 1e-10;
        prop_assert!((0.0..=1.0).contains(&any) && (0.0..=1.0).contains(&all));
        prop_assert!(all <= rate + slack && rate <= any + slack);
        prop_assert_eq!(stats::pass_at_k(n, c, 1), stats::pass_hat_k(n, c, 1));
        prop_assert_eq!(any == 0.0, c == 0);
        prop_assert!(closely(any, 1.0 - stats::pass_hat_k(n, n - c, k).unwrap()));
        if k < n {
            prop_assert!(stats::pass_at_k(n, c, k + 1).unwrap() >= any - slack);
            prop_assert!(stats::pass_hat_k(n, c, k + 1).unwrap() <= all + slack);
        }
        if c < n {
            prop_assert!(stats::pass_at_k(n, c + 1, k).unwrap() >= any - slack);
            prop_assert!(stats::pass_hat_k(n, c + 1, k).unwrap() >= all - slack);
        }
    }

    #[test]
    fn mcnemar_is_symmetric_and_falls_with_more_flips(b in 0_u64..600, c in 0_u64..600) {
        let p = stats::mcnemar_exact(b, c).p_value;
        prop_assert!((0.0..=1.0).contains(&p));
        prop_assert_eq!(p, stats::mcnemar_exact(c, b).p_value);
        if b >= c {
            prop_assert!(stats::mcnemar_exact(b + 1, c).p_value <= p);
        }
    }

    #[test]
    fn needed_flips_are_enough_and_one_less_is_not(alpha in 1e-12..1.0) {
        let needed = stats::mcnemar_needed(alpha);
        prop_assert!(stats::mcnemar_exact(needed, 0).p_value < alpha);
        prop_assert!(stats::mcnemar_exact(needed - 1, 0).p_value >= alpha);
    }

    #[test]
    fn holm_only_raises_and_keeps_the_order(p_values in prop::collection::vec(0.0..=1.0, 0..30)) {
        let adjusted = stats::holm(&p_values);
        prop_assert_eq!(adjusted.len(), p_values.len());
        let m = p_values.len() as f64;
        for (p, a) in p_values.iter().zip(&adjusted) {
            prop_assert!(p <= a && *a <= 1.0 && *a <= p * m);
            for (other_p, other_a) in p_values.iter().zip(&adjusted) {
                prop_assert!(p > other_p || a <= other_a);
            }
        }
        let mut reversed: Vec<f64> = p_values.iter().rev().copied().collect();
        reversed = stats::holm(&reversed);
        reversed.reverse();
        prop_assert_eq!(reversed, adjusted);
    }

    #[test]
    fn t_intervals_contain_the_mean_and_move_with_the_values(values in scores(2..30), shift in -5.0_f64..5.0) {
        let interval = stats::mean_interval_t(&values, 0.95).unwrap();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        prop_assert!(interval.low <= mean + 1e-12 && mean <= interval.high + 1e-12);
        let moved: Vec<f64> = values.iter().map(|value| value + shift).collect();
        let moved = stats::mean_interval_t(&moved, 0.95).unwrap();
        prop_assert!((moved.low - shift - interval.low).abs() < 1e-9);
        prop_assert!((moved.high - shift - interval.high).abs() < 1e-9);
    }

    #[test]
    fn bootstrap_is_repeatable_symmetric_and_within_the_values(values in scores(2..30), seed: u64) {
        let found = stats::paired_bootstrap(&values, None, 200, 0.9, seed).unwrap();
        prop_assert_eq!(Some(found), stats::paired_bootstrap(&values, None, 200, 0.9, seed));
        let smallest = values.iter().copied().fold(f64::INFINITY, f64::min);
        let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        prop_assert!(smallest - 1e-12 <= found.interval.low && found.interval.low <= found.interval.high);
        prop_assert!(found.interval.high <= largest + 1e-12);
        let changed = values.iter().filter(|value| **value != 0.0).count();
        let floor = 2_f64.powi(1 - i32::try_from(changed).unwrap()).min(1.0);
        prop_assert!(found.p_value >= floor.max(2.0 / 201.0) && found.p_value <= 1.0);

        let negated: Vec<f64> = values.iter().map(|value| -value).collect();
        let negated = stats::paired_bootstrap(&negated, None, 200, 0.9, seed).unwrap();
        prop_assert_eq!(negated.p_value, found.p_value);
        prop_assert_eq!(negated.mean_difference, -found.mean_difference);
        prop_assert!(closely(negated.interval.low, -found.interval.high));
        prop_assert!(closely(negated.interval.high, -found.interval.low));
    }

    #[test]
    fn clusters_of_one_are_the_values(values in scores(2..20), first in 0_usize..1000, seed: u64) {
        let clusters: Vec<usize> = (0..values.len()).map(|index| first + 3 * index).collect();
        let clustered = stats::paired_bootstrap(&values, Some(&clusters), 100, 0.95, seed);
        prop_assert_eq!(clustered, stats::paired_bootstrap(&values, None, 100, 0.95, seed));
    }

    #[test]
    fn correlations_are_symmetric_and_ranks_ignore_the_scale(pairs in prop::collection::vec((0_u8..9, -1.0..1.0), 2..40)) {
        let (x, y): (Vec<f64>, Vec<f64>) = pairs.iter().map(|(x, y)| (f64::from(*x), *y)).unzip();
        let constant = x.iter().all(|value| *value == x[0]);
        prop_assert_eq!(stats::pearson(&x, &y).is_none(), constant);
        prop_assert_eq!(stats::pearson(&x, &y), stats::pearson(&y, &x));
        let cubes: Vec<f64> = x.iter().map(|value| value.powi(3)).collect();
        prop_assert_eq!(stats::spearman(&x, &y), stats::spearman(&cubes, &y));
        if let (Some(pearson), Some(spearman)) = (stats::pearson(&x, &y), stats::spearman(&x, &y)) {
            prop_assert!((-1.0..=1.0).contains(&pearson) && (-1.0..=1.0).contains(&spearman));
        }
    }

    #[test]
    fn no_threshold_is_better_than_the_best(scores in prop::collection::vec((0_u8..12, any::<bool>()), 0..40)) {
        let scores: Vec<(f64, bool)> = scores.iter().map(|(score, label)| (f64::from(*score), *label)).collect();
        let kappa = |threshold: f64| {
            let pairs: Vec<(bool, bool)> =
                scores.iter().map(|(score, label)| (*label, *score >= threshold)).collect();
            stats::agreement(&pairs).and_then(|agreement| agreement.kappa).unwrap_or(0.0)
        };
        let best = stats::best_threshold(&scores);
        let reached = best.map_or(0.0, kappa);
        prop_assert_eq!(best.is_some(), reached > 0.0);
        for other in 0..=12 {
            let other = f64::from(other);
            prop_assert!(kappa(other) <= reached);
            if best.is_some_and(|best| other > best) {
                prop_assert!(kappa(other) < reached);
            }
        }
    }
}
