//! Separates reasoning that a server leaves in the content, between `<think>` and `</think>`, from the answer. The tags may
//! arrive in pieces. It does not know what the text means: a tag inside an answer or in code is text.

use serde_json::Value;

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// The tags of servers that do not use the model's own, such as Bedrock's.
const OTHER_OPEN: &str = "<reasoning>";
const OTHER_CLOSE: &str = "</reasoning>";

/// The tags that an answer may begin with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tags {
    /// Those of models.
    #[default]
    Think,
    /// Also those that only servers write.
    ThinkOrReasoning,
}

impl Tags {
    /// The tags of the answer to a request. A prompt that names a tag may ask for it: then it is a part of the answer.
    pub(crate) fn of_request(body: &Value) -> Self {
        let messages = body.get("messages").and_then(Value::as_array);
        let contents = messages
            .into_iter()
            .flatten()
            .filter_map(|message| message.get("content"));
        let mut texts = contents.flat_map(|content| {
            let parts = content.as_array().into_iter().flatten();
            let parts = parts.filter_map(|part| part.get("text")?.as_str());
            content.as_str().into_iter().chain(parts)
        });
        if texts.any(|text| text.contains(OTHER_OPEN)) {
            Self::Think
        } else {
            Self::ThinkOrReasoning
        }
    }

    /// The pairs of tags.
    fn pairs(self) -> &'static [(&'static str, &'static str)] {
        static PAIRS: [(&str, &str); 2] = [(OPEN, CLOSE), (OTHER_OPEN, OTHER_CLOSE)];
        match self {
            Self::Think => PAIRS.split_at(1).0,
            Self::ThinkOrReasoning => &PAIRS,
        }
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
#[derive(Debug, Default)]
pub(super) struct ReasoningTags {
    state: State,
    tags: Tags,
    /// The tag that ends the reasoning that has begun.
    close: &'static str,
    /// The undecided text: the beginning of a tag, or all text if `holds_text`.
    held: String,
    /// The text that was passed on, to see whether a tag is in code.
    text: String,
    /// Keep the text until its end, or until it turns out to be reasoning.
    holds_text: bool,
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

impl ReasoningTags {
    /// With `holds_text`, text is passed on only when it is certain: no [`Part::TextWasReasoning`] follows.
    pub(super) fn new(holds_text: bool, tags: Tags) -> Self {
        Self {
            holds_text,
            tags,
            close: CLOSE,
            ..Self::default()
        }
    }

    /// Whether reasoning ended that had no beginning.
    pub(super) fn has_lone_close(&self) -> bool {
        self.has_lone_close
    }

    pub(super) fn push(&mut self, piece: &str, parts: &mut Vec<Part>) {
        self.held.push_str(piece);
        while self.advance(parts) {}
    }

    /// Passes on what is left when the content is over.
    pub(super) fn finish(&mut self, parts: &mut Vec<Part>) {
        let held = std::mem::take(&mut self.held);
        match self.state {
            State::Reasoning => emit(Part::Reasoning, &held, parts),
            State::AfterReasoning => emit(Part::Text, held.trim_start(), parts),
            State::Start | State::Text | State::Answer => emit(Part::Text, &held, parts),
        }
    }

    /// Decides about a part of what is held; false if nothing more can be decided.
    fn advance(&mut self, parts: &mut Vec<Part>) -> bool {
        match self.state {
            State::Start | State::AfterReasoning => self.begin(),
            State::Reasoning => self.read_reasoning(parts),
            State::Text => self.read_text(parts),
            State::Answer => {
                emit(Part::Text, &std::mem::take(&mut self.held), parts);
                false
            }
        }
    }

    fn begin(&mut self) -> bool {
        let begun = self.held.trim_start();
        let mut pairs = self.tags.pairs().iter();
        if let Some((reasoning, close)) =
            pairs.find_map(|(open, close)| Some((begun.strip_prefix(open)?, close)))
        {
            self.close = close;
            self.held = reasoning.to_owned();
            self.state = State::Reasoning;
            return true;
        }
        if self.tags.pairs().iter().any(|(open, _)| open.starts_with(begun)) {
            return false;
        }
        if self.state == State::Start {
            self.state = State::Text;
        } else {
            self.held = begun.to_owned();
            self.state = if self.is_nested {
                State::Text
            } else {
                State::Answer
            };
        }
        true
    }

    fn read_reasoning(&mut self, parts: &mut Vec<Part>) -> bool {
        let Some((reasoning, rest)) = self.held.split_once(self.close) else {
            let certain = self.held.len() - undecided(&self.held, &[OPEN, self.close]);
            let rest = self.held.split_off(certain);
            let reasoning = std::mem::replace(&mut self.held, rest);
            self.is_nested |= reasoning.contains(OPEN);
            emit(Part::Reasoning, &reasoning, parts);
            return false;
        };
        self.is_nested |= reasoning.contains(OPEN);
        emit(Part::Reasoning, reasoning, parts);
        self.held = rest.to_owned();
        self.state = State::AfterReasoning;
        true
    }

    fn read_text(&mut self, parts: &mut Vec<Part>) -> bool {
        let mut from = 0;
        while let Some((place, tag)) = next_tag(&self.held, from) {
            let (before, after) = (self.held.get(..place), self.held.get(place + tag.len()..));
            let (Some(before), Some(after)) = (before, after) else {
                return false;
            };
            if is_in_code(&self.text, before) {
                from = place + tag.len();
                continue;
            }
            if tag == OPEN {
                self.state = State::Answer;
                return true;
            }
            if self.holds_text {
                emit(Part::Reasoning, before, parts);
            } else {
                emit(Part::Text, before, parts);
                parts.push(Part::TextWasReasoning);
            }
            self.held = after.to_owned();
            self.text.clear();
            self.is_nested = false;
            self.has_lone_close = true;
            self.state = State::AfterReasoning;
            return true;
        }
        if !self.holds_text {
            let certain = self.held.len() - undecided(&self.held, &[OPEN, CLOSE]);
            let rest = self.held.split_off(certain);
            let text = std::mem::replace(&mut self.held, rest);
            self.text.push_str(&text);
            emit(Part::Text, &text, parts);
        }
        false
    }
}

fn emit(part: fn(String) -> Part, text: &str, parts: &mut Vec<Part>) {
    if !text.is_empty() {
        parts.push(part(text.to_owned()));
    }
}

/// The first tag at or after `from`, and its place.
fn next_tag(text: &str, from: usize) -> Option<(usize, &'static str)> {
    let rest = text.get(from..)?;
    let tags = [OPEN, CLOSE].into_iter();
    let places = tags.filter_map(|tag| Some((from + rest.find(tag)?, tag)));
    places.min()
}

/// The length of the end of `text` that may be the beginning of one of the tags.
fn undecided(text: &str, tags: &[&str]) -> usize {
    let begins = |start: &usize| {
        let end = text.get(*start..);
        end.is_some_and(|end| !end.is_empty() && tags.iter().any(|tag| tag.starts_with(end)))
    };
    let longest = tags.iter().map(|tag| tag.len()).max().unwrap_or_default();
    let first = text.len().saturating_sub(longest.saturating_sub(1));
    let start = (first..text.len()).find(begins);
    start.map_or(0, |start| text.len() - start)
}

/// Whether what follows the two parts of a text is in a block of code, or between backticks.
fn is_in_code(first: &str, second: &str) -> bool {
    let text = format!("{first}{second}");
    let is_fence = |line: &&str| line.trim_start().starts_with("```");
    let mut lines: Vec<&str> = text.split('\n').collect();
    let last = lines.pop().unwrap_or_default();
    let in_block = lines.into_iter().filter(is_fence).count() % 2 == 1;
    in_block || last.matches('`').count() % 2 == 1
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    /// The reasoning and the answer.
    fn read(pieces: &[&str], holds_text: bool) -> (String, String) {
        let mut tags = ReasoningTags::new(holds_text, Tags::ThinkOrReasoning);
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
        assert_eq!(Tags::of_request(&request("be brief")), Tags::ThinkOrReasoning);
        for body in [request("write <reasoning>, then <answer>"), parts] {
            assert_eq!(Tags::of_request(&body), Tags::Think);
        }
        let mut tags = ReasoningTags::new(false, Tags::Think);
        let mut parts = Vec::new();
        tags.push("<reasoning>a</reasoning>b", &mut parts);
        tags.finish(&mut parts);
        assert_eq!(parts, [Part::Text("<reasoning>a</reasoning>b".to_owned())]);
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
