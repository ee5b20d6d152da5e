//! The identity of test cases: which cases of two files are the same case.
//!
//! Resume, regrade, `--failed`, recordings and comparisons all use this definition. A case is identified by what it
//! asks (inputs, turns and the content of their files), by its name if that is unique, and by its ordinal among cases
//! that are equal in both. The expectations of a case are not part of its identity.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use sha2::{Digest as _, Sha256};

use crate::{Cases, FileInput, Files, SimulatedUser, TestCase, identity::sorted_text};

/// Identifies a test case within its file and across edits of the file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CaseId([u8; 16]);

/// Identifies what a case asks: its inputs, its turns and the content of their files.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CaseContent([u8; 16]);

/// A unit of work: one case in one trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct UnitKey {
    /// The case.
    pub case: CaseId,
    /// Which repetition of it, from 0.
    pub trial: u32,
}

impl UnitKey {
    /// The identity of content that is judged outside of a run.
    pub const NO_CASE: Self = Self {
        case: CaseId([0; 16]),
        trial: 0,
    };
}

/// Between the name of a case in a recording and the number of a trial after the first.
const TRIAL_MARK: &str = " · trial ";

/// The name of a trial, from 0, in a recording: the first has the name of its case.
pub fn recorded_trial_name(case: String, trial: u32) -> String {
    match trial {
        0 => case,
        later => format!("{case}{TRIAL_MARK}{}", u64::from(later) + 1),
    }
}

/// The name of the case of a unit in a recording, without the number of a trial.
pub fn trial_case_name(unit: &str) -> &str {
    unit.split_once(TRIAL_MARK).map_or(unit, |(case, _)| case)
}

/// Whether a unit of a recording belongs to a trial after the first. Only its own answers may answer it: those of
/// another trial would make all trials equal.
pub fn is_later_trial(unit: &str) -> bool {
    let mut ends = unit.split(TRIAL_MARK).skip(1);
    ends.any(|end| end.starts_with(|c: char| c.is_ascii_digit()))
}

/// An opinion of a judge beside others on the same answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "recordings know all of them")]
pub enum Opinion {
    /// That of one judge of a jury.
    Judge,
    /// A repeated judgement.
    Repeat,
    /// A sampled score.
    Sample,
    /// That of one of several metrics with the same name.
    Metric,
}

impl Opinion {
    const ALL: [Self; 4] = [Self::Judge, Self::Repeat, Self::Sample, Self::Metric];

    fn start(self) -> &'static str {
        match self {
            Self::Judge => " · judge ",
            Self::Repeat => " · repeat ",
            Self::Sample => ", sample ",
            Self::Metric => " · metric ",
        }
    }

    /// The name of an opinion, from 1, in a recording.
    pub fn mark(self, number: u32) -> String {
        format!("{}{number}", self.start())
    }
}

/// The mark of the units of a run without the quality loop, which a recording never mixes with those of one with it.
const WITHOUT_LOOP_MARK: &str = " · without loop";

/// The name of a case in a recording of a run without the quality loop.
pub fn recorded_without_loop(case: String) -> String {
    case + WITHOUT_LOOP_MARK
}

/// Whether a unit of a recording belongs to a run without the quality loop, to a trial, or to an opinion of a judge, after the first. Only its own answers
/// may answer it, and they answer nothing else: one answer for several would make all of them equal.
pub fn is_repeated_unit(unit: &str) -> bool {
    let later = |opinion: Opinion| {
        let mut ends = unit.split(opinion.start()).skip(1);
        ends.any(|end| {
            let digits = end.split(|c: char| !c.is_ascii_digit()).next();
            digits.is_some_and(|digits| !digits.is_empty() && digits != "1")
        })
    };
    unit.contains(WITHOUT_LOOP_MARK) || is_later_trial(unit) || Opinion::ALL.into_iter().any(later)
}

/// The identity of a case, and of what it asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CaseIdentity {
    /// The case.
    pub id: CaseId,
    /// The content of the case.
    pub content: CaseContent,
}

/// The identities of the cases of a file, in their order. Reads the files that the cases name; unreadable files count
/// as equal content.
pub fn identify_cases(cases: &Cases, files: &dyn Files) -> Vec<CaseIdentity> {
    let mut digests = FileDigests {
        files,
        known: HashMap::new(),
    };
    let repeated = cases.repeated_names();
    let mut equals: HashMap<CaseContent, u64> = HashMap::new();
    cases
        .iter()
        .map(|case| {
            let content = content_of(&case, &mut digests);
            let name = case.name.as_deref().filter(|name| !repeated.contains(name));
            let mut ordinal = 0;
            if name.is_none() {
                let count = equals.entry(content).or_default();
                ordinal = *count;
                *count += 1;
            }
            let mut parts = Parts::new("case");
            parts.optional(name.map(str::as_bytes));
            parts.add(&content.0);
            parts.add(&ordinal.to_be_bytes());
            CaseIdentity {
                id: CaseId(parts.finish()),
                content,
            }
        })
        .collect()
}

/// The index in `earlier` of each case of `today`. Cases match by identity; a renamed case matches only if its content
/// is unique on both sides. A case with the same name but other content does not match.
pub fn match_cases(earlier: &[CaseIdentity], today: &[CaseIdentity]) -> Vec<Option<usize>> {
    let places: HashMap<CaseId, usize> = earlier
        .iter()
        .enumerate()
        .map(|(place, identity)| (identity.id, place))
        .collect();
    let (before, now) = (unique_contents(earlier), unique_contents(today));
    let renamed = |identity: &CaseIdentity| {
        let place = before.get(&identity.content).copied().flatten();
        place.filter(|_| now.get(&identity.content).copied().flatten().is_some())
    };
    today
        .iter()
        .map(|identity| places.get(&identity.id).copied().or_else(|| renamed(identity)))
        .collect()
}

/// The index of each content, if only one case has it.
fn unique_contents(identities: &[CaseIdentity]) -> HashMap<CaseContent, Option<usize>> {
    let mut places = HashMap::new();
    for (place, identity) in identities.iter().enumerate() {
        places
            .entry(identity.content)
            .and_modify(|unique| *unique = None)
            .or_insert(Some(place));
    }
    places
}

fn content_of(case: &TestCase, digests: &mut FileDigests<'_>) -> CaseContent {
    let mut parts = Parts::new("content");
    parts.optional(case.input.as_deref().map(str::as_bytes));
    add_files(&mut parts, &case.files, digests);
    parts.count(case.turns.len());
    for turn in &case.turns {
        parts.add(turn.input.as_bytes());
        add_files(&mut parts, &turn.files, digests);
    }
    if let Some(user) = &case.user {
        add_user(&mut parts, user);
    }
    add_commands(&mut parts, case);
    add_earlier(&mut parts, case);
    CaseContent(parts.finish())
}

/// The conversation before the questions, and the values that requests contain beside them; nothing without them.
fn add_earlier(parts: &mut Parts, case: &TestCase) {
    if !case.messages.is_empty() {
        parts.add(b"messages");
        parts.count(case.messages.len());
        for message in &case.messages {
            parts.add(message.role.as_str().as_bytes());
            parts.add(message.content.as_bytes());
        }
    }
    let mut sent: Vec<_> = case.sent_values().collect();
    sent.sort_unstable_by_key(|(name, _)| *name);
    for (name, value) in sent {
        parts.add(b"var");
        parts.add(name.as_bytes());
        parts.add(sorted_text(value).as_bytes());
    }
}

/// The commands that the questions are, with their places; nothing for plain messages.
fn add_commands(parts: &mut Parts, case: &TestCase) {
    let turns = case.turns.iter().map(|turn| turn.command.as_deref());
    let commands = std::iter::once(case.command.as_deref()).chain(turns).enumerate();
    for (place, command) in commands {
        if let Some(command) = command {
            parts.add(b"command");
            parts.count(place);
            parts.add(command.trim().to_lowercase().as_bytes());
        }
    }
}

/// The task of a simulated user. How its conversation must end is an expectation, and its model may move.
fn add_user(parts: &mut Parts, user: &SimulatedUser) {
    parts.add(b"user");
    parts.add(user.goal.as_bytes());
    parts.optional(user.persona.as_deref().map(str::as_bytes));
    parts.add(&user.max_turns.to_be_bytes());
    let model = user.model.as_ref();
    parts.optional(model.map(|model| model.provider.as_str().as_bytes()));
    parts.optional(model.map(|model| model.name.as_bytes()));
    // A check that was read from YAML can always be written as JSON.
    let stop = user
        .stop_when
        .as_ref()
        .map(|check| serde_json::to_vec(check).unwrap_or_default());
    parts.optional(stop.as_deref());
}

fn add_files(parts: &mut Parts, files: &[FileInput], digests: &mut FileDigests<'_>) {
    parts.count(files.len());
    for file in files {
        match (&file.path, &file.url) {
            (Some(path), _) => parts.file(digests.of(path.path())),
            (None, Some(url)) => match local_path(url) {
                Some(path) => parts.file(digests.of(PathBuf::from(path))),
                None => parts.add(public_url(url).as_bytes()),
            },
            (None, None) => parts.optional(None),
        }
        // The part of the file that is sent.
        parts.optional(file.description.as_deref().map(str::as_bytes));
        parts.count(file.pages.len());
        for page in &file.pages {
            parts.add(&page.to_be_bytes());
        }
        parts.optional(file.sheet.as_deref().map(str::as_bytes));
        parts.optional(file.range.as_deref().map(str::as_bytes));
    }
}

/// The path of a `url` that names a local file.
fn local_path(url: &str) -> Option<&str> {
    let url = url.trim();
    match url.split_once("://") {
        None => Some(url),
        Some((scheme, path)) if scheme.eq_ignore_ascii_case("file") => Some(path),
        Some(_) => None,
    }
}

/// A URL without user information and without the parameters of a signature: both change while the file stays the same.
fn public_url(url: &str) -> String {
    let (scheme, rest) = url.trim().split_once("://").unwrap_or(("", url));
    let rest = rest.split('#').next().unwrap_or_default();
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (host, path) = place.find('/').map_or((place, ""), |slash| place.split_at(slash));
    let host = host.rsplit('@').next().unwrap_or_default();
    let parameters: Vec<&str> = query.split('&').filter(|part| !part.is_empty()).collect();
    let name = |part: &str| part.split('=').next().unwrap_or_default().to_ascii_lowercase();
    let signed_by = |signature: &str| parameters.iter().any(|part| name(part) == signature);
    let (azure, classic) = (signed_by("sig"), signed_by("signature"));
    let unsigned = parameters.iter().filter(|part| {
        let name = name(part);
        let signature = name.starts_with("x-amz-")
            || name.starts_with("x-goog-")
            || azure && AZURE_SIGNATURE.contains(&name.as_str())
            || classic && CLASSIC_SIGNATURE.contains(&name.as_str());
        !signature
    });
    let unsigned: Vec<&str> = unsigned.copied().collect();
    format!(
        "{}://{}{path}?{}",
        scheme.to_ascii_lowercase(),
        host.to_ascii_lowercase(),
        unsigned.join("&")
    )
}

/// The parameters of an Azure shared access signature; only together with `sig`.
const AZURE_SIGNATURE: &[&str] = &[
    "sig", "sv", "ss", "srt", "sp", "st", "se", "spr", "sr", "si", "sip", "skoid", "sktid", "skt", "ske",
    "sks", "skv",
];

/// The parameters of signatures of S3 (version 2), Google Cloud and CloudFront; only together with `Signature`.
const CLASSIC_SIGNATURE: &[&str] = &[
    "signature",
    "expires",
    "awsaccesskeyid",
    "googleaccessid",
    "key-pair-id",
    "policy",
];

/// Digests of files, each read once.
struct FileDigests<'a> {
    files: &'a dyn Files,
    known: HashMap<PathBuf, Option<[u8; 32]>>,
}

impl FileDigests<'_> {
    fn of(&mut self, path: PathBuf) -> Option<[u8; 32]> {
        let files = self.files;
        *self
            .known
            .entry(path)
            .or_insert_with_key(|path: &PathBuf| files.digest(Path::new(path)).ok())
    }
}

/// A hash over parts with their lengths, so that different parts never give the same input.
struct Parts(Sha256);

impl Parts {
    fn new(kind: &str) -> Self {
        let mut parts = Self(Sha256::new());
        parts.add(kind.as_bytes());
        parts
    }

    fn add(&mut self, part: &[u8]) {
        self.count(part.len());
        self.0.update(part);
    }

    fn optional(&mut self, part: Option<&[u8]>) {
        self.0.update([u8::from(part.is_some())]);
        if let Some(part) = part {
            self.add(part);
        }
    }

    fn file(&mut self, digest: Option<[u8; 32]>) {
        self.optional(digest.as_ref().map(<[u8; 32]>::as_slice));
    }

    fn count(&mut self, count: usize) {
        self.0.update((count as u64).to_be_bytes());
    }

    fn finish(self) -> [u8; 16] {
        let mut beginning = [0; 16];
        for (to, from) in beginning.iter_mut().zip(self.0.finalize()) {
            *to = from;
        }
        beginning
    }
}

/// The indexes of cases that share a name or, without a name, their content.
pub fn equal_cases(cases: &Cases, identities: &[CaseIdentity]) -> Vec<Vec<usize>> {
    let repeated = cases.repeated_names();
    let mut groups: BTreeMap<(Option<&str>, Option<CaseContent>), Vec<usize>> = BTreeMap::new();
    for (place, identity) in identities.iter().enumerate() {
        let key = match cases.name(place) {
            Some(name) if repeated.contains(name) => (Some(name), None),
            Some(_) => continue,
            None => (None, Some(identity.content)),
        };
        groups.entry(key).or_default().push(place);
    }
    groups.into_values().filter(|places| places.len() > 1).collect()
}

macro_rules! hexadecimal {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&$crate::hex(&self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }

        impl FromStr for $name {
            type Err = $crate::InvalidCaseId;

            fn from_str(text: &str) -> Result<Self, $crate::InvalidCaseId> {
                $crate::case::parse_hexadecimal(text).map(Self).ok_or($crate::InvalidCaseId)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&$crate::hex(&self.0))
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(D::Error::custom)
            }
        }
    )*};
}

pub(crate) use hexadecimal;

hexadecimal!(CaseId, CaseContent);

/// The text is not the identity of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected 32 hexadecimal digits")]
pub struct InvalidCaseId;

pub(crate) fn parse_hexadecimal(text: &str) -> Option<[u8; 16]> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    };
    let digits: &[u8; 32] = text.as_bytes().try_into().ok()?;
    let mut bytes = [0; 16];
    for (byte, [high, low]) in bytes.iter_mut().zip(digits.as_chunks().0) {
        *byte = value(*high)? << 4 | value(*low)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests;
