//! The only builder of HTTP clients in HoloDeck.
//!
//! One TLS decision (rustls on ring, the platform's roots, then the bundled ones), one proxy rule, one retry
//! policy, one place that bounds what a server may send, one decoder for server-sent events. Header values, URL
//! user names and query strings never appear in what this crate displays or logs.
//!
//! Requests can also be sent over HTTP/2 alone, with the trailers of their responses; other protocols get TLS by the
//! same decision.
//!
//! It must not depend on models, agents or YAML.

mod body;
mod client;
mod coding;
mod connections;
mod error;
mod excerpt;
mod exchange;
mod headers;
mod http2;
mod options;
mod pacer;
mod reach;
mod response;
mod retry;
mod sse;
mod tls;
mod tls_stream;
mod transport;
mod upgrade;
mod url;

pub use body::Body;
pub use client::{HttpClient, mask};
pub use error::{BodyKind, ConnectReason, HttpError, SetupError, long_wait};
pub use exchange::{Exchange, Verb};
pub use headers::Headers;
pub use http2::Http2Answer;
pub use options::{HttpOptions, LoopbackProxy, ProxyOptions};
pub use pacer::Pacer;
pub use reach::Reach;
pub use response::{Beginning, Response};
pub use retry::{CallOptions, RetryPolicy, retry_delay};
pub use sse::{SseDecoder, SseEvent, SseStream, decode_sse};
pub use tls_stream::{Tls, TlsStream};
pub use upgrade::{Upgrade, Upgraded};
pub use url::{HttpUrl, InvalidUrl};
