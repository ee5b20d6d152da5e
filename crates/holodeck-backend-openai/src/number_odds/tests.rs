//! Tests of the probabilities of a judge's score: only the tokens of the number itself count.

use pretty_assertions::assert_eq;

use super::*;

/// The odds of an answer whose tokens are these; the alternatives of a token are `others`, of any other it is alone.
fn odds_of(tokens: &[&str], others: &[(&str, f64)], text: &str) -> Vec<NumberOdds> {
    let mut answer = Tokens::default();
    answer.push_text(Some(text));
    for token in tokens {
        let is_number = token.trim().bytes().all(|byte| byte.is_ascii_digit()) && !token.trim().is_empty();
        let alone = [(*token, 0.9)];
        let alternatives = if is_number { others } else { &alone };
        let top: Vec<Value> = alternatives
            .iter()
            .map(|(token, probability)| json!({"token": token, "logprob": probability.ln(), "bytes": null}))
            .collect();
        let token =
            json!({"token": token, "logprob": 0.9_f64.ln(), "bytes": token.as_bytes(), "top_logprobs": top});
        answer.push(serde_json::from_value(json!({"content": [token]})).unwrap());
    }
    answer.number_odds()
}

/// The odds, rounded.
fn rounded(mut numbers: Vec<NumberOdds>) -> Vec<NumberOdds> {
    for (_, probability) in numbers.iter_mut().flat_map(|number| &mut number.odds) {
        *probability = (*probability * 1e6).round() / 1e6;
    }
    numbers
}

/// A score of 7 with these odds.
fn seven(odds: &[(u64, f64)]) -> NumberOdds {
    NumberOdds {
        field: "score".to_owned(),
        value: 7,
        odds: odds.to_vec(),
    }
}

#[test]
fn only_the_token_that_is_the_value_of_a_field_counts() {
    let others = [
        ("7", 0.5),
        (" 8", 0.25),
        ("08", 0.1),
        ("seven", 0.1),
        ("-7", 0.1),
        ("10", 0.05),
    ];
    let odds = [(7, 0.5), (8, 0.25), (10, 0.05)];
    for tokens in [
        &[
            r#"{"reason":"#,
            r#" ""#,
            "7",
            r#" of 7 \" : 7", "#,
            r#""score":"#,
            "7",
            "}",
        ][..],
        &[
            "{\n",
            r#" "deep": {"score": "#,
            "3",
            "}, ",
            r#""score""#,
            ":",
            " 7",
            "\n}",
        ],
        &["", r#"{"score":"#, "", "7", r#","reason":"#, r#""ü"}"#],
    ] {
        let found = rounded(odds_of(tokens, &others, &tokens.concat()));
        assert_eq!(found, [seven(&odds)], "{tokens:?}");
    }
}

#[test]
fn a_number_that_is_not_one_token_has_no_odds() {
    let others = [("1", 0.9), ("9", 0.1)];
    for tokens in [
        // Split numbers, and a fraction.
        &[r#"{"score":"#, "1", "0", "}"][..],
        &[r#"{"score":"#, "1", ".5}"],
        &[r#"{"score":1"#, "}"],
        &[r#"{"score":"#, "1}"],
        &[r#"{"score":-"#, "1", "}"],
        // A text, a list, and a field that is there twice.
        &[r#"{"score":""#, "1", r#""}"#],
        &[r#"{"score":["#, "1", "]}"],
        &[r#"{"score":"#, "1", r#","score":"#, "1", "}"],
        // Not an object.
        &["1"],
        &["```{\"score\":", "1", "}```"],
    ] {
        assert_eq!(odds_of(tokens, &others, &tokens.concat()), [], "{tokens:?}");
    }
}

#[test]
fn tokens_that_are_not_the_answer_are_ignored() {
    let tokens = [r#"{"score":"#, "7", "}"];
    let others = [("7", 0.9)];
    assert_eq!(odds_of(&tokens, &others, r#"{"score":7}"#).len(), 1);
    for text in [
        r#"{"score":8}"#,
        r#"{"score":7} "#,
        r#"{"score":7,"a":1}"#,
        "",
        r#" {"score":7}"#,
    ] {
        assert_eq!(odds_of(&tokens, &others, text), [], "{text}");
    }
    // Tokens that are missing at the beginning, as of a server that reports those of its reasoning apart.
    assert_eq!(odds_of(&tokens[1..], &others, r#"{"score":7}"#), []);
    assert_eq!(odds_of(&[], &others, r#"{"score":7}"#), []);
}

#[test]
fn the_token_itself_is_counted_if_it_is_not_among_the_alternatives() {
    let tokens = [r#"{"score":"#, "7", "}"];
    let text = r#"{"score":7}"#;
    let found = rounded(odds_of(&tokens, &[("8", 0.05)], text));
    assert_eq!(found[0].odds, [(8, 0.05), (7, 0.9)]);
    assert_eq!(odds_of(&tokens, &[], text), []);
    assert_eq!(odds_of(&tokens, &[("eight", 0.05)], text), []);
}

#[test]
fn a_token_may_be_a_part_of_a_character() {
    let mut answer = Tokens::default();
    answer.push_text(Some(r#"{"reason":"ü","score":7}"#));
    let token = |token: &str, bytes: &[u8]| {
        json!({"token": token, "logprob": 0.0, "bytes": bytes,
               "top_logprobs": [{"token": token, "logprob": 0.0}]})
    };
    let tokens = [
        token("{\"reason\":\"", b"{\"reason\":\""),
        token("\\xc3", &[0xc3]),
        token("\\xbc", &[0xbc]),
        token("\",\"score\":", b"\",\"score\":"),
        token("7", b"7"),
        token("}", b"}"),
    ];
    answer.push(serde_json::from_value(json!({ "content": tokens })).unwrap());
    assert_eq!(rounded(answer.number_odds()), [seven(&[(7, 1.0)])]);
}
