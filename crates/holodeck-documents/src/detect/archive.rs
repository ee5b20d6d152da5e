//! The format of a zip archive or an old Office file, read from its directory alone without expanding anything.

use crate::Format;

/// The format of an archive, or the subject of the error.
pub(super) fn kind(bytes: &[u8]) -> Result<Format, &'static str> {
    const MIMETYPE: &[u8] = b"mimetype";
    if bytes.get(30..38) == Some(MIMETYPE) {
        let media_type = bytes.get(38..bytes.len().min(138)).unwrap_or_default();
        let is = |name: &str| media_type.starts_with(name.as_bytes());
        return if is("application/vnd.oasis.opendocument.spreadsheet") {
            Ok(Format::Ods)
        } else if is("application/vnd.oasis.opendocument.text") {
            Err("OpenDocument texts are")
        } else if is("application/vnd.oasis.opendocument.presentation") {
            Err("OpenDocument presentations are")
        } else if is("application/epub+zip") {
            Err("EPUB books are")
        } else {
            Err("archives are")
        };
    }
    for entry in directory(bytes).map(|all| all.entries).unwrap_or_default() {
        let found = match entry.name.split(|byte| *byte == b'/').next() {
            Some(b"word") => Format::Docx,
            Some(b"ppt") => Format::Pptx,
            Some(b"xl") => Format::Xlsx,
            _ => continue,
        };
        return Ok(found);
    }
    truncated(bytes).ok_or("archives are")
}

/// A truncated file has no directory; the names of its first entries still identify it.
fn truncated(bytes: &[u8]) -> Option<Format> {
    let start = bytes.get(..bytes.len().min(16 * 1024))?;
    if end_of_directory(bytes).is_some() {
        return None;
    }
    let names: [(&[u8], Format); 3] = [
        (b"word/", Format::Docx),
        (b"ppt/", Format::Pptx),
        (b"xl/", Format::Xlsx),
    ];
    let mut names = names.into_iter();
    names.find_map(|(name, format)| super::contains(start, name).then_some(format))
}

/// The readable part of an archive's directory.
pub(crate) struct Directory<'a> {
    pub(crate) entries: Vec<Entry<'a>>,
    /// Whether there are more entries than the limit.
    pub(crate) more: bool,
}

/// The name of a file inside an archive, and its declared size.
pub(crate) struct Entry<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) expanded: u64,
}

/// Maximum number of files inside an archive: a workbook of a thousand sheets has a few thousand.
pub(crate) const MOST_ENTRIES: usize = 10_000;

/// The directory of an archive that has one.
pub(crate) fn directory(bytes: &[u8]) -> Option<Directory<'_>> {
    let end = end_of_directory(bytes)?;
    let size = u32_at(bytes, end + 12)? as usize;
    let mut at = end.checked_sub(size)?;
    let mut entries = Vec::new();
    while let Some(b"PK\x01\x02") = bytes.get(at..at + 4) {
        if entries.len() == MOST_ENTRIES {
            return Some(Directory { entries, more: true });
        }
        let Some((entry, next)) = entry(bytes, at) else {
            break;
        };
        entries.push(entry);
        at = next;
    }
    Some(Directory { entries, more: false })
}

/// An entry of the directory, and where the next one begins.
fn entry(bytes: &[u8], at: usize) -> Option<(Entry<'_>, usize)> {
    let expanded = u32_at(bytes, at + 24)?;
    let name_length = usize::from(u16_at(bytes, at + 28)?);
    let extra_length = usize::from(u16_at(bytes, at + 30)?);
    let comment_length = usize::from(u16_at(bytes, at + 32)?);
    let name = bytes.get(at + 46..at + 46 + name_length)?;
    let extra = at + 46 + name_length;
    // Sizes beyond 4 GiB are stored elsewhere; their presence is enough here.
    let expanded = match expanded {
        u32::MAX => wide_size(bytes.get(extra..extra + extra_length)?),
        size => u64::from(size),
    };
    Some((Entry { name, expanded }, extra + extra_length + comment_length))
}

fn wide_size(mut extra: &[u8]) -> u64 {
    const WIDE: u16 = 1;
    while let (Some(kind), Some(length)) = (u16_at(extra, 0), u16_at(extra, 2)) {
        if kind == WIDE {
            let size = extra.get(4..12).and_then(|size| size.try_into().ok());
            return size.map_or(u64::MAX, u64::from_le_bytes);
        }
        extra = extra.get(4 + usize::from(length)..).unwrap_or_default();
    }
    u64::MAX
}

/// Where the end record of an archive begins. Only a comment may follow it.
fn end_of_directory(bytes: &[u8]) -> Option<usize> {
    const LONGEST_COMMENT: usize = u16::MAX as usize;
    let last = bytes.len().checked_sub(22)?;
    let first = last.saturating_sub(LONGEST_COMMENT);
    (first..=last)
        .rev()
        .find(|at| bytes.get(*at..at + 4) == Some(b"PK\x05\x06"))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_le_bytes(bytes.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// The format of an old Office file, or the subject of the error. Its directory entries begin at multiples of 128 bytes
/// with a name in UTF-16.
pub(super) fn old_office(bytes: &[u8]) -> Result<Format, &'static str> {
    let kinds: [(&str, Result<Format, &'static str>); 6] = [
        ("Workbook", Ok(Format::Xls)),
        ("Book", Ok(Format::Xls)),
        ("WordDocument", Err("Word documents of the old kind are")),
        (
            "PowerPoint Document",
            Err("PowerPoint presentations of the old kind are"),
        ),
        ("EncryptedPackage", Err(PROTECTED)),
        ("__properties_version1.0", Err("Outlook messages are")),
    ];
    let kinds = kinds.map(|(name, kind)| {
        let name: Vec<u8> = name
            .encode_utf16()
            .chain([0])
            .flat_map(u16::to_le_bytes)
            .collect();
        (name, kind)
    });
    for entry in bytes.chunks(128) {
        if let Some((_, kind)) = kinds.iter().find(|(name, _)| entry.starts_with(name)) {
            return *kind;
        }
    }
    Err("files of this old kind are")
}

/// The subject of the error for a file that contains an encrypted one.
pub(super) const PROTECTED: &str = "documents protected by a password are";
