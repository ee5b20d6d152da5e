//! Classifies errors of the transport.

use std::error::Error as StdError;
use std::io;

use crate::reach::Refused;
use crate::{ConnectReason, HttpError, HttpUrl};

/// An error of sending, or of reading the body.
pub(crate) fn classify(error: reqwest::Error, url: &HttpUrl) -> HttpError {
    // The error's own URL contains the query.
    let error = error.without_url();
    let url = url.clone();
    if error.is_connect() {
        let reason = connect_reason(&error, &url);
        return HttpError::Connect { url, reason };
    }
    let reason = innermost_cause(&error);
    let not_http = ["invalid HTTP", "head is too large", "header list too large"];
    if error.is_builder() || not_http.iter().any(|text| reason.contains(text)) {
        return HttpError::Request { url, reason };
    }
    HttpError::Body { url, reason }
}

fn connect_reason(error: &reqwest::Error, url: &HttpUrl) -> ConnectReason {
    if let Some(refused) = causes(error).find_map(|cause| cause.downcast_ref::<Refused>()) {
        return ConnectReason::NotPublic(format!("{} (`{}`)", refused.address, refused.host));
    }
    if error.is_dns() {
        return ConnectReason::Dns(url.host().to_owned());
    }
    if error.is_timeout() {
        return ConnectReason::TimedOut;
    }
    for cause in causes(error) {
        if let Some(tls) = cause.downcast_ref::<rustls::Error>() {
            return match tls {
                rustls::Error::InvalidCertificate(problem) => ConnectReason::Certificate(problem.to_string()),
                rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType) => {
                    ConnectReason::Tls("the server does not speak TLS on this port".to_owned())
                }
                other => ConnectReason::Tls(other.to_string()),
            };
        }
        match cause.downcast_ref::<io::Error>().map(io::Error::kind) {
            Some(io::ErrorKind::ConnectionRefused) => return ConnectReason::Refused,
            Some(io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable) => {
                return ConnectReason::Unreachable;
            }
            Some(io::ErrorKind::TimedOut) => return ConnectReason::TimedOut,
            _ => {}
        }
    }
    let reason = innermost_cause(error);
    if causes(error).any(|cause| cause.to_string().contains("tunnel")) {
        return ConnectReason::Proxy(reason);
    }
    ConnectReason::Other(reason)
}

/// The innermost cause without the system's error number; the outer ones only repeat that something failed.
fn innermost_cause(error: &reqwest::Error) -> String {
    let text = causes(error)
        .last()
        .map_or_else(|| error.to_string(), ToString::to_string);
    match text.split_once(" (os error ") {
        Some((reason, _)) => reason.to_ascii_lowercase(),
        None => text,
    }
}

/// An error's causes, outermost first, including those inside `io::Error`s, which `source` skips.
fn causes<'a>(error: &'a reqwest::Error) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    let mut next: Option<&'a (dyn StdError + 'static)> = error.source();
    std::iter::from_fn(move || {
        let current = next?;
        next = match current.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => current.source(),
        };
        Some(current)
    })
}
