//! Reads the system prompt, removes its front matter and hashes it.

use std::ops::Range;

use holodeck_model::{
    Code, Diagnostic, FileKind, InstructionsSource, JsonMap, Layer, ResolvedInstructions, hex, unix_lines,
};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::Loader;
use crate::{
    check::{Findings, check_shape},
    schema::{self, FrontMatter},
    yaml::{Entry, FileId, NodeId, Place, from_tree},
};

impl Loader<'_> {
    /// Returns `None` only if an error was reported.
    pub(super) fn resolve_instructions(&mut self, root: NodeId) -> Option<ResolvedInstructions> {
        let inline = self
            .tree
            .find(root, "instructions.inline")
            .filter(|node| !self.tree.is_null(*node));
        if let Some(scalar) = inline.and_then(|node| self.tree.scalar(node)) {
            return Some(build_instructions(
                scalar.text.to_owned(),
                InstructionsSource::Inline,
            ));
        }
        let node = self
            .tree
            .find(root, "instructions.file")
            .filter(|node| !self.tree.is_null(*node))?;
        let place = self.tree.place(node);
        let path = self.tree.dir(place).join(self.tree.scalar(node)?.text);
        if self.files.kind(&path) != FileKind::File {
            return None;
        }
        let file = self.read_text(&path, Layer::Agent, Some(place))?;
        let text = self.tree.file_text(file);
        let parts = split_front_matter(&text);
        let body = text.get(parts.body.clone()).unwrap_or_default().trim();
        let mut instructions = build_instructions(unix_lines(body).into_owned(), InstructionsSource::File);
        instructions.file_path = Some(path);
        if let Some(range) = parts.front_matter {
            self.read_front_matter(file, range, &mut instructions)?;
        } else if is_unclosed(&text) {
            let start = Place {
                file,
                start: 0,
                end: 3,
            };
            let message = "the front matter does not end: the whole file is the prompt";
            let diagnostic = Diagnostic::warning(Code::BadFrontMatter, message)
                .with_help("end it with a line of `---`; if it is a part of the prompt, put text before it");
            self.findings.add(&self.tree, start, diagnostic);
        }
        if instructions.text.is_empty() {
            let diagnostic =
                Diagnostic::warning(Code::Blank, "the instruction file contains no instructions")
                    .about("instructions.file");
            self.findings.add(&self.tree, place, diagnostic);
        }
        Some(instructions)
    }

    fn read_front_matter(
        &mut self,
        file: FileId,
        range: Range<usize>,
        instructions: &mut ResolvedInstructions,
    ) -> Option<()> {
        let start = Place {
            file,
            start: 0,
            end: 3,
        };
        let Some(root) = self.build_front_matter(file, range).ok()? else {
            return Some(());
        };
        if self.tree.entries(root).is_none() {
            let diagnostic = Diagnostic::error(Code::BadFrontMatter, "the front matter is not a mapping")
                .with_help("if the `---` is a part of the prompt, put text before it");
            self.findings.add(&self.tree, start, diagnostic);
            return None;
        }
        // Other keys are stored but not used, so differences to YAML 1.1 do not matter.
        let mut findings = Findings::default();
        check_shape(&self.tree, &schema::FRONT_MATTER, root, &mut findings);
        if findings.has_errors() {
            self.findings
                .diagnostics
                .extend(findings.diagnostics.into_iter().filter(Diagnostic::is_error));
            return None;
        }
        let known: FrontMatter = from_tree(&self.tree, root).unwrap_or_default();
        if let Some(version) = known.version {
            instructions.version = version;
        }
        instructions.author = known.author;
        instructions.description = known.description;
        instructions.tags = known.tags.unwrap_or_default();
        instructions.extra = self.extra_keys(root);
        Some(())
    }

    fn extra_keys(&self, root: NodeId) -> JsonMap {
        let is_known = |entry: &&Entry| {
            matches!(
                self.tree.key(entry),
                "version" | "author" | "description" | "tags"
            )
        };
        let entries = self.tree.entries(root).unwrap_or_default();
        entries
            .iter()
            .filter(|entry| !is_known(entry))
            .filter_map(|entry| {
                let value: Value = from_tree(&self.tree, entry.value).ok()?;
                Some((self.tree.key(entry).to_owned(), value))
            })
            .collect()
    }
}

fn build_instructions(text: String, source: InstructionsSource) -> ResolvedInstructions {
    let body_hash = hex(&Sha256::digest(text.as_bytes()));
    let version = format!("auto-{}", body_hash.get(..8).unwrap_or_default());
    ResolvedInstructions {
        text,
        source,
        file_path: None,
        version,
        author: None,
        description: None,
        tags: Vec::new(),
        extra: JsonMap::new(),
        body_hash,
    }
}

pub(crate) struct Parts {
    pub(crate) front_matter: Option<Range<usize>>,
    pub(crate) body: Range<usize>,
}

/// Finds a block between two lines of `---` at the top of a file. `...` ends it as well, as it ends a document of YAML.
pub(crate) fn split_front_matter(text: &str) -> Parts {
    let whole = Parts {
        front_matter: None,
        body: 0..text.len(),
    };
    let start = text.len() - trim_begin(text).len();
    let mut lines = lines_with_ends(text.get(start..).unwrap_or_default());
    let Some(first) = lines.next().filter(|line| is_fence(line)) else {
        return whole;
    };
    let block = start + first.len();
    let mut at = block;
    for line in lines {
        if is_fence(line) || line.trim_end() == "..." {
            return Parts {
                front_matter: Some(block..at),
                body: at + line.len()..text.len(),
            };
        }
        at += line.len();
    }
    whole
}

/// A text without the blanks and invisible characters at its beginning.
pub(crate) fn trim_begin(text: &str) -> &str {
    let is_invisible = |character: char| matches!(character, '\u{feff}' | '\u{200b}' | '\u{2060}');
    text.trim_start_matches(|character: char| character.is_whitespace() || is_invisible(character))
}

/// Lines with what ends them: LF, CR LF or CR.
pub(crate) fn lines_with_ends(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.split_inclusive('\n');
    lines.flat_map(|line| {
        // Only the last CR may belong to the line's end.
        let end = line.len() - if line.ends_with("\r\n") { 2 } else { 0 };
        let (before, rest) = line.split_at_checked(end).unwrap_or((line, ""));
        let mut pieces: Vec<&str> = before.split_inclusive('\r').collect();
        match pieces.pop() {
            Some(last) if !last.ends_with('\r') => pieces.push(line.get(end - last.len()..).unwrap_or(last)),
            Some(last) => pieces.extend([last, rest].into_iter().filter(|piece| !piece.is_empty())),
            None => pieces.push(rest),
        }
        pieces
    })
}

/// Whether a text begins as front matter does and never ends it.
fn is_unclosed(text: &str) -> bool {
    let mut lines = lines_with_ends(trim_begin(text)).filter(|line| !line.trim().is_empty());
    let is_key = |line: &str| {
        let key = line
            .split_once(':')
            .filter(|(_, value)| value.starts_with([' ', '\t', '\r', '\n']));
        let is_part = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
        key.is_some_and(|(key, _)| !key.is_empty() && key.chars().all(is_part))
    };
    lines.next().is_some_and(is_fence) && lines.next().is_some_and(is_key)
}

pub(crate) fn is_fence(line: &str) -> bool {
    let line = line.trim_end();
    line.len() >= 3 && line.bytes().all(|byte| byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, front_matter: Option<&str>, body: &str) {
        let parts = split_front_matter(text);
        assert_eq!(parts.front_matter.map(|range| &text[range]), front_matter);
        assert_eq!(text[parts.body].trim(), body);
    }

    #[test]
    fn front_matter_is_a_fenced_block_at_the_top() {
        check("---\nversion: 2\n---\nHello\n", Some("version: 2\n"), "Hello");
        check(
            "---\r\nversion: 2\r\n---\r\nHello\r\n",
            Some("version: 2\r\n"),
            "Hello",
        );
        check("---\n---\nHello", Some(""), "Hello");
        check(
            "Hello\n---\nversion: 2\n---\n",
            None,
            "Hello\n---\nversion: 2\n---",
        );
        check("---\nno end", None, "---\nno end");
        check("", None, "");
    }
}
