//! Which run of an agent a name means. This is the only place that chooses: `latest` and the beginning of an id belong to
//! the agent, never to the folder, which several agents may share.
//!
//! It must read no more of a journal than its first line, except to find out which runs of a matrix are unfinished, and which
//! shards have ended.

use std::{
    io::BufRead as _,
    path::{Path, PathBuf},
};

use holodeck_model::{Combination, ResolvedAgent};

use crate::{
    JOURNAL_VERSION, Journal, RunOwner, RunSeries, RunStore, StoreError, StoredCombination, StoredShard,
    journal::fits_as_first,
};

/// The name that means the newest run.
pub const LATEST: &str = "latest";

/// The commands that name a run, by what they can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "each command decides for one of them")]
pub enum RunUse {
    /// To go on with it: `latest` is the newest run that asked the agent.
    Resume,
    /// To grade its answers: `latest` may be merged of shards, but is not a regrade.
    Regrade,
    /// To look at its verdicts: `latest` may be a regrade. A path may name a run of any agent.
    Read,
}

/// Which run of a matrix is meant.
#[derive(Clone, Copy, Debug)]
#[allow(
    clippy::exhaustive_enums,
    reason = "a run of a matrix cannot be named in another way"
)]
pub enum Member<'a> {
    /// That of the combination with which the agent was loaded.
    Of(Option<&'a Combination>),
    /// That with these values of `--matrix`.
    With(&'a [(String, String)]),
}

/// A run that a name means.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FoundRun {
    /// A name that means this run alone.
    pub name: String,
    /// Its journal.
    pub journal: PathBuf,
    /// Set if it is one of those of a matrix.
    pub combination: Option<StoredCombination>,
}

/// A run of an agent, as a list of its runs has it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListedRun {
    /// Its id.
    pub run_id: String,
    /// Its journal.
    pub journal: PathBuf,
    /// The runs to which it belongs.
    pub series: RunSeries,
}

/// The parts of a journal's first line that are needed to find it.
#[derive(serde::Deserialize)]
struct RunHead {
    #[serde(rename = "holodeck_journal")]
    version: u64,
    run_id: String,
    #[serde(default)]
    agent_name: String,
    #[serde(default)]
    agent_path: String,
    #[serde(default)]
    agent_file: String,
    #[serde(default)]
    combination: Option<StoredCombination>,
    #[serde(default)]
    shard: Option<StoredShard>,
    #[serde(default)]
    regrades: Option<String>,
    #[serde(default)]
    merged_from: Vec<String>,
}

impl RunHead {
    fn read(journal: &Path) -> Result<Self, StoreError> {
        let unreadable = |reason: String| StoreError::Unreadable {
            path: journal.display().to_string(),
            reason,
        };
        let mut line = Vec::new();
        let file = std::fs::File::open(journal).map_err(|error| unreadable(error.to_string()))?;
        std::io::BufReader::new(file)
            .read_until(b'\n', &mut line)
            .map_err(|error| unreadable(error.to_string()))?;
        let head: Self = serde_json::from_slice(&line).map_err(|error| unreadable(error.to_string()))?;
        if head.version == JOURNAL_VERSION && !fits_as_first(&line) {
            return Err(unreadable("its first line was changed".to_owned()));
        }
        Ok(head)
    }

    /// The run with this id. Its journal has the id as its name.
    fn of_run(store: &RunStore, id: &str) -> Result<Self, StoreError> {
        let journal = store.journal_path(id);
        let head = Self::read(&journal)?;
        if head.run_id == id {
            return Ok(head);
        }
        Err(StoreError::Unreadable {
            path: journal.display().to_string(),
            reason: format!("it has the name of another run than `{}`", head.run_id),
        })
    }

    fn owner(&self) -> RunOwner {
        RunOwner::stored(&self.agent_file, &self.agent_path, &self.agent_name)
    }

    fn fits(&self, purpose: RunUse) -> bool {
        match purpose {
            RunUse::Resume => self.regrades.is_none() && self.merged_from.is_empty(),
            RunUse::Regrade => self.regrades.is_none(),
            RunUse::Read => true,
        }
    }

    fn series(&self) -> RunSeries {
        RunSeries::new(self.owner(), self.combination.as_ref(), self.shard.as_ref())
    }

    fn values(&self) -> Option<&Combination> {
        self.combination.as_ref().map(|stored| &stored.values)
    }
}

/// The runs of one agent.
#[derive(Clone, Debug)]
pub struct AgentRuns {
    store: RunStore,
    owner: RunOwner,
}

/// A run of the agent, with the first line of its journal.
struct OwnRun {
    id: String,
    head: RunHead,
}

impl AgentRuns {
    /// The runs of `owner` in this store.
    pub fn new(store: RunStore, owner: RunOwner) -> Self {
        Self { store, owner }
    }

    /// The runs of this agent.
    pub fn of(agent: &ResolvedAgent) -> Self {
        Self::new(RunStore::new(&agent.dir), RunOwner::of(agent))
    }

    /// Where they are.
    pub fn store(&self) -> &RunStore {
        &self.store
    }

    /// Whose they are.
    pub fn owner(&self) -> &RunOwner {
        &self.owner
    }

    /// The run that `name` means: a path, a run id, its beginning, or `latest`. A name without `/` and without an
    /// extension is never a path.
    pub fn find(&self, name: &str, purpose: RunUse, member: Member<'_>) -> Result<FoundRun, StoreError> {
        let run = if is_path(name) {
            self.at_path(name, purpose)?
        } else if name == LATEST {
            return self.latest(purpose, member);
        } else {
            let run = self.by_id(name)?;
            self.found(run, name)
        };
        match (member, &run.combination) {
            (Member::With([]) | Member::Of(_), _) => Ok(run),
            (Member::With(wanted), Some(stored)) if stored.values.has(wanted) => Ok(run),
            (Member::With(_), stored) => Err(StoreError::NotAMember {
                members: stored.iter().map(|stored| stored.values.clone()).collect(),
            }),
        }
    }

    /// As [`AgentRuns::find`], for runs to resume: `latest` means all unfinished runs of the newest matrix.
    pub fn find_resumable(&self, name: &str) -> Result<Vec<FoundRun>, StoreError> {
        if name != LATEST {
            return Ok(vec![self.find(name, RunUse::Resume, Member::With(&[]))?]);
        }
        let newest = self.newest(RunUse::Resume)?;
        let Some(stored) = newest.head.combination.clone() else {
            return Ok(vec![self.found(newest, LATEST)]);
        };
        let mut unfinished = Vec::new();
        for (_, run) in self.members(&stored)? {
            // Opening a damaged journal again reports the error.
            let journal = Journal::open(&self.store.journal_path(&run.id));
            if !journal.is_ok_and(|journal| journal.is_completed()) {
                let id = run.id.clone();
                unfinished.push(self.found(run, &id));
            }
        }
        if unfinished.is_empty() {
            let id = newest.id.clone();
            unfinished.push(self.found(newest, &id));
        }
        Ok(unfinished)
    }

    /// The runs of this agent, newest first. A journal whose first line cannot be read is an error in its place: it may be
    /// one of them.
    pub fn list(&self) -> Result<Vec<Result<ListedRun, StoreError>>, StoreError> {
        let runs = self.own()?.map(|run| {
            run.map(|run| ListedRun {
                journal: self.store.journal_path(&run.id),
                series: run.head.series(),
                run_id: run.id,
            })
        });
        Ok(runs.collect())
    }

    /// The journals of the runs with this combination, newest first; without one, of those that are not of a matrix.
    pub fn journals_of(&self, combination: Option<&Combination>) -> Result<Vec<PathBuf>, StoreError> {
        let mut journals = Vec::new();
        let mut has_run = false;
        for run in self.own()? {
            let run = run?;
            has_run = true;
            if run.head.values() == combination {
                journals.push(self.store.journal_path(&run.id));
            }
        }
        if has_run {
            Ok(journals)
        } else {
            Err(self.no_runs())
        }
    }

    /// The runs that these names mean, each also a folder: then all journals in it and in its folders, of whatever agent.
    pub fn find_shards(&self, names: &[String]) -> Result<Vec<FoundRun>, StoreError> {
        let mut found = Vec::new();
        for name in names {
            let path = Path::new(name);
            if path.is_dir() {
                let journals = RunStore::journals_in(path)?.into_iter();
                found.extend(journals.map(|journal| FoundRun {
                    name: journal.display().to_string(),
                    // Opening a damaged journal reports the error.
                    combination: RunHead::read(&journal).ok().and_then(|head| head.combination),
                    journal,
                }));
            } else {
                found.push(self.find(name, RunUse::Resume, Member::With(&[]))?);
            }
        }
        Ok(found)
    }

    /// Whether all shards in these places have ended, for a caller that waits for them. It decides nothing: a merge checks
    /// each shard.
    pub fn have_shards_ended(&self, names: &[String]) -> bool {
        let mut ended: Vec<(Option<Combination>, u32)> = Vec::new();
        let mut expected = 0;
        // A folder that is not there yet, and a journal that is being created, have no shard.
        for found in self.find_shards(names).unwrap_or_default() {
            let Ok(journal) = Journal::open(&found.journal) else {
                continue;
            };
            let Some(shard) = &journal.header().shard else {
                continue;
            };
            let stored = found.combination.as_ref();
            let combinations = stored.map_or(1, |stored| stored.planned.len().max(1));
            expected = (shard.part.count as usize).saturating_mul(combinations);
            let key = (found.combination.map(|stored| stored.values), shard.part.index);
            if journal.ended().is_some() && !ended.contains(&key) {
                ended.push(key);
            }
        }
        expected > 0 && ended.len() >= expected
    }

    /// The runs of the group of `own` that asked the agent, one for each combination that was run, in the order of the
    /// matrix.
    pub fn members_of(&self, own: &StoredCombination) -> Result<Vec<(Combination, String)>, StoreError> {
        let members = self.members(own)?.into_iter();
        Ok(members.map(|(values, run)| (values, run.id)).collect())
    }

    fn members(&self, own: &StoredCombination) -> Result<Vec<(Combination, OwnRun)>, StoreError> {
        let mut runs: Vec<OwnRun> = Vec::new();
        for run in self.own()? {
            let run = run?;
            let is_of_group = |stored: &StoredCombination| stored.group == own.group;
            let is_known = runs.iter().any(|other| other.head.values() == run.head.values());
            if run.head.fits(RunUse::Resume)
                && run.head.combination.as_ref().is_some_and(is_of_group)
                && !is_known
            {
                runs.push(run);
            }
        }
        let mut members = Vec::new();
        for values in &own.planned {
            if let Some(place) = runs.iter().position(|run| run.head.values() == Some(values)) {
                members.push((values.clone(), runs.swap_remove(place)));
            }
        }
        Ok(members)
    }

    /// The newest run that was to be run with the combination.
    fn latest(&self, purpose: RunUse, member: Member<'_>) -> Result<FoundRun, StoreError> {
        let newest = self.newest(purpose)?;
        let planned = |run: &OwnRun| -> Vec<Combination> {
            let stored = run.head.combination.as_ref();
            stored.map_or_else(Vec::new, |stored| stored.planned.clone())
        };
        let wanted = match member {
            Member::Of(None) | Member::With([]) => match planned(&newest).as_slice() {
                [] => return Ok(self.found(newest, LATEST)),
                [only] => only.clone(),
                members => {
                    return Err(StoreError::SeveralMembers {
                        members: members.to_vec(),
                    });
                }
            },
            Member::Of(Some(values)) => values.clone(),
            Member::With(wanted) => self.wanted(wanted, purpose, &planned(&newest))?,
        };
        // The newest command that was to run the combination decides, whether it came to run it or not: a run of an
        // earlier command may be of another agent.
        let mut group: Option<String> = None;
        for run in self.own()? {
            let run = run?;
            let Some(stored) = run.head.combination.as_ref() else {
                continue;
            };
            if !run.head.fits(purpose) || !stored.planned.contains(&wanted) {
                continue;
            }
            let group = group.get_or_insert_with(|| stored.group.clone());
            if *group == stored.group && stored.values == wanted {
                let id = run.id.clone();
                return Ok(self.found(run, &id));
            }
        }
        Err(match group {
            Some(_) => StoreError::MemberNotRun { member: wanted },
            None => StoreError::NotAMember {
                members: planned(&newest),
            },
        })
    }

    /// The combination with these values of the newest command that was to run one.
    fn wanted(
        &self,
        wanted: &[(String, String)],
        purpose: RunUse,
        newest: &[Combination],
    ) -> Result<Combination, StoreError> {
        for run in self.own()? {
            let run = run?;
            let stored = run.head.combination.as_ref().filter(|_| run.head.fits(purpose));
            let planned = stored.into_iter().flat_map(|stored| &stored.planned);
            let members: Vec<&Combination> = planned.filter(|member| member.has(wanted)).collect();
            match members.as_slice() {
                [] => {}
                [only] => return Ok((*only).clone()),
                several => {
                    return Err(StoreError::SeveralMembers {
                        members: several.iter().map(|&member| member.clone()).collect(),
                    });
                }
            }
        }
        Err(StoreError::NotAMember {
            members: newest.to_vec(),
        })
    }

    fn newest(&self, purpose: RunUse) -> Result<OwnRun, StoreError> {
        let mut newest: Option<OwnRun> = None;
        for run in self.own()? {
            let run = run?;
            match &newest {
                // Only without the name of the agent, there may be runs of several agents.
                Some(newest) if !newest.head.owner().is_same(&run.head.owner()) => {
                    return Err(StoreError::UnknownAgent {
                        file: self.owner.file.clone(),
                    });
                }
                None if run.head.fits(purpose) => newest = Some(run),
                _ => {}
            }
            if newest.is_some() && self.owner.name.is_some() {
                break;
            }
        }
        newest.ok_or_else(|| self.no_runs())
    }

    /// The runs of the agent, newest first. A journal whose first line cannot be read is an error: it may be the newest
    /// run of the agent.
    fn own(&self) -> Result<impl Iterator<Item = Result<OwnRun, StoreError>>, StoreError> {
        let runs = self.store.runs()?.into_iter().rev();
        Ok(runs.filter_map(|id| match RunHead::of_run(&self.store, &id) {
            Ok(head) => self
                .owner
                .is_same(&head.owner())
                .then_some(Ok(OwnRun { id, head })),
            Err(error) => Some(Err(error)),
        }))
    }

    fn by_id(&self, beginning: &str) -> Result<OwnRun, StoreError> {
        let runs = self.store.runs()?;
        let is_exact = runs.iter().any(|run| run == beginning);
        let mut own = Vec::new();
        let mut other = None;
        for id in runs {
            if if is_exact {
                id == beginning
            } else {
                id.starts_with(beginning)
            } {
                let head = RunHead::of_run(&self.store, &id)?;
                let owner = head.owner();
                if self.owner.is_same(&owner) {
                    own.push(OwnRun { id, head });
                } else {
                    other = Some(StoreError::OtherAgent { run_id: id, owner });
                }
            }
        }
        let count = own.len();
        match (own.pop(), count) {
            (Some(run), 1) => Ok(run),
            (Some(_), _) => Err(StoreError::Ambiguous {
                name: beginning.to_owned(),
                count,
            }),
            (None, _) => Err(other.unwrap_or_else(|| self.unknown(beginning))),
        }
    }

    fn unknown(&self, name: &str) -> StoreError {
        let newest = self.own().into_iter().flatten().flatten().map(|run| run.id);
        let newest: Vec<String> = newest.take(3).collect();
        if newest.is_empty() {
            return self.no_runs();
        }
        StoreError::Unknown {
            name: name.to_owned(),
            newest,
        }
    }

    fn at_path(&self, name: &str, purpose: RunUse) -> Result<FoundRun, StoreError> {
        let journal = PathBuf::from(name);
        if !journal.is_file() {
            return Err(StoreError::NoFile {
                path: name.to_owned(),
            });
        }
        let head = match RunHead::read(&journal) {
            Ok(head) => head,
            // It may be a file of another kind.
            Err(_) if purpose == RunUse::Read => {
                return Ok(FoundRun {
                    name: name.to_owned(),
                    journal,
                    combination: None,
                });
            }
            Err(error) => return Err(error),
        };
        let owner = head.owner();
        if purpose != RunUse::Read && !self.owner.is_same(&owner) {
            return Err(StoreError::OtherAgent {
                run_id: name.to_owned(),
                owner,
            });
        }
        Ok(FoundRun {
            name: name.to_owned(),
            journal,
            combination: head.combination,
        })
    }

    fn found(&self, run: OwnRun, name: &str) -> FoundRun {
        FoundRun {
            name: name.to_owned(),
            journal: self.store.journal_path(&run.id),
            combination: run.head.combination,
        }
    }

    fn no_runs(&self) -> StoreError {
        StoreError::NoRuns {
            path: self.store.runs_dir().display().to_string(),
            owner: self.owner.clone(),
        }
    }
}

/// Whether a name of a run is a path. A file `latest` is meant only as `./latest`.
pub fn is_path(name: &str) -> bool {
    name.contains('/') || Path::new(name).extension().is_some()
}
