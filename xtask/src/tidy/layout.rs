//! Which files there are, how long, under which names.

use super::rules::{EMPTY_NAMES, PRODUCT_LINES, README_LINES, SOFT_LINES, TEST_LINES};
use super::{Finding, crate_of, is_rust, size};
use crate::workspace::File;

pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        findings.extend(check_name(&file.path));
        let Some(text) = &file.text else { continue };
        let lines = text.lines().count();
        let limit = most_lines(&file.path);
        if is_rust(&file.path) && lines > limit {
            let todo = "split it by what it does; long tests move to foo/tests.rs";
            let what = format!("{lines} lines, the limit is {limit}");
            findings.push(Finding::new(&file.path, limit + 1, what, todo));
        }
        if is_member(&file.path, "README.md") {
            findings.extend(check_readme(&file.path, text));
        }
        if is_member(&file.path, "Cargo.toml") {
            let readme = file.path.replace("Cargo.toml", "README.md");
            if !files.iter().any(|other| other.path == readme) {
                let todo = format!("write at most {README_LINES} lines: its purpose and what it must not do");
                findings.push(Finding::new(&readme, 1, "the crate has no README.md", todo));
            }
        }
    }
    findings
}

/// The most lines of a Rust file; tests are lists of cases, and may be longer.
fn most_lines(path: &str) -> usize {
    if size::is_product(path) {
        PRODUCT_LINES
    } else {
        TEST_LINES
    }
}

/// Files that grow towards the limit.
pub(super) fn notes(files: &[File]) -> Vec<String> {
    let rust = files.iter().filter(|file| is_rust(&file.path));
    rust.filter_map(|file| {
        let lines = file.text.as_deref()?.lines().count();
        let long = lines > SOFT_LINES && lines <= most_lines(&file.path);
        long.then(|| {
            format!(
                "{} has {lines} lines; above {SOFT_LINES} a file is worth splitting",
                file.path
            )
        })
    })
    .collect()
}

/// Whether this is that file at the top of a crate.
fn is_member(path: &str, name: &str) -> bool {
    crate_of(path).is_some_and(|of| path == format!("crates/{of}/{name}") || path == format!("xtask/{name}"))
}

fn check_name(path: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !is_rust(path) {
        return findings;
    }
    let parts: Vec<&str> = path.trim_end_matches(".rs").split('/').collect();
    if let Some(name) = parts.iter().find(|part| EMPTY_NAMES.contains(part)) {
        let todo = "name it after what it does";
        findings.push(Finding::new(
            path,
            1,
            format!("`{name}` does not describe its content"),
            todo,
        ));
    }
    if parts.last() == Some(&"mod") {
        findings.push(Finding::new(
            path,
            1,
            "`mod.rs`",
            "call it foo.rs, beside the folder foo",
        ));
    }
    if let ["crates", _, "tests", _] = parts.as_slice() {
        let todo = "make it a module of tests/it/main.rs: one test binary per crate links once";
        findings.push(Finding::new(path, 1, "a test binary of its own", todo));
    }
    findings
}

fn check_readme(path: &str, text: &str) -> Option<Finding> {
    let mut in_example = false;
    let mut prose = 0;
    for line in text.lines() {
        if line.starts_with("```") {
            in_example = !in_example;
        } else if !in_example && !line.trim().is_empty() && !line.starts_with('#') {
            prose += 1;
        }
    }
    (prose > README_LINES).then(|| {
        let what = format!("{prose} lines of prose, the limit is {README_LINES}");
        Finding::new(
            path,
            1,
            what,
            "state its purpose and what it must not do; the rest is documentation",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::{check, notes};
    use crate::workspace::File;

    fn file(path: &str, text: &str) -> File {
        File {
            path: path.to_owned(),
            text: Some(text.to_owned()),
        }
    }

    fn found(files: &[File]) -> Vec<String> {
        check(files)
            .into_iter()
            .map(|finding| format!("{}: {}", finding.file, finding.what))
            .collect()
    }

    #[test]
    fn long_files() {
        let files = [
            file("crates/x/src/a.rs", &"\n".repeat(601)),
            file("crates/x/src/a/tests.rs", &"\n".repeat(800)),
            file("crates/x/tests/it/a.rs", &"\n".repeat(801)),
            file("crates/x/src/b.rs", &"\n".repeat(500)),
            file("crates/x/src/c.json", &"\n".repeat(900)),
        ];
        assert_eq!(
            found(&files),
            [
                "crates/x/src/a.rs: 601 lines, the limit is 600",
                "crates/x/tests/it/a.rs: 801 lines, the limit is 800"
            ]
        );
        assert_eq!(notes(&files).len(), 2);
    }

    #[test]
    fn names() {
        for path in [
            "crates/x/src/utils.rs",
            "crates/x/src/helpers/a.rs",
            "crates/x/src/a/mod.rs",
            "crates/x/tests/a.rs",
        ] {
            assert_eq!(found(&[file(path, "")]).len(), 1, "{path}");
        }
        assert_eq!(
            found(&[
                file("crates/x/tests/it/main.rs", ""),
                file("crates/x/src/a/utility.rs", "")
            ])
            .len(),
            0
        );
    }

    #[test]
    fn readmes() {
        assert_eq!(
            found(&[file("crates/x/Cargo.toml", "")]),
            ["crates/x/README.md: the crate has no README.md"]
        );
        let example = format!("# x\n\nFor y.\n\n```rust\n{}```\n", "line\n".repeat(40));
        assert_eq!(found(&[file("crates/x/README.md", &example)]).len(), 0);
        assert_eq!(
            found(&[file("crates/x/README.md", &"prose\n".repeat(16))]).len(),
            1
        );
    }
}
