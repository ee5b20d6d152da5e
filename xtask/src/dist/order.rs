//! The order of the program's functions: those that the main commands use stand together, so that few pages of the file are read.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::{host, workspace};

/// The functions that the main commands use, as their sources name them; `cargo xtask dist-profile` writes it.
pub(super) const LIST: &str = "xtask/dist/functions.txt";

/// A line of the list that names the command whose functions follow.
pub(super) const TITLE: char = '#';

/// Of the names of the list, the part that a program must have at least: below that the list is of another program.
const KNOWN_AT_LEAST: f64 = 0.8;

/// The symbols of a program's functions, by address.
fn functions(program: &Path) -> Result<Vec<String>> {
    let symbols = host::output(
        host::command("nm")
            .args(["--defined-only", "--numeric-sort"])
            .arg(program),
    )?;
    Ok(symbols.lines().filter_map(function).map(str::to_owned).collect())
}

/// The symbol in a line of `nm`, address, kind and symbol, if its kind is code.
fn function(line: &str) -> Option<&str> {
    let mut parts = line.splitn(3, ' ');
    parts.next()?;
    let is_code = matches!(parts.next()?, "t" | "T" | "w" | "W");
    parts.next().filter(|_| is_code)
}

/// The name of a function in its source. It stays the same when a version of a package or of the compiler changes.
pub(super) fn name(symbol: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(symbol))
}

/// The functions of the list in a program.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Order {
    /// Their symbols in the order of the list, one a line.
    pub(super) symbols: String,
    /// How many names of the list are functions of the program.
    found: usize,
    listed: usize,
}

/// Where the list is.
pub(super) fn list() -> PathBuf {
    workspace::root().join(LIST)
}

/// Arranges the functions of a program with symbols as a list has them.
pub(super) fn of_program(program: &Path, list: &Path) -> Result<Order> {
    let list = std::fs::read_to_string(list).with_context(|| format!("failed to read {}", list.display()))?;
    Ok(arrange(&list, &functions(program)?))
}

fn arrange(list: &str, functions: &[String]) -> Order {
    let mut named: HashMap<String, Vec<&str>> = HashMap::new();
    for symbol in functions {
        named.entry(name(symbol)).or_default().push(symbol);
    }
    let mut order = Order {
        symbols: String::new(),
        found: 0,
        listed: 0,
    };
    for name in list.lines().filter(|line| !line.starts_with(TITLE)) {
        order.listed += 1;
        let symbols = named.remove(name);
        order.found += usize::from(symbols.is_some());
        for symbol in symbols.into_iter().flatten() {
            order.symbols.push_str(symbol);
            order.symbols.push('\n');
        }
    }
    order
}

impl Order {
    /// Says how much of the list is in the program; an error if the list is of another program.
    pub(super) fn check(&self) -> Result<()> {
        let Self { found, listed, .. } = self;
        println!("{found} of the {listed} functions of {LIST} are in the program");
        ensure!(
            *found as f64 >= *listed as f64 * KNOWN_AT_LEAST,
            "{LIST} is of another program: make it with `cargo xtask dist-profile`"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Order, arrange, function, name};

    /// `holodeck_cli::main` and `holodeck_cli::start`, and a function in C.
    const MAIN: &str = "_RNvCsaz6eC2DG7lh_12holodeck_cli4main";
    const START: &str = "_RNvCsaz6eC2DG7lh_12holodeck_cli5start";
    const IN_C: &str = "je_malloc";

    fn functions() -> Vec<String> {
        [IN_C, MAIN, START].map(str::to_owned).to_vec()
    }

    #[test]
    fn functions_stand_in_the_order_of_the_list() {
        let order = arrange(
            "# test\nholodeck_cli::start\ngone::away\nje_malloc\n",
            &functions(),
        );
        assert_eq!(
            order,
            Order {
                symbols: format!("{START}\n{IN_C}\n"),
                found: 2,
                listed: 3,
            }
        );
        assert!(order.check().is_err());
    }

    #[test]
    fn a_name_is_the_same_for_every_compiler() {
        assert_eq!(name(MAIN), "holodeck_cli::main");
        assert_eq!(name(&MAIN.replace("az6eC2DG7lh", "bQ1")), "holodeck_cli::main");
    }

    #[test]
    fn only_code_is_a_function() {
        assert_eq!(function("0000000000013d10 T _start"), Some("_start"));
        assert_eq!(function("0000000000413d10 r TABLE"), None);
        assert_eq!(function("0000000000413d10 D environ"), None);
    }
}
