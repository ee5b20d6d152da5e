//! Tests against a small HTTP server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod answers;
mod compressed;
mod exchange;
mod failures;
mod http2;
mod proxy;
mod reach;
mod retries;
mod server;
mod tls;

use std::time::Duration;

use holodeck_http::{CallOptions, HttpClient, HttpOptions, RetryPolicy};

/// Options whose retries do not delay a test.
fn quick() -> CallOptions {
    CallOptions {
        retry: RetryPolicy {
            first_wait: Duration::from_millis(1),
            ..RetryPolicy::default()
        },
        ..CallOptions::default()
    }
}

fn client() -> HttpClient {
    HttpClient::new(&HttpOptions::default()).unwrap()
}

/// One attempt only.
fn once() -> CallOptions {
    CallOptions {
        retry: RetryPolicy::none(),
        ..CallOptions::default()
    }
}
