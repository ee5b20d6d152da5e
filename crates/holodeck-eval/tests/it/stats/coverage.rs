//! Simulations with a known truth: an interval of 95 % contains it in about 95 % of all samples. With 2,000 samples the
//! random error of such a share is 0.5 points.

use holodeck_eval::stats::{self, Interval};

use super::Random;

/// The share of `samples` in which `contained` is true.
fn share(samples: u32, mut contained: impl FnMut(&mut Random) -> bool) -> f64 {
    let mut random = Random(0x5eed_1234_5678_9abc);
    let count = (0..samples).filter(|_| contained(&mut random)).count();
    count as f64 / f64::from(samples)
}

fn contains(interval: Option<Interval>, truth: f64) -> bool {
    let Interval { low, high } = interval.unwrap();
    low <= truth && truth <= high
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn wilson_covers_the_rate() {
    let passes = |random: &mut Random, n, rate| (0..n).filter(|_| random.uniform() < rate).count() as u64;
    for (n, rate) in [
        (15, 0.6),
        (20, 0.9),
        (50, 0.2),
        (100, 0.9),
        (200, 0.1),
        (500, 0.97),
    ] {
        let covered = share(2_000, |random| {
            contains(stats::wilson(passes(random, n, rate), n, 0.95), rate)
        });
        assert!((0.93..=0.97).contains(&covered), "{n}, {rate}: {covered}");
    }
    // The usual p ± z √(p(1 − p)/n) does not, so this test can fail.
    let covered = share(2_000, |random| {
        let p = passes(random, 20, 0.9) as f64 / 20.0;
        let half = 1.96 * (p * (1.0 - p) / 20.0).sqrt();
        (p - half..=p + half).contains(&0.9)
    });
    assert!(covered < 0.91, "{covered}");
}

#[test]
fn t_covers_the_mean_of_few_values() {
    for (n, confidence) in [(3, 0.95), (6, 0.95), (6, 0.8), (30, 0.95)] {
        let covered = share(2_000, |random| {
            let values: Vec<f64> = (0..n).map(|_| 0.7 + 0.1 * random.normal()).collect();
            contains(stats::mean_interval_t(&values, confidence), 0.7)
        });
        assert!(
            (covered - confidence).abs() < 0.02,
            "{n}, {confidence}: {covered}"
        );
    }
}

/// 30 cases of different difficulty with 8 trials each: the trials of a case resemble each other.
#[test]
fn clusters_cover_where_independent_values_do_not() {
    let clusters: Vec<usize> = (0..240).map(|index| index / 8).collect();
    let sample = |random: &mut Random| -> Vec<f64> {
        (0..30)
            .flat_map(|_| {
                let case = 0.6 + 0.2 * random.normal();
                (0..8).map(|_| case + 0.05 * random.normal()).collect::<Vec<_>>()
            })
            .collect()
    };
    let clustered = share(400, |random| {
        let interval = stats::mean_interval_clustered(&sample(random), &clusters, 400, 0.95, 11);
        contains(interval, 0.6)
    });
    assert!((0.90..=0.98).contains(&clustered), "{clustered}");
    let independent = share(400, |random| {
        contains(stats::mean_interval_t(&sample(random), 0.95), 0.6)
    });
    assert!(independent < 0.65, "{independent}");
}

/// Without a change a test at 0.05 rejects about 5 % of the time, also for scores that mostly do not change and for
/// trials within cases.
#[test]
fn the_bootstrap_rejects_seldom_without_a_change() {
    let rejects = |differences: &[f64], clusters: Option<&[usize]>| {
        let found = stats::paired_bootstrap(differences, clusters, 400, 0.95, 5).unwrap();
        found.p_value < 0.05
    };
    let normal = share(500, |random| {
        let differences: Vec<f64> = (0..30).map(|_| 0.2 * random.normal()).collect();
        rejects(&differences, None)
    });
    assert!((0.02..=0.09).contains(&normal), "{normal}");

    let seldom_changed = share(500, |random| {
        let changed = |random: &mut Random| match random.uniform() {
            below if below < 0.05 => -1.0,
            below if below < 0.10 => 1.0,
            _ => 0.0,
        };
        let differences: Vec<f64> = (0..60).map(|_| changed(random)).collect();
        rejects(&differences, None)
    });
    assert!(seldom_changed <= 0.06, "{seldom_changed}");

    let clusters: Vec<usize> = (0..100).map(|index| index / 4).collect();
    let trials = |random: &mut Random| -> Vec<f64> {
        let cases: Vec<f64> = (0..25).map(|_| 0.2 * random.normal()).collect();
        clusters
            .iter()
            .map(|case| cases[*case] + 0.05 * random.normal())
            .collect()
    };
    let clustered = share(300, |random| rejects(&trials(random), Some(&clusters)));
    assert!((0.01..=0.10).contains(&clustered), "{clustered}");
    let as_if_independent = share(300, |random| rejects(&trials(random), None));
    assert!(as_if_independent > 0.2, "{as_if_independent}");
}

/// A drop of the size that is said to be detectable is detected with about the promised probability, a third of it is not.
#[test]
fn a_detectable_drop_is_detected() {
    let (n, deviation) = (40, 0.2);
    // The variation is known here, so the reported size depends on nothing else.
    let alternating: Vec<f64> = (0..n)
        .map(|i| if i % 2 == 0 { deviation } else { -deviation })
        .collect();
    let drop = stats::detectable_difference(&alternating, 0.05, 0.8).unwrap();
    let detected = |drop: f64| {
        share(500, |random| {
            let differences: Vec<f64> = (0..n).map(|_| deviation * random.normal() - drop).collect();
            let found = stats::paired_bootstrap(&differences, None, 400, 0.95, 5).unwrap();
            found.p_value < 0.05 && mean(&differences) < 0.0
        })
    };
    let (whole, third) = (detected(drop), detected(drop / 3.0));
    assert!((0.75..=0.88).contains(&whole), "{whole}");
    assert!(third < 0.3, "{third}");
}
