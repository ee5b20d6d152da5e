//! Selects the cases of a run: by name, number, earlier result or shard, in the order of the file.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::PathBuf,
};

use globset::{Glob, GlobMatcher};
use holodeck_model::{
    CaseIdentity, Cases, ResolvedAgent, Shard, ShardPart, case_label, hex_prefix, match_cases,
};
use sha2::{Digest as _, Sha256};

use crate::{CurrentDeciders, PlanError, deciders::Changes};
use holodeck_runs::{CaseTrials, Journal, RunFlags, Sample, StoredSelection, changed_parts};

/// Which cases of the file to run.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Cases whose name matches.
    pub filter: Option<String>,
    /// Cases with one of these tags; all if there are none.
    pub tags: Vec<String>,
    /// A sample of the remaining cases.
    pub sample: Option<Sample>,
    /// The first N of the remaining cases.
    pub limit: Option<usize>,
    /// Only cases that did not pass last time, or that a change concerns.
    pub failed_in: Option<FailedIn>,
    /// Of the remaining cases only those of one shard.
    pub shard: Option<Shard>,
}

/// Which of the cases that earlier runs answered run again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "callers construct it as a literal")]
pub enum Again {
    /// Those that did not pass, or passed when something else decided: `--failed`.
    NotPassed,
    /// Those whose answer or verdict a change concerns, whatever it was: `--watch`.
    Changed {
        /// The parts of the agent now, with their digests.
        agent: BTreeMap<String, String>,
    },
}

/// Where `--failed` and `--watch` look for earlier verdicts, and what these must have been decided by.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct FailedIn {
    /// The journals of earlier runs, newest first.
    pub journals: Vec<PathBuf>,
    /// The agent and its checks as they are now.
    pub now: CurrentDeciders,
    /// The flags of the new run.
    pub flags: RunFlags,
    /// Which cases run again.
    pub again: Again,
}

/// How `--failed` read the passes of earlier runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EarlierPasses {
    /// How many cases passed when something else decided, so that they do not count as passed.
    pub outdated: usize,
    changes: Changes,
    /// How many cases count as passed, by the parts of the agent that passed them.
    passed: Vec<(BTreeMap<String, String>, usize)>,
    /// The run with the answers of all chosen cases, if only what decides about them changed: it is resumed, and no answer is
    /// requested.
    pub answers_in: Option<PathBuf>,
}

impl EarlierPasses {
    /// Notes for the user: `agent` are the parts of the agent now.
    pub fn notes(&self, agent: &BTreeMap<String, String>) -> Vec<String> {
        let outdated = (self.outdated > 0).then(|| {
            format!(
                "`--failed`: the earlier pass of {} does not count, because {} changed since",
                holodeck_reports::format::count(self.outdated, "case"),
                self.changes.describe()
            )
        });
        let others = self.passed.iter().filter_map(|(parts, cases)| {
            let changed = changed_parts(parts, agent);
            (!changed.is_empty()).then(|| {
                format!(
                    "`--failed`: the earlier pass of {} counts, although the agent changed since: {}",
                    holodeck_reports::format::count(*cases, "case"),
                    changed.join(", ")
                )
            })
        });
        outdated.into_iter().chain(others).collect()
    }

    fn count_passed(&mut self, agent: &BTreeMap<String, String>) {
        match self.passed.iter_mut().find(|(parts, _)| parts == agent) {
            Some((_, cases)) => *cases += 1,
            None => self.passed.push((agent.clone(), 1)),
        }
    }
}

impl Selection {
    /// Whether it selects every case.
    pub fn is_everything(&self) -> bool {
        self.filter.is_none()
            && self.tags.is_empty()
            && self.sample.is_none()
            && self.limit.is_none()
            && self.failed_in.is_none()
            && self.shard.is_none()
    }

    fn again(&self) -> Option<&Again> {
        self.failed_in.as_ref().map(|failed_in| &failed_in.again)
    }

    /// How it is stored for a file of `of` cases.
    pub fn stored(&self, of: usize) -> StoredSelection {
        StoredSelection {
            filter: self.filter.clone(),
            tags: self.tags.clone(),
            sample: self.sample,
            limit: self.limit,
            failed: self.again() == Some(&Again::NotPassed),
            changed: matches!(self.again(), Some(Again::Changed { .. })),
            of: Some(of),
        }
    }
}

/// The cases of a run, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Their places in the file, from 0.
    pub cases: Vec<usize>,
    /// Which part of a larger run these cases are.
    pub shard: Option<ShardPart>,
    /// How `--failed` read earlier runs.
    pub earlier: EarlierPasses,
}

impl Plan {
    /// Selects from `cases`.
    pub fn new(cases: &Cases, identities: &[CaseIdentity], selection: &Selection) -> Result<Self, PlanError> {
        let mut plan = Self::with_all_shards(cases, identities, selection)?;
        if let Some(shard) = selection.shard {
            plan.take_shard(shard);
        }
        Ok(plan)
    }

    /// The cases of all shards.
    pub(crate) fn with_all_shards(
        cases: &Cases,
        identities: &[CaseIdentity],
        selection: &Selection,
    ) -> Result<Self, PlanError> {
        let filter = selection.filter.as_deref().map(compile_filter).transpose()?;
        let mut earlier = EarlierPasses::default();
        let failed = selection
            .failed_in
            .as_ref()
            .map(|failed_in| find_again(failed_in, cases, identities, &mut earlier))
            .transpose()?;
        let tagged = (!selection.tags.is_empty()).then(|| find_tagged(cases, &selection.tags));
        let mut chosen = Vec::new();
        for index in 0..cases.len() {
            let is_match = |filter: &GlobMatcher| filter.is_match(case_label(cases.name(index), index));
            if filter.as_ref().is_none_or(is_match)
                && tagged.as_ref().is_none_or(|tagged| tagged.contains(&index))
                && failed.as_ref().is_none_or(|failed| failed.contains(&index))
            {
                chosen.push(index);
            }
        }
        if let Some(sample) = selection.sample.filter(|sample| sample.cases < chosen.len()) {
            chosen.sort_by_cached_key(|index| identities.get(*index).map(|case| sample.rank(case.id)));
            chosen.truncate(sample.cases);
            chosen.sort_unstable();
        }
        if let Some(limit) = selection.limit {
            chosen.truncate(limit);
        }
        Ok(Self {
            cases: chosen,
            shard: None,
            earlier,
        })
    }

    /// Keeps the cases of this shard.
    pub(crate) fn take_shard(&mut self, shard: Shard) {
        self.shard = Some(ShardPart::new(shard, self.cases.len()));
        let mut places = 0..;
        self.cases
            .retain(|_| places.next().is_some_and(|place| shard.has(place)));
    }
}

/// Places in the current file of the cases that did not pass last time, or that a change concerns. The newest run that planned a
/// case decides: a case without a verdict there, a new case and a changed case have not passed, nor has a case about which
/// something else decides now.
fn find_again(
    failed_in: &FailedIn,
    cases: &Cases,
    identities: &[CaseIdentity],
    earlier_passes: &mut EarlierPasses,
) -> Result<HashSet<usize>, PlanError> {
    let mut has_failed: HashMap<usize, bool> = HashMap::new();
    // Of each case that runs again, the run with its answer, if that still is the agent's.
    let mut answers: HashSet<Option<&PathBuf>> = HashSet::new();
    for path in &failed_in.journals {
        if has_failed.len() == cases.len() {
            break;
        }
        let journal = Journal::open(path)?;
        if journal.is_without_chain() {
            journal.check_trusted()?;
        }
        let is_other_agent = match &failed_in.again {
            Again::NotPassed => false,
            Again::Changed { agent } => !changed_parts(&journal.header().agent, agent).is_empty(),
        };
        let outdated: HashSet<usize> = match &failed_in.again {
            Again::NotPassed => journal.not_passed()?.into_iter().collect(),
            Again::Changed { .. } => without_verdict(&journal, is_other_agent),
        };
        for (index, earlier) in match_plan(&journal, cases, identities)? {
            if has_failed.contains_key(&index) {
                continue;
            }
            let mut failed = earlier.is_none_or(|place| outdated.contains(&place));
            let mut answered_in = None;
            if let Some(place) = earlier.filter(|_| !failed) {
                let changes = failed_in.now.changes(&journal, place, index, &failed_in.flags)?;
                failed = !changes.is_empty();
                answered_in = Some(path);
                if failed {
                    earlier_passes.outdated += 1;
                    earlier_passes.changes.add(changes);
                } else {
                    earlier_passes.count_passed(&journal.header().agent);
                }
            }
            has_failed.insert(index, failed);
            if failed {
                answers.insert(answered_in);
            }
        }
    }
    let is_newest = |path: &&PathBuf| failed_in.journals.first() == Some(*path);
    let watches = matches!(failed_in.again, Again::Changed { .. });
    earlier_passes.answers_in = match answers.into_iter().collect::<Vec<_>>().as_slice() {
        [Some(path)] if watches && is_newest(path) && has_failed.len() == cases.len() => {
            Some((*path).clone())
        }
        _ => None,
    };
    let failed = has_failed.into_iter().filter(|(_, failed)| *failed);
    Ok(failed.map(|(index, _)| index).collect())
}

/// Places in the plan of the cases without a verdict; of an agent that changed, all.
fn without_verdict(journal: &Journal, is_other_agent: bool) -> HashSet<usize> {
    let places = 0..journal.plan().len();
    let lacks = |place: &usize| {
        let mut units = journal.units_of(*place);
        is_other_agent || units.any(|unit| journal.verdict(unit).is_none())
    };
    places.filter(lacks).collect()
}

/// The current cases that belong to the plan of an earlier run, each with its place in that plan. A case that was added
/// or changed belongs to it if the run would have selected it.
pub(crate) fn match_plan(
    journal: &Journal,
    cases: &Cases,
    identities: &[CaseIdentity],
) -> Result<Vec<(usize, Option<usize>)>, PlanError> {
    let selected = &journal.header().selected;
    // The cases of other shards do not belong to a shard, nor does it know which new ones are its own.
    let chosen = if selected.failed || selected.changed || journal.header().shard.is_some() {
        Plan::default()
    } else {
        let selection = Selection {
            filter: selected.filter.clone(),
            tags: selected.tags.clone(),
            sample: selected.sample,
            limit: selected.limit,
            failed_in: None,
            shard: None,
        };
        Plan::new(cases, identities, &selection)?
    };
    let chosen: HashSet<usize> = chosen.cases.into_iter().collect();
    let places = match_cases(journal.plan(), identities).into_iter().enumerate();
    Ok(places
        .filter(|(index, earlier)| earlier.is_some() || chosen.contains(index))
        .collect())
}

/// A digest of these cases with what is expected of them, by which the parts of one run are recognised.
pub(crate) fn digest_cases(
    cases: &Cases,
    identities: &[CaseIdentity],
    indices: impl Iterator<Item = usize>,
) -> String {
    let mut hasher = Sha256::new();
    for index in indices {
        if let (Some(case), Some(identity)) = (cases.get(index), identities.get(index)) {
            // A case read from YAML can always be written as JSON.
            let case = serde_json::to_vec(&*case).unwrap_or_default();
            hasher.update(format!("{}{} {} ", identity.id, identity.content, case.len()));
            hasher.update(&case);
        }
    }
    hex_prefix(&hasher.finalize(), 16)
}

/// The places of the cases with one of these tags. Plain cases have none.
fn find_tagged(cases: &Cases, tags: &[String]) -> HashSet<usize> {
    let tagged = cases.detailed();
    let tagged = tagged.filter(|(_, case)| case.tags.iter().any(|tag| tags.contains(tag)));
    tagged.map(|(index, _)| index).collect()
}

fn compile_filter(pattern: &str) -> Result<GlobMatcher, PlanError> {
    Glob::new(pattern)
        .map(|glob| glob.compile_matcher())
        .map_err(|error| PlanError::Filter {
            pattern: pattern.to_owned(),
            reason: error.kind().to_string(),
        })
}

/// The trials of the cases at these places in the file; empty if each runs once.
pub fn plan_trials(
    agent: &ResolvedAgent,
    indices: &[usize],
    flags: &RunFlags,
) -> Result<Vec<CaseTrials>, PlanError> {
    let once = indices
        .iter()
        .all(|&index| CaseTrials::of(agent, index, flags, None) == CaseTrials::ONCE);
    if once {
        return Ok(Vec::new());
    }
    let trials = indices.iter().map(|&index| {
        let trials = CaseTrials::of(agent, index, flags, None);
        if trials.is_valid() && trials.min_passes <= trials.count {
            return Ok(trials);
        }
        let name = agent.config.test_cases.name(index);
        Err(PlanError::Trials {
            label: case_label(name, index),
            trials: trials.count,
            min_passes: trials.min_passes,
        })
    });
    trials.collect()
}
