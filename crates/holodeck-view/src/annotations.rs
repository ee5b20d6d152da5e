//! The words of people about answers and runs: `.holodeck/annotations.jsonl` beside the runs, to which lines are only appended.

mod tags;

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use holodeck_model::{CaseId, hex_prefix};
use holodeck_reports::{AnswerLabel, StoredAnswer};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use self::tags::{RunTags, TagLine};
pub(crate) use self::tags::{check_tag, run_identity, set_tag};

/// A line about an answer.
#[derive(Serialize, Deserialize)]
struct Annotation {
    #[serde(rename = "annotation")]
    version: u32,
    at: String,
    run: String,
    case: CaseId,
    /// A digest of the answer that the person saw.
    answer: String,
    #[serde(flatten)]
    label: AnswerLabel,
}

/// A line of the file: its fields say its kind.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Answer(Annotation),
    Tag(TagLine),
}

const VERSION: u32 = 1;

/// Longer texts are refused.
const MAX_CHARS: usize = 4_000;

/// A longer line is not an annotation.
const MAX_LINE: u64 = 64 << 10;

/// The words in a file.
#[derive(Debug, Default)]
pub(crate) struct Annotations {
    /// The label of an answer, by the id of its run and the case; of several the last one, with the digest of its answer.
    labels: BTreeMap<(String, CaseId), (String, AnswerLabel)>,
    tags: RunTags,
    /// The numbers of the lines that are neither, and count for nothing.
    damaged: Vec<usize>,
    /// Why the file, which is there, cannot be read.
    unreadable: Option<String>,
}

/// The file of the runs in the folder of this journal.
fn file_of(journal: &Path) -> io::Result<PathBuf> {
    let folder = journal.parent().and_then(Path::parent);
    let folder = folder.ok_or(io::ErrorKind::NotFound)?;
    let path = folder.join("annotations.jsonl");
    match fs::symlink_metadata(&path) {
        Ok(metadata) if !metadata.is_file() => Err(io::Error::other("it is a link or not a file")),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(path),
    }
}

/// Every line of the file beside this journal.
pub(crate) fn read(journal: &Path) -> Annotations {
    let mut found = Annotations::default();
    let file = match file_of(journal).and_then(File::open) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return found,
        Err(error) => {
            found.unreadable = Some(holodeck_model::io_reason(&error));
            return found;
        }
    };
    let mut lines = BufReader::new(file);
    let mut line = Vec::new();
    let mut number = 1;
    loop {
        line.clear();
        match (&mut lines).take(MAX_LINE).read_until(b'\n', &mut line) {
            Ok(0) => return found,
            Ok(_) => {}
            Err(error) => {
                found.unreadable = Some(holodeck_model::io_reason(&error));
                return found;
            }
        }
        if !line.trim_ascii().is_empty() && !found.add(&line) && found.damaged.last() != Some(&number) {
            found.damaged.push(number);
        }
        // A line that is too long is read in parts.
        number += usize::from(line.ends_with(b"\n"));
    }
}

impl Annotations {
    /// Whether the line is one.
    fn add(&mut self, line: &[u8]) -> bool {
        match serde_json::from_slice(line) {
            Ok(Line::Answer(own)) if own.version == VERSION => {
                self.labels.insert((own.run, own.case), (own.answer, own.label));
                true
            }
            Ok(Line::Tag(own)) => self.tags.add(own),
            _ => false,
        }
    }

    /// The label of the answer of a case, if it is of the answer that is shown.
    pub(crate) fn label_of(&self, run: &str, case: CaseId, answer: &StoredAnswer) -> AnswerLabel {
        let label = self.labels.get(&(run.to_owned(), case));
        let label = label.filter(|(digest, _)| *digest == digest_of(answer));
        label.map(|(_, label)| label.clone()).unwrap_or_default()
    }

    /// The cases of a run whose answers have labels.
    pub(crate) fn labelled(&self, run: &str) -> impl Iterator<Item = CaseId> {
        let labels = self.labels.keys().filter(move |(id, _)| id == run);
        labels.map(|(_, case)| *case)
    }

    /// The tags of the run with this id and identity, by their names.
    pub(crate) fn tags_of(&self, run: &str, identity: &str) -> Vec<String> {
        self.tags.of(run, identity)
    }

    /// Why a part of the file counts for nothing; `file` is its name.
    pub(crate) fn problem(&self, file: &str) -> Option<String> {
        if let Some(why) = &self.unreadable {
            return Some(format!(
                "`{file}` cannot be read, so that tags and labels are missing: {why}"
            ));
        }
        let numbers: Vec<String> = self
            .damaged
            .iter()
            .take(MAX_NAMED)
            .map(usize::to_string)
            .collect();
        let more = if self.damaged.len() > MAX_NAMED {
            " and more"
        } else {
            ""
        };
        match self.damaged.len() {
            0 => None,
            1 => Some(format!(
                "line {} of `{file}` is damaged and counts for nothing",
                numbers.concat()
            )),
            _ => Some(format!(
                "lines {}{more} of `{file}` are damaged and count for nothing",
                numbers.join(", ")
            )),
        }
    }
}

/// The damaged lines that are named.
const MAX_NAMED: usize = 10;

/// Appends a label.
pub(crate) fn append(
    journal: &Path,
    run: &str,
    case: CaseId,
    answer: &StoredAnswer,
    label: AnswerLabel,
) -> io::Result<()> {
    let is_long = |text: &str| text.chars().count() > MAX_CHARS;
    if is_long(&label.comment) || is_long(&label.label) {
        return Err(io::Error::other(format!(
            "a text has more than {MAX_CHARS} characters"
        )));
    }
    if label.score.is_some_and(|score| !(0.0..=1.0).contains(&score)) {
        return Err(io::Error::other("a score is a number from 0 to 1"));
    }
    append_line(
        journal,
        &Annotation {
            version: VERSION,
            at: holodeck_reports::format::now(),
            run: run.to_owned(),
            case,
            answer: digest_of(answer),
            label,
        },
    )
}

fn append_line(journal: &Path, line: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_string(line)?;
    line.push('\n');
    let mut file = OpenOptions::new()
        .create(true)
        .read(true)
        .append(true)
        .mode(0o600)
        .open(file_of(journal)?)?;
    // Another view may append at the same time.
    file.lock()?;
    if file.metadata()?.len() > 0 {
        file.seek(SeekFrom::End(-1))?;
        let mut last = [0];
        file.read_exact(&mut last)?;
        // The end of a line that was cut.
        if last != [b'\n'] {
            line.insert(0, '\n');
        }
    }
    file.write_all(line.as_bytes())?;
    file.sync_data()
}

fn digest_of(answer: &StoredAnswer) -> String {
    hex_prefix(&Sha256::digest(&answer.response), 16)
}
