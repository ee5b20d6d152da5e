//! Finds the terms that a text defines, with their meanings.

use std::ops::Range;

use super::blocks::{Block, Kind};
use super::outline::Outline;
use super::sentences;
use super::text::{shortened, slice};
use crate::Definition;

/// Longer meanings are cut.
const LONGEST_MEANING: usize = 500;

/// A longer string is not a term.
const LONGEST_TERM: usize = 80;

/// Verbs that separate a term from its meaning.
const VERBS: &[&str] = &[
    "has the same meaning",
    "have the same meaning",
    "has the meaning",
    "have the meaning",
    "shall have the meaning",
    "shall mean",
    "will mean",
    "means",
    "mean",
    "is defined as",
    "are defined as",
    "refers to",
    "refer to",
    "includes",
    "include",
];

/// A definition and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundDefinition {
    pub(super) at: usize,
    pub(super) definition: Definition,
}

/// The definitions of a text, in order: `"X" means …`, `**X**: …`, and the entries of a glossary.
pub(super) fn find(text: &str, outline: &Outline) -> Vec<FoundDefinition> {
    let mut found = Vec::new();
    for (index, block) in outline.blocks.iter().enumerate() {
        match block.kind {
            Kind::Text | Kind::Item => {
                let before = found.len();
                in_sentences(text, outline, index, &mut found);
                if found.len() == before {
                    found.extend(entry(text, outline, block));
                }
            }
            Kind::Table { rows } if is_glossary(outline, block) => {
                in_table(text, rows..block.range.end, &mut found);
            }
            Kind::Heading(_) if !block.is_title() => in_sentences(text, outline, index, &mut found),
            Kind::Heading(_) | Kind::Code | Kind::Table { .. } => {}
        }
    }
    found
}

/// `"X" means …` and `**X** means …`, anywhere in a block.
fn in_sentences(text: &str, outline: &Outline, index: usize, found: &mut Vec<FoundDefinition>) {
    let Some(block) = outline.blocks.get(index) else {
        return;
    };
    let mut at = block.range.start;
    while let Some((start, marked)) = next_marked(text, at..block.range.end) {
        at = marked.after;
        let after = slice(text, marked.after..block.range.end).trim_start();
        let Some(verb) = verb(after) else {
            continue;
        };
        let from = block.range.end - after.len();
        // `has the meaning given in …`: the verb is part of the meaning.
        let meaning = if verb.contains("meaning") {
            from
        } else {
            from + verb.len()
        };
        let end = meaning_end(text, outline, index, meaning);
        if let Some(definition) = new_definition(marked.term, slice(text, meaning..end)) {
            found.push(FoundDefinition {
                at: start,
                definition,
            });
            at = at.max(end.min(block.range.end));
        }
    }
}

struct Marked<'a> {
    term: &'a str,
    after: usize,
}

/// The next term in quotation marks or asterisks, and where its mark begins.
fn next_marked(text: &str, range: Range<usize>) -> Option<(usize, Marked<'_>)> {
    const MARKS: &[(&str, &str)] = &[("\"", "\""), ("“", "”"), ("***", "***"), ("**", "**"), ("„", "“")];
    let mut at = range.start;
    loop {
        let rest = slice(text, at..range.end);
        let start = at + rest.find(['"', '“', '*', '„'])?;
        let rest = slice(text, start..range.end);
        let (open, close) = MARKS
            .iter()
            .find(|(open, _)| rest.starts_with(open))
            .copied()
            .unwrap_or(("*", "*"));
        let inner = slice(rest, open.len()..rest.len());
        let near = slice(inner, 0..inner.floor_char_boundary(LONGEST_TERM + close.len()));
        if let Some(length) = near.find(close).filter(|&length| length > 0) {
            let after = start + open.len() + length + close.len();
            let term = slice(inner, 0..length);
            return Some((start, Marked { term, after }));
        }
        at = start + open.len();
    }
}

/// The verb of a definition at the start of `text`, after an optional `(the …)` or `, in relation to …,`.
fn verb(text: &str) -> Option<&'static str> {
    VERBS.iter().copied().find(|verb| {
        let rest = text.strip_prefix(verb);
        rest.is_some_and(|rest| rest.starts_with([' ', ':', ',', '\n', '\r', '—']))
    })
}

/// Where a meaning that begins at `from` ends: with its sentence or, if the sentence introduces a list, with the list.
fn meaning_end(text: &str, outline: &Outline, index: usize, from: usize) -> usize {
    let Some(block) = outline.blocks.get(index) else {
        return from;
    };
    let most = text.ceil_char_boundary((from + LONGEST_MEANING + 1).min(text.len()));
    let end = sentences::sentence_end_after(text, from, block.range.end.min(most));
    if !slice(text, from..end).trim_end().ends_with([':', '—']) {
        return end;
    }
    let following = outline.blocks.get(index + 1..).unwrap_or_default();
    let list = following.iter().take_while(|block| {
        let item =
            slice(text, block.range.clone()).starts_with(['(', '-', '*', '+']) || block.kind == Kind::Item;
        item && block.range.start < most && !matches!(block.kind, Kind::Heading(_))
    });
    list.last().map_or(end, |last| last.range.end.min(most))
}

/// `**Term**: meaning`, and in a glossary `Term: meaning` and `Term – meaning`.
fn entry(text: &str, outline: &Outline, block: &Block) -> Option<FoundDefinition> {
    // A bold word before a colon is usually one of these.
    const CALLS: &[&str] = &[
        "note",
        "notes",
        "warning",
        "caution",
        "tip",
        "important",
        "example",
        "examples",
        "info",
        "todo",
        "danger",
        "see also",
        "hint",
        "attention",
        "summary",
        "result",
        "answer",
        "question",
        "q",
        "a",
        "step",
    ];
    let own = slice(text, block.range.clone());
    let line = own.trim_start_matches(|mark: char| {
        mark.is_ascii_digit() || ".)-*+ ".contains(mark) && !own.starts_with("**")
    });
    let line = if own.starts_with("**") { own } else { line };
    // Trimming the marker removes the asterisks of a bold term.
    let skipped = own.len() - line.len();
    let bold = own.starts_with("**") || slice(own, 0..skipped).ends_with("**");
    let line = line.trim_start_matches('*');
    let (term, rest) = if bold {
        let (term, rest) = line.split_once("**")?;
        let rest = rest.trim_start_matches('*');
        let colon = term.trim_end().ends_with(':');
        let rest = if colon {
            rest
        } else {
            rest.trim_start()
                .strip_prefix([':', '—', '–'])
                .or_else(|| rest.trim_start().strip_prefix("- "))?
        };
        (term.trim_end().trim_end_matches(':'), rest)
    } else {
        // The syntax of definition lists.
        let lines = line.split_once("\n: ").or_else(|| line.split_once("\n:   "));
        match lines {
            Some((term, rest)) if !term.contains('\n') => (term, rest),
            _ if is_glossary(outline, block) => {
                let marks = [": ", " – ", " — ", " - "];
                let first = marks
                    .iter()
                    .filter_map(|mark| line.find(mark).map(|at| (at, mark.len())))
                    .min()?;
                (
                    slice(line, 0..first.0),
                    slice(line, first.0 + first.1..line.len()),
                )
            }
            _ => return None,
        }
    };
    if CALLS.iter().any(|call| call.eq_ignore_ascii_case(term.trim()))
        || term.trim_start().to_lowercase().starts_with("step ")
    {
        return None;
    }
    let definition = new_definition(term, rest)?;
    Some(FoundDefinition {
        at: block.range.start,
        definition,
    })
}

/// The first two columns of a glossary's table.
fn in_table(text: &str, range: Range<usize>, found: &mut Vec<FoundDefinition>) {
    let mut at = range.start;
    for line in slice(text, range).split_inclusive('\n') {
        let mut cells = line.trim().trim_start_matches('|').split('|').map(str::trim);
        if let (Some(term), Some(meaning)) = (cells.next(), cells.next())
            && let Some(definition) = new_definition(term, meaning)
        {
            found.push(FoundDefinition { at, definition });
        }
        at += line.len();
    }
}

fn is_glossary(outline: &Outline, block: &Block) -> bool {
    let title = outline.title_at(block.range.start).to_lowercase();
    [
        "glossary",
        "definition",
        "terminology",
        "abbreviation",
        "acronym",
        "terms and ",
    ]
    .iter()
    .any(|word| title.contains(word))
}

fn new_definition(term: &str, meaning: &str) -> Option<Definition> {
    let term = term.trim_matches(|mark: char| mark.is_whitespace() || "*_\"“”`".contains(mark));
    let term = term.split_whitespace().collect::<Vec<_>>().join(" ");
    let meaning = meaning
        .trim_start_matches(|mark: char| mark.is_whitespace() || ":,—–".contains(mark))
        .trim();
    let known = !term.is_empty() && term.len() <= LONGEST_TERM && !meaning.is_empty();
    known.then(|| Definition {
        term,
        meaning: shortened(meaning, LONGEST_MEANING),
    })
}

#[cfg(test)]
mod tests {
    use holodeck_model::DocumentDomain;

    use super::*;

    fn check(text: &str, expected: &[(&str, &str)]) {
        let outline = Outline::of(text, DocumentDomain::LegalContract, None);
        let found = find(text, &outline);
        let found: Vec<_> = found
            .iter()
            .map(|found| (found.definition.term.as_str(), found.definition.meaning.as_str()))
            .collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn quoted_terms_are_defined_by_a_verb() {
        check(
            "\"Goods\" means the things in Schedule A. They are many.",
            &[("Goods", "the things in Schedule A.")],
        );
        check(
            "“Business Day” shall mean a day\nother than Sunday; “Term” has the meaning given in Section 4.",
            &[(
                "Business Day",
                "a day\nother than Sunday; “Term” has the meaning given in Section 4.",
            )],
        );
        check("**Act** includes the rules.", &[("Act", "the rules.")]);
        check(
            "***agency*** has the same meaning as in the Act.",
            &[("agency", "has the same meaning as in the Act.")],
        );
        check("He said \"yes\" and “no” means little.", &[("no", "little.")]);
        check("\"unclosed means nothing", &[]);
        check("1.1 \"Fee\" means the price.", &[("Fee", "the price.")]);
    }

    #[test]
    fn a_meaning_may_be_a_list() {
        check(
            "\"Supplier\" means:\n\n(a) the maker; or\n\n(b) the seller.\n\nOther text.",
            &[("Supplier", "(a) the maker; or\n\n(b) the seller.")],
        );
    }

    #[test]
    fn bold_terms_and_glossaries() {
        check(
            "- **Token**: a piece of a word.",
            &[("Token", "a piece of a word.")],
        );
        check(
            "**Token:** a piece of a word.",
            &[("Token", "a piece of a word.")],
        );
        check("**Note**: not a term.", &[]);
        check("Some: text.", &[]);
        check(
            "# Glossary\n\n- API: a way in\n- CLI – a line\n",
            &[("API", "a way in"), ("CLI", "a line")],
        );
        check("Term\n: Its meaning.", &[("Term", "Its meaning.")]);
        check(
            "## Abbreviations\n\n| Short | Long |\n|---|---|\n| UN | United Nations |\n",
            &[("UN", "United Nations")],
        );
    }
}
