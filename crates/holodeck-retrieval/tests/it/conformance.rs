//! The conformance checks that every store must pass.

use std::fmt::Write as _;
use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use holodeck_retrieval::VectorStore;

pub(crate) mod data;
mod keywords;
mod reading;
mod searching;
mod writing;

/// A place that holds any number of indexes.
#[async_trait]
pub(crate) trait Place: Send + Sync {
    /// The index of this name; opening it twice gives the same index, as for two processes.
    async fn open(&self, name: &str) -> Arc<dyn VectorStore>;

    /// Promises the store does not make, each with its reason in the store's documentation.
    fn missing_promises(&self) -> &'static [Promise] {
        &[]
    }
}

/// Promises that a store may leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// No reader sees half of a replacement.
    Atomic,
    /// Words match other forms of themselves.
    Stems,
}

/// The input of one check.
pub(crate) struct Case<'p> {
    pub(crate) place: &'p dyn Place,
    pub(crate) name: &'static str,
}

impl Case<'_> {
    pub(crate) async fn store(&self) -> Arc<dyn VectorStore> {
        self.place.open(self.name).await
    }

    pub(crate) fn promises(&self, promise: Promise) -> bool {
        !self.place.missing_promises().contains(&promise)
    }
}

type Check = for<'c> fn(&'c Case<'_>) -> BoxFuture<'c, ()>;

macro_rules! checks {
    ($($module:ident :: $name:ident),* $(,)?) => {
        &[$((stringify!($name), {
            fn check<'c>(case: &'c Case<'_>) -> BoxFuture<'c, ()> { $module::$name(case).boxed() }
            check as Check
        })),*]
    };
}

pub(crate) type Checks = &'static [(&'static str, Check)];

pub(crate) const READING: Checks = checks![
    reading::an_index_that_was_never_filled_is_empty,
    reading::what_is_put_in_comes_out,
    reading::any_text_and_any_metadata_come_out,
    reading::sources_are_counted,
];

pub(crate) const WRITING: Checks = checks![
    writing::a_source_is_replaced_whole,
    writing::many_sources_at_once,
    writing::a_source_without_passages_is_remembered,
    writing::removed_sources_are_gone,
    writing::a_cleared_index_takes_another_embedder,
    writing::what_was_made_otherwise_is_refused,
    writing::a_writer_that_others_overtook_is_refused,
    writing::wrong_vectors_change_nothing,
    writing::thousands_at_once,
    writing::two_writers,
    writing::readers_see_all_of_a_replacement_or_nothing,
];

pub(crate) const SEARCHING: Checks = checks![
    searching::the_nearest_are_those_of_brute_force,
    searching::equal_ones_are_ordered_by_id,
    searching::filters_hold,
    searching::a_filtered_search_finds_what_is_far,
    searching::one_dimension_is_enough,
    searching::what_can_not_be_asked_is_an_error,
    searching::the_same_question_has_the_same_answer,
];

pub(crate) const KEYWORDS: Checks = checks![
    keywords::rare_words_count_more,
    keywords::no_character_is_query_syntax,
    keywords::words_are_found_in_titles_and_context,
    keywords::other_forms_of_a_word_are_found,
    keywords::phrases_are_found_word_for_word,
    keywords::keywords_are_filtered_and_limited,
];

/// Runs these checks and panics with the list of failed ones.
pub(crate) async fn check(place: &dyn Place, checks: Checks) {
    let mut failed = String::new();
    for (name, check) in checks {
        let case = Case { place, name };
        let done = std::panic::AssertUnwindSafe(check(&case)).catch_unwind().await;
        if let Err(panic) = done {
            let why = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            writeln!(failed, "{name}: {}", why.unwrap_or_default()).unwrap();
        }
    }
    assert!(failed.is_empty(), "failed checks:\n{failed}");
}
