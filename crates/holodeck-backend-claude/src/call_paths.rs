//! The places of the files that a call of the CLI names: what the CLI will open, with links resolved.
//!
//! It decides nothing; the approver does.

use std::path::{Path, PathBuf};

use holodeck_backend_api::{CallPath, PathAccess};
use holodeck_model::{CliText, join_path, named_paths, path_access, resolve_links};
use serde_json::Value;
use unicode_normalization::UnicodeNormalization as _;

use crate::home::Home;

/// Where the CLI is when it calls a tool.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallSite {
    /// Its current folder, which a shell command may have changed.
    pub(crate) folder: Option<PathBuf>,
    /// Its id of the conversation.
    pub(crate) session: Option<String>,
    /// The name of the agent that calls; `None` for the agent itself, if it has no name.
    pub(crate) agent: Option<String>,
}

/// Resolves the paths of calls of one process.
pub(crate) struct PathResolver<'a> {
    pub(crate) home: &'a Home,
    pub(crate) site: CallSite,
}

impl PathResolver<'_> {
    /// The paths that a call names, and the one that the CLI names in its question. A text that can be read in several ways
    /// gives one path for each.
    pub(crate) fn paths_of(&self, tool: &str, arguments: &Value, blocked: Option<&str>) -> Vec<CallPath> {
        let mut paths = Vec::new();
        for named in named_paths(tool, arguments).into_iter().flatten() {
            match named.text {
                Some(text) => self.add(&text, named.access, &mut paths),
                None => paths.push(unresolved(String::new(), named.access)),
            }
        }
        if let (Some(blocked), Some(access)) = (blocked, path_access(tool)) {
            self.add(blocked, access, &mut paths);
        }
        paths
    }

    /// Whether a call searches a folder in which a CLI of an older release may show what its rules deny: one that is not in
    /// the working directory, and any folder if a rule has another meaning in its search than for single files.
    pub(crate) fn may_show(&self, tool: &str, arguments: &Value, denied: &[CliText]) -> bool {
        if path_access(tool) != Some(PathAccess::Search) {
            return false;
        }
        let working = resolve_links(self.home.working_directory()).ok();
        let homes = [Some(self.home.working_directory()), working.as_deref()];
        let has_one_meaning = |rule: &CliText| homes.iter().flatten().any(|home| has_one_meaning(rule, home));
        if !denied.iter().all(has_one_meaning) {
            return true;
        }
        let is_elsewhere = |real: &Path| {
            let is_inside = working.as_ref().is_some_and(|working| real.starts_with(working));
            !is_inside && real.is_dir()
        };
        let paths = self.paths_of(tool, arguments, None).into_iter();
        paths
            .filter_map(|path| path.path)
            .any(|real| is_elsewhere(Path::new(&real)))
    }

    fn add(&self, text: &str, access: PathAccess, paths: &mut Vec<CallPath>) {
        for reading in self.readings(text) {
            let lexical = PathBuf::from(join_path("/", &reading.to_string_lossy()));
            // The CLI removes `..` before it follows links, the system afterwards.
            for place in [lexical.as_path(), reading.as_path()] {
                let path = self.resolve(&lexical, place, access);
                if !paths.contains(&path) {
                    paths.push(path);
                }
            }
        }
    }

    /// The absolute paths that a text may mean.
    fn readings(&self, text: &str) -> Vec<PathBuf> {
        // As the CLI trims a text, for which a byte order mark is a space; then it composes letters.
        let trimmed = text.trim_matches(|letter: char| letter.is_whitespace() || letter == '\u{feff}');
        let composed: String = trimmed.nfc().collect();
        let mut texts = vec![text.to_owned()];
        for other in [trimmed.to_owned(), composed] {
            if !texts.contains(&other) {
                texts.push(other);
            }
        }
        let own = self.home.working_directory().to_owned();
        let mut folders = vec![own];
        folders.extend(
            self.site
                .folder
                .clone()
                .filter(|folder| !folders.contains(folder)),
        );
        let mut readings = Vec::new();
        for text in &texts {
            if let Some(below) = text.strip_prefix('~')
                && (below.is_empty() || below.starts_with('/'))
            {
                readings.push(self.home.home().join(below.trim_start_matches('/')));
            }
            readings.extend(folders.iter().map(|folder| folder.join(text)));
        }
        readings
    }

    fn resolve(&self, named: &Path, place: &Path, access: PathAccess) -> CallPath {
        let named = named.to_string_lossy().into_owned();
        if named.contains(char::is_control) {
            return unresolved(named, access);
        }
        let real = resolve_links(place).ok();
        let Some(path) = real.as_ref().and_then(|real| real.to_str()).map(str::to_owned) else {
            return unresolved(named, access);
        };
        CallPath {
            is_own_result: real.is_some_and(|real| self.is_own_result(&real)),
            path: Some(path),
            named,
            access,
        }
    }

    /// Whether the CLI wrote a file for this conversation: a result that was too long for a message.
    fn is_own_result(&self, real: &Path) -> bool {
        let Some(session) = &self.site.session else {
            return false;
        };
        let below = |folder: PathBuf| {
            let folder = resolve_links(&folder).ok()?;
            let rest = real.strip_prefix(folder).ok()?;
            rest.iter().map(|name| name.to_str()).collect::<Option<Vec<_>>>()
        };
        let of_projects = below(self.home.config().join("projects"));
        let of_tasks = below(self.home.temporary());
        matches!(of_projects.as_deref(), Some([_, id, "tool-results", _, ..]) if id == session)
            || matches!(of_tasks.as_deref(), Some([_, _, id, "tasks", _]) if id == session)
    }
}

fn unresolved(named: String, access: PathAccess) -> CallPath {
    CallPath {
        path: None,
        named,
        access,
        is_own_result: false,
    }
}

/// Whether an older release searches by a rule as it reads single files: a plain name, or `*` below its working directory
/// `home`. It takes `?` for one byte, has other classes and escapes, and does not apply what begins above its folder.
fn has_one_meaning(rule: &CliText, home: &Path) -> bool {
    let Some(text) = rule.as_text() else { return false };
    let path = text.split_once('(').and_then(|(_, path)| path.strip_suffix(')'));
    let path = path.unwrap_or(&text).trim_start_matches('/');
    if !path.is_ascii() || path.contains(['?', '[', ']', '{', '}', '\\', '!']) {
        return false;
    }
    match path.split_once('*') {
        None => true,
        Some((base, _)) => {
            let home = home.to_string_lossy();
            base.starts_with(home.trim_start_matches('/'))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::ClaudeOptions;

    #[test]
    fn only_plain_names_and_stars_below_the_own_folder_mean_the_same_to_an_older_search() {
        let home = Path::new("/home/me/desk");
        for (rule, expected) in [
            ("Read(//etc/passwd)", true),
            ("Read(//home/me/.ssh/id)", true),
            ("Read(//home/me/desk/secrets/**)", true),
            ("Edit(//home/me/desk/**/.holodeck/**)", true),
            ("Read(//home/me/desk/*.pem)", true),
            ("Read(//home/me/**/secret)", false),
            ("Read(//**/secret)", false),
            ("Read(//home/me/desk/secre?)", false),
            ("Read(//home/me/desk/[ab])", false),
            ("Read(//home/me/desk/\\{a)", false),
            ("Read(//home/me/desk/\u{e9}t\u{e9})", false),
        ] {
            assert_eq!(has_one_meaning(&CliText::from(rule), home), expected, "{rule}");
        }
    }

    #[test]
    fn a_text_is_resolved_in_every_way_that_the_cli_may_read_it() {
        let root = tempfile::tempdir().unwrap();
        let base = root.path().canonicalize().unwrap();
        for folder in ["workspace/sub", "out", "t"] {
            fs::create_dir_all(base.join(folder)).unwrap();
        }
        symlink(base.join("out"), base.join("workspace/link")).unwrap();
        symlink(base.join("out/new"), base.join("workspace/dangling")).unwrap();
        let options = ClaudeOptions::new("claude")
            .temporary_folder(base.join("t"))
            .working_directory(base.join("workspace"));
        let home = Home::create(&options).unwrap();
        let private = home.home().canonicalize().unwrap();
        let resolver = PathResolver {
            home: &home,
            site: CallSite {
                folder: Some(base.join("workspace/sub")),
                session: Some("s1".to_owned()),
                agent: None,
            },
        };
        let places = |tool: &str, arguments: Value| {
            let paths = resolver.paths_of(tool, &arguments, None);
            let shown = paths.into_iter().map(|path| match path.path {
                Some(path) => path
                    .replace(&*private.to_string_lossy(), "HOME")
                    .replace(&*base.to_string_lossy(), ""),
                None => "?".to_owned(),
            });
            let mut shown: Vec<String> = shown.collect();
            shown.sort();
            shown.dedup();
            shown
        };
        let read = |path: &str| places("Read", json!({ "file_path": path }));
        assert_eq!(read("a"), ["/workspace/a", "/workspace/sub/a"]);
        assert_eq!(read("../a"), ["/a", "/workspace/a"]);
        assert_eq!(
            read(" /etc/x "),
            ["/etc/x", "/workspace/ /etc/x ", "/workspace/sub/ /etc/x "]
        );
        for mark in ["\u{feff}", "\u{2028}\u{feff}", "\u{a0}", "\u{3000}"] {
            let places = read(&format!("{mark}/etc/x{mark}"));
            assert!(places.contains(&"/etc/x".to_owned()), "{mark:?} {places:?}");
        }
        // A link whose name is written with a separate accent leads where the composed name leads.
        symlink(base.join("out"), base.join("workspace/l\u{e9}")).unwrap();
        let places_of_link = read(&format!("{}/x", base.join("workspace/le\u{301}").display()));
        assert!(
            places_of_link.contains(&"/out/x".to_owned()),
            "{places_of_link:?}"
        );
        assert_eq!(read("/proc/self/root/etc/passwd"), ["?"]);
        assert_eq!(
            read("~/.ssh"),
            ["/workspace/sub/~/.ssh", "/workspace/~/.ssh", "HOME/.ssh"]
        );
        let at = |path: &str| base.join(path).to_string_lossy().into_owned();
        assert_eq!(read(&at("workspace/link/x")), ["/out/x"]);
        assert_eq!(read(&at("workspace/dangling")), ["/out/new"]);
        assert_eq!(
            read(&at("workspace/link/../secret")),
            ["/secret", "/workspace/secret"]
        );
        assert_eq!(read("a\0b"), ["?"]);
        assert_eq!(
            read(&at("workspace/\u{212a}ey")),
            ["/workspace/Key", "/workspace/\u{212a}ey"]
        );
        assert_eq!(places("Read", json!({})), ["?"]);
        assert_eq!(
            places("Grep", json!({"pattern": "x"})),
            ["/workspace", "/workspace/sub"]
        );
        assert_eq!(places("Bash", json!({"command": "cat /etc/passwd"})), [""; 0]);
        let blocked = resolver.paths_of("Read", &json!({"file_path": at("workspace/a")}), Some("/etc/x"));
        assert!(blocked.iter().any(|path| path.path.as_deref() == Some("/etc/x")));
    }

    #[test]
    fn only_results_of_this_conversation_are_the_clis_own() {
        let root = tempfile::tempdir().unwrap();
        let options = ClaudeOptions::new("claude").temporary_folder(root.path());
        let home = Home::create(&options).unwrap();
        let site = CallSite {
            folder: None,
            session: Some("s1".to_owned()),
            agent: None,
        };
        let resolver = PathResolver { home: &home, site };
        for (place, is_own) in [
            (home.config().join("projects/-w/s1/tool-results/a.txt"), true),
            (home.config().join("projects/-w/s2/tool-results/a.txt"), false),
            (home.config().join("projects/-w/s1.jsonl"), false),
            (
                home.config().join("projects/-w/s1/tool-results/../../s1.jsonl"),
                false,
            ),
            (home.temporary().join("claude-0/-w/s1/tasks/b.output"), true),
            (home.temporary().join("claude-0/-w/s2/tasks/b.output"), false),
            (home.system_prompt().to_owned(), false),
        ] {
            let paths = resolver.paths_of("Read", &json!({ "file_path": place }), None);
            assert!(!paths.is_empty());
            assert!(
                paths.iter().all(|path| path.is_own_result == is_own),
                "{place:?} {paths:?}"
            );
        }
    }
}
