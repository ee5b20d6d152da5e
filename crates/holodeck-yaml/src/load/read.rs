//! Reads text files within limits.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

use holodeck_model::{
    Code, Diagnostic, FileKind, Layer, Location, NotText, Source, Span, decode_text, near_file,
    same_length_lines,
};

use super::Loader;
use crate::yaml::{FileId, Place, SourceFile};

/// Maximum size of a file.
const MAX_BYTES: u64 = 10 * 1024 * 1024;

/// Maximum size of a data set of test cases.
pub(super) const MAX_DATA_BYTES: u64 = 256 * 1024 * 1024;

fn is_utf16(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff])
}

impl Loader<'_> {
    /// Reads the agent file, the only file that no other file references.
    pub(super) fn read_agent_file(&mut self, path: &Path) -> Option<FileId> {
        let shown = path.display();
        let diagnostic = match self.files.kind(path) {
            FileKind::File => return self.read_text(path, Layer::Agent, None),
            FileKind::Directory => {
                let diagnostic =
                    Diagnostic::error(Code::IsDirectory, format!("`{shown}` is a directory, not a file"));
                let diagnostic =
                    self.suggest_file(diagnostic, &[path.join("agent.yaml"), path.join("agent.yml")]);
                if diagnostic.help.is_some() {
                    diagnostic
                } else {
                    diagnostic
                        .with_help("name an agent file, as in `agent.yaml`; `holodeck init` creates one")
                }
            }
            FileKind::Missing => {
                let diagnostic = Diagnostic::error(Code::UnreadableFile, format!("`{shown}` does not exist"));
                let with = |extension| path.with_extension(extension);
                let diagnostic = self.suggest_file(diagnostic, &[with("yaml"), with("yml")]);
                match near_file(self.files, path) {
                    _ if diagnostic.help.is_some() => diagnostic,
                    Some(near) => {
                        let near = path.with_file_name(near);
                        diagnostic.with_help(format!("did you mean `{}`?", near.display()))
                    }
                    None => diagnostic.with_help("`holodeck init` creates a project that runs"),
                }
            }
        };
        self.findings.diagnostics.push(diagnostic);
        None
    }

    fn suggest_file(&self, diagnostic: Diagnostic, candidates: &[PathBuf; 2]) -> Diagnostic {
        match candidates
            .iter()
            .find(|candidate| self.files.kind(candidate) == FileKind::File)
        {
            Some(candidate) => diagnostic.with_help(format!("did you mean `{}`?", candidate.display())),
            None => diagnostic,
        }
    }

    /// Reads an existing file. `named_at` is the place in the YAML that references it.
    pub(super) fn read_text(&mut self, path: &Path, layer: Layer, named_at: Option<Place>) -> Option<FileId> {
        self.read_text_up_to(path, layer, named_at, MAX_BYTES)
    }

    /// As [`read_text`](Self::read_text), with another maximum size.
    pub(crate) fn read_text_up_to(
        &mut self,
        path: &Path,
        layer: Layer,
        named_at: Option<Place>,
        limit: u64,
    ) -> Option<FileId> {
        let bytes = self.read_bytes(path, named_at, limit)?;
        let text = match decode_text(bytes) {
            Ok(text) => text,
            Err(error) => {
                self.report_not_text(path, error);
                return None;
            }
        };
        let source = Source {
            path: path.into(),
            text: same_length_lines(text).into(),
        };
        Some(
            self.tree
                .add_file(SourceFile::new(source, layer).based_at(self.files)),
        )
    }

    /// Reads a data set as text. Every line that is not UTF-8 is reported, and the rest is still checked.
    pub(super) fn read_data_text(&mut self, path: &Path, named_at: Place) -> Option<FileId> {
        let bytes = self.read_bytes(path, Some(named_at), MAX_DATA_BYTES)?;
        let mut bad = Vec::new();
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) if is_utf16(error.as_bytes()) => match decode_text(error.into_bytes()) {
                Ok(text) => text,
                Err(error) => {
                    self.report_not_text(path, error);
                    return None;
                }
            },
            Err(error) => {
                let mut text = String::with_capacity(error.as_bytes().len());
                for chunk in error.as_bytes().utf8_chunks() {
                    text.push_str(chunk.valid());
                    if !chunk.invalid().is_empty() {
                        bad.push(text.len());
                        text.push(char::REPLACEMENT_CHARACTER);
                    }
                }
                text
            }
        };
        let (text, mark) = match text.strip_prefix('\u{feff}') {
            Some(rest) => (rest.to_owned(), text.len() - rest.len()),
            None => (text, 0),
        };
        let source = Source {
            path: path.into(),
            text: text.into(),
        };
        let file = self
            .tree
            .add_file(SourceFile::new(source, Layer::Agent).based_at(self.files));
        for at in bad {
            let start = u32::try_from(at.saturating_sub(mark)).unwrap_or(u32::MAX);
            let end = start.saturating_add(1);
            let diagnostic = Diagnostic::error(Code::InvalidUtf8, "this is not UTF-8 text")
                .about("test_cases_file")
                .with_help("save the file as UTF-8 (in Excel: \"CSV UTF-8\")");
            self.findings
                .add(&self.tree, Place { file, start, end }, diagnostic);
        }
        Some(file)
    }

    /// Reads at most `limit` bytes of an existing file; a larger one is an error.
    pub(super) fn read_bytes(&mut self, path: &Path, named_at: Option<Place>, limit: u64) -> Option<Vec<u8>> {
        let bytes = match self.files.read(path, limit + 1) {
            Ok(bytes) => bytes,
            Err(error) => {
                let reason = match error.kind() {
                    ErrorKind::PermissionDenied => "permission denied".to_owned(),
                    ErrorKind::NotFound => "it does not exist".to_owned(),
                    _ => error.to_string(),
                };
                self.report_unreadable(
                    path,
                    named_at,
                    Code::UnreadableFile,
                    &format!("cannot be read: {reason}"),
                    None,
                );
                return None;
            }
        };
        if bytes.len() as u64 > limit {
            let help = (limit >= MAX_BYTES)
                .then_some("split the test cases over several agents, and put data in separate files");
            let what = format!("is larger than {} MB", limit / (1024 * 1024));
            self.report_unreadable(path, named_at, Code::FileTooLarge, &what, help);
            return None;
        }
        Some(bytes)
    }

    fn report_unreadable(
        &mut self,
        path: &Path,
        named_at: Option<Place>,
        code: Code,
        what: &str,
        help: Option<&str>,
    ) {
        let mut diagnostic = Diagnostic::error(code, format!("`{}` {what}", path.display()));
        diagnostic.help = help.map(str::to_owned);
        match named_at {
            Some(place) => self.findings.add(&self.tree, place, diagnostic),
            None => self.findings.diagnostics.push(diagnostic),
        }
    }

    fn report_not_text(&mut self, path: &Path, error: NotText) {
        let location = Location {
            path: path.into(),
            line: error.line,
            column: error.column,
            span: Span {
                start: error.offset,
                end: error.offset + 1,
            },
        };
        let message = format!("`{}` is not {} text", path.display(), error.encoding);
        let diagnostic = Diagnostic::error(Code::InvalidUtf8, message)
            .at(location)
            .with_help("save the file as UTF-8");
        self.findings.diagnostics.push(diagnostic);
    }
}
