//! The model endpoint of `cargo xtask bench`: one canned answer for every request.
//!
//! `bench_server [DELAY_MS] [judge]` prints its URL and serves until standard input ends, so it stops with the process that
//! started it.
#![allow(clippy::print_stdout, reason = "its URL is its output")]

use std::error::Error;
use std::io::Read as _;
use std::time::Duration;

use holodeck_testkit::{ModelServer, Reply};

/// The answer every case of the bench expects: see `xtask/src/bench/project.rs`.
const ANSWER: &str = "You can return an item within 30 days of delivery. Keep the receipt and the original \
                      packaging, and we refund the full price to the card you paid with.";

/// The verdict of a judge with a scale of 5.
const VERDICT: &str =
    r#"{"reason": "The answer names the deadline and what the customer has to do.", "score": 5}"#;

fn main() -> Result<(), Box<dyn Error>> {
    let delay = match std::env::args().nth(1) {
        Some(text) => Duration::from_millis(text.parse()?),
        None => Duration::ZERO,
    };
    let answer = match std::env::args().nth(2).as_deref() {
        Some("judge") => VERDICT,
        _ => ANSWER,
    };
    let server = ModelServer::canned(&Reply::text(answer).in_pieces(12).after(delay));
    println!("{}", server.url());
    let mut ignored = Vec::new();
    std::io::stdin().read_to_end(&mut ignored)?;
    Ok(())
}
