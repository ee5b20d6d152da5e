//! Finds what must not be in an image: secrets that are known here, and texts with the shape of a key.
//!
//! It shows no secret: a finding is a place and a kind.

use std::{fmt, ops::Range, path::Path};

use holodeck_model::{Env, Redactor, redact::assignments, variable_secrets};
use holodeck_yaml::LoadedAgent;
use secrecy::ExposeSecret as _;

use crate::agent::secrets::secrets;

/// Names of files that hold keys.
const NAMES: [&str; 12] = [
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".dockercfg",
    "credentials",
    "credentials.json",
    "application_default_credentials.json",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
];

/// Ends of such names.
const EXTENSIONS: [&str; 8] = ["pem", "key", "p12", "pfx", "jks", "keystore", "kdbx", "ppk"];

/// Folders of programs that keep keys in them.
const FOLDERS: [&str; 7] = [".ssh", ".aws", ".azure", ".gnupg", ".kube", ".docker", ".git"];

/// Whether a file is one with variables, which no person can allow.
pub(super) fn is_env_file(name: &Path) -> bool {
    let file = name
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .to_lowercase();
    file.starts_with(".env") || Path::new(&file).extension().is_some_and(|end| end == "env")
}

/// Whether a file is one of those that hold keys, by its name.
pub(super) fn is_key_file(name: &Path) -> bool {
    let parts: Vec<String> = name
        .iter()
        .map(|part| part.to_string_lossy().to_lowercase())
        .collect();
    let Some((file, folders)) = parts.split_last() else {
        return false;
    };
    let extension = file.rsplit_once('.').map_or("", |(_, extension)| extension);
    is_env_file(name)
        || NAMES.contains(&file.as_str())
        || EXTENSIONS.contains(&extension)
        || file.starts_with("service-account") && extension == "json"
        || folders.iter().any(|folder| FOLDERS.contains(&folder.as_str()))
}

/// Why a place in a file is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// The value of a secret that HoloDeck reads here.
    Known,
    /// A key that is written in the YAML.
    Literal,
    /// A text with the shape of a key.
    Shape,
}

impl Finding {
    /// Whether a person may say that it is none.
    pub(super) fn can_be_allowed(self) -> bool {
        self != Self::Known
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Known => "a secret of this machine",
            Self::Literal => "a key that is written in the file",
            Self::Shape => "a text with the shape of a key",
        })
    }
}

/// A place that must not be in an image.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SecretPlace {
    /// The file, as it is named in the agent's folder.
    pub file: String,
    /// Line, counted from 1.
    pub line: usize,
    /// Column in characters, counted from 1.
    pub column: usize,
    /// The kind.
    pub finding: Finding,
}

impl fmt::Display for SecretPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.finding)
    }
}

/// Finds secrets in files.
pub(super) struct Guard {
    /// All of them, in every encoding, and everything with the shape of a key.
    all: Redactor,
    shapes: Redactor,
    /// The secrets that are read here.
    known: Vec<String>,
    /// The secrets that the YAML files hold, also short ones.
    written: Vec<String>,
}

impl Guard {
    /// Knows what the agents read as secrets, and every variable that holds one.
    pub(super) fn new<'a>(agents: impl IntoIterator<Item = &'a LoadedAgent>, env: &Env) -> Self {
        let of_variables = env.iter().flat_map(|(name, value)| variable_secrets(name, value));
        let mut known: Vec<String> = of_variables.collect();
        let mut written = Vec::new();
        for agent in agents {
            // A value of the YAML that no variable has is written there.
            let in_files: Vec<String> = agent
                .secrets
                .iter()
                .map(|secret| secret.expose_secret().to_owned())
                .filter(|secret| !env.iter().any(|(_, value)| value.contains(secret.as_str())))
                .collect();
            let read = secrets(agent, env).into_iter();
            known.extend(read.filter(|secret| !in_files.contains(secret)));
            written.extend(in_files);
        }
        known.retain(|secret| !secret.trim().is_empty());
        written.retain(|secret| !secret.trim().is_empty());
        Self {
            all: Redactor::new(known.iter().chain(&written).cloned()),
            shapes: Redactor::default(),
            known,
            written,
        }
    }

    /// The first place of each kind in a file. `is_yaml`: one of the files that were read to load the agent.
    pub(super) fn find(&self, name: &str, bytes: &[u8], is_yaml: bool) -> Vec<SecretPlace> {
        let text = text_of(bytes);
        let part = |range: &Range<usize>| text.get(range.clone()).unwrap_or_default();
        let shapes = self.shapes.find(&text);
        let mut places: Vec<(usize, Finding)> = Vec::new();
        for range in self.all.find(&text) {
            let has = |secrets: &[String]| {
                secrets
                    .iter()
                    .any(|secret| part(&range).contains(secret.as_str()))
            };
            let finding = if has(&self.known) {
                Finding::Known
            } else if has(&self.written) {
                Finding::Literal
            } else if shapes.contains(&range) {
                Finding::Shape
            } else {
                // In another encoding.
                Finding::Known
            };
            places.push((range.start, finding));
        }
        if is_yaml {
            let values = assignments(&text).into_iter();
            let written = values.filter(|value| {
                // The end of a flow mapping or list.
                let value = part(value).trim_end_matches(['}', ']']);
                self.written.iter().any(|secret| secret == value)
            });
            places.extend(written.map(|value| (value.start, Finding::Literal)));
        }
        let mut found: Vec<SecretPlace> = Vec::new();
        for (at, finding) in places {
            if !found.iter().any(|known| known.finding == finding) {
                found.push(place(name, &text, at, finding));
            }
        }
        found
    }
}

/// The text of a file of any kind: what is not text cannot match.
fn text_of(bytes: &[u8]) -> String {
    let wide = |read: fn([u8; 2]) -> u16| {
        let units = bytes.chunks_exact(2).map(|pair| match pair {
            [first, second] => read([*first, *second]),
            _ => 0,
        });
        String::from_utf16_lossy(&units.collect::<Vec<_>>())
    };
    let text = match bytes {
        [0xFF, 0xFE, ..] => wide(u16::from_le_bytes),
        [0xFE, 0xFF, ..] => wide(u16::from_be_bytes),
        _ => String::from_utf8_lossy(bytes).into_owned(),
    };
    match text.strip_prefix('\u{FEFF}') {
        Some(rest) => rest.to_owned(),
        None => text,
    }
}

fn place(file: &str, text: &str, at: usize, finding: Finding) -> SecretPlace {
    let before = text.get(..at).unwrap_or_default();
    let line = before.rsplit('\n').next().unwrap_or_default();
    SecretPlace {
        file: file.to_owned(),
        line: before.matches('\n').count() + 1,
        column: line.chars().count() + 1,
        finding,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_hold_keys_are_known_by_their_names() {
        for name in [
            ".env",
            "docs/.env",
            "docs/.env.production",
            "prod.env",
            "a/ID_RSA",
            "tls.pem",
            "deep/.ssh/config",
            ".aws/x.txt",
            "service-account-7.json",
            "credentials.json",
        ] {
            assert!(is_key_file(Path::new(name)), "{name}");
        }
        for name in [
            "env",
            "environment.md",
            "keys.md",
            "pem/readme.md",
            "credentials.md",
        ] {
            assert!(!is_key_file(Path::new(name)), "{name}");
        }
    }

    #[test]
    fn a_secret_is_found_in_every_encoding_with_its_place() {
        let env: Env = [("DESK_TOKEN", "hunter2-hunter2")].into_iter().collect();
        let guard = Guard::new([], &env);
        let text = "first\n  use hunter2-hunter2 here\n";
        let wide: Vec<u8> = [0xFF, 0xFE]
            .into_iter()
            .chain(text.encode_utf16().flat_map(u16::to_le_bytes))
            .collect();
        for bytes in [
            text.as_bytes().to_vec(),
            wide,
            [b"\x00\xFF", text.as_bytes()].concat(),
        ] {
            let found = guard.find("notes.bin", &bytes, false);
            let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
            assert_eq!(shown, ["notes.bin:2:7: a secret of this machine"]);
        }
        assert_eq!(guard.find("notes.md", b"hunter", false), []);
    }

    #[test]
    fn a_known_secret_with_the_shape_of_a_key_cannot_be_allowed() {
        let key = "sk-aaaaaaaaaaaaaaaaaaaaaaaaaaaa";
        let env: Env = [("OTHER_KEY", key)].into_iter().collect();
        let find = |env: &Env| {
            let found = Guard::new([], env).find("a", key.as_bytes(), false);
            found.iter().map(|place| place.finding).collect::<Vec<_>>()
        };
        assert_eq!(find(&Env::empty()), [Finding::Shape]);
        assert_eq!(find(&env), [Finding::Known]);
    }
}
