//! Usage errors with the next step: commands, flags and values as other programs and version 0.7.1 have them.

use clap::{
    CommandFactory as _,
    error::{ContextKind, ContextValue, ErrorKind},
};
use holodeck::model::{printable, shell_word};

use crate::command::Args;

/// A command of other programs.
struct OtherCommand {
    theirs: &'static [&'static str],
    /// Ours.
    ours: &'static str,
    /// The purpose of our command.
    does: &'static str,
}

const COMMANDS: &[OtherCommand] = &[
    OtherCommand {
        theirs: &[
            "eval",
            "evals",
            "evaluate",
            "tests",
            "benchmark",
            "bench",
            "retest",
        ],
        ours: "test",
        does: "runs the test cases and checks the answers",
    },
    OtherCommand {
        theirs: &["check", "lint", "verify", "config-check"],
        ours: "validate",
        does: "reports every problem of the agent file",
    },
    OtherCommand {
        theirs: &["ask", "prompt", "query", "invoke", "exec", "call", "generate"],
        ours: "run",
        does: "asks one question",
    },
    OtherCommand {
        theirs: &["talk", "repl", "shell", "console", "play", "playground"],
        ours: "chat",
        does: "holds a conversation",
    },
    OtherCommand {
        theirs: &["start", "server", "dev", "up", "api", "listen"],
        ours: "serve",
        does: "serves the agent over HTTP",
    },
    OtherCommand {
        theirs: &["new", "create", "scaffold", "setup", "quickstart"],
        ours: "init",
        does: "creates a project",
    },
    OtherCommand {
        theirs: &["compare", "diff", "regressions"],
        ours: "test compare",
        does: "compares two runs",
    },
    OtherCommand {
        theirs: &["show", "results", "ui"],
        ours: "view",
        does: "shows the stored runs in the browser",
    },
    OtherCommand {
        theirs: &["runs"],
        ours: "test list",
        does: "lists the stored runs of an agent",
    },
    OtherCommand {
        theirs: &["report"],
        ours: "test --report html=report.html",
        does: "writes a page with every case",
    },
    OtherCommand {
        theirs: &["ingest", "embed", "reindex"],
        ours: "index build",
        does: "builds the indexes",
    },
    OtherCommand {
        theirs: &["convert", "migrate"],
        ours: "import",
        does: "converts the test files of other tools",
    },
    OtherCommand {
        theirs: &["history", "conversations"],
        ours: "sessions list",
        does: "lists the conversations",
    },
];

/// A flag of version 0.7.1 or of other programs.
struct OtherFlag {
    command: &'static str,
    theirs: &'static [&'static str],
    help: &'static str,
}

const FLAGS: &[OtherFlag] = &[
    OtherFlag {
        command: "chat",
        theirs: &["-m", "--max-messages"],
        help: "a conversation has no limit of messages: leave it out",
    },
    OtherFlag {
        command: "chat",
        theirs: &["-o", "--observability"],
        help: "`observability: {enabled: true}` in the agent file turns it on",
    },
    OtherFlag {
        command: "chat",
        theirs: &["-f", "--force-ingest"],
        help: "`holodeck index build --force` builds the indexes again",
    },
    OtherFlag {
        command: "chat",
        theirs: &["-Q", "--no-quiet"],
        help: "leave it out: without `--quiet`, nothing is left out",
    },
    OtherFlag {
        command: "test",
        theirs: &["--model", "-m", "--provider"],
        help: "write it in the agent file: `model: {provider: openai, name: gpt-4o}`; `matrix` compares several models",
    },
    OtherFlag {
        command: "test",
        theirs: &["-c", "--config", "--agent"],
        help: "the agent file is the first argument, as in `holodeck test agent.yaml`",
    },
    OtherFlag {
        command: "test",
        theirs: &[
            "--case",
            "--cases",
            "--test",
            "--name",
            "--only",
            "-k",
            "--grep",
            "--pattern",
            "--filter-pattern",
        ],
        help: "`--filter 'refund*'` runs the cases with such a name, `--tag` those with a tag",
    },
    OtherFlag {
        command: "run",
        theirs: &["--question", "-p", "--prompt", "-i", "--input"],
        help: "the question is the last argument, as in `holodeck run \"…\"`",
    },
];

/// Formats as other programs call them, and our names.
const FORMATS: [(&str, &str); 6] = [
    ("xml", "junit"),
    ("junit-xml", "junit"),
    ("md", "markdown"),
    ("ndjson", "jsonl"),
    ("htm", "html"),
    ("page", "html"),
];

/// The next step of a usage error, and the error in other words where those of the parser mislead. `args` is the command line
/// without the program.
pub(crate) fn next_step(error: &mut clap::Error, args: &[String]) -> Option<String> {
    let command = args.first().map(String::as_str).unwrap_or_default();
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let typed = text(error, ContextKind::InvalidSubcommand)?;
            let other = COMMANDS
                .iter()
                .find(|other| other.theirs.contains(&typed.as_str()))?;
            error.remove(ContextKind::SuggestedSubcommand);
            let OtherCommand { ours, does, .. } = other;
            let is_plain = |arg: &&String| !arg.starts_with('-');
            let mut rest = String::new();
            for arg in args
                .iter()
                .skip_while(|arg| **arg != typed)
                .skip(1)
                .filter(is_plain)
            {
                rest.push(' ');
                rest.push_str(&shell_word(&printable(arg)));
            }
            Some(format!("`holodeck {ours}{rest}` {does}"))
        }
        ErrorKind::ArgumentConflict if command == "test" => {
            let second = text(error, ContextKind::InvalidSubcommand)?;
            let first = args.iter().skip(1).find(|arg| !arg.starts_with('-'))?;
            Some(second_argument_of_test(error, first, &second))
        }
        ErrorKind::UnknownArgument => {
            let flag = text(error, ContextKind::InvalidArg)?;
            let known = FLAGS
                .iter()
                .find(|other| other.command == command && other.theirs.contains(&flag.as_str()))?;
            // `-- -m` would be an argument, which was not meant.
            error.remove(ContextKind::Suggested);
            error.remove(ContextKind::SuggestedArg);
            Some(known.help.to_owned())
        }
        ErrorKind::InvalidValue => {
            let value = text(error, ContextKind::InvalidValue)?;
            let flag = text(error, ContextKind::InvalidArg)?;
            let (_, ours) = FORMATS.iter().find(|(theirs, _)| *theirs == value)?;
            if !flag.starts_with("--format") {
                return None;
            }
            error.remove(ContextKind::SuggestedValue);
            let has_file = |arg: &String| arg.starts_with("--output") || arg.starts_with("-o");
            Some(if command == "test" && !args.iter().any(has_file) {
                format!("`--report {ours}=FILE` writes it")
            } else {
                format!("`--format {ours}` writes it")
            })
        }
        // 0.7.1 has `-h` for the address.
        ErrorKind::DisplayHelp if command == "serve" => {
            let mut rest = args.iter().skip_while(|arg| *arg != "-h").skip(1);
            let address = rest
                .next()
                .filter(|arg| !arg.starts_with('-') && !arg.contains(".y"))?;
            let address = printable(address).into_owned();
            *error = Args::command().error(
                ErrorKind::UnknownArgument,
                format!("`-h {address}`: `-h` prints help and takes no value"),
            );
            Some(format!("`--host {}` sets the address", shell_word(&address)))
        }
        _ => None,
    }
}

/// Explains a second argument of `holodeck test`, which the parser takes for a command.
fn second_argument_of_test(error: &mut clap::Error, first: &str, second: &str) -> String {
    let is_file = |name: &str| name.contains('.') || name.contains('/');
    if !is_file(first) {
        let first = printable(first);
        *error = Args::command().error(
            ErrorKind::InvalidSubcommand,
            format!("`holodeck test` has no command `{first}`"),
        );
        return "`holodeck test --report html=report.html` writes a page with every case; `holodeck test --help` lists the \
                commands"
            .to_owned();
    }
    let second_word = shell_word(&printable(second));
    *error = Args::command().error(
        ErrorKind::UnknownArgument,
        format!(
            "`{}` after the agent file is one argument too many",
            printable(second)
        ),
    );
    let end = std::path::Path::new(second).extension();
    if end.is_some_and(|end| end == "yaml" || end == "yml") {
        return "`holodeck test` runs the cases of one agent file; run it once for each".to_owned();
    }
    if is_file(second) {
        return format!("`--output {second_word}` writes the report there");
    }
    format!("`holodeck test {second_word} …` if it is a command: commands come before the agent file")
}

/// A text of the context of an error.
fn text(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn explained(line: &str) -> (String, Option<String>) {
        let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let all = std::iter::once("holodeck".to_owned()).chain(args.iter().cloned());
        let mut error = Args::try_parse_from(all).unwrap_err();
        let hint = next_step(&mut error, &args);
        (error.to_string(), hint)
    }

    #[test]
    fn every_foreign_command_is_answered_with_one_that_exists() {
        for other in COMMANDS {
            for theirs in other.theirs {
                let (error, hint) = explained(&format!("{theirs} my-agent.yaml"));
                let hint = hint.unwrap_or_else(|| panic!("{theirs}: {error}"));
                assert!(hint.contains(other.ours), "{theirs}: {hint}");
                assert!(!error.contains("similar"), "{error}");
            }
            let mut command = Args::command();
            let words = other.ours.split(' ').take_while(|word| !word.starts_with('-'));
            for word in words {
                command = command
                    .find_subcommand(word)
                    .unwrap_or_else(|| panic!("{}", other.ours))
                    .clone();
            }
        }
    }

    #[test]
    fn no_foreign_command_exists_here() {
        for theirs in COMMANDS.iter().flat_map(|other| other.theirs) {
            assert!(Args::command().find_subcommand(theirs).is_none(), "{theirs}");
        }
    }

    #[test]
    fn flags_of_other_versions_are_explained() {
        for other in FLAGS {
            for theirs in other.theirs {
                let (error, hint) = explained(&format!("{} {theirs}", other.command));
                assert_eq!(hint.as_deref(), Some(other.help), "{theirs}: {error}");
                assert!(!error.contains("as a value"), "{error}");
            }
        }
    }

    #[test]
    fn a_second_argument_of_test_is_no_command() {
        for (line, says, hints) in [
            ("test agent.yaml out.json", "out.json", "--output out.json"),
            ("test results latest", "`results`", "--report html"),
            ("test a.yaml b.yaml", "b.yaml", "once for each"),
        ] {
            let (error, hint) = explained(line);
            assert!(error.contains(says), "{error}");
            assert!(!error.contains("cannot be used with"), "{error}");
            assert!(hint.as_deref().unwrap().contains(hints), "{hint:?}");
        }
    }

    #[test]
    fn an_address_after_the_flag_for_help_is_no_request_for_help() {
        let (error, hint) = explained("serve -h 0.0.0.0");
        assert!(error.contains("`-h 0.0.0.0`"), "{error}");
        assert_eq!(hint.as_deref(), Some("`--host 0.0.0.0` sets the address"));
        assert_eq!(explained("serve -h").1, None);
        assert_eq!(explained("serve -h agent.yaml").1, None);
    }

    #[test]
    fn a_format_of_another_program_is_answered_with_ours() {
        let (error, hint) = explained("test --format xml");
        assert!(!error.contains("similar"), "{error}");
        assert_eq!(hint.as_deref(), Some("`--report junit=FILE` writes it"));
        let (_, hint) = explained("test -o results.xml --format xml");
        assert_eq!(hint.as_deref(), Some("`--format junit` writes it"));
    }
}
