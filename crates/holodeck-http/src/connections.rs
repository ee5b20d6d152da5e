//! Connection pools with and without TLS, built on first use from the options for proxies and certificates.

use std::fmt;
use std::sync::OnceLock;

use reqwest::{Client, ClientBuilder, NoProxy, Proxy, redirect};
use rustls::ClientConfig;
use secrecy::{ExposeSecret, SecretString};

use crate::reach::PublicResolver;
use crate::{HttpError, HttpOptions, HttpUrl, LoopbackProxy, ProxyOptions, Reach, SetupError, tls};

type Pool = OnceLock<Result<Client, String>>;

/// Pools that use only HTTP/2, opened on first use.
#[derive(Debug, Default)]
struct Http2 {
    plain: Pool,
    secure: Pool,
}

/// Where a client's connections come from. A trait object, which is fast to compile (see `ARCHITECTURE.md`).
pub(crate) trait Pools: fmt::Debug + Send + Sync {
    /// The pool for a target.
    fn to(&self, url: &HttpUrl) -> Result<&Client, HttpError>;

    /// The pool for an HTTP/2-only target.
    fn over_http2(&self, url: &HttpUrl) -> Result<&Client, HttpError>;

    /// The pool for a target that is to switch to another protocol, which only HTTP/1.1 can.
    fn over_http1(&self, url: &HttpUrl) -> Result<&Client, HttpError>;
}

/// Connection pools with and without TLS. Reading the platform's certificates takes milliseconds, and a run against a
/// local endpoint does not need them.
#[derive(Debug)]
pub(crate) struct Connections {
    plain: Client,
    secure: Pool,
    http2: Http2,
    /// TLS that offers only HTTP/1.1; without TLS it is what a client uses anyway.
    http1: Pool,
    options: HttpOptions,
    bundle: tls::Bundle,
}

impl Connections {
    /// Checks all options at once; certificates of the platform are read on first use.
    pub(crate) fn new(options: &HttpOptions) -> Result<Self, SetupError> {
        let bundle = options
            .ca_bundle
            .as_deref()
            .map(tls::read_bundle)
            .transpose()?
            .unwrap_or_default();
        let proxies = proxies(&options.proxy)?;
        let plain = tls::unused().and_then(|tls| build(client(options, proxies, tls)));
        Ok(Self {
            plain: plain.map_err(|reason| SetupError::Client { reason })?,
            secure: OnceLock::new(),
            http2: Http2::default(),
            http1: OnceLock::new(),
            options: options.clone(),
            bundle,
        })
    }

    fn proxy_speaks_tls(&self) -> bool {
        let proxy = self.options.proxy.http.as_ref();
        proxy.is_some_and(|url| url.expose_secret().trim_start().starts_with("https:"))
    }
}

impl Pools for Connections {
    fn to(&self, url: &HttpUrl) -> Result<&Client, HttpError> {
        self.options.reach.check(url)?;
        if url.as_url().scheme() == "http" && !self.proxy_speaks_tls() {
            return Ok(&self.plain);
        }
        let secure = self.secure.get_or_init(|| {
            let proxies = proxies(&self.options.proxy).map_err(|error| error.to_string())?;
            build(client(&self.options, proxies, tls::trusting(&self.bundle)?))
        });
        opened(secure, url)
    }

    fn over_http2(&self, url: &HttpUrl) -> Result<&Client, HttpError> {
        self.options.reach.check(url)?;
        let plain = url.as_url().scheme() == "http" && !self.proxy_speaks_tls();
        let pool = if plain {
            &self.http2.plain
        } else {
            &self.http2.secure
        };
        let pool = pool.get_or_init(|| {
            let proxies = proxies(&self.options.proxy).map_err(|error| error.to_string())?;
            let mut tls = if plain {
                tls::unused()?
            } else {
                tls::trusting(&self.bundle)?
            };
            // A server without HTTP/2 then fails the handshake.
            tls.alpn_protocols = vec![b"h2".to_vec()];
            build(client(&self.options, proxies, tls).http2_prior_knowledge())
        });
        opened(pool, url)
    }

    fn over_http1(&self, url: &HttpUrl) -> Result<&Client, HttpError> {
        if url.as_url().scheme() == "http" {
            return self.to(url);
        }
        self.options.reach.check(url)?;
        let pool = self.http1.get_or_init(|| {
            let proxies = proxies(&self.options.proxy).map_err(|error| error.to_string())?;
            let mut tls = tls::trusting(&self.bundle)?;
            tls.alpn_protocols = vec![b"http/1.1".to_vec()];
            build(client(&self.options, proxies, tls).http1_only())
        });
        opened(pool, url)
    }
}

fn opened<'a>(pool: &'a Result<Client, String>, url: &HttpUrl) -> Result<&'a Client, HttpError> {
    pool.as_ref().map_err(|reason| HttpError::Request {
        url: url.clone(),
        reason: reason.clone(),
    })
}

fn build(client: ClientBuilder) -> Result<Client, String> {
    client.build().map_err(|error| error.without_url().to_string())
}

fn client(options: &HttpOptions, proxies: Vec<Proxy>, tls: ClientConfig) -> ClientBuilder {
    #[expect(clippy::disallowed_methods, reason = "the one place that builds a client")]
    let mut builder = Client::builder()
        .tls_backend_preconfigured(tls)
        .connect_timeout(options.connect_timeout)
        .pool_max_idle_per_host(options.max_idle_per_host)
        .tcp_nodelay(true)
        .user_agent(options.user_agent.as_str())
        // A key must reach only the endpoint that the user named.
        .redirect(redirect::Policy::none())
        // Retries are the client's own.
        .retry(reqwest::retry::never())
        .no_proxy();
    if options.reach == Reach::Public {
        let proxies = proxy_hosts(&options.proxy);
        builder = builder.dns_resolver(PublicResolver { proxies });
    }
    for proxy in proxies {
        builder = builder.proxy(proxy);
    }
    builder
}

fn proxies(options: &ProxyOptions) -> Result<Vec<Proxy>, SetupError> {
    let mut direct = options.no_proxy.clone().unwrap_or_default();
    if options.loopback == LoopbackProxy::Bypass {
        direct.push_str(",localhost,127.0.0.0/8,::1");
    }
    let mut proxies = Vec::new();
    if let Some(url) = &options.http {
        proxies.push(Proxy::http(proxy_url(url, "HTTP_PROXY")?).map_err(|_error| unusable("HTTP_PROXY"))?);
    }
    if let Some(url) = &options.https {
        proxies.push(Proxy::https(proxy_url(url, "HTTPS_PROXY")?).map_err(|_error| unusable("HTTPS_PROXY"))?);
    }
    let direct = NoProxy::from_string(&direct);
    Ok(proxies
        .into_iter()
        .map(|proxy| proxy.no_proxy(direct.clone()))
        .collect())
}

/// Host names of the proxies, which may be in the local network.
fn proxy_hosts(options: &ProxyOptions) -> Vec<String> {
    let urls = options.http.iter().chain(&options.https);
    urls.filter_map(|url| Some(proxy_url(url, "proxy").ok()?.host_str()?.to_owned()))
        .collect()
}

/// A proxy's URL; the scheme defaults to `http://`.
fn proxy_url(url: &SecretString, setting: &'static str) -> Result<reqwest::Url, SetupError> {
    let text = url.expose_secret().trim();
    let text = if text.contains("://") {
        text.to_owned()
    } else {
        format!("http://{text}")
    };
    let url = HttpUrl::parse(&text).map_err(|_error| unusable(setting))?;
    Ok(url.as_url().clone())
}

fn unusable(setting: &'static str) -> SetupError {
    SetupError::Proxy { setting }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::classify;

    #[tokio::test]
    async fn a_name_is_refused_for_what_it_resolves_to() {
        let options = HttpOptions {
            reach: Reach::Public,
            ..HttpOptions::default()
        };
        let url = HttpUrl::parse("http://localhost:1/").unwrap();
        // Bypasses the check of the name itself.
        let connections = Connections::new(&options).unwrap();
        let error = connections
            .plain
            .get(url.as_url().clone())
            .send()
            .await
            .unwrap_err();
        let error = classify(error, &url);
        assert!(
            error
                .to_string()
                .ends_with("(`localhost`) is not a public address"),
            "{error}"
        );
        assert!(!error.retryable());
    }
}
