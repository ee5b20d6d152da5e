//! Tests of certificates: the user's CA bundle is trusted, and unknown authorities are not.

use holodeck_http::{ConnectReason, Headers, HttpClient, HttpError, HttpOptions, HttpUrl, SetupError};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::{client, quick};

#[tokio::test]
async fn plain_http_behind_an_https_url_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = HttpUrl::parse(&format!("https://{}/", listener.local_addr().unwrap())).unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_u8().await.unwrap();
        stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .await
            .unwrap();
    });
    let error = client().get(&url, &Headers::new(), &quick()).await.unwrap_err();
    assert!(
        matches!(
            &error,
            HttpError::Connect {
                reason: ConnectReason::Tls(_),
                ..
            }
        ),
        "{error:?}"
    );
    assert!(
        error
            .to_string()
            .ends_with("the server does not speak TLS on this port"),
        "{error}"
    );
    assert!(!error.retryable());
}

#[test]
fn a_ca_bundle_must_exist_and_hold_a_certificate() {
    let bundle = |path: &str| {
        HttpClient::new(&HttpOptions {
            ca_bundle: Some(path.into()),
            ..HttpOptions::default()
        })
    };
    let error = bundle("/nowhere/ca.pem").unwrap_err();
    assert!(matches!(&error, SetupError::CaBundle { .. }), "{error:?}");
    let error = bundle(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap_err();
    assert!(matches!(&error, SetupError::CaBundleEmpty { .. }), "{error:?}");
}

/// TLS for a server of `localhost` that supports `protocols`, and the PEM of the authority that signed its certificate.
pub(crate) fn acceptor(protocols: &[&str]) -> (TlsAcceptor, String) {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(["localhost".to_owned()])
        .unwrap()
        .signed_by(&key, &authority)
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from(leaf.der().to_vec())],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    (TlsAcceptor::from(Arc::new(config)), authority.pem())
}

/// A client that also trusts an authority.
pub(crate) fn trusting(authority: &str) -> HttpClient {
    let bundle = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(bundle.path(), authority).unwrap();
    HttpClient::new(&HttpOptions {
        ca_bundle: Some(bundle.path().to_owned()),
        ..HttpOptions::default()
    })
    .unwrap()
}

/// A server for `localhost`; returns the URL and the authority's PEM.
async fn tls_server() -> (String, String) {
    let (acceptor, authority) = acceptor(&[]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            stream.read_u8().await.unwrap();
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
                .await
                .unwrap();
            stream.shutdown().await.unwrap();
        }
    });
    (format!("https://localhost:{port}/"), authority)
}

#[tokio::test]
async fn the_users_ca_bundle_is_trusted_and_nothing_else_is() {
    let (url, authority) = tls_server().await;
    let trusting = trusting(&authority);
    let address = HttpUrl::parse(&url).unwrap();
    let answer = trusting.get(&address, &Headers::new(), &quick()).await.unwrap();
    assert_eq!(answer.bytes().await.unwrap(), "{}");

    let other_name = HttpUrl::parse(&url.replace("localhost", "127.0.0.1")).unwrap();
    for (client, address) in [(client(), address), (trusting, other_name)] {
        let error = client.get(&address, &Headers::new(), &quick()).await.unwrap_err();
        assert!(
            matches!(
                &error,
                HttpError::Connect {
                    reason: ConnectReason::Certificate(_),
                    ..
                }
            ),
            "{error:?}"
        );
        assert!(!error.retryable());
    }
}
