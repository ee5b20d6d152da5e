//! The forms in which a secret appears in texts.

use std::fmt::Write as _;

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};

use super::{names::names_a_secret, shapes};

/// Shorter lines of a multi-line secret are too common to be masked alone.
const MIN_LINE: usize = 20;

/// How many levels of JSON in JSON strings are recognised.
const MAX_NESTING: usize = 3;

/// The secret itself and the secrets inside it: the password of a connection string or URL, the credentials after the
/// scheme of an `Authorization` header, the lines of a private key.
pub(super) fn parts(secret: &str) -> Vec<String> {
    let secret = secret.trim();
    let mut parts = Vec::new();
    // The address of a server is not a secret; its credentials are, and a path such as that of a webhook may be.
    if !is_address(secret) {
        parts.push(secret.to_owned());
    }
    if let Some((scheme, credentials)) = secret.split_once(' ') {
        let credentials = credentials.trim();
        match scheme.to_ascii_lowercase().as_str() {
            "bearer" | "token" | "apikey" => parts.push(credentials.to_owned()),
            "basic" => {
                parts.push(credentials.to_owned());
                let pair = STANDARD.decode(credentials).ok();
                let pair = pair.and_then(|pair| String::from_utf8(pair).ok());
                parts.extend(pair.and_then(|pair| Some(pair.split_once(':')?.1.to_owned())));
            }
            _ => {}
        }
    }
    for range in shapes::assignments(secret) {
        parts.extend(secret.get(range).map(str::to_owned));
    }
    parts.extend(find_url_secrets(secret));
    let lines = secret.lines().map(str::trim);
    if secret.contains('\n') {
        parts.extend(lines.filter(|line| line.len() >= MIN_LINE).map(str::to_owned));
    }
    parts
}

/// A path segment of at least this length may be a key.
const MIN_SEGMENT: usize = 16;

fn is_address(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else {
        return false;
    };
    let path = rest.split(['?', '#']).next().unwrap_or_default();
    let has_scheme = !scheme.is_empty()
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+.-".contains(c));
    has_scheme && path.split('/').skip(1).all(|segment| segment.len() < MIN_SEGMENT)
}

/// The passwords of URLs in a text, and the values of query parameters that name a secret.
pub fn find_url_secrets(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for url in shapes::urls(text) {
        let secrets = shapes::url_secrets(url);
        if let Some(user) = secrets.userinfo.and_then(|range| url.get(range)) {
            let password = user.split_once(':').map_or(user, |(_, password)| password);
            found.extend([password.to_owned(), percent_decode(password)]);
        }
        for (name, value) in secrets.query {
            if let (Some(name), Some(value)) = (url.get(name), url.get(value))
                && names_a_secret(name)
            {
                found.extend([value.to_owned(), percent_decode(value)]);
            }
        }
    }
    found
}

/// How a secret is written in plain text, JSON and URLs.
pub(super) fn text_forms(secret: &str) -> Vec<String> {
    let mut forms = vec![secret.to_owned()];
    // JSON in JSON, as in the arguments of a call whose arguments are JSON; each level may be the one that is written
    // as ASCII.
    let mut nested = vec![secret.to_owned()];
    for _ in 0..MAX_NESTING {
        nested = nested.iter().map(|text| escape_json(text)).collect();
        nested.extend(nested.first().map(|json| escape_non_ascii(json)));
        forms.extend(nested.iter().cloned());
    }
    let json = escape_json(secret);
    forms.push(json.replace('/', "\\/"));
    forms.push(
        json.replace('&', "\\u0026")
            .replace('<', "\\u003c")
            .replace('>', "\\u003e"),
    );
    // Programs leave different characters unescaped in a URL: the strict form, paths, `encodeURIComponent`, forms.
    for keep in ["-_.~", "-_.~/", "-_.!~*'()", "-_.*"] {
        let strict = percent_encode(secret, keep);
        for form in [strict.replace("%20", "+"), strict] {
            forms.push(lower_hex(&form));
            forms.push(form);
        }
    }
    forms.sort_unstable();
    forms.dedup();
    forms
}

/// The characters that every Base64 text of something with the secret in it contains: three variants, by the secret's
/// offset, in two alphabets.
pub(super) fn base64_forms(secret: &str) -> Vec<String> {
    let mut forms = Vec::new();
    for before in 0..3_usize {
        let mut bytes = vec![0; before];
        bytes.extend_from_slice(secret.as_bytes());
        // Omits the characters that also encode a part of a neighbouring byte.
        let first = (before * 8).div_ceil(6);
        let last = bytes.len() * 8 / 6;
        for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
            let encoded = engine.encode(&bytes);
            forms.extend(encoded.get(first..last).map(str::to_owned));
        }
    }
    forms.sort_unstable();
    forms.dedup();
    forms
}

fn escape_json(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.unwrap_or_default().to_owned()
}

/// Escapes like a JSON writer that writes only ASCII.
fn escape_non_ascii(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii() {
            escaped.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        }
    }
    escaped
}

fn percent_encode(text: &str, keep: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        let c = char::from(byte);
        if c.is_ascii_alphanumeric() || keep.contains(c) {
            encoded.push(c);
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// `%2F` as `%2f`.
fn lower_hex(encoded: &str) -> String {
    let mut parts = encoded.split('%');
    let mut lower = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (hex, rest) = part.split_at_checked(2).unwrap_or((part, ""));
        lower.push('%');
        lower.push_str(&hex.to_ascii_lowercase());
        lower.push_str(rest);
    }
    lower
}

fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        bytes.extend_from_slice(before.as_bytes());
        let byte = after.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        if let Some(byte) = byte {
            bytes.push(byte);
            rest = after.get(2..).unwrap_or_default();
        } else {
            bytes.push(b'%');
            rest = after;
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_found_wherever_it_is_in_a_base64_text() {
        let secret = "hunter2/horse+ä";
        for before in ["", "a", "ab", "abc", "user:"] {
            for after in ["", "z", "zz"] {
                let text = format!("{before}{secret}{after}");
                for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
                    let encoded = engine.encode(&text);
                    let forms = base64_forms(secret);
                    assert!(forms.iter().any(|form| encoded.contains(form.as_str())), "{text}");
                }
            }
        }
    }

    #[test]
    fn secrets_inside_secrets_are_found() {
        let has = |secret: &str, part: &str| {
            let parts = parts(secret);
            assert!(parts.iter().any(|found| found == part), "{part} in {parts:?}");
        };
        has("Bearer abcdefgh", "abcdefgh");
        has("Basic dXNlcjpodW50ZXIyaG9yc2U=", "hunter2horse");
        has("Server=db;User=me;Password=hunter2horse;", "hunter2horse");
        has(
            "postgres://me:hunter%32horse@db/x?sslmode=require",
            "hunter2horse",
        );
        has("https://x.test/f.csv?v=1&sig=abc%2Fdefghi", "abc/defghi");
        has(
            "https://hooks.test/T0/B0/0123456789abcdef",
            "https://hooks.test/T0/B0/0123456789abcdef",
        );
        assert_eq!(parts("http://localhost:8000/db"), [""; 0]);
    }

    #[test]
    fn the_forms_of_json_and_urls_are_covered() {
        let forms = text_forms("a\"b/ä c");
        for form in [
            "a\"b/ä c",
            "a\\\"b/ä c",
            "a\\\"b\\/ä c",
            "a\\\"b/\\u00e4 c",
            "a%22b%2F%C3%A4%20c",
            "a%22b%2f%c3%a4%20c",
            "a%22b/%C3%A4%20c",
            "a%22b%2F%C3%A4+c",
        ] {
            assert!(forms.iter().any(|found| found == form), "{form} in {forms:?}");
        }
    }
}
