//! Connections that a server switches from HTTP to another protocol, such as WebSocket: with the TLS, the proxies and the
//! limits of every other request.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use reqwest::header::HeaderMap;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::exchange::sent;
use crate::transport::classify;
use crate::{Exchange, Headers, HttpClient, HttpError, HttpUrl};

/// The answer to a request to switch protocols.
#[derive(Debug)]
pub enum Upgrade {
    /// The server has switched.
    Switched(Upgraded),
    /// Any other answer.
    Refused(Exchange),
}

/// A connection that no longer carries HTTP.
pub struct Upgraded {
    headers: HeaderMap,
    io: reqwest::Upgraded,
}

impl HttpClient {
    /// Asks to switch to another protocol by HTTP/1.1; `headers` say to which.
    pub fn upgrade<'a>(
        &'a self,
        url: &'a HttpUrl,
        headers: &'a Headers,
    ) -> BoxFuture<'a, Result<Upgrade, HttpError>> {
        Box::pin(self.upgrade_unboxed(url, headers))
    }

    async fn upgrade_unboxed(&self, url: &HttpUrl, headers: &Headers) -> Result<Upgrade, HttpError> {
        let client = self.0.connections.over_http1(url)?;
        let request = client.get(url.as_url().clone()).headers(headers.map().clone());
        let mut response = sent(request, url).await?;
        if response.status().as_u16() != 101 {
            return Ok(Upgrade::Refused(self.exchanged(response, url, headers)));
        }
        let headers = std::mem::take(response.headers_mut());
        let io = response.upgrade().await.map_err(|error| classify(error, url))?;
        Ok(Upgrade::Switched(Upgraded { headers, io }))
    }
}

impl Upgraded {
    /// A header of the answer.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

impl AsyncRead for Upgraded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, to)
    }
}

impl AsyncWrite for Upgraded {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

impl fmt::Debug for Upgraded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Upgraded")
    }
}
