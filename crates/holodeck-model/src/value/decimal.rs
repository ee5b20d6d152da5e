//! Exact decimal numbers for comparing texts, arguments and scores: doubles cannot distinguish large neighbouring integers,
//! and their sums and products are not those of the numbers that a person wrote.

use std::cmp::Ordering;

use serde_json::Number;

/// Larger exponents are rejected: aligning two numbers costs a digit per step.
const MAX_EXPONENT: i64 = 5_000;

/// How many digits a quotient has at least before it is cut off: more than a double can tell apart.
const QUOTIENT_DIGITS: usize = 30;

/// From here on every double is an integer.
const INTEGER_FROM: f64 = 9_007_199_254_740_992.0;

/// `±digits × 10^exponent`; the digits neither begin nor end with zeros.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decimal {
    negative: bool,
    /// Most significant first, each 0 to 9; empty for zero.
    digits: Vec<u8>,
    exponent: i64,
}

impl Decimal {
    /// Reads `12`, `-1.5`, `.5`, `1e-3`. `None` if the text is something else or its exponent is beyond ±5000.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, unsigned) = match text.strip_prefix(['-', '+']) {
            Some(rest) => (text.starts_with('-'), rest),
            None => (false, text),
        };
        let (number, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((number, exponent)) => (number, exponent.parse::<i64>().ok()?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let is_number = !(whole.is_empty() && fraction.is_empty());
        let mut digits = Vec::with_capacity(number.len());
        for byte in whole.bytes().chain(fraction.bytes()) {
            digits.push(byte.is_ascii_digit().then_some(byte.wrapping_sub(b'0'))?);
        }
        let places = i64::try_from(fraction.len()).ok()?;
        let in_range = exponent.abs() <= MAX_EXPONENT;
        (is_number && in_range).then(|| Self::normalise(negative, digits, exponent - places))
    }

    /// The value of a double: its shortest decimal notation, which is what a person wrote, or its integer value.
    /// `None` if it is not finite.
    pub fn from_f64(number: f64) -> Option<Self> {
        if number.abs() >= INTEGER_FROM {
            Self::parse(&format!("{number:.0}"))
        } else {
            Self::parse(&format!("{number:e}"))
        }
    }

    /// The value of a JSON number.
    pub fn from_number(number: &Number) -> Option<Self> {
        match number.as_f64().filter(|_| number.is_f64()) {
            Some(double) => Self::from_f64(double),
            None => Self::parse(&number.to_string()),
        }
    }

    fn normalise(negative: bool, mut digits: Vec<u8>, mut exponent: i64) -> Self {
        while digits.last() == Some(&0) {
            digits.pop();
            exponent += 1;
        }
        let leading = digits.iter().take_while(|digit| **digit == 0).count();
        digits.drain(..leading);
        if digits.is_empty() {
            return Self::default();
        }
        Self {
            negative,
            digits,
            exponent,
        }
    }

    /// The mean of doubles; `None` if there are none, or one is not finite. Digits beyond those of a double are cut off, so
    /// that a mean is never larger than the exact one.
    pub fn mean(numbers: &[f64]) -> Option<f64> {
        let count = u32::try_from(numbers.len()).ok()?;
        let mut sum = Self::default();
        for number in numbers {
            sum = sum.plus(&Self::from_f64(*number)?);
        }
        Some(sum.divided_by(count)?.to_f64())
    }

    /// The double of this value. If there is none, the nearest one that is not further from zero: a score that is below a
    /// threshold stays below it.
    pub fn to_f64(&self) -> f64 {
        let digits: String = self.digits.iter().map(|digit| char::from(b'0' + digit)).collect();
        let sign = if self.negative { "-" } else { "" };
        let text = if digits.is_empty() { "0" } else { digits.as_str() };
        let number: f64 = format!("{sign}{text}e{}", self.exponent)
            .parse()
            .unwrap_or_default();
        match Self::from_f64(number) {
            Some(exact) if exact.cmp_magnitude(self) != Ordering::Greater => number,
            _ if self.negative => number.next_up(),
            _ => number.next_down(),
        }
    }

    /// Moves the decimal point: the value times ten to the power of `places`.
    #[must_use]
    pub fn scaled(self, places: i64) -> Self {
        Self::normalise(self.negative, self.digits, self.exponent + places)
    }

    /// The sum.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        if self.negative != other.negative {
            let magnitude = self.clone().abs().distance(&other.clone().abs());
            let negative = if self.cmp_magnitude(other) == Ordering::Less {
                other.negative
            } else {
                self.negative
            };
            return Self::normalise(negative, magnitude.digits, magnitude.exponent);
        }
        let exponent = self.exponent.min(other.exponent);
        let digits = add(&self.digits_from(exponent), &other.digits_from(exponent));
        Self::normalise(self.negative, digits, exponent)
    }

    /// `self - other`.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        self.plus(&Self {
            negative: !other.negative && !other.digits.is_empty(),
            ..other.clone()
        })
    }

    /// Divides it; `None` if the divisor is zero. Digits beyond [`QUOTIENT_DIGITS`] are cut off, never rounded up.
    pub fn divided_by(&self, divisor: u32) -> Option<Self> {
        let divisor = u64::from(divisor);
        let mut digits = Vec::with_capacity(QUOTIENT_DIGITS);
        let mut given = self.digits.iter();
        let (mut rest, mut exponent, mut significant) = (0_u64, self.exponent, 0_usize);
        loop {
            match given.next() {
                Some(digit) => rest = rest * 10 + u64::from(*digit),
                None if rest == 0 || significant >= QUOTIENT_DIGITS => break,
                None => {
                    rest *= 10;
                    exponent -= 1;
                }
            }
            let digit = rest.checked_div(divisor)?;
            rest -= digit * divisor;
            significant += usize::from(significant > 0 || digit > 0);
            digits.push(u8::try_from(digit).ok()?);
        }
        (divisor > 0).then(|| Self::normalise(self.negative, digits, exponent))
    }

    /// Without its sign.
    #[must_use]
    pub fn abs(self) -> Self {
        Self {
            negative: false,
            ..self
        }
    }

    /// `|self - other|`.
    pub fn distance(&self, other: &Self) -> Self {
        let exponent = self.exponent.min(other.exponent);
        let (one, two) = (self.digits_from(exponent), other.digits_from(exponent));
        let digits = if self.negative != other.negative {
            add(&one, &two)
        } else if self.cmp_magnitude(other) == Ordering::Less {
            subtract(&two, &one)
        } else {
            subtract(&one, &two)
        };
        Self::normalise(false, digits, exponent)
    }

    /// The product.
    pub fn times(&self, other: &Self) -> Self {
        let mut product = vec![0; self.digits.len() + other.digits.len()];
        for (shift, digit) in other.digits.iter().rev().enumerate() {
            let mut carry = 0;
            let mut digits = self.digits.iter().rev();
            for place in product.iter_mut().rev().skip(shift) {
                let sum = *place + digit * digits.next().copied().unwrap_or(0) + carry;
                *place = sum % 10;
                carry = sum / 10;
            }
        }
        Self::normalise(
            self.negative != other.negative,
            product,
            self.exponent + other.exponent,
        )
    }

    /// The digits down to the place of `exponent`, which is at most the own exponent.
    fn digits_from(&self, exponent: i64) -> Vec<u8> {
        let zeros = if self.digits.is_empty() {
            0
        } else {
            usize::try_from(self.exponent - exponent).unwrap_or(0)
        };
        let mut digits = self.digits.clone();
        digits.resize(digits.len() + zeros, 0);
        digits
    }

    /// The place above the first digit.
    fn top(&self) -> i64 {
        i64::try_from(self.digits.len()).unwrap_or(i64::MAX) + self.exponent
    }

    fn cmp_magnitude(&self, other: &Self) -> Ordering {
        match (self.digits.is_empty(), other.digits.is_empty()) {
            (false, false) => self.top().cmp(&other.top()).then(self.digits.cmp(&other.digits)),
            (one, two) => two.cmp(&one),
        }
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.negative, other.negative) {
            (false, false) => self.cmp_magnitude(other),
            (true, true) => other.cmp_magnitude(self),
            (negative, _) => {
                if negative {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The sum of two lists of digits that end at the same place.
fn add(one: &[u8], two: &[u8]) -> Vec<u8> {
    let (mut one, mut two) = (one.iter().rev(), two.iter().rev());
    let mut sum = Vec::with_capacity(one.len().max(two.len()) + 1);
    let mut carry = 0;
    loop {
        let (a, b) = (one.next(), two.next());
        if a.is_none() && b.is_none() {
            break;
        }
        let place = a.unwrap_or(&0) + b.unwrap_or(&0) + carry;
        sum.push(place % 10);
        carry = place / 10;
    }
    sum.push(carry);
    sum.reverse();
    sum
}

/// `large - small`; both end at the same place.
fn subtract(large: &[u8], small: &[u8]) -> Vec<u8> {
    let mut small = small.iter().rev();
    let mut borrow = 0;
    let mut difference: Vec<u8> = large
        .iter()
        .rev()
        .map(|digit| {
            let taken = small.next().unwrap_or(&0) + borrow;
            borrow = u8::from(*digit < taken);
            digit + 10 * borrow - taken
        })
        .collect();
    difference.reverse();
    difference
}

/// Removes thousands separators: `1,234,567.5` is `1234567.5`. `None` if they do not group three digits each, before the
/// decimal point, with one and the same separator: `3,14` is not 314.
pub(crate) fn without_grouping(text: &str, separators: &[char]) -> Option<String> {
    let Some(separator) = text.chars().find(|c| separators.contains(c)) else {
        return Some(text.to_owned());
    };
    let end = text.find(['.', 'e', 'E']).unwrap_or(text.len());
    let (whole, rest) = text.split_at_checked(end)?;
    let (sign, whole) = match whole.strip_prefix(['-', '+']) {
        Some(digits) => (whole.get(..1)?, digits),
        None => ("", whole),
    };
    let is_digits = |group: &str| group.bytes().all(|byte| byte.is_ascii_digit());
    let mut groups = whole.split(separator);
    let first = groups.next()?;
    let is_grouped = (1..=3).contains(&first.len())
        && is_digits(first)
        && groups.all(|group| group.len() == 3 && is_digits(group));
    (is_grouped && !rest.contains(separators))
        .then(|| format!("{sign}{}{rest}", whole.replace(separator, "")))
}

/// Whether a number may be an integer that does not fit into 64 bits: it was read as a double, so two different numbers
/// can look equal.
pub fn has_lost_digits(number: &Number) -> bool {
    const ABOVE: f64 = 18_446_744_073_709_551_616.0;
    const BELOW: f64 = -9_223_372_036_854_775_808.0;
    number.is_f64()
        && number
            .as_f64()
            .is_some_and(|double| double >= ABOVE || double <= BELOW)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::parse(text).unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn all_notations_of_a_number_are_equal() {
        for spellings in [
            &["1200", "1.2e3", "+1200.00", "0.12E4", "12e+2"][..],
            &["0", "-0", "0.000", ".0", "0e99", "00"],
            &["-0.5", "-.5", "-5e-1", "-00.50"],
        ] {
            for spelling in spellings {
                assert_eq!(decimal(spelling), decimal(spellings[0]), "{spelling}");
            }
        }
    }

    #[test]
    fn other_texts_are_not_numbers() {
        for text in [
            "", "-", ".", "e5", "1e", "1e5.0", "1e5001", "inf", "nan", "0x1", "1_0", "1 0", "--1", "1.2.3",
            "1.-2", "１",
        ] {
            assert_eq!(Decimal::parse(text), None, "{text}");
        }
    }

    #[test]
    fn neighbours_beyond_doubles_differ() {
        let (one, two) = (decimal("9007199254740993"), decimal("9007199254740992"));
        assert!(one > two);
        assert_eq!(one.distance(&two), decimal("1"));
        assert_eq!(decimal("-5").distance(&decimal("0.25")), decimal("5.25"));
        assert_eq!(
            decimal("1e-30").distance(&decimal("1")).times(&decimal("1e30")),
            decimal("999999999999999999999999999999")
        );
        assert_eq!(Decimal::from_f64(9_007_199_254_740_992.0), Some(two));
        assert_eq!(Decimal::from_f64(0.1), Some(decimal("0.1")));
        assert_eq!(Decimal::from_f64(f64::INFINITY), None);
        assert_eq!(decimal("-12.5").scaled(-2), decimal("-0.125"));
    }

    #[test]
    fn separators_group_thousands_or_are_refused() {
        let separators = [',', '_', '\u{a0}', ' '];
        for (text, number) in [
            ("1,234", Some("1234")),
            ("-1,234,567.5e3", Some("-1234567.5e3")),
            ("+12_345", Some("+12345")),
            ("1\u{a0}234\u{a0}567", Some("1234567")),
            ("123 456", Some("123456")),
            ("1234.5", Some("1234.5")),
            ("abc", Some("abc")),
            ("3,14", None),
            ("1,23,456", None),
            ("1234,567", None),
            ("1,234,5678", None),
            ("1,2345", None),
            (",123", None),
            ("1,,234", None),
            ("1,234,", None),
            ("1,234_567", None),
            ("1.234,567", None),
            ("1e1,000", None),
            ("0.1,234", None),
            ("a,bcd", None),
            (",", None),
        ] {
            assert_eq!(without_grouping(text, &separators).as_deref(), number, "{text}");
        }
    }

    #[test]
    #[allow(clippy::float_cmp, reason = "the numbers are exact")]
    fn a_double_is_never_larger_than_its_decimal() {
        assert_eq!(decimal("58").to_f64(), 58.0);
        assert_eq!(decimal("-0.1").to_f64(), -0.1);
        assert_eq!(decimal("0").to_f64(), 0.0);
        // The nearest double is 58.
        let below = decimal("57.99999999999999999").to_f64();
        assert!(below < 58.0 && below > 57.999_999_999_999, "{below}");
        assert!(decimal("-57.99999999999999999").to_f64() > -58.0);
        assert_eq!(decimal("1").divided_by(0), None);
        assert_eq!(decimal("0").divided_by(0), None);
        assert_eq!(
            decimal("-100").divided_by(3),
            Some(decimal("-33.3333333333333333333333333333"))
        );
        assert_eq!(Decimal::mean(&[0.57, 0.59]), Some(0.58));
        assert_eq!(Decimal::mean(&[0.1, 0.2, 0.3]), Some(0.2));
        assert_eq!(
            Decimal::mean(&[58.0, 57.999_999_999_999_99]),
            Some(57.999_999_999_999_99)
        );
        assert_eq!(Decimal::mean(&[]), None);
        assert_eq!(Decimal::mean(&[1.0, f64::NAN]), None);
    }

    proptest! {
        #[test]
        fn sums_and_quotients_are_those_of_integers(
            a in any::<i64>(),
            b in any::<i64>(),
            shift in 0_u32..6,
            divisor in 1_u32..1_000,
        ) {
            let text = |number: i128| format!("{number}e-{shift}");
            let (a, b) = (i128::from(a), i128::from(b));
            let (one, two) = (decimal(&text(a)), decimal(&text(b)));
            prop_assert_eq!(one.plus(&two), decimal(&text(a + b)));
            prop_assert_eq!(one.minus(&two), decimal(&text(a - b)));
            prop_assert_eq!(one.minus(&one), Decimal::default());
            let multiple = decimal(&text(a * i128::from(divisor)));
            prop_assert_eq!(multiple.divided_by(divisor), Some(one.clone()));
            // Cut off, and by less than the last of 30 digits.
            let quotient = one.divided_by(divisor).unwrap();
            let back = quotient.times(&decimal(&divisor.to_string()));
            prop_assert!(back.clone().abs() <= one.clone().abs());
            prop_assert!(back.distance(&one) <= one.abs().scaled(-25));
        }

        #[test]
        fn arithmetic_is_that_of_integers(a in any::<i64>(), b in any::<i64>(), shift in 0_u32..6) {
            let text = |number: i64| format!("{number}e-{shift}");
            let (one, two) = (decimal(&text(a)), decimal(&text(b)));
            let (a, b) = (i128::from(a), i128::from(b));
            prop_assert_eq!(one.cmp(&two), a.cmp(&b));
            let distance = decimal(&format!("{}e-{shift}", (a - b).abs()));
            prop_assert_eq!(one.distance(&two), distance);
            let product = decimal(&format!("{}e-{}", a * b, 2 * shift));
            prop_assert_eq!(one.times(&two), product);
        }
    }
}
