//! The literal parts of a query.

use std::collections::HashSet;

use crate::phrases::fold;

/// The quoted phrases of a query, and the section numbers outside them.
pub(crate) fn exact_phrases(query: &str) -> Vec<String> {
    let mut phrases = Vec::new();
    let mut rest = query;
    while let Some((before, from)) = split_at_quote(rest, OPENING) {
        section_numbers(before, &mut phrases);
        let Some((quoted, after)) = split_at_quote(from, CLOSING) else {
            // An unmatched quotation mark quotes nothing.
            rest = from;
            continue;
        };
        phrases.extend((!quoted.trim().is_empty()).then(|| quoted.trim().to_owned()));
        rest = after;
    }
    section_numbers(rest, &mut phrases);
    let mut seen = HashSet::new();
    phrases.retain(|phrase| seen.insert(fold(phrase)));
    phrases
}

const OPENING: &[char] = &['"', '“', '„', '«'];
const CLOSING: &[char] = &['"', '”', '“', '»'];

fn split_at_quote<'a>(text: &'a str, marks: &[char]) -> Option<(&'a str, &'a str)> {
    let at = text.find(marks)?;
    let (before, after) = text.split_at(at);
    let mut after = after.chars();
    after.next();
    Some((before, after.as_str()))
}

/// `4.2`, `§ 7`, `section 12(b)`, `Art. 3`: with their sign if they have one, since `7` alone occurs in every text.
fn section_numbers(text: &str, phrases: &mut Vec<String>) {
    let words: Vec<&str> = text
        .split_whitespace()
        .map(|word| word.trim_matches(EDGE))
        .collect();
    let mut before: Option<&str> = None;
    for word in words {
        let number = word.trim_start_matches('§');
        if number.starts_with(|c: char| c.is_ascii_digit()) && number.chars().all(in_number) {
            let dotted = number.contains('.') || number.contains('(');
            if number.len() < word.len() || dotted {
                phrases.push(word.to_owned());
            } else if let Some(sign) = before.filter(|before| is_sign(before)) {
                phrases.push(format!("{sign} {number}"));
            }
        }
        before = Some(word);
    }
}

const EDGE: &[char] = &[',', ';', ':', '?', '!', '.', '\'', '[', ']'];

fn in_number(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '(' | ')' | '-')
}

fn is_sign(word: &str) -> bool {
    let word = word.trim_end_matches('.').to_lowercase();
    matches!(
        word.as_str(),
        "§" | "§§"
            | "section"
            | "sec"
            | "article"
            | "art"
            | "clause"
            | "chapter"
            | "part"
            | "rule"
            | "paragraph"
            | "para"
            | "appendix"
            | "schedule"
            | "title"
            | "item"
            | "regulation"
            | "reg"
    )
}

#[cfg(test)]
mod tests {
    use super::exact_phrases;

    #[test]
    fn quotes_and_section_numbers_are_exact() {
        let check = |query: &str, phrases: &[&str]| assert_eq!(exact_phrases(query), phrases, "{query}");
        check(r#"what is "force majeure" here"#, &["force majeure"]);
        check("„höhere Gewalt“ und «x y»", &["höhere Gewalt", "x y"]);
        check("What does section 4.2 say?", &["4.2"]);
        check("What do Section 7 and § 8 say", &["Section 7", "§ 8"]);
        check("§12(b), 4.2.1; \"4.2.1\"", &["§12(b)", "4.2.1"]);
        check("the 30 days of 2024", &[]);
        check(r#"a "lone mark"#, &[]);
        check(r#""""#, &[]);
    }
}
