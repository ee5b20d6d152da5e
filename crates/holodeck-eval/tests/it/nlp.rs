//! Properties of every text metric, and the Unicode tokenizer.

use holodeck_eval::nlp::{self, Normalization, RougeVariant, Stemming, Tokenizer, WordOrder};
use proptest::prelude::*;

const TOKENIZERS: [Tokenizer; 2] = [Tokenizer::Reference, Tokenizer::Unicode];
const VARIANTS: [RougeVariant; 4] = [
    RougeVariant::Rouge1,
    RougeVariant::Rouge2,
    RougeVariant::RougeL,
    RougeVariant::RougeLsum,
];

fn scores(prediction: &str, reference: &str) -> Vec<(String, f64)> {
    let mut scores = Vec::new();
    for tokenizer in TOKENIZERS {
        scores.push((
            format!("bleu {tokenizer:?}"),
            nlp::bleu(prediction, reference, tokenizer).score,
        ));
        scores.push((
            format!("meteor {tokenizer:?}"),
            nlp::meteor(prediction, reference, tokenizer).score,
        ));
        scores.push((
            format!("f1 {tokenizer:?}"),
            nlp::squad_f1(prediction, reference, tokenizer),
        ));
        for variant in VARIANTS {
            for stemming in [Stemming::Off, Stemming::Porter] {
                let rouge = nlp::rouge(prediction, reference, variant, tokenizer, stemming);
                scores.push((format!("{variant:?} {tokenizer:?} {stemming:?}"), rouge.f1));
                scores.push((format!("{variant:?} precision"), rouge.precision));
                scores.push((format!("{variant:?} recall"), rouge.recall));
            }
        }
    }
    scores.push((
        "chrf".to_owned(),
        nlp::chrf(prediction, reference, WordOrder::None),
    ));
    scores.push((
        "chrf++".to_owned(),
        nlp::chrf(prediction, reference, WordOrder::Two),
    ));
    scores
}

/// Realistic texts: words, punctuation and the scripts that are difficult for tokenisers.
fn texts() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => "[a-z]{1,6}",
        2 => "[ .,;:!?'\"()\\-\n]{1,3}",
        1 => "[0-9.,%$]{1,4}",
        1 => "[éßıſÉ你好ありไทยمرحба\u{301}\u{200d}\u{a0}\u{2028}😀]{1,3}",
        1 => prop::sample::select(vec!["cannot", "n't", "the", "Dr.", "<skipped>", "&amp;", "p.m."]).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn every_score_is_between_0_and_1(prediction in texts(), reference in texts()) {
        for (name, score) in scores(&prediction, &reference) {
            prop_assert!((0.0..=1.0).contains(&score), "{} of {:?} / {:?}: {}", name, prediction, reference, score);
        }
    }

    #[test]
    fn identical_texts_have_the_highest_score(text in "[a-z]{4,9}( [a-z]{4,9}){0,20}") {
        for tokenizer in TOKENIZERS {
            prop_assert!(nlp::bleu(&text, &text, tokenizer).score > 1.0 - 1e-9);
            prop_assert!((nlp::squad_f1(&text, &text, tokenizer) - 1.0).abs() < 1e-9);
            let rouge = nlp::rouge(&text, &text, RougeVariant::RougeLsum, tokenizer, Stemming::Porter);
            prop_assert!((rouge.f1 - 1.0).abs() < 1e-9);
            let meteor = nlp::meteor(&text, &text, tokenizer);
            prop_assert_eq!((meteor.matches, meteor.chunks), (meteor.reference_len, 1));
        }
        prop_assert!((nlp::chrf(&text, &text, WordOrder::Two) - 1.0).abs() < 1e-9);
        prop_assert!(nlp::exact_match(&text, &text, Normalization::default()));
    }
}

#[test]
fn an_empty_text_scores_0() {
    for (prediction, reference) in [
        ("", ""),
        ("", "word"),
        ("word", ""),
        ("  \n", "word"),
        ("word", "\u{a0}"),
    ] {
        for (name, score) in scores(prediction, reference) {
            assert!(score == 0.0, "{name} of {prediction:?} / {reference:?}: {score}");
        }
    }
}

#[test]
fn unicode_words_score_other_scripts() {
    let rouge = |p, r, tokenizer| nlp::rouge(p, r, RougeVariant::Rouge1, tokenizer, Stemming::Off).f1;
    for (prediction, reference) in [
        ("我喜欢学习中文。", "我爱学习中文。"),
        ("Привет, как дела?", "Привет! Как дела?"),
        ("私は学生です", "私は先生です"),
    ] {
        assert!(
            rouge(prediction, reference, Tokenizer::Reference) == 0.0,
            "{prediction}"
        );
        let score = rouge(prediction, reference, Tokenizer::Unicode);
        assert!((0.5..=1.0).contains(&score), "{prediction}: {score}");
    }
    // One character is one word: 6 of 7 and 6 of 6 shared.
    let f1 = nlp::squad_f1("我喜欢学习中文。", "我喜学习中文", Tokenizer::Unicode);
    assert!((f1 - 12.0 / 13.0).abs() < 1e-9, "{f1}");
    assert!(nlp::bleu("我喜欢学习中文", "我喜欢学习汉语", Tokenizer::Unicode).score > 0.3);
    assert!(nlp::meteor("今天天气很好", "今天天气好", Tokenizer::Unicode).score > 0.5);
    // Composed and decomposed accents are the same word.
    for score in [
        nlp::bleu("un cafe\u{301} noir ici", "un café noir ici", Tokenizer::Unicode).score,
        nlp::squad_f1("cafe\u{301}", "café", Tokenizer::Unicode),
        rouge("CAFE\u{301}", "café", Tokenizer::Unicode),
    ] {
        assert!((score - 1.0).abs() < 1e-9, "{score}");
    }
}

#[test]
fn long_texts_are_scored_quickly() {
    let text = "the quick brown fox jumps over the lazy dog and runs. ".repeat(400);
    let other = "a lazy dog sleeps while the quick brown fox runs away. ".repeat(400);
    for (name, score) in scores(&text, &other) {
        assert!(score > 0.0, "{name}");
    }
}
