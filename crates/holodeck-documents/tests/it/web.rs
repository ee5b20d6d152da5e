//! A small web server on loopback.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The response of a path: raw bytes; a head and then the same bytes forever; nothing.
#[derive(Clone)]
pub(crate) enum Page {
    Raw(Vec<u8>),
    Endless(String, Vec<u8>),
    Hanging,
}

pub(crate) struct Web {
    pub(crate) origin: String,
    requests: Arc<Mutex<Vec<String>>>,
    pages: Arc<Mutex<HashMap<String, Page>>>,
}

impl Web {
    pub(crate) async fn start() -> Self {
        Self::serve(None).await
    }

    /// Served at `https://localhost`; returns the issuer's certificate in PEM.
    pub(crate) async fn start_secure() -> (Self, String) {
        let (acceptor, authority) = acceptor();
        (Self::serve(Some(acceptor)).await, authority)
    }

    async fn serve(acceptor: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let web = Self {
            origin: match &acceptor {
                Some(_) => format!("https://localhost:{}", listener.local_addr().unwrap().port()),
                None => format!("http://{}", listener.local_addr().unwrap()),
            },
            requests: Arc::default(),
            pages: Arc::default(),
        };
        let (requests, pages) = (Arc::clone(&web.requests), Arc::clone(&web.pages));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (requests, pages) = (Arc::clone(&requests), Arc::clone(&pages));
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    match acceptor {
                        Some(acceptor) => {
                            answer(acceptor.accept(stream).await.ok()?, &requests, &pages).await
                        }
                        None => answer(stream, &requests, &pages).await,
                    }
                });
            }
        });
        web
    }

    pub(crate) fn put(&self, path: &str, page: Page) {
        self.pages.lock().unwrap().insert(path.to_owned(), page);
    }

    /// The heads of the requests since the last call.
    pub(crate) fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }
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
    let provider = tokio_rustls::rustls::crypto::ring::default_provider();
    let config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from(leaf.der().to_vec())],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    (TlsAcceptor::from(Arc::new(config)), authority.pem())
}

/// An answer with a status line, headers and a body.
pub(crate) fn page(status: &str, headers: &str, body: &[u8]) -> Page {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n{headers}\r\n");
    Page::Raw([head.as_bytes(), body].concat())
}

pub(crate) fn redirect(to: &str) -> Page {
    page("302 Found", &format!("Location: {to}\r\n"), b"")
}

async fn answer(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    requests: &Mutex<Vec<String>>,
    pages: &Mutex<HashMap<String, Page>>,
) -> Option<()> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let head = String::from_utf8(bytes).unwrap();
    let path = head.split(' ').nth(1)?.to_owned();
    requests.lock().unwrap().push(head);
    let found = pages.lock().unwrap().get(&path).cloned();
    match found.unwrap_or_else(|| page("404 Not Found", "", b"")) {
        Page::Raw(bytes) => stream.write_all(&bytes).await.ok()?,
        Page::Endless(head, bytes) => {
            stream.write_all(head.as_bytes()).await.ok()?;
            while stream.write_all(&bytes).await.is_ok() {}
        }
        // Ends when the client disconnects.
        Page::Hanging => {
            stream.read_u8().await.ok()?;
        }
    }
    stream.shutdown().await.ok()
}
