//! Rules for single calls of a tool in allow and deny lists, such as `Read(~/.ssh/**)`.

use crate::{
    CallPath, ClaudeConfig, PathAccess, path_access,
    value::{CliText, PathBases, PathGlob},
};

/// An entry of an allow or deny list: a name, or a name with a pattern of its calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolPattern {
    /// The tool.
    pub tool: String,
    /// Which calls; absent for all.
    pub calls: Option<CallPattern>,
}

/// Which calls of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallPattern {
    /// Those whose paths match.
    Paths(PathGlob),
    /// The pattern of a shell command or of another tool, in the CLI's own syntax.
    Other(String),
}

/// The built-in tools, other than those with paths, whose calls the CLI can match.
const OTHER: [&str; 5] = ["Bash", "WebFetch", "Agent", "Task", "Skill"];

impl ToolPattern {
    /// Reads an entry. An error says why it cannot be applied.
    pub fn parse(entry: &str, bases: &PathBases) -> Result<Self, String> {
        let entry = entry.trim();
        let Some((tool, rest)) = entry.split_once('(') else {
            if entry.contains(')') {
                return Err("`)` without `(`".to_owned());
            }
            return Ok(Self {
                tool: entry.to_owned(),
                calls: None,
            });
        };
        let tool = tool.trim();
        let Some(pattern) = rest.strip_suffix(')') else {
            return Err("the `(` is not closed at the end".to_owned());
        };
        let pattern = pattern.trim();
        if tool.is_empty() {
            return Err("there is no tool before `(`".to_owned());
        }
        if pattern.is_empty() {
            return Err(format!("the pattern is empty; write `{tool}` for all calls"));
        }
        let calls = if path_access(tool).is_some() {
            CallPattern::Paths(PathGlob::parse(pattern, bases)?)
        } else if OTHER.contains(&tool) {
            CallPattern::Other(pattern.to_owned())
        } else if ClaudeConfig::CLI_TOOLS.contains(&tool) {
            return Err(format!(
                "calls of `{tool}` cannot be matched with a pattern; write `{tool}`"
            ));
        } else {
            return Err(format!(
                "`{tool}` is not a built-in tool, and only those can have a pattern"
            ));
        };
        Ok(Self {
            tool: tool.to_owned(),
            calls: Some(calls),
        })
    }

    /// The entry of a deny list in the CLI's syntax. In it, `Read` means every tool that reads, and `Edit`
    /// every tool that writes; it ignores patterns for the others.
    pub fn to_cli(&self) -> Vec<CliText> {
        match &self.calls {
            None => vec![CliText::from(self.tool.as_str())],
            Some(CallPattern::Other(pattern)) => {
                vec![CliText::from(format!("{}({pattern})", self.tool).as_str())]
            }
            Some(CallPattern::Paths(glob)) => {
                let tool = if self.writes() { "Edit(" } else { "Read(" };
                let globs = glob.to_cli();
                globs.iter().map(|glob| glob.between(tool, ")")).collect()
            }
        }
    }

    /// Whether the entry denies a path to calls that use it in this way: a pattern for one tool that reads, or writes,
    /// is for all of them.
    pub fn denies(&self, access: PathAccess) -> bool {
        self.writes() == (access == PathAccess::Write)
    }

    /// The entry with its pattern of paths changed.
    pub(crate) fn map_paths(mut self, change: impl Fn(PathGlob) -> PathGlob) -> Self {
        if let Some(CallPattern::Paths(glob)) = self.calls {
            self.calls = Some(CallPattern::Paths(change(glob)));
        }
        self
    }

    /// Whether a path matches, as the call names it or as it really is.
    pub(crate) fn matches_any(&self, path: &CallPath) -> bool {
        self.matches(path, matches_any)
    }

    /// Whether a path matches as it really is.
    pub(crate) fn matches_real(&self, path: &CallPath) -> bool {
        self.matches(path, matches_real)
    }

    fn matches(&self, path: &CallPath, glob_matches: impl Fn(&PathGlob, &CallPath) -> bool) -> bool {
        match &self.calls {
            None => true,
            Some(CallPattern::Paths(glob)) => glob_matches(glob, path),
            // The CLI matches these.
            Some(CallPattern::Other(_)) => false,
        }
    }

    fn writes(&self) -> bool {
        path_access(&self.tool) == Some(PathAccess::Write)
    }
}

/// Whether a pattern matches a path of a call as it really is. A folder that is searched matches if everything below
/// it does.
pub(crate) fn matches_real(glob: &PathGlob, path: &CallPath) -> bool {
    path.path
        .as_ref()
        .is_some_and(|real| matches(glob, real, path.access))
}

/// The same, or as the call names it.
pub(crate) fn matches_any(glob: &PathGlob, path: &CallPath) -> bool {
    path.path.is_none() || matches_real(glob, path) || matches(glob, &path.named, path.access)
}

fn matches(glob: &PathGlob, path: &str, access: PathAccess) -> bool {
    let is_folder = matches!(access, PathAccess::Search | PathAccess::List);
    glob.matches(path) || (is_folder && glob.matches_below(path))
}
