//! Converts parser events to nodes, within limits.

mod lint;
mod mistakes;
mod syntax;

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
    sync::Arc,
};

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, StrInput, Tag};
use holodeck_model::{Code, Diagnostic, Env, substitute};

use super::tree::{Entry, FileId, NodeId, Place, Text, Tree};

/// Maximum nesting depth.
pub(crate) const MAX_DEPTH: usize = 100;
/// Maximum number of nodes in a file, counting each alias as the nodes that it refers to.
pub(crate) const MAX_NODES: u64 = 1_000_000;

/// The rest of a file is not parsed after this number of errors.
const MAX_ERRORS: usize = 100;

/// The result of parsing a file.
#[derive(Debug)]
pub(crate) struct BuildResult {
    /// The document; absent if the file is empty or cannot be parsed.
    pub(crate) root: Option<NodeId>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// Parses a file or a part of it, such as its front matter, into the tree.
///
/// With an `env`, variables in scalar values are replaced.
pub(crate) fn build(tree: &mut Tree, file: FileId, range: Range<usize>, env: Option<&Env>) -> BuildResult {
    let text = tree.file_text(file);
    let base = range.start;
    build_part(tree, file, base, text.get(range).unwrap_or_default(), env)
}

/// As [`build`], of a text in place of the part of a file that begins at `base` and is as long.
pub(crate) fn build_masked(tree: &mut Tree, file: FileId, base: usize, part: &str) -> BuildResult {
    build_part(tree, file, base, part, None)
}

fn build_part(tree: &mut Tree, file: FileId, base: usize, part: &str, env: Option<&Env>) -> BuildResult {
    let text = tree.file_text(file);
    tree.reserve(part.len());
    let options = granit_parser::options! {
        emit_comments: false,
        emit_unresolved_aliases: true,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    let mut builder = Builder {
        parser: Parser::new_from_str_with_options(part, options),
        text: text.clone(),
        tree,
        file,
        base,
        env,
        anchors: HashMap::new(),
        node_count: 0,
        diagnostics: Vec::new(),
    };
    let root = builder.document().unwrap_or(None);
    let diagnostics = builder.diagnostics;
    match root {
        Some(root) => tree.add_root(root),
        None if !diagnostics.is_empty() => tree.mark_broken(file),
        None => {}
    }
    BuildResult { root, diagnostics }
}

/// The rest of the file cannot be parsed; a diagnostic has the reason.
struct Stop;

/// A complete node with its size and height, including aliases.
#[derive(Clone, Copy)]
struct BuiltNode {
    id: NodeId,
    size: u64,
    height: usize,
}

struct Builder<'a> {
    parser: Parser<'a, StrInput<'a>>,
    text: Arc<str>,
    tree: &'a mut Tree,
    file: FileId,
    base: usize,
    env: Option<&'a Env>,
    anchors: HashMap<usize, BuiltNode>,
    node_count: u64,
    diagnostics: Vec<Diagnostic>,
}

impl<'a> Builder<'a> {
    fn document(&mut self) -> Result<Option<NodeId>, Stop> {
        let mut root = None;
        loop {
            let (event, place) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentEnd => {}
                Event::DocumentStart(..) if root.is_none() => {
                    let (event, place) = self.next()?;
                    root = Some(self.node(event, place, 0)?.id);
                }
                Event::DocumentStart(..) => {
                    self.report(
                        Code::MultipleDocuments,
                        "the file contains more than one YAML document",
                        place,
                    );
                    self.help("remove this `---` and everything after it, or move it to a separate file");
                    return Err(Stop);
                }
                _ => break,
            }
        }
        // A file with only `---` or comments counts as empty.
        Ok(root.filter(|root| !self.tree.is_null(*root)))
    }

    fn node(&mut self, event: Event<'a>, place: Place, depth: usize) -> Result<BuiltNode, Stop> {
        self.count_nodes(1, place)?;
        if self.diagnostics.len() > MAX_ERRORS {
            return Err(Stop);
        }
        if depth > MAX_DEPTH {
            return Err(self.report_too_deep(place));
        }
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let as_text = self.check_tag(tag.as_deref(), place);
                let text = if text == "~" && place.start == place.end {
                    ""
                } else {
                    text.as_ref()
                };
                let id = self.scalar(text, style == ScalarStyle::Plain && !as_text, place);
                Ok(self.finish(
                    anchor,
                    BuiltNode {
                        id,
                        size: 1,
                        height: 1,
                    },
                ))
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.check_tag(tag.as_deref(), place);
                let node = self.sequence(place, depth)?;
                Ok(self.finish(anchor, node))
            }
            Event::MappingStart(_, anchor, tag) => {
                self.check_tag(tag.as_deref(), place);
                let node = self.mapping(place, depth)?;
                Ok(self.finish(anchor, node))
            }
            Event::Alias(anchor) => self.alias(anchor, place, depth),
            Event::UnresolvedAlias(name) => {
                self.report(
                    Code::UnknownAnchor,
                    format!("`*{name}` is not defined above this line"),
                    place,
                );
                self.help(format!(
                    "a text that begins with `*` needs quotes; an alias needs `&{name}` where the value first appears"
                ));
                let id = self.tree.seq_node(place, &[]);
                Ok(BuiltNode {
                    id,
                    size: 1,
                    height: 1,
                })
            }
            _ => {
                self.report(Code::YamlSyntax, "a value is expected here", place);
                Err(Stop)
            }
        }
    }

    fn scalar(&mut self, text: &str, plain: bool, place: Place) -> NodeId {
        lint::check_scalar(self.tree, &self.text, text, plain, place, self.env);
        if let Some(result) = self.env.and_then(|env| substitute(text, env)) {
            for name in &result.missing {
                self.report_missing_variable(name, place);
            }
            self.tree.add_secret_variables(result.secrets);
            let text = self.tree.own_text(result.text);
            let id = self.tree.scalar_node(place, text, plain, true);
            if !result.missing.is_empty() {
                self.tree.mark_incomplete(id);
            }
            self.tree.add_variables(id, result.names);
            return id;
        }
        let text = self
            .in_file(text, place)
            .unwrap_or_else(|| self.tree.own_text(text));
        self.tree.scalar_node(place, text, plain, false)
    }

    /// The part of the file that is identical to this text: a scalar without escapes and line folding.
    fn in_file(&self, text: &str, place: Place) -> Option<Text> {
        let raw = self.text.get(place.start as usize..place.end as usize)?;
        let start = if raw.starts_with(text) {
            place.start
        } else if raw.get(1..)?.starts_with(text) {
            place.start + 1
        } else {
            return None;
        };
        Some(Text::InFile {
            start,
            end: start + u32::try_from(text.len()).ok()?,
        })
    }

    fn report_missing_variable(&mut self, name: &str, place: Place) {
        let mut at = place;
        let raw = self
            .text
            .get(place.start as usize..place.end as usize)
            .unwrap_or_default();
        let reference = format!("${{{name}");
        if let Some(offset) = raw.find(&reference).and_then(|offset| u32::try_from(offset).ok()) {
            at.start = place.start + offset;
            at.end = at.start + u32::try_from(reference.len() + 1).unwrap_or(1);
        }
        self.report(
            Code::MissingVariable,
            format!("environment variable `{name}` is not set"),
            at,
        );
        self.help(format!(
            "set it in the shell or in `.env` beside the agent file; `${{{name}:-value}}` sets a default, `$${{{name}}}` is the literal text"
        ));
    }

    fn sequence(&mut self, start: Place, depth: usize) -> Result<BuiltNode, Stop> {
        let mut items = Vec::new();
        let (mut size, mut height) = (1, 0);
        let end = loop {
            let (event, place) = self.next()?;
            if event == Event::SequenceEnd {
                break place;
            }
            let node = self.node(event, place, depth + 1)?;
            size += node.size;
            height = height.max(node.height);
            items.push(node.id);
        };
        let id = self.tree.seq_node(flow_place(start, end), &items);
        Ok(BuiltNode {
            id,
            size,
            height: height + 1,
        })
    }

    fn mapping(&mut self, start: Place, depth: usize) -> Result<BuiltNode, Stop> {
        let mut own: Vec<Entry> = Vec::new();
        let mut merged: Vec<Entry> = Vec::new();
        let mut first_places: HashMap<u32, Place> = HashMap::new();
        let (mut size, mut height) = (1, 0);
        let mut is_broken = false;
        let end = loop {
            let (event, place) = self.next()?;
            if event == Event::MappingEnd {
                break place;
            }
            let key = self.key(event, place, depth)?;
            let (event, value_place) = self.next()?;
            // A missing value is shown at its key.
            let is_absent = is_missing(&event, value_place);
            let node = self.node(event, if is_absent { place } else { value_place }, depth + 1)?;
            size += node.size + 1;
            height = height.max(node.height);
            match key {
                Some(Key::Merge) => self.merge(node.id, &mut merged)?,
                Some(Key::Text(key)) => {
                    let entry = self.tree.entry(&key, place, node.id);
                    if first_places.contains_key(&entry.key_id()) {
                        self.tree.drop_entry(entry);
                    }
                    if let Some(first) = first_places.insert(entry.key_id(), place) {
                        first_places.insert(entry.key_id(), first);
                        self.report(
                            Code::DuplicateKey,
                            format!("`{key}` appears twice in the same mapping"),
                            place,
                        );
                        let first = self.tree.location(first);
                        if let Some(diagnostic) = self.diagnostics.last_mut() {
                            *diagnostic = diagnostic.clone().with_label(first, "first here");
                        }
                        self.help("keep one of them");
                    } else {
                        own.push(entry);
                    }
                }
                // A value without a key may be a secret.
                None => {
                    is_broken = true;
                    let entry = self.tree.entry("secret", place, node.id);
                    self.tree.drop_entry(entry);
                }
            }
        };
        let mut key_ids: HashSet<u32> = first_places.into_keys().collect();
        own.extend(merged.into_iter().filter(|entry| key_ids.insert(entry.key_id())));
        let place = if self.is_flow(start) {
            flow_place(start, end)
        } else {
            own.first().map_or(start, |entry| entry.key_place)
        };
        let id = self.tree.map_node(place, &own);
        if is_broken {
            self.tree.mark_incomplete(id);
        }
        Ok(BuiltNode {
            id,
            size,
            height: height + 1,
        })
    }

    fn is_flow(&self, start: Place) -> bool {
        self.text.as_bytes().get(start.start as usize) == Some(&b'{')
    }

    /// Reads a key; `None` if it is not valid.
    fn key(&mut self, event: Event<'a>, place: Place, depth: usize) -> Result<Option<Key>, Stop> {
        if let Event::Scalar(text, style, 0, None) = &event {
            self.count_nodes(1, place)?;
            let plain = *style == ScalarStyle::Plain;
            if is_missing(&event, place) {
                self.report(Code::KeyNotText, "a key is missing before this colon", place);
                return Ok(None);
            }
            return Ok(match text.as_ref() {
                "<<" if plain => Some(Key::Merge),
                text => Some(Key::Text(text.to_owned())),
            });
        }
        let node = self.node(event, place, depth + 1)?;
        let nameless = self.tree.entry("secret", place, node.id);
        if let Some(scalar) = self.tree.scalar(node.id) {
            return Ok(Some(Key::Text(scalar.text.to_owned())));
        }
        self.tree.drop_entry(nameless);
        self.report(
            Code::KeyNotText,
            "a key must be a string, not a list or a mapping",
            place,
        );
        let begin = self.text.get(place.start.saturating_sub(1) as usize..);
        let is_placeholder = begin.is_some_and(|rest| rest.starts_with("{{"));
        self.help(if is_placeholder {
            "a text that begins with `{{` needs quotes: `\"{{…}}\"`"
        } else {
            "a value that begins with `{` or `[` needs quotes if it is a string"
        });
        Ok(None)
    }

    /// Collects the entries that a merge key adds.
    fn merge(&mut self, value: NodeId, merged: &mut Vec<Entry>) -> Result<(), Stop> {
        let sources = match self.tree.items(value) {
            Some(items) => items.to_vec(),
            None => vec![value],
        };
        for source in sources {
            let at = self.tree.place(source);
            let Some(entries) = self.tree.entries(source).map(<[Entry]>::to_vec) else {
                self.report(
                    Code::BadMerge,
                    "`<<` must be followed by a mapping or a list of mappings",
                    at,
                );
                continue;
            };
            self.count_nodes(entries.len() as u64, at)?;
            merged.extend(entries.into_iter().map(|entry| entry.merged_from(source)));
        }
        Ok(())
    }

    fn alias(&mut self, anchor: usize, place: Place, depth: usize) -> Result<BuiltNode, Stop> {
        let Some(target) = self.anchors.get(&anchor).copied() else {
            self.report(
                Code::UnknownAnchor,
                "this alias refers to a value that contains it",
                place,
            );
            return Err(Stop);
        };
        self.count_nodes(target.size, place)?;
        if depth + target.height > MAX_DEPTH {
            return Err(self.report_too_deep(place));
        }
        let id = self.tree.alias_node(place, target.id);
        Ok(BuiltNode { id, ..target })
    }

    fn finish(&mut self, anchor: usize, node: BuiltNode) -> BuiltNode {
        if anchor != 0 {
            self.anchors.insert(anchor, node);
        }
        node
    }

    /// Whether a tag makes the scalar a string. Tags outside the YAML core are reported.
    fn check_tag(&mut self, tag: Option<&Tag>, place: Place) -> bool {
        let Some(tag) = tag else { return false };
        match tag.core_suffix() {
            Some("str") => true,
            Some("int" | "float" | "bool" | "null" | "seq" | "map") => false,
            _ if tag.original() == "!" => true,
            _ => {
                self.report(
                    Code::UnsupportedTag,
                    format!("the tag `{}` is not supported", tag.original()),
                    place,
                );
                self.help("write the value itself; files are read only for fields that expect a path");
                false
            }
        }
    }

    fn count_nodes(&mut self, nodes: u64, place: Place) -> Result<(), Stop> {
        self.node_count = self.node_count.saturating_add(nodes);
        if self.node_count <= MAX_NODES {
            return Ok(());
        }
        self.report(
            Code::TooManyNodes,
            "the file expands to more than 1,000,000 values",
            place,
        );
        self.help(
            "aliases (`*name`) repeat everything that they refer to; split the file or use fewer aliases",
        );
        Err(Stop)
    }

    fn report_too_deep(&mut self, place: Place) -> Stop {
        self.report(
            Code::TooDeep,
            format!("nested more than {MAX_DEPTH} levels deep"),
            place,
        );
        Stop
    }

    fn next(&mut self) -> Result<(Event<'a>, Place), Stop> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => {
                let range = span.byte_range().unwrap_or_default();
                Ok((event, self.place(range.start, range.end)))
            }
            Some(Err(error)) => Err(self.syntax_error(&error)),
            None => Ok((Event::StreamEnd, self.place(0, 0))),
        }
    }

    fn place(&self, start: usize, end: usize) -> Place {
        let offset = |at: usize| u32::try_from(self.base + at).unwrap_or(u32::MAX);
        Place {
            file: self.file,
            start: offset(start),
            end: offset(end.max(start)),
        }
    }

    fn syntax_error(&mut self, error: &ScanError) -> Stop {
        let offset = error.marker().byte_offset().unwrap_or(0);
        let place = self.place(offset, offset);
        if *error.kind() == ErrorKind::RecursionLimitExceeded {
            return self.report_too_deep(place);
        }
        let text = self.text.clone();
        let offset = place.start as usize;
        let line = |at: usize| text.get(..at).unwrap_or_default().matches('\n').count() + 1;
        let last = self
            .diagnostics
            .last()
            .filter(|last| last.code == Code::UnknownAnchor);
        if last
            .and_then(|last| last.primary.as_ref())
            .is_some_and(|last| last.line == line(offset))
        {
            // The rest of a text that begins with `*`.
            return Stop;
        }
        // Tabs before the parsed part of the file do not count.
        let tab = syntax::tab_near(&text, offset, error.kind()).and_then(|tab| tab.checked_sub(self.base));
        if let Some(tab) = tab {
            let tab = self.place(tab, tab + 1);
            self.report(Code::TabIndentation, "a tab is used for indentation", tab);
            self.help("use spaces; most editors can convert the file");
            return Stop;
        }
        if !syntax::comment_near(&text, offset)
            && let Some(mistake) = mistakes::find(&text, offset, error.kind())
            && let Some(offset) = mistake.offset.checked_sub(self.base)
        {
            let place = self.place(offset, offset + 1);
            self.report(Code::YamlSyntax, mistake.message, place);
            self.help(mistake.help);
            return Stop;
        }
        self.report(Code::YamlSyntax, syntax::message(error.kind()), place);
        if let Some(help) = syntax::help(error.kind(), &text, offset) {
            self.help(help);
        }
        Stop
    }

    fn report(&mut self, code: Code, message: impl Into<String>, place: Place) {
        let location = self.tree.location(place);
        self.diagnostics
            .push(Diagnostic::error(code, message).at(location));
    }

    fn help(&mut self, help: impl Into<String>) {
        if let Some(diagnostic) = self.diagnostics.last_mut() {
            diagnostic.help = Some(help.into());
        }
    }
}

/// Whether a value is missing; the parser reports it as `~`.
fn is_missing(event: &Event<'_>, place: Place) -> bool {
    matches!(event, Event::Scalar(_, ScalarStyle::Plain, ..)) && place.start == place.end
}

enum Key {
    Text(String),
    Merge,
}

/// The place of a flow collection with its brackets; a block collection has no end marker.
fn flow_place(start: Place, end: Place) -> Place {
    if end.end > end.start {
        Place {
            end: end.end,
            ..start
        }
    } else {
        Place {
            end: start.end.max(start.start),
            ..start
        }
    }
}
