//! Checks of keyword search that every store must pass.

use std::sync::Arc;

use holodeck_retrieval::{Filter, KeywordSearch, VectorStore};
use pretty_assertions::assert_eq;
use serde_json::json;

use super::data::{ids, info, put, with_metadata, with_text};
use super::{Case, Promise};

async fn filled(case: &Case<'_>, texts: &[(&str, &str)]) -> Arc<dyn VectorStore> {
    let store = case.store().await;
    store.prepare(&info(2)).await.unwrap();
    let entries: Vec<_> = texts
        .iter()
        .map(|(id, text)| with_text(id, "doc", text))
        .collect();
    put(&*store, "doc", &entries).await;
    store
}

async fn ranked(words: &dyn KeywordSearch, query: &str) -> Vec<String> {
    let found = words.ranked(query, 10, &Filter::default()).await.unwrap();
    assert!(
        found.is_sorted_by(|a, b| a.score >= b.score),
        "not best first: {found:?}"
    );
    ids(&found).into_iter().map(str::to_owned).collect()
}

pub(super) async fn rare_words_count_more(case: &Case<'_>) {
    let store = filled(
        case,
        &[
            ("common", "the contract and the contract of the contract"),
            (
                "rare",
                "a contract with an indemnity in it, which is another matter",
            ),
            ("often", "indemnity, indemnity and again indemnity: the contract"),
            (
                "long",
                &format!("indemnity {}", "and many other words about gardens ".repeat(40)),
            ),
            ("filler one", "contract of one kind"),
            ("filler two", "contract of two kinds"),
            ("else", "gardens"),
        ],
    )
    .await;
    let Some(words) = store.keywords() else { return };
    let found = ranked(words, "indemnity contract").await;
    assert_eq!(found[..2], ["often", "rare"], "{found:?}");
    let place = |id: &str| found.iter().position(|found| found == id).unwrap();
    assert!(place("rare") < place("common"), "{found:?}");
    assert!(!found.contains(&"else".to_owned()));
    assert_eq!(ranked(words, "nowhere").await, [""; 0]);
    assert_eq!(ranked(words, "   ").await, [""; 0]);
}

pub(super) async fn no_character_is_query_syntax(case: &Case<'_>) {
    let store = filled(
        case,
        &[
            ("a", "it's a \\ \"quoted\" C++ AND NOT *star* near:word"),
            ("b", "Größenänderung 東京 naïve"),
        ],
    )
    .await;
    let Some(words) = store.keywords() else { return };
    for query in [
        "'",
        "\"",
        "\\",
        "it's",
        "it's \"quoted\"",
        "a & b | !c",
        "word:*",
        "near:word",
        "star*",
        "(((",
        "<->",
        "NOT word",
        "AND OR NOT",
        "C++ ?",
        "\0quoted",
        "x".repeat(5000).as_str(),
        "$1 ; drop table --",
        "{\"$or\": []}",
    ] {
        let found = ranked(words, query).await;
        assert!(found.len() <= 2, "{query}");
    }
    assert_eq!(ranked(words, "quoted").await, ["a"]);
    assert_eq!(ranked(words, "größenänderung").await, ["b"]);
    let phrase = |phrase: &str| {
        let phrases = [phrase.to_owned()];
        async move {
            let found = words.containing(&phrases, 10, &Filter::default()).await.unwrap();
            ids(&found).concat()
        }
    };
    assert_eq!(phrase("it's a \\ \"QUOTED\"").await, "a");
    assert_eq!(phrase("c++").await, "a");
    assert_eq!(phrase("東京").await, "b");
    assert_eq!(phrase("%").await, "");
    assert_eq!(phrase("_").await, "");
    assert_eq!(phrase("qu.ted").await, "");
}

pub(super) async fn words_are_found_in_titles_and_context(case: &Case<'_>) {
    let store = case.store().await;
    store.prepare(&info(2)).await.unwrap();
    let mut inside = with_metadata(
        with_text("inside", "doc", "thirty days"),
        json!({"headings": ["Terms", "Refund policy"], "section": "4.2"}),
    );
    inside.passage.context = Some("Of the warranty".to_owned());
    put(&*store, "doc", &[inside, with_text("other", "doc", "sixty days")]).await;
    let Some(words) = store.keywords() else { return };
    for query in ["refund", "warranty", "Terms"] {
        assert_eq!(ranked(words, query).await, ["inside"], "{query}");
    }
    for phrase in ["refund policy", "4.2", "of the warranty"] {
        let found = words
            .containing(&[phrase.to_owned()], 10, &Filter::default())
            .await
            .unwrap();
        assert_eq!(ids(&found), ["inside"], "{phrase}");
    }
}

pub(super) async fn other_forms_of_a_word_are_found(case: &Case<'_>) {
    let store = filled(case, &[("a", "he refunded the customers"), ("b", "nothing")]).await;
    let Some(words) = store.keywords() else { return };
    if case.promises(Promise::Stems) {
        assert_eq!(ranked(words, "refunding a customer").await, ["a"]);
    }
}

pub(super) async fn phrases_are_found_word_for_word(case: &Case<'_>) {
    let store = filled(
        case,
        &[
            ("once", "The Force  Majeure\nclause of section 4.2."),
            (
                "twice",
                "force majeure, and again FORCE MAJEURE; see 14.2 and 4.2.1",
            ),
            ("apart", "majeure force, enforce majeure, force a majeure"),
        ],
    )
    .await;
    let Some(words) = store.keywords() else { return };
    let containing = |phrases: &[&str]| {
        let phrases: Vec<_> = phrases.iter().map(|phrase| (*phrase).to_owned()).collect();
        async move {
            let found = words.containing(&phrases, 10, &Filter::default()).await.unwrap();
            ids(&found).join(" ")
        }
    };
    assert_eq!(containing(&["force majeure"]).await, "twice once");
    assert_eq!(containing(&["force majeure", "4.2"]).await, "once");
    assert_eq!(containing(&["4.2"]).await, "once");
    assert_eq!(containing(&["14.2"]).await, "twice");
    assert_eq!(containing(&["majeure clause"]).await, "once");
    assert_eq!(containing(&["forc"]).await, "");
    assert_eq!(containing(&["force majeure", "nowhere"]).await, "");
    assert_eq!(containing(&["", " "]).await, "");
    assert_eq!(containing(&[]).await, "");
}

pub(super) async fn keywords_are_filtered_and_limited(case: &Case<'_>) {
    let store = case.store().await;
    store.prepare(&info(2)).await.unwrap();
    for source in ["a", "b"] {
        let entries: Vec<_> = (0..5)
            .map(|at| {
                let entry = with_text(&format!("{source}{at}"), source, "the word as it is");
                with_metadata(entry, json!({"page": at}))
            })
            .collect();
        put(&*store, source, &entries).await;
    }
    let Some(words) = store.keywords() else { return };
    let filter = Filter {
        equal: vec![("source".to_owned(), json!("b"))],
    };
    let page = Filter {
        equal: vec![("page".to_owned(), json!(2))],
    };
    let phrases = ["the word".to_owned()];
    let none = Filter::default();
    let found = words.ranked("word", 3, &none).await.unwrap();
    assert_eq!(ids(&found), ["a0", "a1", "a2"]);
    let found = words.ranked("word", 3, &filter).await.unwrap();
    assert_eq!(ids(&found), ["b0", "b1", "b2"]);
    let found = words.ranked("word", 3, &page).await.unwrap();
    assert_eq!(ids(&found), ["a2", "b2"]);
    assert_eq!(words.ranked("word", 0, &none).await.unwrap(), []);
    let found = words.containing(&phrases, 3, &none).await.unwrap();
    assert_eq!(ids(&found), ["a0", "a1", "a2"]);
    let found = words.containing(&phrases, 9, &filter).await.unwrap();
    assert_eq!(ids(&found), ["b0", "b1", "b2", "b3", "b4"]);
    assert_eq!(words.containing(&phrases, 0, &none).await.unwrap(), []);
}
