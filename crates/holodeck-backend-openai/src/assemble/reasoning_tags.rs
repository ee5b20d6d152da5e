//! Separates reasoning that a server leaves in the content, such as between `<think>` and `</think>`, from the answer. The
//! tags may arrive in pieces. It does not know what the text means: a tag inside an answer or in code is text. Every
//! character is read a limited number of times, so that no answer takes long.

use serde_json::Value;

use self::{
    code::Code,
    tag::{Find, Match, Style, Tag},
};

mod code;
mod tag;

/// A pair of tags around reasoning.
#[derive(Debug)]
struct Pair {
    open: Tag,
    close: Tag,
    /// Whether models are trained to write them, so that no prompt asks for them as a part of the answer.
    is_own: bool,
}

const fn pair(style: Style, name: &'static str, is_own: bool) -> Pair {
    Pair {
        open: Tag {
            style,
            name,
            is_close: false,
        },
        close: Tag {
            style,
            name,
            is_close: true,
        },
        is_own,
    }
}

/// The tags that models and servers write; the first is the one whose end may stand alone.
static PAIRS: [Pair; 7] = [
    pair(Style::Angle, "think", true),
    pair(Style::Angle, "thinking", false),
    pair(Style::Angle, "thought", false),
    pair(Style::Angle, "seed:think", true),
    pair(Style::Square, "THINK", true),
    pair(Style::Triangle, "think", true),
    // Of servers that do not use the model's own, such as Bedrock's.
    pair(Style::Angle, "reasoning", false),
];

/// The pair whose end may stand alone: servers write its beginning into the prompt.
static THINK: &Pair = &PAIRS[0];

/// Which tags an answer may begin with, by their place in [`PAIRS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tags {
    is_answer: [bool; PAIRS.len()],
}

impl Default for Tags {
    /// Those of models.
    fn default() -> Self {
        Self {
            is_answer: PAIRS.each_ref().map(|pair| !pair.is_own),
        }
    }
}

impl Tags {
    /// The tags of the answer to a request. A prompt that names a tag may ask for it: then it is a part of the answer.
    pub(crate) fn of_request(body: &Value) -> Self {
        let messages = body.get("messages").and_then(Value::as_array);
        let contents = messages
            .into_iter()
            .flatten()
            .filter_map(|message| message.get("content"));
        let texts = contents.flat_map(|content| {
            let parts = content.as_array().into_iter().flatten();
            let parts = parts.filter_map(|part| part.get("text")?.as_str());
            content.as_str().into_iter().chain(parts)
        });
        let texts: Vec<&str> = texts.collect();
        Self {
            is_answer: PAIRS
                .each_ref()
                .map(|pair| !pair.is_own && texts.iter().any(|text| pair.open.is_in(text))),
        }
    }

    /// The pairs of tags.
    fn pairs(self) -> impl Iterator<Item = &'static Pair> {
        PAIRS
            .iter()
            .zip(self.is_answer)
            .filter(|(_, is_answer)| !is_answer)
            .map(|(pair, _)| pair)
    }
}

/// A part of the content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Reasoning(String),
    Text(String),
    /// All text so far was reasoning: its end arrived without its beginning, which the server writes into the prompt.
    TextWasReasoning,
}

/// The state after the pieces so far.
#[derive(Debug)]
pub(super) struct ReasoningTags {
    state: State,
    tags: Tags,
    /// The tags of the reasoning that has begun.
    pair: &'static Pair,
    /// The content that is not passed on from `at`: the beginning of a tag, or all text if `holds_text`.
    held: String,
    at: usize,
    /// The bytes of it that are read, and say nothing more.
    seen: usize,
    /// Whether the text after these bytes is in code.
    code: Code,
    /// Keep the text until its end, or until it turns out to be reasoning.
    holds_text: bool,
    /// A block of reasoning ended before the text.
    follows_block: bool,
    /// A block of reasoning contained the beginning of another one.
    is_nested: bool,
    has_lone_close: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Nothing but blanks so far.
    #[default]
    Start,
    /// The same after reasoning.
    AfterReasoning,
    Reasoning,
    /// Text that may turn out to be reasoning.
    Text,
    /// Text that cannot turn out to be reasoning.
    Answer,
}

/// More blanks after the end of a block mean that no answer follows.
const MAX_BLANKS: usize = 256;

impl ReasoningTags {
    /// With `holds_text`, text is passed on only when it is certain: no [`Part::TextWasReasoning`] follows.
    pub(super) fn new(holds_text: bool, tags: Tags) -> Self {
        Self {
            state: State::Start,
            tags,
            pair: THINK,
            held: String::new(),
            at: 0,
            seen: 0,
            code: Code::default(),
            holds_text,
            follows_block: false,
            is_nested: false,
            has_lone_close: false,
        }
    }

    /// Whether reasoning ended that had no beginning.
    pub(super) fn has_lone_close(&self) -> bool {
        self.has_lone_close
    }

    pub(super) fn push(&mut self, piece: &str, parts: &mut Vec<Part>) {
        self.held.push_str(piece);
        while self.advance(parts) {}
        if self.at > 0 {
            self.held.drain(..self.at);
            self.at = 0;
        }
    }

    /// Passes on what is left when the content is over.
    pub(super) fn finish(&mut self, parts: &mut Vec<Part>) {
        let held = std::mem::take(&mut self.held);
        match self.state {
            State::Reasoning => emit(Part::Reasoning, &held, parts),
            State::AfterReasoning => emit(Part::Text, trim_blanks(&held), parts),
            State::Start | State::Text | State::Answer => emit(Part::Text, &held, parts),
        }
    }

    /// The content from a place in what is held.
    fn rest(&self, from: usize) -> &str {
        self.held.get(self.at + from..).unwrap_or_default()
    }

    /// Follows code in the next bytes that are not seen.
    fn read_code(&mut self, length: usize) {
        let start = self.at + self.seen;
        self.code
            .read(self.held.get(start..start + length).unwrap_or_default());
        self.seen += length;
    }

    /// Takes the first bytes of what is held.
    fn take(&mut self, length: usize) -> String {
        let taken = self
            .held
            .get(self.at..self.at + length)
            .unwrap_or_default()
            .to_owned();
        self.at += length;
        self.seen = self.seen.saturating_sub(length);
        taken
    }

    /// Decides about a part of what is held; false if nothing more can be decided.
    fn advance(&mut self, parts: &mut Vec<Part>) -> bool {
        match self.state {
            State::Start | State::AfterReasoning => self.begin(),
            State::Reasoning => self.read_reasoning(parts),
            State::Text => self.read_text(parts),
            State::Answer => {
                let text = self.take(self.rest(0).len());
                emit(Part::Text, &text, parts);
                false
            }
        }
    }

    fn begin(&mut self) -> bool {
        let unseen = self.rest(self.seen);
        let blanks = self.seen + unseen.len() - trim_blanks(unseen).len();
        self.seen = blanks;
        let begun = self.rest(blanks);
        let mut may_follow = begun.is_empty();
        for pair in self.tags.pairs() {
            match pair.open.begins(begun) {
                Match::Whole(length) => {
                    self.pair = pair;
                    self.at += blanks + length;
                    self.seen = 0;
                    self.state = State::Reasoning;
                    return true;
                }
                Match::Cut => may_follow = true,
                Match::Not => {}
            }
        }
        if may_follow {
            return false;
        }
        if self.state == State::AfterReasoning {
            self.at += blanks;
        }
        self.seen = 0;
        self.code = Code::default();
        self.state = State::Text;
        true
    }

    fn read_reasoning(&mut self, parts: &mut Vec<Part>) -> bool {
        let found = self.pair.close.find(self.rest(0));
        let (length, after) = match found {
            Find::At(place, length) => (place, length),
            Find::Not { certain } => (certain.min(self.pair.open.certain(self.rest(0))), 0),
        };
        let reasoning = self.take(length);
        self.is_nested |= self.pair.open.is_in(&reasoning);
        emit(Part::Reasoning, &reasoning, parts);
        if after == 0 {
            return false;
        }
        self.at += after;
        self.seen = 0;
        self.follows_block = true;
        self.state = State::AfterReasoning;
        true
    }

    fn read_text(&mut self, parts: &mut Vec<Part>) -> bool {
        while let Some(next) = self.rest(self.seen).find(self.pair.close.style.first()) {
            let place = self.seen + next;
            self.read_code(next);
            let from = self.rest(place);
            let (open, close) = (self.pair.open.begins(from), self.pair.close.begins(from));
            let length = match (open, close) {
                (Match::Whole(_), _) if !self.code.is_inside() => {
                    self.state = State::Answer;
                    return true;
                }
                (Match::Whole(length), _) => length,
                (_, Match::Whole(length)) if self.code.is_inside() => length,
                (_, Match::Whole(length)) => match self.ends_reasoning(place + length) {
                    Some(true) => {
                        self.turn_into_reasoning(place, length, parts);
                        return true;
                    }
                    Some(false) => length,
                    None => break,
                },
                (Match::Cut, _) | (_, Match::Cut) => break,
                (Match::Not, Match::Not) => self.pair.close.style.first().len_utf8(),
            };
            self.read_code(length);
        }
        let open = self.rest(self.seen).find(self.pair.close.style.first());
        if open.is_none() {
            self.read_code(self.rest(self.seen).len());
        }
        if !self.holds_text {
            let text = self.take(self.seen);
            emit(Part::Text, &text, parts);
        }
        false
    }

    /// Whether the end of reasoning that ends here is one. After a block of reasoning it is one only if an answer follows:
    /// the answer may name the tag. Absent if that is not known yet.
    fn ends_reasoning(&self, end: usize) -> Option<bool> {
        if !self.follows_block || self.is_nested {
            return Some(true);
        }
        let after = self.rest(end);
        if !trim_blanks(after).is_empty() {
            return Some(true);
        }
        (after.len() > MAX_BLANKS).then_some(false)
    }

    fn turn_into_reasoning(&mut self, place: usize, length: usize, parts: &mut Vec<Part>) {
        let before = self.take(place);
        if self.holds_text {
            emit(Part::Reasoning, &before, parts);
        } else {
            emit(Part::Text, &before, parts);
            parts.push(Part::TextWasReasoning);
        }
        self.at += length;
        self.seen = 0;
        self.is_nested = false;
        self.follows_block = true;
        self.has_lone_close = true;
        self.state = State::AfterReasoning;
    }
}

/// The text without the blanks, and the marks of its encoding, at its beginning.
fn trim_blanks(text: &str) -> &str {
    text.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '\u{feff}' | '\u{200b}'))
}

fn emit(part: fn(String) -> Part, text: &str, parts: &mut Vec<Part>) {
    if !text.is_empty() {
        parts.push(part(text.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    /// The reasoning and the answer.
    fn read(pieces: &[&str], holds_text: bool) -> (String, String) {
        let mut tags = ReasoningTags::new(holds_text, Tags::of_request(&Value::Null));
        let mut parts = Vec::new();
        for piece in pieces {
            tags.push(piece, &mut parts);
        }
        tags.finish(&mut parts);
        let (mut reasoning, mut answer) = (String::new(), String::new());
        for part in parts {
            match part {
                Part::Reasoning(text) => reasoning.push_str(&text),
                Part::Text(text) => answer.push_str(&text),
                Part::TextWasReasoning => {
                    assert!(!holds_text);
                    reasoning.push_str(&std::mem::take(&mut answer));
                }
            }
        }
        (reasoning, answer)
    }

    /// Content with its reasoning and answer.
    const CONTENTS: &[(&str, &str, &str)] = &[
        ("", "", ""),
        ("30 days", "", "30 days"),
        (" 30 days\n", "", " 30 days\n"),
        ("<think>a</think>b", "a", "b"),
        (" \n<think>\na\n</think>\n\n b", "\na\n", "b"),
        ("<think></think>\n\nb", "", "b"),
        ("<think>a</think>\n<think>b</think>c", "ab", "c"),
        ("<think>a <think>b</think> c</think>d", "a <think>bc", "d"),
        ("<think>a", "a", ""),
        ("<think>a</thin", "a</thin", ""),
        ("<think>a</think>", "a", ""),
        ("<think>a</think> ", "a", ""),
        ("a or b?\n</think>\n\nc", "a or b?\n", "c"),
        ("</think>c", "", "c"),
        ("a</think>", "a", ""),
        ("a</think><think>b</think>c", "ab", "c"),
        ("<thi", "", "<thi"),
        ("<thinker> and <b>", "", "<thinker> and <b>"),
        ("a <think> b </think> c", "", "a <think> b </think> c"),
        (
            "between `<think>` and `</think>`, then",
            "",
            "between `<think>` and `</think>`, then",
        ),
        ("end with `</think>`.", "", "end with `</think>`."),
        ("```\n</think>\n```\ndone", "", "```\n</think>\n```\ndone"),
        ("say `</think>`\n</think>\nb", "say `</think>`\n", "b"),
        (
            "<think>a</think>write `</think>` or </think>",
            "a",
            "write `</think>` or </think>",
        ),
        ("grüße 🎉</think>🎉", "grüße 🎉", "🎉"),
        ("<reasoning>a</reasoning>b", "a", "b"),
        ("\n<reasoning>a </think> b</reasoning>\n\nc", "a </think> b", "c"),
        ("<think>a </reasoning> b</think>c", "a </reasoning> b", "c"),
        ("<reasoning>a", "a", ""),
        ("<reasoning>a</reason", "a</reason", ""),
        ("<thinking>a</think></thinking>b", "a</think>", "b"),
        ("<THINK>a</Think>b", "a", "b"),
        ("<think >a</think >b", "a", "b"),
        ("\u{feff}<think>a</think>b", "a", "b"),
        ("\u{200b}\n<thought>a</thought>\u{200b}b", "a", "b"),
        ("<seed:think>a</seed:think>b", "a", "b"),
        ("[THINK]a [1] </think>[/THINK]b", "a [1] </think>", "b"),
        ("◁think▷a◁/think▷b", "a", "b"),
        ("◁thi", "", "◁thi"),
        ("[1] a", "", "[1] a"),
        ("<thoughts> are", "", "<thoughts> are"),
        ("<think>a</think>b</think>c", "ab", "c"),
        ("<think>a</think>b</think>c</think>\nd", "abc", "d"),
        ("[THINK]a[/THINK]b[/THINK]c", "ab", "c"),
        ("<think>a</think>b `</think>` c", "a", "b `</think>` c"),
        (
            "<think>a</think>from <think> to </think> c",
            "a",
            "from <think> to </think> c",
        ),
        ("<think>a</think>b <c> < d", "a", "b <c> < d"),
        ("a <thinking> b </thinking> c", "", "a <thinking> b </thinking> c"),
        ("a [THINK] b [/THINK] c", "", "a [THINK] b [/THINK] c"),
        ("``\u{20}`</think>` a", "", "``\u{20}`</think>` a"),
        ("\u{feff}a", "", "\u{feff}a"),
        ("<reasons> are", "", "<reasons> are"),
        ("<reasoning", "", "<reasoning"),
        ("b</reasoning>c", "", "b</reasoning>c"),
        (
            "a <reasoning> b </reasoning> c",
            "",
            "a <reasoning> b </reasoning> c",
        ),
    ];

    #[test]
    fn reasoning_is_not_the_answer_however_the_tags_are_cut() {
        for (content, reasoning, answer) in CONTENTS {
            let expected = ((*reasoning).to_owned(), (*answer).to_owned());
            for holds_text in [false, true] {
                assert_eq!(read(&[content], holds_text), expected, "{content:?}");
                let letters: Vec<String> = content.chars().map(String::from).collect();
                let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
                assert_eq!(read(&letters, holds_text), expected, "{content:?} in letters");
                let cuts = (0..=content.len()).filter(|cut| content.is_char_boundary(*cut));
                let cuts: Vec<usize> = cuts.collect();
                for first in &cuts {
                    for second in cuts.iter().filter(|second| *second >= first) {
                        let pieces = [&content[..*first], &content[*first..*second], &content[*second..]];
                        assert_eq!(read(&pieces, holds_text), expected, "{pieces:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_tag_that_the_prompt_names_is_a_part_of_the_answer() {
        let request = |text: &str| serde_json::json!({"messages": [{"role": "system", "content": text}]});
        let parts = serde_json::json!({"messages": [{"role": "user", "content": [{"type": "text", "text": "in <reasoning> tags"}]}]});
        let all = Tags::of_request(&request("be brief"));
        assert_eq!(all, Tags::of_request(&Value::Null));
        for body in [request("write <reasoning>, then <answer>"), parts] {
            let tags = Tags::of_request(&body);
            assert_ne!(tags, all);
            let mut reading = ReasoningTags::new(false, tags);
            let mut parts = Vec::new();
            reading.push("<reasoning>a</reasoning>b", &mut parts);
            reading.finish(&mut parts);
            assert_eq!(parts, [Part::Text("<reasoning>a</reasoning>b".to_owned())]);
        }
        // A model's own tag is never asked for.
        assert_eq!(Tags::of_request(&request("end with </think>, not <think>")), all);
    }

    #[test]
    fn a_long_answer_is_read_in_one_pass() {
        // Each would take hours if every piece were read again.
        let answers = [
            "`</think>` <\n".repeat(50_000),
            "<".repeat(500_000),
            "`".repeat(500_000),
            "<think></think>".repeat(50_000),
            "<think>a</think>b".repeat(50_000),
            "a</think>".repeat(50_000),
            "</think> ".repeat(50_000),
            " \n".repeat(250_000),
            "<think>".repeat(50_000),
            format!("<think>{}", "</think >".repeat(50_000)),
            "```\n</think>\n".repeat(25_000),
        ];
        for answer in &answers {
            for holds_text in [false, true] {
                let whole = read(&[answer], holds_text);
                let mut pieces = Vec::new();
                let mut rest = answer.as_str();
                while !rest.is_empty() {
                    let (piece, after) = rest.split_at(rest.len().min(7));
                    pieces.push(piece);
                    rest = after;
                }
                assert!(read(&pieces, holds_text) == whole, "{}", &answer[..20]);
            }
        }
    }

    #[test]
    fn an_answer_is_passed_on_while_it_arrives() {
        let mut tags = ReasoningTags::new(false, Tags::default());
        let mut parts = Vec::new();
        tags.push("30 days <", &mut parts);
        assert_eq!(parts, [Part::Text("30 days ".to_owned())]);
        tags.push("b> x", &mut parts);
        assert_eq!(parts.pop(), Some(Part::Text("<b> x".to_owned())));
    }
}
