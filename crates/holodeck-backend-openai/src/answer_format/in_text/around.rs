//! Decides whether an object that stands in a text is what the text says, or is only quoted or contradicted by it. It must
//! not read a verdict from the text itself.

use std::ops::Range;

use serde_json::Value;

/// Words beside which a number is a verdict.
const VERDICTS: [&str; 14] = [
    "score", "scores", "scored", "verdict", "rating", "ratings", "rated", "grade", "graded", "stars",
    "deserve", "deserves", "earns", "merits",
];

/// Words that make a verdict of what follows if they are about the answer: `I give it 2`.
const GIVING: [&str; 6] = ["give", "gave", "giving", "rate", "award", "awarding"];

/// Words for the receiver of a verdict.
const GIVEN_TO: [&str; 4] = ["it", "this", "that", "the"];

/// Words of a sentence that introduces the text of another writer.
const QUOTING: [&str; 25] = [
    "contain",
    "contains",
    "contained",
    "containing",
    "says",
    "said",
    "saying",
    "claimed",
    "claiming",
    "quoted",
    "includes",
    "tries",
    "tried",
    "attempts",
    "attempted",
    "injects",
    "injected",
    "embeds",
    "embedded",
    "writes",
    "wrote",
    "reads",
    "ends",
    "example",
    "instance",
];

/// Words with which a sentence begins that only supposes something.
const SUPPOSING: [&str; 8] = [
    "if",
    "were",
    "suppose",
    "supposing",
    "assuming",
    "otherwise",
    "unless",
    "hypothetically",
];

/// Words of such a sentence, unless it is about the writer: `I would give it`.
const POSSIBLE: [&str; 3] = ["would", "could", "might"];

/// Words for the writer.
const WRITER: [&str; 2] = ["i", "my"];

/// Answers to the questions of judges about single claims.
const ANSWERS: [&str; 3] = ["yes", "no", "idk"];

/// Headings of an explanation.
const EXPLAINING: [&str; 5] = ["explanation", "justification", "rationale", "reason", "reasoning"];

/// How sentences begin that only take leave, and how many words may follow.
const COURTESIES: [(&[&str], usize); 9] = [
    (&["hope", "this", "helps"], 1),
    (&["i", "hope", "this", "helps"], 1),
    (&["let", "me", "know", "if"], 8),
    (&["please", "let", "me", "know", "if"], 8),
    (&["feel", "free", "to", "ask"], 5),
    (&["bye"], 0),
    (&["thanks"], 0),
    (&["thank", "you"], 0),
    (&["cheers"], 0),
];

/// Points of a score, in scripts that write them without a space.
const POINTS: [char; 3] = ['分', '点', '점'];

/// The tops of usual scales.
const SCALES: [f64; 3] = [5.0, 10.0, 100.0];

/// Whether an equal object at one of `places` is what the text says.
pub(super) fn check(text: &str, places: &[Range<usize>], value: &Value) -> Result<(), String> {
    if !places.iter().any(|place| is_own_statement(text, place)) {
        return Err("its JSON object stands within a sentence, code or a quotation, as if quoted".to_owned());
    }
    if places.iter().all(|place| is_introduced_as_quotation(text, place)) {
        return Err("its JSON object is introduced as an example, a quotation or a supposition".to_owned());
    }
    let own: Vec<f64> = value
        .as_object()
        .into_iter()
        .flat_map(|fields| fields.values())
        .filter_map(number_of)
        .collect();
    if has_other_verdict(&without(text, places), &own) {
        return Err("it has a JSON object and, beside it, text that may be another verdict".to_owned());
    }
    if places.last().is_some_and(|last| is_followed(text, last)) {
        return Err("it has text after its JSON object, which may take it back".to_owned());
    }
    Ok(())
}

/// Whether a text says anything but the objects at `places`: one fence or tag around one of them says nothing.
pub(super) fn has_company(text: &str, places: &[Range<usize>]) -> bool {
    let is_whole = |place: &Range<usize>| {
        sides_of(text, place).is_some_and(|sides| is_whole(sides.before.trim(), sides.after.trim()))
    };
    let rest = without(text, places);
    let mut lines = rest.lines().map(str::trim_start);
    !places.iter().any(is_whole)
        && lines.any(|line| !line.starts_with("~~~") && line.contains(char::is_alphanumeric))
}

fn number_of(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// The text with a line end instead of each place.
fn without(text: &str, places: &[Range<usize>]) -> String {
    let (mut rest, mut at) = (String::new(), 0);
    for place in places {
        rest.push_str(text.get(at..place.start).unwrap_or_default());
        rest.push('\n');
        at = place.end;
    }
    rest.push_str(text.get(at..).unwrap_or_default());
    without_languages(&rest)
}

/// The text without the languages of its fences, which can have digits, as in `json5`.
fn without_languages(text: &str) -> String {
    let is_language = |c: char| c.is_ascii_alphanumeric() || "+-_.".contains(c);
    let pieces = text.split("```").enumerate().map(|(number, piece)| {
        let language = piece.find(|c| !is_language(c)).unwrap_or(piece.len());
        let (language, rest) = piece.split_at(language);
        // A fence on a line of its own; a number alone may be a verdict.
        let is_opening = number % 2 == 1
            && rest.trim_start_matches([' ', '\t', '\r']).starts_with('\n')
            && language.starts_with(|c: char| c.is_ascii_alphabetic());
        if is_opening { rest } else { piece }
    });
    pieces.collect::<Vec<_>>().join("\n")
}

/// The text before and after the object, without the fence or the tags that contain nothing else.
struct Sides<'t> {
    before: &'t str,
    after: &'t str,
    is_fenced: bool,
}

/// Absent if the object is a part of a block of code, or the text has several blocks.
fn sides_of<'t>(text: &'t str, place: &Range<usize>) -> Option<Sides<'t>> {
    let before = text.get(..place.start)?;
    let after = text.get(place.end..)?;
    let bare = Sides {
        before,
        after,
        is_fenced: false,
    };
    if before.matches("```").count() % 2 == 0 {
        return Some(bare);
    }
    let (before, info) = before.rsplit_once("```")?;
    let (left, after) = after.split_once("```").unwrap_or((after, ""));
    let is_info = |c: char| c.is_ascii_alphanumeric() || c.is_whitespace() || "+-_.".contains(c);
    let holds_only_it = info.chars().all(is_info) && left.trim().is_empty();
    let is_only = !before.contains("```") && !after.contains("```");
    (holds_only_it && is_only).then_some(Sides {
        before,
        after,
        is_fenced: true,
    })
}

/// Whether anything is said after the object but an explanation that calls itself one, and words of leave. No list of words
/// knows all ways to take a verdict back.
fn is_followed(text: &str, place: &Range<usize>) -> bool {
    let bare = text.get(place.end..).unwrap_or_default();
    let sides = sides_of(text, place);
    let after = sides.as_ref().map_or(bare, |sides| sides.after);
    let is_whole = sides.is_some_and(|sides| is_whole(sides.before.trim(), after.trim()));
    !is_whole && !is_explanation(after) && !after.split(['\n', '.', '!', '?']).all(is_courtesy)
}

/// Whether a text after an object says that it explains it. Numbers and words of another verdict in it still count.
fn is_explanation(text: &str) -> bool {
    let heading = text.split([':', '\n']).find(|part| words(part).next().is_some());
    let mut words = words(heading.unwrap_or_default());
    let first = words.next();
    first.is_some_and(|word| EXPLAINING.contains(&word.as_str())) && words.next().is_none()
}

/// Whether a sentence only takes leave, or says nothing.
fn is_courtesy(sentence: &str) -> bool {
    let words: Vec<String> = words(sentence).collect();
    let is_one = |(with, more): &(&[&str], usize)| {
        words.iter().take(with.len()).eq(with.iter()) && words.len() <= with.len() + more
    };
    words.is_empty() || COURTESIES.iter().any(is_one)
}

fn is_own_statement(text: &str, place: &Range<usize>) -> bool {
    let Some(sides) = sides_of(text, place) else {
        return false;
    };
    let (before, after) = (sides.before.trim(), sides.after.trim());
    if is_whole(before, after) {
        return true;
    }
    let line = sides.before.rsplit('\n').next().unwrap_or_default();
    let is_open =
        |text: &str, open: &str, close: &str| text.matches(open).count() > text.matches(close).count();
    let quotes = [("“", "”"), ("«", "»"), ("「", "」"), ("„", "“"), ("<!--", "-->")];
    let is_quoted = before.matches('"').count() % 2 == 1
        || line.matches('`').count() % 2 == 1
        || line.trim_start().starts_with('>')
        || quotes.iter().any(|(open, close)| is_open(before, open, close))
        || is_tagged(before, after);
    let ends = |end: char| ".:!?>。：！？-–—=→".contains(end);
    let line = line.trim_matches(|c: char| c.is_whitespace() || "*_#".contains(c));
    let begins_here = sides.is_fenced || line.is_empty() || line.ends_with(ends);
    // A sentence that continues after the object.
    let continues = |first: char| first.is_lowercase() || ",;:)]}\"'`”»」".contains(first);
    !is_quoted
        && begins_here
        && !after.starts_with(continues)
        && (after.len() <= 1 || !after.starts_with('.'))
}

/// Whether nothing else is said: there is no other text, or only a tag or backticks around the object.
fn is_whole(before: &str, after: &str) -> bool {
    let tag = before.strip_prefix('<').and_then(|rest| rest.strip_suffix('>'));
    let is_name = |name: &str| {
        name.chars()
            .all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
    };
    let in_tag = tag.is_some_and(|name| {
        is_name(name) && !name.to_ascii_lowercase().contains("th") && after == format!("</{name}>")
    });
    let in_code = !before.is_empty() && before == after && before.chars().all(|c| c == '`');
    before.is_empty() && after.is_empty() || in_tag || in_code
}

/// Whether a tag begins before the object and ends after it.
fn is_tagged(before: &str, after: &str) -> bool {
    let mut ends = after.split("</").skip(1).filter_map(|rest| rest.split_once('>'));
    ends.any(|(name, _)| {
        let begins = before.matches(&format!("<{}", name.trim())).count();
        !name.trim().is_empty() && begins > before.matches(&format!("</{}", name.trim())).count()
    })
}

/// Whether the sentence before the object is about what another text says.
fn is_introduced_as_quotation(text: &str, place: &Range<usize>) -> bool {
    let before = sides_of(text, place).map_or("", |sides| sides.before);
    let before = before.trim_end().trim_end_matches(|c: char| !c.is_alphanumeric());
    let sentence = before.rsplit(['\n', '.', '!', '?']).next().unwrap_or_default();
    let abbreviated = before.to_lowercase().ends_with("e.g");
    let words: Vec<String> = words(sentence).collect();
    let has = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    let supposes = words
        .first()
        .is_some_and(|word| SUPPOSING.contains(&word.as_str()));
    abbreviated || has(&QUOTING) || supposes || has(&POSSIBLE) && !has(&WRITER)
}

fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    let words = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty());
    words.map(str::to_lowercase)
}

/// Whether a text says a number that may be a verdict and is not one of the object's own.
fn has_other_verdict(text: &str, own: &[f64]) -> bool {
    let is_other = |number: f64| !own.iter().any(|own| (own - number).abs() < 1e-9);
    sentences(text).any(|sentence| {
        let tokens = tokens_of(&sentence);
        let names_verdict = names_verdict(&tokens);
        let numbers = tokens.iter().enumerate().filter_map(|(at, token)| match token {
            Token::Number(number) => Some((at, *number)),
            _ => None,
        });
        let mut others =
            numbers.filter(|(at, number)| is_other(*number) && !is_top_of_scale(&tokens, *at, *number));
        others.any(|(at, _)| names_verdict || is_alone(&tokens, at) || is_of_scale(&tokens, at))
            || names_word_as_verdict(&tokens)
            || ends_with_answer(&tokens)
    })
}

#[derive(Debug, PartialEq)]
enum Token {
    Number(f64),
    Word(String),
    Sign(char),
}

/// The sentences of a text, each with its words; the number of an item in a list is no part of one.
fn sentences(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split('\n').flat_map(|line| {
        let line = line.trim_start();
        let digits = line.find(|c: char| !c.is_ascii_digit()).unwrap_or(line.len());
        let (number, rest) = line.split_at(digits);
        let item = rest.strip_prefix(['.', ')']).filter(|rest| {
            !number.is_empty() && rest.starts_with(' ') && rest.chars().any(char::is_alphabetic)
        });
        let mut sentences = vec![String::new()];
        let mut before = ' ';
        let mut chars = item.unwrap_or(line).chars().peekable();
        while let Some(c) = chars.next() {
            let is_end = match c {
                '.' => !(before.is_ascii_digit() && chars.peek().is_some_and(char::is_ascii_digit)),
                c => "!?;|。！？；".contains(c),
            };
            if is_end {
                sentences.push(String::new());
            } else if let Some(last) = sentences.last_mut() {
                last.push(c);
            }
            before = c;
        }
        sentences
    })
}

fn tokens_of(sentence: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = sentence;
    while let Some(c) = rest.chars().next() {
        let is_part = |part: char| match (c.is_ascii(), c.is_ascii_digit()) {
            (true, true) => part.is_alphanumeric() || part == '.',
            (true, false) => part.is_alphanumeric(),
            // Scripts without spaces have numbers within their words.
            (false, _) => part.is_alphanumeric() && !part.is_ascii_digit(),
        };
        let length = if c.is_alphanumeric() {
            rest.find(|part| !is_part(part)).unwrap_or(rest.len())
        } else {
            c.len_utf8()
        };
        let (token, after) = rest.split_at(length);
        rest = after;
        if c.is_ascii_digit() {
            tokens.extend(number_tokens(token));
        } else if c.is_numeric() {
            // A digit of another script, which equals no number of the object.
            tokens.push(Token::Number(f64::NAN));
        } else if c.is_alphanumeric() {
            tokens.push(Token::Word(token.to_lowercase()));
        } else if "/:=：".contains(c) {
            tokens.push(Token::Sign(c));
        }
    }
    tokens
}

/// A number and its unit in another script; a name such as `4o` is a word.
fn number_tokens(token: &str) -> Vec<Token> {
    let digits = token
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(token.len());
    let (number, unit) = token.split_at(digits);
    match number.trim_end_matches('.').parse() {
        Ok(number) if unit.is_empty() => vec![Token::Number(number)],
        Ok(number) if unit.starts_with(POINTS) => vec![Token::Number(number), Token::Sign('分')],
        Ok(number) if !unit.is_ascii() => vec![Token::Number(number), Token::Word(unit.to_owned())],
        _ => vec![Token::Word(token.to_lowercase())],
    }
}

/// Whether nothing but a number is said, perhaps after a colon or an equals sign.
fn is_alone(tokens: &[Token], at: usize) -> bool {
    let is_word = |token: &Token| matches!(token, Token::Word(_));
    let before = tokens.get(..at).unwrap_or_default();
    let after = tokens.get(at + 1..).unwrap_or_default();
    let begins = match before.last() {
        Some(Token::Sign(sign)) => *sign != '/',
        last => last.is_none(),
    };
    begins && !after.iter().any(is_word)
}

/// Whether a number has a top: `2/10`, `2 of 10`, `2 out of 10`; a count of things, such as `3 of 4 facts`, is none.
fn is_of_scale(tokens: &[Token], at: usize) -> bool {
    let after = tokens.get(at + 1..).unwrap_or_default();
    let is = |token: &Token, word: &str| matches!(token, Token::Word(own) if own == word);
    let (top, rest) = match after {
        [Token::Sign('/'), Token::Number(_), ..] | [Token::Sign('分'), ..] => return true,
        [of, Token::Number(top), rest @ ..] if is(of, "of") => (*top, rest),
        [out, of, Token::Number(top), rest @ ..] if is(out, "out") && is(of, "of") => (*top, rest),
        _ => return false,
    };
    SCALES.contains(&top) || !matches!(rest.first(), Some(Token::Word(_)))
}

/// Whether the number is the 10 of `2/10`, or of `2 of 10`.
fn is_top_of_scale(tokens: &[Token], at: usize, number: f64) -> bool {
    let before = at.checked_sub(1).and_then(|before| tokens.get(before));
    let divides = match before {
        Some(Token::Sign('/')) => true,
        Some(Token::Word(word)) => word == "of",
        _ => false,
    };
    divides && SCALES.contains(&number)
}

/// Whether a sentence is about a verdict.
fn names_verdict(tokens: &[Token]) -> bool {
    let word = |token: &Token, words: &[&str]| match token {
        Token::Word(own) => words.contains(&own.as_str()),
        _ => false,
    };
    tokens.iter().any(|token| word(token, &VERDICTS))
        || tokens.windows(2).any(|two| match two {
            [giving, to] => {
                word(giving, &GIVING) && word(to, &GIVEN_TO) || word(giving, &["i"]) && word(to, &GIVING)
            }
            _ => false,
        })
}

/// Whether a verdict is a word: `Verdict: bad`, `I give it a fail`.
fn names_word_as_verdict(tokens: &[Token]) -> bool {
    tokens.windows(3).any(|three| match three {
        [
            Token::Word(verdict),
            Token::Sign(':' | '=' | '：'),
            Token::Word(_),
        ] => VERDICTS.contains(&verdict.as_str()),
        [Token::Word(giving), Token::Word(it), Token::Word(_)] => {
            GIVING.contains(&giving.as_str()) && it == "it" || giving == "verdict" && it == "is"
        }
        _ => false,
    })
}

/// Whether a sentence is an answer of one word, perhaps after the claim that it is about: `1. no`, `Claim 2: yes`.
fn ends_with_answer(tokens: &[Token]) -> bool {
    let is_answer = |token: &Token| matches!(token, Token::Word(word) if ANSWERS.contains(&word.as_str()));
    match tokens {
        [.., Token::Sign(_), last] | [Token::Number(_), last] | [last] => is_answer(last),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
