//! The authorization server of an MCP server: found by the OAuth library, then checked.

use holodeck_http::HttpUrl;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationMetadataSource,
};
use serde_json::{Value, json};

use crate::login::address::origin_is_safe;
use crate::login::error::{LoginError, foreign};
use crate::login::exchange::Exchanger;
use crate::login::issuer::Issuer;

const S256: &str = "S256";

/// Finds the authorization server and gives its metadata to `manager`.
pub(crate) async fn find(
    manager: &mut AuthorizationManager,
    server: &HttpUrl,
    exchanger: &Exchanger,
) -> Result<Issuer, LoginError> {
    let found = manager
        .resolve_metadata()
        .await
        .map_err(|error| of_discovery(server, &error, exchanger))?;
    if found.source == AuthorizationMetadataSource::LegacyEndpointFallback {
        return Err(LoginError::Discovery {
            server: server.clone(),
            reason:
                "the server publishes no metadata that names one; it may need no login, or a key in `headers`"
                    .to_owned(),
        });
    }
    let issuer = check(&found.metadata, server)?;
    manager.set_metadata(found.metadata);
    Ok(issuer)
}

fn check(metadata: &AuthorizationMetadata, server: &HttpUrl) -> Result<Issuer, LoginError> {
    let id = metadata.issuer.clone().unwrap_or_default();
    let unusable = |reason: String| LoginError::Unusable {
        issuer: if id.is_empty() {
            "the authorization server".to_owned()
        } else {
            foreign(&id)
        },
        reason,
    };
    if id.is_empty() {
        return Err(unusable("its metadata has no `issuer`".to_owned()));
    }
    let revocation = metadata.additional_fields.get("revocation_endpoint");
    let revocation = revocation.and_then(Value::as_str).map(str::to_owned);
    let addresses = [
        ("issuer", Some(&id)),
        ("authorization_endpoint", Some(&metadata.authorization_endpoint)),
        ("token_endpoint", Some(&metadata.token_endpoint)),
        ("registration_endpoint", metadata.registration_endpoint.as_ref()),
        ("revocation_endpoint", revocation.as_ref()),
    ];
    for (field, address) in addresses {
        let Some(address) = address else { continue };
        let url = HttpUrl::parse(address).map_err(|error| unusable(format!("`{field}`: {error}")))?;
        if !origin_is_safe(&url, server) {
            let reason =
                format!("`{field}` is {url}, which is neither https nor on this machine beside the server");
            return Err(unusable(reason));
        }
    }
    let methods = metadata.code_challenge_methods_supported.as_deref();
    if !methods.is_some_and(|methods| methods.iter().any(|method| method == S256)) {
        let reason = "`code_challenge_methods_supported` of its metadata does not list `S256` (PKCE), which a login needs";
        return Err(unusable(reason.to_owned()));
    }
    if let Some(types) = &metadata.response_types_supported
        && !types.iter().any(|kind| kind == "code")
    {
        return Err(unusable(
            "`response_types_supported` of its metadata does not list `code`".to_owned(),
        ));
    }
    let auth_methods = metadata
        .additional_fields
        .get("token_endpoint_auth_methods_supported");
    let auth_methods = auth_methods.and_then(Value::as_array).into_iter().flatten();
    Ok(Issuer {
        id,
        authorization_endpoint: metadata.authorization_endpoint.clone(),
        token_endpoint: metadata.token_endpoint.clone(),
        registers: metadata.registration_endpoint.is_some(),
        revocation_endpoint: revocation,
        auth_methods: auth_methods
            .filter_map(|method| method.as_str().map(str::to_owned))
            .collect(),
    })
}

/// The metadata of an earlier login, with which its tokens are renewed: nothing is discovered again.
pub(crate) fn of_saved(issuer: &Issuer) -> Option<AuthorizationMetadata> {
    serde_json::from_value(json!({
        "issuer": issuer.id,
        "authorization_endpoint": issuer.authorization_endpoint,
        "token_endpoint": issuer.token_endpoint,
        "token_endpoint_auth_methods_supported": issuer.auth_methods,
    }))
    .ok()
}

fn of_discovery(server: &HttpUrl, error: &AuthError, exchanger: &Exchanger) -> LoginError {
    let reason = match error {
        AuthError::DiscoveryRequestFailed { source, .. } => {
            let last = exchanger.last().map(|last| last.words);
            last.unwrap_or_else(|| source.to_string())
        }
        AuthError::AuthorizationServerMismatch {
            expected_issuer,
            received_issuer,
        } => format!(
            "the metadata of {expected_issuer} says that it is the issuer {received_issuer}; both must be equal"
        ),
        AuthError::AuthorizationServerMissingIssuer { expected_issuer } => {
            format!("the metadata of {expected_issuer} has no `issuer`")
        }
        other => other.to_string(),
    };
    LoginError::Discovery {
        server: server.clone(),
        reason: foreign(&reason),
    }
}
