//! Error texts without the layers of wrappers.

use rmcp::service::ClientInitializeError;
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;

use crate::client::caller::CallError;

pub(crate) fn of_handshake(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::TransportError { error, .. } => of_transport(error),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => of_handshake(fallback),
        ClientInitializeError::JsonRpcError(error) => {
            format!("it rejected the handshake: {} ({})", error.message, error.code.0)
        }
        ClientInitializeError::ConnectionClosed(_) => {
            "it closed the connection during the handshake".to_owned()
        }
        other => other.to_string(),
    }
}

/// Why the server refused a request, if it wants a login, or more than the login allows.
pub(crate) fn of_login(error: &DynamicTransportError) -> Option<String> {
    let error = match error.error.downcast_ref::<StreamableHttpError<CallError>>() {
        Some(StreamableHttpError::Client(error)) => Some(error),
        _ => error.error.downcast_ref::<CallError>(),
    };
    match error? {
        CallError::Login(reason) => Some(reason.clone()),
        CallError::Http(_) => None,
    }
}

pub(crate) fn of_transport(error: &DynamicTransportError) -> String {
    match error.error.downcast_ref::<StreamableHttpError<CallError>>() {
        Some(StreamableHttpError::Client(error)) => error.to_string(),
        Some(StreamableHttpError::TransportChannelClosed) => "the connection was closed".to_owned(),
        Some(other) => other.to_string(),
        None => error.error.to_string(),
    }
}
