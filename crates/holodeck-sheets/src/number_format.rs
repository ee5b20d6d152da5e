//! Number formats of spreadsheets: the text that a sheet shows for a number, with `.` and `,` as in English.
//!
//! A format that is not supported is an error, never a guess.

mod cells;

use std::{fmt::Write as _, iter};

pub(crate) use cells::CellFormat;
pub use cells::CellFormats;

/// Identifiers of formats below this one are built into the programs.
const FIRST_CUSTOM_ID: u32 = 164;

/// Why the text of a number is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NumberFormatError {
    /// A format of dates, fractions, conditions or anything else that is not supported.
    #[error("a number with the format `{0}`, which is not supported")]
    Unsupported(String),
    /// A format that shows nothing.
    #[error("a value that its format `{0}` hides")]
    Hidden(String),
    /// A format that each program has for its language.
    #[error("a number whose format depends on the language of the program")]
    Local,
}

/// A number without a format, to the fifteen digits that spreadsheets show: sums of decimal fractions have noise in the
/// last digits.
pub fn plain_number(value: f64) -> String {
    let rounded = format!("{value:.14e}").parse().unwrap_or(value);
    // No sheet shows the sign of zero.
    let rounded = if rounded == 0.0 { 0.0 } else { rounded };
    rounded.to_string()
}

/// The text that a sheet shows for a number with this format. `id` is the identifier of the format, where it has one.
fn render_number(value: f64, code: &str, id: Option<u32>) -> Result<String, NumberFormatError> {
    if is_general(code) {
        // Readers know no code for formats that depend on the language.
        let is_local = id.is_some_and(|id| (1..FIRST_CUSTOM_ID).contains(&id));
        return if is_local {
            Err(NumberFormatError::Local)
        } else {
            Ok(plain_number(value))
        };
    }
    let unsupported = || NumberFormatError::Unsupported(code.to_owned());
    let sections = sections(code).ok_or_else(unsupported)?;
    if !value.is_finite() {
        return Err(unsupported());
    }
    let is_text = |section: &[Token]| section.contains(&Token::Text);
    // The last of four sections, or the only one, may be for texts.
    let numeric: Vec<&[Token]> = sections.iter().map(Vec::as_slice).take(3).collect();
    let numeric = match numeric.as_slice() {
        [only] if is_text(only) => return Ok(plain_number(value)),
        [rest @ .., last] if is_text(last) => rest,
        all => all,
    };
    let (section, is_signed) = match (numeric, value) {
        ([_, negative, ..], value) if value < 0.0 => (*negative, true),
        ([_, _, zero], 0.0) => (*zero, true),
        ([positive, ..], value) => (*positive, value >= 0.0),
        ([], _) => return Err(unsupported()),
    };
    if section.iter().all(|token| *token == Token::Pad) {
        return Err(NumberFormatError::Hidden(code.to_owned()));
    }
    let text = Section::of(section)
        .and_then(|section| section.render(value.abs()))
        .ok_or_else(unsupported)?;
    if text.is_empty() {
        return Err(NumberFormatError::Hidden(code.to_owned()));
    }
    // A number that is rounded to zero has no sign.
    let has_sign = !is_signed && text.contains(|character: char| ('1'..='9').contains(&character));
    Ok(if has_sign { format!("-{text}") } else { text })
}

/// The text that a sheet shows for a text with this format.
fn render_text(text: &str, code: &str) -> Result<String, NumberFormatError> {
    if is_general(code) || text.is_empty() {
        return Ok(text.to_owned());
    }
    let Some(sections) = sections(code) else {
        // No format of numbers has a part for texts unless it says so.
        return if code.contains('@') {
            Err(NumberFormatError::Unsupported(code.to_owned()))
        } else {
            Ok(text.to_owned())
        };
    };
    let section = match sections.as_slice() {
        [_, _, _, texts] => texts,
        [.., last] if last.contains(&Token::Text) => last,
        _ => return Ok(text.to_owned()),
    };
    let mut out = String::new();
    for token in section {
        match token {
            Token::Text => out.push_str(text),
            Token::Literal(character) => out.push(*character),
            Token::Pad => {}
            _ => return Err(NumberFormatError::Unsupported(code.to_owned())),
        }
    }
    if out.is_empty() {
        return Err(NumberFormatError::Hidden(code.to_owned()));
    }
    Ok(out)
}

fn is_general(code: &str) -> bool {
    code.trim().is_empty() || code.trim().eq_ignore_ascii_case("general")
}

/// A part of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    /// `0`, `#` or `?`.
    Digit(char),
    Point,
    Comma,
    Percent,
    General,
    /// `@`.
    Text,
    Literal(char),
    /// Room as wide as a character.
    Pad,
}

/// The sections of a format, for numbers above, below and at zero, and for texts; `None` if one is not supported.
fn sections(code: &str) -> Option<Vec<Vec<Token>>> {
    let mut sections = Vec::new();
    let mut section = Vec::new();
    let mut rest = code;
    while let Some(character) = rest.chars().next() {
        let after = rest.get(character.len_utf8()..).unwrap_or_default();
        let next = after.chars().next();
        let skip_next = || after.get(next.map_or(0, char::len_utf8)..).unwrap_or_default();
        rest = after;
        match character {
            ';' => sections.push(std::mem::take(&mut section)),
            '"' => {
                let (text, after) = after.split_once('"')?;
                section.extend(text.chars().map(Token::Literal));
                rest = after;
            }
            '\\' => {
                section.push(Token::Literal(next?));
                rest = skip_next();
            }
            '_' => {
                next?;
                section.push(Token::Pad);
                rest = skip_next();
            }
            // Fills the column; only blanks are no part of the text.
            '*' if next == Some(' ') => rest = skip_next(),
            '[' => {
                let (content, after) = after.split_once(']')?;
                section.extend(bracket(content)?.map(Token::Literal));
                rest = after;
            }
            '0' | '#' | '?' => section.push(Token::Digit(character)),
            '.' => section.push(Token::Point),
            ',' => section.push(Token::Comma),
            '%' => section.push(Token::Percent),
            '@' => section.push(Token::Text),
            'G' | 'g' => {
                let word = rest.get(.."eneral".len())?;
                if !word.eq_ignore_ascii_case("eneral") {
                    return None;
                }
                section.push(Token::General);
                rest = rest.get("eneral".len()..).unwrap_or_default();
            }
            ' ' | '$' | '-' | '+' | '(' | ')' | ':' | '!' | '^' | '&' | '\'' | '~' | '{' | '}' | '<'
            | '>' | '=' => section.push(Token::Literal(character)),
            // Currencies and units outside of ASCII need no quotes.
            _ if !character.is_ascii() => section.push(Token::Literal(character)),
            // Dates, fractions, exponents, and what is unknown.
            _ => return None,
        }
    }
    sections.push(section);
    (sections.len() <= 4).then_some(sections)
}

/// The characters that `[…]` shows: a currency, or nothing for a colour; `None` if it is a condition or anything else.
fn bracket(content: &str) -> Option<impl Iterator<Item = char>> {
    const COLOURS: [&str; 8] = [
        "black", "blue", "cyan", "green", "magenta", "red", "white", "yellow",
    ];
    let lower = content.trim().to_ascii_lowercase();
    let shown = if let Some(currency) = content.strip_prefix('$') {
        currency.split('-').next().unwrap_or_default()
    } else if COLOURS.contains(&lower.as_str())
        || lower
            .strip_prefix("color")
            .is_some_and(|number| number.trim().parse::<u8>().is_ok())
    {
        ""
    } else {
        return None;
    };
    Some(shown.chars())
}

/// A section for numbers.
struct Section<'t> {
    whole: &'t [Token],
    fraction: &'t [Token],
    has_point: bool,
    has_groups: bool,
    /// The power of ten by which the number is multiplied.
    power: i32,
}

impl<'t> Section<'t> {
    fn of(tokens: &'t [Token]) -> Option<Self> {
        let point = tokens.iter().position(|token| *token == Token::Point);
        let (whole, fraction) = match point {
            Some(at) => (tokens.get(..at)?, tokens.get(at + 1..)?),
            None => (tokens, &[] as &[Token]),
        };
        let is_digit = |token: &Token| matches!(token, Token::Digit(_));
        let general = tokens.iter().filter(|token| **token == Token::General).count();
        let has_digits = tokens.iter().any(is_digit);
        let commas = |part: &[Token]| part.iter().filter(|token| **token == Token::Comma).count();
        let last = whole.iter().rposition(is_digit).map_or(0, |at| at + 1);
        let first = whole.iter().position(is_digit).unwrap_or(0);
        let (before, inner) = whole.split_at(last);
        let groups = commas(before.get(first..).unwrap_or_default());
        // A comma after the last digit divides by a thousand.
        let after = match fraction.iter().rposition(is_digit) {
            Some(at) if commas(fraction.get(..at).unwrap_or_default()) > 0 => return None,
            _ => commas(inner) + commas(fraction),
        };
        let percent = tokens.iter().filter(|token| **token == Token::Percent).count();
        let is_unsupported = fraction.contains(&Token::Point)
            || tokens.contains(&Token::Text)
            || general > 1
            || (general == 1 && (has_digits || point.is_some() || percent + after > 0))
            || (!has_digits && (point.is_some() || percent + after > 0))
            || commas(before.get(..first).unwrap_or_default()) > 0;
        let power = i32::try_from(percent).ok()? * 2 - i32::try_from(after).ok()? * 3;
        (!is_unsupported).then_some(Self {
            whole,
            fraction,
            has_point: point.is_some(),
            has_groups: groups > 0,
            power,
        })
    }

    fn render(&self, value: f64) -> Option<String> {
        let kinds = |part: &[Token]| -> Vec<char> {
            let digits = part.iter().filter_map(|token| match token {
                Token::Digit(kind) => Some(*kind),
                _ => None,
            });
            digits.collect()
        };
        let places = kinds(self.fraction);
        let (whole, fraction) = decimal(value, self.power, places.len())?;
        let mut out = String::new();
        self.write_whole(&mut out, value, &whole, &kinds(self.whole));
        if self.has_point {
            out.push('.');
        }
        let needed = iter::zip(&places, &fraction).rposition(|(kind, digit)| *kind == '0' || *digit != 0);
        let mut digits = iter::zip(&places, &fraction).enumerate();
        for token in self.fraction {
            match token {
                Token::Digit(_) => match digits.next() {
                    Some((at, (_, digit))) if needed.is_some_and(|needed| at <= needed) => {
                        let _ = write!(out, "{digit}");
                    }
                    Some((_, ('?', _))) => out.push(' '),
                    _ => {}
                },
                other => write_other(&mut out, *other, value),
            }
        }
        // Room for other digits and brackets is no part of the text.
        Some(out.trim().to_owned())
    }

    fn write_whole(&self, out: &mut String, value: f64, whole: &[u8], kinds: &[char]) {
        let write_digit = |out: &mut String, digit: u8, right: usize| {
            let _ = write!(out, "{digit}");
            if self.has_groups && right > 0 && right.is_multiple_of(3) {
                out.push(',');
            }
        };
        // More digits than places belong to the first place.
        let extra = whole.len().saturating_sub(kinds.len());
        let mut place = 0;
        for token in self.whole {
            let Token::Digit(kind) = token else {
                write_other(out, *token, value);
                continue;
            };
            let right = kinds.len() - 1 - place;
            if place == 0 {
                for (at, digit) in whole.iter().take(extra).enumerate() {
                    write_digit(out, *digit, whole.len() - 1 - at);
                }
            }
            match (whole.len().checked_sub(right + 1), kind) {
                (Some(at), _) => write_digit(out, whole.get(at).copied().unwrap_or_default(), right),
                (None, '0') => write_digit(out, 0, right),
                (None, '?') => out.push(' '),
                (None, _) => {}
            }
            place += 1;
        }
        if kinds.is_empty() && self.has_point {
            for digit in whole {
                write_digit(out, *digit, 0);
            }
        }
    }
}

fn write_other(out: &mut String, token: Token, value: f64) {
    match token {
        Token::Literal(character) => out.push(character),
        Token::Percent => out.push('%'),
        Token::Pad => out.push(' '),
        Token::General => out.push_str(&plain_number(value)),
        Token::Digit(_) | Token::Point | Token::Comma | Token::Text => {}
    }
}

/// The digits of a number times a power of ten, before and after the point, rounded to some places half away from zero.
/// It has fifteen digits, as in spreadsheets.
fn decimal(value: f64, power: i32, places: usize) -> Option<(Vec<u8>, Vec<u8>)> {
    let text = format!("{value:.14e}");
    let (digits, exponent) = text.split_once('e')?;
    let digits: Vec<u8> = digits
        .bytes()
        .filter(u8::is_ascii_digit)
        .map(|digit| digit - b'0')
        .collect();
    let point = exponent.parse::<i32>().ok()? + power + 1;
    let (mut whole, mut fraction) = if let Ok(point) = usize::try_from(point) {
        let missing = point.saturating_sub(digits.len());
        let (before, after) = digits.split_at(point.min(digits.len()));
        ([before, &vec![0; missing]].concat(), after.to_vec())
    } else {
        let zeros = usize::try_from(point.unsigned_abs()).ok()?;
        (Vec::new(), [vec![0; zeros], digits].concat())
    };
    let rounds_up = fraction.get(places).is_some_and(|digit| *digit >= 5);
    fraction.resize(places, 0);
    if rounds_up {
        let mut carry = true;
        for digit in fraction.iter_mut().rev().chain(whole.iter_mut().rev()) {
            if *digit < 9 {
                *digit += 1;
                carry = false;
                break;
            }
            *digit = 0;
        }
        if carry {
            whole.insert(0, 1);
        }
    }
    let zeros = whole.iter().take_while(|digit| **digit == 0).count();
    whole.drain(..zeros);
    Some((whole, fraction))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(value: f64, code: &str) -> String {
        render_number(value, code, Some(200)).unwrap_or_else(|error| format!("! {error}"))
    }

    #[test]
    fn numbers_read_as_the_sheet_shows_them() {
        for (value, code, expected) in [
            (0.15, "0%", "15%"),
            (0.145, "0%", "15%"),
            (0.1449, "0%", "14%"),
            (0.12345, "0.00%", "12.35%"),
            (1.0, "0%", "100%"),
            (0.0, "0%", "0%"),
            (5.0, "0.00\" kg\"", "5.00 kg"),
            (5.0, "0.00\\ \\k\\g", "5.00 kg"),
            (42.0, "00000", "00042"),
            (815.0, "00000", "00815"),
            (123_456.0, "00000", "123456"),
            (12_500.0, "#,##0", "12,500"),
            (1_234_567.891, "#,##0.00", "1,234,567.89"),
            (999.0, "#,##0", "999"),
            (0.0, "#,##0", "0"),
            (999.995, "#,##0.00", "1,000.00"),
            (-12.5, "0.0", "-12.5"),
            (-0.001, "0%", "0%"),
            (-1234.0, "#,##0 ;(#,##0)", "(1,234)"),
            (-1234.5, "#,##0.00;[Red]-#,##0.00", "-1,234.50"),
            (1234.5, "[$€-407] #,##0.00", "€ 1,234.50"),
            (1234.5, "#,##0.00\\ [$€-407]", "1,234.50 €"),
            (1234.5, "\"$\"#,##0.00", "$1,234.50"),
            (7.0, "$0.00", "$7.00"),
            (0.0, "0;-0;\"none\"", "none"),
            (0.0, "_(* #,##0_);_(* (#,##0);_(* \"-\"_);_(@_)", "-"),
            (1234.0, "_(* #,##0_);_(* (#,##0);_(* \"-\"_);_(@_)", "1,234"),
            (-1234.0, "_(* #,##0_);_(* (#,##0);_(* \"-\"_);_(@_)", "(1,234)"),
            (1_500_000.0, "0.0,,\" M\"", "1.5 M"),
            (1_500_000.0, "#,##0,", "1,500"),
            (1.5, "0.0#", "1.5"),
            (1.25, "0.0#", "1.25"),
            (5.0, "0.#", "5."),
            (1.5, "0.??", "1.5"),
            (0.5, ".00", ".50"),
            (12.5, ".00", "12.50"),
            (5.0, "0,000", "0,005"),
            (4_915_112_345.0, "0000-000-000", "4915-112-345"),
            (3.5, "General\" kg\"", "3.5 kg"),
            (-3.5, "General\" kg\"", "-3.5 kg"),
            (3.5, "@", "3.5"),
            (3.5, "General", "3.5"),
            (20.0, "0°", "20°"),
            (1e20, "0", "100000000000000000000"),
            (1e-9, "0.00", "0.00"),
            (0.1 + 0.2, "0.0", "0.3"),
        ] {
            assert_eq!(shown(value, code), expected, "{value} as {code}");
        }
    }

    #[test]
    fn a_format_that_is_not_supported_is_an_error_and_no_guess() {
        for code in [
            "0.00E+00",
            "##0.0E+0",
            "# ?/?",
            "[>=1000]0,\"k\";0",
            "[DBNum1]0",
            "yyyy-mm-dd",
            "h:mm",
            "0\"open",
            "0\\",
            "0*-",
            "0.0.0",
            "0;0;0;0;0",
            "Standard",
            ",0",
            "0.0,0",
            "0x",
            "General0",
            "%",
        ] {
            assert_eq!(
                render_number(1.5, code, None),
                Err(NumberFormatError::Unsupported(code.to_owned())),
                "{code}"
            );
        }
        assert_eq!(
            render_number(f64::INFINITY, "0%", None),
            Err(NumberFormatError::Unsupported("0%".to_owned()))
        );
    }

    #[test]
    fn a_value_that_its_format_hides_is_an_error() {
        for (value, code) in [
            (1.0, ";;;"),
            (-1.0, "0;"),
            (0.0, "0;-0;"),
            (1.0, "_x"),
            (0.0, "#"),
        ] {
            let hidden = Err(NumberFormatError::Hidden(code.to_owned()));
            assert_eq!(render_number(value, code, None), hidden, "{value} as {code}");
        }
        assert_eq!(
            render_text("a", ";;;"),
            Err(NumberFormatError::Hidden(";;;".to_owned()))
        );
    }

    #[test]
    fn a_built_in_format_without_a_code_is_an_error() {
        for id in [5, 8, 59, 163] {
            assert_eq!(
                render_number(1.5, "General", Some(id)),
                Err(NumberFormatError::Local)
            );
        }
        for id in [None, Some(0), Some(164), Some(400)] {
            assert_eq!(render_number(1.5, "General", id), Ok("1.5".to_owned()));
        }
    }

    #[test]
    fn texts_read_as_the_sheet_shows_them() {
        for (code, expected) in [
            ("General", "a b "),
            ("@", "a b "),
            ("0%", "a b "),
            ("yyyy-mm-dd", "a b "),
            ("0;-0;0;\"Nr. \"@", "Nr. a b "),
            ("_(* #,##0_);_(* (#,##0);_(* \"-\"_);_(@_)", "a b "),
        ] {
            assert_eq!(render_text("a b ", code).as_deref(), Ok(expected), "{code}");
        }
        assert!(render_text("a", "yyyy;;;@\"x\"").is_err());
    }

    #[test]
    fn plain_numbers_have_fifteen_digits() {
        for (value, expected) in [
            (0.1 + 0.2, "0.3"),
            (1e21, "1000000000000000000000"),
            (f64::NAN, "NaN"),
            (-3.0, "-3"),
            (-0.0, "0"),
        ] {
            assert_eq!(plain_number(value), expected);
        }
    }

    proptest! {
        /// The text of a number with fixed places, without groups and percent, is the rounded number.
        #[test]
        fn a_number_with_places_reads_back_as_itself(units in -99_999_999_i64..99_999_999, places in 0_usize..5) {
            let scale = 10_f64.powi(i32::try_from(places).unwrap());
            #[expect(clippy::cast_precision_loss, reason = "eight digits")]
            let value = units as f64 / scale;
            let code = if places == 0 { "0".to_owned() } else { format!("0.{}", "0".repeat(places)) };
            let text = shown(value, &code);
            prop_assert_eq!(text.parse::<f64>().unwrap().to_bits(), (value + 0.0).to_bits());
            let grouped = shown(value, &code.replacen('0', "#,##0", 1));
            prop_assert_eq!(grouped.replace(',', ""), text.clone());
            let percent = shown(value / 100.0, &format!("{code}%"));
            prop_assert_eq!(percent, format!("{text}%"));
        }

        #[test]
        fn no_format_and_no_number_breaks_it(value: f64, code in "[0#?.,;%@G\"\\\\_*\\[\\]$a €-]{0,12}") {
            let _ = render_number(value, &code, None);
            let _ = render_text("text", &code);
        }
    }
}
