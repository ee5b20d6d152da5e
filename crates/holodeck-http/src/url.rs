//! URLs that hide their user name, password, query and fragment when they are shown.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use reqwest::Url;

/// A text that is not a usable `http(s)` URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid URL `{url}`: {reason}")]
#[non_exhaustive]
pub struct InvalidUrl {
    /// The text without secrets.
    pub url: String,
    /// The reason.
    pub reason: String,
}

/// An `http` or `https` URL whose text form leaves out user name, password, query and fragment.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct HttpUrl(Arc<Url>);

impl HttpUrl {
    /// Parses an absolute `http` or `https` URL.
    pub fn parse(text: &str) -> Result<Self, InvalidUrl> {
        let invalid = |reason: String| InvalidUrl {
            url: without_secrets(text),
            reason,
        };
        let url = Url::parse(text.trim()).map_err(|error| invalid(error.to_string()))?;
        match url.scheme() {
            "http" | "https" => Ok(Self(Arc::new(url))),
            other => Err(invalid(format!("scheme `{other}` is neither http nor https"))),
        }
    }

    /// Host name or address.
    pub fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default()
    }

    /// Path, beginning with a slash.
    pub fn path(&self) -> &str {
        self.0.path()
    }

    /// The same URL with `segments` (slashes separate them) appended to its path, the query kept.
    pub fn join(&self, segments: &str) -> Self {
        let mut url = Url::clone(&self.0);
        let path = format!(
            "{}/{}",
            url.path().trim_end_matches('/'),
            segments.trim_start_matches('/')
        );
        url.set_path(&path);
        Self(Arc::new(url))
    }

    /// The same URL with another path.
    pub fn with_path(&self, path: &str) -> Self {
        let mut url = Url::clone(&self.0);
        url.set_path(path);
        Self(Arc::new(url))
    }

    /// The same server at another path, with one more query pair unless it has one of that name.
    pub fn at(&self, path: &str, query: Option<(&str, &str)>) -> Self {
        let url = self.with_path(path);
        query.map_or_else(|| url.clone(), |(name, value)| url.with_query(name, value))
    }

    /// The target of a `Location` header of this URL.
    pub fn redirected(&self, location: &str) -> Result<Self, InvalidUrl> {
        let url = self.0.join(location.trim()).map_err(|error| InvalidUrl {
            url: without_secrets(location),
            reason: error.to_string(),
        })?;
        Self::parse(url.as_str())
    }

    /// The complete URL with secrets: must not be shown.
    pub fn exposed(&self) -> &str {
        self.0.as_str()
    }

    /// Whether the connection is encrypted.
    pub fn is_https(&self) -> bool {
        self.0.scheme() == "https"
    }

    /// Resolves a `reference` in an answer from here: a path, or a whole URL.
    pub fn resolve(&self, reference: &str) -> Result<Self, InvalidUrl> {
        let resolved = self.0.join(reference).map_err(|error| InvalidUrl {
            url: without_secrets(reference),
            reason: error.to_string(),
        })?;
        Self::parse(resolved.as_str())
    }

    /// The same URL without path, query and fragment.
    pub fn origin(&self) -> Self {
        let mut url = Url::clone(&self.0);
        url.set_path("");
        url.set_query(None);
        url.set_fragment(None);
        Self(Arc::new(url))
    }

    /// The same URL with one more query pair, unless it has one of that name.
    pub fn with_query(&self, name: &str, value: &str) -> Self {
        let mut url = Url::clone(&self.0);
        if url.query_pairs().all(|(known, _)| known != name) {
            url.query_pairs_mut().append_pair(name, value);
        }
        Self(Arc::new(url))
    }

    /// Whether the host is this machine by name or address.
    pub fn is_loopback(&self) -> bool {
        match self.0.host_str() {
            Some("localhost") => true,
            Some(host) => host
                .trim_start_matches('[')
                .trim_end_matches(']')
                .parse::<std::net::IpAddr>()
                .is_ok_and(|address| address.is_loopback()),
            None => false,
        }
    }

    pub(crate) fn as_url(&self) -> &Url {
        &self.0
    }

    /// The texts that an answer must not repeat: the password and the query's values.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = String> {
        let password = self.0.password().map(str::to_owned);
        password
            .into_iter()
            .chain(self.0.query_pairs().map(|(_, value)| value.into_owned()))
    }
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.0.scheme(), self.host())?;
        if let Some(port) = self.0.port() {
            write!(f, ":{port}")?;
        }
        f.write_str(self.0.path())
    }
}

impl fmt::Debug for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HttpUrl({self})")
    }
}

impl FromStr for HttpUrl {
    type Err = InvalidUrl;

    fn from_str(text: &str) -> Result<Self, InvalidUrl> {
        Self::parse(text)
    }
}

/// Removes possible secrets from text that is not a valid URL.
fn without_secrets(text: &str) -> String {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    match text.rsplit_once('@') {
        Some((before, host)) => match before.split_once("://") {
            Some((scheme, _)) => format!("{scheme}://{host}"),
            None => host.to_owned(),
        },
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_and_debug_leave_secrets_out() {
        let url = HttpUrl::parse("https://me:hush@api.test:8443/v1/chat?key=s3cret#frag").unwrap();
        assert_eq!(url.to_string(), "https://api.test:8443/v1/chat");
        assert_eq!(format!("{url:?}"), "HttpUrl(https://api.test:8443/v1/chat)");
        assert_eq!(url.secrets().collect::<Vec<_>>(), ["hush", "s3cret"]);
    }

    #[test]
    fn an_invalid_url_is_named_without_its_secrets() {
        for text in [
            "ftp://me:hush@host/x?key=hush",
            "http://me:hush@:80:80/?k=hush",
            "me:hush@host",
        ] {
            let error = HttpUrl::parse(text).unwrap_err();
            assert!(!error.to_string().contains("hush"), "{error}");
            assert!(!format!("{error:?}").contains("hush"), "{error:?}");
        }
    }

    #[test]
    fn join_keeps_path_and_query() {
        let url = HttpUrl::parse("http://localhost:1/base/?v=1").unwrap();
        assert_eq!(
            url.join("/chat/completions").as_url().as_str(),
            "http://localhost:1/base/chat/completions?v=1"
        );
        assert_eq!(
            HttpUrl::parse("http://h").unwrap().join("v1").to_string(),
            "http://h/v1"
        );
    }

    #[test]
    fn another_path_keeps_the_query_and_a_pair_is_added_once() {
        for (text, expected) in [
            ("http://h/v1?k=1", "http://h/a%20b?k=1&v=2"),
            ("http://h?v=1", "http://h/a%20b?v=1"),
            ("http://h/", "http://h/a%20b?v=2"),
        ] {
            let url = HttpUrl::parse(text).unwrap().at("/a b", Some(("v", "2")));
            assert_eq!(url.as_url().as_str(), expected);
        }
        assert_eq!(
            HttpUrl::parse("http://h/x").unwrap().at("/y", None).exposed(),
            "http://h/y"
        );
    }

    #[test]
    fn references_are_relative_to_their_document() {
        let url = HttpUrl::parse("http://localhost:1/base/sse?v=1").unwrap();
        for (reference, expected) in [
            ("/messages?id=2", "http://localhost:1/messages?id=2"),
            ("messages", "http://localhost:1/base/messages"),
            ("https://else.where/x", "https://else.where/x"),
        ] {
            let resolved = url.resolve(reference).unwrap();
            assert_eq!(resolved.as_url().as_str(), expected);
            assert_eq!(resolved.origin() == url.origin(), !reference.contains("else"));
        }
        assert!(url.resolve("file:///etc/hostname").is_err());
    }

    #[test]
    fn loopback_is_recognised() {
        for (text, expected) in [
            ("http://localhost:1", true),
            ("http://127.0.0.2", true),
            ("http://[::1]:8080/x", true),
            ("http://10.0.0.1", false),
            ("https://localhost.example.com", false),
        ] {
            assert_eq!(HttpUrl::parse(text).unwrap().is_loopback(), expected, "{text}");
        }
    }
}
