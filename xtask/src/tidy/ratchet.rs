//! Numbers that may only fall: faults that are too many to remove at once.
//!
//! Each is checked for being exact. A number that is too low means that something was added; one that is too high would
//! let the next addition pass, so it has to be lowered with the change that reduces it.

use super::place::Place;
use super::rules::{self, Ratchet};
use super::{Finding, docs, exports, modules};
use crate::workspace::File;

/// Where the numbers are.
const RULES: &str = "xtask/src/tidy/rules/ratchets.rs";

pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let ratchets = rules::RATCHETS.iter();
    ratchets
        .filter_map(|ratchet| judge(ratchet, count(ratchet, files).len()))
        .collect()
}

/// Everything that the ratchet of this name counts.
pub(super) fn list(name: &str, files: &[File]) -> Option<Vec<Place>> {
    let ratchet = rules::RATCHETS.iter().find(|ratchet| ratchet.name == name)?;
    Some(count(ratchet, files))
}

fn count(ratchet: &Ratchet, files: &[File]) -> Vec<Place> {
    match ratchet.name {
        rules::MODULE_DOCS => docs::missing(files),
        rules::NOMINAL_WHAT => docs::nominal_what(files),
        rules::CIRCLES => modules::circles(files),
        rules::EXPORTS => exports::unused(files),
        // A test makes sure that there is no other.
        _ => Vec::new(),
    }
}

fn judge(ratchet: &Ratchet, count: usize) -> Option<Finding> {
    let Ratchet { name, at, what, todo } = ratchet;
    let todo = match count.cmp(at) {
        std::cmp::Ordering::Equal => return None,
        std::cmp::Ordering::Greater => {
            format!("{todo}; `cargo xtask tidy --list {name}` shows all of them")
        }
        std::cmp::Ordering::Less => {
            format!("lower the number of `{name}` to {count}, so that it stays there")
        }
    };
    let what = format!("{what}: {count}, the number here is {at}");
    Some(Finding::new(RULES, 1, what, todo))
}

#[cfg(test)]
mod tests {
    use super::{count, judge, list, rules};
    use crate::workspace::File;

    #[test]
    fn a_number_must_be_exact() {
        let ratchet = rules::Ratchet {
            name: "x",
            at: 3,
            what: "bad things",
            todo: "remove one",
        };
        assert_eq!(judge(&ratchet, 3), None);
        let risen = judge(&ratchet, 4).unwrap();
        assert_eq!(risen.what, "bad things: 4, the number here is 3");
        assert_eq!(
            risen.todo,
            "remove one; `cargo xtask tidy --list x` shows all of them"
        );
        let fallen = judge(&ratchet, 2).unwrap();
        assert_eq!(
            fallen.todo,
            "lower the number of `x` to 2, so that it stays there"
        );
    }

    /// One file that breaks every rule that has a ratchet.
    #[test]
    fn every_ratchet_counts_something() {
        let files = [
            ("crates/a/src/lib.rs", "mod b;\nmod c;\npub use b::B;\n"),
            (
                "crates/a/src/b.rs",
                "use crate::c::C;\n/// What it is.\npub struct B;\n",
            ),
            ("crates/a/src/c.rs", "use crate::B;\n"),
        ]
        .map(|(path, text)| File {
            path: path.to_owned(),
            text: Some(text.to_owned()),
        });
        for ratchet in rules::RATCHETS {
            assert!(!count(ratchet, &files).is_empty(), "{}", ratchet.name);
            assert!(list(ratchet.name, &files).is_some());
        }
        assert_eq!(list("no such ratchet", &files), None);
    }
}
