//! The stored outcomes are those of the lists that are run, and a program that ends is noticed at once.

use std::collections::BTreeSet;
use std::time::Duration;

use super::child::{Listening, free_port};
use super::{models, servers};
use crate::soak::outcomes::stored;
use crate::{host, smoke};

#[test]
fn every_stored_outcome_is_of_something_that_is_run_and_everything_that_is_run_has_one() {
    let models: Vec<_> = models::programs()
        .into_iter()
        .map(|name| (name, String::new()))
        .collect();
    assert_eq!(stored("models"), models);
    let servers: Vec<_> = servers::rows()
        .into_iter()
        .map(|(name, over)| (name, over.to_owned()))
        .collect();
    assert!(servers.len() >= 12, "{}", servers.len());
    assert_eq!(stored("servers"), servers);
    let unique: BTreeSet<_> = servers.iter().collect();
    assert_eq!(unique.len(), servers.len());
}

#[test]
fn the_stored_releases_of_the_cli_have_the_pinned_and_the_oldest_one() {
    let stored = stored("clis");
    for version in smoke::named_clis() {
        let name = (format!("Claude Code {version}"), String::new());
        assert!(stored.contains(&name), "{name:?} in {stored:?}");
    }
    // One more: what the registry served as the newest one then.
    assert!(stored.len() <= smoke::named_clis().len() + 1, "{stored:?}");
}

#[test]
fn a_program_that_ends_before_it_listens_is_an_error_with_its_last_lines() {
    let mut command = host::command("sh");
    command.args(["-c", "echo listening soon; echo no master key >&2; exit 3"]);
    let port = free_port().unwrap();
    let Err(error) = Listening::start(
        command,
        tempfile::tempdir().unwrap(),
        port,
        Duration::from_mins(10),
    ) else {
        panic!("nothing listens there");
    };
    let error = format!("{error:#}");
    assert!(error.contains("no master key") && error.contains('3'), "{error}");
}
