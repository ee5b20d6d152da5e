//! Front matter that is not YAML, read line by line as Claude Code does: `key: text up to the end of the line`.

use std::ops::Range;

use crate::yaml::{Entry, FileId, NodeId, Place, Text, Tree};

/// The lines `key: text`; `None` if another line is not a part of that form. Indented lines continue the text before.
pub(super) fn read(tree: &mut Tree, file: FileId, range: Range<usize>) -> Option<NodeId> {
    let source = tree.file_text(file);
    let text = source.get(range.clone())?;
    let mut found: Vec<(Range<usize>, Range<usize>)> = Vec::new();
    let mut at = range.start;
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let content = line.trim_end();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        if content.starts_with([' ', '\t']) {
            let (_, value) = found.last_mut()?;
            value.end = start + content.len();
            continue;
        }
        let (key, _) = content.split_once(':')?;
        let is_key = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
        if key.is_empty()
            || !key.chars().all(is_key)
            || found
                .iter()
                .any(|(known, _)| source.get(known.clone()) == Some(key))
        {
            return None;
        }
        let value = content.get(key.len() + 1..).unwrap_or_default();
        let blank = value.len() - value.trim_start().len();
        let value_start = start + key.len() + 1 + blank;
        found.push((start..start + key.len(), value_start..start + content.len()));
    }
    let place = |range: &Range<usize>| Place {
        file,
        start: super::offset(range.start),
        end: super::offset(range.end),
    };
    let mut entries: Vec<Entry> = Vec::new();
    for (key, value) in &found {
        let name = source.get(key.clone()).unwrap_or_default();
        let written = source.get(value.clone()).unwrap_or_default();
        let quote = written
            .chars()
            .next()
            .filter(|character| "\"'".contains(*character));
        let unquoted = quote.and_then(|quote| written.strip_prefix(quote)?.strip_suffix(quote));
        let text: Text = tree.own_text(unquoted.unwrap_or(written));
        // A text that only begins like an alias or a list is no other value.
        let node = tree.scalar_node(place(value), text, written.is_empty(), false);
        entries.push(tree.entry(name, place(key), node));
    }
    (!entries.is_empty()).then(|| {
        let root = tree.map_node(place(&range), &entries);
        tree.add_root(root);
        root
    })
}
