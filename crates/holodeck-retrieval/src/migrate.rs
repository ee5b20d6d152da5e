//! Copies an index into another store, resumably, and verifies the copy by searching in it. Must not embed anything.

use std::collections::BTreeMap;

use futures::TryStreamExt as _;
use tokio_util::sync::CancellationToken;

use crate::{Entry, Filter, IndexStats, Passage, RetrievalError, SourceState, VectorStore};

/// Progress of a migration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MoveProgress {
    /// Sources in the old index.
    pub sources: usize,
    /// Sources processed so far.
    pub done: usize,
    /// Passages written so far.
    pub passages: usize,
}

/// The outcome of a migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveReport {
    /// Sources that were written.
    pub copied: usize,
    /// Sources that an earlier, interrupted migration had written.
    pub kept: usize,
    /// Sources that only the new index had, and that were removed.
    pub removed: usize,
    /// Size of the new index.
    pub stats: IndexStats,
    /// Passages that were searched by their own vectors, and found.
    pub checked: usize,
}

/// Passages per write.
const BATCH: usize = 1000;

/// Passages to search for at the end.
const SAMPLE: usize = 20;

/// Copies an index into another store without embedding anything. Sources that are already there, as after an
/// interrupted migration, are skipped. At the end it compares counts and searches some passages by their own vectors.
pub async fn migrate(
    from: &dyn VectorStore,
    to: &dyn VectorStore,
    progress: &(dyn Fn(MoveProgress) + Send + Sync),
    cancel: &CancellationToken,
) -> Result<MoveReport, RetrievalError> {
    let info = from.info().await?.ok_or_else(|| RetrievalError::Store {
        store: from.describe(),
        reason: "there is no index to move".to_owned(),
    })?;
    to.prepare(&info).await?;
    let sources: BTreeMap<String, SourceState> = from
        .sources()
        .await?
        .into_iter()
        .map(|state| (state.source.clone(), state))
        .collect();
    let there = to.sources().await?;
    let strangers: Vec<String> = there
        .iter()
        .filter(|state| !sources.contains_key(&state.source))
        .map(|state| state.source.clone())
        .collect();
    to.remove(&strangers).await?;
    let there: BTreeMap<String, SourceState> = there
        .into_iter()
        .map(|state| (state.source.clone(), state))
        .collect();

    let mut copy = Copy {
        to,
        progress,
        so_far: MoveProgress {
            sources: sources.len(),
            ..MoveProgress::default()
        },
        batch: Vec::new(),
        waiting: 0,
        copied: 0,
        sample: Sample::of(sources.values().map(|state| state.passages).sum()),
    };
    progress(copy.so_far);
    let mut entries = from.entries();
    let mut kept = 0;
    while let Some((state, entries)) = cancel
        .run_until_cancelled(entries.try_next())
        .await
        .ok_or(RetrievalError::Cancelled)??
    {
        copy.sample.add(&entries);
        if there.get(&state.source) == Some(&state) {
            kept += 1;
            copy.so_far.done += 1;
            progress(copy.so_far);
        } else {
            copy.add(state, entries).await?;
        }
    }
    copy.flush().await?;
    let (copied, sample) = (copy.copied, copy.sample);
    let stats = compare(&sources, to).await?;
    for entry in &sample.kept {
        find(to, entry).await?;
    }
    Ok(MoveReport {
        copied,
        kept,
        removed: strangers.len(),
        stats,
        checked: sample.kept.len(),
    })
}

struct Copy<'a> {
    to: &'a dyn VectorStore,
    progress: &'a (dyn Fn(MoveProgress) + Send + Sync),
    so_far: MoveProgress,
    batch: Vec<(SourceState, Vec<Entry>)>,
    /// Number of passages in the batch.
    waiting: usize,
    copied: usize,
    sample: Sample,
}

impl Copy<'_> {
    async fn add(&mut self, state: SourceState, entries: Vec<Entry>) -> Result<(), RetrievalError> {
        self.waiting += entries.len();
        self.batch.push((state, entries));
        if self.waiting >= BATCH || self.batch.len() >= BATCH {
            self.flush().await?;
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), RetrievalError> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.to.replace_many(&self.batch).await?;
        self.copied += self.batch.len();
        self.so_far.done += self.batch.len();
        self.so_far.passages += self.waiting;
        self.batch.clear();
        self.waiting = 0;
        (self.progress)(self.so_far);
        Ok(())
    }
}

/// A sample of entries, evenly spread.
struct Sample {
    every: usize,
    seen: usize,
    kept: Vec<Entry>,
}

impl Sample {
    fn of(passages: usize) -> Self {
        Self {
            every: passages.div_ceil(SAMPLE).max(1),
            seen: 0,
            kept: Vec::new(),
        }
    }

    fn add(&mut self, entries: &[Entry]) {
        for entry in entries {
            if self.seen.is_multiple_of(self.every) {
                self.kept.push(entry.clone());
            }
            self.seen += 1;
        }
    }
}

async fn compare(
    wanted: &BTreeMap<String, SourceState>,
    to: &dyn VectorStore,
) -> Result<IndexStats, RetrievalError> {
    let failed = |reason: String| RetrievalError::Store {
        store: to.describe(),
        reason,
    };
    let found = to.sources().await?;
    for state in &found {
        if wanted.get(&state.source) != Some(state) {
            return Err(failed(format!(
                "after the migration, `{}` differs from what was written; check that no other process writes to the index",
                state.source
            )));
        }
    }
    let stats = to.stats().await?;
    let passages: usize = wanted.values().map(|state| state.passages).sum();
    if found.len() != wanted.len() || stats.passages != passages {
        return Err(failed(format!(
            "after the migration, the index has {} sources with {} passages instead of {} with {passages}",
            found.len(),
            stats.passages,
            wanted.len()
        )));
    }
    Ok(stats)
}

/// An entry must be found by its own vector, with its own text.
async fn find(to: &dyn VectorStore, entry: &Entry) -> Result<(), RetrievalError> {
    let filter = Filter {
        equal: vec![(Filter::SOURCE.to_owned(), entry.passage.source.clone().into())],
    };
    // Other entries may have the same vector.
    let found = to.nearest(&entry.vector, 50, &filter).await?;
    let same = |passage: &Passage| {
        // A store may replace characters that it does not support.
        passage.id == entry.passage.id && passage.text.chars().count() == entry.passage.text.chars().count()
    };
    let crowd = found.len() == 50 && found.iter().all(|scored| scored.score > 0.9999);
    if crowd
        || found
            .iter()
            .any(|scored| scored.score > 0.999 && same(&scored.passage))
    {
        return Ok(());
    }
    Err(RetrievalError::Store {
        store: to.describe(),
        reason: format!(
            "after the migration, passage `{}` of `{}` is not found by its own vector",
            entry.passage.id, entry.passage.source
        ),
    })
}
