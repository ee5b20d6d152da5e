//! The commands of a conversation, which begin with a slash.

use std::path::PathBuf;

use holodeck::model::{CHAT_COMMANDS, closest};

/// A command typed in a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Slash {
    Help,
    Attach(PathBuf),
    Tools,
    Cost,
    History,
    Export(PathBuf),
    /// With a name, unless one is to be made.
    SaveAsTest(Option<String>),
    Fork,
    Retry,
    Clear,
    Quit,
}

/// Each command, its argument and what it does.
pub(super) const HELP: &[(&str, &str, &str)] = &[
    ("/help", "", "show these commands"),
    ("/attach", "FILE", "attach a file to the next message"),
    ("/tools", "", "list the agent's tools"),
    ("/cost", "", "show tokens and cost of this conversation"),
    ("/history", "", "show this conversation"),
    ("/export", "FILE", "write this conversation to a Markdown file"),
    (
        "/save-as-test",
        "[NAME]",
        "add this conversation to the agent's test cases",
    ),
    ("/fork", "", "continue in a copy; the original stays as it is"),
    (
        "/retry",
        "",
        "ask the last message again, in a copy without its answer",
    ),
    ("/clear", "", "begin a new conversation"),
    ("/quit", "", "leave; so do `exit`, `quit` and Ctrl-D"),
];

impl Slash {
    /// The command in a line; `None` if the line is a message, which may name one of the agent's commands. A name that is
    /// almost one of these commands is a problem, and any other word that begins with a slash is text.
    pub(super) fn parse(line: &str, of_agent: &[String]) -> Option<Result<Self, String>> {
        let line = line.trim();
        if matches!(line, "exit" | "quit") {
            return Some(Ok(Self::Quit));
        }
        // A path, or a message that begins with a slash, is not a command.
        let name = line.strip_prefix('/')?;
        let (name, argument) = name.split_once(char::is_whitespace).unwrap_or((name, ""));
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphabetic() || c == '-') {
            return None;
        }
        let argument = argument.trim();
        let command = match name {
            "help" => Self::Help,
            "attach" | "export" if argument.is_empty() => {
                return Some(Err(format!("`/{name}` needs a file")));
            }
            "attach" => Self::Attach(PathBuf::from(argument)),
            "export" => Self::Export(PathBuf::from(argument)),
            "save-as-test" => Self::SaveAsTest((!argument.is_empty()).then(|| argument.to_owned())),
            "tools" => Self::Tools,
            "cost" => Self::Cost,
            "history" => Self::History,
            "fork" => Self::Fork,
            "retry" => Self::Retry,
            "clear" => Self::Clear,
            "quit" | "exit" => Self::Quit,
            other => {
                let is_it = |command: &String| command.trim().eq_ignore_ascii_case(other);
                if of_agent.iter().any(is_it) {
                    return None;
                }
                let names = CHAT_COMMANDS
                    .into_iter()
                    .chain(of_agent.iter().map(String::as_str));
                let meant = closest(other, names)?;
                return Some(Err(format!(
                    "`/{other}` is not a command; did you mean `/{meant}`?"
                )));
            }
        };
        Some(Ok(command))
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn lines_are_commands_or_messages() {
        assert_eq!(Slash::parse(" /help ", &[]), Some(Ok(Slash::Help)));
        assert_eq!(Slash::parse("exit", &[]), Some(Ok(Slash::Quit)));
        assert_eq!(
            Slash::parse("/attach a b.pdf", &[]),
            Some(Ok(Slash::Attach("a b.pdf".into())))
        );
        assert_eq!(
            Slash::parse("/save-as-test", &[]),
            Some(Ok(Slash::SaveAsTest(None)))
        );
        assert_eq!(
            Slash::parse("/save-as-test order 7", &[]),
            Some(Ok(Slash::SaveAsTest(Some("order 7".to_owned()))))
        );
        assert_eq!(
            Slash::parse("/histroy", &[]),
            Some(Err(
                "`/histroy` is not a command; did you mean `/history`?".to_owned()
            ))
        );
        assert_eq!(
            Slash::parse("/export", &[]),
            Some(Err("`/export` needs a file".to_owned()))
        );
        for message in [
            "hello",
            "exit now",
            "/etc/passwd is a file",
            "/",
            "// comment",
            "/summarize this",
        ] {
            assert_eq!(Slash::parse(message, &[]), None, "{message}");
        }
    }

    #[test]
    fn own_commands_come_before_those_of_the_agent() {
        let of_agent = ["review".to_owned(), "help".to_owned()];
        assert_eq!(Slash::parse("/review src", &of_agent), None);
        assert_eq!(Slash::parse("/REVIEW src", &of_agent), None);
        assert_eq!(Slash::parse("/help", &of_agent), Some(Ok(Slash::Help)));
        let misspelt = "`/reveiw` is not a command; did you mean `/review`?".to_owned();
        assert_eq!(Slash::parse("/reveiw src", &of_agent), Some(Err(misspelt)));
    }

    #[test]
    fn the_list_of_own_commands_is_whole() {
        let listed = HELP.iter().map(|(name, _, _)| name.trim_start_matches('/'));
        let mut listed: Vec<&str> = listed.chain(["exit"]).collect();
        let mut known = CHAT_COMMANDS.to_vec();
        listed.sort_unstable();
        known.sort_unstable();
        assert_eq!(listed, known);
    }

    #[test]
    fn the_help_lists_every_command() {
        for (name, argument, _) in HELP {
            assert!(
                matches!(Slash::parse(&format!("{name} {argument}"), &[]), Some(Ok(_))),
                "{name}"
            );
        }
    }
}
