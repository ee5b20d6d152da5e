//! One unary gRPC call: <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>.

use std::fmt::Write as _;

use bytes::{BufMut as _, Bytes, BytesMut};
use holodeck_http::{CallOptions, Headers, Http2Answer, HttpClient, HttpError, HttpUrl};

use crate::{
    attempts::{Failure, Retry},
    retry_info,
    wire::{Encoding, Signal, reason},
};

/// A compression flag and the length in four bytes.
const PREFIX: usize = 5;

/// The names of the codes, from 0.
const CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// The codes that a retry may help, by OTLP.
const RETRYABLE: [&str; 6] = [
    "CANCELLED",
    "DEADLINE_EXCEEDED",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNAVAILABLE",
    "DATA_LOSS",
];

/// Retryable if the server says so in the details.
const EXHAUSTED: &str = "RESOURCE_EXHAUSTED";

/// Sends `message`, which is encoded with `encoding`. A partial rejection is a failure.
pub(crate) async fn call(
    client: &HttpClient,
    url: &HttpUrl,
    signal: Signal,
    headers: &Headers,
    message: &[u8],
    encoding: Encoding,
    options: &CallOptions,
) -> Result<(), Failure> {
    let body = framed(message, encoding)?;
    let answer = client.post_http2(url, headers, body, options).await;
    let answer = answer.map_err(|error| match error {
        // Servers without gRPC answer like this.
        HttpError::Body { .. } => Failure {
            reason: format!("{error} (does this port speak gRPC?)"),
            retry: Some(Retry::DuringRun),
        },
        _ => Failure::from(error),
    })?;
    // A trailers-only answer has its status in the headers.
    let field = |name| answer.trailer(name).or_else(|| answer.header(name));
    let Some(status) = field("grpc-status") else {
        return Err(format!("{url} answered without a gRPC status").into());
    };
    if status.trim() == "0" {
        let message = answer.body().get(PREFIX..).unwrap_or_default();
        signal.check_accepted(url, message, |text| answer.without_secrets(text))?;
        return Ok(());
    }
    let asked = field("grpc-status-details-bin").and_then(retry_info::read);
    Err(Failure {
        reason: problem(url, status, field("grpc-message"), &answer),
        retry: code(status).and_then(|code| retry(code, asked)),
    })
}

/// When a retry may help, by a code and the retry that the server offers in the details.
fn retry(code: &str, offered: Option<Retry>) -> Option<Retry> {
    match code {
        EXHAUSTED => offered,
        _ if RETRYABLE.contains(&code) => offered.or(Some(Retry::Soon)),
        _ => None,
    }
}

/// The name of a code.
fn code(status: &str) -> Option<&'static str> {
    let code: usize = status.trim().parse().ok()?;
    CODES.get(code).copied()
}

fn framed(message: &[u8], encoding: Encoding) -> Result<Bytes, String> {
    let length =
        u32::try_from(message.len()).map_err(|_error| "the message is larger than 4 GiB".to_owned())?;
    let mut body = BytesMut::with_capacity(PREFIX + message.len());
    body.put_u8(u8::from(encoding == Encoding::Gzip));
    body.put_u32(length);
    body.put_slice(message);
    Ok(body.freeze())
}

fn problem(url: &HttpUrl, status: &str, message: Option<&str>, answer: &Http2Answer) -> String {
    let mut problem = format!("{url} answered gRPC status {status}");
    if let Some(code) = code(status) {
        let _ = write!(problem, " {code}");
    }
    let message = answer.without_secrets(&percent_decoded(message.unwrap_or_default()));
    problem.push_str(&reason(&message));
    problem
}

/// Anything that is not an escape is kept.
pub(crate) fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let escaped = (byte == b'%').then(|| after.split_at_checked(2)).flatten();
        let escaped = escaped.and_then(|(digits, after)| {
            let digits = std::str::from_utf8(digits).ok()?;
            let all_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            Some((u8::from_str_radix(digits, 16).ok().filter(|_| all_hex)?, after))
        });
        let (byte, after) = escaped.unwrap_or((byte, after));
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_message_has_five_bytes_before_it() {
        let plain = framed(b"abc", Encoding::Plain).unwrap();
        assert_eq!(plain.as_ref(), b"\0\0\0\0\x03abc");
        let packed = framed(&[7; 258], Encoding::Gzip).unwrap();
        assert_eq!(packed.get(..PREFIX).unwrap(), [1, 0, 0, 1, 2]);
    }

    #[test]
    fn the_codes_that_are_tried_again_are_those_of_otlp() {
        let offered = Some(Retry::After(std::time::Duration::from_secs(7)));
        for (number, name) in CODES.iter().enumerate() {
            assert_eq!(code(&format!(" {number}")), Some(*name));
            let (alone, with_offer) = match number {
                1 | 4 | 10 | 11 | 14 | 15 => (Some(Retry::Soon), offered),
                8 => (None, offered),
                _ => (None, None),
            };
            assert_eq!(retry(name, None), alone, "{name}");
            assert_eq!(retry(name, offered), with_offer, "{name}");
        }
        assert_eq!((code("17"), code("-1"), code("x")), (None, None, None));
    }

    #[test]
    fn escapes_are_undone_and_nothing_else() {
        for (text, decoded) in [
            ("", ""),
            ("no%20key%C3%A9", "no keyé"),
            ("100%", "100%"),
            ("%+1%g0%2", "%+1%g0%2"),
            ("%%41", "%A"),
            ("%FF", "\u{fffd}"),
        ] {
            assert_eq!(percent_decoded(text), decoded);
        }
    }
}
