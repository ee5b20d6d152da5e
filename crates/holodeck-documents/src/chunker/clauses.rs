//! Clauses such as `(a)`, `(1)` and `(ii)`, and how they nest.
//!
//! Each domain nests them in another order, and many documents follow none, so the order is read from the document: a
//! label that continues an open one is its sibling, and a first label (`(a)`, `(1)`, `(i)`) opens a level.

use super::text::slice;

/// Where a clause begins, and the labels of the enclosing clauses, its own last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Clause {
    pub(super) at: usize,
    pub(super) path: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Digit,
    Lower,
    Upper,
    LowerRoman,
    UpperRoman,
}

#[derive(Clone, Debug)]
struct Open {
    style: Style,
    value: u32,
    label: String,
}

/// The open clauses at a position.
#[derive(Debug, Default)]
pub(super) struct Stack(Vec<Open>);

impl Stack {
    /// Enters the clause with these labels and returns the labels around it.
    pub(super) fn enter<'a>(&mut self, labels: impl Iterator<Item = &'a str>) -> Vec<String> {
        for label in labels {
            self.place(label);
        }
        self.0.iter().map(|open| open.label.clone()).collect()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    fn place(&mut self, label: &str) {
        let readings = readings(label);
        let reading = |style: Style| readings.iter().find(|reading| reading.0 == style);
        let continued = (0..self.0.len()).rev().find_map(|depth| {
            let open = self.0.get(depth)?;
            let (style, value) = *reading(open.style)?;
            (value == open.value + 1).then_some((depth, style, value))
        });
        let opened = || {
            let is_open = |style: Style| self.0.iter().any(|open| open.style == style);
            let first = readings
                .iter()
                .rev()
                .find(|reading| reading.1 == 1 && !is_open(reading.0));
            first.map(|&(style, value)| (self.0.len(), style, value))
        };
        let replaced = || {
            (0..self.0.len()).rev().find_map(|depth| {
                let (style, value) = *reading(self.0.get(depth)?.style)?;
                Some((depth, style, value))
            })
        };
        let pushed = || {
            readings
                .first()
                .map(|&(style, value)| (self.0.len(), style, value))
        };
        if let Some((depth, style, value)) = continued.or_else(opened).or_else(replaced).or_else(pushed) {
            self.0.truncate(depth);
            self.0.push(Open {
                style,
                value,
                label: label.to_owned(),
            });
        }
    }
}

/// The labels that a line begins with, without brackets.
pub(super) fn labels(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line.trim_start();
    if let Some(item) = rest.strip_prefix("- ").or_else(|| rest.strip_prefix("* ")) {
        rest = item.trim_start();
    }
    let mut rest = rest.trim_start_matches("**");
    std::iter::from_fn(move || {
        let inner = rest.strip_prefix('(')?;
        let end = inner.bytes().take(6).position(|byte| byte == b')')?;
        let label = slice(inner, 0..end);
        let after = slice(inner, end + 1..inner.len());
        let ends = after.is_empty() || after.starts_with([' ', '\t', '(', '*']);
        if !ends || readings(label).is_empty() {
            rest = "";
            return None;
        }
        rest = after.trim_start_matches([' ', '\t', '*']);
        Some(label)
    })
}

/// The possible readings of a label, the likelier one first.
fn readings(label: &str) -> Vec<(Style, u32)> {
    let digits = label.bytes().take_while(u8::is_ascii_digit).count();
    if digits > 0 {
        let letters = slice(label, digits..label.len());
        let known =
            digits <= 3 && letters.len() <= 2 && letters.bytes().all(|byte| byte.is_ascii_uppercase());
        let value = slice(label, 0..digits).parse().unwrap_or_default();
        return if known {
            vec![(Style::Digit, value)]
        } else {
            Vec::new()
        };
    }
    let (letter, numeral) = if label.bytes().all(|byte| byte.is_ascii_lowercase()) {
        (Style::Lower, Style::LowerRoman)
    } else if label.bytes().all(|byte| byte.is_ascii_uppercase()) {
        (Style::Upper, Style::UpperRoman)
    } else {
        return Vec::new();
    };
    let as_letter = (1..=2)
        .contains(&label.len())
        .then(|| (letter, letter_value(label)));
    let as_numeral = roman_value(label).map(|value| (numeral, value));
    // `(ii)` is a number, `(i)` is more often a letter: the caller's context decides.
    if label.len() > 1 {
        as_numeral.into_iter().chain(as_letter).collect()
    } else {
        as_letter.into_iter().chain(as_numeral).collect()
    }
}

/// `a` is 1, `z` 26, `aa` 27.
fn letter_value(label: &str) -> u32 {
    let of = |byte: u8| u32::from(byte.to_ascii_lowercase() - b'a') + 1;
    match *label.as_bytes() {
        [one] => of(one),
        [first, second] if first == second => 26 + of(first),
        [first, second] => 100 * of(first) + of(second),
        _ => 0,
    }
}

fn roman_value(label: &str) -> Option<u32> {
    let mut value = 0;
    let mut largest_after = 0;
    for byte in label.bytes().rev() {
        let digit = match byte.to_ascii_lowercase() {
            b'i' => 1,
            b'v' => 5,
            b'x' => 10,
            b'l' => 50,
            b'c' => 100,
            _ => return None,
        };
        if digit < largest_after {
            value -= digit;
        } else {
            value += digit;
            largest_after = digit;
        }
    }
    (value > 0).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_stand_at_the_start_of_a_line() {
        let of = |line: &'static str| labels(line).collect::<Vec<_>>();
        assert_eq!(of("(a) text (b)"), ["a"]);
        assert_eq!(of("  (a)(1) text"), ["a", "1"]);
        assert_eq!(of("- **(iv)** text"), ["iv"]);
        assert_eq!(of("(2A) text"), ["2A"]);
        assert_eq!(of("(see) text"), Vec::<&str>::new());
        assert_eq!(of("(a)text"), Vec::<&str>::new());
        assert_eq!(of("(1234) text"), Vec::<&str>::new());
        assert_eq!(of("()"), Vec::<&str>::new());
    }

    #[test]
    fn clauses_nest_as_they_count() {
        let mut stack = Stack::default();
        let mut check = |line: &str, path: &str| {
            assert_eq!(stack.enter(labels(line)).join("."), path, "{line}");
        };
        check("(a) x", "a");
        check("(1) x", "a.1");
        check("(A) x", "a.1.A");
        check("(i) x", "a.1.A.i");
        check("(ii) x", "a.1.A.ii");
        check("(B) x", "a.1.B");
        check("(2) x", "a.2");
        check("(b)(1) x", "b.1");
        check("(h) x", "h");
        // After `(h)` it is the letter, not the number.
        check("(i) x", "i");
        check("(j) x", "j");
    }

    #[test]
    fn another_order_is_followed_too() {
        let mut stack = Stack::default();
        let mut check = |line: &str, path: &str| {
            assert_eq!(stack.enter(labels(line)).join("."), path, "{line}");
        };
        check("(1) x", "1");
        check("(a) x", "1.a");
        check("(i) x", "1.a.i");
        check("(v) x", "1.a.v");
        check("(b) x", "1.b");
        check("(2) x", "2");
        check("(2A) x", "2A");
        check("(3) x", "3");
    }
}
