//! Recognises secrets by their shape: well-known keys, credentials in URLs and `Authorization` headers.

use std::{ops::Range, sync::LazyLock};

use aho_corasick::AhoCorasick;
use regex::Regex;

use super::names::names_a_secret;

/// Shorter values are words.
const MIN_VALUE: usize = 8;

/// Every text with a key contains one of these; searching for them costs less than searching for the shapes.
const KEY_TRIGGERS: [&str; 17] = [
    "sk-",
    "k_live_",
    "k_test_",
    "AKIA",
    "ASIA",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xox",
    "AIza",
    "hf_",
    "eyJ",
    "-----BEGIN",
];

/// As [`KEY_TRIGGERS`], for the other shapes: of URLs, of headers and of tokens.
const URL_TRIGGERS: [&str; 2] = [":/", ":\\/"];
const HEADER_TRIGGERS: [&str; 1] = ["uthorization"];
const TOKEN_TRIGGERS: [&str; 1] = ["earer"];

static TRIGGER_SEARCH: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let all = KEY_TRIGGERS.iter().chain(&URL_TRIGGERS);
    let all = all.chain(&HEADER_TRIGGERS).chain(&TOKEN_TRIGGERS);
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .build(all)
        .ok()
});

/// The shapes that a text may have.
#[derive(Default)]
struct Possible {
    key: bool,
    url: bool,
    header: bool,
    token: bool,
}

impl Possible {
    fn of(text: &str) -> Self {
        let mut possible = Self::default();
        let Some(triggers) = TRIGGER_SEARCH.as_ref() else {
            return possible;
        };
        for found in triggers.find_overlapping_iter(text) {
            let mut number = found.pattern().as_usize();
            for (count, shape) in [
                (KEY_TRIGGERS.len(), &mut possible.key),
                (URL_TRIGGERS.len(), &mut possible.url),
                (HEADER_TRIGGERS.len(), &mut possible.header),
                (TOKEN_TRIGGERS.len(), &mut possible.token),
            ] {
                if number < count {
                    *shape = true;
                    break;
                }
                number -= count;
            }
        }
        possible
    }
}

/// Keys of OpenAI, Anthropic and similar services, Stripe, AWS, GitHub, GitLab, Slack, Google, Hugging Face; JSON web
/// tokens; private keys.
static KEYS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    compile(
        r"(?xs)
          \bsk-[A-Za-z0-9_-]{20,}
        | \b[srp]k_(?:live|test)_[A-Za-z0-9]{16,}
        | \bA[KS]IA[0-9A-Z]{16}\b
        | \bgh[pousr]_[A-Za-z0-9]{30,}
        | \bgithub_pat_[A-Za-z0-9_]{30,}
        | \bglpat-[A-Za-z0-9_-]{20,}
        | \bxox[abeoprs]-[A-Za-z0-9-]{10,}
        | \bAIza[0-9A-Za-z_-]{35}
        | \bhf_[A-Za-z0-9]{30,}
        | \beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}
        | -----BEGIN\ [A-Z\ ]*PRIVATE\ KEY-----.*?(?:-----END\ [A-Z\ ]*PRIVATE\ KEY-----|\z)",
    )
});

/// The value of an `Authorization` header, however the header is quoted.
static AUTHORIZATION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    compile(
        r#"(?xi)
          authorization [\\"']* \s* [:=] \s* [\\"']*
          (?: (?<scheme> basic | bearer | digest | token | apikey | negotiate ) \s+ )?
          (?<value> [^\s"',;\\]{8,} )"#,
    )
});

static BEARER: LazyLock<Option<Regex>> =
    LazyLock::new(|| compile(r"(?i)\bbearer\s+(?<value>[A-Za-z0-9._~+/=-]{16,})"));

static URL: LazyLock<Option<Regex>> =
    LazyLock::new(|| compile(r#"[A-Za-z][A-Za-z0-9+.-]*:(?:\\?/){2}[^\s"'<>`\\]+"#));

/// `name=value`, `name: value`, `"name": "value"`.
static ASSIGNMENT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    compile(r#"(?<name>[A-Za-z_][A-Za-z0-9_.-]*)[\\"']*\s*[:=]\s*[\\"']*(?<value>[^\s"',;&\\]+)"#)
});

/// All expressions above are valid; a test compiles them.
fn compile(expression: &str) -> Option<Regex> {
    Regex::new(expression).ok()
}

/// Adds the places where `text` has the shape of a secret.
pub(super) fn find(text: &str, found: &mut Vec<Range<usize>>) {
    // Each expression is compiled when a text first needs it: an address needs one of the four.
    let possible = Possible::of(text);
    if let Some(keys) = possible.key.then(|| KEYS.as_ref()).flatten() {
        found.extend(keys.find_iter(text).map(|key| key.range()));
    }
    let headers = possible.header.then(|| AUTHORIZATION.as_ref()).flatten();
    for header in headers.into_iter().flat_map(|regex| regex.captures_iter(text)) {
        // Without a scheme it may be prose.
        if let Some(value) = header.name("value")
            && (header.name("scheme").is_some() || has_digit(value.as_str()))
        {
            found.push(value.range());
        }
    }
    let tokens = possible.token.then(|| BEARER.as_ref()).flatten();
    for header in tokens.into_iter().flat_map(|regex| regex.captures_iter(text)) {
        found.extend(
            header
                .name("value")
                .filter(|value| has_digit(value.as_str()))
                .map(|value| value.range()),
        );
    }
    if possible.url {
        let is_secret = |name: &str, value: &str| value.len() >= MIN_VALUE && names_a_secret(name);
        url_ranges(text, is_secret, found);
    }
}

/// Adds the places of credentials and all query values of URLs in `text`.
pub fn find_in_configured_urls(text: &str, found: &mut Vec<Range<usize>>) {
    if text.contains("://") {
        url_ranges(text, |_, _| true, found);
    }
}

fn url_ranges(text: &str, is_secret: impl Fn(&str, &str) -> bool, found: &mut Vec<Range<usize>>) {
    for matched in URL.iter().flat_map(|regex| regex.find_iter(text)) {
        let (start, url) = (matched.start(), matched.as_str());
        let secrets = url_secrets(url);
        let at = |range: Range<usize>| start + range.start..start + range.end;
        found.extend(secrets.userinfo.map(at));
        for (name, value) in secrets.query {
            let text = |range: &Range<usize>| url.get(range.clone()).unwrap_or_default();
            if is_secret(text(&name), text(&value)) {
                found.push(at(value));
            }
        }
    }
}

/// The URLs in a text.
pub(super) fn urls(text: &str) -> impl Iterator<Item = &str> {
    URL.iter()
        .flat_map(|regex| regex.find_iter(text))
        .map(|url| url.as_str())
}

/// The places in a URL that may contain secrets.
pub(super) struct UrlSecrets {
    /// Before the `@` of the host.
    pub(super) userinfo: Option<Range<usize>>,
    /// Name and value of each parameter of the query and the fragment. A parameter without a name is a value.
    pub(super) query: Vec<(Range<usize>, Range<usize>)>,
}

pub(super) fn url_secrets(url: &str) -> UrlSecrets {
    let start = url.find('/').map_or(0, |slash| slash + 1);
    let start = start
        + url
            .get(start..)
            .and_then(|rest| rest.find('/'))
            .map_or(0, |slash| slash + 1);
    let rest = url.get(start..).unwrap_or_default();
    let mut end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, port) = rest
        .get(..end)
        .and_then(|host| host.rsplit_once(':'))
        .unwrap_or_default();
    if !host.is_empty() && !host.contains('@') && !port.contains('@') && port.parse::<u16>().is_err() {
        // This is not a port but the beginning of a password with a `/`, `?` or `#` that should have been escaped.
        end = rest.find('@').map_or(end, |at| at + 1);
    }
    let userinfo = rest.get(..end).and_then(|authority| authority.rfind('@'));
    let userinfo = userinfo.map(|at| start..start + at);
    let mut query = Vec::new();
    let first = rest
        .get(end..)
        .and_then(|path| path.find(['?', '#']))
        .map(|at| start + end + at + 1);
    let mut at = first.unwrap_or(url.len());
    while let Some(pair) = url.get(at..).filter(|rest| !rest.is_empty()) {
        let length = pair.find(['&', ';', '#', '?']).unwrap_or(pair.len());
        let name = pair.get(..length).and_then(|pair| pair.find('='));
        query.push(match name {
            Some(name) => (at..at + name, at + name + 1..at + length),
            None => (at..at, at..at + length),
        });
        at += length + 1;
    }
    UrlSecrets { userinfo, query }
}

/// The places of values in a text whose names indicate a secret.
pub fn assignments(text: &str) -> Vec<Range<usize>> {
    let pairs = ASSIGNMENT.iter().flat_map(|regex| regex.captures_iter(text));
    let secrets = pairs.filter_map(|pair| {
        let (name, value) = (pair.name("name")?, pair.name("value")?);
        names_a_secret(name.as_str()).then(|| value.range())
    });
    secrets.collect()
}

/// The places of secrets in the arguments of a program: `--api-key VALUE`, `--api-key=VALUE`, `TOKEN=VALUE`, a header.
pub fn arguments(arguments: &[&str]) -> Vec<Vec<Range<usize>>> {
    let mut after_flag = false;
    let mut found = Vec::with_capacity(arguments.len());
    for argument in arguments {
        let is_flag = argument.starts_with('-');
        found.push(if after_flag && !is_flag {
            std::iter::once(0..argument.len()).collect()
        } else {
            assignments(argument)
        });
        after_flag = is_flag && !argument.contains('=') && names_a_secret(argument);
    }
    found
}

fn has_digit(text: &str) -> bool {
    text.contains(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn find_shapes(text: &str) -> Vec<&str> {
        let mut found = Vec::new();
        find(text, &mut found);
        found.into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn the_expressions_compile() {
        assert!(TRIGGER_SEARCH.is_some());
        for regex in [&KEYS, &AUTHORIZATION, &BEARER, &URL, &ASSIGNMENT] {
            assert!(regex.is_some());
        }
    }

    #[test]
    fn credentials_are_found_by_their_shape() {
        let none: [&str; 0] = [];
        assert_eq!(
            find_shapes("curl -H 'Authorization: Bearer abc.def-123'"),
            ["abc.def-123"]
        );
        assert_eq!(
            find_shapes(r#"{\"authorization\": \"Basic dXNlcjpw\"}"#),
            ["dXNlcjpw"]
        );
        assert_eq!(find_shapes("the Authorization: required field"), none);
        assert_eq!(find_shapes("Bearer authentication is explained here"), none);
        assert_eq!(
            find_shapes("with Bearer 0123456789abcdef0 ok"),
            ["0123456789abcdef0"]
        );
        assert_eq!(
            find_shapes("see https://me:pw@host/a?b=c&api_key=12345678#x"),
            ["me:pw", "12345678"]
        );
        assert_eq!(find_shapes("postgres://me:p/w?x@host:5432/db"), ["me:p/w?x"]);
        assert_eq!(find_shapes("https://host/@scope/pkg@1.0?token=short"), none);
        assert_eq!(find_shapes(r"https:\/\/me:pw@host\/"), ["me:pw"]);
        assert_eq!(
            find_shapes("a skill, a task-list, 12:30, https://host:80/x?y=z"),
            none
        );
    }

    #[test]
    fn every_query_value_of_a_configured_url_is_found() {
        let url = "https://host/v1?deployment=blue&x=&bare#y=1";
        let mut found = Vec::new();
        find_in_configured_urls(url, &mut found);
        let found: Vec<_> = found.into_iter().map(|range| &url[range]).collect();
        assert_eq!(found, ["blue", "", "bare", "1"]);
    }

    #[test]
    fn secrets_in_arguments_are_found_by_their_names() {
        let line = [
            "run",
            "--api-key",
            "abc",
            "--token=def",
            "-e",
            "DB_PWD=ghi",
            "-H",
            "X-Api-Key: jkl",
            "--key",
            "-v",
        ];
        let found = arguments(&line);
        let found: Vec<&str> = line
            .iter()
            .zip(&found)
            .flat_map(|(argument, ranges)| ranges.iter().map(|range| &argument[range.clone()]))
            .collect();
        assert_eq!(found, ["abc", "def", "ghi", "jkl"]);
    }
}
