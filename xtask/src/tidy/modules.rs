//! Import circles among the modules of one crate.
//!
//! A circle is a set of two or more modules of which each imports every other, directly or through others, so that there is
//! no order in which to read them. Counted are the circles among the modules at the top of a crate, each with everything
//! below it, and then those among the modules of every folder; otherwise a circle would disappear by being moved into a
//! folder. A name that is re-exported belongs to the module that defines it: `use crate::{A, B}` does not import everything
//! that `lib.rs` names. A module and its own folder may use each other. Tests do not count.

use std::collections::{BTreeMap, BTreeSet};

use super::imports::{self, Import, Names};
use super::place::Place;
use super::{crate_of, is_rust};
use crate::workspace::File;

/// Re-exports may lead in a circle, too.
const MOST_STEPS: usize = 20;

/// The path of a module below its crate; empty for the root.
type Module = Vec<String>;

/// A circle, with the modules in it.
pub(super) fn circles(files: &[File]) -> Vec<Place> {
    let mut crates: BTreeMap<&str, Tree> = BTreeMap::new();
    for file in files {
        let (Some(of), Some(text)) = (crate_of(&file.path), &file.text) else {
            continue;
        };
        if let Some(module) = module_of(&file.path) {
            let names = imports::read(text, false);
            crates.entry(of).or_default().0.insert(module, names);
        }
    }
    let found = crates.iter().flat_map(|(of, tree)| {
        tree.circles().into_iter().map(move |(parent, circle)| {
            let path = [&["crate".to_owned()], parent.as_slice()].concat().join("::");
            let what = format!("in {path}: {}", circle.join(", "));
            let folder = if *of == "xtask" { "" } else { "crates/" };
            Place::new(&format!("{folder}{of}/src"), 1, what)
        })
    });
    found.collect()
}

/// The module of a file in `src`: `crates/a/src/b/c.rs` → `b::c`.
fn module_of(path: &str) -> Option<Module> {
    if !is_rust(path) {
        return None;
    }
    let (folder, below) = path.split_once("/src/")?;
    if folder.contains("/tests") {
        return None;
    }
    let module: Module = below
        .trim_end_matches(".rs")
        .split('/')
        .map(str::to_owned)
        .collect();
    match module.last().map(String::as_str) {
        Some("tests") => None,
        Some("lib" | "main") if module.len() == 1 => Some(Vec::new()),
        _ => Some(module),
    }
}

/// The modules of one crate with their names.
#[derive(Default)]
struct Tree(BTreeMap<Module, Names>);

/// A name inside the crate: the module that has it, and whether it is that module itself.
struct Target {
    module: Module,
    is_module: bool,
}

impl Tree {
    /// Circles with the module directly above them.
    fn circles(&self) -> Vec<(Module, Vec<String>)> {
        let arrows = self.arrows();
        let parents: BTreeSet<&[String]> = self
            .0
            .keys()
            .filter_map(|module| Some(module.split_last()?.1))
            .collect();
        let mut found = Vec::new();
        for parent in parents {
            let child = |module: &Module| module.strip_prefix(parent)?.first().cloned();
            let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
            for (from, to) in &arrows {
                if let (Some(from), Some(to)) = (child(from), child(to))
                    && from != to
                {
                    graph.entry(from).or_default().insert(to);
                }
            }
            found.extend(
                components(&graph)
                    .into_iter()
                    .map(|circle| (parent.to_vec(), circle)),
            );
        }
        found
    }

    /// Which module uses which.
    fn arrows(&self) -> BTreeSet<(Module, Module)> {
        let mut arrows = BTreeSet::new();
        for (module, names) in &self.0 {
            let imports = names.imports.iter().map(|import| &import.path);
            for path in imports.chain(&names.paths) {
                let target = self.resolve(module, path, 0).map(|target| target.module);
                arrows.extend(target.map(|target| (module.clone(), target)));
            }
        }
        arrows
    }

    /// The module inside the crate that defines the end of `path`, as `from` writes it; `None` for other crates.
    fn resolve(&self, from: &Module, path: &[String], steps: usize) -> Option<Target> {
        let (first, rest) = path.split_first()?;
        let mut base = from.clone();
        match first.as_str() {
            "crate" => self.walk(Vec::new(), rest, steps),
            "self" => self.walk(base, rest, steps),
            "super" => {
                base.pop();
                let more = rest.iter().take_while(|segment| *segment == "super").count();
                base.truncate(base.len().saturating_sub(more));
                self.walk(base, rest.get(more..)?, steps)
            }
            _ => {
                base.push(first.clone());
                self.0.contains_key(&base).then(|| self.walk(base, rest, steps))?
            }
        }
    }

    /// Follows the segments of a path from `module`.
    fn walk(&self, mut module: Module, path: &[String], steps: usize) -> Option<Target> {
        if steps > MOST_STEPS {
            return None;
        }
        for (at, segment) in path.iter().enumerate() {
            let mut child = module.clone();
            child.push(segment.clone());
            if self.0.contains_key(&child) {
                module = child;
                continue;
            }
            let names = self.0.get(&module)?;
            if let Some(import) = names.imports.iter().find(|import| import.name == *segment) {
                let target = self.resolve(&module, &import.path, steps + 1)?;
                if target.is_module {
                    return self.walk(target.module, path.get(at + 1..)?, steps + 1);
                }
                return Some(target);
            }
            let globs = names.imports.iter().filter(|import| import.name == "*");
            let through_glob = globs
                .filter(|_| !names.items.contains_key(segment))
                .filter_map(|import| self.resolve(&module, &import.path, steps + 1))
                .find(|target| target.module != module && self.has(&target.module, segment, steps));
            if let Some(target) = through_glob {
                return self.walk(target.module, path.get(at..)?, steps + 1);
            }
            return Some(Target {
                module,
                is_module: false,
            });
        }
        Some(Target {
            module,
            is_module: true,
        })
    }

    /// Whether `module` has this name, also through the globs in it.
    fn has(&self, module: &Module, name: &str, steps: usize) -> bool {
        let Some(names) = self.0.get(module) else {
            return false;
        };
        let is_imported = |import: &Import| {
            let through = || self.resolve(module, &import.path, steps + 1);
            import.name == name
                || (import.name == "*" && through().is_some_and(|of| self.has(&of.module, name, steps + 1)))
        };
        steps < MOST_STEPS && (names.items.contains_key(name) || names.imports.iter().any(is_imported))
    }
}

/// Sets of two or more nodes that reach each other.
fn components(graph: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        graph.keys().map(|from| (from, reachable(graph, from))).collect();
    let reaches = |from: &String, to: &String| reached.get(from).is_some_and(|seen| seen.contains(to));
    let mut done: BTreeSet<&String> = BTreeSet::new();
    let mut found = Vec::new();
    for node in graph.keys() {
        let circle: Vec<&String> = graph
            .keys()
            .filter(|other| reaches(node, other) && reaches(other, node))
            .collect();
        if circle.len() > 1 && !done.contains(node) {
            done.extend(&circle);
            found.push(circle.into_iter().cloned().collect());
        }
    }
    found
}

fn reachable<'a>(graph: &'a BTreeMap<String, BTreeSet<String>>, from: &String) -> BTreeSet<&'a String> {
    let mut seen = BTreeSet::new();
    let mut queue: Vec<&String> = graph.get(from).into_iter().flatten().collect();
    while let Some(node) = queue.pop() {
        if seen.insert(node) {
            queue.extend(graph.get(node).into_iter().flatten());
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::circles;
    use crate::workspace::File;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<File> = files
            .iter()
            .map(|(name, text)| File {
                path: format!("crates/x/src/{name}.rs"),
                text: Some((*text).to_owned()),
            })
            .collect();
        circles(&files).into_iter().map(|place| place.what).collect()
    }

    const LIB: (&str, &str) = (
        "lib",
        "mod a; mod b; mod c; pub use a::A; pub use b::B; pub use c::C;",
    );

    #[test]
    fn modules_that_import_each_other_are_one_circle() {
        let b = ("b", "use crate::c::C; pub struct B;");
        let c = ("c", "pub struct C; fn f() { crate::a::g(); }");
        let a = ("a", "use super::b::B; pub struct A; pub fn g() {}");
        assert_eq!(found(&[LIB, a, b, c]), ["in crate: a, b, c"]);
        let c = ("c", "pub struct C;");
        assert_eq!(found(&[LIB, a, b, c]), Vec::<String>::new());
    }

    #[test]
    fn a_re_exported_name_belongs_to_the_module_that_defines_it() {
        let a = ("a", "use crate::{B, C}; pub struct A;");
        let b = ("b", "use crate::C; pub struct B;");
        let c = ("c", "pub struct C;");
        assert_eq!(found(&[LIB, a, b, c]), Vec::<String>::new());
        let c = ("c", "use crate::A; pub struct C;");
        assert_eq!(found(&[LIB, a, b, c]), ["in crate: a, b, c"]);
        let lib = ("lib", "mod a; mod b; pub use a::*; pub use b::B;");
        let a = ("a", "pub use inner::*; mod inner; use crate::B;");
        let inner = ("a/inner", "pub struct A;");
        assert_eq!(
            found(&[lib, a, inner, ("b", "use crate::A; pub struct B;")]),
            ["in crate: a, b"]
        );
    }

    #[test]
    fn modules_of_a_folder_may_have_a_circle_of_their_own() {
        let a = ("a", "mod one; mod two;");
        let one = ("a/one", "use super::two::Two; pub struct One;");
        let two = ("a/two", "use super::one::One; pub struct Two;");
        assert_eq!(found(&[LIB, a, one, two]), ["in crate::a: one, two"]);
    }

    #[test]
    fn tests_and_other_crates_make_no_circle() {
        let a = (
            "a",
            "use y::b::B; pub struct A;\n#[cfg(test)]\nmod tests { use crate::B; }\n",
        );
        let b = ("b", "use crate::A; pub struct B;");
        assert_eq!(
            found(&[LIB, a, b, ("a/tests", "use crate::B;")]),
            Vec::<String>::new()
        );
    }
}
