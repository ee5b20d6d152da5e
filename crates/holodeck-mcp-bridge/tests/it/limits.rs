//! Servers that flood, list without end, or stay silent.

use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::faults::scripted;
use crate::setup::{connect, options, text, try_connect};

async fn refusal(how: &str, more: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let tool = scripted(how, folder.path(), more);
    let connected = try_connect(&tool, &options(folder.path())).await;
    assert!(connected.servers.is_empty(), "{how}");
    let reason = &connected.failed[0].reason;
    reason.lines().next().unwrap().to_owned()
}

#[tokio::test]
async fn lists_have_limits_and_the_error_names_the_one_that_was_exceeded() {
    for (how, limit) in [
        ("endless", "the list has more than 100 pages"),
        ("many", "more than 2000 tools and prompts"),
        ("large", "tools and prompts of more than 16 MiB"),
    ] {
        let expected = format!("listing its tools failed: {limit}");
        assert_eq!(refusal(how, "").await, expected, "{how}");
    }
}

#[tokio::test]
async fn a_silent_server_is_given_up_after_its_own_limit() {
    assert_eq!(
        refusal("silent", "request_timeout: 1").await,
        "no answer within 1 s"
    );
    assert_eq!(refusal("silent", "timeout: 0.5").await, "no answer within 0.5 s");
}

#[tokio::test]
async fn a_longer_limit_holds_for_the_start_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(folder.path());
    options.startup = Duration::from_millis(1);
    connect(&scripted("fine", folder.path(), "request_timeout: 50"), &options).await;
}

#[tokio::test]
async fn a_flood_of_changes_is_one_refresh_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let server = connect(&scripted("fine", folder.path(), ""), &options(folder.path())).await;
    let before = peak_memory();
    text(&server, "mcp__odd__flood", json!({})).await;
    let grown = peak_memory() - before;
    assert!(grown < 100_000, "300,000 notifications took {grown} kB");
    // The change is not lost: the tools are listed again, a few times at most.
    let lists: u32 = text(&server, "mcp__odd__lists", json!({})).await.parse().unwrap();
    assert!((1..=3).contains(&lists), "{lists} lists");
}

/// Peak memory of this process, in kB.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
