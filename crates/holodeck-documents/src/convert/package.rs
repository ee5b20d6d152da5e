//! The parts of an Office file, with limits on their expanded size.

use std::{
    collections::HashMap,
    io::{Cursor, ErrorKind, Read as _},
};

use zip::{ZipArchive, result::ZipError};

use crate::{
    Format, Limit, Problem,
    detect::archive::{self, MOST_ENTRIES},
};

use super::xml::{Step, Xml};

/// Limit on the expanded size of all parts together.
const MOST_EXPANDED: u64 = 256 * 1024 * 1024;

pub(super) struct Package<'a> {
    archive: ZipArchive<Cursor<&'a [u8]>>,
    /// Position of each part, by lowercase name.
    parts: HashMap<String, usize>,
    format: Format,
    left: u64,
}

/// A reference from one part to another.
pub(super) struct Relation {
    /// The last segment of its type, such as `slide`.
    pub(super) kind: String,
    /// The name of the part, or an address outside of the file.
    pub(super) target: String,
    pub(super) external: bool,
}

/// Rejects archives that would expand too far before expanding anything.
pub(super) fn check(bytes: &[u8], format: Format) -> Result<(), Problem> {
    let directory = archive::directory(bytes).ok_or_else(|| Problem::Broken {
        format,
        reason: "the directory of the archive is missing".to_owned(),
    })?;
    if directory.more {
        return Err(Limit::Entries(MOST_ENTRIES as u64).into());
    }
    let sizes = directory.entries.iter().map(|entry| entry.expanded);
    if sizes.fold(0, u64::saturating_add) > MOST_EXPANDED {
        return Err(Limit::Expanded(MOST_EXPANDED).into());
    }
    Ok(())
}

impl<'a> Package<'a> {
    pub(super) fn open(bytes: &'a [u8], format: Format) -> Result<Self, Problem> {
        check(bytes, format)?;
        let archive = ZipArchive::new(Cursor::new(bytes)).map_err(|error| broken(format, &error))?;
        let mut parts = HashMap::new();
        for (at, name) in archive.file_names_raw().enumerate() {
            let name = String::from_utf8_lossy(name)
                .replace('\\', "/")
                .to_ascii_lowercase();
            parts.insert(name, at);
        }
        Ok(Self {
            archive,
            parts,
            format,
            left: MOST_EXPANDED,
        })
    }

    /// A part's content. Its declared size is not trusted.
    pub(super) fn part(&mut self, name: &str) -> Result<Option<Vec<u8>>, Problem> {
        let Some(at) = self.parts.get(&name.to_ascii_lowercase()) else {
            return Ok(None);
        };
        let format = self.format;
        let part = self
            .archive
            .by_index(*at)
            .map_err(|error| broken(format, &error))?;
        let mut bytes = Vec::new();
        let read = part.take(self.left + 1).read_to_end(&mut bytes);
        read.map_err(|error| match error.kind() {
            ErrorKind::OutOfMemory => Limit::Memory(0).into(),
            _ => Problem::Broken {
                format,
                reason: format!("{name}: {error}"),
            },
        })?;
        self.left = self
            .left
            .checked_sub(bytes.len() as u64)
            .ok_or(Limit::Expanded(MOST_EXPANDED))?;
        Ok(Some(bytes))
    }

    /// A required part.
    pub(super) fn required(&mut self, name: &str) -> Result<Vec<u8>, Problem> {
        let format = self.format;
        self.part(name)?.ok_or_else(|| Problem::Broken {
            format,
            reason: format!("{name} is missing"),
        })
    }

    /// The name of the main part, or its usual name.
    pub(super) fn main(&mut self, usual: &str) -> Result<String, Problem> {
        let relations = self.relations("")?;
        let mut relations = relations.into_values();
        let main = relations.find(|relation| relation.kind == "officeDocument");
        Ok(main.map_or_else(|| usual.to_owned(), |relation| relation.target))
    }

    /// The title in the properties of the document.
    pub(super) fn title(&mut self) -> Result<Option<String>, Problem> {
        let Some(bytes) = self.part("docProps/core.xml")? else {
            return Ok(None);
        };
        let mut xml = Xml::new(&bytes, self.format);
        while let Some(step) = xml.step()? {
            if let Step::Start(element) = step
                && element.name() == "title"
            {
                let title = xml.text()?.trim().to_owned();
                return Ok(Some(title).filter(|title| !title.is_empty()));
            }
        }
        Ok(None)
    }

    /// The relations of a part, by their ids.
    pub(super) fn relations(&mut self, part: &str) -> Result<HashMap<String, Relation>, Problem> {
        let (folder, file) = part.rsplit_once('/').unwrap_or(("", part));
        let prefix = if folder.is_empty() {
            String::new()
        } else {
            format!("{folder}/")
        };
        let mut relations = HashMap::new();
        let Some(bytes) = self.part(&format!("{prefix}_rels/{file}.rels"))? else {
            return Ok(relations);
        };
        let mut xml = Xml::new(&bytes, self.format);
        while let Some(step) = xml.step()? {
            let Step::Start(element) = step else { continue };
            if element.name() != "Relationship" {
                continue;
            }
            let get = |name: &str| element.get(name).unwrap_or_default();
            let external = get("TargetMode") == "External";
            let target = get("Target");
            let kind = get("Type");
            let relation = Relation {
                kind: kind.rsplit('/').next().unwrap_or_default().to_owned(),
                target: if external {
                    target
                } else {
                    resolve(folder, &target)
                },
                external,
            };
            relations.insert(get("Id"), relation);
        }
        Ok(relations)
    }
}

/// The name of a part, relative to a folder.
fn resolve(folder: &str, target: &str) -> String {
    if let Some(absolute) = target.strip_prefix('/') {
        return absolute.to_owned();
    }
    let mut path: Vec<&str> = folder.split('/').filter(|step| !step.is_empty()).collect();
    for step in target.split('/') {
        match step {
            ".." => {
                path.pop();
            }
            "" | "." => {}
            step => path.push(step),
        }
    }
    path.join("/")
}

fn broken(format: Format, error: &ZipError) -> Problem {
    match error {
        ZipError::UnsupportedArchive(reason) if *reason == ZipError::PASSWORD_REQUIRED => Problem::Encrypted,
        error => Problem::Broken {
            format,
            reason: error.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::resolve;

    #[test]
    fn names_are_meant_from_the_folder_of_the_part() {
        assert_eq!(
            resolve("ppt/slides", "../notesSlides/notesSlide1.xml"),
            "ppt/notesSlides/notesSlide1.xml"
        );
        assert_eq!(resolve("word", "/word/footnotes.xml"), "word/footnotes.xml");
        assert_eq!(resolve("", "../../word/document.xml"), "word/document.xml");
    }
}
