//! TLS for protocols other than HTTP, by the same decision about certificates.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
pub use tokio_rustls::client::TlsStream;

use crate::{SetupError, tls};

/// TLS for a protocol that is not HTTP: the server's certificate is always checked, its name too.
#[derive(Clone)]
pub struct Tls(TlsConnector);

impl Tls {
    /// Trusts the platform's certificates and those of the PEM file `ca_bundle`. `protocols` are offered in the
    /// handshake (ALPN); none at all if empty.
    pub fn new(ca_bundle: Option<&Path>, protocols: &[&str]) -> Result<Self, SetupError> {
        let bundle = ca_bundle.map(tls::read_bundle).transpose()?.unwrap_or_default();
        let mut config = tls::trusting(&bundle).map_err(|reason| SetupError::Client { reason })?;
        config.alpn_protocols = protocols
            .iter()
            .map(|protocol| protocol.as_bytes().to_vec())
            .collect();
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    /// Does the handshake with `host` over `stream`.
    pub async fn connect<S>(&self, host: &str, stream: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let name = ServerName::try_from(host.to_owned()).map_err(|_invalid| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("`{host}` is not a host name"),
            )
        })?;
        self.0.connect(name, stream).await
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}
