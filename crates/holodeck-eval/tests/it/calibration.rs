//! Tests of the agreement with labels, for judges that are known to be good or bad.
#![allow(clippy::float_cmp, reason = "what must be exact is compared exactly")]

use holodeck_eval::{
    calibration::{Calibration, LabelledVerdict, MIN_LABELS, Shortfall},
    stats::Interval,
};

/// Twenty answers of all lengths, half of them passed by people, graded by `judge` at the threshold 0.5.
fn calibrate(judge: impl Fn(bool, usize) -> f64) -> Calibration {
    let verdicts: Vec<LabelledVerdict> = (0..20_usize)
        .map(|index| {
            // 0, 3, 4, 7, 8 … pass: lengths of both classes have the same mean.
            let (people, length) = (matches!(index % 4, 0 | 3), 10 + index);
            let score = judge(people, length);
            LabelledVerdict {
                people,
                judge: score >= 0.5,
                score,
                length,
            }
        })
        .collect();
    Calibration::of(&verdicts).unwrap()
}

#[test]
fn a_judge_that_passes_everything_agrees_as_by_chance() {
    let found = calibrate(|_, _| 1.0);
    assert_eq!(found.confusion, [[0, 10], [0, 10]]);
    assert_eq!(found.agreement, 0.5);
    let kappa = found.kappa.unwrap();
    assert_eq!(kappa.value, 0.0);
    assert_eq!(kappa.interval, None);
    assert_eq!(kappa.suggested, None);
    assert_eq!(found.verbosity.judge, None);
}

#[test]
fn a_perfect_judge_has_a_kappa_of_one_but_no_interval_of_width_zero() {
    let found = calibrate(|people, _| if people { 0.9 } else { 0.2 });
    let kappa = found.kappa.unwrap();
    assert_eq!(kappa.value, 1.0);
    assert_eq!(kappa.interval, None);
    let suggested = kappa.suggested.unwrap();
    assert_eq!((suggested.threshold, suggested.kappa), (0.9, 1.0));
}

#[test]
fn a_judge_that_is_too_kind_gets_a_higher_threshold() {
    let found = calibrate(|people, _| if people { 0.9 } else { 0.6 });
    let kappa = found.kappa.unwrap();
    assert_eq!(kappa.value, 0.0);
    let suggested = kappa.suggested.unwrap();
    assert_eq!((suggested.threshold, suggested.kappa), (0.9, 1.0));
}

#[test]
fn a_judge_that_decides_by_length_is_found_out() {
    let found = calibrate(|_, length| length as f64 / 40.0);
    assert_eq!(found.confusion, [[5, 5], [5, 5]]);
    assert_eq!(found.kappa.unwrap().value, 0.0);
    let verbosity = found.verbosity;
    assert!((verbosity.judge.unwrap() - 1.0).abs() < 1e-12, "{verbosity:?}");
    assert!(verbosity.people.unwrap().abs() < 1e-12, "{verbosity:?}");
    assert!(verbosity.error.unwrap() > 0.2, "{verbosity:?}");
    // The same judge is not biased where people prefer long answers as well.
    let verdicts: Vec<LabelledVerdict> = (0..20_usize)
        .map(|length| LabelledVerdict {
            people: length >= 10,
            judge: length >= 10,
            score: f64::from(u8::from(length >= 10)),
            length,
        })
        .collect();
    let verbosity = Calibration::of(&verdicts).unwrap().verbosity;
    assert_eq!(verbosity.judge, verbosity.people);
    assert_eq!(verbosity.error, None);
}

#[test]
fn a_partial_agreement_has_the_interval_of_statsmodels() {
    let of = |people, judge, n| {
        let verdict = LabelledVerdict {
            people,
            judge,
            score: f64::from(u8::from(judge)),
            length: 1,
        };
        std::iter::repeat_n(verdict, n)
    };
    let verdicts: Vec<LabelledVerdict> = of(true, true, 20)
        .chain(of(true, false, 5))
        .chain(of(false, true, 10))
        .chain(of(false, false, 15))
        .collect();
    let kappa = Calibration::of(&verdicts).unwrap().kappa.unwrap();
    assert!((kappa.value - 0.4).abs() < 1e-14);
    let Interval { low, high } = kappa.interval.unwrap();
    assert_eq!(format!("{low:.4} {high:.4}"), "0.1511 0.6489");
}

#[test]
fn too_few_labels_and_labels_of_one_class_have_no_kappa() {
    let verdict = |people: bool| LabelledVerdict {
        people,
        judge: people,
        score: f64::from(u8::from(people)),
        length: 5,
    };
    let few: Vec<LabelledVerdict> = (1..MIN_LABELS).map(|index| verdict(index % 2 == 0)).collect();
    assert_eq!(Calibration::of(&few).unwrap().kappa, Err(Shortfall::TooFew));
    for people in [false, true] {
        let equal = vec![verdict(people); 50];
        let found = Calibration::of(&equal).unwrap();
        assert_eq!(found.agreement, 1.0);
        assert_eq!(found.kappa, Err(Shortfall::OneClass));
        // Also if the judge differs: κ would be 0 whatever the judge does.
        let mut mixed = equal;
        mixed[0].judge = !people;
        assert_eq!(Calibration::of(&mixed).unwrap().kappa, Err(Shortfall::OneClass));
    }
}

#[test]
fn nothing_and_broken_scores_are_no_calibration() {
    assert_eq!(Calibration::of(&[]), None);
    let broken = LabelledVerdict {
        people: true,
        judge: true,
        score: f64::NAN,
        length: 5,
    };
    assert_eq!(Calibration::of(&[broken; 20]), None);
}
