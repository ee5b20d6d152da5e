//! The cookies of one conversation with a service, each sent only to the host and scheme that set it.

use std::{collections::BTreeMap, fmt};

use holodeck_http::HttpUrl;

/// The cookies by host and name. Their values are not shown.
#[derive(Clone, Default)]
pub(crate) struct Cookies(BTreeMap<(String, bool, String), String>);

impl fmt::Debug for Cookies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cookies").field(&self.0.len()).finish()
    }
}

impl Cookies {
    /// Keeps what an answer from `url` sets.
    pub(crate) fn keep<'a>(&mut self, url: &HttpUrl, headers: impl Iterator<Item = &'a str>) {
        for header in headers {
            let mut fields = header.split(';');
            let Some((name, value)) = fields.next().and_then(|pair| pair.split_once('=')) else {
                continue;
            };
            let key = (url.origin().to_string(), url.is_https(), name.trim().to_owned());
            let mut attributes = fields.map(|field| field.trim().to_ascii_lowercase());
            let is_deleted = attributes.any(|field| {
                field
                    .strip_prefix("max-age=")
                    .is_some_and(|age| age.trim().parse::<i64>().is_ok_and(|age| age <= 0))
                    || field.starts_with("expires=thu, 01 jan 1970")
            });
            if is_deleted {
                self.0.remove(&key);
            } else {
                self.0.insert(key, value.trim().to_owned());
            }
        }
    }

    /// The header for a request to `url`; `None` without cookies.
    pub(crate) fn header(&self, url: &HttpUrl) -> Option<String> {
        let origin = url.origin().to_string();
        let own = self
            .0
            .iter()
            .filter(|((from, https, _), _)| *from == origin && *https == url.is_https());
        let pairs: Vec<String> = own
            .map(|((_, _, name), value)| format!("{name}={value}"))
            .collect();
        (!pairs.is_empty()).then(|| pairs.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_go_back_only_to_the_origin_that_set_them() {
        let url = |text| HttpUrl::parse(text).unwrap();
        let mut cookies = Cookies::default();
        cookies.keep(
            &url("http://127.0.0.1:81/a"),
            ["sid=1; Path=/; HttpOnly", "lang=de", "broken"].into_iter(),
        );
        assert_eq!(
            cookies.header(&url("http://127.0.0.1:81/b?c")).as_deref(),
            Some("lang=de; sid=1")
        );
        for other in [
            "http://127.0.0.1:82/a",
            "https://127.0.0.1:81/a",
            "http://localhost:81/a",
        ] {
            assert_eq!(cookies.header(&url(other)), None, "{other}");
        }
        cookies.keep(
            &url("http://127.0.0.1:81/a"),
            ["sid=; Max-Age=0", "lang=; Expires=Thu, 01 Jan 1970 00:00:00 GMT"].into_iter(),
        );
        assert_eq!(cookies.header(&url("http://127.0.0.1:81/a")), None);
        assert!(!format!("{cookies:?}").contains("sid"));
    }
}
