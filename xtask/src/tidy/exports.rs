//! Names that the `lib.rs` of a crate re-exports although no code outside of that crate names them.
//!
//! Outside is the code and the tests of other crates, `xtask`, the projects in `fixtures`, and the examples in docs, also
//! the crate's own. The crate's own tests are not. A name counts where a path leads to it, so that a thing of the same name
//! elsewhere does not; the names of `pub use module::*` are not in `lib.rs` and are not counted.

use std::collections::{BTreeMap, BTreeSet};

use super::imports::{self, Import, Names};
use super::place::Place;
use super::{crate_of, is_rust, scan};
use crate::workspace::File;

/// The re-exported names that are named nowhere outside.
pub(super) fn unused(files: &[File]) -> Vec<Place> {
    let exports = exports(files);
    let named = named(files, &exports);
    let mut found = Vec::new();
    for (of, export) in &exports {
        for (name, line) in &export.names {
            if !named.contains(&(of.clone(), name.clone())) {
                let what = format!("`{name}` is named nowhere outside of {of}");
                found.push(Place::new(&export.path, *line, what));
            }
        }
    }
    found
}

/// The re-exports of one crate.
#[derive(Default)]
struct Exports {
    /// Of its `lib.rs`.
    path: String,
    /// With the line of each.
    names: BTreeMap<String, usize>,
    /// Where they come from.
    imports: Vec<Import>,
}

/// By the name of the crate in code.
fn exports(files: &[File]) -> BTreeMap<String, Exports> {
    let mut exports = BTreeMap::new();
    for file in files {
        let (Some(of), Some(text)) = (crate_of(&file.path), &file.text) else {
            continue;
        };
        if file.path != format!("crates/{of}/src/lib.rs") {
            continue;
        }
        let imports = imports::read(text, false).imports;
        let public: Vec<Import> = imports.into_iter().filter(|import| import.public).collect();
        let names = public
            .iter()
            .filter(|import| import.name != "*")
            .map(|import| (import.name.clone(), line_of(text, &import.name)))
            .collect();
        let path = file.path.clone();
        let imports = public;
        exports.insert(of.replace('-', "_"), Exports { path, names, imports });
    }
    exports
}

fn line_of(text: &str, name: &str) -> usize {
    let lines = text.lines().zip(1..);
    let last = lines.filter(|(line, _)| scan::has_word(line, name)).last();
    last.map_or(1, |(_, at)| at)
}

/// Every crate and name of it that some code outside of that crate names.
fn named(files: &[File], exports: &BTreeMap<String, Exports>) -> BTreeSet<(String, String)> {
    let mut uses = Uses {
        exports,
        named: BTreeSet::new(),
    };
    for file in files {
        let Some(text) = &file.text else { continue };
        let of = crate_of(&file.path).map(|of| of.replace('-', "_"));
        if is_rust(&file.path) {
            uses.add(of.as_deref(), &imports::read(text, true));
        }
        if is_rust(&file.path) || is_markdown(&file.path) {
            let examples = imports::examples(&file.path, text);
            uses.add(None, &imports::read(&examples, true));
        }
    }
    uses.named
}

fn is_markdown(path: &str) -> bool {
    std::path::Path::new(path)
        .extension()
        .is_some_and(|extension| extension == "md")
}

struct Uses<'a> {
    exports: &'a BTreeMap<String, Exports>,
    named: BTreeSet<(String, String)>,
}

impl Uses<'_> {
    /// Adds the names in code of the crate `inside`, if it is of one.
    fn add(&mut self, inside: Option<&str>, names: &Names) {
        for import in &names.imports {
            self.follow(inside, &import.path);
            if import.name == "*" {
                self.add_all(&import.path);
            }
        }
        for path in &names.paths {
            self.follow(inside, path);
            // A module or a crate under the name that the file gives it.
            let import = names
                .imports
                .iter()
                .find(|import| Some(&import.name) == path.first());
            if let Some(import) = import {
                let rest = path.get(1..).unwrap_or_default();
                self.follow(inside, &[&import.path, rest].concat());
            }
        }
    }

    /// Adds the name that a path takes from a crate, and those that it passes on the way: `holodeck::model::Agent` takes
    /// `Agent` from `holodeck_model`.
    fn follow(&mut self, inside: Option<&str>, path: &[String]) {
        let mut path = path.to_vec();
        for _ in 0..10 {
            let [of, name, rest @ ..] = path.as_slice() else {
                return;
            };
            let Some(export) = self.exports.get(of) else {
                return;
            };
            if inside != Some(of) {
                self.named.insert((of.clone(), name.clone()));
            }
            let Some(import) = export.imports.iter().find(|import| import.name == *name) else {
                return;
            };
            path = [&import.path, rest].concat();
        }
    }

    /// Adds every name of a crate: after `use that::*` any of them may be meant.
    fn add_all(&mut self, path: &[String]) {
        if let [of] = path
            && let Some(export) = self.exports.get(of)
        {
            let all = export.names.keys().map(|name| (of.clone(), name.clone()));
            self.named.extend(all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::unused;
    use crate::workspace::File;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<File> = files
            .iter()
            .map(|(path, text)| File {
                path: (*path).to_owned(),
                text: Some((*text).to_owned()),
            })
            .collect();
        let found = unused(&files).into_iter();
        found
            .map(|place| format!("{}: {}", place.line, place.what))
            .collect()
    }

    const A: (&str, &str) = (
        "crates/a/src/lib.rs",
        "mod m;\npub use m::{One, Two};\nuse m::Private;\n",
    );

    #[test]
    fn a_name_that_only_its_crate_uses_is_found() {
        let own_test = ("crates/a/tests/it/main.rs", "use a::{One, Two};");
        let user = ("crates/b/src/x.rs", "fn f() { a::One::new(); }");
        assert_eq!(
            found(&[A, own_test, user]),
            ["2: `Two` is named nowhere outside of a"]
        );
    }

    #[test]
    fn tests_examples_and_fixtures_of_others_count() {
        let test = (
            "crates/b/src/x.rs",
            "#[cfg(test)]\nmod tests {\n use a::Two;\n}\n",
        );
        let example = (
            "crates/a/src/m.rs",
            "/// ```\n/// use a::One;\n/// ```\npub struct One;\n",
        );
        assert_eq!(found(&[A, test, example]), Vec::<String>::new());
        let fixture = ("fixtures/embed/x/src/main.rs", "use a::*;");
        assert_eq!(found(&[A, fixture]), Vec::<String>::new());
    }

    #[test]
    fn a_name_may_be_reached_through_another_crate() {
        let facade = ("crates/b/src/lib.rs", "pub use a as inner;\n");
        let user = (
            "crates/c/src/x.rs",
            "use b::inner;\nuse b::inner::One;\nfn f() { inner::Two }",
        );
        assert_eq!(found(&[A, facade, user]), Vec::<String>::new());
        let user = ("crates/c/src/x.rs", "use b::inner::One;");
        assert_eq!(
            found(&[A, facade, user]),
            ["2: `Two` is named nowhere outside of a"]
        );
    }

    #[test]
    fn names_of_a_glob_are_not_counted() {
        let lib = ("crates/a/src/lib.rs", "mod m;\npub use m::*;\n");
        assert_eq!(
            found(&[lib, ("crates/a/src/m.rs", "pub struct One;\n")]),
            Vec::<String>::new()
        );
    }
}
