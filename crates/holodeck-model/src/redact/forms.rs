//! The forms in which a secret appears in texts.

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};

use super::{names::names_a_secret, shapes};

/// Shorter lines of a secret of several lines are too common to be recognised by themselves.
const MIN_LINE: usize = 20;

/// How deeply JSON is looked for in strings of JSON.
const NESTED: usize = 3;

/// The secrets inside a secret: the password of a connection string or URL, the credentials after the scheme of an
/// `Authorization` header, the lines of a private key. With `secret` itself.
pub(super) fn parts(secret: &str) -> Vec<String> {
    let secret = secret.trim();
    let mut parts = vec![secret.to_owned()];
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
    parts.extend(of_urls(secret));
    let lines = secret.lines().map(str::trim);
    if secret.contains('\n') {
        parts.extend(lines.filter(|line| line.len() >= MIN_LINE).map(str::to_owned));
    }
    parts
}

/// The passwords of URLs in a text, and the values of query parameters that name a secret.
pub(super) fn of_urls(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for url in shapes::urls(text) {
        let secrets = shapes::url_secrets(url);
        if let Some(user) = secrets.userinfo.and_then(|range| url.get(range)) {
            let password = user.split_once(':').map_or(user, |(_, password)| password);
            found.extend([password.to_owned(), percent_decoded(password)]);
        }
        for (name, value) in secrets.query {
            if let (Some(name), Some(value)) = (url.get(name), url.get(value))
                && names_a_secret(name)
            {
                found.extend([value.to_owned(), percent_decoded(value)]);
            }
        }
    }
    found
}

/// How a secret is written in plain text, JSON and URLs.
pub(super) fn written(secret: &str) -> Vec<String> {
    let mut forms = vec![secret.to_owned()];
    // JSON in JSON in JSON, as in the arguments of a call whose arguments are JSON; each may be the one that is written
    // as ASCII.
    let mut nested = vec![secret.to_owned()];
    for _ in 0..NESTED {
        nested = nested.iter().map(|text| json_escaped(text)).collect();
        nested.extend(nested.first().map(|json| ascii_escaped(json)));
        forms.extend(nested.iter().cloned());
    }
    let json = json_escaped(secret);
    forms.push(json.replace('/', "\\/"));
    forms.push(
        json.replace('&', "\\u0026")
            .replace('<', "\\u003c")
            .replace('>', "\\u003e"),
    );
    // What a program leaves unescaped in a URL differs: the strict form, paths, `encodeURIComponent`, forms.
    for keep in ["-_.~", "-_.~/", "-_.!~*'()", "-_.*"] {
        let strict = percent_encoded(secret, keep);
        for form in [strict.replace("%20", "+"), strict] {
            forms.push(lower_hex(&form));
            forms.push(form);
        }
    }
    forms.sort_unstable();
    forms.dedup();
    forms
}

/// The characters that every Base64 text has that encodes something with the secret in it: three, by the secret's
/// place in it, in two alphabets.
pub(super) fn base64(secret: &str) -> Vec<String> {
    let mut forms = Vec::new();
    for before in 0..3_usize {
        let mut bytes = vec![0; before];
        bytes.extend_from_slice(secret.as_bytes());
        // Characters that also encode a part of a neighbour differ.
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

fn json_escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.unwrap_or_default().to_owned()
}

/// As JSON writers do that give ASCII only.
fn ascii_escaped(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii() {
            escaped.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                escaped.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    escaped
}

fn percent_encoded(text: &str, keep: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        let c = char::from(byte);
        if c.is_ascii_alphanumeric() || keep.contains(c) {
            encoded.push(c);
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
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

fn percent_decoded(text: &str) -> String {
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
    fn b09_a_secret_is_found_wherever_it_is_in_a_base64_text() {
        let secret = "hunter2/horse+ä";
        for before in ["", "a", "ab", "abc", "user:"] {
            for after in ["", "z", "zz"] {
                let text = format!("{before}{secret}{after}");
                for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
                    let encoded = engine.encode(&text);
                    let forms = base64(secret);
                    assert!(forms.iter().any(|form| encoded.contains(form.as_str())), "{text}");
                }
            }
        }
    }

    #[test]
    fn b09_secrets_inside_secrets_are_found() {
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
    }

    #[test]
    fn b09_forms_are_those_of_json_and_urls() {
        let forms = written("a\"b/ä c");
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
