//! Counts the lines of code of each crate, without blank lines and comments, for `cargo xtask tidy --count`.

use std::collections::BTreeMap;

use super::{crate_of, is_rust, scan};
use crate::table;
use crate::workspace::File;

/// Lines of code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lines {
    product: usize,
    tests: usize,
}

/// A table of the crates and their sum.
pub(super) fn table(files: &[File]) -> String {
    let mut sum = Lines::default();
    let mut rows = Vec::new();
    let mut row = |name: &str, lines: Lines| {
        rows.push([
            name.to_owned(),
            lines.product.to_string(),
            lines.tests.to_string(),
        ]);
    };
    for (name, lines) in count(files) {
        sum.product += lines.product;
        sum.tests += lines.tests;
        row(name, lines);
    }
    row("sum", sum);
    table::render(["crate", "product", "tests"], &rows)
}

fn count(files: &[File]) -> BTreeMap<&str, Lines> {
    let mut crates: BTreeMap<&str, Lines> = BTreeMap::new();
    for file in files.iter().filter(|file| is_rust(&file.path)) {
        let (Some(of), Some(text)) = (crate_of(&file.path), &file.text) else {
            continue;
        };
        let lines = crates.entry(of).or_default();
        let is_product = is_product(&file.path);
        for in_test in code_lines(text) {
            if is_product && !in_test {
                lines.product += 1;
            } else {
                lines.tests += 1;
            }
        }
    }
    crates
}

pub(super) fn is_product(path: &str) -> bool {
    let in_source = path.contains("/src/") && !path.contains("/tests/");
    (in_source || path.ends_with("/build.rs")) && !path.ends_with("/tests.rs")
}

/// For each line with code, whether it belongs to a `#[cfg(test)]` item.
fn code_lines(text: &str) -> impl Iterator<Item = bool> {
    let code = scan::without_comments(text);
    let tests = scan::test_lines(&scan::code_only(text));
    let lines: Vec<bool> = code.lines().map(|line| !line.trim().is_empty()).collect();
    lines
        .into_iter()
        .zip(tests)
        .filter_map(|(is_code, in_test)| is_code.then_some(in_test))
}

#[cfg(test)]
mod tests {
    use super::{Lines, count};
    use crate::workspace::File;

    #[test]
    fn blank_lines_and_comments_are_not_counted() {
        let text = "//! A.\n\nfn a() { // b\n    /* c\n    d */\n    \"// e\n\n    f\";\n}\n#[cfg(test)]\nmod tests {\n    // g\n}\n";
        let files = [
            ("crates/x/src/a.rs", text),
            ("crates/x/src/a/tests.rs", "fn a() {}\n"),
            ("crates/x/tests/it/main.rs", "fn a() {}\n\n"),
            ("crates/x/build.rs", "fn main() {}\n"),
            ("crates/x/README.md", "text\n"),
            ("xtask/src/a.rs", "fn a() {}\n"),
        ]
        .map(|(path, text)| File {
            path: path.to_owned(),
            text: Some(text.to_owned()),
        });
        let counted: Vec<_> = count(&files).into_iter().collect();
        let lines = |product, tests| Lines { product, tests };
        assert_eq!(counted, [("x", lines(5, 5)), ("xtask", lines(1, 0))]);
    }
}
