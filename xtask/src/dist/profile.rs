//! Finds the functions that the main commands of the distributed program use, with Callgrind.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::order::{self, LIST, TITLE};
use crate::host;
use crate::served::load;
use crate::served::model::Pace;
use crate::workload::{Project, Server, project, server};

/// Options of `cargo xtask dist-profile`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The program with symbols: `cargo xtask dist` leaves it as `target/PLATFORM/dist/holodeck.symbols`.
    program: PathBuf,
}

/// Cases of the run: enough that what a case needs is used, few because the program is some fifty times slower.
const CASES: usize = 300;

pub(crate) fn run(args: &Args) -> Result<()> {
    let watched = Watched::new(&args.program)?;
    let home = watched.folder.path();
    let server = Server::start(&server::build()?, Duration::ZERO)?;
    let mut list = List::default();

    host::output(host::command(&watched.script).arg("--version"))?;
    list.add("--version", &watched)?;
    for (title, cases) in [("test, 1 case", 1), ("test, many cases", CASES)] {
        let project = Project::create(home, cases, server.url())?;
        host::output(
            host::command(&watched.script)
                .args(["test", project::AGENT, "--live", "-j", "50"])
                .env("OPENAI_API_KEY", "dummy")
                .current_dir(project.dir()),
        )?;
        project.check_results()?;
        list.add(title, &watched)?;
    }
    let pace = Pace {
        pieces: 20,
        interval: Duration::from_millis(20),
        padding: 0,
    };
    load::conversations(&watched.script, 2, pace, "", None)?;
    list.add("serve", &watched)?;

    fs::write(order::list(), list.text)?;
    println!("wrote {} names into {LIST}", list.seen.len());
    Ok(())
}

/// A program that Callgrind watches: a script that starts it, and where its profiles are left.
struct Watched {
    folder: tempfile::TempDir,
    script: PathBuf,
    profiles: PathBuf,
}

impl Watched {
    fn new(program: &Path) -> Result<Self> {
        let program = std::path::absolute(program)?;
        ensure!(program.is_file(), "`{}` is not there", program.display());
        let folder = tempfile::Builder::new().prefix("holodeck-profile-").tempdir()?;
        let profiles = folder.path().join("profiles");
        fs::create_dir(&profiles)?;
        let script = folder.path().join("holodeck");
        let text = format!(
            "#!/bin/sh\nexec valgrind --quiet --tool=callgrind --demangle=no --callgrind-out-file='{}/%p' '{}' \"$@\"\n",
            profiles.display(),
            program.display()
        );
        fs::write(&script, text)?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
        Ok(Self {
            folder,
            script,
            profiles,
        })
    }

    /// The names of the functions that were used since the last call.
    fn take(&self) -> Result<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        for entry in fs::read_dir(&self.profiles)? {
            let path = entry?.path();
            let profile = fs::read_to_string(&path).context("a profile is not text")?;
            names.extend(profile.lines().filter_map(used).map(order::name));
            fs::remove_file(path)?;
        }
        ensure!(
            names.len() > 100,
            "only {} functions were seen: has the program symbols?",
            names.len()
        );
        Ok(names)
    }
}

/// The symbol that a line of a profile defines: `fn=(12) symbol`, or `cfn=` for one that is called.
fn used(line: &str) -> Option<&str> {
    let line = line.strip_prefix('c').unwrap_or(line);
    let (_, symbol) = line.strip_prefix("fn=(")?.split_once(") ")?;
    // What has no symbol is an address, and what is before `main` has a name in brackets.
    let is_named = !symbol.starts_with("0x") && !symbol.starts_with('(');
    // A function that calls itself is numbered: `symbol'2`.
    symbol.split('\'').next().filter(|_| is_named)
}

/// The list of functions, those of a command after those of the commands before it.
#[derive(Default)]
struct List {
    seen: BTreeSet<String>,
    text: String,
}

impl List {
    fn add(&mut self, title: &str, watched: &Watched) -> Result<()> {
        let new: Vec<String> = watched.take()?.difference(&self.seen).cloned().collect();
        println!("{title}: {} functions more", new.len());
        writeln!(self.text, "{TITLE} {title}")?;
        for name in new {
            self.text.push_str(&name);
            self.text.push('\n');
            self.seen.insert(name);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::used;

    #[test]
    fn a_profile_names_functions_once_and_those_that_are_called() {
        assert_eq!(used("fn=(12) _RNvC1a4main"), Some("_RNvC1a4main"));
        assert_eq!(used("cfn=(13) je_malloc'2"), Some("je_malloc"));
        assert_eq!(used("fn=(12)"), None);
        assert_eq!(used("fn=(14) 0x00000000023e8f19"), None);
        assert_eq!(used("fn=(15) (below main)"), None);
        assert_eq!(used("fl=(3) ???"), None);
    }
}
