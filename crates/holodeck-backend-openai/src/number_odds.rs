//! The odds of the numbers in an answer, from the log-probabilities of its tokens.

use holodeck_backend_api::NumberOdds;
use serde_json::{Map, Value, json};

use crate::wire::{LogProbs, Token};

pub(crate) const LOG_PROBS: &str = "logprobs";
pub(crate) const TOP_LOG_PROBS: &str = "top_logprobs";

/// The most alternatives that the API allows.
const ALTERNATIVES: u32 = 20;

/// The parameters that ask for log-probabilities.
pub(crate) fn parameters() -> Map<String, Value> {
    Map::from_iter([
        (LOG_PROBS.to_owned(), json!(true)),
        (TOP_LOG_PROBS.to_owned(), json!(ALTERNATIVES)),
    ])
}

/// The tokens of an answer, if the endpoint reports them, and its text.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    tokens: Vec<Token>,
    text: String,
}

impl Tokens {
    pub(crate) fn push(&mut self, log_probs: Option<LogProbs>) {
        self.tokens.extend(
            log_probs
                .and_then(|log_probs| log_probs.content)
                .into_iter()
                .flatten(),
        );
    }

    pub(crate) fn push_text(&mut self, text: Option<&str>) {
        self.text.push_str(text.unwrap_or_default());
    }

    /// The odds of the whole numbers in the fields of the answer, which must be a JSON object. Empty if the tokens are
    /// not exactly the answer: another token must never be taken for a number.
    pub(crate) fn number_odds(self) -> Vec<NumberOdds> {
        let Self { tokens, text } = self;
        if tokens.is_empty() || !matches!(serde_json::from_str(&text), Ok(Value::Object(_))) {
            return Vec::new();
        }
        let mut places = Vec::with_capacity(tokens.len());
        let mut rest = text.as_bytes();
        for token in &tokens {
            let bytes = token.bytes.as_deref().unwrap_or(token.text.as_bytes());
            let place = text.len() - rest.len();
            let Some(after) = rest.strip_prefix(bytes) else {
                return Vec::new();
            };
            rest = after;
            places.push((place, token));
        }
        if !rest.is_empty() {
            return Vec::new();
        }
        let numbers = number_fields(&text).into_iter();
        let odds = numbers.filter_map(|(field, start)| {
            // The last token that begins at or before the number; a token may be empty.
            let (place, token) = places.iter().rfind(|(place, _)| *place <= start)?;
            let is_whole_number = text
                .get(*place..)?
                .strip_prefix(&*token.text)?
                .trim_start()
                .starts_with([',', '}']);
            let value = whole_number(&token.text).filter(|_| is_whole_number)?;
            Some(NumberOdds {
                field: field.to_owned(),
                value,
                odds: odds(token, value),
            })
        });
        odds.filter(|number| !number.odds.is_empty()).collect()
    }
}

/// The numbers among the alternatives of a token; empty if the endpoint reports none.
fn odds(token: &Token, value: u64) -> Vec<(u64, f64)> {
    let alternatives = token.top_logprobs.iter().flatten();
    let mut odds: Vec<(u64, f64)> = alternatives
        .filter_map(|other| Some((whole_number(&other.text)?, probability(other.logprob)?)))
        .collect();
    // The model may have written a token that is not among the most probable ones.
    if !odds.is_empty() && !odds.iter().any(|(number, _)| *number == value) {
        odds.extend(probability(token.logprob).map(|probability| (value, probability)));
    }
    odds
}

fn probability(log: Option<f64>) -> Option<f64> {
    let log = log.filter(|log| log.is_finite())?;
    // Rounding makes 1 of a tiny positive logarithm.
    let probability = log.exp();
    (probability <= 1.001).then(|| probability.min(1.0))
}

/// A token that is a whole number in its usual form, beside blanks.
fn whole_number(token: &str) -> Option<u64> {
    let token = token.trim_matches([' ', '\n', '\t', '\r']);
    let number: u64 = token.parse().ok()?;
    (number.to_string() == token).then_some(number)
}

/// The fields of a JSON object whose values begin with a digit, and where these begin. A field that is there twice is
/// left out.
fn number_fields(json: &str) -> Vec<(&str, usize)> {
    let mut fields: Vec<(&str, Option<usize>)> = Vec::new();
    let mut depth = 0_usize;
    let mut text: Option<usize> = None;
    let mut escaped = false;
    let mut key = "";
    let mut in_value = false;
    let mut value_begins = false;
    for (place, byte) in json.bytes().enumerate() {
        if let Some(start) = text {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => {
                    text = None;
                    if depth == 1 && !in_value {
                        key = json.get(start..place).unwrap_or_default();
                    }
                }
                _ => {}
            }
            continue;
        }
        if value_begins && !byte.is_ascii_whitespace() {
            fields.push((key, byte.is_ascii_digit().then_some(place)));
            value_begins = false;
        }
        match byte {
            b'"' => text = Some(place + 1),
            b':' if depth == 1 => (in_value, value_begins) = (true, true),
            b',' if depth == 1 => in_value = false,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    let once = |name: &str| fields.iter().filter(|(field, _)| *field == name).count() == 1;
    fields
        .iter()
        .filter(|(field, _)| once(field))
        .filter_map(|(field, start)| Some((*field, (*start)?)))
        .collect()
}

#[cfg(test)]
mod tests;
