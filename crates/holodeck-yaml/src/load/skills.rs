//! Skills: folders with a `SKILL.md`, as other programs have them. Keys that are not used here are accepted, and what Claude
//! Code reads although the format does not allow it is a warning.

use std::path::Path;

use holodeck_model::{Code, Diagnostic, Env, FileKind, Files, Layer, SkillDoc, unix_lines};

use super::{
    Load, Loader,
    fences::{Unread, first_line, split_front_matter},
};
use crate::yaml::{NodeId, Place};

/// Longest name, as the format has it.
const LONGEST_NAME: usize = 64;
/// Longest description, as the format has it.
const LONGEST_DESCRIPTION: usize = 1024;

/// The scripts that execute a skill, by precedence.
const SCRIPTS: [&str; 12] = [
    "scripts/execute",
    "scripts/execute.sh",
    "scripts/execute.py",
    "scripts/execute.js",
    "scripts/run",
    "scripts/run.sh",
    "scripts/run.py",
    "scripts/run.js",
    "scripts/main",
    "scripts/main.sh",
    "scripts/main.py",
    "scripts/main.js",
];

/// Reads the skill in a folder. It is absent if its `SKILL.md` has errors. The problems are in the [`Load`], which has no
/// agent.
pub fn load_skill(folder: &Path, files: &dyn Files) -> (Option<SkillDoc>, Load) {
    let env = Env::default();
    let mut loader = Loader::new(&env, files);
    let skill = loader.skill(folder);
    let load = loader.finish(None);
    (skill.filter(|_| !load.has_errors()), load)
}

impl Loader<'_> {
    fn skill(&mut self, folder: &Path) -> Option<SkillDoc> {
        let path = folder.join("SKILL.md");
        let file = self.read_text(&path, Layer::Agent, None)?;
        let text = self.tree.file_text(file);
        let parts = split_front_matter(&text);
        let start = first_line(file, &text);
        let Some(range) = parts.front_matter else {
            let diagnostic = match Unread::of(&text) {
                Some(unread) => {
                    Diagnostic::error(Code::BadFrontMatter, unread.problem()).with_help(unread.help())
                }
                None => Diagnostic::error(Code::BadFrontMatter, "the skill has no front matter")
                    .with_help("begin the file with `---`, `name: …`, `description: …`, `---`"),
            };
            self.findings.add(&self.tree, start, diagnostic);
            return None;
        };
        let root = self.build_front_matter(file, range).ok()?;
        let root = root.filter(|root| self.tree.entries(*root).is_some());
        let Some(root) = root else {
            let diagnostic = Diagnostic::error(Code::BadFrontMatter, "the front matter is not a mapping")
                .with_help("write `name: …` and `description: …`, one key a line");
            self.findings.add(&self.tree, start, diagnostic);
            return None;
        };
        let body = text.get(parts.body).unwrap_or_default();
        let instructions = unix_lines(body).trim().to_owned();
        let name = self.skill_name(root, folder, start)?;
        let description = match self.text_of(root, "description", start)? {
            Some(description) => description,
            None => self.first_paragraph(&instructions, start)?,
        };
        if description.chars().count() > LONGEST_DESCRIPTION {
            let message = format!("`description` should have at most {LONGEST_DESCRIPTION} characters");
            let diagnostic = Diagnostic::warning(Code::BadFormat, message)
                .with_help("models read it to choose a skill: keep it short");
            self.report_at(root, "description", start, diagnostic);
        }
        let allowed_tools = self.tool_list(root);
        let script = SCRIPTS.iter().map(|script| folder.join(script));
        let script = script
            .into_iter()
            .find(|script| self.files.kind(script) == FileKind::File);
        if instructions.is_empty() && script.is_none() {
            let diagnostic =
                Diagnostic::warning(Code::Blank, "the skill has neither instructions nor a script");
            self.findings.add(&self.tree, start, diagnostic);
        }
        Some(SkillDoc {
            name,
            description,
            allowed_tools,
            folder: folder.to_path_buf(),
            instructions,
            script,
        })
    }

    /// The text of a field; `None` inside if it is absent, and outside after an error.
    #[allow(clippy::option_option, reason = "absent and wrong differ")]
    fn text_of(&mut self, root: NodeId, key: &str, start: Place) -> Option<Option<String>> {
        let node = self.tree.get(root, key).map(|entry| entry.value);
        let Some(node) = node.filter(|node| !self.tree.is_null(*node)) else {
            return Some(None);
        };
        let text = self.tree.scalar(node).map(|scalar| scalar.text.trim().to_owned());
        let problem = match &text {
            None => Some((Code::WrongType, format!("`{key}` must be a string"))),
            Some(text) if text.is_empty() => Some((Code::Blank, format!("`{key}` must not be empty"))),
            Some(_) => None,
        };
        if let Some((code, message)) = problem {
            self.report_at(root, key, start, Diagnostic::error(code, message));
            return None;
        }
        Some(text)
    }

    /// The description of a skill that has none: its first paragraph that is no heading.
    fn first_paragraph(&mut self, instructions: &str, start: Place) -> Option<String> {
        let mut paragraphs = instructions.split("\n\n").map(str::trim);
        let first = paragraphs.find(|paragraph| !paragraph.is_empty() && !paragraph.starts_with('#'));
        let message = "`description` is missing in the front matter of the skill";
        let diagnostic = match first {
            Some(_) => Diagnostic::warning(
                Code::MissingField,
                format!("{message}; its first paragraph is used"),
            ),
            None => Diagnostic::error(Code::MissingField, message),
        };
        self.findings
            .add(&self.tree, start, diagnostic.about("description"));
        first.map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// The name of a skill. Claude Code takes that of the folder.
    fn skill_name(&mut self, root: NodeId, folder: &Path, start: Place) -> Option<String> {
        let of_folder = folder.file_name().and_then(|name| name.to_str());
        let of_folder = of_folder.filter(|name| is_skill_name(name)).map(str::to_owned);
        let Some(name) = self.text_of(root, "name", start)? else {
            let message = "`name` is missing in the front matter of the skill";
            let diagnostic = match &of_folder {
                Some(_) => Diagnostic::warning(
                    Code::MissingField,
                    format!("{message}; that of its folder is used"),
                ),
                None => Diagnostic::error(Code::MissingField, message),
            };
            self.findings.add(&self.tree, start, diagnostic.about("name"));
            return of_folder;
        };
        if !is_skill_name(&name) {
            let rule = format!(
                "the name of a skill must consist of at most {LONGEST_NAME} lower-case letters, digits and hyphens"
            );
            let diagnostic = match &of_folder {
                Some(_) => {
                    Diagnostic::warning(Code::BadFormat, format!("{rule}; that of its folder is used"))
                }
                None => Diagnostic::error(Code::BadFormat, rule),
            };
            self.report_at(root, "name", start, diagnostic);
            return of_folder;
        }
        if folder.file_name().is_some_and(|folder| folder != name.as_str()) {
            let message = format!("the skill `{name}` is in a folder with another name");
            let diagnostic = Diagnostic::warning(Code::InconsistentValues, message)
                .with_help("name the folder as the skill: other programs require it");
            self.report_at(root, "name", start, diagnostic);
        }
        Some(name)
    }

    /// `allowed-tools`: a list, or names separated by spaces or commas. Spaces inside parentheses do not separate.
    fn tool_list(&mut self, root: NodeId) -> Option<Vec<String>> {
        let node = self.tree.get(root, "allowed-tools")?.value;
        if self.tree.is_null(node) {
            return None;
        }
        if let Some(scalar) = self.tree.scalar(node) {
            return Some(split_names(scalar.text));
        }
        let items = self.tree.items(node).map(<[NodeId]>::to_vec);
        let names: Option<Vec<String>> = items.map(|items| {
            let texts = items.iter().filter_map(|item| self.tree.scalar(*item));
            texts.map(|scalar| scalar.text.trim().to_owned()).collect()
        });
        if names.is_none() {
            let place = self.tree.place(node);
            let diagnostic = Diagnostic::error(Code::WrongType, "`allowed-tools` must be a list of names");
            self.findings
                .add(&self.tree, place, diagnostic.about("allowed-tools"));
        }
        names
    }

    fn report_at(&mut self, root: NodeId, key: &str, start: Place, diagnostic: Diagnostic) {
        let place = self
            .tree
            .get(root, key)
            .map_or(start, |entry| self.tree.place(entry.value));
        self.findings.add(&self.tree, place, diagnostic.about(key));
    }
}

fn is_skill_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= LONGEST_NAME
        && !name.starts_with('-')
        && !name.ends_with('-')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

fn split_names(text: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut depth = 0_u32;
    for character in text.chars() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && (character == ',' || character.is_whitespace()) {
            names.push(String::new());
        } else if let Some(name) = names.last_mut() {
            name.push(character);
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

#[cfg(test)]
mod tests {
    use holodeck_model::MemoryFiles;
    use pretty_assertions::assert_eq;

    use super::*;

    fn load(text: &str) -> (Option<SkillDoc>, Vec<String>) {
        let files = MemoryFiles::new()
            .with("skills/notes/SKILL.md", text)
            .with("skills/notes/scripts/run.py", "print(1)");
        let (skill, load) = load_skill("skills/notes".as_ref(), &files);
        let shown = load.diagnostics.iter().map(|found| {
            let place = found.primary.as_ref();
            let place = place.map(|place| format!("{}:{}", place.line, place.column));
            format!("{} {}", place.unwrap_or_default(), found.message)
        });
        (skill, shown.collect())
    }

    #[test]
    fn a_skill_of_another_program_is_read() {
        let (skill, problems) = load(
            "---\nname: notes\ndescription: Writes notes.\nlicense: MIT\nmetadata: {version: 1}\n\
             allowed-tools: Read, Bash(git log:*) Grep\n---\n# Steps\n\nDo it.\n",
        );
        assert_eq!(problems, Vec::<String>::new());
        let skill = skill.unwrap();
        assert_eq!(skill.tool_name(), "skill__notes");
        assert_eq!(skill.instructions, "# Steps\n\nDo it.");
        assert_eq!(skill.allowed_tools.unwrap(), ["Read", "Bash(git log:*)", "Grep"]);
        assert_eq!(skill.script.unwrap(), Path::new("skills/notes/scripts/run.py"));
    }

    /// Skills as collections have them: each is used, and what other programs would not read is a warning.
    #[test]
    fn skills_that_claude_code_reads_are_used_with_a_warning() {
        let long = "d".repeat(LONGEST_DESCRIPTION + 1);
        for (front, body, description, warning) in [
            (
                "name: notes\ndescription: Writes notes. Use when: a release is near\nversion: 1.0.0\nmodel: opus",
                "x",
                "Writes notes. Use when: a release is near",
                "`description` needs quotes in YAML",
            ),
            (
                "name: Release Notes\ndescription: d\ndisable-model-invocation: true",
                "x",
                "d",
                "lower-case letters, digits and hyphens; that of its folder is used",
            ),
            (
                "description: d\nargument-hint: '[tag]'",
                "x",
                "d",
                "`name` is missing",
            ),
            (
                "name: notes\nuser-invocable: false",
                "# Notes\n\nWrites notes\nof a release.\n\nMore.",
                "Writes notes of a release.",
                "`description` is missing",
            ),
            (
                &format!("name: notes\ndescription: {long}"),
                "x",
                &long,
                "should have at most 1024 characters",
            ),
        ] {
            for line_end in ["\n", "\r\n"] {
                let text = format!("---\n{front}\n---\n{body}\n").replace('\n', line_end);
                let (skill, problems) = load(&text);
                let skill = skill.unwrap_or_else(|| panic!("{front}: {problems:?}"));
                assert_eq!(
                    (skill.name.as_str(), skill.description.as_str()),
                    ("notes", description)
                );
                assert_eq!(problems.len(), 1, "{problems:?}");
                assert!(problems[0].contains(warning), "{problems:?}");
            }
        }
        let more = "---\nname: notes\ndescription: d\nhooks: {PreToolUse: []}\ncontext: fork\nagent: Explore\nmetadata:\n  a: [b]\n---\nx\n";
        assert_eq!(load(more).1, Vec::<String>::new());
    }

    #[test]
    fn malformed_skills_are_reported_with_their_place() {
        for (text, expected) in [
            ("# Steps", "1:1 the skill has no front matter"),
            (
                "---\nname: notes\n---\n# Only a heading",
                "1:1 `description` is missing in the front matter of the skill",
            ),
            (
                "---\nname: [a]\ndescription: d\n---\nx",
                "2:7 `name` must be a string",
            ),
            (
                "---\nname: notes\ndescription: ''\n---\nx",
                "3:14 `description` must not be empty",
            ),
            ("---\n- a\n---\nx", "1:1 the front matter is not a mapping"),
            (
                "---\nname: notes\ndescription: d\nallowed-tools: {a: 1}\n---\nx",
                "4:16 `allowed-tools` must be a list of names",
            ),
        ] {
            let (skill, problems) = load(text);
            assert_eq!(
                (skill, problems.as_slice()),
                (None, &[expected.to_owned()][..]),
                "{text}"
            );
        }
        let (skill, problems) = load("---\nname: other\ndescription: d\n---\nx");
        assert!(skill.is_some());
        assert_eq!(
            problems,
            ["2:7 the skill `other` is in a folder with another name"]
        );
        let (skill, problems) = load("---\nname: notes\ndescription: Use this: when asked\n---\nx");
        assert_eq!(skill.unwrap().description, "Use this: when asked");
        assert!(
            problems[0].starts_with("3:14 `description` needs quotes in YAML"),
            "{problems:?}"
        );
        let (skill, problems) = load("---\nname: [a\n---\nx");
        assert!(
            skill.is_none()
                && problems
                    .iter()
                    .any(|problem| problem.contains("the front matter is not YAML")),
            "{problems:?}"
        );
    }
}
