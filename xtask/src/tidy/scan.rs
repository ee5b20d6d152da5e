//! Rust source without its comments and strings, so that rules see code only.

/// The same text, line for line, with comments and the insides of strings blanked.
pub(super) fn code_only(source: &str) -> String {
    blank(source, |_| true)
}

/// The same text, line for line, with comments blanked.
pub(super) fn without_comments(source: &str) -> String {
    blank(source, |token| token.starts_with('/'))
}

/// Blanks the comments, strings and characters that `is_blanked` accepts.
fn blank(source: &str, is_blanked: impl Fn(&str) -> bool) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    let mut before = ' ';
    while let Some(first) = rest.chars().next() {
        let length = token(rest, before);
        let (taken, after) = rest.split_at(length);
        if length > first.len_utf8() {
            let is_blanked = is_blanked(taken);
            let keep = |c: &char| *c == '\n' || !is_blanked;
            code.extend(taken.chars().map(|c| if keep(&c) { c } else { ' ' }));
            before = ' ';
        } else {
            code.push(first);
            before = first;
        }
        rest = after;
    }
    code
}

/// Length of the comment, string or character `text` begins with, else of its first character.
fn token(text: &str, before: char) -> usize {
    let one = text.chars().next().map_or(0, char::len_utf8);
    if text.starts_with("//") {
        return text.find('\n').unwrap_or(text.len());
    }
    if text.starts_with("/*") {
        return block_comment(text);
    }
    if text.starts_with('"') {
        return quoted(text);
    }
    if text.starts_with('\'') {
        return character(text).unwrap_or(one);
    }
    let in_word = before.is_alphanumeric() || before == '_';
    let prefix = ["r", "b", "c", "br", "cr"].into_iter().find(|prefix| {
        let after = text.strip_prefix(prefix);
        after.is_some_and(|after| after.starts_with('"') || (prefix.ends_with('r') && after.starts_with('#')))
    });
    match prefix {
        Some(prefix) if !in_word && prefix.ends_with('r') => raw(text, prefix.len()).unwrap_or(one),
        Some(prefix) if !in_word => prefix.len() + text.get(prefix.len()..).map_or(0, quoted),
        _ => one,
    }
}

fn block_comment(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

fn quoted(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// `r"…"`, `r#"…"#`; nothing for a raw identifier such as `r#type`.
fn raw(text: &str, prefix: usize) -> Option<usize> {
    let body = text.get(prefix..)?;
    let hashes = body.chars().take_while(|c| *c == '#').count();
    let open = body.get(hashes..)?.strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let end = open.find(&close).map_or(open.len(), |end| end + close.len());
    Some(prefix + hashes + 1 + end)
}

/// `'a'`, `'\n'`; nothing for a lifetime.
fn character(text: &str) -> Option<usize> {
    let inside = text.strip_prefix('\'')?;
    if inside.starts_with('\\') {
        let end = inside.get(2..)?.find('\'')?;
        return Some(end + 4);
    }
    let c = inside.chars().next()?;
    inside
        .get(c.len_utf8()..)?
        .starts_with('\'')
        .then_some(c.len_utf8() + 2)
}

/// For each line of blanked code, whether it belongs to a `#[cfg(test)]` item.
pub(super) fn test_lines(code: &str) -> Vec<bool> {
    let mut lines = Vec::new();
    // Braces open since the attribute, once it was seen.
    let mut inside: Option<Option<usize>> = None;
    for line in code.lines() {
        if inside.is_none() && line.trim_start().starts_with("#[cfg(test)]") {
            inside = Some(None);
        }
        lines.push(inside.is_some());
        for c in line.chars() {
            inside = match (inside, c) {
                (Some(None), '{') => Some(Some(1)),
                (Some(None), ';') | (Some(Some(1)), '}') => None,
                (Some(Some(depth)), '{') => Some(Some(depth + 1)),
                (Some(Some(depth)), '}') => Some(Some(depth - 1)),
                (other, _) => other,
            };
        }
    }
    lines
}

/// Whether `word` stands in `line` with no letter, digit or `_` touching it.
pub(super) fn has_word(line: &str, word: &str) -> bool {
    let joins = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        let after = line.get(at + word.len()..).and_then(|text| text.chars().next());
        let joined_after = word.ends_with(joins) && after.is_some_and(joins);
        !before.is_some_and(joins) && !joined_after
    })
}

#[cfg(test)]
mod tests {
    use super::{code_only, has_word, test_lines, without_comments};

    fn words(source: &str) -> Vec<String> {
        code_only(source).split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn comments_and_strings_are_blanked() {
        assert_eq!(words("a // b\nc /* d /* e */ f */ g"), ["a", "c", "g"]);
        assert_eq!(words(r#"a("b \" c", b"d") e"#), ["a(", ",", ")", "e"]);
        assert_eq!(words("a r#\"b \" c\"# d r\"\\\" e"), ["a", "d", "e"]);
        assert_eq!(
            words("r#type for'x' '\\'' 'a: &'a T"),
            ["r#type", "for", "'a:", "&'a", "T"]
        );
        assert_eq!(words("var\"x\" 'é' \"never closed"), ["var"]);
    }

    #[test]
    fn only_comments_are_blanked() {
        let source = "a(\"// b\") // c\n/* d */ 'e' e";
        assert_eq!(without_comments(source), "a(\"// b\")     \n        'e' e");
    }

    #[test]
    fn lines_stay_where_they_are() {
        let source = "a\n/* b\nc */ d\n\"e\nf\" g\n";
        assert_eq!(code_only(source).lines().count(), source.lines().count());
    }

    #[test]
    fn test_items_are_known() {
        let code = "fn a() {\n}\n#[cfg(test)]\nmod tests {\nfn b() {\n}\n}\nfn c() {}\n#[cfg(test)]\nmod d;\nfn e() {}\n";
        let lines = test_lines(code);
        let marked: Vec<usize> = (1..)
            .zip(&lines)
            .filter(|(_, test)| **test)
            .map(|(at, _)| at)
            .collect();
        assert_eq!(marked, [3, 4, 5, 6, 7, 9, 10]);
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("std::env::var(x)", "env::var"));
        assert!(!has_word("std::env::var_os(x)", "env::var"));
        assert!(has_word("println!(x)", "println!"));
        assert!(!has_word("eprintln!(x)", "println!"));
        assert!(!has_word("#![deny(unsafe_code)]", "unsafe"));
    }
}
