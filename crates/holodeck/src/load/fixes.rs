//! Edits files as diagnostics propose: what a person would type after reading the hint. It changes nothing else of a file.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use holodeck_model::Diagnostic;

use crate::agent::edited_file::replace_text;

/// A byte order mark, which places do not count.
const MARK: &str = "\u{feff}";

/// A file that was edited.
#[derive(Debug, PartialEq, Eq)]
pub struct FixedFile {
    /// As in the diagnostics.
    pub path: PathBuf,
    /// How many of its problems were solved.
    pub count: usize,
}

/// Why a file could not be edited. The files before it were.
#[derive(Debug, thiserror::Error)]
#[error("`{}` cannot be edited: {reason}", path.display())]
pub struct FixError {
    /// The file.
    pub path: PathBuf,
    reason: Reason,
}

#[derive(Debug, thiserror::Error)]
enum Reason {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it is not UTF-8")]
    Encoding,
    #[error("it changed meanwhile")]
    Changed,
}

/// Writes the texts that diagnostics propose into their files.
pub fn fix(diagnostics: &[Diagnostic]) -> Result<Vec<FixedFile>, FixError> {
    let mut files: BTreeMap<Arc<Path>, BTreeSet<(usize, usize, &str)>> = BTreeMap::new();
    for diagnostic in diagnostics {
        if let (Some(place), Some(text)) = (&diagnostic.primary, &diagnostic.fix) {
            // A file that was read twice has each problem twice.
            let edits = files.entry(Arc::clone(&place.path)).or_default();
            edits.insert((place.span.start, place.span.end, text));
        }
    }
    let mut fixed = Vec::new();
    for (path, edits) in files {
        edit(&path, &edits).map_err(|reason| FixError {
            path: path.to_path_buf(),
            reason,
        })?;
        fixed.push(FixedFile {
            path: path.to_path_buf(),
            count: edits.len(),
        });
    }
    Ok(fixed)
}

fn edit(path: &Path, edits: &BTreeSet<(usize, usize, &str)>) -> Result<(), Reason> {
    let text = String::from_utf8(fs::read(path)?).map_err(|_error| Reason::Encoding)?;
    let mark = if text.starts_with(MARK) { MARK.len() } else { 0 };
    let mut edited = text;
    // From the end, so that every place stays where it is.
    for (start, end, new) in edits.iter().rev() {
        let range: Range<usize> = start + mark..end + mark;
        if edited.get(range.clone()).is_none() {
            return Err(Reason::Changed);
        }
        edited.replace_range(range, new);
    }
    replace_text(path, &edited)?;
    Ok(())
}
