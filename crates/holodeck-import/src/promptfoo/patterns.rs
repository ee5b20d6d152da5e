//! Regular expressions of JavaScript in the notation of HoloDeck.

/// The same expression, where both read it alike; the reason otherwise.
///
/// In JavaScript without flags `\d`, `\w` and `\b` mean ASCII only, and flags cannot stand in the expression.
pub(super) fn translate(expression: &str) -> Result<String, String> {
    let mut result = String::with_capacity(expression.len());
    let mut letters = expression.chars().peekable();
    let mut in_class = false;
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => {
                let escaped = letters.next().ok_or("it ends with `\\`")?;
                result.push_str(&escape(escaped, in_class)?);
                if escaped == 'u' {
                    let code: String = letters.by_ref().take(4).collect();
                    if code.len() != 4 || !code.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                        return Err("`\\u` without four digits".to_owned());
                    }
                    result.push('{');
                    result.push_str(&code);
                    result.push('}');
                }
            }
            '[' if in_class => result.push_str("\\["),
            '[' => {
                in_class = true;
                result.push('[');
                if letters.peek() == Some(&'^') {
                    letters.next();
                    result.push('^');
                }
                if letters.peek() == Some(&']') {
                    return Err("an empty class `[]`".to_owned());
                }
            }
            ']' if in_class => {
                in_class = false;
                result.push(']');
            }
            ']' => result.push_str("\\]"),
            // Both would begin an operation of sets.
            '&' | '~' if in_class => {
                result.push('\\');
                result.push(letter);
            }
            '.' if !in_class => result.push_str(r"[^\n\r\u{2028}\u{2029}]"),
            '(' if !in_class && letters.peek() == Some(&'?') => {
                letters.next();
                result.push_str("(?");
                match letters.peek() {
                    Some(':' | '=' | '!' | '<') => {}
                    _ => return Err("flags in the expression, which JavaScript refuses".to_owned()),
                }
            }
            '{' if !in_class && !letters.peek().is_some_and(char::is_ascii_digit) => result.push_str("\\{"),
            '}' if !in_class => {
                let is_count = result.rfind('{').is_some_and(|at| {
                    let count = result.get(at + 1..).unwrap_or_default();
                    !result.get(..at).is_some_and(|before| before.ends_with('\\'))
                        && !count.is_empty()
                        && count.bytes().all(|byte| byte.is_ascii_digit() || byte == b',')
                });
                result.push_str(if is_count { "}" } else { "\\}" });
            }
            letter => result.push(letter),
        }
    }
    if in_class {
        return Err("a class that is not closed".to_owned());
    }
    Ok(result)
}

fn escape(letter: char, in_class: bool) -> Result<String, String> {
    let text = match (letter, in_class) {
        ('d', true) => "0-9",
        ('d', false) => "[0-9]",
        ('w', true) => "A-Za-z0-9_",
        ('w', false) => "[A-Za-z0-9_]",
        ('D', false) => "[^0-9]",
        ('W', false) => "[^A-Za-z0-9_]",
        ('b', false) => "(?-u:\\b)",
        ('B', false) => "(?-u:\\B)",
        ('s' | 'S' | 'n' | 'r' | 't' | 'f' | 'v' | 'u', _) => return Ok(format!("\\{letter}")),
        ('0', _) => "\\x00",
        (digit, false) if digit.is_ascii_digit() => return Ok(format!("\\{digit}")),
        ('k' | 'x' | 'c' | 'p' | 'P' | 'D' | 'W' | 'b' | 'B', _) => {
            return Err(format!("`\\{letter}`, which has no equal here"));
        }
        (letter, _) if letter.is_ascii_alphanumeric() => return Ok(letter.to_string()),
        (letter, _) => return Ok(format!("\\{letter}")),
    };
    Ok(text.to_owned())
}

/// A text as an expression that matches it and nothing else.
pub(super) fn literal(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    for letter in text.chars() {
        if "\\.+*?()|[]{}^$#&-~/".contains(letter) {
            result.push('\\');
        }
        result.push(letter);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_javascript_reads_as_ascii_stays_ascii() {
        assert_eq!(translate(r"^bot \d+\.\d+$").unwrap(), r"^bot [0-9]+\.[0-9]+$");
        assert_eq!(translate(r"[\w.]{2,}").unwrap(), r"[A-Za-z0-9_.]{2,}");
        assert_eq!(translate(r"\bA\b").unwrap(), r"(?-u:\b)A(?-u:\b)");
        assert_eq!(translate("a{b}").unwrap(), r"a\{b\}");
        assert_eq!(translate("[a[b]").unwrap(), r"[a\[b]");
    }

    #[test]
    fn what_javascript_refuses_is_refused() {
        for expression in ["(?i)a", "[]", "[a", r"\p{L}", "a\\"] {
            assert!(translate(expression).is_err(), "{expression}");
        }
    }
}
