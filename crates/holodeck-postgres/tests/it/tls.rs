//! A TLS proxy in front of the real server, which has no TLS.

use std::sync::Arc;

use futures::StreamExt as _;
use holodeck_postgres::{ConnectionString, Target, describe_error, tokio_postgres::AsyncMessage};
use holodeck_testkit::PostgresServer;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

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

    let open = |url: String| ConnectionString::parse(&url).unwrap().into_target().unwrap();
    for mode in ["require", "verify-ca", "verify-full", "prefer"] {
        let target = open(url("localhost", &format!("?sslmode={mode}&sslrootcert={root}")));
        let (client, messages) = target.connect().await.unwrap();
        let (sender, mut notes) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(messages.for_each(move |message| {
            if let AsyncMessage::Notification(note) = message.unwrap() {
                sender.send(note.payload().to_owned()).unwrap();
            }
            std::future::ready(())
        }));
        let sql = format!("LISTEN tls; NOTIFY tls, '{mode}'");
        client.batch_execute(&sql).await.unwrap();
        assert_eq!(notes.recv().await.as_deref(), Some(mode));
    }
    let refused = async |target: Target| {
        let Err(error) = target.connect().await else {
            panic!("connected to {target:?}")
        };
        let error = describe_error(&error);
        assert!(!error.contains(PostgresServer::PASSWORD), "{error}");
        error
    };
    // Signed by an untrusted authority, and for another name.
    let unknown = refused(open(url("localhost", "?sslmode=require"))).await;
    assert!(unknown.contains("UnknownIssuer"), "{unknown}");
    let misnamed = open(url("127.0.0.1", &format!("?sslmode=require&sslrootcert={root}")));
    let misnamed = refused(misnamed).await;
    assert!(misnamed.contains("not valid for name"), "{misnamed}");
    // The server itself has no TLS.
    let plain = refused(open(format!("{}?sslmode=require", server.url()))).await;
    assert!(plain.contains("TLS"), "{plain}");
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
