//! Tests of pages of other origins: the questions of their browsers, and the origins that the settings name.

use holodeck_model::AllowedOrigin;
use holodeck_serve::ServeOptions;
use holodeck_testkit::ScriptedTurn;
use http::Method;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::world::{Reply, Setup, World, two_users};

/// The questions of real browsers, a line each.
const PREFLIGHTS: &str = include_str!("../../../../fixtures/clients/browser/preflights.jsonl");
/// Entries of the settings with the origin of a page.
const ORIGINS: &str = include_str!("../../../../fixtures/clients/browser/origins.tsv");

async fn allowing(origins: &[&str], options: ServeOptions) -> World {
    let setup = Setup {
        options: ServeOptions {
            cors_origins: origins
                .iter()
                .map(|origin| AllowedOrigin::parse(origin).unwrap())
                .collect(),
            ..options
        },
        ..Setup::default()
    };
    World::with(setup, |_| ScriptedTurn::text("x")).await
}

fn list(reply: &Reply, header: &str) -> Vec<String> {
    let values = reply.headers.get_all(header).iter();
    let mut names: Vec<String> = values
        .flat_map(|value| value.to_str().unwrap().split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_preflight_of_an_allowed_page_allows_the_headers_that_it_asks_for() {
    let options = ServeOptions {
        access: two_users(),
        ..ServeOptions::default()
    };
    let world = allowing(&["http://localhost:5173"], options).await;
    let mut rows = 0;
    for line in PREFLIGHTS.lines() {
        rows += 1;
        let row: Value = serde_json::from_str(line).unwrap();
        let fields = row["headers"].as_object().unwrap();
        let headers: Vec<(&str, &str)> = fields
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str().unwrap()))
            .collect();
        let path = row["path"].as_str().unwrap();
        let reply = world.send(Method::OPTIONS, path, &headers, "").await;
        assert_eq!(reply.status, 204, "{line}");
        assert_eq!(
            reply.headers["access-control-allow-origin"],
            "http://localhost:5173"
        );
        let mut asked: Vec<&str> = row["headers"]["Access-Control-Request-Headers"]
            .as_str()
            .unwrap()
            .split(',')
            .collect();
        asked.sort_unstable();
        assert_eq!(list(&reply, "access-control-allow-headers"), asked, "{line}");
        assert!(list(&reply, "access-control-allow-methods").contains(&"post".to_owned()));
        assert_eq!(list(&reply, "vary"), ["access-control-request-headers", "origin"]);
        // For the page of another origin nothing is allowed.
        let strange: Vec<(&str, &str)> = headers
            .iter()
            .map(|(name, value)| match *name {
                "Origin" => (*name, "http://localhost:5174"),
                _ => (*name, *value),
            })
            .collect();
        let refused = world.send(Method::OPTIONS, path, &strange, "").await;
        assert_eq!(refused.status, 403);
        assert!(!refused.headers.contains_key("access-control-allow-headers"));
        assert!(!refused.headers.contains_key("access-control-allow-origin"));
    }
    assert_eq!(rows, 3);
}

#[tokio::test]
async fn a_preflight_repeats_only_names_of_headers() {
    let world = allowing(&["https://app.example"], ServeOptions::default()).await;
    for (asked, allowed) in [
        ("x-a, x-b", vec!["x-a", "x-b"]),
        ("X-A", vec!["x-a"]),
        ("x-a, , x b, x-c", vec!["x-a", "x-c"]),
        (" ", vec![]),
    ] {
        let headers = [
            ("origin", "https://app.example"),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", asked),
        ];
        let reply = world.send(Method::OPTIONS, "/v1/sessions", &headers, "").await;
        assert_eq!(reply.status, 204);
        assert_eq!(list(&reply, "access-control-allow-headers"), allowed, "{asked:?}");
    }
}

#[tokio::test]
async fn the_page_of_each_entry_may_use_the_server_and_no_other_page() {
    let mut rows = 0;
    for line in ORIGINS.lines().skip(1) {
        rows += 1;
        let [entry, origin, right] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let world = allowing(&[entry], ServeOptions::default()).await;
        let reply = world
            .send(Method::GET, "/v1/sessions", &[("origin", origin)], "")
            .await;
        if right.starts_with("allowed") {
            assert_eq!(reply.status, 200, "{line}");
            assert_eq!(reply.headers["access-control-allow-origin"], origin, "{line}");
        } else {
            assert_eq!(reply.problem(), (403, "ORIGIN_NOT_ALLOWED".to_owned()), "{line}");
        }
    }
    assert_eq!(rows, 5);
}

#[tokio::test]
async fn a_page_can_read_the_headers_that_decide_about_a_retry() {
    let world = allowing(&["https://app.example"], ServeOptions::default()).await;
    let body = json!({"message": ""}).to_string();
    let headers = [("origin", "https://app.example")];
    let reply = world
        .send(Method::POST, "/v1/sessions/s/messages", &headers, &body)
        .await;
    let exposed = list(&reply, "access-control-expose-headers");
    for name in ["retry-after", "x-should-retry", "x-run-id"] {
        assert!(exposed.contains(&name.to_owned()), "{name}");
    }
}
