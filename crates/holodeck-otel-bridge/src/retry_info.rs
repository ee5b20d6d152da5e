//! Reads the details of a gRPC status: when its server wants the request again.
//!
//! They are `google.rpc.Status` and `google.rpc.RetryInfo`; OTLP uses nothing else of them.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use prost::Message;

use crate::attempts::Retry;

/// The end of the type's URL.
const RETRY_INFO: &str = "google.rpc.RetryInfo";

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

#[derive(Clone, PartialEq, Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<Delay>,
}

#[derive(Clone, PartialEq, Message)]
struct Delay {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

/// The retry that the value of `grpc-status-details-bin` offers; without a wait, it is up to the client. `None` if it offers
/// none, or cannot be read.
pub(crate) fn read(details: &str) -> Option<Retry> {
    let bytes = STANDARD_NO_PAD
        .decode(details.trim().trim_end_matches('='))
        .ok()?;
    let details = Status::decode(bytes.as_slice()).ok()?.details;
    let is_retry = |any: &&Any| any.type_url.rsplit('/').next() == Some(RETRY_INFO);
    let info = details.iter().find(is_retry)?;
    let delay = RetryInfo::decode(info.value.as_slice()).ok()?.retry_delay;
    let delay = delay.and_then(|delay| {
        let seconds = Duration::from_secs(delay.seconds.try_into().ok()?);
        seconds.checked_add(Duration::from_nanos(delay.nanos.try_into().ok()?))
    });
    let wait = delay.filter(|delay| !delay.is_zero());
    Some(wait.map_or(Retry::Soon, Retry::After))
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;
    use pretty_assertions::assert_eq;

    use super::*;

    fn details(kinds: &[(&str, Vec<u8>)]) -> Vec<u8> {
        let details = kinds.iter().map(|(kind, value)| Any {
            type_url: format!("type.googleapis.com/{kind}"),
            value: value.clone(),
        });
        let details = details.collect();
        // A code and a message come first.
        [
            b"\x08\x08\x12\x04full".to_vec(),
            Status { details }.encode_to_vec(),
        ]
        .concat()
    }

    fn info(retry_delay: Option<(i64, i32)>) -> Vec<u8> {
        let retry_delay = retry_delay.map(|(seconds, nanos)| Delay { seconds, nanos });
        RetryInfo { retry_delay }.encode_to_vec()
    }

    #[test]
    fn the_wait_of_the_server_is_found_among_other_details() {
        let other = || ("google.rpc.BadRequest", b"\x0a\x01x".to_vec());
        let wait = |seconds, nanos| (RETRY_INFO, info(Some((seconds, nanos))));
        for (kinds, expected) in [
            (
                vec![wait(5, 250_000_000)],
                Some(Retry::After(Duration::from_millis(5250))),
            ),
            (
                vec![other(), wait(0, 1)],
                Some(Retry::After(Duration::from_nanos(1))),
            ),
            (vec![(RETRY_INFO, info(None))], Some(Retry::Soon)),
            (vec![wait(0, 0)], Some(Retry::Soon)),
            (vec![wait(-1, 0)], Some(Retry::Soon)),
            (vec![wait(1, -1)], Some(Retry::Soon)),
            (vec![other()], None),
            (vec![], None),
            (vec![("google.rpc.RetryInfoX", info(Some((1, 0))))], None),
            (vec![(RETRY_INFO, b"\xff".to_vec())], None),
        ] {
            let bytes = details(&kinds);
            assert_eq!(read(&STANDARD.encode(&bytes)), expected, "{kinds:?}");
            assert_eq!(read(&STANDARD_NO_PAD.encode(&bytes)), expected, "{kinds:?}");
        }
    }

    #[test]
    fn details_that_are_cut_offer_a_retry_only_if_it_is_whole() {
        let whole = details(&[(RETRY_INFO, info(Some((5, 7))))]);
        for length in 0..whole.len() {
            let start = whole.get(..length).unwrap();
            assert_eq!(read(&STANDARD.encode(start)), None, "{length}");
        }
        for text in ["%", "=", "a", "\u{e9}"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
