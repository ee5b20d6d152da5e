//! The Claude Code CLI: finds it, what runs it, and checks its version.

use std::{
    ffi::OsString,
    fs,
    io::Read as _,
    path::{Path, PathBuf},
    time::Duration,
};

use holodeck_model::{
    CliVersion, Code, Diagnostic, Env, Location,
    env::{HOLODECK_CLAUDE_CLI, HOME, PATH},
};
use holodeck_process::{AtLimit, ChildEnv, ProcessError, ProcessSpec, run, which};
use holodeck_yaml::LoadedAgent;
use tokio_util::sync::CancellationToken;

/// How long the CLI may take to report its version. Warm, it takes some 30 ms.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where installers put it if it is not on the path, relative to the user's home unless absolute.
const USUAL_PLACES: [&str; 6] = [
    ".npm-global/bin/claude",
    "/usr/local/bin/claude",
    ".local/bin/claude",
    "node_modules/.bin/claude",
    ".yarn/bin/claude",
    ".claude/local/claude",
];

/// Variables for `--version`, which the program handles before it reads anything else.
const VARIABLES: [&str; 5] = [PATH, HOME, "LANG", "LC_ALL", "TMPDIR"];

/// A Claude Code CLI that answered and is new enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaudeCli {
    /// Its file.
    pub path: PathBuf,
    /// Its version.
    pub version: CliVersion,
    /// The kind of program that runs it.
    pub kind: ClaudeCliKind,
}

/// The kind of program that runs a CLI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaudeCliKind {
    /// It is a native program.
    Native,
    /// It is a script for Node.js.
    Script {
        /// The `node` program.
        node: PathBuf,
    },
}

impl ClaudeCli {
    /// The program to start, and the argument that must precede all others, if any.
    pub fn command(&self) -> (&Path, Option<&Path>) {
        command(&self.path, &self.kind)
    }
}

fn command<'a>(path: &'a Path, kind: &'a ClaudeCliKind) -> (&'a Path, Option<&'a Path>) {
    match kind {
        ClaudeCliKind::Native => (path, None),
        ClaudeCliKind::Script { node } => (node, Some(path)),
    }
}

/// Where to look for the CLI: the named program, else the path, else its usual places.
#[derive(Clone, Debug)]
pub struct ClaudeCliSearch {
    named: Option<Named>,
    env: ChildEnv,
    path: Option<OsString>,
    home: Option<PathBuf>,
    patience: Duration,
}

#[derive(Clone, Debug)]
struct Named {
    program: PathBuf,
    /// The subject in ``names `x`, ``.
    by: &'static str,
    place: Option<Location>,
}

impl ClaudeCliSearch {
    /// Looks at `HOLODECK_CLAUDE_CLI`, `PATH` and `HOME` of `env`.
    pub fn new(env: &Env) -> Self {
        Self {
            named: env.non_blank(HOLODECK_CLAUDE_CLI).map(|program| Named {
                program: PathBuf::from(program),
                by: "`HOLODECK_CLAUDE_CLI`",
                place: None,
            }),
            env: ChildEnv::inherit(&VARIABLES, |name| env.get(name)),
            path: env.get(PATH).map(OsString::from),
            home: env.home().map(Path::to_owned),
            patience: PATIENCE,
        }
    }

    /// As [`new`](Self::new), with the agent's `claude.cli_path`, over which `HOLODECK_CLAUDE_CLI` takes precedence.
    pub fn for_agent(agent: &LoadedAgent, env: &Env) -> Self {
        let mut search = Self::new(env);
        let written = agent
            .config
            .claude
            .as_ref()
            .and_then(|claude| claude.cli_path.as_ref());
        if let (None, Some(written)) = (&search.named, written) {
            search.named = Some(Named {
                program: in_some_folder(written.path()),
                by: "`claude.cli_path`",
                place: agent.locate("claude.cli_path"),
            });
        }
        search
    }

    /// Uses only `program`.
    #[must_use]
    pub fn at(mut self, program: impl Into<PathBuf>) -> Self {
        self.named = Some(Named {
            program: program.into(),
            by: "the caller",
            place: None,
        });
        self
    }

    /// Finds the CLI and reads its version.
    pub async fn find(&self) -> Result<ClaudeCli, Box<Diagnostic>> {
        let path = self.locate()?;
        let kind = self.kind(&path)?;
        let version = self.version(&path, &kind).await?;
        if version < CliVersion::OLDEST {
            let message = format!(
                "`{}` is Claude Code {version}; {} or later is needed",
                path.display(),
                CliVersion::OLDEST
            );
            return Err(self.refuse(Code::OutdatedProgram, message, Some("update it with `npm install -g @anthropic-ai/claude-code@latest`, or name another one with `HOLODECK_CLAUDE_CLI`")));
        }
        Ok(ClaudeCli { path, version, kind })
    }

    fn locate(&self) -> Result<PathBuf, Box<Diagnostic>> {
        let Some(named) = &self.named else {
            return self.look_around().ok_or_else(|| {
                let message = "the Claude Code CLI was not found: no `claude` is on the path".to_owned();
                self.refuse(
                    Code::MissingProgram,
                    message,
                    Some("install it with `npm install -g @anthropic-ai/claude-code`, or name it with `claude.cli_path` or `HOLODECK_CLAUDE_CLI`"),
                )
            });
        };
        let shown = named.program.display();
        let is_name = named.program.components().count() == 1 && !named.program.is_absolute();
        let found = if is_name && !named.program.exists() {
            which(&named.program, self.path.as_deref())
        } else {
            named
                .program
                .exists()
                .then(|| in_some_folder(named.program.clone()))
        };
        let Some(found) = found else {
            let message = format!("{} names `{shown}`, which does not exist", named.by);
            return Err(self.refuse(
                Code::MissingProgram,
                message,
                Some("give the path of the `claude` program, or leave it out to have it looked for"),
            ));
        };
        let usable = found.is_file() && (runs_in_node(&found) || which(&found, None).is_some());
        if !usable {
            let message = format!("{} names `{shown}`, which is not executable", named.by);
            let help = if found.is_dir() {
                "it is a directory; name the program in it"
            } else {
                "make it executable with `chmod +x`"
            };
            return Err(self.refuse(Code::MissingProgram, message, Some(help)));
        }
        Ok(found)
    }

    /// On the path, else where installers put it.
    fn look_around(&self) -> Option<PathBuf> {
        which("claude", self.path.as_deref()).or_else(|| {
            USUAL_PLACES.iter().find_map(|place| {
                let place = match &self.home {
                    Some(home) => home.join(place),
                    None => PathBuf::from(place),
                };
                place.is_absolute().then(|| which(&place, None)).flatten()
            })
        })
    }

    /// Only scripts for Node.js need `node`.
    fn kind(&self, path: &Path) -> Result<ClaudeCliKind, Box<Diagnostic>> {
        if !runs_in_node(path) {
            return Ok(ClaudeCliKind::Native);
        }
        if let Some(node) = which("node", self.path.as_deref()) {
            return Ok(ClaudeCliKind::Script { node });
        }
        let message = format!(
            "`{}` is a script that Node.js runs, and no `node` is on the path",
            path.display()
        );
        Err(self.refuse(
            Code::MissingProgram,
            message,
            Some("install Node.js, or the native CLI, which needs none: `npm install -g @anthropic-ai/claude-code@latest`"),
        ))
    }

    async fn version(&self, path: &Path, kind: &ClaudeCliKind) -> Result<CliVersion, Box<Diagnostic>> {
        let (program, script) = command(path, kind);
        let args = script.into_iter().map(|script| script.as_os_str().to_owned());
        let spec = ProcessSpec::new(program, self.env.clone())
            .args(args.chain([OsString::from("--version")]))
            .timeout(self.patience)
            .stdout_limit(4096, AtLimit::Drop);
        let shown = path.display();
        let output = run(&spec, &CancellationToken::new()).await.map_err(|error| {
            let message = match error {
                ProcessError::TimedOut { after, .. } => {
                    format!(
                        "`{shown} --version` does not answer within {} s",
                        after.as_secs_f64()
                    )
                }
                error => format!("`{shown}` can't be started: {error}"),
            };
            self.refuse(Code::MissingProgram, message, None)
        })?;
        if !output.exit.success() {
            let mut message = format!("`{shown} --version` ended with {}", output.exit);
            if let Some(line) = output.stderr.lines().next() {
                message.push_str(": ");
                message.extend(line.chars().take(200));
            }
            return Err(self.refuse(Code::MissingProgram, message, None));
        }
        let output = String::from_utf8_lossy(&output.stdout);
        CliVersion::parse(&output).ok_or_else(|| {
            let line: String = output
                .lines()
                .next()
                .unwrap_or_default()
                .chars()
                .take(80)
                .collect();
            let message = format!("`{shown} --version` printed no version but `{line}`");
            self.refuse(Code::MissingProgram, message, Some("is it the Claude Code CLI?"))
        })
    }

    fn refuse(&self, code: Code, message: String, help: Option<&str>) -> Box<Diagnostic> {
        let place = self.named.as_ref().and_then(|named| named.place.clone());
        let mut diagnostic = Diagnostic::error(code, message).at(place);
        diagnostic.help = help.map(str::to_owned);
        Box::new(diagnostic)
    }
}

/// An absolute path, so that it is not looked up as a name.
fn in_some_folder(path: PathBuf) -> PathBuf {
    if path.components().count() == 1 && !path.is_absolute() {
        Path::new(".").join(path)
    } else {
        path
    }
}

/// Whether Node.js runs a file, according to its extension or first line. Follows links.
fn runs_in_node(path: &Path) -> bool {
    let file = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let extension = file.extension().and_then(|extension| extension.to_str());
    if matches!(extension, Some("js" | "mjs" | "cjs")) {
        return true;
    }
    let mut start = Vec::with_capacity(256);
    let Ok(opened) = fs::File::open(&file) else {
        return false;
    };
    if opened.take(256).read_to_end(&mut start).is_err() {
        return false;
    }
    let first = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
    first.starts_with(b"#!")
        && String::from_utf8_lossy(first)
            .split(['/', ' ', '\t', '\r'])
            .any(|word| word == "node")
}

#[cfg(test)]
mod tests;
