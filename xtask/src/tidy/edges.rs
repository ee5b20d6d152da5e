//! Which crate may depend on which: the layers of the architecture, and who alone imports a library.

use super::Finding;
use super::rules::{self, Crate, FOR_TESTS, Importer, Tests};
use crate::workspace::{Dependency, File, Metadata, Package, Use};

/// Where the table of crates is.
const RULES: &str = "xtask/src/tidy/rules.rs";

pub(super) fn check(metadata: &Metadata, files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let names: Vec<&str> = metadata.members().map(Package::name).collect();
    for package in metadata.members() {
        let manifest = package.manifest();
        let Some(of) = find(package.name()) else {
            findings.push(Finding::new(
                &manifest,
                1,
                format!("crate `{}` is not in the table of crates", package.name()),
                "add it to xtask/src/tidy/rules.rs with its layer and the crates it may use",
            ));
            continue;
        };
        let text = files
            .iter()
            .find(|file| file.path == manifest)
            .and_then(|file| file.text.as_deref());
        for name in unused_grants(of, package) {
            let todo = "take it out of the row of the crate";
            findings.push(Finding::new(
                RULES,
                1,
                format!("`{}` may depend on `{name}`, and does not", of.name),
                todo,
            ));
        }
        for dependency in package.dependencies() {
            if let Some(refusal) = judge(of, dependency, &names) {
                let line = line_of(text.unwrap_or_default(), dependency);
                findings.push(Finding::new(&manifest, line, refusal.what, refusal.todo));
            }
        }
    }
    for of in rules::CRATES.iter().filter(|of| !names.contains(&of.name)) {
        let todo = "remove its row: the table holds the crates that exist";
        findings.push(Finding::new(
            RULES,
            1,
            format!("crate `{}` does not exist", of.name),
            todo,
        ));
    }
    findings
}

/// Crates that the table lets this one depend on, and that its manifest does not name.
fn unused_grants<'a>(of: &'a Crate, package: Package<'a>) -> impl Iterator<Item = &'static str> {
    let used = move |name: &str| {
        package
            .dependencies()
            .any(|dependency| dependency.package == name)
    };
    of.may_use.iter().copied().filter(move |name| !used(name))
}

struct Refusal {
    what: String,
    todo: String,
}

fn judge(of: &Crate, dependency: Dependency<'_>, members: &[&str]) -> Option<Refusal> {
    let Dependency { package, used, .. } = dependency;
    if of.name == rules::CONTRACT && used != Use::Dev && !rules::CONTRACT_MAY_USE.contains(&package) {
        return Some(Refusal {
            what: format!("the contract may not depend on `{package}`"),
            todo: format!("keep it to {}", rules::CONTRACT_MAY_USE.join(", ")),
        });
    }
    if members.contains(&package) {
        return (!edge_allowed(of, package, used)).then(|| Refusal {
            what: format!("`{}` (layer {}) may not depend on `{package}`", of.name, of.layer),
            todo: format!(
                "allowed: {}; the edges are in xtask/src/tidy/rules.rs",
                listed(of.may_use)
            ),
        });
    }
    let importer = rules::SOLE_IMPORTERS
        .iter()
        .find(|importer| importer.package == package)?;
    (!import_allowed(importer, of, used)).then(|| Refusal {
        what: format!("`{}` may not depend on `{package}`: {}", of.name, importer.why),
        todo: format!("allowed for: {}", listed(importer.crates)),
    })
}

fn edge_allowed(of: &Crate, to: &str, used: Use) -> bool {
    let for_tests = FOR_TESTS.contains(&to) && used == Use::Dev;
    let beneath = || find(to).is_some_and(|to| to.may_use.contains(&of.name));
    // Of itself for the features that its tests are about.
    let itself = of.name == to && used == Use::Dev;
    of.may_use.contains(&to) || itself || (for_tests && !beneath())
}

fn import_allowed(importer: &Importer, of: &Crate, used: Use) -> bool {
    importer.crates.contains(&of.name) || (used == Use::Dev && importer.tests == Tests::Anyone)
}

fn find(name: &str) -> Option<&'static Crate> {
    rules::CRATES.iter().find(|of| of.name == name)
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

/// The line of a manifest that declares this dependency.
fn line_of(manifest: &str, dependency: Dependency<'_>) -> usize {
    let mut kind = None;
    for (line, at) in manifest.lines().zip(1..) {
        if line.starts_with('[') {
            kind = match line.trim().trim_matches(['[', ']']) {
                "dependencies" => Some(Use::Normal),
                "dev-dependencies" => Some(Use::Dev),
                "build-dependencies" => Some(Use::Build),
                _ => None,
            };
        }
        let rest = line.strip_prefix(dependency.local);
        if kind == Some(dependency.used) && rest.is_some_and(|rest| rest.starts_with(['.', ' ', '='])) {
            return at;
        }
    }
    1
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::check;
    use crate::tidy::rules;
    use crate::workspace::{File, Metadata};

    /// The dependencies that the table grants a crate.
    fn granted(name: &str) -> Vec<Value> {
        let of = rules::CRATES.iter().find(|of| of.name == name);
        let granted = of.iter().flat_map(|of| of.may_use);
        granted.map(|on| json!({"name": on, "kind": null})).collect()
    }

    /// Findings for a workspace in which each crate depends on what it may use, and `name` on `on` besides.
    fn findings(name: &str, on: &str, kind: &Value) -> Vec<String> {
        let mut packages: Vec<Value> = rules::CRATES
            .iter()
            .filter(|of| of.name != name)
            .map(|of| json!({"name": of.name, "manifest_path": "Cargo.toml", "dependencies": granted(of.name)}))
            .collect();
        let mut dependencies = granted(name);
        dependencies.push(json!({"name": on, "kind": kind}));
        packages.push(json!({
            "name": name,
            "manifest_path": "crates/x/Cargo.toml",
            "dependencies": dependencies,
        }));
        let section = if kind == "dev" {
            "dev-dependencies"
        } else {
            "dependencies"
        };
        let manifest = format!("[{section}]\n{on}.workspace = true\n");
        let files = [File {
            path: "crates/x/Cargo.toml".to_owned(),
            text: Some(manifest),
        }];
        let found = check(&Metadata::from_json(json!({ "packages": packages })), &files);
        found
            .into_iter()
            .map(|finding| format!("{}:{} {}", finding.file, finding.line, finding.what))
            .collect()
    }

    #[test]
    fn an_edge_of_the_table_is_fine() {
        assert!(findings("holodeck-runner", "holodeck-eval", &Value::Null).is_empty());
        assert!(findings("holodeck-runner", "holodeck-testkit", &json!("dev")).is_empty());
        assert!(findings("holodeck-http", "reqwest", &Value::Null).is_empty());
        assert!(findings("holodeck-runner", "yaml_serde", &json!("dev")).is_empty());
    }

    #[test]
    fn a_grant_that_no_manifest_uses_is_refused() {
        let package = json!({"name": "holodeck-turn", "manifest_path": "Cargo.toml", "dependencies": [
            {"name": "holodeck-model", "kind": null}, {"name": "holodeck-events", "kind": null},
            {"name": "holodeck-documents", "kind": "dev"},
        ]});
        let found = check(&Metadata::from_json(json!({ "packages": [package] })), &[]);
        let unused: Vec<_> = found
            .iter()
            .filter(|finding| finding.what.ends_with("and does not"))
            .map(|finding| finding.what.as_str())
            .collect();
        assert_eq!(
            unused,
            ["`holodeck-turn` may depend on `holodeck-backend-api`, and does not"]
        );
    }

    #[test]
    fn any_other_edge_is_refused_at_its_line() {
        assert_eq!(
            findings("holodeck-runner", "holodeck-backend-openai", &Value::Null),
            ["crates/x/Cargo.toml:2 `holodeck-runner` (layer 3) may not depend on `holodeck-backend-openai`"]
        );
        assert_eq!(
            findings("holodeck-model", "holodeck-backend-api", &Value::Null).len(),
            1
        );
        assert_eq!(
            findings("holodeck-runner", "holodeck-backend-openai", &json!("dev")).len(),
            1
        );
    }

    #[test]
    fn testkit_is_for_tests_of_crates_it_does_not_build_on() {
        assert_eq!(
            findings("holodeck-runner", "holodeck-testkit", &Value::Null).len(),
            1
        );
        assert_eq!(
            findings("holodeck-http", "holodeck-testkit", &json!("dev")).len(),
            1
        );
        assert!(findings("xtask", "holodeck-testkit", &Value::Null).is_empty());
    }

    #[test]
    fn yaml_is_read_in_tests_of_crates_that_get_an_agent() {
        assert!(findings("holodeck-runner", "holodeck-yaml", &json!("dev")).is_empty());
        assert_eq!(
            findings("holodeck-runner", "holodeck-yaml", &Value::Null).len(),
            1
        );
        assert_eq!(
            findings("holodeck-model", "holodeck-yaml", &json!("dev")).len(),
            1
        );
    }

    #[test]
    fn libraries_have_sole_importers() {
        assert_eq!(findings("holodeck-cassette", "reqwest", &Value::Null).len(), 1);
        assert_eq!(findings("holodeck-eval", "anyhow", &json!("dev")).len(), 1);
        assert_eq!(findings("holodeck-model", "yaml_serde", &Value::Null).len(), 1);
    }

    #[test]
    fn the_contract_has_a_list_of_its_own() {
        assert_eq!(findings("holodeck-backend-api", "tokio", &Value::Null).len(), 1);
        assert!(findings("holodeck-backend-api", "tokio", &json!("dev")).is_empty());
    }

    #[test]
    fn table_and_workspace_name_the_same_crates() {
        let found = check(
            &Metadata::from_json(
                json!({"packages": [{"name": "holodeck-new", "manifest_path": "n/Cargo.toml"}]}),
            ),
            &[],
        );
        assert_eq!(found.len(), rules::CRATES.len() + 1);
        assert!(
            found
                .iter()
                .any(|finding| finding.what == "crate `holodeck-new` is not in the table of crates")
        );
    }
}
