//! Settings of a client: sizes, proxies, certificates, and the addresses that it may connect to.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;

use crate::Reach;

/// How a client connects and what it accepts.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// Longest wait for a connection, TLS included.
    pub connect_timeout: Duration,
    /// Largest body of a 2xx answer.
    pub max_response_bytes: u64,
    /// Largest single server-sent event.
    pub max_event_bytes: usize,
    /// Idle connections kept per host.
    pub max_idle_per_host: usize,
    /// PEM file with further trusted certificates.
    pub ca_bundle: Option<PathBuf>,
    /// Proxies.
    pub proxy: ProxyOptions,
    /// The `User-Agent` sent.
    pub user_agent: String,
    /// Which addresses may be connected to.
    pub reach: Reach,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            max_response_bytes: 16 * 1024 * 1024,
            max_event_bytes: 4 * 1024 * 1024,
            max_idle_per_host: 256,
            ca_bundle: None,
            proxy: ProxyOptions::default(),
            user_agent: concat!("holodeck/", env!("CARGO_PKG_VERSION")).to_owned(),
            reach: Reach::default(),
        }
    }
}

impl HttpOptions {
    /// The defaults with CA bundle and proxies from the usual variables (`SSL_CERT_FILE`, `HTTPS_PROXY`, …),
    /// read through `lookup`.
    pub fn from_variables(lookup: impl Fn(&str) -> Option<String>) -> Self {
        Self {
            ca_bundle: lookup("SSL_CERT_FILE")
                .filter(|path| !path.is_empty())
                .map(PathBuf::from),
            proxy: ProxyOptions::from_variables(lookup),
            ..Self::default()
        }
    }
}

/// Proxies for the two schemes. URLs are secret because they may hold a password.
#[derive(Clone, Debug, Default)]
pub struct ProxyOptions {
    /// Proxy for `http://` targets.
    pub http: Option<SecretString>,
    /// Proxy for `https://` targets.
    pub https: Option<SecretString>,
    /// Hosts, domains, addresses and CIDR ranges reached directly, comma-separated; `*` is all.
    pub no_proxy: Option<String>,
    /// Whether this machine is reached through the proxy.
    pub loopback: LoopbackProxy,
}

impl ProxyOptions {
    /// Reads the usual variables through `lookup`: `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`, in capitals
    /// or not.
    pub fn from_variables(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let read = |name: &str| {
            lookup(name)
                .or_else(|| lookup(&name.to_ascii_lowercase()))
                .filter(|value| !value.trim().is_empty())
        };
        let all = read("ALL_PROXY");
        Self {
            http: read("HTTP_PROXY").or_else(|| all.clone()).map(Into::into),
            https: read("HTTPS_PROXY").or(all).map(Into::into),
            no_proxy: read("NO_PROXY"),
            loopback: LoopbackProxy::default(),
        }
    }
}

/// How `localhost`, `127.0.0.0/8` and `::1` are reached if there is a proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoopbackProxy {
    /// Directly, regardless of `NO_PROXY`.
    #[default]
    Bypass,
    /// Like any other host.
    Use,
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn the_usual_variables_are_read_through_the_lookup() {
        let options = HttpOptions::from_variables(|name| match name {
            "https_proxy" => Some("http://me:hush@proxy:3128".to_owned()),
            "ALL_PROXY" => Some("http://all:1".to_owned()),
            "NO_PROXY" => Some(" ".to_owned()),
            "SSL_CERT_FILE" => Some("/ca.pem".to_owned()),
            _ => None,
        });
        assert_eq!(
            options.proxy.https.as_ref().unwrap().expose_secret(),
            "http://me:hush@proxy:3128"
        );
        assert_eq!(
            options.proxy.http.as_ref().unwrap().expose_secret(),
            "http://all:1"
        );
        assert_eq!(options.proxy.no_proxy, None);
        assert_eq!(options.ca_bundle, Some(PathBuf::from("/ca.pem")));
        assert!(!format!("{options:?}").contains("hush"));
    }
}
