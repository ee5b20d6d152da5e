//! A TLS proxy in front of the real server, which has no TLS.

use std::sync::Arc;

use holodeck_retrieval::{Filter, VectorStore as _};
use holodeck_testkit::PostgresServer;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::store;
use crate::conformance::data::{info, put, random};

#[tokio::test]
async fn certificates_are_checked() {
    let server = PostgresServer::start();
    let (acceptor, authority) = acceptor();
    let port = terminate(acceptor, server.port()).await;
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root.pem");
    std::fs::write(&root, authority).unwrap();
    let root = root.to_str().unwrap();
    let url = |host: &str, query: &str| {
        server
            .url()
            .replace(&format!("127.0.0.1:{}", server.port()), &format!("{host}:{port}"))
            + query
    };

    for mode in ["require", "verify-ca", "verify-full", "prefer"] {
        let options = json!({"sslmode": mode, "sslrootcert": root});
        let store = store(&url("localhost", ""), options, mode);
        store.prepare(&info(3)).await.unwrap();
        put(&store, "a", &random("a", 3, 3, 1)).await;
        let found = store.nearest(&[1.0, 0.0, 0.0], 2, &Filter::default()).await;
        assert_eq!(found.unwrap().len(), 2);
    }
    let refused = async |url: String| {
        let error = store(&url, json!({}), "kb").info().await.unwrap_err().to_string();
        assert!(!error.contains(PostgresServer::PASSWORD), "{error}");
        error
    };
    // Signed by an untrusted authority, and for another name.
    let unknown = refused(url("localhost", "?sslmode=require")).await;
    assert!(unknown.contains("UnknownIssuer"), "{unknown}");
    let misnamed = refused(url("127.0.0.1", &format!("?sslmode=require&sslrootcert={root}"))).await;
    assert!(misnamed.contains("not valid for name"), "{misnamed}");
}

fn acceptor() -> (TlsAcceptor, String) {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(["localhost".to_owned()])
        .unwrap()
        .signed_by(&key, &authority)
        .unwrap();
    let mut config =
        ServerConfig::builder_with_provider(Arc::new(tokio_rustls::rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from(leaf.der().to_vec())],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
    config.alpn_protocols = vec![b"postgresql".to_vec()];
    (TlsAcceptor::from(Arc::new(config)), authority.pem())
}

/// Accepts the TLS request and forwards what follows to the server.
async fn terminate(acceptor: TlsAcceptor, server: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut question = [0; 8];
                client.read_exact(&mut question).await.unwrap();
                assert_eq!(question, [0, 0, 0, 8, 4, 210, 22, 47]);
                client.write_all(b"S").await.unwrap();
                if let Ok(mut client) = acceptor.accept(client).await {
                    let mut server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                }
            });
        }
    });
    port
}
