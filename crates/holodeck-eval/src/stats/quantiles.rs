//! Quantiles of the normal and of Student's t distribution.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};

/// Steps of bisection; a double has 53 bits, and small angles need some more.
const BISECTIONS: u32 = 96;

/// The `z` with P(Z <= z) = `p` for 0 < `p` < 1, to about 16 digits.
///
/// Source: Wichura (1988), Algorithm AS 241 (PPND16), Applied Statistics 37(3).
pub(super) fn normal(p: f64) -> f64 {
    let from_middle = p - 0.5;
    if from_middle.abs() <= 0.425 {
        let r = 0.180_625 - from_middle * from_middle;
        return from_middle * polynomial(r, &MIDDLE_TOP) / polynomial(r, &MIDDLE_BOTTOM);
    }
    let tail = if from_middle < 0.0 { p } else { 1.0 - p };
    let r = (-tail.ln()).sqrt();
    let z = if r <= 5.0 {
        polynomial(r - 1.6, &NEAR_TOP) / polynomial(r - 1.6, &NEAR_BOTTOM)
    } else {
        polynomial(r - 5.0, &FAR_TOP) / polynomial(r - 5.0, &FAR_BOTTOM)
    };
    z.copysign(from_middle)
}

/// The value of a polynomial whose coefficients begin with the constant.
fn polynomial(x: f64, coefficients: &[f64]) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c)
}

const MIDDLE_TOP: [f64; 8] = [
    3.387_132_872_796_366_6,
    133.141_667_891_784_38,
    1_971.590_950_306_551_3,
    13_731.693_765_509_46,
    45_921.953_931_549_87,
    67_265.770_927_008_7,
    33_430.575_583_588_13,
    2_509.080_928_730_122_7,
];
const MIDDLE_BOTTOM: [f64; 8] = [
    1.0,
    42.313_330_701_600_91,
    687.187_007_492_057_9,
    5_394.196_021_424_751,
    21_213.794_301_586_597,
    39_307.895_800_092_71,
    28_729.085_735_721_943,
    5_226.495_278_852_854,
];
const NEAR_TOP: [f64; 8] = [
    1.423_437_110_749_683_5,
    4.630_337_846_156_546,
    5.769_497_221_460_691,
    3.647_848_324_763_204_5,
    1.270_458_252_452_368_4,
    0.241_780_725_177_450_6,
    2.272_384_498_926_918_4e-2,
    7.745_450_142_783_414e-4,
];
const NEAR_BOTTOM: [f64; 8] = [
    1.0,
    2.053_191_626_637_759,
    1.676_384_830_183_803_8,
    0.689_767_334_985_1,
    0.148_103_976_427_480_08,
    1.519_866_656_361_645_7e-2,
    5.475_938_084_995_345e-4,
    1.050_750_071_644_416_9e-9,
];
const FAR_TOP: [f64; 8] = [
    6.657_904_643_501_103,
    5.463_784_911_164_114,
    1.784_826_539_917_291_3,
    0.296_560_571_828_504_87,
    2.653_218_952_657_612_4e-2,
    1.242_660_947_388_078_4e-3,
    2.711_555_568_743_487_6e-5,
    2.010_334_399_292_288_1e-7,
];
const FAR_BOTTOM: [f64; 8] = [
    1.0,
    0.599_832_206_555_888,
    0.136_929_880_922_735_8,
    1.487_536_129_085_061_5e-2,
    7.868_691_311_456_133e-4,
    1.846_318_317_510_054_8e-5,
    1.421_511_758_316_446e-7,
    2.044_263_103_389_939_8e-15,
];

/// The `t` with P(T <= t) = `p` for 0 < `p` < 1 and `freedom` >= 1 degrees of freedom.
///
/// Up to 1,000 degrees by bisection of the closed form, with a relative error below 1e-9 for `p` in 1e-6 to 1 - 1e-6;
/// above by the expansion in 1 / `freedom` (Abramowitz and Stegun, 26.7.5), whose error is smaller still there.
pub(super) fn student_t(p: f64, freedom: usize) -> f64 {
    if freedom > 1_000 {
        return expanded_t(normal(p), freedom as f64);
    }
    let target = (2.0 * p - 1.0).abs();
    let (mut low, mut high) = (0.0, FRAC_PI_2);
    for _ in 0..BISECTIONS {
        let middle = 0.5 * (low + high);
        if central_probability(middle, freedom) < target {
            low = middle;
        } else {
            high = middle;
        }
    }
    let t = (freedom as f64).sqrt() * (0.5 * (low + high)).tan();
    t.copysign(p - 0.5)
}

/// P(|T| <= tan(`angle`) * sqrt(`freedom`)), a finite sum of powers of the cosine.
///
/// Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
fn central_probability(angle: f64, freedom: usize) -> f64 {
    let (sine, cosine) = angle.sin_cos();
    let odd = freedom % 2 == 1;
    let mut term = if odd { cosine } else { 1.0 };
    let mut sum = 0.0;
    // The numerators of the factors between neighbouring terms: 2, 4, 6, ... if odd, else 1, 3, 5, ...
    let mut factor = if odd { 2.0 } else { 1.0 };
    for _ in 0..freedom / 2 {
        sum += term;
        term *= factor / (factor + 1.0) * cosine * cosine;
        factor += 2.0;
    }
    if odd {
        FRAC_2_PI * (angle + sine * sum)
    } else {
        sine * sum
    }
}

fn expanded_t(z: f64, freedom: f64) -> f64 {
    let square = z * z;
    let terms = [
        1.0,
        polynomial(square, &[1.0, 1.0]) / 4.0,
        polynomial(square, &[3.0, 16.0, 5.0]) / 96.0,
        polynomial(square, &[-15.0, 17.0, 19.0, 3.0]) / 384.0,
        polynomial(square, &[-945.0, -1920.0, 1482.0, 776.0, 79.0]) / 92_160.0,
    ];
    z * polynomial(freedom.recip(), &terms)
}

#[cfg(test)]
mod tests {
    use super::{normal, student_t};
    use crate::stats::reference;

    #[test]
    fn quantiles_equal_scipy() {
        let reference = reference();
        let cases = reference["quantiles"].as_array().unwrap();
        assert!(cases.len() > 100, "{}", cases.len());
        for case in cases {
            let (p, expected) = (case["p"].as_f64().unwrap(), case["x"].as_f64().unwrap());
            let (x, tolerance) = match case["df"].as_u64() {
                Some(df) => (student_t(p, usize::try_from(df).unwrap()), 1e-9),
                None => (normal(p), 1e-14),
            };
            assert!(
                (x - expected).abs() <= tolerance * expected.abs().max(1e-3),
                "{case}: {x:e}"
            );
        }
    }

    #[test]
    fn the_middle_is_zero() {
        assert!(normal(0.5).abs() < f64::EPSILON);
        for freedom in [1, 2, 7, 1_000, 1_001] {
            assert!(student_t(0.5, freedom).abs() < 1e-12, "{freedom}");
        }
    }
}
