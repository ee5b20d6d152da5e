//! Generates the pages of the documentation that list commands, flags and diagnostic codes.

use clap::{Arg, ArgAction, Command};
use holodeck::model::Code;

/// Texts around the generated parts.
const BEFORE: &str = include_str!("reference/before.md");
const DIAGNOSTICS: &str = include_str!("reference/diagnostics.md");
const AFTER: &str = include_str!("reference/after.md");

/// Every command with its flags, in Markdown.
pub(crate) fn command_reference(root: &Command) -> String {
    let mut root = root.clone();
    root.build();
    let mut page = BEFORE.to_owned();
    page.push_str("\n## Flags of every command\n\n");
    page.push_str(&flags(root.get_arguments().filter(|flag| flag.is_global_set())));
    for command in root.get_subcommands() {
        section(command, "holodeck", &mut page);
    }
    page.push('\n');
    page.push_str(AFTER);
    page
}

fn section(command: &Command, parent: &str, page: &mut String) {
    if command.is_hide_set() || command.get_name() == "help" {
        return;
    }
    let name = format!("{parent} {}", command.get_name());
    page.push_str(&format!("\n## `{name}`\n"));
    if let Some(about) = command.get_long_about().or(command.get_about()) {
        page.push_str(&format!("\n{about}\n"));
    }
    let usage = command.clone().render_usage().to_string();
    let usage: Vec<_> = usage
        .lines()
        .map(|line| line.trim_start_matches("Usage:").trim())
        .collect();
    page.push_str(&format!("\n```\n{}\n```\n", usage.join("\n")));
    let own: Vec<_> = command
        .get_arguments()
        .filter(|argument| {
            !argument.is_global_set() && !argument.is_hide_set() && argument.get_id() != "help"
        })
        .collect();
    // An alias of `holodeck test`, whose flags are listed there.
    let is_alias = name == "holodeck test run";
    if !own.is_empty() && !is_alias {
        page.push('\n');
        page.push_str(&flags(own.into_iter()));
    }
    for inner in command.get_subcommands() {
        section(inner, &name, page);
    }
}

fn flags<'a>(all: impl Iterator<Item = &'a Arg>) -> String {
    let mut table = String::from("| | |\n|---|---|\n");
    for argument in all {
        let help = argument
            .get_long_help()
            .or(argument.get_help())
            .map_or_else(String::new, |help| help.to_string().replace('\n', " "));
        let help = help.trim_end_matches('.');
        table.push_str(&format!(
            "| {} | {help}.{} |\n",
            spelling(argument),
            values(argument)
        ));
    }
    table
}

/// `-n`, `--limit N`
fn spelling(argument: &Arg) -> String {
    let takes_value = matches!(argument.get_action(), ArgAction::Set | ArgAction::Append);
    let value = argument
        .get_value_names()
        .filter(|_| takes_value)
        .and_then(|names| names.first())
        .map_or_else(String::new, ToString::to_string);
    if argument.is_positional() {
        return format!("`{value}`");
    }
    let mut spellings = Vec::new();
    if let Some(short) = argument.get_short() {
        spellings.push(format!("`-{short}`"));
    }
    if let Some(long) = argument.get_long() {
        let value = if value.is_empty() {
            value
        } else {
            format!(" {value}")
        };
        spellings.push(format!("`--{long}{value}`"));
    }
    spellings.join(", ")
}

fn values(argument: &Arg) -> String {
    let mut more = String::new();
    let takes_value = matches!(argument.get_action(), ArgAction::Set | ArgAction::Append);
    let possible: Vec<_> = argument
        .get_possible_values()
        .iter()
        .filter(|value| takes_value && !value.is_hide_set())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if !possible.is_empty() {
        more.push_str(&format!(" One of {}.", possible.join(", ")));
    }
    let defaults: Vec<_> = argument
        .get_default_values()
        .iter()
        .filter(|_| takes_value)
        .map(|value| format!("`{}`", value.to_string_lossy()))
        .collect();
    if !defaults.is_empty() {
        more.push_str(&format!(" Default: {}.", defaults.join(", ")));
    }
    more
}

/// Every diagnostic code, in Markdown.
pub(crate) fn diagnostic_reference() -> String {
    let mut page = DIAGNOSTICS.to_owned();
    for code in Code::ALL {
        page.push_str(&format!(
            "| {} | {} | {} |\n",
            code.id(),
            code.name(),
            code.summary()
        ));
    }
    page
}
