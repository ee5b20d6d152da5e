//! The workspace as Cargo and git see it.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::host;
pub(crate) use crate::host::root;

/// The output of `cargo metadata` for this platform.
pub(crate) struct Metadata(Value);

/// How a dependency is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Normal,
    Build,
    Dev,
}

/// One line of a manifest's dependency tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dependency<'a> {
    /// The package's own name, whatever the manifest renames it to.
    pub(crate) package: &'a str,
    /// The name the manifest gives it.
    pub(crate) local: &'a str,
    pub(crate) used: Use,
}

/// One package of the dependency graph.
#[derive(Clone, Copy)]
pub(crate) struct Package<'a>(&'a Value);

impl Metadata {
    pub(crate) fn load() -> Result<Self> {
        let target = host::output(host::command("rustc").arg("-vV"))?;
        let triple = target
            .lines()
            .find_map(|line| line.strip_prefix("host: "))
            .context("rustc names no host")?;
        let args = [
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--filter-platform",
            triple,
        ];
        let text = host::output(&mut host::cargo(args))?;
        Ok(Self(
            serde_json::from_str(&text).context("failed to read cargo metadata")?,
        ))
    }

    #[cfg(test)]
    pub(crate) fn from_json(json: Value) -> Self {
        Self(json)
    }

    /// Where Cargo puts what it builds.
    pub(crate) fn target_directory(&self) -> PathBuf {
        text(&self.0, "target_directory").into()
    }

    pub(crate) fn packages(&self) -> impl Iterator<Item = Package<'_>> {
        list(&self.0, "packages").map(Package)
    }

    /// The packages of this repository.
    pub(crate) fn members(&self) -> impl Iterator<Item = Package<'_>> {
        self.packages()
            .filter(|package| package.0.get("source").is_none_or(Value::is_null))
    }

    /// Names and versions of what `root` needs to be built, itself included, without its tests.
    pub(crate) fn tree(&self, root: &str) -> Vec<&str> {
        let nodes: Vec<&Value> = self
            .0
            .get("resolve")
            .map(|resolve| list(resolve, "nodes").collect())
            .unwrap_or_default();
        let start = self
            .members()
            .find(|package| package.name() == root)
            .map(Package::id);
        let mut seen: Vec<&str> = Vec::new();
        let mut queue: Vec<&str> = start.into_iter().collect();
        while let Some(id) = queue.pop() {
            if seen.contains(&id) {
                continue;
            }
            seen.push(id);
            let Some(node) = nodes.iter().find(|node| text(node, "id") == id) else {
                continue;
            };
            let built = list(node, "deps")
                .filter(|dep| list(dep, "dep_kinds").any(|kind| kind.get("kind") != Some(&"dev".into())));
            queue.extend(built.map(|dep| text(dep, "pkg")));
        }
        seen
    }
}

impl<'a> Package<'a> {
    pub(crate) fn name(self) -> &'a str {
        text(self.0, "name")
    }

    pub(crate) fn version(self) -> &'a str {
        text(self.0, "version")
    }

    pub(crate) fn id(self) -> &'a str {
        text(self.0, "id")
    }

    pub(crate) fn license(self) -> Option<&'a str> {
        self.0.get("license").and_then(Value::as_str)
    }

    pub(crate) fn description(self) -> Option<&'a str> {
        self.0.get("description").and_then(Value::as_str)
    }

    /// Whether it may be published: its manifest names no registries, and not none.
    pub(crate) fn is_published(self) -> bool {
        self.0.get("publish").is_none_or(Value::is_null)
    }

    /// The manifest's path below the workspace root.
    pub(crate) fn manifest(self) -> String {
        let path = Path::new(text(self.0, "manifest_path"));
        path.strip_prefix(root())
            .unwrap_or(path)
            .to_string_lossy()
            .into_owned()
    }

    pub(crate) fn has_library(self) -> bool {
        list(self.0, "targets").any(|target| list(target, "kind").any(|kind| kind == "lib"))
    }

    pub(crate) fn has_features(self) -> bool {
        self.0
            .get("features")
            .and_then(Value::as_object)
            .is_some_and(|features| !features.is_empty())
    }

    pub(crate) fn dependencies(self) -> impl Iterator<Item = Dependency<'a>> {
        list(self.0, "dependencies").map(|dependency| Dependency {
            package: text(dependency, "name"),
            local: dependency
                .get("rename")
                .and_then(Value::as_str)
                .unwrap_or(text(dependency, "name")),
            used: match dependency.get("kind").and_then(Value::as_str) {
                Some("dev") => Use::Dev,
                Some("build") => Use::Build,
                _ => Use::Normal,
            },
        })
    }
}

/// A file that git tracks, or would after `git add .`.
pub(crate) struct File {
    /// Path below the workspace root.
    pub(crate) path: String,
    /// Its text; `None` for what is not UTF-8.
    pub(crate) text: Option<String>,
}

/// The files of the repository, ignored ones left out.
pub(crate) fn files() -> Result<Vec<File>> {
    let args = [
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
        "--deduplicate",
    ];
    let names = host::output(host::command("git").args(args))?;
    let mut files = Vec::new();
    for path in names.split('\0').filter(|name| !name.is_empty()) {
        // A file that is deleted but not yet staged is still listed.
        let Ok(bytes) = std::fs::read(root().join(path)) else {
            continue;
        };
        files.push(File {
            path: path.to_owned(),
            text: String::from_utf8(bytes).ok(),
        });
    }
    Ok(files)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, key: &str) -> std::slice::Iter<'a, Value> {
    value
        .get(key)
        .and_then(Value::as_array)
        .map(|items| items.iter())
        .unwrap_or_default()
}
