//! Texts that are probably not what they look like: cut by a comment, or with a variable in a form of another program.

use holodeck_model::{Code, Diagnostic, Env, unreplaced_variables};

use crate::yaml::tree::{Place, Tree};

/// Warns of a text in a file: `place` is the scalar, `plain` says that it has no quotes.
pub(super) fn check_scalar(
    tree: &mut Tree,
    source: &str,
    text: &str,
    plain: bool,
    place: Place,
    env: Option<&Env>,
) {
    if plain && let Some((at, word)) = comment_after(source, text, place) {
        let place = Place {
            start: at,
            end: at.saturating_add(1),
            ..place
        };
        // More than a number could be a part of a secret.
        let shown = if word.bytes().skip(1).all(|byte| byte.is_ascii_digit()) {
            word
        } else {
            "#…"
        };
        let diagnostic = Diagnostic::warning(Code::CutText, format!("the text ends before ` {shown}`"))
            .with_help("` #` begins a comment; put the whole text in quotes if it belongs to it");
        tree.add_warning(place, diagnostic);
    }
    if plain && let Some((open, close)) = typographic_quotes(text) {
        let message = format!("`{open}` and `{close}` belong to the text: they are not quotes of YAML");
        let diagnostic = Diagnostic::warning(Code::TypographicQuotes, message)
            .with_help("write `\"…\"`; to keep them, put the whole text in `'…'`");
        tree.add_warning(place, diagnostic);
    }
    if env.is_some() {
        for found in unreplaced_variables(text) {
            let raw = source
                .get(place.start as usize..place.end as usize)
                .unwrap_or_default();
            let begin = raw.find(&found.begin).and_then(|at| u32::try_from(at).ok());
            let start = place.start.saturating_add(begin.unwrap_or(0));
            let length = u32::try_from(found.begin.len()).unwrap_or(1);
            let place = Place {
                start,
                end: start.saturating_add(length),
                ..place
            };
            let message = format!("`{}` is not replaced", found.shown);
            // A value that is nothing else was hardly meant as a text.
            let is_whole = text.trim() == found.shown;
            let diagnostic = if is_whole {
                Diagnostic::warning(Code::NotAVariable, message)
            } else {
                Diagnostic::note(Code::NotAVariable, message)
            };
            let diagnostic = diagnostic.with_help(found.help);
            tree.add_warning(place, diagnostic);
        }
    }
}

/// The quotes of a word processor around a whole text.
fn typographic_quotes(text: &str) -> Option<(char, char)> {
    const PAIRS: [(char, &str); 7] = [
        ('“', "”"),
        ('„', "“”"),
        ('”', "”"),
        ('‘', "’"),
        ('‚', "‘’"),
        ('«', "»"),
        ('»', "«"),
    ];
    let open = text.chars().next()?;
    let (_, closes) = PAIRS.iter().find(|(mark, _)| *mark == open)?;
    let inner = text.get(open.len_utf8()..)?;
    let close = inner.chars().next_back()?;
    // Two quoted words are a text.
    let is_one = inner.matches(|c: char| closes.contains(c)).count() == 1;
    (closes.contains(close) && is_one).then_some((open, close))
}

/// The place of a `#` directly after a text, and its word. `# ` is a comment on purpose, as is `#` after a single word.
fn comment_after<'s>(source: &'s str, text: &str, place: Place) -> Option<(u32, &'s str)> {
    let raw = source.get(place.start as usize..place.end as usize)?;
    let end = place.start as usize + raw.trim_end().len();
    let rest = source.get(end..)?;
    let comment = rest.trim_start_matches([' ', '\t']);
    // First, because a line can be long and have many texts.
    if !comment.starts_with('#') {
        return None;
    }
    let word = comment.split_whitespace().next()?;
    let next = word.strip_prefix('#')?.chars().next()?;
    let is_sentence = text.contains(' ') && next.is_alphanumeric();
    let is_cut = comment.len() < rest.len() && (is_sentence || next.is_ascii_digit());
    let at = u32::try_from(end + rest.len() - comment.len()).ok()?;
    // A number in a list or an index is a comment on purpose, too.
    (is_cut && text.chars().any(char::is_alphabetic)).then_some((at, word))
}
