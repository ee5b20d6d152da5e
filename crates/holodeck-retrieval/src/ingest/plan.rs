//! Compares an index with the current sources and decides what to add, replace and remove.

use std::collections::BTreeMap;

use crate::{EmbedderId, IndexInfo, RetrievalError, SourceState};

use super::ListedSource;

/// The work of an ingest, determined before it starts. All names are sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IngestPlan {
    /// Sources that are not in the index.
    pub added: Vec<String>,
    /// Sources with other content, or another way of splitting it.
    pub changed: Vec<String>,
    /// Sources that no longer exist.
    pub removed: Vec<String>,
    /// Pairs of a removed and an added source with the same content; both lists contain them too.
    pub renamed: Vec<(String, String)>,
    /// Sources that did not change.
    pub unchanged: Vec<String>,
    /// Sources that can't be read; the index keeps their previous passages.
    pub failed: Vec<SourceFailure>,
    pub(super) rebuild: Rebuild,
}

/// A source that could not be ingested.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{source_name}`: {reason}")]
pub struct SourceFailure {
    /// Its name.
    pub source_name: String,
    /// The reason; lowercase, no full stop.
    pub reason: String,
}

/// Whether an index is updated or rebuilt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IngestMode {
    /// Only changed sources are read and embedded.
    #[default]
    Update,
    /// The index is cleared first, even if it was built with other settings.
    Rebuild,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Rebuild {
    #[default]
    No,
    Yes,
}

impl IngestPlan {
    /// Whether the index is up to date.
    pub fn is_empty(&self) -> bool {
        self.rebuild == Rebuild::No
            && self.added.is_empty()
            && self.changed.is_empty()
            && self.removed.is_empty()
            && self.failed.is_empty()
    }

    /// Number of sources to read.
    pub fn to_read(&self) -> usize {
        self.added.len() + self.changed.len()
    }

    /// Compares the index with the current sources. `state` maps a content hash to a state hash.
    pub(super) fn compare(
        known: Vec<SourceState>,
        listed: Vec<ListedSource>,
        state: impl Fn(&str) -> String,
    ) -> Self {
        let mut plan = Self::default();
        let mut known: BTreeMap<String, String> = known
            .into_iter()
            .map(|state| (state.source, state.hash))
            .collect();
        let listed: BTreeMap<String, Result<String, String>> = listed
            .into_iter()
            .map(|listed| (listed.source, listed.content))
            .collect();
        let mut new = BTreeMap::new();
        for (source, content) in listed {
            let had = known.remove(&source);
            match content {
                Err(reason) => plan.failed.push(SourceFailure {
                    source_name: source,
                    reason,
                }),
                Ok(content) => {
                    let hash = state(&content);
                    match had {
                        None => {
                            new.insert(source.clone(), hash);
                            plan.added.push(source);
                        }
                        Some(had) if had == hash => plan.unchanged.push(source),
                        Some(_) => plan.changed.push(source),
                    }
                }
            }
        }
        for (source, hash) in known {
            let same = new.iter().find(|(_, new)| **new == hash);
            if let Some(to) = same.map(|(to, _)| to.clone()) {
                new.remove(&to);
                plan.renamed.push((source.clone(), to));
            }
            plan.removed.push(source);
        }
        plan
    }
}

/// Returns an error if vectors of `embedder` and pieces of `chunker` must not enter an index like `found`.
pub(super) fn check_same(
    found: &IndexInfo,
    embedder: &EmbedderId,
    chunker: &str,
) -> Result<(), RetrievalError> {
    let same_embedder = found.embedder.provider == embedder.provider
        && found.embedder.model == embedder.model
        && embedder
            .dimensions
            .is_none_or(|dimensions| dimensions == found.dimensions);
    let same_chunker = found.chunker == chunker;
    let describe = |embedder: &EmbedderId, chunker: &str| match (same_embedder, same_chunker) {
        (false, true) => embedder.to_string(),
        (true, false) => format!("chunks by {chunker}"),
        _ => format!("{embedder}, chunks by {chunker}"),
    };
    if same_embedder && same_chunker {
        return Ok(());
    }
    Err(RetrievalError::Mixed {
        found: describe(&found.embedder, &found.chunker),
        wanted: describe(embedder, chunker),
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn states(list: &[(&str, &str)]) -> Vec<SourceState> {
        list.iter()
            .map(|(source, hash)| SourceState {
                source: (*source).to_owned(),
                hash: format!("{hash}!"),
                passages: 1,
            })
            .collect()
    }

    fn list(list: &[(&str, Result<&str, &str>)]) -> Vec<ListedSource> {
        list.iter()
            .map(|(source, content)| ListedSource {
                source: (*source).to_owned(),
                content: content.map(str::to_owned).map_err(str::to_owned),
            })
            .collect()
    }

    #[test]
    fn every_source_is_in_the_list_it_belongs_to() {
        let plan = IngestPlan::compare(
            states(&[
                ("a", "1"),
                ("b", "2"),
                ("c", "3"),
                ("d", "4"),
                ("e", "5"),
                ("x", "4"),
            ]),
            list(&[
                ("z", Ok("4")),
                ("y", Ok("9")),
                ("b", Ok("2")),
                ("c", Ok("33")),
                ("e", Err("no")),
            ]),
            |content| format!("{content}!"),
        );
        let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(plan.added, names(&["y", "z"]));
        assert_eq!(plan.changed, names(&["c"]));
        assert_eq!(plan.removed, names(&["a", "d", "x"]));
        assert_eq!(plan.renamed, [("d".to_owned(), "z".to_owned())]);
        assert_eq!(plan.unchanged, names(&["b"]));
        assert_eq!(plan.failed[0].to_string(), "`e`: no");
        assert!(!plan.is_empty());
    }

    #[test]
    fn an_index_with_other_settings_is_refused_with_a_hint() {
        let id = |model: &str, dimensions| EmbedderId {
            provider: "openai".to_owned(),
            model: model.to_owned(),
            dimensions,
        };
        let found = IndexInfo {
            embedder: id("small", Some(3)),
            dimensions: 3,
            chunker: "structure, 800 tokens".to_owned(),
        };
        assert!(check_same(&found, &id("small", None), &found.chunker).is_ok());
        let refusal = |embedder: &EmbedderId, chunker: &str| {
            check_same(&found, embedder, chunker)
                .unwrap_err()
                .explanation()
                .text()
        };
        insta::assert_snapshot!(refusal(&id("large", Some(5)), &found.chunker), @r"
        the index was built with openai small (3 dimensions), not with openai large (5 dimensions)

        hint: rebuild it with `--force-ingest`
        ");
        insta::assert_snapshot!(refusal(&id("small", Some(3)), "token, 512 tokens"), @r"
        the index was built with chunks by structure, 800 tokens, not with chunks by token, 512 tokens

        hint: rebuild it with `--force-ingest`
        ");
        insta::assert_snapshot!(refusal(&id("small", Some(5)), "token, 512 tokens"), @r"
        the index was built with openai small (3 dimensions), chunks by structure, 800 tokens, not with openai small (5 dimensions), chunks by token, 512 tokens

        hint: rebuild it with `--force-ingest`
        ");
    }
}
