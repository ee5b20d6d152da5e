//! The shards of a run: reads their journals and checks that they belong together.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
};

use holodeck_model::{Combination, Shard};

use super::display;
use crate::{MergeError, RunError};
use holodeck_runs::{Journal, JournalError, JournalHeader, RunEndKind, RunFlags, StoredShard, changed_parts};

/// The journal of a shard.
pub(super) struct ShardJournal {
    pub(super) journal: Journal,
    pub(super) shard: Shard,
    pub(super) stored: StoredShard,
}

/// Every shard of a run, finished and in the order of their numbers.
pub(super) struct Shards {
    first: ShardJournal,
    others: Vec<ShardJournal>,
    /// Notices for the user, such as about a journal that was given twice.
    pub(super) notices: Vec<String>,
}

impl Shards {
    /// Opens all shards of a run.
    pub(super) fn open(paths: &[PathBuf]) -> Result<Self, RunError> {
        let mut by_number: BTreeMap<u32, ShardJournal> = BTreeMap::new();
        let mut notices = Vec::new();
        for path in paths {
            let shard = ShardJournal::open(path)?;
            if let Some((_, other)) = by_number.first_key_value() {
                other.check_same_run(&shard)?;
            }
            let Some(twin) = by_number.get(&shard.shard.index()) else {
                by_number.insert(shard.shard.index(), shard);
                continue;
            };
            let (first, second) = (twin.journal.path(), shard.journal.path());
            if !have_equal_content(first, second)? {
                return Err(MergeError::Twice {
                    shard: shard.shard,
                    first: display(first),
                    second: display(second),
                }
                .into());
            }
            notices.push(format!(
                "shard {} is given twice, with the same content, and counts once: `{}` and `{}`",
                shard.shard,
                display(first),
                display(second),
            ));
        }
        let count = by_number.values().next().map_or(1, |shard| shard.shard.count());
        let missing: Vec<u32> = (1..=count)
            .filter(|number| !by_number.contains_key(number))
            .collect();
        if !missing.is_empty() {
            return Err(MergeError::Missing {
                shards: missing,
                count,
            }
            .into());
        }
        for shard in by_number.values() {
            shard.check_finished()?;
        }
        let mut shards = by_number.into_values();
        let Some(first) = shards.next() else {
            return Err(RunError::Nothing);
        };
        Ok(Self {
            first,
            others: shards.collect(),
            notices,
        })
    }

    pub(super) fn first(&self) -> &ShardJournal {
        &self.first
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &ShardJournal> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// The cases of the whole run in their order: the shard of each, and its place there.
    pub(super) fn places(&self) -> impl Iterator<Item = (&ShardJournal, usize)> {
        let in_turn = (0..).flat_map(|place| self.iter().map(move |shard| (shard, place)));
        in_turn.take(self.first.stored.part.cases)
    }
}

impl ShardJournal {
    fn open(path: &Path) -> Result<Self, RunError> {
        let journal = Journal::open(path)?;
        let header = journal.header();
        let refuse = |reason| MergeError::NotAShard {
            run_id: header.run_id.clone(),
            path: display(path),
            reason,
        };
        if journal.is_without_chain() {
            return Err(
                refuse("an earlier version of holodeck recorded it, and its lines have no digests").into(),
            );
        }
        journal.check_whole()?;
        if header.regrades.is_some() {
            return Err(refuse("it is a regrade; merge the shards, then regrade the merged run").into());
        }
        if !header.merged_from.is_empty() {
            return Err(refuse("it is already merged").into());
        }
        let Some(stored) = header.shard.clone() else {
            return Err(refuse("it is a whole run, not a shard").into());
        };
        let shard = Shard::new(stored.part.index, stored.part.count);
        let shard = shard.map_err(|_| refuse("the number of its shard is not valid"))?;
        if journal.plan().len() != shard.size(stored.part.cases) {
            return Err(refuse("the number of its cases is not that of its shard").into());
        }
        Ok(Self {
            journal,
            shard,
            stored,
        })
    }

    /// Refuses a shard of another run.
    fn check_same_run(&self, other: &Self) -> Result<(), MergeError> {
        let differ = |what: String| MergeError::Different {
            first: display(self.journal.path()),
            second: display(other.journal.path()),
            what,
        };
        let (one, two) = (self.journal.header(), other.journal.header());
        if one.agent_name != two.agent_name {
            return Err(differ(format!(
                "the agent (`{}`, `{}`)",
                one.agent_name, two.agent_name
            )));
        }
        if values_of(one) != values_of(two) {
            return Err(differ("the combination of the matrix".to_owned()));
        }
        if self.shard.count() != other.shard.count() {
            return Err(differ(format!(
                "the number of shards ({}, {})",
                self.shard.count(),
                other.shard.count()
            )));
        }
        if one.replayed.is_some() != two.replayed.is_some() {
            return Err(differ(
                "the source of the answers (only one is replayed)".to_owned(),
            ));
        }
        let parts = changed_parts(&one.agent, &two.agent);
        if !parts.is_empty() {
            return Err(differ(format!("the agent ({})", parts.join(", "))));
        }
        let (about, about_other) = (&one.metadata, &two.metadata);
        let equal = [
            ("the model", one.model == two.model),
            (
                "the version of holodeck",
                about.holodeck_version == about_other.holodeck_version,
            ),
            (
                "the commit of the repository",
                about.git_commit == about_other.git_commit,
            ),
            (
                "the configuration of the agent",
                about.agent_config == about_other.agent_config,
            ),
            (
                "the version of the instructions",
                about.prompt_version == about_other.prompt_version,
            ),
            ("the selection of cases", one.selected == two.selected),
            (
                "the number of selected cases",
                self.stored.part.cases == other.stored.part.cases,
            ),
            (
                "a selected case, or what is expected of it,",
                self.stored.digest == other.stored.digest,
            ),
            (
                "a flag that affects answers",
                shared_flags(&one.flags) == shared_flags(&two.flags),
            ),
        ];
        match equal.iter().find(|(_, equal)| !equal) {
            Some((what, _)) => Err(differ((*what).to_owned())),
            None => Ok(()),
        }
    }

    /// Refuses a shard that did not run to its end.
    fn check_finished(&self) -> Result<(), MergeError> {
        let journal = &self.journal;
        let cases = journal.plan().len();
        let missing = (0..cases).filter(|&case| !journal.is_case_finished(case)).count();
        let end = match journal.ended() {
            Some(ended) if ended.how == RunEndKind::Completed => None,
            Some(ended) => Some(format!("it ended as `{}`", ended.how.as_str())),
            None => Some("it was killed, or is still running".to_owned()),
        };
        if missing > 0 {
            let end = end.unwrap_or_else(|| "a line of its journal is damaged".to_owned());
            return Err(self.unfinished(format!("{missing} of {cases} cases have no verdict; {end}")));
        }
        end.map_or(Ok(()), |end| Err(self.unfinished(end)))
    }

    pub(super) fn other_deciders(&self, what: String) -> MergeError {
        MergeError::OtherDeciders {
            shard: self.shard,
            what,
            run_id: self.journal.header().run_id.clone(),
            path: display(self.journal.path()),
        }
    }

    pub(super) fn unfinished(&self, reason: String) -> MergeError {
        MergeError::Unfinished {
            shard: self.shard,
            run_id: self.journal.header().run_id.clone(),
            path: display(self.journal.path()),
            reason,
        }
    }
}

fn values_of(header: &JournalHeader) -> Option<&Combination> {
    header.combination.as_ref().map(|stored| &stored.values)
}

/// The flags that must be the same: each machine may record to its own file.
fn shared_flags(flags: &RunFlags) -> RunFlags {
    RunFlags {
        record: None,
        ..flags.clone()
    }
}

/// Whether two files have the same bytes, read a part at a time.
fn have_equal_content(one: &Path, other: &Path) -> Result<bool, JournalError> {
    let open = |path: &Path| {
        let file = File::open(path).map_err(|source| io_error(path, source))?;
        Ok::<_, JournalError>(BufReader::with_capacity(1 << 16, file))
    };
    let (mut first, mut second) = (open(one)?, open(other)?);
    loop {
        let (a, b) = (
            first.fill_buf().map_err(|source| io_error(one, source))?,
            second.fill_buf().map_err(|source| io_error(other, source))?,
        );
        let length = a.len().min(b.len());
        if a.get(..length) != b.get(..length) {
            return Ok(false);
        }
        if length == 0 {
            return Ok(a.is_empty() && b.is_empty());
        }
        first.consume(length);
        second.consume(length);
    }
}

fn io_error(path: &Path, source: std::io::Error) -> JournalError {
    JournalError::Io {
        path: display(path),
        source,
    }
}
