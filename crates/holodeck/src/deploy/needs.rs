//! The runtimes that an image needs beside `holodeck`: found in the programs and scripts that the agent file names.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs::File,
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
};

use holodeck_model::{Provider, ResolvedAgent};

use crate::agent::inventory::{self, Inventory, Named};

/// A program that runs tools of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Runtime {
    Python,
    /// `uv` and `uvx`, which need Python.
    Uv,
    Node,
    /// The Claude Code CLI, which needs Node.
    Claude,
    Shell,
}

/// The runtimes of an image, and the programs that no runtime has.
#[derive(Debug, Default)]
pub(super) struct Needs {
    pub(super) runtimes: BTreeSet<Runtime>,
    /// Each with the field that names it.
    pub(super) unknown: Vec<(String, String)>,
}

impl Needs {
    pub(super) fn of(agent: &ResolvedAgent) -> Self {
        let mut needs = Self::default();
        for used in inventory::files(agent) {
            match &used.named {
                Named::Script(file) => needs.add_script(&file.path()),
                Named::Module(..) => needs.add(Runtime::Python),
                Named::Program {
                    command: Some(command),
                    ..
                } => {
                    needs.add_program(command.as_str(), &command.path(), &used.pointer);
                }
                Named::CommandLine(line, folder) => {
                    if let Some(program) = line.first() {
                        needs.add_program(program, &folder.join(program), &used.pointer);
                    }
                }
                _ => {}
            }
        }
        let inventory = Inventory::new(agent, None);
        let mut models = inventory.models().iter();
        if models.any(|used| used.config.provider == Provider::Anthropic) {
            needs.add(Runtime::Claude);
        }
        needs
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.runtimes.extend(other.runtimes);
        self.unknown.extend(other.unknown);
    }

    pub(super) fn has(&self, runtime: Runtime) -> bool {
        self.runtimes.contains(&runtime)
    }

    fn add(&mut self, runtime: Runtime) {
        self.runtimes.insert(runtime);
        match runtime {
            Runtime::Uv => self.runtimes.insert(Runtime::Python),
            Runtime::Claude => self.runtimes.insert(Runtime::Node),
            _ => false,
        };
    }

    fn add_script(&mut self, path: &Path) {
        let extension = path.extension().and_then(OsStr::to_str).unwrap_or_default();
        match extension {
            "py" => self.add(Runtime::Python),
            "js" | "mjs" | "cjs" | "ts" | "mts" | "cts" => self.add(Runtime::Node),
            "sh" | "bash" => self.add(Runtime::Shell),
            _ => {}
        }
    }

    /// A program by its name, or a file of the agent by its path.
    fn add_program(&mut self, name: &str, path: &Path, pointer: &str) {
        if name.contains('/') {
            return match interpreter(path) {
                Some(interpreter) => self.add_named(&interpreter, pointer),
                None => self.add_script(path),
            };
        }
        self.add_named(name, pointer);
    }

    fn add_named(&mut self, name: &str, pointer: &str) {
        let known = match name {
            "uv" | "uvx" => Runtime::Uv,
            "node" | "npm" | "npx" => Runtime::Node,
            "claude" => Runtime::Claude,
            "sh" | "bash" | "env" | "cat" | "true" | "false" | "echo" => Runtime::Shell,
            "holodeck" => return,
            _ if name.starts_with("python") || name == "pip" || name == "pip3" => Runtime::Python,
            _ => return self.unknown.push((name.to_owned(), pointer.to_owned())),
        };
        self.add(known);
    }
}

/// The program that the first line of a script names.
fn interpreter(path: &Path) -> Option<String> {
    let mut first = Vec::new();
    let file = BufReader::new(File::open(path).ok()?.take(256));
    let _ = { file }.read_until(b'\n', &mut first);
    let line = String::from_utf8(first).ok()?;
    let mut words = line.strip_prefix("#!")?.split_whitespace();
    let program = Path::new(words.next()?).file_name()?.to_str()?.to_owned();
    if program == "env" {
        return words.find(|word| !word.starts_with('-')).map(str::to_owned);
    }
    Some(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_are_found_by_name_ending_and_first_line() {
        let folder = tempfile::tempdir().unwrap();
        let script = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let needs = |name: &str, path: &Path| {
            let mut needs = Needs::default();
            needs.add_program(name, path, "tools.0");
            (
                needs.runtimes.into_iter().collect::<Vec<_>>(),
                needs.unknown.len(),
            )
        };
        let here = Path::new("x");
        assert_eq!(needs("python3.13", here), (vec![Runtime::Python], 0));
        assert_eq!(needs("uvx", here), (vec![Runtime::Python, Runtime::Uv], 0));
        assert_eq!(needs("npx", here), (vec![Runtime::Node], 0));
        assert_eq!(needs("claude", here), (vec![Runtime::Node, Runtime::Claude], 0));
        assert_eq!(needs("sqlite3", here), (vec![], 1));
        let own = script("own", "#!/usr/bin/env -S node --no-warnings\n");
        assert_eq!(needs("./own", &own), (vec![Runtime::Node], 0));
        let own = script("own.sh", "echo\n");
        assert_eq!(needs("./own.sh", &own), (vec![Runtime::Shell], 0));
        let own = script("other", "#!/usr/bin/perl\n");
        assert_eq!(needs("./other", &own), (vec![], 1));
    }
}
