//! The numbers in the output of test runners.

use holodeck_model::JsonMap;
use serde::Serialize;

use crate::command_line::TestRunner;

/// The counts that test runs reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TestCounts {
    /// Runs of a test runner.
    pub run: u32,
    /// Tests that passed.
    pub passed: u64,
    /// Tests that failed.
    pub failed: u64,
    /// Percent of the code that tests reached, as the last run that measured it reported.
    pub coverage: Option<f64>,
}

impl TestCounts {
    /// Adds a further run.
    pub(crate) fn add(&mut self, other: &Self) {
        self.run += other.run;
        self.passed += other.passed;
        self.failed += other.failed;
        self.coverage = other.coverage.or(self.coverage);
    }

    pub(crate) fn to_json(self) -> JsonMap {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::Object(fields)) => fields,
            _ => JsonMap::new(),
        }
    }
}

/// The numbers that `runner` reported; `None` if its output has no report. Lines that are part of the `command` itself,
/// such as the argument of an `echo`, do not count.
pub(crate) fn read_report(runner: TestRunner, command: &str, output: &str) -> Option<TestCounts> {
    let lines = output.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines = lines.filter(|line| !command.contains(*line));
    let mut counts = TestCounts::default();
    let mut has_report = false;
    for line in lines {
        let line = without_colour(line);
        if let Some((passed, failed)) = summary(runner, &line) {
            has_report = true;
            counts.passed += passed;
            counts.failed += failed;
        }
        if let Some(coverage) = coverage(runner, &line) {
            counts.coverage = Some(coverage);
        }
    }
    if runner == TestRunner::Unittest {
        // It reports how many ran, not how many passed.
        counts.passed = counts.passed.saturating_sub(counts.failed);
    }
    has_report.then_some(TestCounts { run: 1, ..counts })
}

fn without_colour(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(character) = chars.next() {
        if character == '\u{1b}' {
            // A control sequence ends with a letter.
            chars.by_ref().find(char::is_ascii_alphabetic);
        } else {
            plain.push(character);
        }
    }
    plain
}

/// Passed and failed tests of a summary line.
fn summary(runner: TestRunner, line: &str) -> Option<(u64, u64)> {
    match runner {
        TestRunner::CargoTest => {
            let line = line.strip_prefix("test result: ")?;
            Some((number_before(line, "passed")?, number_before(line, "failed")?))
        }
        TestRunner::Nextest => {
            let line = line.strip_prefix("Summary [")?;
            let failed = number_before(line, "failed").unwrap_or(0)
                + number_before(line, "timed out").unwrap_or(0)
                + number_before(line, "exec failed").unwrap_or(0);
            Some((number_before(line, "passed")?, failed))
        }
        TestRunner::Pytest => {
            // `=== 3 passed, 1 failed in 0.12s ===`, and without the frame with `-q`.
            let line = line.trim_matches(|character| character == '=' || character == ' ');
            let is_summary = line.contains(" in ") && line.ends_with(['s', ')']);
            if !is_summary {
                return None;
            }
            let failed = number_before(line, "failed");
            let errors = number_before(line, "errors").or_else(|| number_before(line, "error"));
            let passed = number_before(line, "passed");
            if passed.is_none() && failed.is_none() && errors.is_none() {
                return None;
            }
            Some((passed.unwrap_or(0), failed.unwrap_or(0) + errors.unwrap_or(0)))
        }
        TestRunner::Unittest => {
            if let Some(rest) = line.strip_prefix("Ran ") {
                let total: u64 = rest.split(' ').next()?.parse().ok()?;
                return rest.contains(" test").then_some((total, 0));
            }
            let rest = line.strip_prefix("FAILED (")?;
            let failed =
                number_after(rest, "failures=").unwrap_or(0) + number_after(rest, "errors=").unwrap_or(0);
            Some((0, failed))
        }
        TestRunner::Go => {
            if line.starts_with("--- PASS: ") {
                Some((1, 0))
            } else if line.starts_with("--- FAIL: ") {
                Some((0, 1))
            } else if line.starts_with("ok ") || line.starts_with("ok\t") || line.starts_with("FAIL\t") {
                // A package; its tests are listed only with `-v`.
                Some((0, 0))
            } else {
                None
            }
        }
        TestRunner::JavaScript => {
            let rest = line
                .strip_prefix("Tests:")
                .or_else(|| line.strip_prefix("Tests  "));
            if let Some(rest) = rest {
                let passed = number_before(rest, "passed");
                let failed = number_before(rest, "failed");
                return (passed.is_some() || failed.is_some())
                    .then_some((passed.unwrap_or(0), failed.unwrap_or(0)));
            }
            let is_count = |word: &str| {
                let rest = line.strip_suffix(')').and_then(|line| line.rsplit_once(" ("));
                let line = rest.map_or(line, |(line, _)| line);
                line.strip_suffix(word)?.trim().parse::<u64>().ok()
            };
            // Mocha.
            is_count("passing")
                .map(|passed| (passed, 0))
                .or_else(|| is_count("failing").map(|failed| (0, failed)))
        }
    }
}

fn coverage(runner: TestRunner, line: &str) -> Option<f64> {
    let percent = |text: &str| text.trim().trim_end_matches('%').parse::<f64>().ok();
    let value = match runner {
        TestRunner::Pytest | TestRunner::Unittest => {
            let rest = line.strip_prefix("TOTAL ")?;
            let last = rest.split_whitespace().next_back()?;
            percent(last.strip_suffix('%')?)
        }
        TestRunner::Go => {
            let (_, rest) = line.split_once("coverage: ")?;
            percent(rest.split_once("% of statements")?.0)
        }
        TestRunner::JavaScript => {
            let rest = line.strip_prefix("All files")?;
            percent(rest.split('|').nth(1)?)
        }
        TestRunner::CargoTest | TestRunner::Nextest => None,
    };
    value.filter(|value| (0.0..=100.0).contains(value))
}

/// The number right before `word`, as in `3 passed`.
fn number_before(line: &str, word: &str) -> Option<u64> {
    let mut from = 0;
    while let Some(at) = line.get(from..).and_then(|rest| rest.find(word)) {
        let before = line.get(..from + at).unwrap_or_default().trim_end();
        let digits = before
            .rsplit(|character: char| !character.is_ascii_digit())
            .next();
        if let Some(number) = digits.and_then(|digits| digits.parse().ok()) {
            return Some(number);
        }
        from += at + word.len();
    }
    None
}

fn number_after(line: &str, word: &str) -> Option<u64> {
    let (_, rest) = line.split_once(word)?;
    let digits = rest.split(|character: char| !character.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn recognised_reports_are_read() {
        for (runner, output, expected) in [
            (
                TestRunner::CargoTest,
                "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured\n\
                 test result: FAILED. 2 passed; 1 failed; 0 ignored",
                Some((5, 1, None)),
            ),
            (
                TestRunner::Nextest,
                "     Summary [   0.120s] 10 tests run: 8 passed, 2 failed, 0 skipped",
                Some((8, 2, None)),
            ),
            (
                TestRunner::Pytest,
                "TOTAL      120     18    85%\n\u{1b}[31m=== 1 failed, 3 passed in 0.12s ===\u{1b}[0m",
                Some((3, 1, Some(85.0))),
            ),
            (
                TestRunner::Pytest,
                "4 passed, 1 error in 2.00s",
                Some((4, 1, None)),
            ),
            (TestRunner::Pytest, "collected 3 items", None),
            (
                TestRunner::Unittest,
                "Ran 4 tests in 0.01s\n\nFAILED (failures=1, errors=1)",
                Some((2, 2, None)),
            ),
            (
                TestRunner::Go,
                "--- PASS: TestA (0.00s)\n--- FAIL: TestB (0.01s)\ncoverage: 81.2% of statements\nFAIL\tx\t0.1s",
                Some((1, 1, Some(81.2))),
            ),
            (
                TestRunner::JavaScript,
                "All files |   85.5 |    70 |\nTests:       1 failed, 3 passed, 4 total",
                Some((3, 1, Some(85.5))),
            ),
            (
                TestRunner::JavaScript,
                "  3 passing (12ms)\n  1 failing",
                Some((3, 1, None)),
            ),
            (TestRunner::CargoTest, "50% of all lines", None),
        ] {
            let report = read_report(runner, "run tests", output);
            let report = report.map(|report| (report.passed, report.failed, report.coverage));
            assert_eq!(report, expected, "{output}");
        }
    }

    #[test]
    fn a_report_that_the_command_prints_itself_does_not_count() {
        let command = "cargo test; echo 'test result: ok. 9 passed; 0 failed'";
        let output = "test result: ok. 1 passed; 0 failed; 0 ignored\ntest result: ok. 9 passed; 0 failed";
        let report = read_report(TestRunner::CargoTest, command, output).unwrap();
        assert_eq!((report.passed, report.failed), (1, 0));
    }
}
