//! Targets for chunks and records.

use std::collections::HashSet;

use holodeck_documents::{
    ChunkOptions, Document, Format, RecordOptions, chunk, estimated_tokens, read_records,
};
use holodeck_model::{ChunkingStrategy, DocumentDomain};

use super::targets::{Outcome, Target, outcome, words};

pub(crate) const TARGETS: &[Target] = &[
    Target {
        name: "chunks",
        extension: "md",
        words: TEXT,
        run: chunks,
    },
    Target {
        name: "records",
        extension: "csv",
        words: RECORDS,
        run: records,
    },
];

const TEXT: &[&str] = &[
    "\n",
    "\n\n",
    "\r\n",
    "\t",
    "    ",
    "# ",
    "## 4.2 ",
    "###### ",
    "\n===\n",
    "\n---\n",
    "---\n",
    "\n```\n",
    "~~~",
    "- ",
    "1. ",
    "  - ",
    "| a | b |\n|---|---|\n",
    "| x |\n",
    "**",
    "*",
    "_",
    "\"",
    "“",
    "”",
    "(a) ",
    "(1)",
    "(i) ",
    "(AA) ",
    "Section 4.2 ",
    "SEC. 101. ",
    "§ 12(b)",
    "§§",
    "ARTICLE IV\n",
    "Schedule A",
    "Part 2—",
    "Division 1",
    "1.1 The ",
    "12A  Title",
    "Abstract\n",
    "subsection (2)",
    "and ",
    ", ",
    " of the Code",
    "\"X\" means ",
    "**Term**: ",
    "Term\n: ",
    "# Glossary\n",
    "means:\n\n(a) ",
    ". ",
    "e.g. ",
    "。",
    "é",
    "日",
    "🦀",
    "\u{a0}",
    "\u{2028}",
    "\0",
    "word word word word word word word word word word ",
];

const RECORDS: &[&str] = &[
    "\n",
    "\r\n",
    ",",
    ";",
    "\t",
    "|",
    "\"",
    "\"\"",
    "id",
    "text",
    "meta",
    "id,text,meta\n",
    "sep=;\n",
    "\u{feff}",
    "[",
    "]",
    "{",
    "}",
    ":",
    "{\"id\": 1, \"text\": \"a\"}",
    "\"items\": [",
    "\"id\":",
    "null",
    "true",
    "1e400",
    "18446744073709551616",
    "\\u0000",
    "\\ud800",
    "é",
    " ",
    "\0",
];

/// Splits a text into chunks: no text is lost, no chunk is too large, and the chunks are in the order of the text.
fn chunks(bytes: &[u8]) -> Outcome {
    let (head, text) = bytes.split_at(bytes.len().min(4));
    let byte = |index: usize| head.get(index).copied().unwrap_or_default();
    let text = String::from_utf8_lossy(text).into_owned();
    let options = ChunkOptions {
        strategy: if byte(0) & 1 == 0 {
            ChunkingStrategy::Structure
        } else {
            ChunkingStrategy::Token
        },
        domain: match byte(0) / 2 % 6 {
            0 => DocumentDomain::None,
            1 => DocumentDomain::UsLegislative,
            2 => DocumentDomain::AuLegislative,
            3 => DocumentDomain::Academic,
            4 => DocumentDomain::Technical,
            _ => DocumentDomain::LegalContract,
        },
        max_tokens: usize::from(byte(1)),
        overlap_tokens: usize::from(byte(2)),
        max_subsection_depth: (byte(3) < 8).then(|| usize::from(byte(3))),
        extract_definitions: true,
        extract_cross_references: true,
    };
    let document = Document {
        text,
        ..Document::default()
    };
    let text = document.text.as_str();
    let chunks = chunk(&document, &options);
    let (mut start, mut end) = (None, 0);
    for chunk in &chunks {
        assert!(
            estimated_tokens(&chunk.text) <= options.max_tokens.max(1),
            "{chunk:?}"
        );
        assert!(chunk.text.ends_with(&text[chunk.range.clone()]), "{chunk:?}");
        assert!(
            chunk.range.end > end && start.is_none_or(|start| chunk.range.start > start),
            "{chunk:?}"
        );
        if chunk.range.start > end {
            assert_eq!(text[end..chunk.range.start].trim(), "", "before {chunk:?}");
        }
        (start, end) = (Some(chunk.range.start), chunk.range.end);
    }
    assert_eq!(text[end..].trim(), "");
    let shapes: Vec<_> = chunks
        .iter()
        .take(8)
        .map(|chunk| {
            let found = (chunk.definitions.len().min(2), chunk.references.len().min(2));
            (
                chunk.headings.len(),
                chunk.section.as_ref().map(|section| section.len().min(6)),
                found,
            )
        })
        .collect();
    outcome(&(options.strategy, options.domain, chunks.len().min(8), shapes))
}

/// Splits a file into records: each has a unique id and a text.
fn records(bytes: &[u8]) -> Outcome {
    let (head, content) = bytes.split_at(bytes.len().min(1));
    let byte = head.first().copied().unwrap_or_default();
    let format = match byte % 4 {
        0 => Format::Csv,
        1 => Format::Tsv,
        2 => Format::Json,
        _ => Format::JsonLines,
    };
    let owned = |name: &str| (byte & 4 != 0).then(|| name.to_owned());
    let options = RecordOptions {
        id_field: "id".to_owned(),
        vector_fields: vec!["text".to_owned()],
        meta_fields: owned("meta").into_iter().collect(),
        field_separator: " ".to_owned(),
        delimiter: (byte & 8 != 0).then(|| ";".to_owned()),
        record_path: (byte & 16 != 0).then(|| "a.items".to_owned()),
        record_prefix: owned("r_"),
        meta_prefix: owned("m_"),
    };
    match read_records("file", format, content, &options) {
        Ok(read) => {
            let ids: HashSet<&str> = read.records.iter().map(|record| record.id.as_str()).collect();
            assert_eq!(ids.len(), read.records.len());
            assert!(
                read.records
                    .iter()
                    .all(|record| !record.text.trim().is_empty() && !record.id.is_empty())
            );
            let shapes: Vec<_> = read
                .records
                .iter()
                .take(6)
                .map(|record| record.metadata.len())
                .collect();
            outcome(&(byte % 4, read.records.len().min(6), shapes, read.notes.len()))
        }
        Err(error) => outcome(&(byte % 4, words(&error.problem.to_string()))),
    }
}
