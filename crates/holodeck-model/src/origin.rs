//! Origins of web pages as `cors_origins` names them, and which pages an entry means. Resolves no names.

use std::net::{Ipv4Addr, Ipv6Addr};

/// An entry of `cors_origins`: the pages of one origin, or of those that a `*` includes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedOrigin(Pages);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pages {
    All,
    /// Pages without an origin of their own: files, and frames that any other page may open.
    WithoutOrigin,
    Of(Pattern),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    scheme: String,
    host: Host,
    port: Port,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    Named(String),
    /// Each name below this one.
    Below(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Port {
    /// The one that browsers leave out.
    Usual,
    Number(u16),
    Any,
}

impl AllowedOrigin {
    /// Reads an entry; an error says why no page can ever match it. A slash at the end, the usual port of the scheme and
    /// capital letters, none of which a browser sends, make no difference.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.trim().to_ascii_lowercase();
        match text.as_str() {
            "*" => return Ok(Self(Pages::All)),
            "null" => return Ok(Self(Pages::WithoutOrigin)),
            _ => {}
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err("it needs a scheme, as in `https://app.example.com`");
        };
        let fits = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
        if !scheme.starts_with(|c: char| c.is_ascii_alphabetic()) || !scheme.chars().all(fits) {
            return Err("its scheme is none; name one, as in `https://app.example.com`");
        }
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains(['/', '?', '#']) {
            return Err("an origin has no path; end it after the host and port");
        }
        if rest.contains('@') {
            return Err("an origin has no user; begin it with the host");
        }
        let (host, port) = split_port(rest);
        let pattern = Pattern {
            host: read_host(host)?,
            port: read_port(scheme, port)?,
            scheme: scheme.to_owned(),
        };
        Ok(Self(Pages::Of(pattern)))
    }

    /// Whether a page of this origin, as a browser names it, is meant.
    pub fn allows(&self, origin: &str) -> bool {
        match &self.0 {
            Pages::All => true,
            Pages::WithoutOrigin => origin == "null",
            Pages::Of(pattern) => {
                matches!(Self::parse(origin), Ok(Self(Pages::Of(page))) if pattern.matches(&page))
            }
        }
    }

    /// Whether any page of the web can be one that is meant.
    pub fn is_any_page(&self) -> bool {
        !matches!(self.0, Pages::Of(_))
    }
}

impl Pattern {
    fn matches(&self, page: &Self) -> bool {
        let Host::Named(name) = &page.host else {
            return false;
        };
        let is_host = match &self.host {
            Host::Named(own) => own == name,
            Host::Below(own) => name
                .strip_suffix(own.as_str())
                .and_then(|rest| rest.strip_suffix('.'))
                .is_some_and(|below| !below.is_empty()),
        };
        let is_port = match (self.port, page.port) {
            (_, Port::Any) => false,
            (Port::Any, _) => true,
            (own, other) => own == other,
        };
        self.scheme == page.scheme && is_host && is_port
    }
}

/// The host, and the port if there is one. The colons of an IPv6 address are within brackets.
fn split_port(rest: &str) -> (&str, Option<&str>) {
    let begin = rest.rfind(']').unwrap_or_default();
    match rest.get(begin..).and_then(|end| end.rfind(':')) {
        Some(at) => rest
            .split_at_checked(begin + at)
            .map_or((rest, None), |(host, port)| (host, port.strip_prefix(':'))),
        None => (rest, None),
    }
}

fn read_port(scheme: &str, port: Option<&str>) -> Result<Port, &'static str> {
    let usual = match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    };
    match port {
        None => Ok(Port::Usual),
        Some("*") => Ok(Port::Any),
        Some(digits) if digits.chars().all(|c| c.is_ascii_digit()) => match digits.parse() {
            Ok(port) if Some(port) == usual => Ok(Port::Usual),
            Ok(port) => Ok(Port::Number(port)),
            Err(_) => Err("its port is none; a port is a number up to 65535, or `*` for any"),
        },
        Some(_) => Err("its port is none; a port is a number up to 65535, or `*` for any"),
    }
}

fn read_host(host: &str) -> Result<Host, &'static str> {
    const FORM: &str = "its host is none; name one, as in `https://app.example.com`";
    if let Some(address) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let address: Ipv6Addr = address.parse().map_err(|_| FORM)?;
        return Ok(Host::Named(format!("[{address}]")));
    }
    let (below, name) = match host.strip_prefix("*.") {
        Some(name) => (true, name),
        None => (false, host),
    };
    if name.contains('*') {
        return Err(
            "a `*` replaces whole labels at the beginning, as in `https://*.example.com`, or the port",
        );
    }
    if !name.is_ascii() {
        return Err("browsers send the name in its ASCII form, which begins with `xn--`; write that");
    }
    let is_label = |label: &str| {
        !label.is_empty()
            && label
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
    };
    if !name.strip_suffix('.').unwrap_or(name).split('.').all(is_label) {
        return Err(FORM);
    }
    let is_number = |label: &str| label.chars().all(|c| c.is_ascii_digit());
    let ends_with_number = name.rsplit('.').next().is_some_and(is_number);
    if ends_with_number && (below || name.parse::<Ipv4Addr>().is_err()) {
        return Err("its host is a number, and no IPv4 address of four parts");
    }
    if !below {
        return Ok(Host::Named(name.to_owned()));
    }
    // The names below `com` belong to strangers; `localhost` is this machine's.
    if !name.contains('.') && name != "localhost" {
        return Err("`*` before a name of one label would allow the pages of strangers; name more of it");
    }
    Ok(Host::Below(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_means_the_pages_of_its_origin_however_it_is_written() {
        for (entry, origin, expected) in [
            ("http://localhost:5173", "http://localhost:5173", true),
            ("http://localhost:5173/", "http://localhost:5173", true),
            (" HTTP://LocalHost:5173 ", "http://localhost:5173", true),
            ("http://localhost:5173", "http://localhost:5174", false),
            ("http://localhost:5173", "https://localhost:5173", false),
            ("http://localhost:5173", "http://localhost", false),
            ("https://app.example.com:443", "https://app.example.com", true),
            ("https://app.example.com:0443/", "https://app.example.com", true),
            ("http://app.example.com:80", "http://app.example.com", true),
            ("http://app.example.com:443", "http://app.example.com", false),
            ("http://app.example.com:443", "http://app.example.com:443", true),
            ("http://localhost:*", "http://localhost:5173", true),
            ("http://localhost:*", "http://localhost", true),
            ("http://localhost:*", "http://localhost.evil.example", false),
            ("http://localhost:*", "https://localhost:5173", false),
            ("https://*.example.com", "https://a.example.com", true),
            ("https://*.example.com", "https://a.b.example.com", true),
            ("https://*.example.com", "https://example.com", false),
            ("https://*.example.com", "https://evilexample.com", false),
            ("https://*.example.com", "https://.example.com", false),
            (
                "https://*.example.com",
                "https://a.example.com.evil.example",
                false,
            ),
            ("https://*.example.com", "https://a.example.com:8443", false),
            ("https://*.example.com:*", "https://a.example.com:8443", true),
            ("http://[0:0:0:0:0:0:0:1]:5173", "http://[::1]:5173", true),
            ("http://[::1]", "http://[::1]", true),
            ("http://127.0.0.1:5173", "http://127.0.0.1:5173", true),
            ("chrome-extension://abcdef", "chrome-extension://abcdef", true),
            ("tauri://localhost", "tauri://localhost", true),
            ("*", "https://any.example", true),
            ("*", "null", true),
            ("null", "null", true),
            ("null", "https://null", false),
            // No browser sends these.
            ("https://*.example.com", "https://*.example.com", false),
            ("http://localhost:*", "http://localhost:*", false),
            ("http://localhost:5173", "http://localhost:5173/path", false),
        ] {
            let allowed = AllowedOrigin::parse(entry).unwrap();
            assert_eq!(allowed.allows(origin), expected, "{entry} {origin}");
        }
    }

    #[test]
    fn an_entry_that_no_page_can_match_is_refused() {
        for entry in [
            "",
            "localhost:5173",
            "app.example.com",
            "://app.example.com",
            "https://",
            "https:///",
            "https://app.example.com/path",
            "https://app.example.com//",
            "https://app.example.com?x",
            "https://app.example.com#x",
            "https://user@app.example.com",
            "https://app.example.com:",
            "https://app.example.com:99999",
            "https://app.example.com:+443",
            "https://app.example.com:http",
            "https://app.*.com",
            "https://a*.example.com",
            "https://*",
            "https://*.com",
            "https://*:443",
            "*.example.com",
            "https://a b.example.com",
            "https://bücher.example",
            "https://127.1",
            "https://*.0.0.1",
            "https://[::1",
            "https://[fe80::1%eth0]",
            "https://a..example.com",
            "https://a.example.com, https://b.example.com",
        ] {
            assert!(AllowedOrigin::parse(entry).is_err(), "{entry}");
        }
    }
}
