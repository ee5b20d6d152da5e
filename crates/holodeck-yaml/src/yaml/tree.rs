//! The arena of nodes, and the files they come from.

mod source_file;

use std::{
    collections::{HashMap, HashSet},
    fmt,
    num::NonZeroU32,
    path::Path,
    sync::Arc,
};

pub(crate) use source_file::SourceFile;

use holodeck_model::{Diagnostic, Layer, Location, PlainCase, Source, Span, TextRange};

/// A node of the tree, counted from 1 so that `Option<NodeId>` has the same size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NodeId(NonZeroU32);

/// A file of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FileId(u16);

/// A range of bytes in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) file: FileId,
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// A value and where it was written. Small, because a file may contain ten thousand test cases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) place: Place,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Scalar {
        text: Text,
        plain: bool,
        substituted: bool,
    },
    Seq(Slice),
    Map(Slice),
    Alias(NodeId),
    /// A row of a data set that is a valid plain case, in the side table of these.
    Row(u32),
}

/// A part of one of the arena's side tables.
#[derive(Clone, Copy, Debug)]
struct Slice {
    start: u32,
    len: u32,
}

/// The text of a scalar, usually a part of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Text {
    /// Bytes of the file.
    InFile { start: u32, end: u32 },
    /// A separate text: unescaped, folded or substituted.
    Owned(u32),
}

/// A key of a mapping with its value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    key: u32,
    pub(crate) key_place: Place,
    pub(crate) value: NodeId,
    /// The alias or mapping of the merge key that added the entry, if any.
    merged: Option<NodeId>,
}

impl Entry {
    /// The same key has the same id everywhere in the tree.
    pub(crate) fn key_id(&self) -> u32 {
        self.key
    }

    /// The same key with another value.
    pub(crate) fn with_value(self, value: NodeId) -> Self {
        Self { value, ..self }
    }

    /// The entry as added by a merge key.
    pub(super) fn merged_from(self, from: NodeId) -> Self {
        Self {
            merged: Some(from),
            ..self
        }
    }
}

/// The content of a scalar node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scalar<'t> {
    pub(crate) text: &'t str,
    /// Written without quotes, so that `3` is a number.
    pub(crate) plain: bool,
    /// Contains the value of an environment variable, which must not be shown.
    pub(crate) substituted: bool,
}

/// Nodes and files of one load.
#[derive(Default)]
pub(crate) struct Tree {
    files: Vec<SourceFile>,
    nodes: Vec<Node>,
    items: Vec<NodeId>,
    entries: Vec<Entry>,
    rows: Vec<PlainCase>,
    texts: Vec<Box<str>>,
    keys: Vec<Arc<str>>,
    key_ids: HashMap<Arc<str>, u32>,
    /// The documents of the files.
    roots: Vec<NodeId>,
    /// Entries that are in no mapping: the later ones of a key that appears twice.
    dropped: Vec<Entry>,
    /// Files that could not be parsed.
    broken: Vec<FileId>,
    /// Values of variables whose names indicate a secret.
    secret_variables: Vec<String>,
    /// Scalars with a missing variable, which is already reported.
    incomplete: HashSet<NodeId>,
    /// The names of the variables in scalars.
    variables: HashMap<NodeId, Vec<String>>,
    /// Texts that are probably not as meant.
    warnings: Vec<(Place, Diagnostic)>,
}

/// Maximum number of warnings about texts.
const MAX_WARNINGS: usize = 1000;

/// The node for an invalid id; never used, because only the tree creates ids.
const INVALID: Node = Node {
    place: Place {
        file: FileId(0),
        start: 0,
        end: 0,
    },
    kind: Kind::Seq(Slice { start: 0, len: 0 }),
};

impl Tree {
    /// Adds a file.
    pub(crate) fn add_file(&mut self, file: SourceFile) -> FileId {
        let id = FileId(u16::try_from(self.files.len()).unwrap_or(u16::MAX));
        self.files.push(file);
        id
    }

    pub(crate) fn file(&self, id: FileId) -> Option<&SourceFile> {
        self.files.get(usize::from(id.0))
    }

    pub(crate) fn file_text(&self, id: FileId) -> Arc<str> {
        self.file(id)
            .map_or_else(|| "".into(), |file| file.source.text.clone())
    }

    /// Adds the document of a file.
    pub(crate) fn add_root(&mut self, root: NodeId) {
        self.roots.push(root);
    }

    pub(crate) fn roots(&self) -> &[NodeId] {
        &self.roots
    }

    /// Stores an entry that is in no mapping: its value is still in the file and may be a secret.
    pub(crate) fn drop_entry(&mut self, entry: Entry) {
        self.dropped.push(entry);
    }

    pub(crate) fn dropped_entries(&self) -> &[Entry] {
        &self.dropped
    }

    /// Marks a file as not valid YAML.
    pub(crate) fn mark_broken(&mut self, file: FileId) {
        self.broken.push(file);
    }

    /// The file could be parsed in another way.
    pub(crate) fn mark_parsed(&mut self, file: FileId) {
        self.broken.retain(|broken| *broken != file);
    }

    pub(crate) fn is_broken(&self, file: FileId) -> bool {
        self.broken.contains(&file)
    }

    pub(crate) fn mark_incomplete(&mut self, node: NodeId) {
        self.incomplete.insert(node);
    }

    /// Whether the value is unknown because a variable in it is not set, or a key of it cannot be read.
    pub(crate) fn is_incomplete(&self, node: NodeId) -> bool {
        !self.incomplete.is_empty() && self.incomplete.contains(&self.resolve(node))
    }

    pub(crate) fn add_variables(&mut self, scalar: NodeId, names: Vec<String>) {
        if !names.is_empty() {
            self.variables.insert(scalar, names);
        }
    }

    /// The scalars below a node that contain variables: the path of each, its place and the names.
    pub(crate) fn variables(&self, root: NodeId) -> Vec<(String, Place, &[String])> {
        let mut found = Vec::new();
        let mut left = vec![(String::new(), root)];
        if self.variables.is_empty() {
            return found;
        }
        while let Some((path, node)) = left.pop() {
            let below = |step: &str| match path.as_str() {
                "" => step.to_owned(),
                path => format!("{path}.{step}"),
            };
            if let Some(names) = self.variables.get(&self.resolve(node)) {
                found.push((path, self.place(node), names.as_slice()));
            } else if let Some(items) = self.items(node) {
                let items = items.iter().enumerate();
                left.extend(items.map(|(index, item)| (below(&index.to_string()), *item)));
            } else if let Some(entries) = self.entries(node) {
                left.extend(entries.iter().map(|entry| (below(self.key(entry)), entry.value)));
            }
        }
        found.sort();
        found
    }

    pub(crate) fn add_warning(&mut self, place: Place, diagnostic: Diagnostic) {
        // Hostile files can cause millions.
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings.push((place, diagnostic));
        }
    }

    /// The warnings about texts, for the findings.
    pub(crate) fn take_warnings(&mut self) -> Vec<(Place, Diagnostic)> {
        std::mem::take(&mut self.warnings)
    }

    pub(crate) fn add_secret_variables(&mut self, values: Vec<String>) {
        self.secret_variables.extend(values);
    }

    pub(crate) fn secret_variables(&self) -> &[String] {
        &self.secret_variables
    }

    /// The directory that paths written at this place are relative to.
    pub(crate) fn dir(&self, place: Place) -> &Path {
        self.file(place.file).map_or(Path::new(""), |file| &file.dir)
    }

    /// The same directory, independent of the working directory: the base of the paths in a loaded agent.
    pub(crate) fn base(&self, place: Place) -> &Path {
        self.file(place.file).map_or(Path::new(""), |file| &file.base)
    }

    /// The layer of the file of this place.
    pub(crate) fn layer(&self, place: Place) -> Layer {
        self.file(place.file).map_or(Layer::BuiltIn, |file| file.layer)
    }

    /// A place with its line and column.
    pub(crate) fn location(&self, place: Place) -> Location {
        let (start, end) = (place.start as usize, place.end as usize);
        let Some(file) = self.file(place.file) else {
            return Location {
                path: Path::new("").into(),
                line: 1,
                column: 1,
                span: Span::default(),
            };
        };
        let (line, column) = file.line_column(start);
        Location {
            path: file.source.path.clone(),
            line,
            column,
            span: Span { start, end },
        }
    }

    pub(crate) fn scalar_node(&mut self, place: Place, text: Text, plain: bool, substituted: bool) -> NodeId {
        self.push(
            place,
            Kind::Scalar {
                text,
                plain,
                substituted,
            },
        )
    }

    pub(crate) fn seq_node(&mut self, place: Place, items: &[NodeId]) -> NodeId {
        let slice = Slice {
            start: index(self.items.len()),
            len: index(items.len()),
        };
        self.items.extend_from_slice(items);
        self.push(place, Kind::Seq(slice))
    }

    pub(crate) fn map_node(&mut self, place: Place, entries: &[Entry]) -> NodeId {
        let slice = Slice {
            start: index(self.entries.len()),
            len: index(entries.len()),
        };
        self.entries.extend_from_slice(entries);
        self.push(place, Kind::Map(slice))
    }

    /// A row of a data set that needs no check: a case with nothing but these texts, none of which is blank, begins a
    /// variable or contains a URL.
    pub(crate) fn row_node(&mut self, place: Place, row: PlainCase) -> NodeId {
        self.rows.push(row);
        self.push(place, Kind::Row(index(self.rows.len() - 1)))
    }

    pub(crate) fn alias_node(&mut self, place: Place, target: NodeId) -> NodeId {
        self.push(place, Kind::Alias(target))
    }

    fn push(&mut self, place: Place, kind: Kind) -> NodeId {
        self.nodes.push(Node { place, kind });
        NodeId(NonZeroU32::new(index(self.nodes.len())).unwrap_or(NonZeroU32::MAX))
    }

    pub(crate) fn own_text(&mut self, text: impl Into<Box<str>>) -> Text {
        self.texts.push(text.into());
        Text::Owned(index(self.texts.len() - 1))
    }

    pub(crate) fn entry(&mut self, key: &str, key_place: Place, value: NodeId) -> Entry {
        let id = if let Some(id) = self.key_ids.get(key) {
            *id
        } else {
            let key: Arc<str> = key.into();
            let id = index(self.keys.len());
            self.keys.push(key.clone());
            self.key_ids.insert(key, id);
            id
        };
        Entry {
            key: id,
            key_place,
            value,
            merged: None,
        }
    }

    fn node(&self, id: NodeId) -> &Node {
        self.nodes.get(id.0.get() as usize - 1).unwrap_or(&INVALID)
    }

    /// Where a node was written; for an alias, where it is used.
    pub(crate) fn place(&self, id: NodeId) -> Place {
        self.node(id).place
    }

    /// The node that an alias refers to, or the node itself.
    pub(crate) fn resolve(&self, id: NodeId) -> NodeId {
        let mut id = id;
        while let Kind::Alias(target) = self.node(id).kind {
            id = target;
        }
        id
    }

    pub(crate) fn is_alias(&self, id: NodeId) -> bool {
        matches!(self.node(id).kind, Kind::Alias(_))
    }

    pub(crate) fn scalar(&self, id: NodeId) -> Option<Scalar<'_>> {
        let node = self.node(self.resolve(id));
        let Kind::Scalar {
            text,
            plain,
            substituted,
        } = node.kind
        else {
            return None;
        };
        let text = match text {
            Text::InFile { start, end } => self
                .file(node.place.file)?
                .source
                .text
                .get(start as usize..end as usize)
                .unwrap_or_default(),
            Text::Owned(id) => self.texts.get(id as usize).map_or("", |text| text),
        };
        Some(Scalar {
            text,
            plain,
            substituted,
        })
    }

    pub(crate) fn row(&self, id: NodeId) -> Option<PlainCase> {
        match self.node(self.resolve(id)).kind {
            Kind::Row(row) => self.rows.get(row as usize).copied(),
            _ => None,
        }
    }

    /// Where the text of a scalar is in this file; nothing if it is not written there exactly so.
    pub(crate) fn text_range(&self, id: NodeId, file: FileId) -> Option<TextRange> {
        let node = self.node(self.resolve(id));
        match node.kind {
            Kind::Scalar {
                text: Text::InFile { start, end },
                ..
            } if node.place.file == file => Some(TextRange::new(start..end)),
            _ => None,
        }
    }

    pub(crate) fn items(&self, id: NodeId) -> Option<&[NodeId]> {
        match self.node(self.resolve(id)).kind {
            Kind::Seq(slice) => Some(part(&self.items, slice)),
            _ => None,
        }
    }

    pub(crate) fn entries(&self, id: NodeId) -> Option<&[Entry]> {
        match self.node(self.resolve(id)).kind {
            Kind::Map(slice) => Some(part(&self.entries, slice)),
            _ => None,
        }
    }

    pub(crate) fn key(&self, entry: &Entry) -> &str {
        self.keys.get(entry.key as usize).map_or("", |key| key)
    }

    pub(crate) fn get(&self, map: NodeId, key: &str) -> Option<&Entry> {
        let key = *self.key_ids.get(key)?;
        self.entries(map)?.iter().find(|entry| entry.key == key)
    }

    /// Whether a node has no value: `~`, `null` or nothing.
    pub(crate) fn is_null(&self, id: NodeId) -> bool {
        self.scalar(id)
            .is_some_and(|scalar| scalar.plain && super::scalar::is_null(scalar.text))
    }

    /// The node at a path such as `test_cases.3.input`.
    pub(crate) fn find(&self, root: NodeId, pointer: &str) -> Option<NodeId> {
        pointer
            .split('.')
            .filter(|step| !step.is_empty())
            .try_fold(root, |node, step| {
                if let Some(items) = self.items(node) {
                    items.get(step.parse::<usize>().ok()?).copied()
                } else {
                    self.get(node, step).map(|entry| entry.value)
                }
            })
    }

    /// The place of the merge key that added an entry, if any.
    pub(crate) fn merged_at(&self, entry: &Entry) -> Option<Place> {
        entry.merged.map(|from| self.place(from))
    }

    /// Reserves memory for a file of this length; growing by doubling would temporarily need twice the memory.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.nodes.reserve(bytes / 24);
        self.entries.reserve(bytes / 32);
    }

    /// Reserves memory for this many rows of a data set, for the same reason.
    pub(crate) fn reserve_rows(&mut self, rows: usize) {
        self.nodes.reserve(rows);
        self.rows.reserve(rows);
    }

    /// Releases memory that is needed only while loading.
    pub(crate) fn shrink(&mut self) {
        self.nodes.shrink_to_fit();
        self.items.shrink_to_fit();
        self.entries.shrink_to_fit();
        // Only reading the cases needs the texts of rows.
        self.rows = Vec::new();
        self.texts.shrink_to_fit();
    }

    /// The files, for rendering.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (FileId, &Source)> {
        let ids = (0..=u16::MAX).map(FileId);
        ids.zip(self.files.iter().map(|file| &file.source))
    }
}

/// Omits the content of the nodes: it may contain secrets from the environment.
impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree")
            .field("files", &self.files.len())
            .field("nodes", &self.nodes.len())
            .finish_non_exhaustive()
    }
}

fn index(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn part<T>(table: &[T], slice: Slice) -> &[T] {
    let start = slice.start as usize;
    table.get(start..start + slice.len as usize).unwrap_or_default()
}
