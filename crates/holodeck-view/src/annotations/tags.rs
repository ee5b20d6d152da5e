//! The tags that people give to runs, in the file of annotations.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::Path,
};

use holodeck_model::{ReportHead, hex_prefix};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{VERSION, append_line, read};

/// A line about a run: a tag that it has from here on, or has no longer.
#[derive(Serialize, Deserialize)]
pub(super) struct TagLine {
    #[serde(rename = "annotation")]
    version: u32,
    at: String,
    run: String,
    /// The identity of the run that the person saw.
    identity: String,
    tag: String,
    is_set: bool,
}

/// The tags of each run, by its id and its identity.
#[derive(Debug, Default)]
pub(super) struct RunTags(BTreeMap<(String, String), BTreeSet<String>>);

/// Characters of a tag.
const MAX_TAG: usize = 40;

/// Tags of a run.
const MAX_TAGS: usize = 20;

impl RunTags {
    /// Whether the line is one.
    pub(super) fn add(&mut self, line: TagLine) -> bool {
        if line.version != VERSION || check_tag(&line.tag).is_err() {
            return false;
        }
        let tags = self.0.entry((line.run, line.identity)).or_default();
        if line.is_set {
            tags.insert(line.tag);
        } else {
            tags.remove(&line.tag);
        }
        true
    }

    pub(super) fn of(&self, run: &str, identity: &str) -> Vec<String> {
        let tags = self.0.get(&(run.to_owned(), identity.to_owned()));
        tags.into_iter().flatten().cloned().collect()
    }
}

/// Why a text cannot be a tag.
pub(crate) fn check_tag(tag: &str) -> Result<(), String> {
    let is_allowed = |c: char| c.is_alphanumeric() || "-_.:/".contains(c);
    if tag.is_empty() {
        return Err("a tag has at least one character".to_owned());
    }
    if tag.chars().count() > MAX_TAG {
        return Err(format!("a tag has at most {MAX_TAG} characters"));
    }
    if !tag.chars().all(is_allowed) {
        return Err("a tag has letters, digits and `-_.:/` only".to_owned());
    }
    Ok(())
}

/// A digest of the parts of a run that never change, also while a command is writing it: another run with the same id has
/// not its tags.
pub(crate) fn run_identity(head: &ReportHead) -> String {
    let parts = (&head.run_id, &head.timestamp, &head.agent_name, &head.agent_parts);
    let parts = serde_json::to_vec(&parts).unwrap_or_default();
    hex_prefix(&Sha256::digest(parts), 16)
}

/// Gives the tag to the run of this journal, or takes it away. Nothing is written if that changes nothing.
pub(crate) fn set_tag(journal: &Path, head: &ReportHead, tag: &str, is_set: bool) -> io::Result<()> {
    let identity = run_identity(head);
    let now = read(journal).tags_of(&head.run_id, &identity);
    if is_set == now.iter().any(|own| own == tag) {
        return Ok(());
    }
    if is_set && now.len() >= MAX_TAGS {
        return Err(io::Error::other(format!("a run has at most {MAX_TAGS} tags")));
    }
    append_line(
        journal,
        &TagLine {
            version: VERSION,
            at: holodeck_reports::format::now(),
            run: head.run_id.clone(),
            identity,
            tag: tag.to_owned(),
            is_set,
        },
    )
}
