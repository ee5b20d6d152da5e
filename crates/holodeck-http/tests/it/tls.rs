use holodeck_http::{ConnectReason, Headers, HttpClient, HttpError, HttpOptions, HttpUrl, SetupError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

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
