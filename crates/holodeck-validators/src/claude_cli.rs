//! The Claude Code CLI: where it is, what runs it, and whether it is new enough.

use std::{
    ffi::OsString,
    fmt, fs,
    io::Read as _,
    path::{Path, PathBuf},
    time::Duration,
};

use holodeck_model::{
    Code, Diagnostic, Env, LoadedAgent, Location,
    env::{HOLODECK_CLAUDE_CLI, HOME, PATH},
};
use holodeck_process::{AtLimit, ChildEnv, ProcessError, ProcessSpec, run, which};
use tokio_util::sync::CancellationToken;

/// How long the CLI may take to tell its version. Warm it takes some 30 ms.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where it lies when it is not on the path, relative to the user's home unless absolute.
const USUAL_PLACES: [&str; 6] = [
    ".npm-global/bin/claude",
    "/usr/local/bin/claude",
    ".local/bin/claude",
    "node_modules/.bin/claude",
    ".yarn/bin/claude",
    ".claude/local/claude",
];

/// What a program needs to answer. It says its version before it looks at anything else.
const VARIABLES: [&str; 5] = [PATH, HOME, "LANG", "LC_ALL", "TMPDIR"];

/// A version of the CLI, as in `2.1.330`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CliVersion {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
    /// The third number.
    pub patch: u32,
}

impl CliVersion {
    /// The oldest version that works: the first native one.
    pub const OLDEST: Self = Self::new(2, 1, 113);

    /// A version.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }

    /// Reads `2.1.330`, with whatever follows, as in `2.1.330 (Claude Code)`.
    pub fn parse(text: &str) -> Option<Self> {
        let first = text.split_whitespace().next()?;
        let mut parts = first.trim_start_matches('v').splitn(3, '.');
        let major = parts.next()?.parse().ok()?;
        let minor = parts.next()?.parse().ok()?;
        let last = parts.next()?;
        let digits = last.find(|c: char| !c.is_ascii_digit()).unwrap_or(last.len());
        let patch = last.get(..digits)?.parse().ok()?;
        Some(Self { major, minor, patch })
    }
}

impl fmt::Display for CliVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { major, minor, patch } = self;
        write!(f, "{major}.{minor}.{patch}")
    }
}

/// A Claude Code CLI that answered and is new enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaudeCli {
    /// Its file.
    pub path: PathBuf,
    /// Its version.
    pub version: CliVersion,
    /// What runs it.
    pub kind: ClaudeCliKind,
}

/// What runs a CLI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaudeCliKind {
    /// It runs by itself.
    Native,
    /// Node.js runs it.
    Script {
        /// The `node` that does.
        node: PathBuf,
    },
}

impl ClaudeCli {
    /// The program to start, and the argument that must come before all others, if there is one.
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

/// Where to look for the CLI: what was named, else the path, else its usual places.
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
    /// As in ``names `x`, ``.
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

    /// The same with the agent's `claude.cli_path`, which `HOLODECK_CLAUDE_CLI` outranks.
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

    /// Looks at nothing but `program`.
    #[must_use]
    pub fn at(mut self, program: impl Into<PathBuf>) -> Self {
        self.named = Some(Named {
            program: program.into(),
            by: "the caller",
            place: None,
        });
        self
    }

    /// Finds the CLI and asks its version.
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

    /// Node is needed for scripts of its own only.
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
        let said = String::from_utf8_lossy(&output.stdout);
        CliVersion::parse(&said).ok_or_else(|| {
            let line: String = said.lines().next().unwrap_or_default().chars().take(80).collect();
            let message = format!("`{shown} --version` says no version but `{line}`");
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

/// A path that nobody takes for a name to be looked up.
fn in_some_folder(path: PathBuf) -> PathBuf {
    if path.components().count() == 1 && !path.is_absolute() {
        Path::new(".").join(path)
    } else {
        path
    }
}

/// Whether Node.js runs a file: its name says so, or its first line. Links are followed.
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
