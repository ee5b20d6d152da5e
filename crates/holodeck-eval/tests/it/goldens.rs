//! Compares with the values of the Python reference implementations in `fixtures/nlp/nlp-metrics.jsonl`.

use std::path::Path;

use holodeck_eval::nlp::{self, Normalization, RougeVariant, Stemming, Tokenizer, WordOrder};
use serde_json::Value;

/// METEOR values that differ because NLTK's learned sentence splitter is not shipped. `docs/metrics.md` lists them too.
const METEOR_DIFFERS: [&str; 0] = [];

struct Case {
    id: String,
    prediction: String,
    reference: String,
    expected: Value,
}

fn cases() -> Vec<Case> {
    let cases = read("nlp-metrics.jsonl");
    assert_eq!(cases.len(), 150);
    cases
}

fn read(file: &str) -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/nlp")
        .join(file);
    let text = std::fs::read_to_string(path).unwrap();
    let field = |value: &Value, key: &str| value[key].as_str().unwrap().to_owned();
    text.lines()
        .map(|line| {
            let value: Value = serde_json::from_str(line).unwrap();
            Case {
                id: field(&value, "id"),
                prediction: field(&value, "prediction"),
                reference: field(&value, "reference"),
                expected: value["expected"].clone(),
            }
        })
        .collect()
}

fn check(key: &str, score: impl Fn(&str, &str) -> f64) {
    check_cases(&cases(), key, &[], score);
}

fn check_cases(cases: &[Case], key: &str, except: &[&str], score: impl Fn(&str, &str) -> f64) {
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            let (found, expected) = (
                score(&case.prediction, &case.reference),
                case.expected[key].as_f64().unwrap(),
            );
            let same = (found - expected).abs() <= 1e-9;
            (same == except.contains(&case.id.as_str())).then(|| {
                format!(
                    "{}: {found}, expected {expected}: {:?} / {:?}",
                    case.id, case.prediction, case.reference
                )
            })
        })
        .collect();
    assert!(
        wrong.is_empty(),
        "{key}: {} values differ\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn bleu() {
    check("bleu", |p, r| nlp::bleu(p, r, Tokenizer::Reference).score);
    check("bleu_bp", |p, r| {
        nlp::bleu(p, r, Tokenizer::Reference).brevity_penalty
    });
    check("bleu_sys_len", |p, r| {
        nlp::bleu(p, r, Tokenizer::Reference).prediction_len as f64
    });
    check("bleu_ref_len", |p, r| {
        nlp::bleu(p, r, Tokenizer::Reference).reference_len as f64
    });
    for case in cases() {
        let bleu = nlp::bleu(&case.prediction, &case.reference, Tokenizer::Reference);
        assert_eq!(
            case.expected["bleu_counts"],
            serde_json::json!(bleu.counts),
            "{}",
            case.id
        );
        assert_eq!(
            case.expected["bleu_totals"],
            serde_json::json!(bleu.totals),
            "{}",
            case.id
        );
        for (order, precision) in bleu.precisions.iter().enumerate() {
            let expected = case.expected["bleu_precisions"][order].as_f64().unwrap();
            assert!((precision * 100.0 - expected).abs() < 1e-9, "{}", case.id);
        }
    }
}

#[test]
fn rouge() {
    let f1 = |variant, stemming| {
        move |p: &str, r: &str| nlp::rouge(p, r, variant, Tokenizer::Reference, stemming).f1
    };
    check("rouge1", f1(RougeVariant::Rouge1, Stemming::Off));
    check("rouge2", f1(RougeVariant::Rouge2, Stemming::Off));
    check("rougeL", f1(RougeVariant::RougeL, Stemming::Off));
    check("rougeLsum", f1(RougeVariant::RougeLsum, Stemming::Off));
    check("rouge1_stem", f1(RougeVariant::Rouge1, Stemming::Porter));
    check("rougeL_stem", f1(RougeVariant::RougeL, Stemming::Porter));
}

#[test]
fn meteor() {
    check_cases(&cases(), "meteor", &METEOR_DIFFERS, |p, r| {
        nlp::meteor(p, r, Tokenizer::Reference).score
    });
}

#[test]
fn exact_match() {
    let exact = |options| move |p: &str, r: &str| f64::from(u8::from(nlp::exact_match(p, r, options)));
    check("exact_match", exact(Normalization::default()));
    let loose = Normalization {
        ignore_case: true,
        strip_punctuation: true,
        strip_whitespace: false,
    };
    check("exact_match_nocase_nopunct", exact(loose));
}

#[test]
fn squad() {
    check("squad_f1", |p, r| nlp::squad_f1(p, r, Tokenizer::Reference));
    check("squad_em", |p, r| {
        f64::from(u8::from(nlp::squad_exact_match(p, r, Tokenizer::Reference)))
    });
}

#[test]
fn chrf() {
    check("chrf", |p, r| nlp::chrf(p, r, WordOrder::None));
    check("chrfpp", |p, r| nlp::chrf(p, r, WordOrder::Two));
}

#[test]
fn noise() {
    let cases = read("noise.jsonl");
    assert_eq!(cases.len(), 120);
    let check = |key: &str, score: &dyn Fn(&str, &str) -> f64| check_cases(&cases, key, &[], score);
    check("bleu", &|p, r| nlp::bleu(p, r, Tokenizer::Reference).score);
    check("chrf", &|p, r| nlp::chrf(p, r, WordOrder::None));
    check("chrfpp", &|p, r| nlp::chrf(p, r, WordOrder::Two));
    check("squad_f1", &|p, r| nlp::squad_f1(p, r, Tokenizer::Reference));
    for (key, variant, stemming) in [
        ("rouge1", RougeVariant::Rouge1, Stemming::Off),
        ("rouge2", RougeVariant::Rouge2, Stemming::Off),
        ("rougeL", RougeVariant::RougeL, Stemming::Off),
        ("rougeLsum", RougeVariant::RougeLsum, Stemming::Off),
        ("rougeL_stem", RougeVariant::RougeL, Stemming::Porter),
    ] {
        check(key, &|p, r| {
            nlp::rouge(p, r, variant, Tokenizer::Reference, stemming).f1
        });
    }
}
