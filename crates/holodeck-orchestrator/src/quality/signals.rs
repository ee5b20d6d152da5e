//! Commands whose result limits the score of an answer. A program is run directly, never through a shell.

use std::{path::PathBuf, time::Duration};

use holodeck_model::{Decimal, SignalsConfig};
use holodeck_process::{AtLimit, ChildEnv, ProcessError, ProcessSpec, run, which};
use tokio_util::sync::CancellationToken;

use super::ScorerError;
use crate::{
    command_line::{TestRunner, test_runner},
    test_report::{TestCounts, read_report},
};

/// How much of the output is read, from its end.
const MAX_OUTPUT: usize = 4 * 1024 * 1024;

/// How much of a failed command's output the next iteration sees.
const MAX_FEEDBACK: usize = 1_500;

/// The subject of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignalKind {
    Tests,
    Build,
    Lint,
}

impl SignalKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Tests => "tests",
            Self::Build => "build",
            Self::Lint => "lint",
        }
    }
}

/// The commands of `quality_loop.scorer.signals`.
#[derive(Clone, Debug)]
pub struct Signals {
    commands: Vec<(SignalKind, String, Vec<String>)>,
    folder: PathBuf,
    env: ChildEnv,
    /// How long each may take.
    limit: Duration,
}

/// The result of the commands.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SignalOutcome {
    /// The score of each command alone, 0–100.
    pub(super) scores: Vec<(String, f64)>,
    /// The highest score that an answer can have.
    pub(super) cap: Option<f64>,
    /// The points that are added to the score of the other parts.
    pub(super) bonus: f64,
    pub(super) improvements: Vec<String>,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq)]
struct Ended {
    success: bool,
    output: String,
    /// Of the tests, if they are known.
    counts: Option<TestCounts>,
}

impl Signals {
    /// The commands, run in `folder` with the variables `env`; `None` if there are none. The error says which command
    /// can't be run without a shell.
    pub fn new(config: &SignalsConfig, folder: PathBuf, env: ChildEnv) -> Result<Option<Self>, String> {
        let configured = [
            (SignalKind::Tests, &config.tests),
            (SignalKind::Build, &config.build),
            (SignalKind::Lint, &config.lint),
        ];
        let mut commands = Vec::new();
        for (kind, command) in configured {
            if let Some(command) = command {
                let words =
                    split_command(command).map_err(|problem| format!("`{}`: {problem}", kind.as_str()))?;
                commands.push((kind, command.clone(), words));
            }
        }
        // A child's working directory may not be empty, as the folder of a file in the current one is.
        let folder = if folder.as_os_str().is_empty() {
            PathBuf::from(".")
        } else {
            folder
        };
        let folder = std::path::absolute(&folder).unwrap_or(folder);
        Ok((!commands.is_empty()).then_some(Self {
            commands,
            folder,
            env,
            limit: config.limit(),
        }))
    }

    /// Runs the commands one after the other. A command that can't be started is a failure of the scorer.
    pub(super) async fn run(&self) -> Result<SignalOutcome, ScorerError> {
        let mut ended = Vec::new();
        for (kind, command, words) in &self.commands {
            let mut end = self.run_command(*kind, words).await?;
            if *kind == SignalKind::Tests {
                end.counts = count_tests(command, &end.output);
            }
            ended.push((*kind, end));
        }
        Ok(rate(&ended))
    }

    async fn run_command(&self, kind: SignalKind, words: &[String]) -> Result<Ended, ScorerError> {
        let failed = |problem: String| {
            ScorerError::new(format!(
                "the signal `{}` could not be run: {problem}",
                kind.as_str()
            ))
        };
        let Some((program, arguments)) = words.split_first() else {
            return Err(failed("the command is empty".to_owned()));
        };
        // As for a child process: a bare name is looked up, a path is relative to the agent's folder.
        let found = if program.contains('/') {
            which(self.folder.join(program), self.env.get("PATH"))
        } else {
            which(program, self.env.get("PATH"))
        };
        let found = found.ok_or_else(|| failed(format!("`{program}` was not found or is not executable")))?;
        let spec = ProcessSpec::new(found, self.env.clone())
            .args(arguments)
            .current_dir(&self.folder)
            .stdout_limit(MAX_OUTPUT, AtLimit::Drop)
            .stderr_kept(64 * 1024)
            .timeout(self.limit);
        // Dropping the future ends the process and its group.
        let output = run(&spec, &CancellationToken::new()).await;
        let output = output.map_err(|error| match error {
            ProcessError::TimedOut { after, stderr } => {
                let last = stderr.lines().rev().find(|line| !line.trim().is_empty());
                let last = last
                    .map(|line| format!("; it wrote {:?} last", line.trim()))
                    .unwrap_or_default();
                ScorerError::new(format!(
                    "the signal `{}` was ended, because it was still running after {} s \
                     (`scorer.signals.timeout_seconds`){last}",
                    kind.as_str(),
                    after.as_secs()
                ))
            }
            error => failed(error.to_string()),
        })?;
        Ok(Ended {
            success: output.exit.success(),
            output: format!("{}\n{}", String::from_utf8_lossy(&output.stdout), output.stderr),
            counts: None,
        })
    }
}

/// Rates an answer by its commands: a failed one caps the score, and only without a failure there is a bonus.
fn rate(ended: &[(SignalKind, Ended)]) -> SignalOutcome {
    let mut outcome = SignalOutcome::default();
    let mut cap = f64::INFINITY;
    let mut bonus = 0.0;
    for (kind, ended) in ended {
        let name = kind.as_str().to_owned();
        let counts = ended.counts;
        let failed_tests = counts.is_some_and(|counts| counts.failed > 0);
        let success = ended.success && !failed_tests;
        let nothing_ran = counts.is_some_and(|counts| counts.passed + counts.failed == 0);
        let score = match (success, counts) {
            (true, _) if nothing_ran => 0.0,
            (true, _) => 100.0,
            (false, Some(counts)) if failed_tests => passed_points(counts),
            (false, _) => 0.0,
        };
        outcome.scores.push((name.clone(), score));
        match kind {
            SignalKind::Tests if !success => {
                let known = counts.filter(|_| failed_tests);
                cap = cap.min(match known {
                    Some(counts) if counts.failed > counts.passed => 40.0,
                    // More than a fifth.
                    Some(counts) if counts.failed.saturating_mul(4) > counts.passed => 50.0,
                    Some(_) => 60.0,
                    None => 50.0,
                });
            }
            SignalKind::Build if !success => cap = cap.min(45.0),
            SignalKind::Tests if success && !nothing_ran => {
                bonus += 5.0 + coverage_bonus(counts.and_then(|counts| counts.coverage));
            }
            SignalKind::Lint if success => bonus += 5.0,
            _ => {}
        }
        if !success {
            let count = match counts.filter(|_| failed_tests) {
                Some(counts) => format!(" ({} of {} failed)", counts.failed, counts.passed + counts.failed),
                None => String::new(),
            };
            outcome.improvements.push(format!(
                "the {name} command fails{count}:\n{}",
                tail(&ended.output)
            ));
        } else if nothing_ran {
            outcome
                .improvements
                .push("the tests command ran no test".to_owned());
        }
    }
    if cap.is_finite() {
        outcome.cap = Some(cap);
    } else {
        outcome.bonus = bonus;
    }
    outcome
}

fn coverage_bonus(coverage: Option<f64>) -> f64 {
    match coverage {
        Some(percent) if percent >= 80.0 => 10.0,
        Some(percent) if percent >= 60.0 => 5.0,
        Some(percent) if percent >= 40.0 => 2.0,
        _ => 0.0,
    }
}

/// The percentage of tests that passed, of those that ran.
fn passed_points(counts: TestCounts) -> f64 {
    let total = counts.passed.saturating_add(counts.failed);
    let passed = Decimal::parse(&counts.passed.to_string());
    let share = passed.and_then(|passed| passed.scaled(2).divided_by(u32::try_from(total).ok()?));
    share.unwrap_or_default().to_f64()
}

/// The counts that a test runner reported; `None` if `command` starts none, or its output names no test, so that only the
/// exit code counts.
fn count_tests(command: &str, output: &str) -> Option<TestCounts> {
    let runner = test_runner(command)?;
    let counts = read_report(runner, command, output)?;
    // It lists tests only with `-v`.
    let is_silent = runner == TestRunner::Go && counts.passed + counts.failed == 0;
    (!is_silent).then_some(counts)
}

/// The end of an output.
fn tail(output: &str) -> String {
    let output = output.trim();
    let characters = output.chars().count();
    output
        .chars()
        .skip(characters.saturating_sub(MAX_FEEDBACK))
        .collect()
}

/// The words of a command: separated by spaces, `'…'` and `"…"` keep spaces. Nothing else of a shell is understood, and
/// what a shell would interpret is an error instead of an argument.
pub fn split_command(command: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    for character in command.chars() {
        match (quote, character) {
            (Some(open), close) if open == close => quote = None,
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, '|' | '&' | ';' | '<' | '>' | '$' | '`') => {
                return Err(format!(
                    "`{character}` has no meaning without a shell; put the commands in a script and run that"
                ));
            }
            (None, character) if character.is_whitespace() => words.extend(word.take()),
            (_, character) => word.get_or_insert_default().push(character),
        }
    }
    if quote.is_some() {
        return Err("a quote is not closed".to_owned());
    }
    words.extend(word);
    if words.is_empty() {
        return Err("the command is empty".to_owned());
    }
    Ok(words)
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "the points of a bonus are exact")]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn ended(command: &str, success: bool, output: &str) -> Ended {
        Ended {
            success,
            output: output.to_owned(),
            counts: count_tests(command, output),
        }
    }

    fn tests(success: bool, output: &str) -> SignalOutcome {
        rate(&[(SignalKind::Tests, ended("cargo test", success, output))])
    }

    #[test]
    fn only_reports_of_the_runner_that_is_started_count() {
        let counts =
            |command, output| count_tests(command, output).map(|counts| (counts.passed, counts.failed));
        let cargo = "test result: ok. 3 passed; 0 failed; 1 ignored; finished in 0.01s\n\
                     test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured";
        assert_eq!(counts("cargo test -p a", cargo), Some((7, 2)));
        assert_eq!(
            counts("pytest", "===== 3 failed, 5 passed, 1 error in 0.12s ====="),
            Some((5, 4))
        );
        // A program that only prints such a line.
        assert_eq!(counts("./check.sh", cargo), None);
        assert_eq!(counts("cargo test", "everything is fine"), None);
        // Without `-v`, how many tests ran is not known.
        assert_eq!(counts("go test ./...", "ok  \tpkg\t0.1s"), None);
    }

    #[test]
    fn coverage_counts_where_the_runner_reports_it() {
        let with = |percent: u32| {
            let output = format!("TOTAL   100   {percent}   {percent}%\n2 passed in 0.01s");
            rate(&[(SignalKind::Tests, ended("pytest", true, &output))]).bonus
        };
        assert_eq!([with(85), with(60), with(41), with(12)], [15.0, 10.0, 7.0, 5.0]);
    }

    #[test]
    fn failing_tests_cap_the_score_by_their_share() {
        let of = |passed: u64, failed: u64| {
            tests(
                false,
                &format!("test result: FAILED. {passed} passed; {failed} failed"),
            )
            .cap
        };
        assert_eq!(of(1, 9), Some(40.0));
        assert_eq!(of(5, 5), Some(50.0));
        assert_eq!(of(7, 3), Some(50.0));
        assert_eq!(of(9, 1), Some(60.0));
        assert_eq!(tests(false, "error: could not compile").cap, Some(50.0));
    }

    #[test]
    fn a_green_exit_code_does_not_hide_failed_tests_nor_the_reverse() {
        let hidden = tests(true, "test result: FAILED. 1 passed; 1 failed");
        assert_eq!((hidden.cap, hidden.bonus), (Some(50.0), 0.0));
        // A test that prints such a line can't make a failure green.
        let forged = tests(false, "test result: ok. 100 passed; 0 failed");
        assert_eq!((forged.cap, forged.bonus), (Some(50.0), 0.0));
        assert_eq!(forged.scores, [("tests".to_owned(), 0.0)]);
    }

    #[test]
    fn no_test_is_not_a_pass() {
        let none = tests(true, "test result: ok. 0 passed; 0 failed");
        assert_eq!((none.cap, none.bonus), (None, 0.0));
        assert_eq!(none.scores, [("tests".to_owned(), 0.0)]);
        assert_eq!(none.improvements, ["the tests command ran no test"]);
    }

    #[test]
    fn a_bonus_needs_that_nothing_failed() {
        let all = rate(&[
            (SignalKind::Tests, ended("pytest", true, "2 passed in 0.01s")),
            (SignalKind::Lint, ended("", true, "")),
        ]);
        assert_eq!((all.cap, all.bonus), (None, 10.0));
        let broken = rate(&[
            (SignalKind::Build, ended("", false, "error[E0308]")),
            (SignalKind::Lint, ended("", true, "")),
        ]);
        assert_eq!((broken.cap, broken.bonus), (Some(45.0), 0.0));
        assert_eq!(broken.improvements, ["the build command fails:\nerror[E0308]"]);
    }

    #[test]
    fn commands_are_split_without_a_shell() {
        let split = |command| split_command(command);
        assert_eq!(
            split("cargo test -p 'a b' --x=\"1 2\"").unwrap(),
            ["cargo", "test", "-p", "a b", "--x=1 2"]
        );
        assert_eq!(split("run ''").unwrap(), ["run", ""]);
        for command in ["a && b", "a | b", "a; b", "a > b", "echo $HOME", "echo `id`"] {
            assert!(
                split(command).unwrap_err().contains("without a shell"),
                "{command}"
            );
        }
        assert_eq!(split("echo 'a | b'").unwrap(), ["echo", "a | b"]);
        assert_eq!(split("a 'b").unwrap_err(), "a quote is not closed");
        assert_eq!(split("  ").unwrap_err(), "the command is empty");
    }
}
