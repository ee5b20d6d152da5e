//! Checks of vector search that every store must pass, against a brute-force search.

use holodeck_retrieval::{Entry, Filter};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::Case;
use super::data::{Numbers, cosine, entry, ids, info, put, random, with_metadata};

fn filter(fields: &[(&str, Value)]) -> Filter {
    let equal = fields
        .iter()
        .map(|(field, wanted)| ((*field).to_owned(), wanted.clone()))
        .collect();
    Filter { equal }
}

fn brute_force<'e>(entries: impl IntoIterator<Item = &'e Entry>, query: &[f32]) -> Vec<(String, f64)> {
    let mut scored: Vec<_> = entries
        .into_iter()
        .map(|entry| (entry.passage.id.clone(), cosine(&entry.vector, query)))
        .collect();
    scored.sort_by(|(a_id, a), (b_id, b)| b.total_cmp(a).then_with(|| a_id.cmp(b_id)));
    scored
}

pub(super) async fn the_nearest_are_those_of_brute_force(case: &Case<'_>) {
    let store = case.store().await;
    store.prepare(&info(24)).await.unwrap();
    let (a, b) = (random("a", 250, 24, 1), random("b", 250, 24, 99));
    put(&*store, "a", &a).await;
    put(&*store, "b", &b).await;
    let mut numbers = Numbers(5);
    for limit in [1, 10, 37, 500, 600] {
        let query: Vec<f32> = (0..24).map(|_| numbers.next() * 3.0).collect();
        let found = store.nearest(&query, limit, &Filter::default()).await.unwrap();
        let expected = brute_force(a.iter().chain(&b), &query);
        let best: Vec<_> = expected.iter().take(limit).collect();
        assert_eq!(
            ids(&found),
            best.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>()
        );
        for (found, (_, score)) in found.iter().zip(best) {
            assert!(
                (found.score - score).abs() < 1e-5,
                "{} is not {score}",
                found.score
            );
        }
    }
}

pub(super) async fn equal_ones_are_ordered_by_id(case: &Case<'_>) {
    let store = case.store().await;
    store.prepare(&info(3)).await.unwrap();
    // Not in the order of ids, in two sources, mixed case: byte order decides.
    for (source, names) in [("x", ["m", "B", "z", "a1"]), ("y", ["c", "A", "a10", "é"])] {
        let entries: Vec<_> = names
            .iter()
            .map(|name| entry(name, source, &[0.3, 0.4, 0.5]))
            .collect();
        put(&*store, source, &entries).await;
    }
    let ordered = ["A", "B", "a1", "a10", "c", "m", "z", "é"];
    for limit in [3, 5, 8, 20] {
        let found = store
            .nearest(&[0.1, 0.4, 0.3], limit, &Filter::default())
            .await
            .unwrap();
        assert_eq!(ids(&found), ordered[..limit.min(8)]);
    }
}

pub(super) async fn filters_hold(case: &Case<'_>) {
    let store = case.store().await;
    store.prepare(&info(2)).await.unwrap();
    let fields = [
        json!({"page": 3, "sheet": "Sales", "done": true, "headings": ["A", "B"]}),
        json!({"page": 3.5, "sheet": "sales", "done": false, "headings": ["A"]}),
        json!({"page": "3", "none": null, "source": "elsewhere"}),
        json!({"page": 3.0, "note": "it's \"so\" \\ 東京"}),
        json!({}),
    ];
    let entries: Vec<_> = fields
        .into_iter()
        .enumerate()
        .map(|(at, fields)| with_metadata(entry(&at.to_string(), "doc", &[1.0, at as f32]), fields))
        .collect();
    put(&*store, "doc", &entries).await;
    put(&*store, "it's", &[entry("5", "it's", &[1.0, 9.0])]).await;
    let cases = [
        (filter(&[]), "012345"),
        (filter(&[("source", json!("doc"))]), "01234"),
        (filter(&[("source", json!("it's"))]), "5"),
        (filter(&[("source", json!("elsewhere"))]), ""),
        (filter(&[("source", json!(1))]), ""),
        (filter(&[("page", json!(3))]), "03"),
        (filter(&[("page", json!(3.0))]), "03"),
        (filter(&[("page", json!(3.5))]), "1"),
        (filter(&[("page", json!("3"))]), "2"),
        (filter(&[("sheet", json!("Sales"))]), "0"),
        (filter(&[("done", json!(true))]), "0"),
        (filter(&[("done", json!(false))]), "1"),
        (filter(&[("none", json!(null))]), "2"),
        (filter(&[("headings", json!(["A", "B"]))]), "0"),
        (filter(&[("headings", json!(["A"]))]), "1"),
        (filter(&[("headings", json!("A"))]), ""),
        (filter(&[("note", json!("it's \"so\" \\ 東京"))]), "3"),
        (filter(&[("missing", json!(null))]), ""),
        (filter(&[("page", json!(3)), ("sheet", json!("Sales"))]), "0"),
        (filter(&[("page", json!(3)), ("sheet", json!("sales"))]), ""),
        (filter(&[("page", json!(3)), ("source", json!("doc"))]), "03"),
    ];
    for (filter, expected) in cases {
        let found = store.nearest(&[1.0, 0.0], 10, &filter).await.unwrap();
        assert_eq!(ids(&found).concat(), expected, "{filter:?}");
    }
}

pub(super) async fn a_filtered_search_finds_what_is_far(case: &Case<'_>) {
    let store = case.store().await;
    store.prepare(&info(6)).await.unwrap();
    put(&*store, "near", &random("near", 400, 6, 1)).await;
    let far = random("far", 5, 6, 2);
    put(&*store, "far", &far).await;
    let query: Vec<f32> = far[0].vector.iter().map(|x| -x).collect();
    let found = store
        .nearest(&query, 5, &filter(&[("source", json!("far"))]))
        .await
        .unwrap();
    let expected = brute_force(&far, &query);
    assert_eq!(
        ids(&found),
        expected.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>()
    );
}

pub(super) async fn one_dimension_is_enough(case: &Case<'_>) {
    let store = case.store().await;
    store.prepare(&info(1)).await.unwrap();
    let entries = [entry("up", "doc", &[1.0]), entry("down", "doc", &[-1.0])];
    put(&*store, "doc", &entries).await;
    let found = store.nearest(&[-4.0], 2, &Filter::default()).await.unwrap();
    assert_eq!(ids(&found), ["down", "up"]);
    assert!((found[0].score - 1.0).abs() < 1e-6 && (found[1].score + 1.0).abs() < 1e-6);
}

pub(super) async fn what_can_not_be_asked_is_an_error(case: &Case<'_>) {
    let store = case.store().await;
    store.prepare(&info(3)).await.unwrap();
    put(&*store, "doc", &random("doc", 5, 3, 1)).await;
    let none = Filter::default();
    for query in [&[][..], &[0.0, 0.0, 0.0], &[1.0, f32::NAN, 0.0], &[1.0, 0.0]] {
        let asked = store.nearest(query, 3, &none).await;
        assert!(asked.is_err(), "{query:?} found {asked:?}");
    }
    assert_eq!(store.nearest(&[1.0, 0.0, 0.0], 0, &none).await.unwrap(), []);
}

pub(super) async fn the_same_question_has_the_same_answer(case: &Case<'_>) {
    let store = case.store().await;
    store.prepare(&info(12)).await.unwrap();
    put(&*store, "doc", &random("doc", 300, 12, 1)).await;
    let (query, none) = ([0.3; 12], Filter::default());
    let first = store.nearest(&query, 20, &none).await.unwrap();
    let again = case.store().await;
    let (a, b, c) = futures::join!(
        store.nearest(&query, 20, &none),
        again.nearest(&query, 20, &none),
        store.nearest(&query, 20, &none),
    );
    for other in [a, b, c] {
        assert_eq!(other.unwrap(), first);
    }
}
