//! The paths that a call of a tool names: one table for all built-in tools of the Claude CLI.
//!
//! It reads arguments only. The links of a path are resolved by the caller, with [`resolve_links`](crate::resolve_links).

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How a call uses a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathAccess {
    /// It reads the file.
    Read,
    /// It creates or changes the file.
    Write,
    /// It lists names below the folder.
    List,
    /// It reads all files below the folder.
    Search,
}

/// A path that a call names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallPath {
    /// The absolute path, without `..` and with all links resolved; absent if that is not possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The absolute path as the call names it, links unresolved.
    pub named: String,
    /// How the call uses it.
    pub access: PathAccess,
    /// Whether the CLI wrote the file for this conversation, such as a result that is too long for a message.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_own_result: bool,
}

/// The calls that a remembered approval covers: all calls of a tool, or if the call named paths outside of the agent's
/// folders, those with these paths; and only while the tool has this digest.
pub fn remembered_approval(tool: &str, paths: &[String], digest: Option<&str>) -> String {
    let mut covered = tool.to_owned();
    if !paths.is_empty() {
        covered = format!("{tool}({})", paths.join(", "));
    }
    match digest {
        Some(digest) => format!("{covered}{DIGEST}{digest}"),
        None => covered,
    }
}

/// The calls as [`remembered_approval`] names them, without the digest of their tool, and that digest.
pub fn remembered_calls(remembered: &str) -> (&str, Option<&str>) {
    match remembered.rsplit_once(DIGEST) {
        Some((calls, digest)) => (calls, Some(digest)),
        None => (remembered, None),
    }
}

/// Before the digest of a tool. No name of a tool has a space.
const DIGEST: &str = " #";

/// Why the backend asks about a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskReason {
    /// The kind of the reason, such as `workingDir`.
    pub kind: String,
    /// The path that it names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// A path as the arguments of a call name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPath {
    /// The path, relative to the working directory; `None` if the arguments name none that can be read.
    pub text: Option<String>,
    /// How the call uses it.
    pub access: PathAccess,
}

/// An argument of a built-in tool that is a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathArgument {
    /// A path that the tool needs.
    File(&'static str, PathAccess),
    /// A path that may be absent, and then counts as none.
    Optional(&'static str, PathAccess),
    /// A folder; if absent, the working directory.
    Folder(&'static str, PathAccess),
    /// Names below the folder of the second argument.
    Names(&'static str, &'static str),
    /// Filters of the files that are searched.
    Filters(&'static str),
}

use PathArgument::{File, Filters, Folder, Names, Optional};

/// Every built-in tool with its arguments that are paths. A tool that is not in the table is rejected.
const BUILT_IN: &[(&str, &[PathArgument])] = &[
    ("Agent", &[]),
    ("AskUserQuestion", &[]),
    // Bound by the sandbox only.
    ("Bash", &[]),
    ("BashOutput", &[]),
    ("CronCreate", &[]),
    ("CronDelete", &[]),
    ("CronList", &[]),
    ("Edit", &[File("file_path", PathAccess::Write)]),
    ("EnterPlanMode", &[]),
    ("EnterWorktree", &[Optional("path", PathAccess::Write)]),
    ("ExitPlanMode", &[]),
    ("ExitWorktree", &[]),
    (
        "Glob",
        &[Folder("path", PathAccess::List), Names("pattern", "path")],
    ),
    ("Grep", &[Folder("path", PathAccess::Search), Filters("glob")]),
    ("KillShell", &[]),
    ("LS", &[Folder("path", PathAccess::List)]),
    ("ListAgents", &[]),
    ("ListMcpResourcesTool", &[]),
    ("Monitor", &[]),
    ("MultiEdit", &[File("file_path", PathAccess::Write)]),
    ("NotebookEdit", &[File("notebook_path", PathAccess::Write)]),
    ("NotebookRead", &[File("notebook_path", PathAccess::Read)]),
    ("Read", &[File("file_path", PathAccess::Read)]),
    ("ReadMcpResourceDirTool", &[]),
    ("ReadMcpResourceTool", &[]),
    ("ReportFindings", &[]),
    ("ScheduleWakeup", &[]),
    ("SendMessage", &[]),
    ("Skill", &[]),
    ("Task", &[]),
    ("TaskOutput", &[]),
    ("TaskStop", &[]),
    ("TodoWrite", &[]),
    ("ToolSearch", &[]),
    ("WebFetch", &[]),
    ("WebSearch", &[]),
    ("Workflow", &[Optional("scriptPath", PathAccess::Read)]),
    ("Write", &[File("file_path", PathAccess::Write)]),
];

fn arguments_of(tool: &str) -> Option<&'static [PathArgument]> {
    let mut table = BUILT_IN.iter();
    table
        .find(|(name, _)| *name == tool)
        .map(|(_, arguments)| *arguments)
}

/// The built-in tools whose calls name paths.
pub fn tools_with_paths() -> impl Iterator<Item = &'static str> {
    let table = BUILT_IN.iter().filter(|(_, arguments)| !arguments.is_empty());
    table.map(|(name, _)| *name)
}

/// How the calls of a built-in tool use paths; `None` if they name none.
pub fn path_access(tool: &str) -> Option<PathAccess> {
    arguments_of(tool)?.iter().find_map(|argument| match argument {
        File(_, access) | Optional(_, access) | Folder(_, access) => Some(*access),
        Names(..) | Filters(_) => None,
    })
}

/// The paths that a call of a built-in tool names; `None` if there is no such tool.
pub fn named_paths(tool: &str, arguments: &Value) -> Option<Vec<NamedPath>> {
    let mut paths = Vec::new();
    for argument in arguments_of(tool)? {
        match *argument {
            File(name, access) => paths.push(NamedPath {
                text: text(arguments, name).filter(|text| !text.trim().is_empty()),
                access,
            }),
            Optional(name, access) => {
                if is_present(arguments, name) {
                    let text = text(arguments, name);
                    paths.push(NamedPath { text, access });
                }
            }
            Folder(name, access) => paths.push(NamedPath {
                text: folder(arguments, name),
                access,
            }),
            Names(name, below) => {
                if is_present(arguments, name) {
                    let base = folder(arguments, below);
                    let pattern = text(arguments, name);
                    let access = PathAccess::List;
                    let begins = base.as_ref().zip(pattern.as_ref());
                    let text =
                        begins.and_then(|(base, pattern)| Some(join_path(base, &literal_part(pattern)?)));
                    // The CLI begins where it sees the first wildcard, and it knows fewer.
                    let later = begins
                        .map(|(base, pattern)| join_path(base, part_before(pattern, &['*', '?', '[', '{'])));
                    let is_other = text.is_some() && later != text;
                    paths.push(NamedPath { text, access });
                    paths.extend(later.filter(|_| is_other).map(|later| NamedPath {
                        text: Some(later),
                        access,
                    }));
                }
            }
            Filters(name) => {
                if is_present(arguments, name) {
                    let access = PathAccess::Search;
                    match text(arguments, name) {
                        None => paths.push(NamedPath { text: None, access }),
                        Some(filters) => paths.extend(outer_filters(&filters).map(|filter| NamedPath {
                            text: literal_part(filter),
                            access,
                        })),
                    }
                }
            }
        }
    }
    Some(paths)
}

fn is_present(arguments: &Value, name: &str) -> bool {
    arguments.get(name).is_some_and(|value| !value.is_null())
}

fn text(arguments: &Value, name: &str) -> Option<String> {
    arguments.get(name)?.as_str().map(ToOwned::to_owned)
}

/// The folder of an argument; empty for the working directory.
fn folder(arguments: &Value, name: &str) -> Option<String> {
    if is_present(arguments, name) {
        text(arguments, name)
    } else {
        Some(String::new())
    }
}

/// The part of a pattern before its first wildcard; `None` if what follows may lead out of it.
fn literal_part(pattern: &str) -> Option<String> {
    let pattern = pattern.trim();
    let folder = part_before(pattern, &['*', '?', '[', '{', '!', '(', '+', '@', '|', '\\']);
    let rest = pattern.strip_prefix(folder)?;
    let leads_out = rest.contains("..")
        || ["{/", ",/", "{~", ",~", "|/", "(/"]
            .iter()
            .any(|out| rest.contains(out));
    (!leads_out || rest.is_empty()).then(|| folder.to_owned())
}

/// The folder of a pattern before its first wildcard; without one, the whole pattern.
fn part_before<'p>(pattern: &'p str, wildcards: &[char]) -> &'p str {
    let pattern = pattern.trim();
    let Some(literal) = pattern.find(wildcards).and_then(|end| pattern.get(..end)) else {
        return pattern;
    };
    // The part of the last name before the wildcard is not a folder.
    literal
        .rfind('/')
        .and_then(|end| literal.get(..=end))
        .unwrap_or_default()
}

/// The filters of a search that name something outside of the folder that is searched.
fn outer_filters(filters: &str) -> impl Iterator<Item = &str> {
    let filters = filters.split([' ', '\t', '\n', ',', '{', '}']);
    let filters = filters.map(|filter| filter.trim_start_matches('!'));
    filters.filter(|filter| filter.starts_with(['/', '~']) || filter.split('/').any(|part| part == ".."))
}

/// `path` below `base`, unless it is absolute, without `.` and `..`. Links are not looked at.
pub fn join_path(base: &str, path: &str) -> String {
    let is_absolute = path.starts_with('/');
    let whole = if is_absolute || base.is_empty() {
        path.to_owned()
    } else if path.starts_with('~') {
        // The program that opens it may expand it.
        return path.to_owned();
    } else {
        format!("{base}/{path}")
    };
    let mut names: Vec<&str> = Vec::new();
    let is_rooted = whole.starts_with('/');
    for name in whole.split('/') {
        match name {
            "" | "." => {}
            ".." if names.last().is_some_and(|last| *last != "..") => {
                names.pop();
            }
            ".." if is_rooted => {}
            name => names.push(name),
        }
    }
    let joined = names.join("/");
    if is_rooted { format!("/{joined}") } else { joined }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::ClaudeConfig;

    #[test]
    fn every_known_built_in_tool_is_in_the_table_of_paths() {
        let known: BTreeSet<&str> = ClaudeConfig::CLI_TOOLS.iter().copied().collect();
        let table: BTreeSet<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
        assert_eq!(table, known);
        assert_eq!(BUILT_IN.len(), table.len());
        assert_eq!(named_paths("NewTool", &json!({})), None);
    }

    fn paths(tool: &str, arguments: &Value) -> Vec<Option<String>> {
        let paths = named_paths(tool, arguments).unwrap();
        paths.into_iter().map(|path| path.text).collect()
    }

    #[test]
    fn a_call_names_these_paths() {
        let some = |text: &str| Some(text.to_owned());
        for (tool, arguments, expected) in [
            ("Read", json!({"file_path": "a/b"}), vec![some("a/b")]),
            ("Read", json!({}), vec![None]),
            ("Read", json!({"file_path": null}), vec![None]),
            ("Read", json!({"file_path": " "}), vec![None]),
            ("Read", json!({"file_path": ["/etc"]}), vec![None]),
            ("Read", json!([]), vec![None]),
            (
                "NotebookEdit",
                json!({"notebook_path": "n.ipynb"}),
                vec![some("n.ipynb")],
            ),
            ("Grep", json!({"pattern": "x"}), vec![some("")]),
            ("Grep", json!({"pattern": "/etc", "path": "d"}), vec![some("d")]),
            ("Grep", json!({"pattern": "x", "path": 3}), vec![None]),
            ("Grep", json!({"pattern": "x", "glob": "*.md"}), vec![some("")]),
            (
                "Grep",
                json!({"pattern": "x", "glob": "*.md,!/etc/**"}),
                vec![some(""), some("/etc/")],
            ),
            (
                "Grep",
                json!({"pattern": "x", "glob": "../**"}),
                vec![some(""), some("../")],
            ),
            ("Glob", json!({"pattern": "**/*"}), vec![some(""), some("")]),
            (
                "Glob",
                json!({"pattern": "src/*.rs", "path": "a"}),
                vec![some("a"), some("a/src")],
            ),
            (
                "Glob",
                json!({"pattern": "/etc/pass*"}),
                vec![some(""), some("/etc")],
            ),
            ("Glob", json!({"pattern": "../*"}), vec![some(""), some("..")]),
            ("Glob", json!({"pattern": "*/../../*"}), vec![some(""), None]),
            ("Glob", json!({"pattern": "{/etc,x}/*"}), vec![some(""), None]),
            ("Glob", json!({"pattern": "~/x*"}), vec![some(""), some("~")]),
            (
                "Glob",
                json!({"pattern": "/w/a(b/c*"}),
                vec![some(""), some("/w"), some("/w/a(b")],
            ),
            ("Bash", json!({"command": "cat /etc/passwd"}), vec![]),
            ("EnterWorktree", json!({}), vec![]),
            ("EnterWorktree", json!({"path": "../w"}), vec![some("../w")]),
        ] {
            assert_eq!(paths(tool, &arguments), expected, "{tool} {arguments}");
        }
    }

    #[test]
    fn paths_are_joined_without_dots() {
        for (base, path, expected) in [
            ("/w", "a", "/w/a"),
            ("/w", "../a", "/a"),
            ("/w", "../../../a", "/a"),
            ("/w", "/x/./y//z/..", "/x/y"),
            ("/w", "", "/w"),
            ("", "a/..", ""),
            ("", "../a", "../a"),
            ("a", "../../b", "../b"),
        ] {
            assert_eq!(join_path(base, path), expected, "{base} {path}");
        }
    }
}
