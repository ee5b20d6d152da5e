//! Lines that are headings in the documents of a domain but not in Markdown.
//!
//! Such headings are below Markdown's: a law's `Part 1` belongs to the `# Act` above it.

use std::borrow::Cow;

use holodeck_model::DocumentDomain;

use super::number::{self, Label, Word};
use super::text::{LONGEST_TITLE, shortened, slice};

/// The lowest level of Markdown.
const MARKDOWN: usize = 6;

/// Longest title on a line of its own.
const LONGEST_LINE: usize = 110;

/// A heading and its level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Heading {
    /// Greater is deeper.
    pub(super) level: usize,
    pub(super) title: String,
    pub(super) number: Option<String>,
    /// Whether the title is only a number, so that the next line may be the rest of it.
    pub(super) bare: bool,
    /// Whether its line continues after the title.
    pub(super) runs_on: bool,
}

/// The context before a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// A blank line, a heading or nothing.
    Break,
    /// The end of a sentence.
    End,
    /// Text that may continue.
    Inside,
}

impl Before {
    pub(super) fn of(text: &str) -> Self {
        let text = text.trim_end();
        if text.is_empty() {
            Self::Break
        } else if text.ends_with(['.', ';', ':', '!', '?', '|']) {
            Self::End
        } else {
            Self::Inside
        }
    }
}

/// The domain's name, as in an agent's file.
pub(super) fn name(domain: DocumentDomain) -> &'static str {
    match domain {
        DocumentDomain::None => "none",
        DocumentDomain::UsLegislative => "us_legislative",
        DocumentDomain::AuLegislative => "au_legislative",
        DocumentDomain::Academic => "academic",
        DocumentDomain::Technical => "technical",
        DocumentDomain::LegalContract => "legal_contract",
    }
}

/// The heading in a line of a domain's document; `next` is the following line.
pub(super) fn heading(domain: DocumentDomain, line: &str, next: &str, before: Before) -> Option<Heading> {
    if domain == DocumentDomain::None {
        return None;
    }
    let line = line.trim();
    let first = line.chars().next()?;
    if first.is_lowercase() || line.ends_with(',') || line.contains("....") {
        return None;
    }
    let line: Cow<'_, str> = if line.starts_with("**") {
        line.replace("**", "").into()
    } else {
        line.into()
    };
    labelled(domain, &line, before)
        .or_else(|| (before != Before::Inside).then(|| named(domain, &line))?)
        .or_else(|| (before != Before::Inside).then(|| numbered(domain, &line, next, before))?)
}

/// Whether a line reads as a title rather than as a sentence.
pub(super) fn is_title(text: &str) -> bool {
    let first = text.chars().next();
    text.len() <= LONGEST_LINE
        && first
            .is_some_and(|first| (first.is_alphabetic() && !first.is_lowercase()) || "`\"“(".contains(first))
        && !text.ends_with(['.', ';', ',', ':', '?', '!', '|'])
}

/// `ARTICLE I`, `Section 4.2 Payment`, `§ 101. Short title.—This Act …`.
fn labelled(domain: DocumentDomain, line: &str, before: Before) -> Option<Heading> {
    let label = Label::at_start(line)?;
    let level = level_of(domain, label.word, label.number)?;
    let sign = label.source.starts_with('§');
    let capitals = !sign && !label.source.bytes().any(|byte| byte.is_ascii_lowercase());
    if before == Before::Inside && !capitals {
        return None;
    }
    let rest = label.rest;
    let marked =
        rest.starts_with(['.', ':', ')', '—', '–']) || rest.trim_start().starts_with(['—', '–', '-', '(']);
    let text = without_marks(rest);
    let titled = text.chars().next().is_none_or(|first| !first.is_lowercase());
    // `Section 12(b) requires` and `Part A, which` are sentences.
    if !titled
        || !(rest.is_empty() || marked || rest.starts_with(char::is_whitespace))
        || rest.starts_with('(')
    {
        return None;
    }
    // A sentence can begin like this: `Section 5 Notices are void.` must at least follow a blank line.
    let clear = marked || text.is_empty() || is_title(text) || sign || capitals;
    if !clear && before != Before::Break {
        return None;
    }
    Some(new_heading(
        level,
        label.source,
        label.word.numbered(label.number),
        text,
    ))
}

fn level_of(domain: DocumentDomain, word: Word, number: &str) -> Option<usize> {
    let level = match domain {
        DocumentDomain::None => return None,
        DocumentDomain::UsLegislative => match word {
            Word::Title | Word::Appendix | Word::Schedule => 1,
            Word::Subtitle | Word::Division => 2,
            Word::Chapter | Word::Article => 3,
            Word::Subchapter => 4,
            Word::Part => 5,
            Word::Subpart => 6,
            Word::Section => 7,
            _ => return None,
        },
        DocumentDomain::AuLegislative => match word {
            Word::Chapter | Word::Schedule => 1,
            Word::Part => 2,
            Word::Division => 3,
            Word::Subdivision => 4,
            Word::Section | Word::Clause => 5,
            _ => return None,
        },
        DocumentDomain::Academic | DocumentDomain::Technical => match word {
            Word::Part => 1,
            Word::Chapter | Word::Appendix | Word::Annex => 2,
            Word::Section => 2 + number::parts(number),
            _ => return None,
        },
        DocumentDomain::LegalContract => match word {
            Word::Article
            | Word::Part
            | Word::Schedule
            | Word::Exhibit
            | Word::Annex
            | Word::Appendix
            | Word::Attachment => 1,
            Word::Section | Word::Clause => 1 + number::parts(number),
            _ => return None,
        },
    };
    Some(level)
}

/// `Abstract`, `RECITALS`.
fn named(domain: DocumentDomain, line: &str) -> Option<Heading> {
    const ACADEMIC: &[&str] = &[
        "abstract",
        "summary",
        "keywords",
        "introduction",
        "background",
        "preliminaries",
        "literature review",
        "related work",
        "method",
        "methods",
        "methodology",
        "materials and methods",
        "experiments",
        "experimental setup",
        "evaluation",
        "results",
        "results and discussion",
        "discussion",
        "limitations",
        "conclusion",
        "conclusions",
        "future work",
        "acknowledgements",
        "acknowledgments",
        "acknowledgement",
        "references",
        "bibliography",
        "appendix",
        "appendices",
        "supplementary material",
    ];
    const CONTRACT: &[&str] = &[
        "recitals",
        "background",
        "definitions",
        "whereas",
        "signatures",
        "parties",
    ];
    let (names, level) = match domain {
        DocumentDomain::Academic => (ACADEMIC, 3),
        DocumentDomain::LegalContract => (CONTRACT, 1),
        _ => return None,
    };
    let title = line.trim_end_matches(':').trim_end();
    // `Abstract—We show` and `Abstract. We show` are run in.
    let (title, run_in) = match title.split_once(['—', '.']) {
        Some((head, text)) if !text.trim().is_empty() => (head.trim(), true),
        _ => (title.trim_end_matches('.'), false),
    };
    if title.len() > 40 || (run_in && !title.eq_ignore_ascii_case("abstract")) {
        return None;
    }
    let known = names.iter().any(|name| name.eq_ignore_ascii_case(title));
    known.then(|| Heading {
        level: MARKDOWN + level,
        title: title.to_owned(),
        number: None,
        bare: false,
        runs_on: run_in,
    })
}

/// `1. Introduction`, `2.3 Setup`, `12A  Application of Act`, `4.2 The Supplier shall …`, `IV. RESULTS`.
fn numbered(domain: DocumentDomain, line: &str, next: &str, before: Before) -> Option<Heading> {
    let roman = || {
        let end = number::letters(line).filter(|_| domain == DocumentDomain::Academic)?;
        let shouted = !line.bytes().any(|byte| byte.is_ascii_lowercase());
        let dotted = number::parts(slice(line, 0..end)) > 1;
        (dotted || (shouted && slice(line, end..line.len()).starts_with('.'))).then_some(end)
    };
    let end = number::decimal(line).or_else(roman)?;
    let number = slice(line, 0..end);
    let after = slice(line, end..line.len());
    let rest = after.strip_prefix(['.', ')']).unwrap_or(after);
    let dotted = rest.len() < after.len();
    if !rest.starts_with([' ', '\t']) || number.contains('-') {
        return None;
    }
    let text = rest.trim();
    let parts = number::parts(number);
    if number.len() > 3 && parts == 1 && !number.ends_with(|last: char| last.is_ascii_uppercase()) {
        return None;
    }
    let level = match domain {
        DocumentDomain::Academic | DocumentDomain::Technical => {
            // One of several numbers in consecutive lines is a list item.
            let listed = number::decimal(next.trim_start()).is_some();
            if !is_title(text) || (parts == 1 && (before != Before::Break || listed)) {
                return None;
            }
            2 + parts
        }
        DocumentDomain::AuLegislative => {
            if dotted || !is_title(text) {
                return None;
            }
            4 + parts
        }
        DocumentDomain::LegalContract => {
            let short = is_title(text) || is_title(text.trim_end_matches(['.', ':']));
            if parts == 1 && !(dotted && ((short && !is_sentence(text)) || run_in(text).is_some())) {
                return None;
            }
            1 + parts
        }
        DocumentDomain::None | DocumentDomain::UsLegislative => return None,
    };
    Some(new_heading(level, number, number.to_owned(), text))
}

fn new_heading(level: usize, source: &str, number: String, text: &str) -> Heading {
    let whole = text.trim_end_matches(['.', ':']);
    let title = run_in(text)
        .or_else(|| (is_title(whole) && !is_sentence(whole)).then_some(whole))
        .unwrap_or_default();
    let runs_on = title.len() < whole.len();
    let title = format!("{source} {title}");
    Heading {
        level: MARKDOWN + level,
        title: shortened(title.trim_end(), LONGEST_TITLE),
        number: Some(number),
        bare: text.is_empty(),
        runs_on,
    }
}

/// The title of a text that begins with one: `Payment. The Customer shall pay …`.
fn run_in(text: &str) -> Option<&str> {
    let end = text.find(['.', ':', '—'])?;
    let (title, rest) = (slice(text, 0..end).trim(), slice(text, end..text.len()));
    let more = rest.trim_start_matches(['.', ':', '—']).trim();
    (!more.is_empty() && title.len() <= 70 && is_title(title) && !is_sentence(title)).then_some(title)
}

/// Whether a text has the verb of a rule, which titles omit.
fn is_sentence(text: &str) -> bool {
    const VERBS: &[&str] = &[
        "shall", "must", "may", "will", "is", "are", "means", "agrees", "agree", "has", "have",
    ];
    let words: Vec<&str> = text.split_whitespace().take(20).collect();
    words.len() > 9
        || words
            .iter()
            .any(|word| VERBS.contains(&word.trim_end_matches([':', ',', '.'])))
}

/// Removes the marks that separate a number from its title.
fn without_marks(text: &str) -> &str {
    text.trim_start_matches(|mark: char| {
        mark.is_whitespace() || matches!(mark, '.' | ':' | ')' | '—' | '–' | '-')
    })
    .trim_end()
}

#[cfg(test)]
mod tests;
