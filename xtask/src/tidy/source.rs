//! Rules for the text of Rust files.

use super::rules::{UNSAFE_FILES, WORDS};
use super::{Finding, crate_of, scan};

pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let code = scan::code_only(text);
    let in_test = scan::test_lines(&code);
    let test_file = ["/tests/", "/benches/", "/examples/"]
        .iter()
        .any(|folder| path.contains(folder))
        || path.ends_with("/tests.rs")
        // A build script speaks with Cargo by printing and by its environment.
        || path.ends_with("/build.rs");
    let mut findings = Vec::new();
    for ((line, at), in_test) in code.lines().zip(1..).zip(in_test) {
        if !in_test && !test_file {
            findings.extend(sole_users(path, line, at));
        }
        if scan::has_word(line, "unsafe") && !UNSAFE_FILES.contains(&path) {
            let todo = "do it without, or list the file in xtask/src/tidy/rules.rs with a reason";
            findings.push(Finding::new(
                path,
                at,
                "`unsafe` in a file that is not listed for it",
                todo,
            ));
        }
        if line.contains("#[ignore]") {
            let todo = "write `#[ignore = \"why\"]`, or run the test";
            findings.push(Finding::new(path, at, "a test is ignored without a reason", todo));
        }
        if path.ends_with("/src/lib.rs") && defines_something(line) && !in_test {
            let todo = "move it to a module and re-export it: lib.rs is docs, `mod` lines and re-exports";
            findings.push(Finding::new(path, at, "lib.rs defines something", todo));
        }
    }
    findings
}

fn sole_users(path: &str, line: &str, at: usize) -> Vec<Finding> {
    let Some(of) = crate_of(path) else {
        return Vec::new();
    };
    WORDS
        .iter()
        .filter(|word| !word.crates.contains(&of) && scan::has_word(line, word.text))
        .map(|word| {
            Finding::new(
                path,
                at,
                format!("`{}` in {of}: {}", word.text, word.why),
                word.todo,
            )
        })
        .collect()
}

fn defines_something(line: &str) -> bool {
    let item = line
        .strip_prefix("pub ")
        .or_else(|| line.strip_prefix("pub(crate) "))
        .unwrap_or(line);
    let item = item.strip_prefix("async ").unwrap_or(item);
    [
        "fn ",
        "struct ",
        "enum ",
        "trait ",
        "impl ",
        "impl<",
        "const ",
        "static ",
        "type ",
        "macro_rules!",
    ]
    .iter()
    .any(|keyword| item.starts_with(keyword))
}

#[cfg(test)]
mod tests {
    use super::check;

    fn found(path: &str, text: &str) -> Vec<(usize, String)> {
        check(path, text)
            .into_iter()
            .map(|finding| (finding.line, finding.what))
            .collect()
    }

    #[test]
    fn only_some_may_print_spawn_or_read_the_environment() {
        let text =
            "fn f() {\n    println!();\n    std::process::Command::new(x);\n    std::env::var(x);\n}\n";
        let lines: Vec<usize> = found("crates/holodeck-eval/src/f.rs", text)
            .into_iter()
            .map(|(line, _)| line)
            .collect();
        assert_eq!(lines, [2, 3, 3, 4]);
        assert_eq!(found("xtask/src/f.rs", text), []);
        assert_eq!(found("crates/holodeck-process/src/f.rs", text).len(), 2);
    }

    #[test]
    fn only_tests_stop_the_clock() {
        let text = "async fn f() {\n    tokio::time::pause();\n    crate::pause();\n}\n#[cfg(test)]\nmod tests {\n    #[tokio::test(start_paused = true)]\n    async fn g() {}\n}\n";
        let lines: Vec<usize> = found("crates/holodeck-http/src/f.rs", text)
            .into_iter()
            .map(|(line, _)| line)
            .collect();
        assert_eq!(lines, [2]);
    }

    #[test]
    fn tests_comments_and_strings_are_left_alone() {
        let text =
            "// println!\nconst A: &str = \"println!\";\n#[cfg(test)]\nmod tests {\n    println!();\n}\n";
        assert_eq!(found("crates/holodeck-eval/src/f.rs", text), []);
        assert_eq!(found("crates/holodeck-eval/tests/it/main.rs", "println!();"), []);
    }

    #[test]
    fn the_runner_names_no_backend() {
        let text = "use holodeck_backend_openai::OpenAi;";
        assert_eq!(found("crates/holodeck-runner/src/f.rs", text).len(), 1);
        assert_eq!(found("crates/holodeck/src/f.rs", text), []);
    }

    #[test]
    fn unsafe_and_ignored_tests() {
        let text = "#[ignore]\nfn a() { unsafe { b() } }\n#[ignore = \"needs a network\"]\n";
        assert_eq!(
            found("crates/holodeck-eval/src/f.rs", text),
            [
                (1, "a test is ignored without a reason".to_owned()),
                (2, "`unsafe` in a file that is not listed for it".to_owned()),
            ]
        );
    }

    #[test]
    fn lib_rs_only_points() {
        let good = "//! Docs.\nmod a;\npub use a::A;\n";
        assert_eq!(found("crates/holodeck-eval/src/lib.rs", good), []);
        let bad = "pub fn f() {}\nimpl A {}\n";
        assert_eq!(found("crates/holodeck-eval/src/lib.rs", bad).len(), 2);
    }
}
