//! Finds the programs that a shell command runs, as far as evidence needs it. Nothing here decides whether a command
//! may run.

/// A program that runs tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TestRunner {
    CargoTest,
    Nextest,
    Pytest,
    Unittest,
    Go,
    /// `npm test` and the like, which run any of the JavaScript runners.
    JavaScript,
}

/// The test runner that a command starts, if any.
pub(crate) fn test_runner(command: &str) -> Option<TestRunner> {
    segments(command).iter().find_map(|words| runner_of(words))
}

/// The words of each simple command in a command line, quotes removed.
fn segments(command: &str) -> Vec<Vec<String>> {
    let mut segments = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = command.chars().peekable();
    let end_word = |word: &mut Option<String>, segments: &mut Vec<Vec<String>>| {
        if let (Some(word), Some(segment)) = (word.take(), segments.last_mut()) {
            segment.push(word);
        }
    };
    while let Some(character) = chars.next() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (Some('"') | None, '\\') => {
                if let Some(escaped) = chars.next().filter(|escaped| *escaped != '\n') {
                    word.get_or_insert_default().push(escaped);
                }
            }
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, ';' | '\n' | '|' | '&' | '(' | ')') => {
                // `2>&1` is one redirection.
                if character == '&' && word.as_deref().is_some_and(|word| word.ends_with('>')) {
                    word.get_or_insert_default().push(character);
                    continue;
                }
                end_word(&mut word, &mut segments);
                if segments.last().is_some_and(|segment| !segment.is_empty()) {
                    segments.push(Vec::new());
                }
            }
            (None, _) if character.is_whitespace() => end_word(&mut word, &mut segments),
            _ => word.get_or_insert_default().push(character),
        }
    }
    end_word(&mut word, &mut segments);
    segments.retain(|segment| !segment.is_empty());
    segments
}

/// Programs that run the rest of their arguments.
const WRAPPERS: [&str; 8] = ["env", "sudo", "time", "nice", "nohup", "timeout", "uv", "poetry"];

fn runner_of(words: &[String]) -> Option<TestRunner> {
    let is_assignment = |word: &str| {
        word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty()
                && name
                    .chars()
                    .all(|character| character.is_ascii_alphanumeric() || character == '_')
        })
    };
    let mut words = words.iter().map(String::as_str).peekable();
    let program = loop {
        let word = words.next()?;
        if is_assignment(word) {
            continue;
        }
        let name = word.rsplit('/').next().unwrap_or(word);
        if !WRAPPERS.contains(&name) {
            break name;
        }
        // The options and the number of `timeout 60`, and the `run` of `uv run`.
        while words.next_if(|word| is_option_of_wrapper(word)).is_some() {}
    };
    let arguments: Vec<&str> = words.collect();
    let first = arguments
        .iter()
        .find(|word| !word.starts_with(['-', '+']))
        .copied();
    match program {
        "cargo" if arguments.contains(&"--no-run") => None,
        "cargo" => match first {
            Some("test" | "t") => Some(TestRunner::CargoTest),
            Some("nextest") if arguments.contains(&"run") => Some(TestRunner::Nextest),
            _ => None,
        },
        "cargo-nextest" => Some(TestRunner::Nextest),
        "pytest" | "py.test" => Some(TestRunner::Pytest),
        name if name.starts_with("python") => match arguments.as_slice() {
            ["-m", "pytest", ..] => Some(TestRunner::Pytest),
            ["-m", "unittest", ..] => Some(TestRunner::Unittest),
            _ => None,
        },
        "go" if first == Some("test") => Some(TestRunner::Go),
        "jest" | "vitest" | "mocha" => Some(TestRunner::JavaScript),
        "npx" | "bunx" if matches!(first, Some("jest" | "vitest" | "mocha")) => Some(TestRunner::JavaScript),
        "npm" | "yarn" | "pnpm" | "bun" => {
            let script = arguments
                .iter()
                .find(|word| **word != "run" && !word.starts_with('-'));
            let is_test = script
                .is_some_and(|script| *script == "t" || *script == "test" || script.starts_with("test:"));
            is_test.then_some(TestRunner::JavaScript)
        }
        _ => None,
    }
}

fn is_option_of_wrapper(word: &str) -> bool {
    word.starts_with('-') || word == "run" || word.starts_with(|first: char| first.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_test_runner_counts_only_where_it_is_run() {
        for (command, runner) in [
            ("cargo test", Some(TestRunner::CargoTest)),
            (
                "cd app && RUST_LOG=x cargo +nightly test -p a 2>&1 | tail -5",
                Some(TestRunner::CargoTest),
            ),
            ("cargo nextest run", Some(TestRunner::Nextest)),
            ("timeout 60 python3 -m pytest -q", Some(TestRunner::Pytest)),
            ("uv run pytest tests", Some(TestRunner::Pytest)),
            ("python -m unittest", Some(TestRunner::Unittest)),
            ("(go test ./...)", Some(TestRunner::Go)),
            ("npm run test:unit", Some(TestRunner::JavaScript)),
            ("npm test -- --ci", Some(TestRunner::JavaScript)),
            ("npx vitest run", Some(TestRunner::JavaScript)),
            ("echo cargo test", None),
            ("echo 'x; cargo test'", None),
            ("echo \"a && cargo test\"", None),
            ("grep -r pytest .", None),
            ("cargo test --no-run", None),
            ("cargo nextest list", None),
            ("cat cargo test", None),
            ("npm install test", None),
            ("", None),
        ] {
            // `npm install test` installs a package that is called `test`.
            assert_eq!(test_runner(command), runner, "{command}");
        }
    }
}
