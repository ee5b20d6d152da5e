//! The scripted server, seen through the product's own HTTP client.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod server;
