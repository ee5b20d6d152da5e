//! The meaning of a scalar: YAML 1.2 core, lenient reading for fields with a known type, and differences to YAML 1.1.

use std::borrow::Cow;

/// A scalar without quotes, read by the YAML 1.2 core schema.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Core {
    Null,
    Bool(bool),
    Int(i64),
    Unsigned(u64),
    Float(f64),
    Str,
}

/// How YAML 1.1 reads a scalar that YAML 1.2 reads differently.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Legacy {
    /// `010`, `1_000`, `1:30`: another number.
    Number(String),
    /// `yes`, `off`: a boolean.
    Bool(bool),
    /// `2026-11-21`: a date.
    Date,
    /// `1e3`, `0o17`: a string.
    Text,
}

pub(crate) fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

/// Reads a plain scalar.
pub(crate) fn resolve(text: &str) -> Core {
    if is_null(text) {
        return Core::Null;
    }
    match text {
        "true" | "True" | "TRUE" => return Core::Bool(true),
        "false" | "False" | "FALSE" => return Core::Bool(false),
        ".nan" | ".NaN" | ".NAN" => return Core::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Core::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Core::Float(f64::NEG_INFINITY),
        _ => {}
    }
    if let Some(number) = core_int(text) {
        return number;
    }
    if is_core_float(text) {
        text.parse().map_or(Core::Str, Core::Float)
    } else {
        Core::Str
    }
}

fn core_int(text: &str) -> Option<Core> {
    let radix = |digits: &str, radix: u32| {
        let all_digits = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
        all_digits.then(|| u64::from_str_radix(digits, radix).map_or(Core::Float(f64::INFINITY), small))
    };
    if let Some(digits) = text.strip_prefix("0o") {
        return radix(digits, 8);
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return radix(digits, 16);
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number = text.strip_prefix('+').unwrap_or(text);
    Some(match (number.parse::<i64>(), number.parse::<u64>()) {
        (Ok(number), _) => Core::Int(number),
        (_, Ok(number)) => Core::Unsigned(number),
        _ => number.parse().map_or(Core::Str, Core::Float),
    })
}

fn small(number: u64) -> Core {
    i64::try_from(number).map_or(Core::Unsigned(number), Core::Int)
}

/// `[-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?`
fn is_core_float(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => unsigned.split_at(at),
        None => (unsigned, ""),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mantissa_ok = match mantissa.split_once('.') {
        Some((whole, "")) => digits(whole),
        Some(("", fraction)) => digits(fraction),
        Some((whole, fraction)) => digits(whole) && digits(fraction),
        None => digits(mantissa),
    };
    let exponent_ok =
        exponent.is_empty() || digits(exponent.get(1..).unwrap_or("").trim_start_matches(['-', '+']));
    mantissa_ok && exponent_ok
}

/// Reads a boolean field: also `yes`, `off`, `1` and the like, with or without quotes.
pub(crate) fn lenient_bool(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "y" | "t" | "1" => Some(true),
        "false" | "no" | "off" | "n" | "f" | "0" => Some(false),
        _ => None,
    }
}

/// Reads a number field, with or without quotes; underscores between digits are allowed.
pub(crate) fn lenient_f64(text: &str) -> Option<f64> {
    let text = without_underscores(text.trim());
    match resolve(&text) {
        Core::Int(_) | Core::Unsigned(_) | Core::Float(_) => numeric(&text),
        _ => None,
    }
    .filter(|number| number.is_finite())
}

fn numeric(text: &str) -> Option<f64> {
    match resolve(text) {
        #[expect(clippy::cast_precision_loss, reason = "a number field holds a float")]
        Core::Int(number) => Some(number as f64),
        #[expect(clippy::cast_precision_loss, reason = "a number field holds a float")]
        Core::Unsigned(number) => Some(number as f64),
        Core::Float(number) => Some(number),
        _ => None,
    }
}

/// Reads a whole number field, with or without quotes; `60.0` is 60.
pub(crate) fn lenient_int(text: &str) -> Option<i128> {
    let text = without_underscores(text.trim());
    match resolve(&text) {
        Core::Int(number) => Some(number.into()),
        Core::Unsigned(number) => Some(number.into()),
        #[expect(
            clippy::cast_possible_truncation,
            reason = "checked to be whole and well within range"
        )]
        Core::Float(number) if number.fract() == 0.0 && number.abs() < 9e15 => Some(number as i128),
        _ => None,
    }
}

/// `1_000` as `1000`; other text is unchanged.
fn without_underscores(text: &str) -> Cow<'_, str> {
    let number = text.contains('_')
        && !text.starts_with('_')
        && !text.ends_with('_')
        && !text.contains("__")
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || matches!(byte, b'_' | b'-' | b'+' | b'.'));
    if number {
        text.replace('_', "").into()
    } else {
        text.into()
    }
}

/// How YAML 1.1 reads a plain scalar, if YAML 1.2 reads it differently.
pub(crate) fn legacy_reading(text: &str) -> Option<Legacy> {
    if !text.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '-' | '+' | '.')) {
        return match text {
            "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Some(Legacy::Bool(true)),
            "no" | "No" | "NO" | "off" | "Off" | "OFF" => Some(Legacy::Bool(false)),
            _ => None,
        };
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let sign = if text.starts_with('-') { "-" } else { "" };
    if let Some(value) = parse_octal(unsigned)
        .or_else(|| parse_underscored(unsigned))
        .or_else(|| parse_sexagesimal(unsigned))
    {
        return Some(Legacy::Number(format!("{sign}{value}")));
    }
    if is_date(text) {
        return Some(Legacy::Date);
    }
    let float_without_dot = matches!(resolve(text), Core::Float(number) if number.is_finite())
        && text.contains(['e', 'E'])
        && !is_legacy_exponent(text);
    if float_without_dot || (text.starts_with("0o") && matches!(resolve(text), Core::Int(_))) {
        return Some(Legacy::Text);
    }
    None
}

/// YAML 1.1 requires a dot in the mantissa and a sign in the exponent.
fn is_legacy_exponent(text: &str) -> bool {
    let Some((mantissa, exponent)) = text.split_once(['e', 'E']) else {
        return true;
    };
    mantissa.contains('.') && exponent.starts_with(['-', '+'])
}

/// `010`, which is 8.
fn parse_octal(text: &str) -> Option<String> {
    let digits = text.strip_prefix('0')?;
    let digits: String = digits.chars().filter(|digit| *digit != '_').collect();
    if digits.is_empty() || !digits.bytes().all(|byte| (b'0'..=b'7').contains(&byte)) {
        return None;
    }
    // `00` is zero in both versions.
    let value = u64::from_str_radix(&digits, 8).ok()?;
    (value.to_string() != digits.trim_start_matches('0') && value != 0).then(|| value.to_string())
}

/// `1_000`, which is 1000.
fn parse_underscored(text: &str) -> Option<String> {
    let number = text.contains('_')
        && text.starts_with(|first: char| first.is_ascii_digit())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || matches!(byte, b'_' | b'.'));
    let plain = text.replace('_', "");
    (number && plain.parse::<f64>().is_ok()).then_some(plain)
}

/// `1:30`, which is 90.
fn parse_sexagesimal(text: &str) -> Option<String> {
    let mut parts = text.split(':');
    let first = parts.next()?;
    if first.is_empty() || !first.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mut value: u64 = first.parse().ok()?;
    let mut has_parts = false;
    for part in parts {
        let valid = matches!(part.len(), 1 | 2) && part.bytes().all(|byte| byte.is_ascii_digit());
        let minutes: u64 = part.parse().ok().filter(|minutes| valid && *minutes < 60)?;
        value = value.checked_mul(60)?.checked_add(minutes)?;
        has_parts = true;
    }
    // A leading zero keeps PyYAML from reading an integer in base 60.
    (has_parts && !first.starts_with('0')).then(|| value.to_string())
}

/// `2026-11-21`, perhaps with a time.
fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digits = |range: std::ops::Range<usize>| {
        bytes
            .get(range)
            .is_some_and(|part| part.iter().all(u8::is_ascii_digit))
    };
    let day = digits(0..4)
        && bytes.get(4) == Some(&b'-')
        && digits(5..7)
        && bytes.get(7) == Some(&b'-')
        && digits(8..10);
    day && matches!(bytes.get(10), None | Some(b'T' | b't' | b' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_follow_the_core_schema() {
        let check = |text, expected| assert_eq!(resolve(text), expected, "{text}");
        check("", Core::Null);
        check("~", Core::Null);
        check("TRUE", Core::Bool(true));
        check("yes", Core::Str);
        check("010", Core::Int(10));
        check("0o17", Core::Int(15));
        check("0xfF", Core::Int(255));
        check("-3", Core::Int(-3));
        check("+3", Core::Int(3));
        check("18446744073709551615", Core::Unsigned(u64::MAX));
        check("1e3", Core::Float(1000.0));
        check("-.5", Core::Float(-0.5));
        check("1.", Core::Float(1.0));
        check(".", Core::Str);
        check("1e", Core::Str);
        check("1_000", Core::Str);
        check("1:30", Core::Str);
        check("inf", Core::Str);
        check("NaN", Core::Str);
        check("-.inf", Core::Float(f64::NEG_INFINITY));
    }

    #[test]
    fn fields_of_a_known_type_are_lenient() {
        assert_eq!(lenient_int(" 60 "), Some(60));
        assert_eq!(lenient_int("60.0"), Some(60));
        assert_eq!(lenient_int("60.5"), None);
        assert_eq!(lenient_int("1_000"), Some(1000));
        assert_eq!(lenient_int("1__0"), None);
        assert_eq!(lenient_int("a_1"), None);
        assert_eq!(lenient_f64("0.5"), Some(0.5));
        assert_eq!(lenient_f64(".inf"), None);
        assert_eq!(lenient_bool("Off"), Some(false));
        assert_eq!(lenient_bool("maybe"), None);
    }

    #[test]
    fn yaml_1_1_reads_some_scalars_differently() {
        let check = |text, expected| assert_eq!(legacy_reading(text), expected, "{text}");
        let number = |text: &str| Some(Legacy::Number(text.to_owned()));
        check("010", number("8"));
        check("-010", number("-8"));
        check("07", None);
        check("00", None);
        check("089", None);
        check("1_000", number("1000"));
        check("1:30", number("90"));
        check("1:30:00", number("5400"));
        check("1:75", None);
        check("10.0.0.1:80", None);
        check("yes", Some(Legacy::Bool(true)));
        check("y", None);
        check("2026-11-21", Some(Legacy::Date));
        check("2026-11-21T10:00:00Z", Some(Legacy::Date));
        check("1e3", Some(Legacy::Text));
        check("1.0e+3", None);
        check("0o17", Some(Legacy::Text));
        check("42", None);
        check("-", None);
    }
}
