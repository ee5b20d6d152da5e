//! Reads the system prompt, removes its front matter and hashes it.

use std::ops::Range;

use holodeck_model::{
    Code, Diagnostic, FileKind, InstructionsSource, JsonMap, Layer, ResolvedInstructions, lines_with_ends,
    unix_lines,
};
use serde_json::Value;

use super::{
    Loader,
    fences::{FrontMatterEnd, Unread, first_line, split_front_matter},
};
use crate::{
    check::{Findings, check_shape},
    schema::{self, FrontMatter},
    yaml::{Entry, FileId, NodeId, Place, Tree, from_tree},
};

/// The next step for a prompt that begins as front matter does.
const OWN_TEXT: &str = "if it is a part of the prompt, put text before it";

/// Fields that other programs have in the front matter of a prompt. They have no effect here.
const FIELDS: [&str; 40] = [
    "agent",
    "aliases",
    "allowed-tools",
    "argument-hint",
    "authors",
    "categories",
    "category",
    "config",
    "created",
    "date",
    "id",
    "input",
    "inputs",
    "keywords",
    "lang",
    "language",
    "license",
    "max_tokens",
    "metadata",
    "mode",
    "model",
    "name",
    "output",
    "outputs",
    "owner",
    "parameters",
    "provider",
    "role",
    "sample",
    "schema",
    "slug",
    "source",
    "status",
    "summary",
    "temperature",
    "title",
    "tools",
    "type",
    "updated",
    "variables",
];

impl Loader<'_> {
    /// Returns `None` only if an error was reported.
    pub(super) fn resolve_instructions(&mut self, root: NodeId) -> Option<ResolvedInstructions> {
        let has = |field| {
            let node = self.tree.find(root, field);
            node.is_some_and(|node| !self.tree.is_null(node))
        };
        let is_none = self.tree.find(root, "instructions").is_some_and(|node| {
            let word = self.tree.scalar(node);
            word.is_some_and(|word| word.text == "none")
        });
        if is_none || has("target") && !has("instructions") {
            return Some(ResolvedInstructions::new(String::new(), InstructionsSource::None));
        }
        let inline = self
            .tree
            .find(root, "instructions.inline")
            .filter(|node| !self.tree.is_null(*node));
        if let Some(scalar) = inline.and_then(|node| self.tree.scalar(node)) {
            return Some(ResolvedInstructions::new(
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
        let mut instructions =
            ResolvedInstructions::new(unix_lines(body).into_owned(), InstructionsSource::File);
        instructions.file_path = Some(path);
        if let Some(range) = parts.front_matter {
            let end = parts.end;
            self.read_front_matter(file, range, end, &mut instructions)?;
        } else if let Some(unread) = Unread::of(&text) {
            let message = format!("{}: the whole file is the prompt", unread.problem());
            let help = format!("{}; {OWN_TEXT}", unread.help());
            let diagnostic = Diagnostic::warning(Code::BadFrontMatter, message).with_help(help);
            self.findings.add(&self.tree, first_line(file, &text), diagnostic);
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
        end: FrontMatterEnd,
        instructions: &mut ResolvedInstructions,
    ) -> Option<()> {
        let text = self.tree.file_text(file);
        let start = first_line(file, &text);
        let has_text = text
            .get(range.clone())
            .is_some_and(|block| !block.trim().is_empty());
        let Some(root) = self.build_front_matter(file, range.clone()).ok()? else {
            if has_text {
                let message = "the front matter has only comments, which are not sent to the model";
                let diagnostic = Diagnostic::warning(Code::BadFrontMatter, message).with_help(OWN_TEXT);
                self.findings.add(&self.tree, start, diagnostic);
            }
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
        self.warn_of_lost_text(root, end, &instructions.extra);
        self.warn_of_comments(file, range, root);
        Some(())
    }

    /// Reports what is read as front matter and may be a part of the prompt: keys that neither this program nor others have
    /// there, and anything unknown before dots, which a prompt may have on a line of their own.
    fn warn_of_lost_text(&mut self, root: NodeId, end: FrontMatterEnd, extra: &JsonMap) {
        let is_lost = |key: &&String| end == FrontMatterEnd::Dots || !FIELDS.contains(&key.as_str());
        for key in extra.keys().filter(is_lost) {
            let Some(place) = self.tree.get(root, key).map(|entry| entry.key_place) else {
                continue;
            };
            let (message, help) = match end {
                FrontMatterEnd::Dots => (
                    format!(
                        "`{key}` is read as front matter, which ends at `...`, and not sent to the model"
                    ),
                    format!("end front matter with `---`; {OWN_TEXT}"),
                ),
                FrontMatterEnd::Fence => (
                    format!("`{key}` is read as front matter, and not sent to the model"),
                    format!("{OWN_TEXT}, such as a heading before the first `---`"),
                ),
            };
            let diagnostic = Diagnostic::warning(Code::BadFrontMatter, message)
                .about(key)
                .with_help(help);
            self.findings.add(&self.tree, place, diagnostic);
        }
    }

    /// Reports the comments between and beside keys: in a prompt they may be headings or a part of a sentence.
    fn warn_of_comments(&mut self, file: FileId, block: Range<usize>, root: NodeId) {
        let text = self.tree.file_text(file);
        let texts = text_places(&self.tree, root);
        for range in comments(&text, block, &texts) {
            let comment = text.get(range.clone()).unwrap_or_default();
            if comment.trim_matches(['#', ' ', '\t']).is_empty() {
                continue;
            }
            let shown: String = comment.chars().take(60).collect();
            let cut = if shown.len() < comment.len() { "…" } else { "" };
            let message =
                format!("`{shown}{cut}` is a comment of the front matter, and not sent to the model");
            let diagnostic = Diagnostic::warning(Code::BadFrontMatter, message)
                .with_help(format!("{OWN_TEXT}, such as a heading before the first `---`"));
            // The size of a file is limited.
            let offset = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
            let place = Place {
                file,
                start: offset(range.start),
                end: offset(range.end),
            };
            self.findings.add(&self.tree, place, diagnostic);
        }
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

/// The places of the keys and texts of a mapping, in their order.
fn text_places(tree: &Tree, root: NodeId) -> Vec<Place> {
    let (mut places, mut open) = (Vec::new(), vec![root]);
    while let Some(node) = open.pop() {
        if tree.is_alias(node) {
            continue;
        }
        if let Some(entries) = tree.entries(node) {
            places.extend(entries.iter().map(|entry| entry.key_place));
            open.extend(entries.iter().map(|entry| entry.value));
        } else if let Some(items) = tree.items(node) {
            open.extend(items);
        } else {
            places.push(tree.place(node));
        }
    }
    places.sort_by_key(|place| place.start);
    places
}

/// The comments of a block of YAML whose texts are at these places.
fn comments(source: &str, block: Range<usize>, texts: &[Place]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = block.start;
    for line in lines_with_ends(source.get(block).unwrap_or_default()) {
        let (start, content) = (at, line.trim_end());
        at += line.len();
        let begin = content
            .match_indices('#')
            .map(|(column, _)| column)
            .find(|column| {
                let before = content.get(..*column).unwrap_or_default();
                before.is_empty()
                    || before.ends_with([' ', '\t']) && !is_in_text(source, start + column, before, texts)
            });
        found.extend(begin.map(|column| start + column..start + content.len()));
    }
    found
}

/// Whether a `#` is a part of a text. What stands behind the `|` or `>` of a block is none, on the same line.
fn is_in_text(source: &str, at: usize, line_before: &str, texts: &[Place]) -> bool {
    let last = texts.partition_point(|place| place.start as usize <= at);
    let Some(place) = last.checked_sub(1).and_then(|last| texts.get(last)) else {
        return false;
    };
    let (start, end) = (place.start as usize, place.end as usize);
    let is_first_line = at - start < line_before.len();
    let is_block = source
        .get(start..)
        .is_some_and(|text| text.starts_with(['|', '>']));
    at < end && !(is_block && is_first_line)
}
