//! Reads the files of a source as texts, values with lines, and rows.

use std::{
    io,
    path::{Component, Path, PathBuf},
};

use holodeck_yaml::{ForeignError, ForeignNode, read_foreign, read_foreign_table, read_foreign_workbook};

use crate::writer::{VARIABLE_END, VARIABLE_START};

/// The files that a source consists of.
pub trait SourceFiles {
    /// The text of a file.
    fn read(&self, path: &Path) -> io::Result<String>;

    /// The bytes of a file that is not text.
    fn read_bytes(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// The files of a folder, sorted.
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>>;
}

/// Why a source cannot be imported.
#[derive(Debug, thiserror::Error)]
#[error("{}{}: {message}", .path.display(), line_suffix(*.line))]
pub struct ImportError {
    /// The file.
    pub path: PathBuf,
    /// The line, where it is known.
    pub line: Option<usize>,
    /// The reason.
    pub message: String,
}

fn line_suffix(line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(":{line}"))
}

impl ImportError {
    pub(crate) fn new(path: &Path, message: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line: None,
            message: message.into(),
        }
    }

    pub(crate) fn at(node: &ForeignNode, message: impl Into<String>) -> Self {
        Self {
            path: node.path.to_path_buf(),
            line: Some(node.line),
            message: message.into(),
        }
    }

    fn foreign(path: &Path, error: ForeignError) -> Self {
        Self {
            path: path.to_owned(),
            line: error.line,
            message: error.message,
        }
    }
}

/// The text of a file.
pub(crate) fn read_text(files: &dyn SourceFiles, path: &Path) -> Result<String, ImportError> {
    let text = files.read(path).map_err(|error| unreadable(path, &error))?;
    // The writer marks its own variables with these; a text that has them could pass for one.
    if text.contains([VARIABLE_START, VARIABLE_END]) {
        return Err(ImportError::new(
            path,
            "contains a character of Unicode's private use",
        ));
    }
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

fn unreadable(path: &Path, error: &io::Error) -> ImportError {
    let reason = match error.kind() {
        io::ErrorKind::NotFound => "there is no such file".to_owned(),
        _ => error.to_string(),
    };
    ImportError::new(path, format!("cannot be read: {reason}"))
}

/// The first sheet of a workbook, and what of the workbook is not in it.
pub(crate) fn read_workbook(
    files: &dyn SourceFiles,
    path: &Path,
) -> Result<(Vec<ForeignNode>, Vec<String>), ImportError> {
    let bytes = files.read_bytes(path).map_err(|error| unreadable(path, &error))?;
    let (rows, notes) =
        read_foreign_workbook(path, &bytes).map_err(|error| ImportError::foreign(path, error))?;
    let texts = rows
        .iter()
        .flat_map(ForeignNode::entries)
        .map(|(_, cell)| cell.to_json());
    if texts
        .filter_map(|text| Some(text.as_str()?.contains([VARIABLE_START, VARIABLE_END])))
        .any(|is_marked| is_marked)
    {
        return Err(ImportError::new(
            path,
            "contains a character of Unicode's private use",
        ));
    }
    Ok((rows, notes))
}

/// A file of YAML or JSON.
pub(crate) fn read_node(files: &dyn SourceFiles, path: &Path) -> Result<ForeignNode, ImportError> {
    let text = read_text(files, path)?;
    read_foreign(path, &text).map_err(|error| ImportError::foreign(path, error))
}

/// A table of comma-separated values.
pub(crate) fn read_rows(files: &dyn SourceFiles, path: &Path) -> Result<Vec<ForeignNode>, ImportError> {
    let text = read_text(files, path)?;
    read_foreign_table(path, &text).map_err(|error| ImportError::foreign(path, error))
}

/// A file with a JSON object on each line.
pub(crate) fn read_lines(files: &dyn SourceFiles, path: &Path) -> Result<Vec<ForeignNode>, ImportError> {
    let text = read_text(files, path)?;
    let mut nodes = Vec::new();
    for (index, line) in text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
    {
        let at = ForeignNode::new(path.into(), index + 1, holodeck_yaml::ForeignValue::Null);
        let value =
            serde_json::from_str(line).map_err(|error| ImportError::at(&at, format!("not JSON: {error}")))?;
        nodes.push(ForeignNode::from_json(&value, &at));
    }
    Ok(nodes)
}

/// The files that a path names, which may have `*` in its last part.
pub(crate) fn matching_files(files: &dyn SourceFiles, path: &Path) -> Result<Vec<PathBuf>, ImportError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if !name.contains('*') {
        return Ok(vec![path.to_owned()]);
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let all = files
        .list(folder)
        .map_err(|error| ImportError::new(folder, format!("cannot be listed: {error}")))?;
    let matches = |file: &PathBuf| {
        let file = file.file_name().unwrap_or_default().to_string_lossy();
        wildcard(&name, &file)
    };
    Ok(all.into_iter().filter(matches).collect())
}

/// Whether a name fits to a pattern in which `*` is any characters.
fn wildcard(pattern: &str, name: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(rest) = name.strip_prefix(before) else {
        return false;
    };
    rest.char_indices()
        .map(|(at, _)| at)
        .chain([rest.len()])
        .any(|at| rest.get(at..).is_some_and(|rest| wildcard(after, rest)))
}

/// A path without `.` and, where it can be, without `..`.
pub(crate) fn tidy_path(path: &Path) -> PathBuf {
    let mut tidy = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(tidy.components().next_back(), Some(Component::Normal(_))) => {
                tidy.pop();
            }
            part => tidy.push(part),
        }
    }
    tidy
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_characters() {
        for (pattern, name, fits) in [
            ("*.txt", "a.txt", true),
            ("*.txt", "a.txt.md", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXc", false),
        ] {
            assert_eq!(wildcard(pattern, name), fits, "{pattern} {name}");
        }
    }
}
