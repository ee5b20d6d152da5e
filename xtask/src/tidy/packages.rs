//! Rules for dependencies from outside: banned packages, sources, licences, how many.

use std::collections::BTreeMap;

use super::rules::{BANNED, LICENCES, PACKAGE_BUDGETS, TOLERATED_DUPLICATES};
use super::{Finding, licence};
use crate::workspace::{File, Metadata};

const LOCK: &str = "Cargo.lock";
const PRODUCT: &str = "holodeck-cli";

pub(super) fn check(metadata: &Metadata, files: &[File]) -> Vec<Finding> {
    let lock = files
        .iter()
        .find(|file| file.path == LOCK)
        .and_then(|file| file.text.as_deref());
    let Some(lock) = lock else {
        return vec![Finding::new(
            LOCK,
            1,
            "the lock file is missing",
            "commit Cargo.lock",
        )];
    };
    let mut findings = check_lock(lock);
    for package in metadata.packages() {
        let licence = package.license().unwrap_or("no licence");
        if !licence::allowed(licence, LICENCES) {
            findings.push(Finding::new(
                LOCK,
                line_of(lock, package.name()),
                format!("`{}` is under {licence}", package.name()),
                format!(
                    "use another package (`cargo tree -i {}@{}`), or add the licence to \
                     xtask/src/tidy/rules.rs if the project accepts it",
                    package.name(),
                    package.version(),
                ),
            ));
        }
    }
    for (name, budget) in PACKAGE_BUDGETS {
        let count = metadata.tree(name).len();
        if count > *budget {
            let what = format!("{name} is built from {count} packages, the budget is {budget}");
            let todo = "drop a dependency or put it behind a feature";
            findings.push(Finding::new(LOCK, 1, what, todo));
        }
    }
    findings
}

/// How many packages the product is built from, its own included.
pub(super) fn default_tree(metadata: &Metadata) -> usize {
    metadata.tree(PRODUCT).len()
}

/// Packages that are in the product's tree more than once.
pub(super) fn notes(metadata: &Metadata) -> Vec<String> {
    let tree = metadata.tree(PRODUCT);
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in metadata.packages().filter(|package| tree.contains(&package.id())) {
        versions
            .entry(package.name())
            .or_default()
            .push(package.version());
    }
    versions
        .into_iter()
        .filter(|(name, versions)| versions.len() > 1 && !TOLERATED_DUPLICATES.contains(name))
        .map(|(name, versions)| format!("`{name}` is in the tree as {}", versions.join(" and ")))
        .collect()
}

fn check_lock(lock: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, at) in lock.lines().zip(1..) {
        if let Some(name) = line.strip_prefix("name = ").map(|name| name.trim_matches('"'))
            && let Some((_, why)) = BANNED.iter().find(|(banned, _)| *banned == name)
        {
            let todo = format!("see who brings it: `cargo tree -i {name} --target all`");
            findings.push(Finding::new(LOCK, at, format!("`{name}` is banned: {why}"), todo));
        }
        if line.starts_with("source = \"git+") {
            let todo = "use a released version from the registry";
            findings.push(Finding::new(
                LOCK,
                at,
                "a package comes from a git repository",
                todo,
            ));
        }
    }
    findings
}

fn line_of(lock: &str, name: &str) -> usize {
    let wanted = format!("name = \"{name}\"");
    lock.lines()
        .zip(1..)
        .find_map(|(line, at)| (line == wanted).then_some(at))
        .unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{check, check_lock, notes};
    use crate::workspace::{File, Metadata};

    #[test]
    fn banned_packages_and_git_sources() {
        let lock = "[[package]]\nname = \"aws-lc-sys\"\nversion = \"0.1.0\"\n\n\
            [[package]]\nname = \"fork\"\nsource = \"git+https://example.org/fork\"\n";
        let lines: Vec<usize> = check_lock(lock).iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [2, 7]);
        assert_eq!(
            check_lock("name = \"yaml_serde\"\nsource = \"registry+https://example.org\"\n"),
            []
        );
    }

    #[test]
    fn licences() {
        let metadata = Metadata::from_json(json!({"packages": [
            {"name": "good", "version": "1.0.0", "license": "MIT"},
            {"name": "bad", "version": "1.0.0", "license": "GPL-3.0"},
            {"name": "silent", "version": "1.0.0"},
        ]}));
        let lock = "[[package]]\nname = \"good\"\n[[package]]\nname = \"bad\"\n".to_owned();
        let files = [File {
            path: "Cargo.lock".to_owned(),
            text: Some(lock),
        }];
        let found: Vec<_> = check(&metadata, &files)
            .into_iter()
            .map(|finding| (finding.line, finding.what))
            .collect();
        assert_eq!(
            found,
            [
                (4, "`bad` is under GPL-3.0".to_owned()),
                (1, "`silent` is under no licence".to_owned())
            ]
        );
    }

    #[test]
    fn a_crate_over_its_budget_is_a_finding() {
        let metadata = |count: usize| {
            let others: Vec<String> = (1..count).map(|number| format!("p{number}")).collect();
            let package =
                |name: &str| json!({"name": name, "id": name, "version": "1.0.0", "license": "MIT"});
            let mut packages = vec![package("holodeck-backend-claude")];
            packages.extend(others.iter().map(|name| package(name)));
            let deps: Vec<_> = others
                .iter()
                .map(|name| json!({"pkg": name, "dep_kinds": [{"kind": null}]}))
                .collect();
            Metadata::from_json(json!({
                "packages": packages,
                "resolve": {"nodes": [{"id": "holodeck-backend-claude", "deps": deps}]},
            }))
        };
        let files = [File {
            path: "Cargo.lock".to_owned(),
            text: Some(String::new()),
        }];
        assert_eq!(check(&metadata(91), &files).len(), 0);
        let found = check(&metadata(92), &files);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].what.contains("92 packages, the budget is 91"));
    }

    #[test]
    fn the_tree_leaves_out_what_only_tests_need() {
        let dep = |name: &str, kind: &str| {
            let kind = if kind.is_empty() { json!(null) } else { json!(kind) };
            json!({"pkg": name, "dep_kinds": [{"kind": kind}]})
        };
        let metadata = Metadata::from_json(json!({
            "packages": [
                {"name": "holodeck-cli", "id": "cli", "version": "0.1.0"},
                {"name": "twice", "id": "twice1", "version": "1.0.0", "source": "r"},
                {"name": "twice", "id": "twice2", "version": "2.0.0", "source": "r"},
                {"name": "insta", "id": "insta", "version": "1.0.0", "source": "r"},
            ],
            "resolve": {"nodes": [
                {"id": "cli", "deps": [dep("twice1", ""), dep("insta", "dev")]},
                {"id": "twice1", "deps": [dep("twice2", "build")]},
                {"id": "twice2", "deps": []},
                {"id": "insta", "deps": []},
            ]},
        }));
        assert_eq!(super::default_tree(&metadata), 3);
        assert_eq!(notes(&metadata), ["`twice` is in the tree as 1.0.0 and 2.0.0"]);
    }
}
