//! Asks the questions of interactive commands on the terminal; Enter takes the default.

use std::io::BufRead;

use clap::ValueEnum;
use holodeck::{model::closest, runs::ExitCode};

use crate::failure::{Failure, Problem};

/// Reads answers from `input`, and shows questions with `show`.
pub(super) struct Questions<'a> {
    pub(super) input: &'a mut dyn BufRead,
    pub(super) show: &'a mut dyn FnMut(&str),
}

impl Questions<'_> {
    /// Asks for one of several values, by number or name.
    pub(super) fn choice<T: ValueEnum + PartialEq>(&mut self, what: &str, default: &T) -> Result<T, Failure> {
        let choices: Vec<_> = T::value_variants()
            .iter()
            .filter_map(|variant| Some((variant, variant.to_possible_value()?)))
            .collect();
        let width = choices.iter().map(|(_, value)| value.get_name().len()).max();
        for (number, (_, value)) in (1..).zip(&choices) {
            let help = value.get_help().map(ToString::to_string).unwrap_or_default();
            let width = width.unwrap_or_default();
            (self.show)(&format!("  {number}  {:width$}  {help}\n", value.get_name()));
        }
        let names: Vec<_> = choices.iter().map(|(_, value)| value.get_name()).collect();
        let position = |answer: &str| {
            let number = answer
                .parse::<usize>()
                .ok()
                .and_then(|number| number.checked_sub(1));
            let by_name = || names.iter().position(|name| *name == answer);
            number.or_else(by_name).filter(|at| *at < names.len())
        };
        let default = choices
            .iter()
            .position(|(variant, _)| *variant == default)
            .unwrap_or_default();
        let default = names.get(default).copied().unwrap_or_default();
        let answer = self.line(what, default, |answer| match position(answer) {
            Some(_) => Ok(()),
            None => Err(match closest(answer, names.iter().copied()) {
                Some(name) => format!("did you mean `{name}`?"),
                None => format!("type a number from 1 to {}, or a name", names.len()),
            }),
        })?;
        let choice = position(&answer).and_then(|at| T::value_variants().get(at));
        choice
            .cloned()
            .ok_or_else(|| Problem::config(format!("`{answer}` is not a choice")).into())
    }

    /// Asks for a line until `check` accepts it; an empty line is `default`.
    pub(super) fn line(
        &mut self,
        what: &str,
        default: &str,
        check: impl Fn(&str) -> Result<(), String>,
    ) -> Result<String, Failure> {
        loop {
            (self.show)(&format!("{what} [{default}]: "));
            let mut line = String::new();
            let read = self.input.read_line(&mut line);
            let interrupted =
                |why: &str| Problem::new(ExitCode::Interrupted, format!("{why}; nothing was written"));
            match read {
                Ok(0) => {
                    (self.show)("\n");
                    return Err(interrupted("the input ended").into());
                }
                Ok(_) => {}
                Err(error) => return Err(interrupted(&format!("cannot read the answer: {error}")).into()),
            }
            let answer = match line.trim() {
                "" => default,
                answer => answer,
            };
            match check(answer) {
                Ok(()) => return Ok(answer.to_owned()),
                Err(why) => (self.show)(&format!("  {why}\n")),
            }
        }
    }
}
