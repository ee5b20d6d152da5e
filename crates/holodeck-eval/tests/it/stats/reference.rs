//! Compares with `tests/data/stats.json`, which `fixtures/stats/reference.py` computes.

use holodeck_eval::stats::{self, Interval};
use serde_json::Value;

const RESAMPLES: u32 = 10_000;

fn cases(section: &str, at_least: usize) -> Vec<Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/stats.json");
    let data: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(data["parameters"]["tested_resamples"], RESAMPLES);
    let cases = data[section].as_array().unwrap().clone();
    assert!(cases.len() >= at_least, "{section}: {}", cases.len());
    cases
}

fn number(case: &Value, field: &str) -> f64 {
    case[field].as_f64().unwrap()
}

fn count(case: &Value, field: &str) -> u64 {
    case[field].as_u64().unwrap()
}

fn numbers(list: &Value) -> Vec<f64> {
    let list = list.as_array().unwrap();
    list.iter().map(|value| value.as_f64().unwrap()).collect()
}

fn flag(value: &Value) -> bool {
    value.as_u64().unwrap() == 1
}

/// The values of a case: listed, or the pattern of the script.
fn values(case: &Value, field: &str) -> Vec<f64> {
    match case.get("pattern") {
        Some(n) => {
            let values = (0..n.as_u64().unwrap()).map(|i| ((i * 7919) % 1024) as f64 / 1024.0);
            values.collect()
        }
        None => numbers(&case[field]),
    }
}

#[track_caller]
fn assert_close(case: &Value, found: f64, expected: f64, tolerance: f64) {
    assert!(
        (found - expected).abs() <= tolerance,
        "{found:e}, expected {expected:e} ± {tolerance:e}: {case}"
    );
}

#[track_caller]
fn assert_interval(case: &Value, found: Option<Interval>, tolerance: f64) {
    let found = found.unwrap();
    assert_close(case, found.low, number(case, "low"), tolerance);
    assert_close(case, found.high, number(case, "high"), tolerance);
}

#[test]
fn wilson_equals_statsmodels() {
    for case in cases("wilson", 80) {
        let (successes, n) = (count(&case, "successes"), count(&case, "n"));
        let found = stats::wilson(successes, n, number(&case, "confidence"));
        assert_interval(&case, found, 1e-14);
    }
}

#[test]
fn pass_k_equals_the_formulas_in_whole_numbers() {
    for case in cases("pass_k", 200) {
        let (n, c, k) = (count(&case, "n"), count(&case, "c"), count(&case, "k"));
        // Relative, since both can be far below 1. Fractions that fit are exact to their rounding.
        let tolerance = if n <= 100 { 4.0 * f64::EPSILON } else { 1e-11 };
        for (field, found) in [
            ("pass_at_k", stats::pass_at_k(n, c, k).unwrap()),
            ("pass_hat_k", stats::pass_hat_k(n, c, k).unwrap()),
        ] {
            let expected = number(&case, field);
            assert_close(&case, found, expected, tolerance * expected);
        }
    }
}

#[test]
fn mcnemar_equals_statsmodels() {
    for case in cases("mcnemar", 80) {
        let (failing, passing) = (count(&case, "newly_failing"), count(&case, "newly_passing"));
        let found = stats::mcnemar_exact(failing, passing);
        assert_eq!((found.newly_failing, found.newly_passing), (failing, passing));
        let expected = number(&case, "p");
        assert_close(&case, found.p_value, expected, 1e-10 * expected);
    }
}

#[test]
fn holm_equals_statsmodels() {
    for case in cases("holm", 10) {
        let found = stats::holm(&numbers(&case["p"]));
        let expected = numbers(&case["adjusted"]);
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.into_iter().zip(expected) {
            assert_close(&case, found, expected, 1e-14);
        }
    }
}

#[test]
fn t_intervals_equal_scipy() {
    for case in cases("mean_t", 60) {
        let found = stats::mean_interval_t(&values(&case, "values"), number(&case, "confidence"));
        let width = number(&case, "high") - number(&case, "low");
        let size = number(&case, "high").abs();
        assert_interval(&case, found, 1e-9 * width + 1e-14 * size);
    }
}

#[test]
fn agreement_equals_scikit_learn() {
    for case in cases("kappa", 9) {
        let pairs: Vec<(bool, bool)> = case["pairs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|pair| (flag(&pair[0]), flag(&pair[1])))
            .collect();
        let found = stats::agreement(&pairs).unwrap();
        assert_eq!(serde_json::json!(found.confusion), case["confusion"], "{case}");
        assert_close(&case, found.accuracy, number(&case, "accuracy"), 1e-15);
        match case["kappa"].as_f64() {
            Some(kappa) => assert_close(&case, found.kappa.unwrap(), kappa, 1e-14),
            None => assert_eq!(found.kappa, None, "{case}"),
        }
    }
}

#[test]
fn intervals_of_kappa_equal_statsmodels() {
    let (mut with, mut without) = (0, 0);
    for case in cases("kappa", 9) {
        let confusion: [[u64; 2]; 2] = serde_json::from_value(case["confusion"].clone()).unwrap();
        let found = stats::kappa_interval(confusion, 0.95);
        if case["interval"].is_null() {
            assert_eq!(found, None, "{case}");
            without += 1;
            continue;
        }
        let expected = numbers(&case["interval"]);
        let found = found.unwrap();
        assert_close(&case, found.low, expected[0], 1e-12);
        assert_close(&case, found.high, expected[1], 1e-12);
        with += 1;
    }
    assert!(
        with >= 3 && without >= 3,
        "{with} with an interval, {without} without"
    );
    assert_eq!(stats::kappa_interval([[15, 10], [5, 20]], 95.0), None);
    assert_eq!(stats::kappa_interval([[0, 0], [0, 0]], 0.95), None);
}

#[test]
fn correlations_equal_scipy() {
    for case in cases("correlation", 8) {
        let (x, y) = (numbers(&case["x"]), numbers(&case["y"]));
        let pearson = stats::pearson(&x, &y).unwrap();
        assert_close(&case, pearson, number(&case, "pearson"), 1e-13);
        let spearman = stats::spearman(&x, &y).unwrap();
        assert_close(&case, spearman, number(&case, "spearman"), 1e-13);
    }
}

#[test]
fn detectable_differences_equal_the_formula_and_have_about_their_power() {
    for case in cases("detectable", 16) {
        let (alpha, power) = (number(&case, "alpha"), number(&case, "power"));
        let found = stats::detectable_difference(&values(&case, "differences"), alpha, power).unwrap();
        let expected = number(&case, "difference");
        assert_close(&case, found, expected, 1e-9 * expected);
        // The noncentral t distribution of statsmodels is the exact answer that the formula approximates.
        assert_close(&case, number(&case, "exact_power"), power, 0.03);
    }
}

#[test]
fn thresholds_are_the_best_of_all_scores() {
    for case in cases("thresholds", 12) {
        let labels = case["labels"].as_array().unwrap().iter().map(flag);
        let scores: Vec<(f64, bool)> = numbers(&case["scores"]).into_iter().zip(labels).collect();
        assert_eq!(
            stats::best_threshold(&scores),
            case["threshold"].as_f64(),
            "{case}"
        );
    }
}

/// Both sides draw at random. A quantile q of B resamples has the standard error √(q(1 − q)/B) / f, where f is the
/// density there, about the normal one; five of these are allowed. SciPy's side draws 20 times as many.
#[test]
fn bootstrap_intervals_equal_scipy_within_their_random_error() {
    for case in cases("bootstrap", 5) {
        let differences = numbers(&case["differences"]);
        let clusters = clusters(&case);
        for interval in case["intervals"].as_array().unwrap() {
            let confidence = number(interval, "confidence");
            let z: f64 = match confidence {
                0.9 => 1.645,
                0.95 => 1.960,
                0.99 => 2.576,
                other => panic!("{other}"),
            };
            let tail = (1.0 - confidence) / 2.0;
            let density = (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt();
            let random_error = (tail * (1.0 - tail) / f64::from(RESAMPLES)).sqrt() / density;
            let tolerance = 5.0 * random_error * number(&case, "standard_error");
            let found =
                stats::paired_bootstrap(&differences, clusters.as_deref(), RESAMPLES, confidence, 1).unwrap();
            assert_close(&case, found.mean_difference, number(&case, "mean"), 1e-14);
            assert_interval(interval, Some(found.interval), tolerance);
            assert_p_value(&case, found.p_value, 0.0);
            let numbers = clusters
                .clone()
                .unwrap_or_else(|| (0..differences.len()).collect());
            let alone = stats::mean_interval_clustered(&differences, &numbers, RESAMPLES, confidence, 1);
            assert_eq!(alone, Some(found.interval));
        }
    }
}

#[test]
fn bootstrap_p_values_equal_those_of_all_resamples() {
    for (case, floor) in cases("enumerated", 4).into_iter().zip([0.0, 0.0, 0.0625, 0.0]) {
        let values = numbers(&case["values"]);
        let found = stats::paired_bootstrap(&values, None, RESAMPLES, 0.95, 7).unwrap();
        assert_p_value(&case, found.p_value, floor);
    }
}

fn clusters(case: &Value) -> Option<Vec<usize>> {
    let numbers = case["clusters"].as_array()?;
    let clusters = numbers
        .iter()
        .map(|c| usize::try_from(c.as_u64().unwrap()).unwrap());
    Some(clusters.collect())
}

/// Five standard errors of a share of the resamples, twice since both tails count, and the "+ 1".
#[track_caller]
fn assert_p_value(case: &Value, found: f64, floor: f64) {
    let expected = number(case, "p");
    let tail = expected / 2.0;
    let resamples = f64::from(RESAMPLES);
    let tolerance = 2.0 * (5.0 * (tail * (1.0 - tail) / resamples).sqrt() + 1.0 / resamples);
    assert_close(case, found, expected.max(floor), tolerance);
}
