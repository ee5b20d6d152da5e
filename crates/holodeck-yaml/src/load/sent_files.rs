//! Files that are sent as they are: prompts of sub-agents and of tools, and variables of MCP servers. What looks as if it were
//! read before it is sent, and is not, is named with its place; no value is shown.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use holodeck_model::{
    Code, Diagnostic, Location, Span, decode_text, is_kept_dollar, lines_with_ends, unreplaced_variables,
};

use super::{
    Loader,
    fences::{Unread, has_key, split_front_matter, trim_begin},
};
use crate::yaml::NodeId;

/// Larger files are refused where they are used.
const MAX_BYTES: u64 = 1024 * 1024;

impl Loader<'_> {
    /// Reports front matter of prompts and foreign variables of environments.
    pub(super) fn check_sent_files(&mut self, root: NodeId) {
        let (mut prompts, mut environments) = (BTreeSet::new(), BTreeSet::new());
        let agents = self.tree.find(root, "claude.agents");
        let agents = agents.and_then(|agents| self.tree.entries(agents));
        for agent in agents.into_iter().flatten() {
            prompts.extend(self.file_named(agent.value, "prompt_file"));
        }
        let tools = self.tree.find(root, "tools");
        let tools = tools.and_then(|tools| self.tree.items(tools));
        for tool in tools.into_iter().flatten() {
            let kind = self
                .tree
                .find(*tool, "type")
                .and_then(|kind| self.tree.scalar(kind));
            match kind.map(|kind| kind.text) {
                Some("prompt") => prompts.extend(self.file_named(*tool, "file")),
                Some("mcp") => environments.extend(self.file_named(*tool, "env_file")),
                _ => {}
            }
        }
        for path in prompts {
            self.check_prompt(&path);
        }
        for path in environments {
            self.check_environment(&path);
        }
    }

    fn file_named(&self, owner: NodeId, key: &str) -> Option<PathBuf> {
        let node = self.tree.get(owner, key)?.value;
        let name = self.tree.scalar(node)?.text;
        let path = self.tree.dir(self.tree.place(node)).join(name);
        // A pipe can be read only once, by who sends it.
        (!name.is_empty() && self.files.is_regular(&path)).then_some(path)
    }

    /// The text of a file; a problem of reading it is reported by who sends it.
    fn text_of_file(&self, path: &Path) -> Option<String> {
        let bytes = self.files.read(path, MAX_BYTES + 1).ok()?;
        if bytes.len() as u64 > MAX_BYTES {
            return None;
        }
        decode_text(bytes).ok()
    }

    fn check_prompt(&mut self, path: &Path) {
        let Some(text) = self.text_of_file(path) else {
            return;
        };
        let range = split_front_matter(&text).front_matter;
        let block = range.and_then(|range| text.get(range)).unwrap_or_default();
        let is_front_matter = lines_with_ends(block).any(|line| has_key(line.trim_end()));
        if !is_front_matter && Unread::of(&text).is_none() {
            return;
        }
        let message = "the file is sent as it is, with its front matter";
        let diagnostic = Diagnostic::warning(Code::BadFrontMatter, message).with_help(
            "remove the front matter, which is read only in `instructions.file`, skills and agent files",
        );
        let start = text.len() - trim_begin(&text).len();
        self.report_in_file(path, &text, start, diagnostic);
    }

    fn check_environment(&mut self, path: &Path) {
        let Some(text) = self.text_of_file(path) else {
            return;
        };
        let mut at = 0;
        for line in lines_with_ends(&text) {
            let start = at;
            at += line.len();
            let Some((name, value)) = line.split_once('=') else {
                continue;
            };
            if name.trim_start().starts_with('#') {
                continue;
            }
            let begin = start + name.len() + 1;
            let name = name.trim();
            for found in unreplaced_variables(value)
                .iter()
                .filter(|found| found.has_braces())
            {
                let message = format!("`{}` in the value of `{name}` is not replaced", found.shown);
                let diagnostic = Diagnostic::note(Code::NotAVariable, message).with_help(&found.help);
                let place = begin + value.find(&found.begin).unwrap_or(0);
                self.report_in_file(path, &text, place, diagnostic);
            }
            let shown = value.trim();
            let place = begin + value.len() - value.trim_start().len();
            if is_kept_dollar(shown) {
                let message = format!("the value of `{name}` begins with a `$`, which is not replaced");
                let diagnostic = Diagnostic::note(Code::NotAVariable, message)
                    .with_help("write `${NAME}` if it is a variable");
                self.report_in_file(path, &text, place, diagnostic);
            }
            if let Some(comment) = value.find(" #").filter(|_| !shown.starts_with(['"', '\''])) {
                let message =
                    format!("` #` in the value of `{name}` begins no comment: the whole line is the value");
                let diagnostic = Diagnostic::note(Code::CutText, message)
                    .with_help("write comments on lines of their own");
                self.report_in_file(path, &text, begin + comment, diagnostic);
            }
        }
    }

    /// Reports a problem in a file whose lines are never shown.
    fn report_in_file(&mut self, path: &Path, text: &str, at: usize, diagnostic: Diagnostic) {
        let mut lines = lines_with_ends(text.get(..at).unwrap_or_default());
        let (mut line, mut column) = (1, 1);
        for before in &mut lines {
            if before.ends_with(['\n', '\r']) {
                (line, column) = (line + 1, 1);
            } else {
                column += before.chars().count();
            }
        }
        let span = Span { start: at, end: at };
        let path = path.into();
        let location = Location {
            path,
            line,
            column,
            span,
        };
        self.findings.diagnostics.push(diagnostic.at(location));
    }
}
