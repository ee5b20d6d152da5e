//! Specialist agents: Markdown files with front matter.
//!
//! The front matter is YAML with the places of its parts, checked against its schema; the sections of the text are read
//! by name. Files in `.claude/agents` belong to Claude Code: keys that are unknown here are accepted in them.

mod front_matter;
mod sections;

use std::{
    ops::Range,
    path::{Component, Path},
};

use holodeck_model::{
    AgentDoc, AgentDocPlaces, AgentMode, Boost, Code, Diagnostic, Env, Files, Layer, Sources, Tier,
    unix_lines,
};

pub(crate) use self::front_matter::schema as front_matter_schema;
use self::front_matter::{AgentFrontMatter, SHAPES};
use crate::{
    check::{Findings, check_shape},
    load::{Load, Loader, Unread, first_line, is_fence, split_front_matter},
    yaml::{FileId, NodeId, Place},
};

/// Maximum size of a file.
const MAX_BYTES: u64 = 1024 * 1024;

/// Reads a specialist agent from a Markdown file; `core` is the value of its folder. It is absent if the file is not an
/// agent or has errors. The problems are in the [`Load`], which has no agent of its own.
pub fn load_agent_doc(path: &Path, core: bool, files: &dyn Files) -> (Option<AgentDoc>, Load) {
    let env = Env::default();
    let mut loader = Loader::new(&env, files);
    let doc = loader.agent_doc(path, core);
    // No field of an agent is a secret, so the lines of its file are shown as they are.
    let mut sources = Sources::default();
    for (_, source) in loader.tree.sources() {
        sources.add(source.path.to_path_buf(), source.text.clone());
    }
    let load = Load {
        sources,
        ..loader.finish(None)
    };
    (doc.filter(|_| !load.has_errors()), load)
}

impl Loader<'_> {
    fn agent_doc(&mut self, path: &Path, core: bool) -> Option<AgentDoc> {
        let file = self.read_text_up_to(path, Layer::Agent, None, MAX_BYTES)?;
        let text = self.tree.file_text(file);
        let parts = split_front_matter(&text);
        let Some(range) = parts.front_matter else {
            self.report_no_front_matter(file, &text, path);
            return None;
        };
        let is_claude = is_claude_file(path);
        let root = self.agent_front_matter(file, range.clone(), is_claude)?;
        let known: AgentFrontMatter = self.deserialize(root)?;
        let lists = AgentLists {
            tools: self.words(root, "tools"),
            triggers: self.words(root, "triggers"),
            commands: self.words(root, "commands"),
            globs: self.words(root, "globs"),
            disallowed_tools: self.words(root, "disallowedTools"),
        };
        self.warn_of_mode(root, known.permission_mode);
        let fence = Place {
            file,
            start: offset(range.start),
            end: offset(range.end),
        };
        let body = text.get(parts.body).unwrap_or_default();
        let body = unix_lines(body);
        Some(self.fill_doc(path, core, root, fence, known, lists, body.trim()))
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one file")]
    fn fill_doc(
        &mut self,
        path: &Path,
        core: bool,
        root: NodeId,
        fence: Place,
        known: AgentFrontMatter,
        lists: AgentLists,
        body: &str,
    ) -> AgentDoc {
        let sections = sections::read(body);
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let place_of = |key: &str| self.tree.get(root, key).map(|entry| self.tree.place(entry.value));
        let name_at = place_of("name").unwrap_or(fence);
        let model = known
            .model
            .filter(|model| !model.trim().eq_ignore_ascii_case("inherit"));
        let core = known.core.unwrap_or(core);
        let mut triggers: Vec<String> = lists.triggers.into_iter().map(|(text, _)| text).collect();
        triggers.extend(sections.triggers);
        dedup(&mut triggers);
        // All tools, as if there were no list.
        let all_tools = lists.tools.iter().any(|(name, _)| name == "*");
        let has_tools = place_of("tools").is_some() && known.tools.is_some() && !all_tools;
        let places = AgentDocPlaces {
            name: Some(self.tree.location(name_at)),
            tools: lists
                .tools
                .iter()
                .map(|(_, node)| self.tree.location(*node))
                .collect(),
            disallowed_tools: lists
                .disallowed_tools
                .iter()
                .map(|(_, node)| self.tree.location(*node))
                .collect(),
            model: place_of("model").map(|place| self.tree.location(place)),
        };
        let texts = |words: Words| words.into_iter().map(|(text, _)| text).collect::<Vec<_>>();
        let doc = AgentDoc {
            name: known
                .name
                .map_or_else(|| stem.into_owned(), |name| name.trim().to_owned()),
            description: one_line(&known.description.unwrap_or_default()),
            path: path.to_path_buf(),
            tools: has_tools.then(|| texts(lists.tools)),
            disallowed_tools: texts(lists.disallowed_tools),
            permission_mode: known.permission_mode,
            model: model.map(|model| model.trim().to_owned()),
            category: known.category.map(|category| category.trim().to_owned()),
            tier: known.tier.unwrap_or(if core {
                Tier::Strategist
            } else {
                Tier::HeuristicWrapper
            }),
            core,
            triggers,
            commands: texts(lists.commands),
            globs: texts(lists.globs),
            boosts: known.boosts.map(|boosts| Boost {
                keywords: boosts.keywords,
                amount: boosts.amount,
            }),
            mindset: sections.mindset,
            focus_areas: sections.focus_areas,
            key_actions: sections.key_actions,
            outputs: sections.outputs,
            will: sections.will,
            will_not: sections.will_not,
            body: body.to_owned(),
            other: sections.other,
            places,
        };
        self.check_limits(root, fence, &doc);
        doc
    }

    /// The front matter as a checked mapping.
    fn agent_front_matter(&mut self, file: FileId, range: Range<usize>, is_claude: bool) -> Option<NodeId> {
        let root = self.build_front_matter(file, range.clone()).ok()?;
        let fence = Place {
            file,
            start: 0,
            end: offset(range.start),
        };
        let Some(root) = root else {
            let diagnostic = Diagnostic::error(Code::BadFrontMatter, "the front matter is empty")
                .with_help("it needs at least a `description`");
            self.findings.add(&self.tree, fence, diagnostic);
            return None;
        };
        if self.tree.entries(root).is_none() {
            let diagnostic = Diagnostic::error(Code::BadFrontMatter, "the front matter is not a mapping")
                .with_help("write `name: …` and `description: …`, one key a line");
            self.findings.add(&self.tree, fence, diagnostic);
            return None;
        }
        let mut findings = Findings::default();
        check_shape(&self.tree, &SHAPES, root, &mut findings);
        let unknown = Code::UnknownField;
        for diagnostic in &mut findings.diagnostics {
            if is_claude && diagnostic.code == unknown {
                diagnostic.severity = holodeck_model::Severity::Warning;
            }
        }
        let broken = findings.has_errors();
        self.findings.diagnostics.extend(findings.diagnostics);
        (!broken).then_some(root)
    }

    /// A mode that would give more than the agent has is no permission.
    fn warn_of_mode(&mut self, root: NodeId, mode: Option<AgentMode>) {
        let Some(entry) = self.tree.get(root, "permissionMode") else {
            return;
        };
        if mode.is_some_and(AgentMode::would_widen) {
            let place = self.tree.place(entry.value);
            let diagnostic = Diagnostic::warning(Code::NoEffect, "`permissionMode` has no effect")
                .about("permissionMode")
                .with_help(
                    "a file can only restrict: the agent's `claude.permission_mode` and `approvals` decide",
                );
            self.findings.add(&self.tree, place, diagnostic);
        }
    }

    fn check_limits(&mut self, root: NodeId, fence: Place, doc: &AgentDoc) {
        let place_of = |loader: &Self, key: &str| {
            let entry = loader.tree.get(root, key);
            entry.map_or(fence, |entry| loader.tree.place(entry.value))
        };
        let count = doc.name.chars().count();
        if doc.name.is_empty() || count > AgentDoc::MAX_NAME || doc.name.chars().any(char::is_control) {
            let message = format!(
                "the name of an agent must have 1 to {} characters without line breaks, this one has {count}",
                AgentDoc::MAX_NAME
            );
            let place = place_of(self, "name");
            let diagnostic = Diagnostic::error(Code::BadFormat, message).about("name");
            self.findings.add(&self.tree, place, diagnostic);
        }
        if doc.description.is_empty() {
            let diagnostic = Diagnostic::error(Code::MissingField, "missing field `description`")
                .about("description")
                .with_help("add `description:`, what the agent is for");
            self.findings.add(&self.tree, fence, diagnostic);
        }
        let count = doc.description.chars().count();
        if count > AgentDoc::MAX_DESCRIPTION {
            let message = format!(
                "`description` should have at most {} characters, found {count}",
                AgentDoc::MAX_DESCRIPTION
            );
            let diagnostic = Diagnostic::warning(Code::OutOfRange, message)
                .about("description")
                .with_help("models and people read it to choose an agent: keep it short");
            let place = place_of(self, "description");
            self.findings.add(&self.tree, place, diagnostic);
        }
        if doc
            .commands
            .iter()
            .any(|command| command.trim().eq_ignore_ascii_case("run"))
        {
            let message =
                "`run` in `commands` is every message without a command, and no agent can have them all";
            let diagnostic = Diagnostic::error(Code::BadFormat, message)
                .about("commands")
                .with_help("remove it; `default_agent` with `default_agent_routes: true` answers what no other agent fits");
            let place = place_of(self, "commands");
            self.findings.add(&self.tree, place, diagnostic);
        }
        let count = doc.tools.as_ref().map_or(0, Vec::len);
        if count > AgentDoc::MAX_TOOLS {
            let message = format!(
                "`tools` should have at most {} items, found {count}",
                AgentDoc::MAX_TOOLS
            );
            let diagnostic = Diagnostic::warning(Code::TooManyItems, message).about("tools");
            let place = place_of(self, "tools");
            self.findings.add(&self.tree, place, diagnostic);
        }
    }

    fn report_no_front_matter(&mut self, file: FileId, text: &str, path: &Path) {
        let name = path.file_stem().unwrap_or_default();
        if name.eq_ignore_ascii_case("README") {
            return;
        }
        let place = first_line(file, text);
        let first = text.get(place.start as usize..place.end as usize);
        let first = first.unwrap_or_default();
        let diagnostic = if is_fence(first) {
            Diagnostic::error(Code::BadFrontMatter, Unread::Unclosed.problem())
                .with_help(Unread::Unclosed.help())
        } else {
            let help = match Unread::of(text) {
                Some(unread) => unread.help(),
                None => "begin it with `---`, `name: …`, `description: …`, `---`, or move it elsewhere",
            };
            Diagnostic::warning(
                Code::NotAnAgent,
                "a Markdown file without front matter is not an agent",
            )
            .with_help(help)
        };
        self.findings.add(&self.tree, place, diagnostic);
    }

    /// The items of a field that is a list, or a string with items between commas. Commas within parentheses, as in
    /// `Bash(git:*, npm:*)`, do not count.
    fn words(&self, root: NodeId, key: &str) -> Words {
        let Some(entry) = self.tree.get(root, key) else {
            return Vec::new();
        };
        if self.tree.is_null(entry.value) {
            return Vec::new();
        }
        let mut words: Words = Vec::new();
        if let Some(items) = self.tree.items(entry.value) {
            for item in items {
                if let Some(scalar) = self.tree.scalar(*item) {
                    words.push((scalar.text.trim().to_owned(), self.tree.place(*item)));
                }
            }
        } else if let Some(scalar) = self.tree.scalar(entry.value) {
            let place = self.tree.place(entry.value);
            words.extend(split_list(scalar.text).map(|word| (word.to_owned(), place)));
        }
        let mut seen = std::collections::HashSet::new();
        words.retain(|(word, _)| !word.is_empty() && seen.insert(word.clone()));
        words
    }
}

/// Texts, each with its place.
type Words = Vec<(String, Place)>;

/// The fields that are lists.
struct AgentLists {
    tools: Words,
    triggers: Words,
    commands: Words,
    globs: Words,
    disallowed_tools: Words,
}

/// Splits at commas outside parentheses and braces.
fn split_list(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    text.split(move |character| {
        match character {
            '(' | '{' => depth += 1,
            ')' | '}' => depth -= 1,
            _ => {}
        }
        matches!(character, ',' | '\n') && depth <= 0
    })
    .map(str::trim)
    .filter(|word| !word.is_empty())
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn dedup(texts: &mut Vec<String>) {
    let mut seen = std::collections::HashSet::new();
    texts.retain(|text| seen.insert(text.clone()));
}

/// Whether a file is in a `.claude/agents` folder.
fn is_claude_file(path: &Path) -> bool {
    let mut parts = path.components().map(Component::as_os_str);
    while let Some(part) = parts.next() {
        if part == ".claude" && parts.clone().next().is_some_and(|next| next == "agents") {
            return true;
        }
    }
    false
}

fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_split_at_commas_outside_parentheses() {
        let split = |text| split_list(text).collect::<Vec<_>>();
        assert_eq!(
            split("Read, Grep ,Bash(git:*, npm:*),,"),
            ["Read", "Grep", "Bash(git:*, npm:*)"]
        );
        assert_eq!(split("*.{ts,tsx}, *.rs"), ["*.{ts,tsx}", "*.rs"]);
        assert_eq!(split(")a, b"), [")a", "b"]);
        assert_eq!(split(""), Vec::<&str>::new());
    }

    #[test]
    fn files_of_claude_code_are_known_by_their_folder() {
        assert!(is_claude_file(Path::new("a/.claude/agents/team/x.md")));
        assert!(!is_claude_file(Path::new("a/.claude/skills/agents/x.md")));
        assert!(!is_claude_file(Path::new("agents/x.md")));
    }
}
