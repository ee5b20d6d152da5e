//! The folders of an agent: which files its tools may touch, and which never.
//!
//! It compares paths that others resolved and touches no file.

use serde::{Deserialize, Serialize};

use crate::{
    AskReason, CallPath, PathAccess,
    value::{OWN_FOLDER, PathBases, PathGlob, components, is_within},
};

/// The prefix of the names of HoloDeck's temporary folders. The agent never uses their files.
pub const TEMPORARY_PREFIX: &str = "holodeck-claude-";
/// Folders whose files run programs, or decide what runs.
const SENSITIVE_FOLDERS: [&str; 10] = [
    ".git",
    ".vscode",
    ".idea",
    ".claude",
    ".husky",
    ".cargo",
    ".devcontainer",
    ".yarn",
    ".mvn",
    ".hg",
];
/// Files that run programs, or decide what runs.
const SENSITIVE_FILES: [&str; 22] = [
    ".gitconfig",
    ".gitmodules",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".zshrc",
    ".zprofile",
    ".zshenv",
    ".zlogin",
    ".zlogout",
    ".profile",
    ".envrc",
    ".ripgreprc",
    ".mcp.json",
    ".claude.json",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pre-commit-config.yaml",
    ".devcontainer.json",
];
/// Reasons of the CLI that say nothing about a path.
const PLAIN_REASONS: [&str; 6] = [
    "hook",
    "mode",
    "rule",
    "permissionPromptTool",
    "asyncAgent",
    "subcommandResults",
];

/// Where a path is, from harmless to forbidden.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Zone {
    /// In a folder of the agent.
    #[default]
    Inside,
    /// In a folder of the agent, but it runs programs or decides what runs, such as a Git hook.
    Sensitive,
    /// Not in a folder of the agent.
    Outside,
    /// HoloDeck's own file, or in a test the test itself.
    Protected,
    /// In a temporary folder of HoloDeck.
    Temporary,
    /// Unknown.
    Unresolved,
}

impl Zone {
    /// Whether a call needs no more than the tool does.
    pub fn is_inside(&self) -> bool {
        *self == Self::Inside
    }

    /// The zone in words, after "the path is".
    pub fn describe(self) -> &'static str {
        match self {
            Self::Inside => "in the agent's folders",
            Self::Sensitive => "a file that can run programs",
            Self::Outside => "outside the agent's folders",
            Self::Protected => "a file of HoloDeck or of this test",
            Self::Temporary => "a temporary file of HoloDeck",
            Self::Unresolved => "not known",
        }
    }

    /// The rule for it, in words.
    pub fn rule(self) -> &'static str {
        match self {
            Self::Inside => "the agent may use its folders",
            Self::Sensitive => "files that can run programs need a person or a rule with `paths`",
            Self::Outside => "files outside the agent's folders need a person or a rule with `paths`",
            Self::Protected => "files of HoloDeck and of the test need a rule with `paths`",
            Self::Temporary => "temporary files of HoloDeck are never touched",
            Self::Unresolved => "a path that cannot be resolved is rejected",
        }
    }
}

/// The folders and files of an agent, as absolute paths with their links resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentFolders {
    /// Where patterns begin.
    pub bases: PathBases,
    /// The working directory and further folders.
    pub inside: Vec<String>,
    /// Files and folders that are never touched.
    pub protected: Vec<String>,
    /// Where temporary folders are created.
    pub temporary: Vec<String>,
}

impl AgentFolders {
    /// Where a path of a call is. The reason of the CLI can only make it stricter.
    pub fn zone(&self, path: &CallPath, reason: Option<&AskReason>) -> Zone {
        let Some(real) = &path.path else {
            return Zone::Unresolved;
        };
        let by_place = [real, &path.named]
            .into_iter()
            .map(|place| self.zone_of(place, path))
            .max()
            .unwrap_or(Zone::Unresolved);
        // The named path may lead elsewhere through a link: only the real one says where it is.
        let outside = self.is_outside(real);
        let zone = if by_place == Zone::Outside && !outside {
            Zone::Inside.max(Self::inside(real, path.access))
        } else {
            by_place
        };
        if path.is_own_result && path.access != PathAccess::Write {
            return Zone::Inside;
        }
        zone.max(reason.map_or(Zone::Inside, zone_of_reason))
    }

    fn zone_of(&self, place: &str, path: &CallPath) -> Zone {
        if self.is_temporary(place, path.access) {
            return Zone::Temporary;
        }
        let is_inside = !self.is_outside(place);
        // The names below a folder of the agent are not secret.
        if self.is_protected(place) && !(path.access == PathAccess::List && is_inside) {
            return Zone::Protected;
        }
        if is_inside {
            Self::inside(place, path.access)
        } else {
            Zone::Outside
        }
    }

    fn is_outside(&self, place: &str) -> bool {
        !self.inside.iter().any(|folder| is_within(place, folder))
    }

    fn inside(place: &str, access: PathAccess) -> Zone {
        let is_sensitive = |name: &str| {
            let mut sensitive = SENSITIVE_FOLDERS.iter().chain(&SENSITIVE_FILES);
            sensitive.any(|known| known.eq_ignore_ascii_case(name))
        };
        if access == PathAccess::Write && components(place).any(is_sensitive) {
            Zone::Sensitive
        } else {
            Zone::Inside
        }
    }

    /// Whether a path is in a temporary folder of HoloDeck, or a search would read one.
    fn is_temporary(&self, place: &str, access: PathAccess) -> bool {
        self.temporary.iter().any(|folder| {
            let name = components(place).nth(components(folder).count());
            let is_own = |name: &str| {
                let start = name.get(..TEMPORARY_PREFIX.len());
                start.is_some_and(|start| start.eq_ignore_ascii_case(TEMPORARY_PREFIX))
            };
            // The agent may work in a temporary folder.
            let is_work = |inside: &&String| is_within(place, inside) && is_within(inside, folder);
            let is_inside = is_within(place, folder)
                && name.is_some_and(is_own)
                && !self.inside.iter().any(|inside| is_work(&inside));
            let is_searched = access == PathAccess::Search && is_within(folder, place);
            is_inside || is_searched
        })
    }

    /// Whether a path is a file of HoloDeck, or in such a folder. Also in other case, as some file systems ignore it.
    pub fn is_protected(&self, place: &str) -> bool {
        !self.protecting(place).is_empty()
    }

    /// Whether a pattern names all that protects a path.
    pub(crate) fn is_named(&self, path: &CallPath, glob: &PathGlob) -> bool {
        let places = path.path.iter().chain([&path.named]);
        let mut protecting = places.flat_map(|place| self.protecting(place));
        protecting.all(|own| glob.names_in(&own))
    }

    /// The protected files and folders that a path is or is in.
    fn protecting(&self, place: &str) -> Vec<String> {
        let lower = place.to_lowercase();
        let named = self.protected.iter();
        let mut own: Vec<String> = named
            .filter(|own| is_within(&lower, &own.to_lowercase()))
            .cloned()
            .collect();
        let names: Vec<&str> = components(place).collect();
        let of_holodeck = names.iter().position(|name| name.to_lowercase() == OWN_FOLDER);
        if let Some(names) = of_holodeck.and_then(|index| names.get(..=index)) {
            own.push(format!("/{}", names.join("/")));
        }
        own
    }

    /// HoloDeck's own folder anywhere below a folder of the agent, as patterns.
    pub(crate) fn own_folders(&self) -> impl Iterator<Item = PathGlob> {
        self.inside
            .iter()
            .map(|folder| PathGlob::literal(folder).below(OWN_FOLDER))
    }
}

fn zone_of_reason(reason: &AskReason) -> Zone {
    match reason.kind.as_str() {
        "workingDir" => Zone::Outside,
        plain if PLAIN_REASONS.contains(&plain) => Zone::Inside,
        // `safetyCheck`, and reasons that this version does not know.
        _ => Zone::Sensitive,
    }
}
